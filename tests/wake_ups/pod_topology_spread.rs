//! PodTopologySpread, with constraints of the pod.

use framework::ActionType as A;
use framework::EventResource as R;
use serde_json::{Value, json};

use super::objects::{Object, create, delete, label, node, patch, pod, taint, terminate, tolerate};
use super::scenario::{Expected, Scenario, event};
use Expected::{Bound, Left, Retried};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![in_few_zones(), beside_an_empty_zone(), with_policies()]
}

fn in_zone(name: &str, zone: &str) -> Object {
    node(name).label("zone", zone)
}

pub(super) fn web(name: &str) -> Object {
    pod(name).label("app", "web")
}

/// A pod with a constraint that spreads its application over zones, with these additional fields in
/// the constraint.
fn spread(fields: Value) -> Object {
    let mut constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable":
        "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}});
    let rule = constraint.as_object_mut().unwrap();
    rule.extend(fields.as_object().unwrap().clone());
    web("p").spec(json!({"topologySpreadConstraints": [constraint]}))
}

/// There is one of the two required zones, and it has its pod.
fn in_few_zones() -> Scenario {
    let given = [in_zone("a", "a"), node("nowhere"), web("web").on("a"), pod("other").on("a")];
    Scenario::new("PodTopologySpread", spread(json!({"minDomains": 2})), given)
        .on(event(R::AssignedPod, A::DELETE), "its like goes", delete("pods/web"), Bound)
        .on(event(R::AssignedPod, A::DELETE), "another pod goes", delete("pods/other"), Left)
        .on(
            event(R::AssignedPod, A::UPDATE),
            "its like is about to go",
            terminate("pods/web"),
            Bound,
        )
        .on(event(R::AssignedPod, A::UPDATE), "another pod is", terminate("pods/other"), Left)
        .on(
            event(R::AssignedPod, A::UPDATE_POD_LABEL),
            "its like becomes another",
            label("pods/web", "app", "db"),
            Bound,
        )
        .on(
            event(R::AssignedPod, A::UPDATE_POD_LABEL),
            "its like stays its like",
            label("pods/web", "tier", "front"),
            Left,
        )
        .on(
            event(R::UnschedulablePod, A::UPDATE_POD_LABEL),
            "it becomes another itself",
            label("pods/p", "app", "db"),
            Bound,
        )
        .on(
            event(R::UnschedulablePod, A::UPDATE_POD_TOLERATION),
            "it tolerates something",
            tolerate("pods/p", "busy"),
            Left,
        )
        .on(event(R::Node, A::ADD), "a second zone comes", create(in_zone("b", "b")), Bound)
        .on(event(R::Node, A::ADD), "a node without zone comes", create(node("b")), Left)
        .on(
            event(R::Node, A::UPDATE_NODE_LABEL),
            "a node becomes the second zone",
            label("nodes/nowhere", "zone", "b"),
            Bound,
        )
        .on(
            event(R::Node, A::UPDATE_NODE_LABEL),
            "a node without zone is labelled",
            label("nodes/nowhere", "rack", "b"),
            Left,
        )
        .on(event(R::Node, A::DELETE), "a node without zone goes", delete("nodes/nowhere"), Left)
        .on(
            event(R::Node, A::UPDATE_NODE_TAINT),
            "a node without zone is tainted",
            taint("nodes/nowhere", "busy"),
            Left,
        )
        .passes_over(
            "a node grows",
            patch("nodes/a/status", json!({"status": {"allocatable": {"cpu": "9"}}})),
        )
}

/// There are two zones; the pod does not fit in the empty one.
fn beside_an_empty_zone() -> Scenario {
    Scenario::new("PodTopologySpread", spread(json!({})), with_unusable_zone())
        .beside(&["TaintToleration"])
        .on(event(R::AssignedPod, A::ADD), "its like comes there", create(web("q").on("b")), Bound)
        .on(event(R::AssignedPod, A::ADD), "its like comes here", create(web("q").on("a")), Retried)
        .on(
            event(R::AssignedPod, A::ADD),
            "another pod comes there",
            create(pod("q").on("b")),
            Left,
        )
        .on(
            event(R::AssignedPod, A::ADD),
            "its like comes there in another namespace",
            create(web("q").on("b").in_namespace("kube-public")),
            Left,
        )
        .on(event(R::Node, A::DELETE), "that zone goes", delete("nodes/b"), Bound)
        .on(
            event(R::Node, A::UPDATE_NODE_TAINT),
            "that zone can be used",
            patch("nodes/b", json!({"spec": {"taints": null}})),
            Bound,
        )
}

/// A zone with a pod of the application, and an empty zone with a taint.
pub(super) fn with_unusable_zone() -> [Object; 3] {
    let taints = json!({"taints": [{"key": "busy", "effect": "NoSchedule"}]});
    [in_zone("a", "a"), in_zone("b", "b").spec(taints), web("web").on("a")]
}

/// Nodes with untolerated taints, or outside the node affinity, do not count.
fn with_policies() -> Scenario {
    let honest = json!({"nodeTaintsPolicy": "Honor", "minDomains": 2});
    let waiting = spread(honest).spec(json!({"nodeSelector": {"disk": "fast"}}));
    let fast = with_unusable_zone().map(|object| object.label("disk", "fast"));
    let [a, b, web] = fast;
    Scenario::new("PodTopologySpread", waiting, [a, b, web, in_zone("c", "c")])
        .beside(&["TaintToleration", "NodeAffinity"])
        .on(
            event(R::UnschedulablePod, A::UPDATE_POD_TOLERATION),
            "it tolerates the taint",
            tolerate("pods/p", "busy"),
            Bound,
        )
        .on(
            event(R::Node, A::UPDATE_NODE_TAINT),
            "the taint goes",
            patch("nodes/b", json!({"spec": {"taints": null}})),
            Bound,
        )
        .on(
            event(R::Node, A::UPDATE_NODE_LABEL),
            "a node becomes one of its choice",
            label("nodes/c", "disk", "fast"),
            Bound,
        )
}

#[test]
fn topology_spread_constraints_reject_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
