//! ReplicaSets and ReplicationControllers: a number of equal pods.

use serde_json::Value;

use super::template::{count, name, pod_of};
use super::{Controllers, key_of};

/// Adds the missing replicas. The replicas of a ReplicaSet count for its Deployment, if the dump
/// has one.
pub(super) fn sync(controllers: &mut Controllers<'_>, set: &Value, kind: &'static str) {
    let replicas = count(set, "/spec/replicas").unwrap_or(1);
    let present = controllers.pods_of(kind, set);
    let missing = replicas.saturating_sub(present.len());
    let deployment = if kind == "ReplicaSet" { controllers.deployment_of(set) } else { None };
    let wanted = if deployment.is_none() { replicas } else { 0 };
    let root = deployment.unwrap_or_else(|| key_of(kind, set));
    controllers.count(root.clone(), wanted, &present);
    match pod_of(set) {
        Some(pod) => controllers.add_pods(&root, set, name(set), missing, &pod),
        None if missing > 0 => {
            controllers.warn(kind, set, "spec.template: is missing; no pods are made from it");
        }
        None => {}
    }
}
