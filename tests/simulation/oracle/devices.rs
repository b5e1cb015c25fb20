//! Devices of nodes and claims, as plain lists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::{EventResource, Pod, PodClaimSource};
use sandbox::resources::{DEVICECLASSES, RESOURCECLAIMS, RESOURCESLICES, Resource};
use serde_json::Value;

use super::super::churn::devices::{CLASS, EXTENDED_RESOURCE};
use super::super::devices::{DeviceId, allocated, is_usable_on};
use super::super::server::Server;

/// The objects of these kinds.
pub(super) static KINDS: [(EventResource, &Resource); 3] = [
    (EventResource::ResourceClaim, RESOURCECLAIMS),
    (EventResource::ResourceSlice, RESOURCESLICES),
    (EventResource::DeviceClass, DEVICECLASSES),
];

/// The stored devices and claims.
pub(super) struct Devices {
    /// Whether the class of all devices exists.
    has_class: bool,
    /// The devices of each node.
    published: BTreeMap<String, BTreeSet<DeviceId>>,
    claims: BTreeMap<(String, String), Arc<Value>>,
}

/// Whether devices decide where the pod fits.
pub(crate) fn needs_devices(pod: &Pod) -> bool {
    !pod.spec.resource_claims.is_empty() || wants_extended(pod)
}

fn wants_extended(pod: &Pod) -> bool {
    pod.spec.extended_requests.iter().any(|request| *request.resource == *EXTENDED_RESOURCE)
}

impl Devices {
    pub(super) fn of_server(server: &Server) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let slices = server.store.objects(RESOURCESLICES).map(|slice| {
            let spec = &slice["spec"];
            let devices = spec["devices"].as_array().into_iter().flatten().map(|device| {
                (text(&spec["driver"]), text(&spec["pool"]["name"]), text(&device["name"]))
            });
            (text(&spec["nodeName"]), devices.collect())
        });
        let claims = server.store.objects(RESOURCECLAIMS).map(|claim| {
            let metadata = &claim["metadata"];
            ((text(&metadata["namespace"]), text(&metadata["name"])), claim.clone())
        });
        Self {
            has_class: server.store.get(DEVICECLASSES, "", CLASS).is_some(),
            published: slices.collect(),
            claims: claims.collect(),
        }
    }

    /// Whether the node has the devices of the pod.
    pub(super) fn suffice(&self, node: &str, pod: &Pod) -> bool {
        // A special claim of an earlier attempt is deleted before the pod is tried again.
        let free = self.free_on(node, &format!("{}", pod.uid));
        if wants_extended(pod) {
            return self.has_class && free >= 1;
        }
        pod.spec.resource_claims.iter().all(|entry| {
            let name = match &entry.source {
                PodClaimSource::Claim(name) => Some(name),
                _ => pod.generated_claims.as_ref().and_then(|own| own.claim(&entry.name)?),
            };
            let key = |name: &Arc<str>| (pod.key.namespace.to_string(), name.to_string());
            let claim = name.and_then(|name| self.claims.get(&key(name)));
            claim.is_some_and(|claim| self.may_have(claim, node, free))
        })
    }

    fn may_have(&self, claim: &Value, node: &str, free: usize) -> bool {
        if !claim["metadata"]["deletionTimestamp"].is_null() {
            return false;
        }
        if !claim["status"]["allocation"].is_null() {
            return is_usable_on(claim, node);
        }
        let exactly = &claim["spec"]["devices"]["requests"][0]["exactly"];
        let count = exactly["count"].as_u64().and_then(|count| usize::try_from(count).ok());
        self.has_class && count.is_some_and(|count| count <= free)
    }

    /// Returns the number of devices on a node that no claim has, except special claims of this pod.
    fn free_on(&self, node: &str, owner: &str) -> usize {
        let is_own = |claim: &Value| {
            let metadata = &claim["metadata"];
            metadata["ownerReferences"][0]["uid"] == *owner
                && !metadata["annotations"]["resource.kubernetes.io/extended-resource-claim"]
                    .is_null()
        };
        let others = self.claims.values().filter(|claim| !is_own(claim));
        let taken: BTreeSet<DeviceId> = others.flat_map(|claim| allocated(claim)).collect();
        self.published.get(node).map_or(0, |devices| devices.difference(&taken).count())
    }
}
