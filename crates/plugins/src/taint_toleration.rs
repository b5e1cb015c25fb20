//! TaintToleration: rejects nodes with taints that the pod does not tolerate, and prefers nodes
//! with fewer untolerated `PreferNoSchedule` taints.

use framework::{
    ActionType, Attempt, AttemptMut, Cluster, ClusterEvent, CycleState, Dependence, EventForPod,
    EventResource, Filter, FilterScope, HintResult, Node, NodeBits, NodeIx, NodeView,
    NormalizeScore, PerNode, Plugin, PluginArgs, PluginGates, Pod, PreScore, Score, ScoreScope,
    Status, Taint, TaintEffect, find_untolerated_with,
};

use crate::hint;
use crate::node_sets::NodeSums;
use crate::normalize::default_normalize;

/// Plugin name.
pub const NAME: &str = "TaintToleration";

const REASON: &str = "node(s) had untolerated taint(s)";

/// The TaintToleration plugin.
#[derive(Debug)]
pub struct TaintToleration {
    gates: PluginGates,
}

/// The cycle state of PreScore. Score fails without it.
#[derive(Debug, Clone, Copy)]
struct PreScored;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let nodes = ActionType::ADD | ActionType::UPDATE_NODE_TAINT;
    let pods = ActionType::UPDATE_POD_TOLERATION;
    Ok(Plugin::new(NAME, TaintToleration { gates: args.gates() })
        .filter()
        .pre_score()
        .score()
        .normalize_score()
        .on_with_hint(
            ClusterEvent::new(EventResource::Node, nodes),
            TaintToleration::after_node_change,
        )
        .on_with_hint(
            ClusterEvent::new(EventResource::Pod, pods),
            TaintToleration::after_own_toleration,
        )
        .build())
}

fn tolerates(pod: &Pod, taint: &Taint, gates: PluginGates) -> bool {
    let compares = gates.toleration_comparison;
    pod.spec.tolerations.iter().any(|own| own.tolerates_with(taint, compares))
}

/// Whether the pod tolerates all `NoSchedule` and `NoExecute` taints.
pub(crate) fn may_run(pod: &Pod, taints: &[Taint], gates: PluginGates) -> bool {
    let forbids = |taint: &Taint| taint.effect.forbids_scheduling();
    let (own, compares) = (&pod.spec.tolerations, gates.toleration_comparison);
    find_untolerated_with(taints, own, forbids, compares).is_none()
}

/// Retains the nodes whose `NoSchedule` and `NoExecute` taints the pod tolerates.
pub(crate) fn retain_tolerated(
    pod: &Pod,
    cluster: &Cluster,
    gates: PluginGates,
    nodes: &mut NodeBits,
) {
    for (taint, tainted) in cluster.taints() {
        if taint.effect.forbids_scheduling() && !tolerates(pod, taint, gates) {
            tainted.subtract_from(nodes);
        }
    }
}

/// Whether `taint` lowers the score of a node for the pod.
fn repels(pod: &Pod, taint: &Taint, gates: PluginGates) -> bool {
    taint.effect == TaintEffect::PreferNoSchedule && !tolerates(pod, taint, gates)
}

impl TaintToleration {
    fn after_node_change(&self, event: EventForPod<'_>) -> HintResult {
        let (old, new) = event.objects.nodes()?;
        let is_open = |node: &Node| may_run(event.pod, &node.taints, self.gates);
        Ok(hint::queue_if(!old.is_some_and(is_open) && new.is_some_and(is_open)))
    }

    fn after_own_toleration(&self, event: EventForPod<'_>) -> HintResult {
        Ok(hint::queue_if(hint::own_update(event)?.is_some()))
    }
}

impl Filter for TaintToleration {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        match may_run(attempt.pod, node.taints(), self.gates) {
            true => Status::success(),
            false => Status::unresolvable(REASON),
        }
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        retain_tolerated(attempt.pod, attempt.handle.cluster, self.gates, nodes);
        Ok(())
    }

    fn dependence(&self, _attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        Some(Dependence::on(FilterScope::Node).without_pods())
    }

    fn only_rejection(&self) -> Option<Status> {
        Some(Status::unresolvable(REASON))
    }
}

impl PreScore for TaintToleration {
    fn pre_score(&self, attempt: AttemptMut<'_>, _nodes: &[NodeIx]) -> Status {
        attempt.state.write(PreScored);
        Status::success()
    }
}

impl TaintToleration {
    fn require_pre_score(state: &CycleState) -> Result<(), Status> {
        match state.read::<PreScored>() {
            Some(PreScored) => Ok(()),
            None => Err(Status::error("PreScore of TaintToleration did not run")),
        }
    }
}

impl Score for TaintToleration {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        Self::require_pre_score(attempt.state)?;
        Ok(node
            .taints()
            .iter()
            .map(|taint| i64::from(repels(attempt.pod, taint, self.gates)))
            .sum())
    }

    fn dependence(&self, _attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        Some(Dependence::on(ScoreScope::Node).without_pods())
    }

    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        let PerNode { nodes, values: scores, .. } = scores;
        Self::require_pre_score(attempt.state)?;
        let mut repelling = attempt
            .handle
            .cluster
            .taints()
            .filter(|(taint, _)| repels(attempt.pod, taint, self.gates))
            .peekable();
        if repelling.peek().is_none() {
            scores.fill(0);
            return Ok(());
        }
        let mut counts = NodeSums::new(nodes, scores);
        repelling.for_each(|(_, tainted)| counts.add(tainted, 1));
        Ok(())
    }
}

impl NormalizeScore for TaintToleration {
    fn normalize_score(&self, _attempt: &Attempt<'_>, scores: PerNode<'_>) -> Status {
        default_normalize(scores.values, true);
        Status::success()
    }
}

#[cfg(test)]
mod tests {
    use framework::{EventObjects, QueueingHint, api};
    use proptest::prelude::*;
    use testkit::{NodeBuilder, PodBuilder, cluster, handle, node, pod};

    use super::*;
    use crate::arbitrary::{self, history};
    use crate::forms;

    fn ungated() -> TaintToleration {
        TaintToleration { gates: PluginGates::default() }
    }

    fn built() -> Plugin {
        plugin(&PluginArgs::default()).unwrap()
    }

    fn tolerant(key: &str, effect: &str) -> PodBuilder {
        pod("p").toleration(key, "Exists", "", effect)
    }

    fn tainted(taints: &[(&str, &str)]) -> NodeBuilder {
        taints.iter().fold(node("n"), |node, (key, effect)| node.taint(key, "", effect))
    }

    #[test]
    fn no_schedule_and_no_execute_taints_must_be_tolerated() {
        for (taints, pod, expected) in [
            (&[("a", "NoSchedule")][..], pod("p"), false),
            (&[("a", "NoSchedule")], tolerant("a", "NoSchedule"), true),
            (&[("a", "NoSchedule"), ("b", "NoExecute")], tolerant("a", ""), false),
            (&[("a", "NoSchedule"), ("b", "NoExecute")], tolerant("", ""), true),
            (&[("a", "PreferNoSchedule")], pod("p"), true),
            (&[("a", "Unheard")], pod("p"), true),
        ] {
            let cluster = cluster([tainted(taints).build()], []);
            let view = cluster.node(cluster.node_named("n").unwrap());
            let status = ungated().filter(
                &Attempt::new(&CycleState::new(), &pod.build(), &handle(view.cluster())),
                &view,
            );
            let verdict = if expected { Status::success() } else { Status::unresolvable(REASON) };
            assert_eq!(status, verdict, "{taints:?}");
        }
    }

    #[test]
    fn toleration_compares_numbers_if_the_gate_is_on() {
        let rated = |value: &str, effect: &str| node("n").taint("sla", value, effect).build();
        let wants = |operator: &str, value: &str, effect: &str| {
            pod("p").toleration("sla", operator, value, effect).build()
        };
        for gate in [false, true] {
            let gates = PluginGates { toleration_comparison: gate, ..PluginGates::default() };
            let plugin = plugin(&PluginArgs::default().with_gates(gates)).unwrap();
            for (taint, operator, value, tolerated) in [
                ("950", "Gt", "900", true),
                ("900", "Gt", "900", false),
                ("950", "Lt", "1000", true),
                ("high", "Gt", "900", false),
                ("0950", "Gt", "900", false),
            ] {
                let waiting = wants(operator, value, "NoSchedule");
                let fits = gate && tolerated;
                let rated_hard = rated(taint, "NoSchedule");
                let cluster = cluster([rated_hard.clone()], []);
                let mut kept = cluster.nodes().clone();
                let filter = plugin.filter.as_ref().unwrap();
                let (state, handle) = (CycleState::new(), handle(&cluster));
                let view = cluster.node(cluster.node_named("n").unwrap());
                let status = filter.filter(&Attempt::new(&state, &waiting, &handle), &view);
                assert_eq!(status.is_success(), fits, "{taint} {operator} {value}");
                filter.filter_set(&Attempt::new(&state, &waiting, &handle), &mut kept).unwrap();
                assert_eq!(kept.is_empty(), !fits, "{taint} {operator} {value}");
                let objects = EventObjects::Node { old: None, new: Some(&rated_hard) };
                let action = ActionType::ADD;
                let hint = forms::hint(&plugin, &waiting, EventResource::Node, action, objects);
                assert_eq!(hint == QueueingHint::Queue, fits, "{taint} {operator} {value}");
                let soft = wants(operator, value, "PreferNoSchedule");
                let repels = repels(&soft, &rated(taint, "PreferNoSchedule").taints[0], gates);
                assert_eq!(repels, !fits, "{taint} {operator} {value}");
            }
        }
    }

    #[test]
    fn no_schedule_toleration_does_not_improve_the_score() {
        let soft = &[("a", "PreferNoSchedule"), ("b", "PreferNoSchedule")];
        let cluster = cluster([tainted(soft).build()], []);
        let view = cluster.node(cluster.node_named("n").unwrap());
        let score = |pod: PodBuilder| {
            let (pod, mut state) = (pod.build(), CycleState::new());
            ungated()
                .pre_score(AttemptMut::new(&mut state, &pod, &handle(&cluster)), &[])
                .ok()
                .unwrap();
            ungated().score(&Attempt::new(&state, &pod, &handle(view.cluster())), &view)
        };
        assert_eq!(score(pod("p")), Ok(2));
        assert_eq!(score(tolerant("a", "NoSchedule")), Ok(2));
        assert_eq!(score(tolerant("a", "PreferNoSchedule")), Ok(1));
        assert_eq!(score(tolerant("", "")), Ok(0));
        let without = ungated().score(
            &Attempt::new(&CycleState::new(), &pod("p").build(), &handle(view.cluster())),
            &view,
        );
        assert!(without.is_err());
    }

    #[test]
    fn node_without_repelling_taints_scores_highest() {
        let cluster = cluster([node("n").build()], []);
        let (state, pod, mut scores) = (CycleState::new(), pod("p").build(), [2, 0, 1]);
        let status = ungated().normalize_score(
            &Attempt::new(&state, &pod, &handle(&cluster)),
            PerNode::new(&[], &mut scores),
        );
        assert_eq!((status, scores), (Status::success(), [0, 100, 50]));
    }

    #[test]
    fn node_with_tolerated_taints_requeues() {
        let (open, closed) = (node("n").build(), tainted(&[("a", "NoSchedule")]).build());
        let on_node = |old: Option<&Node>, new: &Node| {
            let objects = EventObjects::Node { old, new: Some(new) };
            let action = ActionType::UPDATE_NODE_TAINT;
            forms::hint(&built(), &pod("p").build(), EventResource::Node, action, objects)
        };
        assert_eq!(on_node(None, &open), QueueingHint::Queue);
        assert_eq!(on_node(None, &closed), QueueingHint::Skip);
        assert_eq!(on_node(Some(&closed), &open), QueueingHint::Queue);
        assert_eq!(on_node(Some(&open), &open), QueueingHint::Skip);
        assert_eq!(on_node(Some(&open), &closed), QueueingHint::Skip);
        for (name, expected) in [("p", QueueingHint::Queue), ("q", QueueingHint::Skip)] {
            let new = pod(name).build();
            let objects = EventObjects::Pod { old: None, new: Some(&new) };
            let action = ActionType::UPDATE_POD_TOLERATION;
            let waiting = pod("p").build();
            let hint = forms::hint(&built(), &waiting, EventResource::Pod, action, objects);
            assert_eq!(hint, expected);
        }
    }

    /// Counts the taints of one of `effects` that the pod does not tolerate.
    fn untolerated(pod: &api::Pod, node: &api::Node, effects: &[&str]) -> usize {
        let tolerated = |taint: &api::Taint| {
            pod.spec.tolerations.iter().any(|own| {
                (own.effect.is_empty() || own.effect == taint.effect)
                    && (own.key.is_empty() || own.key == taint.key)
                    && match own.operator.as_str() {
                        "" | "Equal" => own.value == taint.value,
                        operator => operator == "Exists",
                    }
            })
        };
        let about = node.spec.taints.iter().filter(|taint| effects.contains(&&*taint.effect));
        about.filter(|taint| !tolerated(taint)).count()
    }

    proptest! {
        #![proptest_config(forms::config())]

        #[test]
        fn filter_forms_agree(history in history(), pod in arbitrary::pod(), choice: u64) {
            forms::check_filter(&built(), &history.replay(), &pod, choice, |node| {
                match untolerated(&pod, node, &["NoSchedule", "NoExecute"]) {
                    0 => Status::success(),
                    _ => Status::unresolvable("node(s) had untolerated taint(s)"),
                }
            });
        }

        #[test]
        fn score_forms_agree(history in history(), pod in arbitrary::pod(), choice: u64) {
            forms::check_score(&built(), &history.replay(), &pod, choice, |node| {
                untolerated(&pod, node, &["PreferNoSchedule"]).try_into().unwrap()
            });
        }
    }
}
