//! The Score of PodTopologySpread: soft constraints prefer domains with fewer selected pods.

use std::sync::Arc;

use framework::{
    Attempt, AttemptMut, ChangedNodes, Cluster, CycleState, Dependence, DomainIx, MAX_NODE_SCORE,
    NodeColumn, NodeIx, NodeTier, NodeView, NormalizeScore, PerNode, Pod, PodCount, PreScore,
    Score, ScoreScope, SelectorError, Status, Topology,
};

use super::constraint::{Constraint, has_all_keys, retain_with_all_keys};
use super::{HOSTNAME, PodTopologySpread};
use crate::domain_tally::{DomainTally, Share, add_with_value};
use crate::packed_keys::PackedKeys;

/// A soft constraint and the counts of its pods.
#[derive(Debug, Clone)]
struct Counted {
    constraint: Constraint,
    /// The pods of each domain, on all nodes that the constraint includes. `None` for the hostname
    /// label, where each node is a domain.
    pods: Option<DomainTally>,
}

/// The soft constraints of a pod. An attempt counts their pods once.
#[derive(Debug, Clone)]
struct SoftCounts(Arc<[Counted]>);

/// The soft constraints of the pods of a template, from one attempt to the next.
struct Kept(Arc<[Counted]>);

/// The cycle state of PreScore.
#[derive(Debug, Clone)]
struct PreScored {
    counted: Arc<[Counted]>,
    /// For each constraint ln(domains + 2): the weight of each pod grows with the number of
    /// domains.
    weights: Arc<[f64]>,
    /// Whether nodes that lack a label have no score.
    requires_all_keys: bool,
}

impl PreScored {
    fn of_cycle(state: &CycleState) -> Result<&Self, Status> {
        state.read().ok_or_else(|| Status::error("PodTopologySpread has no data from PreScore"))
    }

    fn columns<'a>(&'a self, cluster: &'a Cluster) -> Vec<Column<'a>> {
        let all = self.counted.iter().zip(&*self.weights);
        all.map(|(counted, weight)| Column::new(counted, *weight, cluster)).collect()
    }

    /// Whether the node has no score.
    fn ignores(&self, node: NodeIx, columns: &[Column<'_>]) -> bool {
        self.requires_all_keys && columns.iter().any(|column| column.domain_of(node).is_none())
    }
}

/// The share of a soft constraint in the score of each node.
struct Column<'a> {
    counted: &'a Counted,
    weight: f64,
    topology: Option<Topology<'a>>,
    /// The domain of the empty value, which has the pods of the nodes without the label, too.
    unnamed: Option<DomainIx>,
}

impl<'a> Column<'a> {
    fn new(counted: &'a Counted, weight: f64, cluster: &'a Cluster) -> Self {
        let topology = cluster.topology(&counted.constraint.topology_key);
        let unnamed = topology.and_then(|topology| topology.domain_named(""));
        Self { counted, weight, topology, unnamed }
    }

    #[inline]
    fn domain_of(&self, node: NodeIx) -> Option<DomainIx> {
        self.topology?.domain_of(node)
    }

    /// Returns the pods in a domain; for the hostname label those on its node.
    #[inline]
    fn pods(&self, domain: DomainIx, on_node: impl FnOnce() -> u32) -> i64 {
        match &self.counted.pods {
            None => on_node().into(),
            Some(pods) if self.unnamed == Some(domain) => pods.get(None) + pods.get(Some(domain)),
            Some(pods) => pods.get(Some(domain)),
        }
    }

    /// Returns the score that a domain with `pods` adds to its nodes.
    #[inline]
    fn score_for(&self, pods: i64) -> f64 {
        pods as f64 * self.weight + (f64::from(self.counted.constraint.max_skew) - 1.0)
    }

    /// Number of domains of these nodes, given in tiers with their sizes.
    fn domains(&self, tiers: impl Iterator<Item = NodeTier>) -> usize {
        if self.counted.pods.is_none() {
            return tiers.map(|tier| tier.len).sum();
        }
        let len = self.topology.map_or(0, |topology| topology.len());
        let mut seen = vec![false; len + 1];
        for tier in tiers {
            let domain = self.domain_of(tier.node).or(self.unnamed);
            seen[domain.map_or(len, DomainIx::index)] = true;
        }
        seen.into_iter().filter(|seen| *seen).count()
    }
}

impl PodTopologySpread {
    /// Whether nodes that lack the label of a soft constraint are ignored. System constraints
    /// accept such nodes.
    fn requires_all_keys(&self, pod: &Pod) -> bool {
        !pod.spec.topology_spread_constraints.is_empty() || !self.defaults.are_system
    }

    /// Returns the soft constraints of the pod with their counts, which it takes only once in an
    /// attempt.
    fn soft_counts(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        cluster: &Cluster,
    ) -> Result<Arc<[Counted]>, SelectorError> {
        if let Some(SoftCounts(counted)) = state.read() {
            return Ok(counted.clone());
        }
        let constraints = self.soft_constraints(pod, cluster)?;
        if constraints.is_empty() {
            return Ok(Arc::default());
        }
        let kept = state.take_kept::<Kept>();
        let of_these = kept.filter(|(Kept(kept), _)| {
            kept.iter().map(|counted| &counted.constraint).eq(&constraints)
        });
        let counted = match of_these {
            Some((Kept(mut counted), changed)) => {
                self.repair(Arc::make_mut(&mut counted), pod, cluster, &changed);
                counted
            }
            None => {
                state.rekey();
                self.count(constraints, pod, cluster, state.keeps())
            }
        };
        if state.keeps() {
            let size = |counted: &Counted| counted.pods.as_ref().map_or(0, DomainTally::size);
            state.keep(Kept(counted.clone()), counted.iter().map(size).sum());
        }
        state.write_for_search(SoftCounts(counted.clone()));
        Ok(counted)
    }

    /// Counts the pods on all nodes; `follows` says whether nodes are going to change.
    fn count(
        &self,
        constraints: Vec<Constraint>,
        pod: &Pod,
        cluster: &Cluster,
        follows: bool,
    ) -> Arc<[Counted]> {
        let mut compared = cluster.nodes().clone();
        if self.requires_all_keys(pod) {
            retain_with_all_keys(&constraints, cluster, &mut compared);
        }
        let count = |constraint: Constraint| {
            if *constraint.topology_key == *HOSTNAME {
                return Counted { constraint, pods: None };
            }
            let mut eligible = compared.clone();
            constraint.inclusion.retain(pod, cluster, &mut eligible);
            let topology = cluster.topology(&constraint.topology_key);
            let mut tally = DomainTally::new(follows);
            let by_node = constraint.pods_by_node(cluster);
            for (node, pods) in by_node.iter().filter(|(node, _)| eligible.contains(*node)) {
                let domain = topology.and_then(|topology| topology.domain_of(node));
                tally.insert(node, domain, pods.live.into());
            }
            Counted { constraint, pods: Some(tally) }
        };
        constraints.into_iter().map(count).collect()
    }

    /// Counts the pods on `changed` nodes again.
    fn repair(
        &self,
        counted: &mut [Counted],
        pod: &Pod,
        cluster: &Cluster,
        changed: &ChangedNodes,
    ) {
        let requires_all_keys = self.requires_all_keys(pod);
        let by_node: Vec<_> =
            counted.iter().map(|own| own.constraint.pods_by_node(cluster)).collect();
        // The other nodes had and have no selected pods.
        let mut nodes = changed.objects.clone();
        for (own, pods) in counted.iter().zip(&by_node) {
            if let Some(tally) = &own.pods {
                tally.add_members(&changed.nodes, &mut nodes);
                add_with_value(&changed.nodes, pods, &mut nodes);
            }
        }
        nodes.sort_unstable();
        nodes.dedup();
        for node in &nodes {
            let view = cluster.nodes().contains(*node).then(|| cluster.node(*node));
            let has_keys = |view: &NodeView<'_>| {
                !requires_all_keys || has_all_keys(counted.iter().map(|own| &own.constraint), view)
            };
            let view = view.filter(has_keys);
            for (own, by_node) in counted.iter_mut().zip(&by_node) {
                let Some(tally) = &mut own.pods else { continue };
                let constraint = &own.constraint;
                let pods = by_node.get(*node).live;
                let view = view.as_ref().filter(|view| {
                    pods > 0 && constraint.inclusion.includes(pod, *view, view.taints())
                });
                let share = view.map(|_| {
                    let topology = cluster.topology(&constraint.topology_key);
                    let domain = topology.and_then(|topology| topology.domain_of(*node));
                    Share { domain, amount: pods.into() }
                });
                tally.replace(*node, share);
            }
        }
    }

    /// Prepares the scores from feasible nodes, given in tiers with their sizes.
    fn prepare(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        cluster: &Cluster,
        tiers: impl Iterator<Item = NodeTier> + Clone,
    ) -> Status {
        let counted = match self.soft_counts(state, pod, cluster) {
            Ok(counted) if counted.is_empty() => return Status::skip(),
            Ok(counted) => counted,
            Err(error) => {
                return Status::error(format!(
                    "calculating preScoreState: obtaining pod's soft topology spread \
                     constraints: {error}"
                ));
            }
        };
        let requires_all_keys = self.requires_all_keys(pod);
        let weights = Arc::default();
        let mut prepared = PreScored { counted, weights, requires_all_keys };
        let unweighted: Vec<Column<'_>> =
            prepared.counted.iter().map(|own| Column::new(own, 0.0, cluster)).collect();
        let compared = tiers.filter(|tier| !prepared.ignores(tier.node, &unweighted));
        let weigh = |column: &Column<'_>| ((column.domains(compared.clone()) + 2) as f64).ln();
        prepared.weights = unweighted.iter().map(weigh).collect();
        state.write_for_search(prepared);
        Status::success()
    }
}

impl PreScore for PodTopologySpread {
    fn pre_score(&self, attempt: AttemptMut<'_>, nodes: &[NodeIx]) -> Status {
        let single = nodes.iter().map(|node| NodeTier { node: *node, len: 1 });
        self.prepare(attempt.state, attempt.pod, attempt.handle.cluster, single)
    }

    fn pre_score_tiers(&self, attempt: AttemptMut<'_>, tiers: &[NodeTier]) -> Status {
        self.prepare(attempt.state, attempt.pod, attempt.handle.cluster, tiers.iter().copied())
    }
}

/// Rounds to the nearest integer, halves up. Scores are not negative.
#[inline]
fn rounded(score: f64) -> i64 {
    let whole = score as i64;
    whole + i64::from(score - whole as f64 >= 0.5)
}

impl Score for PodTopologySpread {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        let prepared = PreScored::of_cycle(attempt.state)?;
        let columns = prepared.columns(node.cluster());
        if prepared.ignores(node.ix(), &columns) {
            return Ok(0);
        }
        let mut score = 0.0;
        for column in &columns {
            let Some(domain) = column.domain_of(node.ix()) else { continue };
            let on_node = || column.counted.constraint.pods_on(node);
            score += column.score_for(column.pods(domain, on_node));
        }
        Ok(rounded(score))
    }

    fn dependence(&self, attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        let scope = match self.soft_counts(attempt.state, attempt.pod, attempt.handle.cluster) {
            Ok(counted) if counted.is_empty() => ScoreScope::Node,
            Ok(_) => ScoreScope::Tier,
            Err(_) => ScoreScope::Cluster,
        };
        Some(Dependence::on(scope))
    }

    /// The key has for each constraint the domain of the node, or for the hostname label its number
    /// of pods.
    fn key_set(&self, attempt: &Attempt<'_>, keys: PerNode<'_>) -> Result<(), Status> {
        let PerNode { nodes, values: keys, .. } = keys;
        let cluster = attempt.handle.cluster;
        let counted = attempt.state.read::<SoftCounts>();
        let SoftCounts(counted) =
            counted.ok_or_else(|| Status::error("PodTopologySpread has no counts"))?;
        let mut packed = PackedKeys::of(counted.len(), nodes, keys);
        for own in &**counted {
            let topology = cluster.topology(&own.constraint.topology_key);
            match own.pods {
                Some(_) => packed.push_domains(topology),
                None => {
                    let pods = own.constraint.pods_by_node(cluster);
                    packed.push_values(topology, &pods, |pods| i64::from(pods.live) + 1);
                }
            }
        }
        packed.finish()
    }

    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        let PerNode { nodes, values: scores, .. } = scores;
        let cluster = attempt.handle.cluster;
        let prepared = PreScored::of_cycle(attempt.state)?;
        let columns = prepared.columns(cluster);
        let mut sums = vec![0.0; nodes.len()];
        for column in &columns {
            match column.counted.pods {
                Some(_) => column.add_scores(nodes, &mut sums, |_| 0),
                None => {
                    let pods = column.counted.constraint.pods_by_node(cluster);
                    if nodes.len() < cluster.table_len() / 64 {
                        column.add_scores(nodes, &mut sums, |node| pods.get(node).live);
                        continue;
                    }
                    let pods = by_index(&pods, cluster.table_len());
                    column.add_scores(nodes, &mut sums, |node| pods[node.index()]);
                }
            }
        }
        for ((node, sum), score) in nodes.iter().zip(sums).zip(scores) {
            *score = if prepared.ignores(*node, &columns) { 0 } else { rounded(sum) };
        }
        Ok(())
    }
}

impl Column<'_> {
    /// Adds the score of the constraint to `sums`. Nodes without the label get none.
    fn add_scores(&self, nodes: &[NodeIx], sums: &mut [f64], on_node: impl Fn(NodeIx) -> u32) {
        for (node, sum) in nodes.iter().zip(sums) {
            if let Some(domain) = self.domain_of(*node) {
                *sum += self.score_for(self.pods(domain, || on_node(*node)));
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
    fn normalize_score(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Status {
        let PerNode { nodes, values: scores, .. } = scores;
        let prepared = match PreScored::of_cycle(attempt.state) {
            Ok(prepared) => prepared,
            Err(status) => return status,
        };
        let columns = prepared.columns(attempt.handle.cluster);
        let compared = |node: &NodeIx| !prepared.ignores(*node, &columns);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_up() {
        assert_eq!([0.0, 0.49, 0.5, 1.5, 2.4999, 7.0].map(rounded), [0, 0, 1, 2, 2, 7]);
    }
}
