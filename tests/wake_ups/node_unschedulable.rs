//! NodeUnschedulable.

use framework::ActionType as A;
use framework::EventResource as R;
use serde_json::json;

use super::objects::{create, delete, label, node, patch, pod, taint, tolerate};
use super::scenario::{Expected, Scenario, event};
use Expected::{Bound, Left};

const CORDON: &str = "node.kubernetes.io/unschedulable";

pub(crate) fn scenarios() -> Vec<Scenario> {
    let cordoned = |name| node(name).spec(json!({"unschedulable": true}));
    vec![
        Scenario::new("NodeUnschedulable", pod("p"), [cordoned("n"), pod("q").on("n")])
            .on(event(R::Node, A::ADD), "a node comes", create(node("m")), Bound)
            .on(event(R::Node, A::ADD), "a cordoned node comes", create(cordoned("m")), Left)
            .on(
                event(R::Node, A::UPDATE_NODE_TAINT),
                "the node is uncordoned",
                patch("nodes/n", json!({"spec": {"unschedulable": null}})),
                Bound,
            )
            .on(
                event(R::Node, A::UPDATE_NODE_TAINT),
                "the node stays cordoned and is tainted",
                taint("nodes/n", "k"),
                Left,
            )
            .on(
                event(R::UnschedulablePod, A::UPDATE_POD_TOLERATION),
                "the pod tolerates cordons",
                tolerate("pods/p", CORDON),
                Bound,
            )
            .on(
                event(R::UnschedulablePod, A::UPDATE_POD_TOLERATION),
                "the pod tolerates something else",
                tolerate("pods/p", "k"),
                Left,
            )
            .on(
                event(R::AssignedPod, A::UPDATE_POD_TOLERATION),
                "another pod tolerates cordons",
                tolerate("pods/q", CORDON),
                Left,
            )
            .passes_over("the node is labelled", label("nodes/n", "k", "v"))
            .passes_over("a pod goes", delete("pods/q")),
    ]
}

#[test]
fn node_unschedulable_rejects_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
