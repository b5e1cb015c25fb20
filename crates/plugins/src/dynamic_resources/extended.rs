//! Extended resources of a pod that devices provide.
//!
//! A DeviceClass can provide an extended resource. On nodes whose kubelet does not offer the
//! resource, the plugin allocates devices of the class instead, through a claim that it makes for
//! the pod. Until the claim is created it exists only in memory, under a name that no object can
//! have.

use std::sync::Arc;

use framework::device::{
    AllocationMode, ClaimController, ClaimSpec, DeviceClass, DeviceRequest,
    EXTENDED_RESOURCE_CLAIM, RequestBody, RequestKind, ResourceClaim,
};
use framework::{
    Cluster, ExtendedRequest, NodeView, Pod, PodKey, Time, Uid, may_be_device_resource,
};
use serde_json::{Value, json};
use smallvec::SmallVec;

/// The name of the claim as long as it exists only in memory.
pub(super) const IN_MEMORY: &str = "<extended-resources>";

/// The extended resources of a pod that a DeviceClass may provide, and the claim for them.
#[derive(Debug, Clone)]
pub(super) struct ExtendedResources {
    /// The claim: in memory, or left over from an earlier attempt.
    pub(super) claim: Arc<ResourceClaim>,
    /// The requested resources, sorted by name, with their classes.
    resources: Vec<(Arc<str>, Option<Arc<DeviceClass>>)>,
}

/// The resources that a node does not offer itself: their places, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ThroughDevices(SmallVec<[u32; 4]>);

impl ThroughDevices {
    /// Whether devices provide none of the resources.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How the devices of a claim are mapped to containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestMapping {
    pub(super) container: Arc<str>,
    pub(super) resource: Arc<str>,
    pub(super) request: Arc<str>,
}

impl ExtendedResources {
    /// Returns the extended resources of the pod; `None` if no class provides any of them.
    pub(super) fn of(pod: &Pod, cluster: &Cluster) -> Option<Self> {
        let requested = pod.requests.fit.scalars.iter();
        let requested =
            requested.filter(|(name, amount)| *amount != 0 && may_be_device_resource(name));
        let resources: Vec<_> = requested
            .map(|(name, _)| (name.clone(), cluster.device_class_of_resource(name).cloned()))
            .collect();
        if resources.iter().all(|(_, class)| class.is_none()) {
            return None;
        }
        let left_over = cluster.extended_resource_claims_of(pod).next().cloned();
        Some(Self { claim: left_over.unwrap_or_else(|| Arc::new(in_memory(pod))), resources })
    }

    /// Whether the claim is left over from an earlier attempt. It has to be deleted first.
    pub(super) fn is_left_over(&self) -> bool {
        *self.claim.name != *IN_MEMORY
    }

    /// Returns which of the resources devices have to provide on a node.
    ///
    /// # Errors
    /// Returns an error if neither the node nor a class provides one of them.
    pub(super) fn through_devices(
        &self,
        node: &NodeView<'_>,
    ) -> Result<ThroughDevices, &'static str> {
        let mut through = ThroughDevices::default();
        for (place, (name, class)) in (0..).zip(&self.resources) {
            if node.scalar(name).allocatable != 0 {
                continue;
            }
            match class {
                Some(_) => through.0.push(place),
                None => return Err("cannot fit resource"),
            }
        }
        Ok(through)
    }

    /// Returns the first resource that neither the node nor a class provides.
    pub(super) fn missing(&self, node: &NodeView<'_>) -> Option<&str> {
        let is_missing = |(name, class): &&(Arc<str>, Option<Arc<DeviceClass>>)| {
            class.is_none() && node.scalar(name).allocatable == 0
        };
        self.resources.iter().find(is_missing).map(|(name, _)| &**name)
    }

    /// Returns the claim for a node, and which container uses which of its requests.
    pub(super) fn claim_for(
        &self,
        pod: &Pod,
        through: &ThroughDevices,
    ) -> (Arc<ResourceClaim>, Vec<RequestMapping>) {
        let (mut requests, mut mappings) = (Vec::new(), Vec::new());
        for place in &through.0 {
            if let (name, Some(class)) = &self.resources[*place as usize] {
                add_requests(pod, name, class, &mut requests, &mut mappings);
            }
        }
        requests.sort_by(|a: &DeviceRequest, b| a.name.cmp(&b.name));
        let spec = ClaimSpec { requests: requests.into(), ..ClaimSpec::default() };
        let claim = ResourceClaim { spec: Arc::new(spec), ..ResourceClaim::clone(&self.claim) };
        (Arc::new(claim), mappings)
    }
}

/// Returns the claim of a pod as long as it exists only in memory.
fn in_memory(pod: &Pod) -> ResourceClaim {
    ResourceClaim {
        namespace: pod.key.namespace.clone(),
        name: IN_MEMORY.into(),
        uid: Uid::from(format!("{IN_MEMORY}/{}", pod.uid).as_str()),
        resource_version: "".into(),
        finalizers: Box::default(),
        controller: Some(ClaimController {
            kind: "Pod".into(),
            name: pod.key.name.clone(),
            uid: pod.uid.clone(),
        }),
        terminating: false,
        undecodable: None,
        is_for_extended_resources: true,
        spec: Arc::default(),
        allocation: None,
        reserved_for: Box::default(),
        devices: Box::default(),
    }
}

/// A request while the requests of one resource are collected.
struct Counted<'a> {
    own: &'a ExtendedRequest,
    count: i64,
}

impl Counted<'_> {
    fn name(&self) -> Arc<str> {
        format!("container-{}-request-{}", self.own.container_index, self.own.resource_index).into()
    }

    fn request(&self, class: &DeviceClass) -> DeviceRequest {
        let name = self.name();
        let body = RequestBody {
            name: name.clone(),
            class: class.name.clone(),
            selectors: Box::default(),
            mode: AllocationMode::ExactCount(self.count),
            admin_access: None,
            tolerations: Box::default(),
            capacity: None,
        };
        DeviceRequest { name, kind: RequestKind::Exactly(body) }
    }
}

/// Adds the requests of the containers for one resource.
///
/// A container that runs as long as the pod has its own request. An init container that ends
/// earlier uses the devices of containers that start later. If these have too few, one request for
/// all init containers adds the rest.
fn add_requests(
    pod: &Pod,
    resource: &Arc<str>,
    class: &DeviceClass,
    requests: &mut Vec<DeviceRequest>,
    mappings: &mut Vec<RequestMapping>,
) {
    let of_resource = || pod.spec.extended_requests.iter().filter(|own| own.resource == *resource);
    let long_lived: Vec<Counted<'_>> = of_resource()
        .filter(|own| own.long_lived)
        .map(|own| Counted { own, count: own.amount })
        .collect();
    let mapping = |own: &ExtendedRequest, request: Arc<str>| RequestMapping {
        container: own.container.clone(),
        resource: resource.clone(),
        request,
    };
    mappings.extend(long_lived.iter().map(|counted| mapping(counted.own, counted.name())));
    let mut largest: Option<Counted<'_>> = None;
    let mut short_lived: Vec<(RequestMapping, bool)> = Vec::new();
    for own in of_resource().filter(|own| !own.long_lived) {
        let mut missing = own.amount;
        let later = |counted: &&Counted<'_>| counted.own.container_index >= own.container_index;
        for counted in long_lived.iter().filter(later) {
            if missing <= 0 {
                break;
            }
            missing = missing.saturating_sub(counted.count);
            short_lived.push((mapping(own, counted.name()), false));
        }
        if missing > 0 {
            let counted = Counted { own, count: missing };
            short_lived.push((mapping(own, counted.name()), true));
            if largest.as_ref().is_none_or(|largest| largest.count < missing) {
                largest = Some(counted);
            }
        }
    }
    if let Some(largest) = &largest {
        let shared = short_lived.iter_mut().filter(|(_, is_own)| *is_own);
        shared.for_each(|(mapping, _)| mapping.request = largest.name());
    }
    mappings.extend(short_lived.into_iter().map(|(mapping, _)| mapping));
    requests.extend(largest.iter().chain(&long_lived).map(|counted| counted.request(class)));
}

/// Returns the object that is created for a claim, under this name.
pub(super) fn object_to_create(claim: &ResourceClaim, name: &str, pod: &Pod) -> Value {
    let requests: Vec<Value> = claim.spec.requests.iter().filter_map(request_json).collect();
    json!({
        "apiVersion": super::bind::API_VERSION,
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": &*claim.namespace,
            "name": name,
            "generateName": format!("{}-extended-resources-", pod.key.name),
            "annotations": { EXTENDED_RESOURCE_CLAIM: "true" },
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Pod",
                "name": &*pod.key.name,
                "uid": pod.uid.to_string(),
                "controller": true,
            }],
        },
        "spec": { "devices": { "requests": requests } },
    })
}

fn request_json(request: &DeviceRequest) -> Option<Value> {
    let RequestKind::Exactly(body) = &request.kind else { return None };
    let AllocationMode::ExactCount(count) = body.mode else { return None };
    Some(json!({
        "name": &*request.name,
        "exactly": {
            "deviceClassName": &*body.class,
            "allocationMode": "ExactCount",
            "count": count,
        },
    }))
}

/// Returns the name under which the claim of a pod is created. It has the form of generated names.
/// The scheduler chooses it, so that a repeated request creates no second claim.
pub(super) fn claim_name(pod: &PodKey, uid: &Uid, now: Time) -> Arc<str> {
    /// Length of a generated name without its random part.
    const BASE_LENGTH: usize = 58;
    const RANDOM_LENGTH: u32 = 5;
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut name = format!("{}-extended-resources-", pod.name);
    name.truncate(BASE_LENGTH);
    let mut seed = stable_hash(&format!("{uid} {now:?}"));
    for _ in 0..RANDOM_LENGTH {
        let place = usize::try_from(seed % 27).unwrap_or(0);
        name.push(char::from(ALPHABET[place]));
        seed /= 27;
    }
    name.into()
}

/// Returns a hash that is the same in every run (FNV-1a).
pub(super) fn stable_hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
