//! The fields of a pod about devices: its claims, the claims generated for it, and its requests for
//! extended resources.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::node::digest;
use super::resources::{is_extended_resource_name, is_sidecar, parse_resource_list};
use crate::api;

/// Prefix of the implicit extended resource of a DeviceClass, followed by the name of the class.
pub const IMPLICIT_RESOURCE_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Whether a DeviceClass may provide the resource.
pub fn may_be_device_resource(name: &str) -> bool {
    name.starts_with(IMPLICIT_RESOURCE_PREFIX) || is_extended_resource_name(name)
}

/// An entry of `spec.resourceClaims` of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodResourceClaim {
    /// Name within the pod.
    pub name: Arc<str>,
    /// The ResourceClaim.
    pub source: PodClaimSource,
}

/// Where the ResourceClaim of a pod comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PodClaimSource {
    /// The ResourceClaim of this name.
    Claim(Arc<str>),
    /// A ResourceClaim made from a template; the status of the pod names it.
    Template,
    /// No source that this version of the API knows.
    Unknown,
}

impl PodResourceClaim {
    pub(super) fn compile(claim: &api::PodResourceClaim) -> Self {
        let source = match (&claim.resource_claim_name, &claim.resource_claim_template_name) {
            (Some(name), _) => PodClaimSource::Claim(name.as_str().into()),
            (None, Some(_)) => PodClaimSource::Template,
            (None, None) => PodClaimSource::Unknown,
        };
        Self { name: claim.name.as_str().into(), source }
    }
}

/// The name of an entry, and of the ResourceClaim made for it, if it needs one.
type GeneratedClaim = (Arc<str>, Option<Arc<str>>);

/// The ResourceClaims that the status of a pod names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratedClaims {
    /// For each entry of `spec.resourceClaims` with a template, by its name: the name of the
    /// ResourceClaim, or `None` if the pod needs none.
    statuses: Box<[GeneratedClaim]>,
    /// Digest of `extendedResourceClaimStatus`; 0 if it is absent.
    extended: u64,
}

impl GeneratedClaims {
    pub(super) fn of(status: &api::PodStatus) -> Option<Self> {
        let extended = status.extended_resource_claim_status.as_ref();
        if status.resource_claim_statuses.is_empty() && extended.is_none() {
            return None;
        }
        let statuses = status.resource_claim_statuses.iter().map(|status| {
            let claim = status.resource_claim_name.as_deref().map(Arc::from);
            (status.name.as_str().into(), claim)
        });
        Some(Self { statuses: statuses.collect(), extended: extended.map_or(0, digest) })
    }

    /// Returns the claims made for entries of `spec.resourceClaims`, by the names of the entries.
    pub fn from_names(names: impl IntoIterator<Item = (Arc<str>, Arc<str>)>) -> Self {
        let statuses = names.into_iter().map(|(entry, claim)| (entry, Some(claim)));
        Self { statuses: statuses.collect(), extended: 0 }
    }

    /// Returns the claim made for the entry of this name: `None` if none is made yet, `Some(None)`
    /// if the pod needs none.
    pub fn claim(&self, entry: &str) -> Option<Option<&Arc<str>>> {
        let found = self.statuses.iter().find(|(name, _)| **name == *entry);
        found.map(|(_, claim)| claim.as_ref())
    }
}

/// The request of a container for a resource that a DeviceClass may provide.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExtendedRequest {
    /// Name of the container.
    pub container: Arc<str>,
    /// Place of the container: init containers first, then the others.
    pub container_index: usize,
    /// Whether the container runs as long as the pod: a sidecar or a container of
    /// `spec.containers`.
    pub long_lived: bool,
    /// Name of the resource.
    pub resource: Arc<str>,
    /// Place of the resource among the names of all requests of the container, sorted.
    pub resource_index: usize,
    /// Requested amount, above 0.
    pub amount: i64,
}

impl ExtendedRequest {
    pub(super) fn of_pod(spec: &api::PodSpec) -> Box<[Self]> {
        let init = spec.init_containers.iter().map(|own| (own, is_sidecar(own)));
        let containers = init.chain(spec.containers.iter().map(|own| (own, true)));
        let of_container = |(container_index, (container, long_lived))| {
            Self::of_container(container, container_index, long_lived)
        };
        containers.enumerate().flat_map(of_container).collect()
    }

    fn of_container(container: &api::Container, index: usize, long_lived: bool) -> Vec<Self> {
        let list = &container.resources.requests;
        if !list.keys().any(|name| may_be_device_resource(name)) {
            return Vec::new();
        }
        // The sums over the pod report unreadable requests.
        let amounts = parse_resource_list(list, "", &mut Vec::new());
        let mut names: Vec<&str> = list.keys().map(AsRef::as_ref).collect();
        names.sort_unstable();
        let requests = names.into_iter().enumerate().map(|(resource_index, name)| Self {
            container: container.name.as_str().into(),
            container_index: index,
            long_lived,
            resource: name.into(),
            resource_index,
            amount: amounts.scalar(name),
        });
        requests.filter(|own| own.amount > 0 && may_be_device_resource(&own.resource)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Pod;

    fn pod(spec: serde_json::Value, status: serde_json::Value) -> Pod {
        let object = json!({"metadata": {"name": "p"}, "spec": spec, "status": status});
        Pod::from_json(&object, &crate::ExtraFields::default()).unwrap()
    }

    #[test]
    fn claims_have_their_source() {
        let claims = json!({"resourceClaims": [
            {"name": "a", "resourceClaimName": "own", "resourceClaimTemplateName": "t"},
            {"name": "b", "resourceClaimTemplateName": "t"},
            {"name": "c"},
        ]});
        let pod = pod(claims, json!({}));
        let sources: Vec<_> = pod.spec.resource_claims.iter().map(|own| &own.source).collect();
        let own = PodClaimSource::Claim("own".into());
        assert_eq!(sources, [&own, &PodClaimSource::Template, &PodClaimSource::Unknown]);
    }

    #[test]
    fn generated_claims_are_found_by_entry() {
        assert_eq!(pod(json!({}), json!({})).generated_claims(), None);
        let status = json!({"resourceClaimStatuses": [
            {"name": "a", "resourceClaimName": "p-a-x7"}, {"name": "b"},
        ]});
        let pod = pod(json!({}), status);
        let generated = pod.generated_claims().unwrap();
        assert_eq!(generated.claim("a"), Some(Some(&"p-a-x7".into())));
        assert_eq!(generated.claim("b"), Some(None));
        assert_eq!(generated.claim("c"), None);
    }

    #[test]
    fn extended_requests_name_container_and_place() {
        let requests = |list: serde_json::Value| json!({"requests": list});
        let implicit = "deviceclass.resource.kubernetes.io/gpu";
        let spec = json!({
            "initContainers": [
                {"name": "setup", "resources": requests(json!({"example.com/gpu": "2"}))},
                {"name": "proxy", "restartPolicy": "Always",
                 "resources": requests(json!({implicit: "1", "cpu": "1"}))},
            ],
            "containers": [
                {"name": "main", "resources": requests(json!({
                    "memory": "1Gi", "example.com/gpu": "1", "cpu": "1", "example.com/nic": "0",
                }))},
                {"name": "idle"},
            ],
        });
        let pod = pod(spec, json!({}));
        let own = |request: &ExtendedRequest| {
            let ExtendedRequest { container, container_index, long_lived, .. } = request;
            let place = (container.to_string(), *container_index, *long_lived);
            (place, request.resource.to_string(), request.resource_index, request.amount)
        };
        let found: Vec<_> = pod.spec.extended_requests.iter().map(own).collect();
        let place = |name: &str, index, long_lived| (name.to_owned(), index, long_lived);
        let gpu = || "example.com/gpu".to_owned();
        assert_eq!(
            found,
            [
                (place("setup", 0, false), gpu(), 0, 2),
                (place("proxy", 1, true), implicit.to_owned(), 1, 1),
                (place("main", 2, true), gpu(), 1, 1),
            ]
        );
    }
}
