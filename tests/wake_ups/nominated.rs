//! Room of a nominated pod is freed without any pod leaving a node.

use framework::ActionType as A;
use framework::EventResource as R;
use serde_json::{Value, json};

use super::objects::{Object, Step, create, delete, label, node, patch, pod, priority_class};
use super::scenario::{Expected, Scenario, event};
use Expected::Bound;

/// Pods of this class keep their nomination, because they cannot preempt.
fn class() -> Object {
    priority_class("patient", 0).fields(json!({"preemptionPolicy": "Never"}))
}

/// A pod nominated to `n` that waits for a node which its affinity selects.
fn guest() -> Object {
    let spec = json!({"nodeSelector": {"disk": "fast"}, "priorityClassName": "patient"});
    pod("guest").spec(spec).status(json!({"nominatedNodeName": "n"}))
}

fn nominate(node: Value) -> Step {
    patch("pods/guest/status", json!({"status": {"nominatedNodeName": node}}))
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    let with_port =
        |pod: Object| pod.container("ports", json!([{"containerPort": 80, "hostPort": 8080}]));
    let cordoned = || node("m").spec(json!({"unschedulable": true}));
    let scenario = |plugin, demanding: &dyn Fn(Object) -> Object| {
        let given = [node("n"), cordoned(), class(), demanding(guest())];
        Scenario::new(plugin, demanding(pod("p")), given)
            .beside(&["NodeUnschedulable"])
            .on(event(R::AssignedPod, A::DELETE), "the guest goes", delete("pods/guest"), Bound)
            .on(event(R::AssignedPod, A::DELETE), "no room is kept", nominate(json!(null)), Bound)
            .on(
                event(R::AssignedPod, A::DELETE),
                "room is kept elsewhere",
                nominate(json!("m")),
                Bound,
            )
            .passes_over("the guest is labelled", label("pods/guest", "k", "v"))
            .passes_over("a pod comes", create(pod("q").on("n")))
    };
    vec![
        scenario("NodeResourcesFit", &|pod| pod.requests("cpu", "3")),
        scenario("NodePorts", &with_port),
    ]
}

#[test]
fn room_of_a_nominated_pod_rejects_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
