//! The sampling pipeline: strategy, PreFilter, Filter, PreScore, Score.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use engine::catch_panic;
use engine::decide::{DrawNodes, SampledNode, Selection, WantedSample};
use engine::ports::{Count, Ports};
use framework::{Cluster, NodeBits, NodeView, Pod, Status, Time};

use super::{Agent, Source};
use crate::message::{
    ALL_BASIS_POINTS, FreeResources, NodeSample, Refusal, RefusalCode, SampleRequest,
    SampleResponse, Snapshot,
};

/// A strategy that draws nodes, until it panics.
struct CaughtDraw<'a> {
    name: &'a str,
    draw: Box<dyn DrawNodes + 'a>,
    panicked: Option<Status>,
}

impl DrawNodes for CaughtDraw<'_> {
    fn draw(&mut self, cluster: &Cluster, missing: usize, seen: &NodeBits, drawn: &mut NodeBits) {
        if self.panicked.is_none() {
            // It is counted after the sample, which has the ports.
            let draw = || self.draw.draw(cluster, missing, seen, drawn);
            self.panicked = catch_panic(self.name, &mut (), draw).err();
        }
    }
}

impl Agent {
    /// Returns nodes that can take the pod. If none of the drawn nodes can, the best of all are
    /// taken, so that an answer without nodes says that no node can.
    ///
    /// # Errors
    /// The request is malformed, or a plugin failed.
    pub(super) fn sample(
        &mut self,
        request: &SampleRequest,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Result<SampleResponse, Refusal> {
        let malformed = |text| Refusal::new(RefusalCode::Malformed, text);
        if request.nodes_to_sample_bp > ALL_BASIS_POINTS {
            let share = request.nodes_to_sample_bp;
            return Err(malformed(format!("nodesToSampleBp: {share} is over {ALL_BASIS_POINTS}")));
        }
        let Some(strategy) = self.config.strategies.get(&request.strategy).cloned() else {
            let names: Vec<&str> = self.config.strategies.names().map(AsRef::as_ref).collect();
            let (name, known) = (&request.strategy, names.join(", "));
            return Err(malformed(format!(
                "no sampling strategy is named {name:?}; one of {known}"
            )));
        };
        let total = self.cluster().node_count();
        let failed = |status: Status| Refusal::new(RefusalCode::Failed, status.message());
        let (name, seed) = (&*request.strategy, self.rng.u64(..));
        let begun = catch_panic(name, ports.probe, || {
            let count = strategy.sample_size(total, request.nodes_to_sample_bp);
            (count, strategy.start(seed))
        });
        let (count, source) = begun.map_err(failed)?;
        let (profile, pod) = (&self.config.profile, &request.pod.pod);
        let sample = match source {
            Source::Best => {
                let best = WantedSample { selection: Selection::Best, count };
                self.engine.sample(profile, pod, best, now, ports)
            }
            Source::Draw(draw) => {
                let mut draw = CaughtDraw { name, draw, panicked: None };
                let drawn = WantedSample { selection: Selection::Drawn(&mut draw), count };
                let sample = self.engine.sample(profile, pod, drawn, now, ports);
                if let Some(status) = draw.panicked {
                    ports.probe.count(Count::Panic { plugin: &request.strategy });
                    return Err(failed(status));
                }
                sample
            }
        };
        let (sample, reason) = match sample {
            Ok(sample) => (sample, None),
            Err(status) if status.is_rejection() => (Default::default(), Some(status.message())),
            Err(status) => return Err(failed(status)),
        };
        let nodes = self.best_of(sample.nodes, request.max_nodes);
        let nodes = nodes.iter().map(|sampled| self.describe(sampled, request)).collect();
        Ok(SampleResponse {
            cluster: self.config.cluster.clone(),
            snapshot: self.snapshot(now),
            nodes,
            score_weight: sample.weight,
            total_nodes: u32::try_from(total).unwrap_or(u32::MAX),
            looked_at: u32::try_from(sample.looked_at).unwrap_or(u32::MAX),
            reason,
        })
    }

    /// Returns so many of the best nodes, chosen at random among equally good ones.
    fn best_of(&mut self, mut nodes: Vec<SampledNode>, count: Option<u32>) -> Vec<SampledNode> {
        if let Some(count) = count.filter(|count| (*count as usize) < nodes.len()) {
            self.rng.shuffle(&mut nodes);
            nodes.sort_by_key(|sampled| Reverse(sampled.score));
            nodes.truncate(count as usize);
        }
        nodes
    }

    fn snapshot(&self, now: Time) -> Snapshot {
        Snapshot {
            incarnation: self.config.incarnation.clone(),
            taken_ms: millis(now),
            revision: self.engine.changes().state(),
        }
    }

    fn describe(&self, sampled: &SampledNode, request: &SampleRequest) -> NodeSample {
        let view = self.cluster().node(sampled.node);
        let labels = request.node_labels.iter();
        NodeSample {
            name: view.name().clone(),
            score: sampled.score,
            free: free_resources(&view, &request.pod.pod),
            labels: labels
                .filter_map(|key| Some((key.clone(), Arc::from(view.label(key)?))))
                .collect(),
        }
    }
}

/// Measurements.
#[cfg(feature = "simulation")]
impl Agent {
    /// Returns the best mean score of all nodes for a pod, in thousandths of a point.
    pub fn best_score_milli(
        &mut self,
        pod: &Arc<Pod>,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Option<i64> {
        let best = WantedSample { selection: Selection::Best, count: 1 };
        let sample = self.engine.sample(&self.config.profile, pod, best, now, ports).ok()?;
        sample.nodes.first().map(|best| best.score * 1_000 / sample.weight.max(1))
    }

    /// Returns the mean score of a node for a pod, in thousandths of a point, if the node can take
    /// the pod.
    pub fn score_milli(
        &mut self,
        pod: &Arc<Pod>,
        node: &str,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Option<i64> {
        let node = self.cluster().node_named(node)?;
        let drawn = WantedSample { selection: Selection::Drawn(&mut Only(node)), count: 1 };
        let sample = self.engine.sample(&self.config.profile, pod, drawn, now, ports).ok()?;
        let own = sample.nodes.first().filter(|sampled| sampled.node == node)?;
        Some(own.score * 1_000 / sample.weight.max(1))
    }
}

/// Draws one node.
#[cfg(feature = "simulation")]
struct Only(framework::NodeIx);

#[cfg(feature = "simulation")]
impl engine::decide::DrawNodes for Only {
    fn draw(
        &mut self,
        _: &framework::Cluster,
        _: usize,
        seen: &framework::NodeBits,
        drawn: &mut framework::NodeBits,
    ) {
        if !seen.contains(self.0) {
            drawn.insert(self.0);
        }
    }
}

/// Returns the time of the agent's clock in whole milliseconds.
pub(super) fn millis(now: Time) -> u64 {
    u64::try_from(now.as_nanos() / 1_000_000).unwrap_or(0)
}

fn free_resources(node: &NodeView<'_>, pod: &Pod) -> FreeResources {
    let (allocatable, requested) = (node.allocatable(), node.requested());
    let scalars = pod.requests.fit.scalars.iter();
    let extended: BTreeMap<Arc<str>, i64> = scalars
        .map(|(name, _)| {
            let amount = node.scalar(name);
            (name.clone(), amount.allocatable - amount.requested)
        })
        .collect();
    FreeResources {
        milli_cpu: allocatable.milli_cpu - requested.milli_cpu,
        memory_bytes: allocatable.memory - requested.memory,
        ephemeral_storage_bytes: allocatable.ephemeral_storage - requested.ephemeral_storage,
        pods: node.allowed_pods() - node.pod_count(),
        extended,
    }
}
