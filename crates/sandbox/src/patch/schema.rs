//! How the lists of the built-in types merge, as their `x-kubernetes-list-type` and
//! `x-kubernetes-patch-merge-key` say.
//!
//! Kubernetes uses a field name for one thing wherever it occurs, but for a few that the enclosing
//! field tells apart. So the table needs no kinds.

/// How a list merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    /// Replaced as a whole.
    Atomic,
    /// Of distinct scalars.
    Set,
    /// Of objects that are told apart by some of their fields.
    Map(Keys),
}

/// The fields that tell the objects of a list apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Keys {
    /// For strategic merge patch, which replaces the list if there is none.
    pub(super) strategic: Option<&'static str>,
    /// For server-side apply.
    pub(super) apply: &'static [&'static str],
}

const fn keyed(key: &'static str, apply: &'static [&'static str]) -> List {
    List::Map(Keys { strategic: Some(key), apply })
}

/// How the list `field` merges. `parent` is the field around it, items of lists left out, and empty
/// at the root of an object.
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

/// Whether server-side apply takes the object `field` as a whole (`x-kubernetes-map-type: atomic`).
pub(super) fn is_atomic_object(parent: &str, field: &str) -> bool {
    matches!(field, "nodeSelector" | "labelSelector" | "namespaceSelector" | "podSelector")
        || matches!(field, "secretRef" | "configMapKeyRef" | "secretKeyRef" | "fieldRef")
        || matches!(field, "resourceFieldRef" | "claimRef" | "involvedObject" | "regarding")
        || (parent, field) == ("spec", "selector")
}

/// What a key field counts as where the object leaves it out: the API server fills it in.
pub(super) fn key_default(key: &str) -> Option<&'static str> {
    (key == "protocol").then_some("TCP")
}
