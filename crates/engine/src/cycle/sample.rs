//! Samples: some of the nodes that can take a pod, with their scores, for a scheduler that decides elsewhere.
//!
//! A sample runs the same plugins as a decision. It looks only at nodes that [`DrawNodes`] draws, or takes the
//! best nodes of a ranking, and it changes nothing.

use std::cmp::Reverse;

use framework::{Cluster, NodeBits, NodeIx, Status, Verdicts};

use super::{Cycle, PreFiltered, ScheduleError};

/// Maximum number of draws of one sample.
pub const MAX_DRAWS: usize = 5;

/// Draws the nodes of a sample: the part of a sampling strategy that depends on the node table.
pub trait DrawNodes {
    /// Adds up to `missing` nodes of the cluster to `drawn`. `seen` has the nodes of earlier draws of this
    /// sample, which are not drawn again.
    fn draw(&mut self, cluster: &Cluster, missing: usize, seen: &NodeBits, drawn: &mut NodeBits);
}

/// The nodes that a sample is made of.
pub enum Selection<'a> {
    /// Nodes that are drawn, up to [`MAX_DRAWS`] times, until enough of them can take the pod.
    Drawn(&'a mut dyn DrawNodes),
    /// The nodes with the highest scores of all.
    Best,
}

/// A node of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledNode {
    /// The node.
    pub node: NodeIx,
    /// Sum of its weighted scores.
    pub score: i64,
}

/// Nodes that can take a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    /// The nodes; the highest score first, in the order of the cluster's table among equals.
    pub nodes: Vec<SampledNode>,
    /// Sum of the weights of the Score plugins: a score divided by it lies between 0 and 100.
    pub weight: i64,
    /// Number of nodes that were looked at.
    pub looked_at: usize,
}

impl Cycle<'_, '_> {
    /// Returns up to `count` nodes that can take the pod.
    ///
    /// # Errors
    /// No node of the cluster can take the pod, or a plugin or extender failed.
    pub(crate) fn sample(
        &mut self,
        selection: Selection<'_>,
        count: usize,
    ) -> Result<Sample, ScheduleError> {
        if self.view.cluster().node_count() == 0 {
            return Err(ScheduleError::NoNodes);
        }
        self.reject_invalid_pod()?;
        let class = self.resume_class();
        let sample = match selection {
            Selection::Drawn(draw) => self.drawn_sample(draw, count),
            Selection::Best => self.pre_filter().and_then(|own| self.best_sample(&own, count)),
        };
        if let Some(class) = class {
            self.suspend_class(&class);
        }
        let mut sample = sample?;
        sample.nodes.sort_by_key(|sampled| (Reverse(sampled.score), sampled.node));
        sample.weight = self.profile.score.iter().map(|plugin| plugin.weight).sum();
        Ok(sample)
    }

    /// Checks whether one node can take the pod, and leaves the state that Reserve needs.
    ///
    /// # Errors
    /// The verdict on the node, or the failure of a plugin or extender.
    pub(crate) fn check_node(&mut self, node: NodeIx) -> Result<(), Status> {
        self.reject_invalid_pod().map_err(ScheduleError::into_status)?;
        let pre_filtered = self.pre_filter().map_err(ScheduleError::into_status)?;
        if let Some((names, plugins)) = &pre_filtered.restriction
            && !names.contains(self.view.cluster().node_name(node))
        {
            let status =
                Status::unresolvable("node(s) didn't satisfy the restrictions of PreFilter");
            return Err(plugins.first().map_or(status.clone(), |plugin| status.by(plugin)));
        }
        self.filter_one(node).map_err(ScheduleError::into_status)?.ok()?;
        let (mut nodes, mut verdicts) = (vec![node], Verdicts::default());
        self.filter_by_extenders(&mut nodes, &mut verdicts)?;
        match verdicts.explicit(node) {
            Some(status) if nodes.is_empty() => Err(status.clone()),
            _ => Ok(()),
        }
    }

    /// Draws nodes and filters them until enough have passed. If none has, takes the best of all nodes: the
    /// pod may fit on few of them.
    fn drawn_sample(
        &mut self,
        draw: &mut dyn DrawNodes,
        count: usize,
    ) -> Result<Sample, ScheduleError> {
        let pre_filtered = self.pre_filter()?;
        let candidates = self.candidates(&pre_filtered);
        let cluster = self.view.cluster();
        let (mut seen, mut drawn) = (NodeBits::default(), NodeBits::default());
        let mut found: Vec<NodeIx> = Vec::new();
        for _ in 0..MAX_DRAWS {
            if found.len() >= count {
                break;
            }
            drawn.clear();
            draw.draw(cluster, count - found.len(), &seen, &mut drawn);
            if drawn.is_empty() {
                break;
            }
            seen.union(&drawn);
            drawn.intersect(&candidates);
            found.extend(self.passing(&drawn)?);
        }
        if found.is_empty() {
            return self.best_sample(&pre_filtered, count);
        }
        Ok(Sample { nodes: self.scored(found)?, weight: 0, looked_at: seen.count() })
    }

    /// Returns the drawn nodes that pass every filter.
    fn passing(&mut self, drawn: &NodeBits) -> Result<Vec<NodeIx>, ScheduleError> {
        self.filter_set(drawn).map_err(ScheduleError::Error)?;
        self.filter_nominated(drawn)?;
        let mut nodes: Vec<NodeIx> = self.scratch.candidates.iter().collect();
        let mut verdicts = Verdicts::default();
        self.filter_by_extenders(&mut nodes, &mut verdicts).map_err(ScheduleError::Error)?;
        Ok(nodes)
    }

    /// Scores nodes, also a single one: its score is compared with those of other clusters.
    fn scored(&mut self, mut nodes: Vec<NodeIx>) -> Result<Vec<SampledNode>, ScheduleError> {
        nodes.sort_unstable();
        self.scratch.feasible.nodes = nodes;
        self.scratch.feasible.totals.clear();
        self.score().map_err(ScheduleError::Error)?;
        let feasible = &self.scratch.feasible;
        let scored = feasible.nodes.iter().zip(&feasible.totals);
        Ok(scored.map(|(node, score)| SampledNode { node: *node, score: *score }).collect())
    }

    /// Returns the best of all nodes, from a ranking if there is one. Draws among equally good nodes.
    fn best_sample(
        &mut self,
        pre_filtered: &PreFiltered,
        count: usize,
    ) -> Result<Sample, ScheduleError> {
        let looked_at = self.view.cluster().node_count();
        if let Some(nodes) = self.search_top(pre_filtered, count)? {
            return Ok(Sample { nodes, weight: 0, looked_at });
        }
        self.scratch.feasible.nodes.clear();
        self.filter_all(pre_filtered, None)?;
        let found = std::mem::take(&mut self.scratch.feasible.nodes);
        let mut nodes = self.scored(found)?;
        // Shuffled first, so that the draw is fair.
        self.rng.shuffle(&mut nodes);
        nodes.sort_by_key(|sampled| Reverse(sampled.score));
        nodes.truncate(count);
        Ok(Sample { nodes, weight: 0, looked_at })
    }
}
