//! TaintToleration.

use framework::ActionType as A;
use framework::EventResource as R;
use serde_json::{Value, json};

use super::objects::{create, delete, label, node, patch, pod, tolerate};
use super::scenario::{Expected, Scenario, event};
use Expected::{Bound, Left, Retried};

fn taints(keys: &[&str]) -> Value {
    let taint = |key| json!({"key": key, "effect": "NoSchedule"});
    json!({"taints": keys.iter().map(taint).collect::<Vec<_>>()})
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    let tainted = |name| node(name).spec(taints(&["busy"]));
    let retaint = |keys: &[&str]| patch("nodes/n", json!({"spec": taints(keys)}));
    vec![
        Scenario::new("TaintToleration", pod("p"), [tainted("n"), pod("q").on("n")])
            .on(event(R::Node, A::ADD), "a node comes", create(node("m")), Bound)
            .on(event(R::Node, A::ADD), "a tainted node comes", create(tainted("m")), Left)
            .on(event(R::Node, A::UPDATE_NODE_TAINT), "the taint goes", retaint(&[]), Bound)
            .on(
                event(R::Node, A::UPDATE_NODE_TAINT),
                "another joins it",
                retaint(&["a", "busy"]),
                Left,
            )
            .on(
                event(R::Node, A::UPDATE_NODE_TAINT),
                "another takes its place",
                retaint(&["a"]),
                Left,
            )
            .on(
                event(R::UnschedulablePod, A::UPDATE_POD_TOLERATION),
                "the pod tolerates the taint",
                tolerate("pods/p", "busy"),
                Bound,
            )
            .on(
                event(R::UnschedulablePod, A::UPDATE_POD_TOLERATION),
                "the pod tolerates something else",
                tolerate("pods/p", "a"),
                Retried,
            )
            .on(
                event(R::AssignedPod, A::UPDATE_POD_TOLERATION),
                "another pod tolerates the taint",
                tolerate("pods/q", "busy"),
                Left,
            )
            .passes_over("the node is labelled", label("nodes/n", "k", "v"))
            .passes_over("a pod goes", delete("pods/q")),
    ]
}

#[test]
fn taint_toleration_rejects_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
