//! Random pods.

use fastrand::Rng;
use serde_json::{Value, json};

use super::super::extender;
use super::super::patience;
use super::super::server::{BUSY, DEFAULT, SPREADING};
use super::catalogue::pod_volumes;
use super::chance::{once_in, one_of};
use super::nodes::{HOSTNAME, MACHINE, ZONE, ZONES};
use super::preemption::CLASSES;
use super::{NAMESPACES, TEAM, TEAMS};

/// The label of the application of a pod; it may change.
pub(crate) const APP: &str = "app";
/// Few applications, so that terms of pods select each other.
pub(super) const APPS: [&str; 3] = ["a", "b", "c"];
/// The label of pods that exclude each other on a machine. It never changes.
pub(crate) const ALONE: &str = "alone";

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Returns labels and spec of a random pod of ours.
pub(super) fn template(rng: &mut Rng) -> Value {
    let app = one_of(rng, APPS);
    let mut labels = json!({APP: app});
    if once_in(rng, 4) {
        labels[patience::LABEL] = json!(one_of(rng, patience::VALUES));
    }
    let mut spec = plain_spec(rng);
    match rng.u32(..15) {
        0..3 => spec["topologySpreadConstraints"] = spread_constraints(rng, app),
        3..6 => spec["affinity"] = affinity(rng, app),
        6 => {
            spec["topologySpreadConstraints"] = spread_constraints(rng, app);
            spec["affinity"] = affinity(rng, app);
        }
        7 => {
            let value = one_of(rng, ["x", "y"]);
            labels[ALONE] = json!(value);
            let term = json!({"labelSelector": {"matchLabels": {ALONE: value}},
                "topologyKey": MACHINE});
            spec["affinity"] = json!({"podAntiAffinity": {REQUIRED: [term]}});
        }
        _ => {}
    }
    if once_in(rng, 4) {
        spec["volumes"] = pod_volumes(rng);
    }
    json!({"metadata": {"labels": labels}, "spec": spec})
}

/// Returns a pod that mainly requests volumes.
pub(super) fn claimant(rng: &mut Rng) -> Value {
    let container = json!({"name": "c", "image": "example.com/app:1",
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}});
    let scheduler = one_of(rng, [DEFAULT, SPREADING]);
    let mut labels = json!({});
    if once_in(rng, 4) {
        labels[patience::LABEL] = json!(one_of(rng, patience::VALUES));
    }
    let mut spec = json!({"schedulerName": scheduler, "containers": [container],
        "volumes": pod_volumes(rng), "terminationGracePeriodSeconds": rng.u32(..10)});
    if once_in(rng, 4) {
        spec["priorityClassName"] = json!(one_of(rng, ["low", "high"]));
    }
    json!({"metadata": {"labels": labels}, "spec": spec})
}

fn plain_spec(rng: &mut Rng) -> Value {
    let cpu = one_of(rng, ["50m", "100m", "100m", "500m", "1", "2"]);
    let memory = one_of(rng, ["128Mi", "128Mi", "256Mi", "256Mi", "2Gi"]);
    let mut container = json!({"name": "c", "image": "example.com/app:1",
        "resources": {"requests": {"cpu": cpu, "memory": memory}}});
    if once_in(rng, 10) {
        container["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
    }
    if once_in(rng, 5) {
        container["resources"]["requests"][extender::RESOURCE] = json!("1");
        container["resources"]["limits"] = json!({extender::RESOURCE: "1"});
    }
    let scheduler = if once_in(rng, 4) { SPREADING } else { DEFAULT };
    let mut spec = json!({"schedulerName": scheduler, "containers": [container],
        "terminationGracePeriodSeconds": rng.u32(..40)});
    match rng.u32(..15) {
        0 => spec["nodeSelector"] = json!({ZONE: one_of(rng, ZONES)}),
        1 => spec["nodeSelector"] = json!({"disk": "fast"}),
        2 | 3 => spec["tolerations"] = json!([{"key": BUSY, "operator": "Exists"}]),
        _ => {}
    }
    if once_in(rng, 2) {
        let (class, _, _) = one_of(rng, CLASSES);
        spec["priorityClassName"] = json!(class);
    }
    spec
}

/// Returns one or two constraints of a pod of this application, with different keys.
fn spread_constraints(rng: &mut Rng, app: &str) -> Value {
    let mut keys = [ZONE, HOSTNAME];
    rng.shuffle(&mut keys);
    let count = rng.usize(1..=2);
    keys.iter().take(count).map(|key| spread_constraint(rng, app, key)).collect()
}

fn spread_constraint(rng: &mut Rng, app: &str, topology_key: &str) -> Value {
    let is_hard = !once_in(rng, 4);
    let mut constraint = json!({"maxSkew": rng.u32(1..3), "topologyKey": topology_key,
        "whenUnsatisfiable": if is_hard { "DoNotSchedule" } else { "ScheduleAnyway" },
        "labelSelector": pods_meant(rng, app)});
    if is_hard && once_in(rng, 3) {
        constraint["minDomains"] = json!(rng.u32(1..5));
    }
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if rng.bool() {
            constraint[policy] = json!(one_of(rng, ["Honor", "Ignore"]));
        }
    }
    if once_in(rng, 5) {
        constraint["labelSelector"] = json!({});
        constraint["matchLabelKeys"] = json!([APP]);
    }
    constraint
}

/// Returns a selector, mostly of this application.
pub(super) fn pods_meant(rng: &mut Rng, app: &str) -> Value {
    match rng.u32(..12) {
        0 => json!({}),
        1 => json!({"matchExpressions": [{"key": APP, "operator": "NotIn", "values": [app]}]}),
        2 | 3 => {
            json!({"matchExpressions": [{"key": APP, "operator": "In", "values": ["a", "b"]}]})
        }
        _ => json!({"matchLabels": {APP: app}}),
    }
}

/// Returns terms of some of the four sorts.
fn affinity(rng: &mut Rng, app: &str) -> Value {
    let mut affinity = json!({});
    for (side, times) in [("podAffinity", 3), ("podAntiAffinity", 2)] {
        if once_in(rng, times) {
            let terms: Value = (0..rng.u32(1..3)).map(|_| affinity_term(rng, app)).collect();
            affinity[side] = json!({REQUIRED: terms});
        } else if rng.bool() {
            let weight = rng.u32(1..101);
            let term = affinity_term(rng, app);
            affinity[side] = json!({PREFERRED: [{"weight": weight, "podAffinityTerm": term}]});
        }
    }
    affinity
}

fn affinity_term(rng: &mut Rng, app: &str) -> Value {
    let other = one_of(rng, APPS);
    let meant = if once_in(rng, 3) { other } else { app };
    let mut term = json!({"topologyKey": one_of(rng, [ZONE, HOSTNAME]),
        "labelSelector": pods_meant(rng, meant)});
    match rng.u32(..8) {
        0 => term["namespaces"] = json!([one_of(rng, NAMESPACES), one_of(rng, NAMESPACES)]),
        1 => term["namespaceSelector"] = json!({}),
        2 | 3 => term["namespaceSelector"] = json!({"matchLabels": {TEAM: one_of(rng, TEAMS)}}),
        4 => {
            let without = json!({"key": TEAM, "operator": "NotIn", "values": [one_of(rng, TEAMS)]});
            term["namespaceSelector"] = json!({"matchExpressions": [without]});
        }
        _ => {}
    }
    term
}
