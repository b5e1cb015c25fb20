//! The Score of InterPodAffinity: preferred terms of the pod, and affinity terms of placed pods.

use std::sync::Arc;

use framework::{
    AffinityTermKind, Attempt, AttemptMut, Cluster, CycleState, Dependence, MAX_NODE_SCORE, NodeIx,
    NodeView, NormalizeScore, PerNode, Pod, PreScore, Score, ScoreScope, Status,
};

use super::InterPodAffinity;
use super::terms::{Terms, query};
use super::topology::{Source, TopologySums};
use crate::packed_keys::{PackedKeys, unsigned};

/// The sum of the weights of all matching terms, by domain.
#[derive(Debug, Clone)]
struct PreScoreState(Arc<TopologySums>);

/// The sums of the pods of a template, from one attempt to the next.
struct Kept(Arc<TopologySums>);

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

    /// Returns the sums of the weights of all matching terms; `None` if no term has a weight. An
    /// attempt counts once.
    fn weigh(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        terms: Terms<'_>,
        cluster: &Cluster,
    ) -> Option<Arc<TopologySums>> {
        if let Some(PreScoreState(sums)) = state.read() {
            return Some(sums.clone());
        }
        let sources = self.sources(pod, terms, cluster);
        if sources.is_empty() {
            return None;
        }
        let kept = state.take_kept::<Kept>().filter(|(Kept(sums), _)| sums.are_of(&sources));
        let sums = match kept {
            Some((Kept(mut sums), changed)) => {
                if Arc::make_mut(&mut sums).repair(&sources, cluster, &changed) {
                    state.rekey();
                }
                sums
            }
            None => {
                state.rekey();
                Arc::new(TopologySums::of(&sources, cluster, state.keeps()))
            }
        };
        if state.keeps() {
            state.keep(Kept(sums.clone()), sums.size());
        }
        state.write_for_search(PreScoreState(sums.clone()));
        Some(sums)
    }

    fn sources<'a>(&self, pod: &Pod, terms: Terms<'a>, cluster: &'a Cluster) -> Vec<Source<'a>> {
        let own = terms.preferred().map(|(term, weight)| {
            Source::matching(&term.topology_key, weight, query(term, cluster), cluster)
        });
        let own: Vec<_> = own.collect();
        if self.ignore_preferred_terms_of_existing_pods && own.is_empty() {
            return own;
        }
        let existing = cluster.terms_matching(pod).into_iter().filter_map(|carried| {
            Some(Source::carrying(self.weight_of_existing(carried.kind)?, carried))
        });
        own.into_iter().chain(existing).collect()
    }
}

impl PreScore for InterPodAffinity {
    fn pre_score(&self, attempt: AttemptMut<'_>, _nodes: &[NodeIx]) -> Status {
        let AttemptMut { state, pod, handle, .. } = attempt;
        let terms = match Terms::parse(pod) {
            Ok(terms) => terms,
            Err(text) => return Status::error(text),
        };
        match self.weigh(state, pod, terms, handle.cluster) {
            Some(sums) if !sums.is_empty() => Status::success(),
            _ => Status::skip(),
        }
    }
}

impl Score for InterPodAffinity {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        let keys = PreScoreState::of_cycle(attempt.state)?.topologies(node.cluster());
        Ok(keys.map(|sums| sums.of_node(node.ix())).fold(0, i64::saturating_add))
    }

    fn dependence(&self, attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        let AttemptMut { state, pod, handle, .. } = attempt;
        let Ok(terms) = Terms::parse(pod) else {
            return Some(Dependence::on(ScoreScope::Cluster));
        };
        let scope = match self.weigh(state, pod, terms, handle.cluster) {
            Some(_) => ScoreScope::Tier,
            None => ScoreScope::Node,
        };
        Some(Dependence::on(scope))
    }

    /// The key has for each topology key the domain of the node, or the sum of the node if each
    /// domain is a single node.
    fn key_set(&self, attempt: &Attempt<'_>, keys: PerNode<'_>) -> Result<(), Status> {
        let PerNode { nodes, values: keys, .. } = keys;
        let all: Vec<_> =
            PreScoreState::of_cycle(attempt.state)?.topologies(attempt.handle.cluster).collect();
        let mut packed = PackedKeys::of(all.len(), nodes, keys);
        all.iter().for_each(|own| own.push_to(&mut packed, unsigned));
        packed.finish()
    }

    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        let PerNode { nodes, values: scores, .. } = scores;
        scores.fill(0);
        for sums in PreScoreState::of_cycle(attempt.state)?.topologies(attempt.handle.cluster) {
            for (node, score) in nodes.iter().zip(&mut *scores) {
                *score = score.saturating_add(sums.of_node(*node));
            }
        }
        Ok(())
    }
}

impl NormalizeScore for InterPodAffinity {
    /// Maps the lowest score to 0 and the highest to 100. Equal scores all become 0.
    fn normalize_score(&self, _attempt: &Attempt<'_>, scores: PerNode<'_>) -> Status {
        let scores = scores.values;
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
