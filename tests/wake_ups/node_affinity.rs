//! NodeAffinity.

use framework::ActionType as A;
use framework::EventResource as R;
use serde_json::json;

use super::objects::{create, delete, label, node, patch, pod, taint};
use super::scenario::{Expected, Scenario, event};
use Expected::{Bound, Left, Retried};

/// A configuration with added affinity: nodes must be in the pool.
const ADDED_AFFINITY: &str = "profiles: [{pluginConfig: [{name: NodeAffinity, args: \
    {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: \
    [{matchExpressions: [{key: pool, operator: Exists}]}]}}}}]}]";

pub(crate) fn scenarios() -> Vec<Scenario> {
    let wanting = || pod("p").spec(json!({"nodeSelector": {"disk": "fast"}}));
    vec![
        Scenario::new("NodeAffinity", wanting(), [node("n"), pod("q").on("n")])
            .on(
                event(R::Node, A::ADD),
                "such a node comes",
                create(node("m").label("disk", "fast")),
                Bound,
            )
            .on(
                event(R::Node, A::ADD),
                "another comes",
                create(node("m").label("disk", "slow")),
                Left,
            )
            .on(
                event(R::Node, A::UPDATE_NODE_LABEL),
                "it fits",
                label("nodes/n", "disk", "fast"),
                Bound,
            )
            .on(
                event(R::Node, A::UPDATE_NODE_LABEL),
                "it does not",
                label("nodes/n", "disk", "slow"),
                Left,
            )
            .on(
                event(R::Node, A::UPDATE_NODE_TAINT),
                "a node is tainted",
                taint("nodes/n", "k"),
                Retried,
            )
            .passes_over(
                "the node grows",
                patch("nodes/n/status", json!({"status": {"allocatable": {"cpu": "9"}}})),
            )
            .passes_over("a pod goes", delete("pods/q")),
        Scenario::new("NodeAffinity", wanting(), [node("n").label("disk", "fast")])
            .configured(ADDED_AFFINITY)
            .on(
                event(R::Node, A::UPDATE_NODE_LABEL),
                "a node joins the pool",
                label("nodes/n", "pool", "a"),
                Bound,
            )
            .on(
                event(R::Node, A::UPDATE_NODE_LABEL),
                "a node is labelled otherwise",
                label("nodes/n", "rack", "a"),
                Left,
            )
            .on(
                event(R::Node, A::ADD),
                "a node comes that the pod alone would take",
                create(node("m").label("disk", "fast")),
                Left,
            ),
    ]
}

#[test]
fn node_affinity_rejects_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
