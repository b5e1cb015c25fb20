//! NodeDeclaredFeatures.

use framework::ActionType as A;
use framework::EventResource as R;
use serde_json::json;

use super::objects::{create, delete, label, node, patch, pod, taint};
use super::scenario::{Expected, Scenario, event};
use Expected::{Bound, Left, Retried};

const NEEDED: &str = "UserNamespacesHostNetworkSupport";
const OTHER: &str = "ExtendWebSocketsToKubelet";

pub(crate) fn scenarios() -> Vec<Scenario> {
    let waiting = pod("p").spec(json!({"hostNetwork": true, "hostUsers": false}));
    let declaring = |feature| json!({"declaredFeatures": [feature]});
    let declare = |feature| patch("nodes/n/status", json!({"status": declaring(feature)}));
    vec![
        Scenario::new("NodeDeclaredFeatures", waiting, [node("n"), pod("q").on("n")])
            .on(
                event(R::Node, A::ADD),
                "a node with it comes",
                create(node("m").status(declaring(NEEDED))),
                Bound,
            )
            .on(event(R::Node, A::ADD), "another node comes", create(node("m")), Retried)
            .on(
                event(R::Node, A::UPDATE_NODE_DECLARED_FEATURE),
                "it is there",
                declare(NEEDED),
                Bound,
            )
            .on(
                event(R::Node, A::UPDATE_NODE_DECLARED_FEATURE),
                "another is",
                declare(OTHER),
                Retried,
            )
            .on(
                event(R::Node, A::UPDATE_NODE_TAINT),
                "a node is tainted",
                taint("nodes/n", "k"),
                Retried,
            )
            .on(
                event(R::UnschedulablePod, A::UPDATE_POD_LABEL),
                "the pod is labelled",
                label("pods/p", "k", "v"),
                Left,
            )
            .on(
                event(R::AssignedPod, A::UPDATE_POD_LABEL),
                "another pod is",
                label("pods/q", "k", "v"),
                Left,
            )
            .passes_over("the node is labelled", label("nodes/n", "k", "v"))
            .passes_over("a pod goes", delete("pods/q")),
    ]
}

#[test]
fn node_declared_features_rejects_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
