//! Merge rules of the lists of built-in types, from their `x-kubernetes-list-type` and
//! `x-kubernetes-patch-merge-key`.
//!
//! A field name follows the same rule in all kinds, with a few exceptions that the enclosing field
//! decides. So the table needs no kinds.

/// How a list merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    /// Replaced as a whole.
    Atomic,
    /// A set of scalars.
    Set,
    /// Objects that are identified by some of their fields.
    Map(Keys),
}

/// The fields that identify the objects of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Keys {
    /// The key for strategic merge patch, which replaces the list without one.
    pub(super) strategic: Option<&'static str>,
    /// The keys for server-side apply.
    pub(super) apply: &'static [&'static str],
}

const fn keyed(key: &'static str, apply: &'static [&'static str]) -> List {
    List::Map(Keys { strategic: Some(key), apply })
}

/// Returns the merge rule of the list `field`. `parent` is the enclosing field, without list items,
/// and empty at the root of an object.
pub(super) fn list(parent: &str, field: &str) -> List {
    match (parent, field) {
        ("metadata", "finalizers") | ("spec", "podCIDRs") => List::Set,
        ("metadata", "ownerReferences") | ("status", "reservedFor") => keyed("uid", &["uid"]),
        ("containers" | "initContainers" | "ephemeralContainers", "ports") => {
            keyed("containerPort", &["containerPort", "protocol"])
        }
        ("spec", "ports") => keyed("port", &["port", "protocol"]),
        (_, "conditions") | ("status", "addresses") => keyed("type", &["type"]),
        ("", "secrets" | "webhooks") | ("spec", "drivers") => keyed("name", &["name"]),
        ("status", "devices") => {
            let apply = &["driver", "device", "pool", "shareID"];
            List::Map(Keys { strategic: None, apply })
        }
        ("resources", "claims") => List::Map(Keys { strategic: None, apply: &["name"] }),
        (
            _,
            "containers"
            | "initContainers"
            | "ephemeralContainers"
            | "env"
            | "volumes"
            | "imagePullSecrets"
            | "schedulingGates"
            | "resourceClaims"
            | "resourceClaimStatuses",
        ) => keyed("name", &["name"]),
        (_, "volumeMounts") => keyed("mountPath", &["mountPath"]),
        (_, "volumeDevices") => keyed("devicePath", &["devicePath"]),
        (_, "hostAliases" | "podIPs" | "hostIPs") => keyed("ip", &["ip"]),
        (_, "topologySpreadConstraints") => {
            keyed("topologyKey", &["topologyKey", "whenUnsatisfiable"])
        }
        _ => List::Atomic,
    }
}

/// Returns whether server-side apply replaces the object `field` (`x-kubernetes-map-type: atomic`).
pub(super) fn is_atomic_object(parent: &str, field: &str) -> bool {
    matches!(field, "nodeSelector" | "labelSelector" | "namespaceSelector" | "podSelector")
        || matches!(field, "secretRef" | "configMapKeyRef" | "secretKeyRef" | "fieldRef")
        || matches!(field, "resourceFieldRef" | "claimRef" | "involvedObject" | "regarding")
        || (parent, field) == ("spec", "selector")
}

/// Returns the default of a key field that an object leaves out.
pub(super) fn key_default(key: &str) -> Option<&'static str> {
    (key == "protocol").then_some("TCP")
}
