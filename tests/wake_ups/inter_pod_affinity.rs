//! InterPodAffinity.

use framework::ActionType as A;
use framework::EventResource as R;
use serde_json::{Value, json};

use super::objects::{Object, create, delete, label, node, object, patch, pod, taint};
use super::scenario::{Expected, Scenario, event};
use Expected::{Bound, Left, Retried};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![near(), first_of_its_kind(), away(), kept_away(), near_a_team(), away_from_a_team()]
}

fn in_zone(name: &str, zone: &str) -> Object {
    node(name).label("zone", zone)
}

fn of(name: &str, app: &str) -> Object {
    pod(name).label("app", app)
}

fn team(name: &str, team: &str) -> Object {
    object("v1", "Namespace", name).label("team", team)
}

/// A term by zone that selects the pods of an application.
fn zone_of(app: &str) -> Value {
    json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}})
}

/// A term by zone that selects the pods of a team.
fn zone_of_team(app: &str) -> Value {
    let mut term = zone_of(app);
    term["namespaceSelector"] = json!({"matchLabels": {"team": "blue"}});
    term
}

fn affinity(pod: Object, sort: &str, term: Value) -> Object {
    let terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    pod.spec(json!({"affinity": {sort: terms}}))
}

fn near_to(pod: Object, term: Value) -> Object {
    affinity(pod, "podAffinity", term)
}

fn away_from(pod: Object, term: Value) -> Object {
    affinity(pod, "podAntiAffinity", term)
}

/// The pod requires affinity to a database, and there is none.
fn near() -> Scenario {
    let given = [in_zone("a", "a"), node("nowhere"), of("cache", "cache").on("a")];
    Scenario::new("InterPodAffinity", near_to(of("p", "web"), zone_of("db")), given)
        .on(event(R::AssignedPod, A::ADD), "it comes", create(of("db", "db").on("a")), Bound)
        .on(event(R::AssignedPod, A::ADD), "another comes", create(of("q", "web").on("a")), Left)
        .on(
            event(R::AssignedPod, A::UPDATE_POD_LABEL),
            "a pod becomes it",
            label("pods/cache", "app", "db"),
            Bound,
        )
        .on(
            event(R::AssignedPod, A::UPDATE_POD_LABEL),
            "a pod is labelled",
            label("pods/cache", "k", "v"),
            Left,
        )
        .on(
            event(R::UnschedulablePod, A::UPDATE_POD_LABEL),
            "it becomes it itself",
            label("pods/p", "app", "db"),
            Bound,
        )
        .on(event(R::AssignedPod, A::DELETE), "another goes", delete("pods/cache"), Left)
        .on(event(R::Node, A::ADD), "a zone comes", create(in_zone("b", "b")), Retried)
        .on(event(R::Node, A::ADD), "a node without zone comes", create(node("b")), Left)
        .on(
            event(R::Node, A::UPDATE_NODE_LABEL),
            "a node gets a zone",
            label("nodes/nowhere", "zone", "a"),
            Retried,
        )
        .on(
            event(R::Node, A::UPDATE_NODE_LABEL),
            "a node is labelled",
            label("nodes/nowhere", "k", "v"),
            Left,
        )
        .on(event(R::Node, A::DELETE), "a node without it goes", delete("nodes/nowhere"), Left)
        .on(
            event(R::Node, A::UPDATE_NODE_TAINT),
            "a node is tainted",
            taint("nodes/nowhere", "k"),
            Retried,
        )
        .passes_over(
            "a node grows",
            patch("nodes/a/status", json!({"status": {"allocatable": {"cpu": "9"}}})),
        )
}

/// The pod requires affinity to its own kind, which runs where the pod does not fit. It may be the
/// first of its kind once there is no other.
fn first_of_its_kind() -> Scenario {
    let taints = json!({"taints": [{"key": "busy", "effect": "NoSchedule"}]});
    let given = [in_zone("a", "a"), in_zone("b", "b").spec(taints), of("first", "web").on("b")];
    Scenario::new("InterPodAffinity", near_to(of("p", "web"), zone_of("web")), given)
        .beside(&["TaintToleration"])
        .on(event(R::AssignedPod, A::DELETE), "the other goes", delete("pods/first"), Bound)
        .on(
            event(R::AssignedPod, A::UPDATE_POD_LABEL),
            "it becomes another",
            label("pods/first", "app", "db"),
            Bound,
        )
        .on(event(R::Node, A::DELETE), "the other's node goes", delete("nodes/b"), Bound)
        .on(
            event(R::Node, A::UPDATE_NODE_LABEL),
            "the other's node leaves its zone",
            patch("nodes/b", json!({"metadata": {"labels": {"zone": null}}})),
            Bound,
        )
        .on(
            event(R::Node, A::UPDATE_NODE_LABEL),
            "the other's zone grows",
            label("nodes/a", "zone", "b"),
            Bound,
        )
}

/// The pod requires anti-affinity to its own kind, which runs in the only zone.
fn away() -> Scenario {
    let given =
        [in_zone("a", "a"), in_zone("a2", "a"), of("web", "web").on("a"), of("db", "db").on("a")];
    Scenario::new("InterPodAffinity", away_from(of("p", "front"), zone_of("web")), given)
        .on(event(R::AssignedPod, A::DELETE), "the other goes", delete("pods/web"), Bound)
        .on(event(R::AssignedPod, A::DELETE), "a pod goes", delete("pods/db"), Left)
        .on(
            event(R::AssignedPod, A::UPDATE_POD_LABEL),
            "it becomes another",
            label("pods/web", "app", "db"),
            Bound,
        )
        .on(event(R::AssignedPod, A::ADD), "one more comes", create(of("q", "web").on("a")), Left)
        .on(event(R::Node, A::ADD), "a zone comes", create(in_zone("b", "b")), Bound)
        .on(
            event(R::Node, A::UPDATE_NODE_LABEL),
            "a node leaves the zone",
            label("nodes/a2", "zone", "b"),
            Bound,
        )
        .on(
            event(R::Node, A::UPDATE_NODE_LABEL),
            "a node is labelled",
            label("nodes/a2", "k", "v"),
            Left,
        )
        .on(event(R::Node, A::DELETE), "the other's node goes", delete("nodes/a"), Bound)
        .on(event(R::Node, A::DELETE), "a node without it goes", delete("nodes/a2"), Left)
}

/// A placed pod has required anti-affinity to the pod, which has no terms.
fn kept_away() -> Scenario {
    let given = [
        in_zone("a", "a"),
        in_zone("a2", "a"),
        away_from(of("guard", "db"), zone_of("web")).on("a"),
        of("q", "q").on("a"),
    ];
    Scenario::new("InterPodAffinity", of("p", "web"), given)
        .on(event(R::AssignedPod, A::DELETE), "the other goes", delete("pods/guard"), Bound)
        .on(event(R::AssignedPod, A::DELETE), "a pod goes", delete("pods/q"), Left)
        .on(
            event(R::AssignedPod, A::UPDATE_POD_LABEL),
            "the other is labelled",
            label("pods/guard", "app", "x"),
            Left,
        )
        .on(
            event(R::UnschedulablePod, A::UPDATE_POD_LABEL),
            "it becomes another",
            label("pods/p", "app", "db"),
            Bound,
        )
        .on(event(R::Node, A::ADD), "a zone comes", create(in_zone("b", "b")), Bound)
        .on(event(R::Node, A::ADD), "the zone grows", create(in_zone("a3", "a")), Left)
        .on(
            event(R::Node, A::UPDATE_NODE_LABEL),
            "a node leaves the zone",
            label("nodes/a2", "zone", "b"),
            Bound,
        )
        .on(
            event(R::Node, A::UPDATE_NODE_LABEL),
            "a node is labelled",
            label("nodes/a2", "k", "v"),
            Left,
        )
        .on(event(R::Node, A::DELETE), "the other's node goes", delete("nodes/a"), Bound)
}

/// The pod requires affinity to a pod of a team, and the only candidate is in a namespace without a
/// team.
fn near_a_team() -> Scenario {
    let given =
        [in_zone("a", "a"), team("other", "red"), of("db", "db").on("a").in_namespace("other")];
    Scenario::new("InterPodAffinity", near_to(of("p", "web"), zone_of_team("db")), given)
        .on(
            event(R::Namespace, A::UPDATE),
            "the namespace joins the team",
            label("namespaces/other", "team", "blue"),
            Bound,
        )
        .on(
            event(R::Namespace, A::UPDATE),
            "it joins another",
            label("namespaces/other", "team", "green"),
            Left,
        )
        .on(
            event(R::Namespace, A::ADD),
            "the team gets a namespace",
            create(team("new", "blue")),
            Retried,
        )
        .on(event(R::Namespace, A::ADD), "another team does", create(team("new", "green")), Left)
        .on(
            event(R::AssignedPod, A::ADD),
            "another team gets a database",
            create(of("q", "db").on("a").in_namespace("other")),
            Left,
        )
}

/// The pod requires anti-affinity to a team, and a pod of that team requires it to another team.
fn away_from_a_team() -> Scenario {
    let given = [
        in_zone("a", "a"),
        team("other", "blue"),
        team("empty", "blue"),
        team("none", "red"),
        of("db", "db").on("a").in_namespace("other"),
    ];
    Scenario::new("InterPodAffinity", away_from(of("p", "web"), zone_of_team("db")), given)
        .on(
            event(R::Namespace, A::UPDATE),
            "the namespace leaves the team",
            label("namespaces/other", "team", "red"),
            Bound,
        )
        .on(
            event(R::Namespace, A::DELETE),
            "a namespace of the team goes",
            delete("namespaces/empty"),
            Retried,
        )
        .on(
            event(R::Namespace, A::DELETE),
            "another namespace goes",
            delete("namespaces/none"),
            Left,
        )
}

#[test]
fn inter_pod_affinity_rejects_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
