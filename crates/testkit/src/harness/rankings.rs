//! Whether a plugin makes the scheduler look at every node.

use framework::{
    Attempt, AttemptMut, CycleState, Filter, FilterScope, NodeIx, PerNode, Pod, ScoreScope,
};

use super::Harness;

const SILENT: &str = "returns None";
const OF_CLUSTER: &str = "returns the scope Cluster";

impl Harness {
    /// Returns why a decision about `pod` looks at every node in a profile with the plugin, and
    /// what to do; `None` if the plugin lets the scheduler [keep its
    /// answers](framework::Filter::dependence).
    ///
    /// A pod that PreFilter rejects is not a problem, nor is a Filter that it skips.
    pub fn ranking_problem(&self, pod: &Pod) -> Option<String> {
        let (mut state, handle) = (CycleState::new(), self.handle());
        let mut filter = self.plugin.filter.as_deref();
        if let Some(plugin) = &self.plugin.pre_filter
            && let Err(status) = plugin.pre_filter(AttemptMut::new(&mut state, pod, &handle))
        {
            if !status.is_skip() {
                return None;
            }
            filter = None;
        }
        if let Some(filter) = filter
            && let Some(problem) = self.filter_problem(filter, &Attempt::new(&state, pod, &handle))
        {
            return Some(self.advice("Filter", problem));
        }
        let score = self.plugin.score.as_deref()?;
        match score.dependence(AttemptMut::new(&mut state, pod, &handle)).map(|own| own.scope) {
            None => Some(self.advice("Score", SILENT)),
            Some(ScoreScope::Cluster) => Some(self.advice("Score", OF_CLUSTER)),
            Some(ScoreScope::Node | ScoreScope::Key | ScoreScope::Tier) => None,
        }
    }

    fn filter_problem(&self, filter: &dyn Filter, attempt: &Attempt<'_>) -> Option<&'static str> {
        match filter.dependence(attempt).map(|own| own.scope) {
            None => Some(SILENT),
            Some(FilterScope::Cluster) => Some(OF_CLUSTER),
            Some(FilterScope::Node | FilterScope::NodeAsOf(_)) => None,
            Some(FilterScope::Tier) => {
                let nodes: Vec<NodeIx> = self.cluster.nodes().iter().collect();
                let keys = filter.key_set(attempt, PerNode::new(&nodes, &mut vec![0; nodes.len()]));
                keys.is_err().then_some("returns the scope Tier, and Filter::key_set fails")
            }
        }
    }

    fn advice(&self, point: &str, problem: &str) -> String {
        format!(
            "{plugin}: {point}::dependence {problem}, so the scheduler looks at every node for each such pod of the \
             profile. If a node is judged by itself, return {point}Scope::Node.",
            plugin = self.plugin.name
        )
    }
}

#[cfg(test)]
mod tests {
    use framework::{Dependence, NodeView, Plugin, PreFilter, PreFilterResult, Score, Status};

    use super::*;
    use crate::{node, pod};

    /// A plugin with the dependences that the test gives.
    struct Told(Option<FilterScope>, Option<ScoreScope>);

    impl PreFilter for Told {
        fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
            match &*attempt.pod.key.name {
                "skipped" => Err(Status::skip()),
                "rejected" => Err(Status::unresolvable("no")),
                _ => Ok(PreFilterResult::default()),
            }
        }
    }

    impl Filter for Told {
        fn filter(&self, _: &Attempt<'_>, _: &NodeView<'_>) -> Status {
            Status::success()
        }

        fn dependence(&self, _: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
            self.0.map(Dependence::on)
        }
    }

    impl Score for Told {
        fn score(&self, _: &Attempt<'_>, _: &NodeView<'_>) -> Result<i64, Status> {
            Ok(0)
        }

        fn dependence(&self, _: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
            self.1.map(Dependence::on)
        }
    }

    fn problem(told: Told, pod_name: &str) -> Option<String> {
        let plugin = Plugin::new("Told", told).pre_filter().filter().score().build();
        Harness::new(plugin).node(node("a").build()).ranking_problem(&pod(pod_name).build())
    }

    #[test]
    fn problem_names_what_makes_the_scheduler_look_at_every_node() {
        let (by_node, by_score) = (Some(FilterScope::Node), Some(ScoreScope::Node));
        let silent = problem(Told(None, by_score), "p").unwrap();
        assert_eq!(
            silent,
            "Told: Filter::dependence returns None, so the scheduler looks at every node for each such pod of the \
             profile. If a node is judged by itself, return FilterScope::Node."
        );
        let rows = [
            (Told(by_node, by_score), "p", None),
            (
                Told(Some(FilterScope::Cluster), by_score),
                "p",
                Some("Filter::dependence returns the scope Cluster"),
            ),
            (Told(Some(FilterScope::Tier), by_score), "p", Some("Filter::key_set fails")),
            (Told(by_node, None), "p", Some("Score::dependence returns None")),
            (
                Told(by_node, Some(ScoreScope::Cluster)),
                "p",
                Some("Score::dependence returns the scope Cluster"),
            ),
            (Told(None, by_score), "skipped", None),
            (Told(None, None), "rejected", None),
        ];
        for (place, (told, pod, expected)) in rows.into_iter().enumerate() {
            let problem = problem(told, pod);
            let expected = expected.unwrap_or_default();
            assert!(
                problem.as_deref().unwrap_or_default().contains(expected),
                "row {place}: {problem:?}"
            );
            assert_eq!(problem.is_none(), expected.is_empty(), "row {place}: {problem:?}");
        }
    }
}
