//! PodState: prefers nodes with many terminating pods and few nominated ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{
    Attempt, AttemptMut, Dependence, NodeView, NominatedPods, NormalizeScore, PerNode, Plugin,
    PluginArgs, Score, ScoreScope, Status,
};

use crate::min_max;

/// Name of the plugin.
pub const NAME: &str = "PodState";

/// The plugin.
#[derive(Debug)]
struct PodState;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    Ok(Plugin::new(NAME, PodState)
        .score()
        .normalize_score()
        .no_events()
        .decides_by_template()
        .build())
}

/// Number of nominated pods of the nodes that have some.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Nominations(BTreeMap<Arc<str>, usize>);

impl Nominations {
    fn of(nominated: &dyn NominatedPods) -> Self {
        let nodes = nominated.nodes().into_iter();
        Self(nodes.map(|node| (node.clone(), nominated.nominated_to(&node).len())).collect())
    }
}

impl Score for PodState {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        let terminating = node.pods().filter(|pod| pod.terminating).count();
        let nominated = attempt.handle.nominated.nominated_to(node.name()).len();
        Ok(terminating as i64 - nominated as i64)
    }

    /// Looks up nominations once for all nodes: usually there are none.
    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        let Nominations(nominated) = Nominations::of(attempt.handle.nominated);
        for (node, score) in scores.nodes.iter().zip(scores.values) {
            let node = attempt.handle.cluster.node(*node);
            let terminating = node.pods().filter(|pod| pod.terminating).count();
            let nominated = match nominated.is_empty() {
                true => 0,
                false => nominated.get(node.name()).copied().unwrap_or(0),
            };
            *score = terminating as i64 - nominated as i64;
        }
        Ok(())
    }

    /// The pods on a node and the nominations decide. A nomination is no change of a node, so the
    /// keys of all nodes are asked for again after one.
    fn dependence(&self, attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        let AttemptMut { state, handle, .. } = attempt;
        if state.read::<Nominations>().is_none() {
            let nominations = Nominations::of(handle.nominated);
            let kept = state.take_kept::<Nominations>();
            if kept.is_none_or(|(kept, _)| kept != nominations) {
                state.rekey();
            }
            if state.keeps() {
                state.keep(nominations.clone(), 1 + 4 * nominations.0.len());
            }
            state.write_for_search(nominations);
        }
        Some(Dependence::on(ScoreScope::Tier))
    }
}

impl NormalizeScore for PodState {
    fn normalize_score(&self, _attempt: &Attempt<'_>, scores: PerNode<'_>) -> Status {
        min_max::normalize(scores.values, 0, |_| true);
        Status::success()
    }
}

#[cfg(test)]
mod tests {
    use framework::CycleState;
    use testkit::{HandleParts, Harness, PodBuilder, node, pod};

    use super::*;

    fn terminating(name: &str) -> PodBuilder {
        pod(name).with(|pod| {
            pod.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
        })
    }

    fn harness() -> Harness {
        Harness::new(plugin(&PluginArgs::default()).unwrap())
            .node(node("a").build())
            .node(node("b").build())
            .node(node("c").build())
            .pod(terminating("t1").on("a").build())
            .pod(terminating("t2").on("a").build())
            .pod(terminating("t3").on("b").build())
            .pod(pod("runs").on("c").build())
    }

    #[test]
    fn terminating_pods_raise_the_score() {
        let run = harness().run(&pod("p").build());
        assert_eq!(["a", "b", "c"].map(|name| run.raw_scores[name]), [2, 1, 0]);
        assert_eq!(["a", "b", "c"].map(|name| run.scores[name]), [100, 50, 0]);
        assert_eq!(harness().ranking_problem(&pod("p").build()), None);
    }

    #[test]
    fn nominated_pods_lower_the_score_in_both_forms() {
        let harness = harness();
        let cluster = harness.cluster();
        let nominated: Vec<_> =
            ["x", "y"].map(|name| Arc::new(pod(name).nominated("b").build())).into();
        let parts = HandleParts {
            nominated: [(Arc::from("b"), nominated)].into(),
            ..HandleParts::default()
        };
        let (state, p, handle) = (CycleState::new(), pod("p").build(), parts.handle(cluster));
        let attempt = Attempt::new(&state, &p, &handle);
        let nodes: Vec<_> = cluster.nodes().iter().collect();
        let mut set = vec![0; nodes.len()];
        PodState.score_set(&attempt, PerNode::new(&nodes, &mut set)).unwrap();
        let one = nodes.iter().map(|ix| PodState.score(&attempt, &cluster.node(*ix)).unwrap());
        assert_eq!(one.collect::<Vec<_>>(), set);
        assert_eq!(set, [2, -1, 0]);
    }

    #[test]
    fn changed_nominations_ask_for_the_keys_again() {
        let harness = harness();
        let p = pod("p").build();
        let nominated = Arc::new(pod("x").nominated("b").build());
        let with = HandleParts {
            nominated: [(Arc::from("b"), vec![nominated])].into(),
            ..HandleParts::default()
        };
        let without = HandleParts::default();
        let mut state = CycleState::new();
        let mut rekeys = |parts: &HandleParts| {
            let handle = parts.handle(harness.cluster());
            let scope = PodState.dependence(AttemptMut::new(&mut state, &p, &handle)).unwrap();
            assert_eq!(scope.scope, ScoreScope::Tier);
            let rekeyed = state.take_rekeyed();
            state.end_search();
            rekeyed
        };
        // The state of an attempt that keeps nothing: each attempt asks again.
        assert!(rekeys(&without) && rekeys(&with));
    }
}
