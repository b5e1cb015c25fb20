//! Kinds that a dump lacks although some of its objects need them.

use std::collections::BTreeSet;

use framework::{ControllerKind, EventResource, Pod, PodClaimSource};
use serde_json::Value;

use super::collect::{Input, Wanted, count, some_of};

/// The command that dumps everything that a simulation reads.
pub(crate) const DUMP: &str = "loadmaster dump";

/// Returns a warning for each kind of which the input has no object although pods or claims name
/// one.
pub(super) fn warnings(input: &Input, wanted: &Wanted) -> Vec<String> {
    use EventResource as R;
    let seen: BTreeSet<&R> = input.objects.iter().map(|object| &object.kind).collect();
    let is_absent = |kind: &R| wanted.reads(kind) && !seen.contains(kind);
    let pending =
        || input.pods.iter().filter(|object| object.is_pending()).map(|object| &object.pod);
    let claims = || input.objects.iter().filter(|object| object.kind == R::PersistentVolumeClaim);
    let mut warnings = Vec::new();
    let mut warn = |users: Vec<String>, noun: &str, what: &str, consequence: &str| {
        if !users.is_empty() {
            warnings.push(format!(
                "{} ({}) {what}, and the input has none: {consequence}",
                count(users.len(), noun),
                some_of(users.iter().map(String::as_str))
            ));
        }
    };
    let pods = |has: &dyn Fn(&Pod) -> bool| -> Vec<String> {
        pending().filter(|pod| has(pod)).map(|pod| pod.key.to_string()).collect()
    };
    let claims = |has: &dyn Fn(&Value) -> bool| -> Vec<String> {
        let own = claims().filter(|claim| has(&claim.value()));
        own.map(|claim| format!("{}/{}", claim.namespace, claim.name)).collect()
    };
    if is_absent(&R::PersistentVolumeClaim) {
        let users = pods(&|pod| pod.spec.volumes.iter().any(|own| own.named_claim().is_some()));
        warn(users, "pending pod", "name PersistentVolumeClaims", "the pods stay pending");
    }
    if is_absent(&R::PersistentVolume) {
        let users = claims(&|claim| !text(claim, "/spec/volumeName").is_empty());
        warn(users, "claim", "name PersistentVolumes", "their pods stay pending");
    }
    if is_absent(&R::StorageClass) {
        let users = claims(&|claim| {
            text(claim, "/spec/volumeName").is_empty()
                && !text(claim, "/spec/storageClassName").is_empty()
        });
        warn(users, "unbound claim", "name StorageClasses", "no volumes are made for them");
    }
    let asks = |pod: &Pod| !pod.spec.resource_claims.is_empty();
    if is_absent(&R::ResourceClaim) {
        let users = pods(&|pod| {
            pod.spec.resource_claims.iter().any(|own| own.source != PodClaimSource::Template)
        });
        warn(users, "pending pod", "name ResourceClaims", "the pods stay pending");
    }
    for (kind, what) in [
        (R::ResourceSlice, "need devices of ResourceSlices"),
        (R::DeviceClass, "need devices of DeviceClasses"),
    ] {
        if is_absent(&kind) {
            warn(pods(&asks), "pending pod", what, "no device is found for them");
        }
    }
    for (kind, controller, what) in [
        (R::ReplicaSet, ControllerKind::ReplicaSet, "belong to ReplicaSets"),
        (R::StatefulSet, ControllerKind::StatefulSet, "belong to StatefulSets"),
        (
            R::ReplicationController,
            ControllerKind::ReplicationController,
            "belong to ReplicationControllers",
        ),
    ] {
        if is_absent(&kind) {
            let users = pods(&|pod| {
                let owner = pod.controller.as_ref();
                pod.spec.topology_spread_constraints.is_empty()
                    && owner.is_some_and(|owner| owner.kind == controller)
            });
            let consequence = "the pods are not spread by default, unless a Service selects them";
            warn(users, "pending pod", what, consequence);
        }
    }
    if !warnings.is_empty() {
        warnings.push(format!("a complete dump: {DUMP}"));
    }
    warnings
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
