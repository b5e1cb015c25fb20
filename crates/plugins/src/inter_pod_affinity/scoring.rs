//! The Score of InterPodAffinity: preferred terms of the pod, and affinity terms of placed pods.

use std::sync::Arc;

use framework::{
    AffinityTermKind, Cluster, CycleState, Handle, MAX_NODE_SCORE, NodeIx, NodeView,
    NormalizeScore, Pod, PreScore, Score, ScoreScope, Status,
};

use super::InterPodAffinity;
use super::terms::{Terms, query};
use super::topology::TopologySums;

/// The sum of the weights of all matching terms, by domain.
#[derive(Debug, Clone)]
struct PreScoreState(Arc<TopologySums>);

impl PreScoreState {
    fn of_cycle(state: &CycleState) -> Result<&TopologySums, Status> {
        let own: Option<&Self> = state.read();
        own.map(|own| &*own.0)
            .ok_or_else(|| Status::error("InterPodAffinity has no data from PreScore"))
    }
}

impl InterPodAffinity {
    /// Returns the weight of a term of a placed pod that matches the pod.
    fn weight_of_existing(&self, kind: AffinityTermKind) -> Option<i64> {
        match kind {
            AffinityTermKind::RequiredAffinity if self.hard_pod_affinity_weight > 0 => {
                Some(self.hard_pod_affinity_weight.into())
            }
            AffinityTermKind::RequiredAffinity | AffinityTermKind::RequiredAntiAffinity => None,
            AffinityTermKind::PreferredAffinity { weight } => Some(weight.into()),
            AffinityTermKind::PreferredAntiAffinity { weight } => Some(-i64::from(weight)),
        }
    }

    /// Whether some term, of the pod or of a placed pod, weighs nodes for the pod.
    fn any_weighs(&self, pod: &Pod, terms: Terms<'_>, cluster: &Cluster) -> bool {
        let weighs = |kind| self.weight_of_existing(kind).is_some();
        terms.preferred().next().is_some()
            || !self.ignore_preferred_terms_of_existing_pods
                && cluster.terms_matching(pod).iter().any(|carried| weighs(carried.kind))
    }

    fn weigh(&self, pod: &Pod, terms: Terms<'_>, cluster: &Cluster) -> TopologySums {
        let mut sums = TopologySums::default();
        for (term, weight) in terms.preferred() {
            let pods = cluster.matching_pods(&query(term, cluster));
            let amounts =
                pods.iter().map(|(node, count)| (node, weight * i64::from(count.total())));
            sums.add(cluster, &term.topology_key, amounts);
        }
        for carried in cluster.terms_matching(pod) {
            let Some(weight) = self.weight_of_existing(carried.kind) else { continue };
            let carriers = carried.carriers.iter();
            let amounts = carriers.map(|(node, count)| (node, weight * i64::from(count)));
            sums.add(cluster, &carried.term.topology_key, amounts);
        }
        sums
    }
}

impl PreScore for InterPodAffinity {
    fn pre_score(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        handle: &Handle<'_>,
        _nodes: &[NodeIx],
    ) -> Status {
        let terms = match Terms::parse(pod) {
            Ok(terms) => terms,
            Err(text) => return Status::error(text),
        };
        if self.ignore_preferred_terms_of_existing_pods && terms.preferred().next().is_none() {
            return Status::skip();
        }
        let sums = self.weigh(pod, terms, handle.cluster);
        if sums.is_empty() {
            return Status::skip();
        }
        state.write_for_search(PreScoreState(Arc::new(sums)));
        Status::success()
    }
}

impl Score for InterPodAffinity {
    fn score(
        &self,
        state: &CycleState,
        _pod: &Pod,
        node: &NodeView<'_>,
        _handle: &Handle<'_>,
    ) -> Result<i64, Status> {
        let keys = PreScoreState::of_cycle(state)?.by_key(node.cluster());
        let sums = keys.filter_map(|(topology, sums)| {
            topology.domain_of(node.ix()).map(|domain| sums[domain.index()])
        });
        Ok(sums.fold(0, i64::saturating_add))
    }

    fn scope(&self, _state: &CycleState, pod: &Pod, handle: &Handle<'_>) -> ScoreScope {
        match Terms::parse(pod) {
            Ok(terms) if !self.any_weighs(pod, terms, handle.cluster) => ScoreScope::Node,
            _ => ScoreScope::Cluster,
        }
    }

    fn score_set(
        &self,
        state: &CycleState,
        _pod: &Pod,
        handle: &Handle<'_>,
        nodes: &[NodeIx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        let mut by_node = vec![0_i64; handle.cluster.table_len()];
        for (topology, sums) in PreScoreState::of_cycle(state)?.by_key(handle.cluster) {
            topology.column().iter().for_each(|(node, domain)| {
                let sum = domain.map_or(0, |domain| sums[domain.index()]);
                let score = &mut by_node[node.index()];
                *score = score.saturating_add(sum);
            });
        }
        for (node, score) in nodes.iter().zip(scores) {
            *score = by_node[node.index()];
        }
        Ok(())
    }
}

impl NormalizeScore for InterPodAffinity {
    /// Maps the lowest score to 0 and the highest to 100. Equal scores all become 0.
    fn normalize_score(
        &self,
        _state: &CycleState,
        _pod: &Pod,
        _nodes: &[NodeIx],
        scores: &mut [i64],
        _handle: &Handle<'_>,
    ) -> Status {
        let lowest = scores.iter().copied().min().unwrap_or(0);
        let highest = scores.iter().copied().max().unwrap_or(0);
        let range = highest.saturating_sub(lowest);
        for score in scores {
            *score = if range == 0 { 0 } else { scaled(score.saturating_sub(lowest), range) };
        }
        Status::success()
    }
}

/// Returns `above` as a percentage of `range`, truncated. Like kube-scheduler, divides first, in
/// floating point: 29 of 100 gives 28.
fn scaled(above: i64, range: i64) -> i64 {
    (MAX_NODE_SCORE as f64 * (above as f64 / range as f64)) as i64
}
