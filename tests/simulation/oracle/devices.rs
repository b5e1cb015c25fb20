//! Devices of nodes and claims, as plain lists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::{EventResource, Pod, PodClaimSource};
use sandbox::resources::{DEVICECLASSES, RESOURCECLAIMS, RESOURCESLICES, Resource};
use serde_json::{Value, json};

use super::super::churn::devices::{
    CLASS, EXTENDED_RESOURCE, LINKS, MODEL_A, SHARED_POOL, links, model, numa,
};
use super::super::devices::{DeviceId, allocated, is_usable_on, node_of};
use super::super::driver::is_broken;
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
    published: BTreeMap<String, Vec<Device>>,
    claims: BTreeMap<(String, String), Arc<Value>>,
}

/// A published device.
#[derive(Debug, Clone)]
struct Device {
    id: DeviceId,
    has_taint: bool,
}

/// A request of a claim for devices, or an alternative of one.
struct Request<'a>(&'a Value);

/// Whether devices decide where the pod fits.
pub(crate) fn needs_devices(pod: &Pod) -> bool {
    !pod.spec.resource_claims.is_empty() || wants_extended(pod)
}

fn wants_extended(pod: &Pod) -> bool {
    pod.spec.extended_requests.iter().any(|request| *request.resource == *EXTENDED_RESOURCE)
}

impl Request<'_> {
    fn takes_all(&self) -> bool {
        self.0["allocationMode"] == "All"
    }

    fn count(&self) -> usize {
        self.0["count"].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(1)
    }

    /// Whether a device of this name has the attributes that are asked for.
    fn selects(&self, id: &DeviceId) -> bool {
        let selectors = self.0["selectors"].as_array().into_iter().flatten();
        selectors.into_iter().all(|own| own["cel"]["expression"] != MODEL_A || model_of(id) == "a")
    }

    fn tolerates(&self, device: &Device) -> bool {
        !device.has_taint || self.0["tolerations"].as_array().is_some_and(|all| !all.is_empty())
    }

    /// Returns the sets of free devices that satisfy the request.
    fn choices<'a>(&self, all: &'a [Device], taken: &BTreeSet<DeviceId>) -> Vec<Vec<&'a Device>> {
        let selected: Vec<&Device> = all.iter().filter(|own| self.selects(&own.id)).collect();
        let is_free = |own: &Device| !taken.contains(&own.id) && self.tolerates(own);
        if self.takes_all() {
            let suffices = !selected.is_empty() && selected.iter().all(|own| is_free(own));
            return if suffices { vec![selected] } else { Vec::new() };
        }
        let free: Vec<&Device> = selected.into_iter().filter(|own| is_free(own)).collect();
        let subsets =
            (0..1_u32 << free.len()).filter(|set| set.count_ones() as usize == self.count());
        let members = |set: u32| {
            let chosen = free.iter().enumerate().filter(move |(place, _)| set >> place & 1 == 1);
            chosen.map(|(_, device)| *device).collect()
        };
        subsets.map(members).collect()
    }
}

/// Returns the requests of a claim, each with its alternatives and their names in the result.
fn requests_of(claim: &Value) -> Vec<Vec<(String, Request<'_>)>> {
    let requests = claim["spec"]["devices"]["requests"].as_array().into_iter().flatten();
    let alternatives = |request: &'_ Value| {
        let name = request["name"].as_str().unwrap_or_default().to_owned();
        (name, request["firstAvailable"].as_array().is_some())
    };
    requests
        .map(|request| match alternatives(request) {
            (name, false) => vec![(name, Request(&request["exactly"]))],
            (name, true) => {
                let each = request["firstAvailable"].as_array().into_iter().flatten();
                let named =
                    |sub: &Value| format!("{name}/{}", sub["name"].as_str().unwrap_or_default());
                each.map(|sub| (named(sub), Request(sub))).collect()
            }
        })
        .collect()
}

/// Whether all devices of the claim have to be near to the same memory.
fn is_near(claim: &Value) -> bool {
    claim["spec"]["devices"]["constraints"].as_array().is_some_and(|all| !all.is_empty())
}

/// Returns what is wrong with the devices of a claim: their number, their model or their place.
pub(crate) fn fault_of(claim: &Value) -> Option<&'static str> {
    if claim["status"]["allocation"].is_null() {
        return None;
    }
    let results = claim["status"]["allocation"]["devices"]["results"].as_array();
    let names: Vec<&Value> =
        results.into_iter().flatten().map(|result| &result["request"]).collect();
    let devices: Vec<DeviceId> = allocated(claim).collect();
    let places: BTreeSet<usize> = devices.iter().map(numa_of).collect();
    if is_near(claim) && places.len() > 1 {
        return Some("its devices are not near to the same memory");
    }
    let nodes: BTreeSet<&str> = devices.iter().map(node_of).collect();
    if nodes.len() > 1 {
        return Some("its devices are on several nodes");
    }
    let mut explained = 0;
    for alternatives in requests_of(claim) {
        let chosen = alternatives.iter().find(|(name, _)| names.contains(&&json!(name)));
        let Some((name, request)) = chosen else { return Some("a request has no devices") };
        let own = || devices.iter().zip(&names).filter(|(_, other)| ***other == **name);
        explained += own().count();
        if !request.takes_all() && own().count() != request.count() {
            return Some("a request has another number of devices");
        }
        if !own().all(|(device, _)| request.selects(device)) {
            return Some("a request has a device that it does not select");
        }
    }
    (explained != devices.len()).then_some("a device belongs to no request")
}

fn model_of(id: &DeviceId) -> &'static str {
    model(number_in(node_of(id)), number_in(&id.2))
}

fn numa_of(id: &DeviceId) -> usize {
    numa(number_in(node_of(id)), number_in(&id.2))
}

/// Returns the number at the end of the name of a node or device.
fn number_in(name: &str) -> usize {
    let end = name.rsplit(|c: char| !c.is_ascii_digit()).next();
    end.and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

/// Whether the counters of the shared pool suffice for these devices.
pub(crate) fn links_suffice<'a>(devices: impl Iterator<Item = &'a DeviceId>) -> bool {
    let sharing = devices.filter(|(_, pool, _)| pool == SHARED_POOL);
    sharing.map(|(.., device)| links(number_in(device))).sum::<usize>() <= LINKS.1
}

impl Devices {
    pub(super) fn of_server(server: &Server) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let slices = || server.store.objects(RESOURCESLICES).map(|slice| &slice["spec"]);
        // A pool is complete with all slices of its last generation.
        let is_complete = |spec: &Value| {
            let of_pool = slices().filter(|other| other["pool"] == spec["pool"]);
            Some(of_pool.count() as u64) == spec["pool"]["resourceSliceCount"].as_u64()
        };
        let published = slices().filter(|spec| is_complete(spec)).map(|spec| {
            let devices = spec["devices"].as_array().into_iter().flatten().map(|device| Device {
                id: (text(&spec["driver"]), text(&spec["pool"]["name"]), text(&device["name"])),
                has_taint: !device["taints"].is_null(),
            });
            (text(&spec["nodeName"]), devices.collect())
        });
        let claims = server.store.objects(RESOURCECLAIMS).map(|claim| {
            let metadata = &claim["metadata"];
            ((text(&metadata["namespace"]), text(&metadata["name"])), claim.clone())
        });
        Self {
            has_class: server.store.get(DEVICECLASSES, "", CLASS).is_some(),
            published: published.collect(),
            claims: claims.collect(),
        }
    }

    /// Whether the node has the devices of the pod, which has one claim at most.
    pub(super) fn suffice(&self, node: &str, pod: &Pod) -> bool {
        // A special claim of an earlier attempt is deleted before the pod is tried again.
        let taken = self.taken(&format!("{}", pod.uid));
        let devices = self.published.get(node).map_or(&[][..], |devices| devices);
        if wants_extended(pod) {
            let is_free = |own: &Device| {
                !own.has_taint
                    && !taken.contains(&own.id)
                    && links_suffice(taken.iter().chain([&own.id]))
            };
            return self.has_class && devices.iter().any(is_free);
        }
        pod.spec.resource_claims.iter().all(|entry| {
            let name = match &entry.source {
                PodClaimSource::Claim(name) => Some(name),
                _ => pod.generated_claims().and_then(|own| own.claim(&entry.name)?),
            };
            let key = |name: &Arc<str>| (pod.key.namespace.to_string(), name.to_string());
            let claim = name.and_then(|name| self.claims.get(&key(name)));
            claim.is_some_and(|claim| self.may_have(claim, node, devices, taken.clone()))
        })
    }

    fn may_have(
        &self,
        claim: &Value,
        node: &str,
        devices: &[Device],
        taken: BTreeSet<DeviceId>,
    ) -> bool {
        if !claim["metadata"]["deletionTimestamp"].is_null() {
            return false;
        }
        if !claim["status"]["allocation"].is_null() {
            return is_usable_on(claim, node) && !is_broken(claim);
        }
        let near = is_near(claim).then_some(None);
        self.has_class && can_serve(&requests_of(claim), devices, &taken, near)
    }

    /// Returns the devices that a claim has, except special claims of this pod.
    fn taken(&self, owner: &str) -> BTreeSet<DeviceId> {
        let is_own = |claim: &Value| {
            let metadata = &claim["metadata"];
            metadata["ownerReferences"][0]["uid"] == *owner
                && !metadata["annotations"]["resource.kubernetes.io/extended-resource-claim"]
                    .is_null()
        };
        let others = self.claims.values().filter(|claim| !is_own(claim));
        others.flat_map(|claim| allocated(claim)).collect()
    }
}

/// Whether free devices satisfy all requests, by trying every choice. With `near` all of them have
/// to be near to the same memory, which may be decided already.
fn can_serve(
    requests: &[Vec<(String, Request<'_>)>],
    devices: &[Device],
    taken: &BTreeSet<DeviceId>,
    near: Option<Option<usize>>,
) -> bool {
    let Some((alternatives, rest)) = requests.split_first() else { return true };
    let choices = alternatives.iter().flat_map(|(_, request)| request.choices(devices, taken));
    choices.into_iter().any(|choice| {
        let mut place = near;
        let is_near = choice.iter().all(|device| match &mut place {
            None => true,
            Some(known) => *known.get_or_insert(numa_of(&device.id)) == numa_of(&device.id),
        });
        let chosen = choice.iter().map(|device| device.id.clone());
        let taken: BTreeSet<DeviceId> = taken.iter().cloned().chain(chosen).collect();
        is_near && links_suffice(taken.iter()) && can_serve(rest, devices, &taken, place)
    })
}
