//! NodePorts.

use framework::ActionType as A;
use framework::EventResource as R;
use serde_json::json;

use super::objects::{Object, create, delete, label, node, pod, taint};
use super::scenario::{Expected, Scenario, event};
use Expected::{Bound, Left, Retried};

fn with_port(name: &str, port: u16) -> Object {
    pod(name).container("ports", json!([{"containerPort": 80, "hostPort": port}]))
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    let given = [
        node("n"),
        with_port("same", 8080).on("n"),
        with_port("other", 8081).on("n"),
        pod("none").on("n"),
    ];
    vec![
        Scenario::new("NodePorts", with_port("p", 8080), given)
            .on(event(R::AssignedPod, A::DELETE), "the port is free", delete("pods/same"), Bound)
            .on(
                event(R::AssignedPod, A::DELETE),
                "another port is free",
                delete("pods/other"),
                Left,
            )
            .on(
                event(R::AssignedPod, A::DELETE),
                "a pod without ports goes",
                delete("pods/none"),
                Left,
            )
            .on(event(R::Node, A::ADD), "a node comes", create(node("m")), Bound)
            .on(
                event(R::Node, A::UPDATE_NODE_TAINT),
                "a node is tainted",
                taint("nodes/n", "k"),
                Retried,
            )
            .passes_over("the node is labelled", label("nodes/n", "k", "v"))
            .passes_over("the pod with the port is labelled", label("pods/same", "k", "v")),
    ]
}

#[test]
fn node_ports_rejects_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
