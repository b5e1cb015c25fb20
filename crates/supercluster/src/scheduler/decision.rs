//! The decision pipeline: PreFilter, Filter, PreScore, Score and Reserve over the merged samples,
//! and the choice of the commit candidates.

use std::fmt;
use std::sync::Arc;

use fastrand::Rng;
use framework::{CycleState, Status};

use super::clusters::{Cluster, ClusterIx, Members};
use super::pipeline::Pipeline;
use super::placed::PlacedPods;
use crate::message::{NodeSample, PodObject, SampleResponse, Snapshot};

/// Thousandths of a point: totals are compared in them.
const MILLI: i64 = 1_000;

/// The pod that is decided about, and what the scheduler knows of others.
#[derive(Debug)]
pub struct DecisionPod<'a> {
    /// The pod.
    pub object: &'a PodObject,
    /// Number of failed attempts to place it.
    pub scheduling_retry_count: u32,
    /// The pods that are placed, or are about to be.
    pub placed: &'a PlacedPods,
}

/// A node of a sample, and its cluster.
#[derive(Debug, Clone, Copy)]
pub struct DecisionNode<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The node.
    pub node: &'a NodeSample,
}

/// A plugin of the decision pipeline. One value serves all pods; what belongs to one attempt is
/// kept in its [`CycleState`]. By default every point agrees, and the score is 0. A panic or an
/// Error status fails the attempt of the pod at hand.
pub trait DecisionPlugin: Send + Sync {
    /// The name.
    fn name(&self) -> &str;

    /// Whether the plugin has a score. Without one it has no weight.
    fn has_score(&self) -> bool {
        true
    }

    /// Whether it tells nodes of one cluster apart. If no plugin does, agents answer with as many
    /// of their best nodes as there are commit candidates, and not with all nodes of the sample.
    fn tells_nodes_apart(&self) -> bool {
        true
    }

    /// Returns the keys of the labels that it reads of nodes ([`NodeSample::labels`]). Samples have
    /// no others.
    fn node_labels(&self) -> Vec<Arc<str>> {
        Vec::new()
    }

    /// Prepares an attempt. A rejection ends it.
    fn pre_filter(&self, state: &mut CycleState, pod: &DecisionPod<'_>) -> Status {
        let _ = (state, pod);
        Status::success()
    }

    /// Decides whether a cluster is asked for a sample (SampleNodes).
    fn filter_cluster(
        &self,
        state: &CycleState,
        pod: &DecisionPod<'_>,
        cluster: &Cluster,
    ) -> Status {
        let _ = (state, pod, cluster);
        Status::success()
    }

    /// Decides whether a node can take the pod.
    fn filter(&self, state: &CycleState, pod: &DecisionPod<'_>, node: &DecisionNode<'_>) -> Status {
        let _ = (state, pod, node);
        Status::success()
    }

    /// Prepares the scores of the nodes that have passed. A rejection or an error ends the attempt.
    fn pre_score(
        &self,
        state: &mut CycleState,
        pod: &DecisionPod<'_>,
        nodes: &[DecisionNode<'_>],
    ) -> Status {
        let _ = (state, pod, nodes);
        Status::success()
    }

    /// Returns the score of a node, from 0 to 100; other numbers are moved to the nearer end.
    fn score(&self, state: &CycleState, pod: &DecisionPod<'_>, node: &DecisionNode<'_>) -> i64 {
        let _ = (state, pod, node);
        0
    }

    /// Notes that a commit is about to be tried in this cluster. A rejection skips the
    /// candidate.
    fn reserve(&self, pod: &PodObject, cluster: &Cluster) -> Status {
        let _ = (pod, cluster);
        Status::success()
    }

    /// Notes that the commit was not made.
    fn unreserve(&self, pod: &PodObject, cluster: &Cluster) {
        let _ = (pod, cluster);
    }
}

/// A plugin, and the weight of its score; 0 if it does not score.
#[derive(Clone)]
pub struct WeightedPlugin {
    /// The plugin.
    pub plugin: Arc<dyn DecisionPlugin>,
    /// The weight.
    pub weight: i64,
}

impl fmt::Debug for WeightedPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} * {}", self.weight, self.plugin.name())
    }
}

/// A node on which a commit may be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its cluster.
    pub cluster: ClusterIx,
    /// Its name.
    pub node: Arc<str>,
    /// Mean score of all plugins on both sides, in thousandths of a point.
    pub total_milli: i64,
    /// The snapshot that the decision rests on.
    pub snapshot: Snapshot,
    /// For the strategy `best`: the lowest score of the sampling pipeline with which this cluster
    /// is still preferred to the next candidate.
    pub best_of_at_least: Option<i64>,
    /// Score of the decision plugins.
    decision_score: i64,
    /// Sum of the weights on both sides.
    weights: i64,
}

/// The settings of a decision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    /// Maximum number of candidates.
    pub(super) candidates: usize,
    /// Whether agents choose their best node again at the commit, so that one candidate a cluster
    /// is enough.
    pub(super) agents_choose: bool,
    /// Thousandths of a point by which the node may be worse than the next candidate then.
    pub(super) tolerance_milli: i64,
}

/// The input of a decision: the samples, the way to choose, and the generator of ties.
pub(super) struct Choosing<'s> {
    pub(super) samples: &'s [(ClusterIx, Arc<SampleResponse>)],
    pub(super) choice: Choice,
    pub(super) rng: &'s mut Rng,
}

/// Returns the best candidates, the best first. Equally good ones are in random order.
///
/// # Errors
/// A plugin ended the attempt.
pub(super) fn decide(
    pipeline: &mut Pipeline<'_>,
    members: &Members,
    pod: &DecisionPod<'_>,
    state: &mut CycleState,
    choosing: Choosing<'_>,
) -> Result<Vec<Candidate>, Status> {
    let Choosing { samples, choice, rng } = choosing;
    let mut nodes: Vec<(usize, DecisionNode<'_>)> = Vec::new();
    for (place, (cluster, sample)) in samples.iter().enumerate() {
        let cluster = members.get(*cluster);
        for node in &sample.nodes {
            let node = DecisionNode { cluster, node };
            if pipeline.filter(state, pod, &node)? {
                nodes.push((place, node));
            }
        }
    }
    let decision_weight = pipeline.weight();
    if decision_weight > 0 {
        let feasible: Vec<DecisionNode<'_>> = nodes.iter().map(|(_, node)| *node).collect();
        pipeline.pre_score(state, pod, &feasible)?;
    }
    // The best so far by total and a random number, the best first.
    let mut best: Vec<(i64, u64, usize, usize)> = Vec::new();
    let mut decision_scores = Vec::with_capacity(nodes.len());
    for (place, (sample, node)) in nodes.iter().enumerate() {
        let score = pipeline.score(state, pod, node)?;
        decision_scores.push(score);
        let weights = (samples[*sample].1.score_weight + decision_weight).max(1);
        let total = (node.node.score + score) * MILLI / weights;
        let is_full = best.len() >= choice.candidates;
        if is_full && best.last().is_none_or(|worst| total < worst.0) {
            continue;
        }
        let entry = (total, rng.u64(..), *sample, place);
        let same = best.iter().position(|other| choice.agents_choose && other.2 == *sample);
        match same {
            Some(same) if best[same] >= entry => continue,
            Some(same) => drop(best.remove(same)),
            None => {}
        }
        let place = best.partition_point(|other| *other > entry);
        best.insert(place, entry);
        best.truncate(choice.candidates);
    }
    let chosen = best.iter().map(|(total_milli, _, sample, place)| {
        let (cluster, response) = &samples[*sample];
        Candidate {
            cluster: *cluster,
            node: nodes[*place].1.node.name.clone(),
            total_milli: *total_milli,
            snapshot: response.snapshot.clone(),
            best_of_at_least: None,
            decision_score: decision_scores[*place],
            weights: (response.score_weight + decision_weight).max(1),
        }
    });
    let mut chosen: Vec<Candidate> = chosen.collect();
    if choice.agents_choose {
        set_floors(&mut chosen, choice.tolerance_milli);
    }
    Ok(chosen)
}

/// Lets each agent choose again, as long as its cluster stays at least as good as the next
/// candidate. The last candidate has no such limit.
fn set_floors(candidates: &mut [Candidate], tolerance_milli: i64) {
    for place in 0..candidates.len() {
        let next = candidates.get(place + 1).map(|next| next.total_milli - tolerance_milli);
        let candidate = &mut candidates[place];
        let floor = next.map_or(0, |total| {
            let scaled = total * candidate.weights;
            scaled.div_euclid(MILLI) + i64::from(scaled.rem_euclid(MILLI) > 0)
                - candidate.decision_score
        });
        candidate.best_of_at_least = Some(floor.max(0));
    }
}

/// Returns the number of clusters that a share of `clusters` is: rounded up, at least one.
pub(super) fn clusters_to_ask(clusters: usize, basis_points: u32) -> usize {
    let share = clusters * basis_points.min(crate::message::ALL_BASIS_POINTS) as usize;
    share.div_ceil(crate::message::ALL_BASIS_POINTS as usize).max(1).min(clusters)
}
