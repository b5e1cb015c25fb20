//! PodTopologySpread with hard default constraints: Services and controllers decide which pods
//! count.

use framework::ActionType as A;
use framework::EventResource as R;
use serde_json::{Value, json};

use super::objects::{Object, Step, create, delete, label, object, patch};
use super::pod_topology_spread::{web, with_unusable_zone};
use super::scenario::{Expected, Scenario, event};
use Expected::{Bound, Left};

/// A configuration that spreads pods over zones by default.
const HARD_DEFAULTS: &str = "profiles: [{pluginConfig: [{name: PodTopologySpread, args: \
    {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: \
    DoNotSchedule}]}}]}]";

/// A kind of controller.
struct Kind {
    event: R,
    api_version: &'static str,
    name: &'static str,
    plural: &'static str,
}

const REPLICATION_CONTROLLER: Kind = Kind {
    event: R::ReplicationController,
    api_version: "v1",
    name: "ReplicationController",
    plural: "replicationcontrollers",
};
const REPLICA_SET: Kind = Kind {
    event: R::ReplicaSet,
    api_version: "apps/v1",
    name: "ReplicaSet",
    plural: "replicasets",
};
const STATEFUL_SET: Kind = Kind {
    event: R::StatefulSet,
    api_version: "apps/v1",
    name: "StatefulSet",
    plural: "statefulsets",
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let kinds = [REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET];
    let of_kinds = kinds.iter().flat_map(|kind| [with_controller(kind), without_controller(kind)]);
    [by_services(), with_another_selector()].into_iter().chain(of_kinds).collect()
}

fn service(name: &str, key: &str, value: &str) -> Object {
    let spec = json!({"selector": {key: value}, "ports": [{"port": 80}]});
    object("v1", "Service", name).spec(spec)
}

/// A pending pod of the front tier of the application.
fn front() -> Object {
    web("p").label("tier", "front")
}

/// The pod is rejected if it is spread with the whole application, and accepted with its tier
/// alone.
fn scenario(waiting: Object, beside: [Object; 2]) -> Scenario {
    let ([a, b, web], [first, second]) = (with_unusable_zone(), beside);
    Scenario::new("PodTopologySpread", waiting, [a, b, web, first, second])
        .configured(HARD_DEFAULTS)
        .beside(&["TaintToleration"])
}

fn by_services() -> Scenario {
    let reselect = |selector: Value| {
        let replace = json!([{"op": "replace", "path": "/spec/selector", "value": selector}]);
        patch("services/web", replace)
    };
    scenario(front(), [service("web", "app", "web"), service("db", "app", "db")])
        .on(event(R::Service, A::DELETE), "its Service goes", delete("services/web"), Bound)
        .on(event(R::Service, A::DELETE), "another Service goes", delete("services/db"), Left)
        .on(
            event(R::Service, A::UPDATE),
            "its Service selects its tier",
            reselect(json!({"tier": "front"})),
            Bound,
        )
        .on(
            event(R::Service, A::UPDATE),
            "its Service leaves it",
            reselect(json!({"app": "db"})),
            Bound,
        )
        .on(
            event(R::Service, A::UPDATE),
            "another Service selects others",
            patch("services/db", json!({"spec": {"selector": {"app": "cache"}}})),
            Left,
        )
        .on(
            event(R::Service, A::ADD),
            "a Service of its tier comes",
            create(service("front", "tier", "front")),
            Bound,
        )
        .on(
            event(R::Service, A::ADD),
            "a Service of others comes",
            create(service("cache", "app", "cache")),
            Left,
        )
        .passes_over("its Service is labelled", label("services/web", "k", "v"))
}

/// A controller that selects pods by one label.
fn controller(kind: &Kind, name: &str, key: &str, value: &str) -> Object {
    let labels = json!({key: value});
    let selector = match kind.event {
        R::ReplicationController => labels.clone(),
        _ => json!({"matchLabels": labels}),
    };
    let containers = json!([{"name": "c", "image": "example.com/app:1"}]);
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let spec = json!({"replicas": 0, "selector": selector, "template": template});
    object(kind.api_version, kind.name, name).spec(spec)
}

/// The pending pod, owned by the controller `web`.
fn owned(kind: &Kind) -> Object {
    let owner = json!({"apiVersion": kind.api_version, "kind": kind.name, "name": "web",
        "uid": "8c1b7d52-3d0e-4b0c-9c0e-5d6f3f0b7a11", "controller": true});
    front().metadata(json!({"ownerReferences": [owner]}))
}

fn with_controller(kind: &Kind) -> Scenario {
    let given = [controller(kind, "web", "app", "web"), controller(kind, "db", "app", "db")];
    let deletion = |name: &str| delete(&format!("{}/{name}", kind.plural));
    scenario(owned(kind), given)
        .on(event(kind.event.clone(), A::DELETE), "its controller goes", deletion("web"), Bound)
        .on(event(kind.event.clone(), A::DELETE), "another one goes", deletion("db"), Left)
}

fn without_controller(kind: &Kind) -> Scenario {
    let given = [service("web", "app", "web"), service("db", "app", "db")];
    let creation = |name, key, value| create(controller(kind, name, key, value));
    scenario(owned(kind), given)
        .on(
            event(kind.event.clone(), A::ADD),
            "its controller comes, which selects its tier",
            creation("web", "tier", "front"),
            Bound,
        )
        .on(
            event(kind.event.clone(), A::ADD),
            "another controller comes",
            creation("front", "tier", "front"),
            Left,
        )
}

/// Only the selector of a ReplicationController can be changed.
fn with_another_selector() -> Scenario {
    let kind = &REPLICATION_CONTROLLER;
    let given = [controller(kind, "web", "app", "web"), controller(kind, "db", "app", "db")];
    let reselect = |target, labels: Value| -> Step {
        let template = json!({"metadata": {"labels": labels}});
        patch(target, json!({"spec": {"selector": labels, "template": template}}))
    };
    scenario(owned(kind), given)
        .on(
            event(R::ReplicationController, A::UPDATE),
            "its controller selects its tier",
            reselect("replicationcontrollers/web", json!({"app": null, "tier": "front"})),
            Bound,
        )
        .on(
            event(R::ReplicationController, A::UPDATE),
            "another one selects its tier",
            reselect("replicationcontrollers/db", json!({"app": null, "tier": "front"})),
            Left,
        )
}

#[test]
fn default_spread_constraints_reject_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
