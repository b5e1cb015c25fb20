//! The Score of PodTopologySpread: soft constraints prefer domains with fewer selected pods.

use std::sync::Arc;

use framework::{
    Cluster, CycleState, DomainIx, Handle, MAX_NODE_SCORE, NodeBits, NodeColumn, NodeIx, NodeView,
    NormalizeScore, Pod, PodCount, PreScore, Score, ScoreScope, Status, Topology,
};

use super::constraint::{Constraint, retain_with_all_keys};
use super::domain_counts::DomainCounts;
use super::{HOSTNAME, PodTopologySpread};

/// A soft constraint and the counts of its pods.
#[derive(Debug)]
struct Weighted {
    constraint: Constraint,
    /// ln(domains + 2): the weight of each pod grows with the number of domains.
    weight: f64,
    /// The pods of each domain. `None` for the hostname label, where each node is a domain.
    counts: Option<DomainCounts>,
}

impl Weighted {
    /// Returns the score that a domain with `pods` adds to its nodes.
    #[inline]
    fn score_for(&self, pods: u32) -> f64 {
        f64::from(pods) * self.weight + (f64::from(self.constraint.max_skew) - 1.0)
    }
}

/// The cycle state of PreScore.
#[derive(Debug, Clone)]
struct PreScored {
    weighted: Arc<[Weighted]>,
    /// Nodes without a score, including nodes that are not candidates.
    ignored: Arc<NodeBits>,
}

impl PreScored {
    fn of_cycle(state: &CycleState) -> Result<&Self, Status> {
        state.read().ok_or_else(|| Status::error("PodTopologySpread has no data from PreScore"))
    }
}

impl PodTopologySpread {
    /// Whether nodes that lack the label of a soft constraint are ignored. System constraints
    /// accept such nodes.
    fn requires_all_keys(&self, pod: &Pod) -> bool {
        !pod.spec.topology_spread_constraints.is_empty() || !self.defaults.are_system
    }
}

impl PreScore for PodTopologySpread {
    fn pre_score(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        handle: &Handle<'_>,
        nodes: &[NodeIx],
    ) -> Status {
        let cluster = handle.cluster;
        let constraints = match self.soft_constraints(pod, cluster) {
            Ok(constraints) if constraints.is_empty() => return Status::skip(),
            Ok(constraints) => constraints,
            Err(error) => {
                return Status::error(format!(
                    "calculating preScoreState: obtaining pod's soft topology spread \
                     constraints: {error}"
                ));
            }
        };
        let mut compared = cluster.nodes().clone();
        if self.requires_all_keys(pod) {
            retain_with_all_keys(&constraints, cluster, &mut compared);
        }
        let weigh = |constraint| weigh(constraint, pod, cluster, nodes, &compared);
        let weighted = constraints.into_iter().map(weigh).collect();
        let mut ignored = cluster.nodes().clone();
        ignored.subtract(&compared);
        state.write_for_search(PreScored { weighted, ignored: Arc::new(ignored) });
        Status::success()
    }
}

/// Counts the domains of the candidates and their pods. The pods on all `compared` nodes that the
/// constraint includes count.
fn weigh(
    constraint: Constraint,
    pod: &Pod,
    cluster: &Cluster,
    candidates: &[NodeIx],
    compared: &NodeBits,
) -> Weighted {
    let candidates = candidates.iter().copied().filter(|node| compared.contains(*node));
    let (domains, counts) = if *constraint.topology_key == *HOSTNAME {
        (candidates.count(), None)
    } else {
        let mut eligible = compared.clone();
        constraint.inclusion.retain(pod, cluster, &mut eligible);
        let topology = cluster.topology(&constraint.topology_key);
        let pods = constraint.pods_by_node(cluster);
        let counts = DomainCounts::of(topology, candidates, &pods, &eligible);
        (counts.known(), Some(counts))
    };
    Weighted { constraint, weight: ((domains + 2) as f64).ln(), counts }
}

/// Rounds to the nearest integer, halves up. Scores are not negative.
#[inline]
fn rounded(score: f64) -> i64 {
    let whole = score as i64;
    whole + i64::from(score - whole as f64 >= 0.5)
}

impl Score for PodTopologySpread {
    fn score(
        &self,
        state: &CycleState,
        _pod: &Pod,
        node: &NodeView<'_>,
        _handle: &Handle<'_>,
    ) -> Result<i64, Status> {
        let PreScored { weighted, ignored } = PreScored::of_cycle(state)?;
        if ignored.contains(node.ix()) {
            return Ok(0);
        }
        let mut score = 0.0;
        for own in &**weighted {
            let topology = node.cluster().topology(&own.constraint.topology_key);
            let Some(domain) = topology.and_then(|topology| topology.domain_of(node.ix())) else {
                continue;
            };
            let pods = match &own.counts {
                Some(counts) => counts.get(domain),
                None => own.constraint.pods_on(node),
            };
            score += own.score_for(pods);
        }
        Ok(rounded(score))
    }

    fn scope(&self, _state: &CycleState, pod: &Pod, handle: &Handle<'_>) -> ScoreScope {
        let constraints = self.soft_constraints(pod, handle.cluster);
        let has_none = constraints.is_ok_and(|constraints| constraints.is_empty());
        if has_none { ScoreScope::Node } else { ScoreScope::Cluster }
    }

    fn score_set(
        &self,
        state: &CycleState,
        _pod: &Pod,
        handle: &Handle<'_>,
        nodes: &[NodeIx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        let cluster = handle.cluster;
        let PreScored { weighted, ignored } = PreScored::of_cycle(state)?;
        let mut sums = vec![0.0; nodes.len()];
        for own in &**weighted {
            let Some(topology) = cluster.topology(&own.constraint.topology_key) else { continue };
            match &own.counts {
                Some(counts) => {
                    own.add_scores(topology, nodes, &mut sums, |_, domain| counts.get(domain));
                }
                None => {
                    let pods = by_index(&own.constraint.pods_by_node(cluster), cluster.table_len());
                    own.add_scores(topology, nodes, &mut sums, |node, _| pods[node.index()]);
                }
            }
        }
        for ((node, sum), score) in nodes.iter().zip(sums).zip(scores) {
            *score = if ignored.contains(*node) { 0 } else { rounded(sum) };
        }
        Ok(())
    }
}

impl Weighted {
    /// Adds the score of the constraint to `sums`. Nodes without the label get none.
    fn add_scores(
        &self,
        topology: Topology<'_>,
        nodes: &[NodeIx],
        sums: &mut [f64],
        pods: impl Fn(NodeIx, DomainIx) -> u32,
    ) {
        for (node, sum) in nodes.iter().zip(sums) {
            if let Some(domain) = topology.domain_of(*node) {
                *sum += self.score_for(pods(*node, domain));
            }
        }
    }
}

/// Returns the pods that are not terminating, by index of the node.
fn by_index(pods: &NodeColumn<PodCount>, len: usize) -> Vec<u32> {
    let mut by_index = vec![0; len];
    for (node, count) in pods.iter() {
        by_index[node.index()] = count.live;
    }
    by_index
}

impl NormalizeScore for PodTopologySpread {
    /// Inverts the scores, so that fewer pods score higher. The lowest score becomes 100, the
    /// highest becomes 100 times lowest over highest.
    fn normalize_score(
        &self,
        state: &CycleState,
        _pod: &Pod,
        nodes: &[NodeIx],
        scores: &mut [i64],
        _handle: &Handle<'_>,
    ) -> Status {
        let ignored = match PreScored::of_cycle(state) {
            Ok(pre_scored) => &pre_scored.ignored,
            Err(status) => return status,
        };
        let compared = |node: &NodeIx| !ignored.contains(*node);
        let taking_part = nodes.iter().zip(&*scores).filter(|(node, _)| compared(node));
        let (min, max) = taking_part
            .fold((i64::MAX, 0), |(min, max), (_, score)| (min.min(*score), max.max(*score)));
        for (node, score) in nodes.iter().zip(scores) {
            *score = match max {
                _ if !compared(node) => 0,
                0 => MAX_NODE_SCORE,
                _ => MAX_NODE_SCORE * (max + min - *score) / max,
            };
        }
        Status::success()
    }
}
