//! Samples: some of the nodes that can take a pod, with their scores, for a scheduler that decides
//! elsewhere.
//!
//! A sample runs the same plugins as a decision. It looks only at nodes that [`DrawNodes`] draws,
//! or takes the best nodes of a ranking, and it changes nothing.

use std::cmp::Reverse;

use framework::{Cluster, Commands, NodeBits, NodeIx};

use super::decider::Decider;
use super::decision::Course;
use crate::context::Context;
use crate::cycle::{FullPass, Prepared, Question, ScheduleError, ScorePass, Scratch, Subject};
use crate::ranking::{Lane, Recalled};
use crate::world::ChangeLog;

/// Maximum number of draws of one sample.
pub const MAX_DRAWS: usize = 5;

/// Draws the nodes of a sample: the part of a sampling strategy that depends on the node table.
pub trait DrawNodes {
    /// Adds up to `missing` nodes of the cluster to `drawn`. `seen` has the nodes of earlier draws
    /// of this sample, which are not drawn again.
    fn draw(&mut self, cluster: &Cluster, missing: usize, seen: &NodeBits, drawn: &mut NodeBits);
}

/// The sample that is asked for.
pub struct WantedSample<'a> {
    /// The nodes that it is made of.
    pub selection: Selection<'a>,
    /// Maximum number of its nodes.
    pub count: usize,
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

impl Decider {
    /// Returns nodes that can take the pod, as many as wanted at most. Later samples draw others.
    ///
    /// # Errors
    /// No node of the cluster can take the pod, or a plugin or extender failed.
    pub(crate) fn sample(
        &mut self,
        question: Question<'_>,
        wanted: WantedSample<'_>,
        log: &ChangeLog,
        cx: &mut Context<'_>,
    ) -> Result<Sample, ScheduleError> {
        let WantedSample { selection, count } = wanted;
        let Self { settings, scratch, rankings, course, .. } = self;
        let commands = Commands::default();
        let subject = &mut Subject::new(question, settings, &commands, cx);
        subject.check()?;
        let lane = Lane::of(question.profile, question.pod);
        let known = lane.as_ref().map(|lane| rankings.recall(lane, log, &mut subject.state));
        let mut search = SampleSearch { known, scratch, course, count };
        let sample = search.run(subject, selection);
        if let Some(lane) = &lane {
            rankings.suspend(lane, &mut subject.state);
        }
        let mut sample = sample?;
        sample.nodes.sort_by_key(|sampled| (Reverse(sampled.score), sampled.node));
        sample.weight = question.profile.score.iter().map(|plugin| plugin.weight).sum();
        Ok(sample)
    }
}

/// The search for the nodes of a sample.
struct SampleSearch<'s> {
    known: Option<Recalled<'s>>,
    scratch: &'s mut Scratch,
    course: &'s mut Course,
    /// Number of wanted nodes.
    count: usize,
}

impl SampleSearch<'_> {
    fn run(
        &mut self,
        subject: &mut Subject<'_, '_>,
        selection: Selection<'_>,
    ) -> Result<Sample, ScheduleError> {
        let prepared = Prepared::of(subject)?;
        match selection {
            Selection::Drawn(draw) => self.drawn(subject, &prepared, draw),
            Selection::Best => self.best(subject, &prepared),
        }
    }

    /// Draws nodes and filters them until enough have passed. If none has, takes the best of all
    /// nodes: the pod may fit on few of them.
    fn drawn(
        &mut self,
        subject: &mut Subject<'_, '_>,
        prepared: &Prepared,
        draw: &mut dyn DrawNodes,
    ) -> Result<Sample, ScheduleError> {
        let (cluster, candidates) = (subject.cluster(), prepared.nodes(subject));
        let (mut seen, mut drawn) = (NodeBits::default(), NodeBits::default());
        let mut found: Vec<NodeIx> = Vec::new();
        for _ in 0..MAX_DRAWS {
            if found.len() >= self.count {
                break;
            }
            drawn.clear();
            draw.draw(cluster, self.count - found.len(), &seen, &mut drawn);
            if drawn.is_empty() {
                break;
            }
            seen.union(&drawn);
            drawn.intersect(candidates);
            found.extend(self.scratch.filter.passing(subject, &drawn)?);
        }
        if found.is_empty() {
            return self.best(subject, prepared);
        }
        found.sort_unstable();
        let nodes = scored(subject, &found, &mut self.scratch.score)?;
        Ok(Sample { nodes, weight: 0, looked_at: seen.count() })
    }

    /// Returns the best of all nodes, from a ranking if there is one. Draws among equally good
    /// nodes.
    fn best(
        &mut self,
        subject: &mut Subject<'_, '_>,
        prepared: &Prepared,
    ) -> Result<Sample, ScheduleError> {
        let Self { known, scratch, course: Course { rng, next_start }, count } = self;
        let looked_at = subject.cluster().node_count();
        if let Some(known) = known
            && let Some(top) = known.top(subject, prepared, *count, scratch, rng)?
        {
            let sampled = |(node, score)| SampledNode { node, score };
            return Ok(Sample {
                nodes: top.into_iter().map(sampled).collect(),
                weight: 0,
                looked_at,
            });
        }
        let pass = FullPass { prepared, own: None, next_start, report: None };
        let candidates = scratch.filter.run(subject, pass);
        if let (Some(known), Err(ScheduleError::Fit(fit))) = (known, &candidates) {
            known.rejected(subject, fit);
        }
        let mut found = candidates?.nodes.to_vec();
        found.sort_unstable();
        let mut nodes = scored(subject, &found, &mut scratch.score)?;
        // Shuffled first, so that the draw is fair.
        rng.shuffle(&mut nodes);
        nodes.sort_by_key(|sampled| Reverse(sampled.score));
        nodes.truncate(*count);
        Ok(Sample { nodes, weight: 0, looked_at })
    }
}

/// Scores nodes, also a single one: its score is compared with the scores of other clusters.
fn scored(
    subject: &mut Subject<'_, '_>,
    nodes: &[NodeIx],
    pass: &mut ScorePass,
) -> Result<Vec<SampledNode>, ScheduleError> {
    let totals = pass.score(subject, nodes, None).map_err(ScheduleError::Error)?;
    let scored = nodes.iter().zip(totals);
    Ok(scored.map(|(node, score)| SampledNode { node: *node, score: *score }).collect())
}
