//! Invariants of devices: no device is allocated twice, bound pods have theirs, which are ready,
//! and nothing is kept for the dead.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::{Request, RequestId};
use framework::Time;
use sandbox::resources::{PODS, RESOURCECLAIMS};
use serde_json::Value;

use super::churn::devices::SHARED_POOL;
use super::driver;
use super::oracle::{fault_of, links_suffice};
use super::rules::{Checked, rule};
use super::server::{Bound, Server};

/// Driver, pool and name of a device.
pub(crate) type DeviceId = (String, String, String);

/// Checks that no device is allocated to two claims, and that each claim has the devices that it
/// requests.
///
/// # Errors
/// A rule is violated.
pub(crate) fn after_write(server: &Server) -> Checked {
    let mut holders: BTreeMap<DeviceId, &str> = BTreeMap::new();
    for claim in server.store.objects(RESOURCECLAIMS) {
        let name = text(&claim["metadata"]["name"]);
        let fault = fault_of(claim);
        rule(fault.is_none(), || format!("{}: {claim}", fault.unwrap_or_default()))?;
        for device in allocated(claim) {
            let other = holders.insert(device.clone(), name);
            rule(other.is_none(), || format!("{device:?} is allocated to {other:?} and {name}"))?;
        }
    }
    rule(links_suffice(holders.keys()), || format!("the counters do not suffice for {holders:?}"))
}

/// Checks that the claims of a pod that was bound are allocated for its node, reserved for it, and
/// ready.
///
/// # Errors
/// A rule is violated.
pub(crate) fn after_binding(server: &Server, bound: &Bound) -> Checked {
    let pod = server.live_pods().find(|pod| pod["metadata"]["uid"] == bound.uid.as_str());
    let Some(pod) = pod else { return Ok(()) };
    for name in claims_of(pod) {
        let namespace = text(&pod["metadata"]["namespace"]);
        let Some(claim) = server.store.get(RESOURCECLAIMS, namespace, name) else { continue };
        let broken =
            |how: &str| format!("{} is bound, and {how}: {claim}", text(&pod["metadata"]["name"]));
        rule(reservations(claim).any(|uid| uid == bound.uid), || {
            broken("its claim is not reserved")
        })?;
        rule(is_usable_on(claim, &bound.node), || broken("its devices are elsewhere"))?;
        rule(!driver::is_pending(claim), || broken("its devices are not ready"))?;
        rule(!driver::is_broken(claim), || broken("its devices are broken"))?;
    }
    Ok(())
}

/// Checks that no claim is reserved for a pod that has ended.
///
/// # Errors
/// A rule is violated.
pub(crate) fn at_rest(server: &Server) -> Checked {
    after_write(server)?;
    let live: BTreeSet<&str> =
        server.live_pods().map(|pod| text(&pod["metadata"]["uid"])).collect();
    let pods: BTreeSet<&str> =
        server.store.objects(PODS).map(|pod| text(&pod["metadata"]["uid"])).collect();
    for claim in server.store.objects(RESOURCECLAIMS) {
        let dead = reservations(claim).find(|uid| !live.contains(uid));
        rule(dead.is_none(), || {
            let is_there = dead.is_some_and(|uid| pods.contains(uid));
            format!("{claim} is reserved for {dead:?}, which has ended (still stored: {is_there})")
        })?;
    }
    Ok(())
}

/// Whether a request allocates devices.
pub(crate) fn is_allocation(request: &Request) -> bool {
    request.path.contains("/resourceclaims/")
        && request.path.ends_with("/status")
        && String::from_utf8_lossy(&request.body).contains("\"allocation\"")
}

/// Checks that only a claim that no other pod uses loses its devices.
///
/// # Errors
/// The rule is violated.
pub(crate) fn before_write(server: &Server, request: &Request) -> Checked {
    if !request.path.contains("/resourceclaims/") || !request.path.ends_with("/status") {
        return Ok(());
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let takes_all = body["status"].get("allocation").is_some_and(Value::is_null);
    let stored = stored_claim(server, &body).filter(|claim| is_version(claim, &body));
    let Some(claim) = stored.filter(|_| takes_all) else { return Ok(()) };
    let users = || reservations(claim);
    let is_used = |uid: &str| {
        let mut pods = server.live_pods();
        pods.any(|pod| pod["metadata"]["uid"] == uid && !pod["spec"]["nodeName"].is_null())
    };
    rule(users().count() < 2 && !users().any(is_used), || {
        format!("{claim} loses its devices, and is used")
    })
}

fn stored_claim<'a>(server: &'a Server, patch: &Value) -> Option<&'a Value> {
    let uid = &patch["metadata"]["uid"];
    let mut claims = server.store.objects(RESOURCECLAIMS);
    claims.find(|claim| claim["metadata"]["uid"] == *uid).map(AsRef::as_ref)
}

/// Whether a patch names the version of the claim.
fn is_version(claim: &Value, patch: &Value) -> bool {
    claim["metadata"]["resourceVersion"] == patch["metadata"]["resourceVersion"]
}

/// A part of the names of claims that the scheduler creates.
const CREATED: &str = "-extended-resources-";
/// Time after which no request is carried out any more that got no answer.
const LONGEST_REQUEST: Duration = Duration::from_secs(120);

/// Time for which the devices of a claim that the scheduler has created count although no watch
/// shows it: as long as the pod waits for the watch, and then as long as after a request without an
/// answer.
const LONGEST_UNSEEN: Duration = Duration::from_secs(150);

/// The allocations that one process has sent.
#[derive(Debug, Default)]
pub(crate) struct Allocations {
    /// The allocations that the server may still carry out.
    open: BTreeMap<RequestId, Sent>,
    /// When the process allocated devices to claims that it had created, by UID of the claim.
    created: BTreeMap<String, Time>,
}

/// An allocation that was sent.
#[derive(Debug)]
struct Sent {
    at: Time,
    patch: Value,
}

impl Sent {
    /// Whether the server would carry out the allocation.
    fn is_possible(&self, server: &Server) -> bool {
        stored_claim(server, &self.patch).is_some_and(|claim| is_version(claim, &self.patch))
    }
}

impl Allocations {
    /// Checks that no device is allocated to a claim that the server may yet allocate to another
    /// one.
    ///
    /// # Errors
    /// The rule is violated.
    pub(crate) fn sent(&mut self, server: &Server, request: &Request, now: Time) -> Checked {
        if !is_allocation(request) {
            return Ok(());
        }
        self.open.retain(|_, other| now.since(other.at) < LONGEST_REQUEST);
        let patch: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let own: BTreeSet<DeviceId> = allocated(&patch).collect();
        let uid = &patch["metadata"]["uid"];
        let others = self.open.values().filter(|other| other.patch["metadata"]["uid"] != *uid);
        let mut others = others.filter(|other| other.is_possible(server));
        let twice = others.find(|other| allocated(&other.patch).any(|id| own.contains(&id)));
        rule(twice.is_none(), || {
            format!("{patch} is sent, and its devices are perhaps those of {twice:?}")
        })?;
        if request.path.contains(CREATED) {
            self.created.insert(text(uid).to_owned(), now);
        }
        self.open.insert(request.id, Sent { at: now, patch });
        Ok(())
    }

    /// Records that a request was carried out, or never will be.
    pub(crate) fn is_over(&mut self, request: RequestId) {
        self.open.remove(&request);
    }

    /// Whether some allocation may yet be carried out, so that its devices are withheld.
    pub(crate) fn are_open(&self, server: &Server, now: Time) -> bool {
        let may_arrive =
            |own: &Sent| now.since(own.at) <= LONGEST_REQUEST && own.is_possible(server);
        let is_stored = |uid: &str| {
            let mut claims = server.store.objects(RESOURCECLAIMS);
            claims.any(|claim| claim["metadata"]["uid"] == uid)
        };
        // The claim may be gone before the watch has shown it.
        let mut created = self.created.iter();
        self.open.values().any(may_arrive)
            || created.any(|(uid, at)| now.since(*at) <= LONGEST_UNSEEN && !is_stored(uid))
    }
}

/// Returns the devices of a claim.
pub(crate) fn allocated(claim: &Value) -> impl Iterator<Item = DeviceId> {
    let results = claim["status"]["allocation"]["devices"]["results"].as_array();
    results.into_iter().flatten().map(|result| {
        let part = |field: &str| text(&result[field]).to_owned();
        (part("driver"), part("pool"), part("device"))
    })
}

/// Returns the UIDs for which a claim is reserved.
fn reservations(claim: &Value) -> impl Iterator<Item = &str> {
    let consumers = claim["status"]["reservedFor"].as_array();
    consumers.into_iter().flatten().map(|consumer| text(&consumer["uid"]))
}

/// Returns the names of the claims of a pod.
fn claims_of(pod: &Value) -> impl Iterator<Item = &str> {
    let named = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    let generated = pod["status"]["resourceClaimStatuses"].as_array().into_iter().flatten();
    let names = named.chain(generated).filter_map(|entry| entry["resourceClaimName"].as_str());
    names.chain(pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"].as_str())
}

/// Whether a claim of a pod does not exist, or is being deleted. PreEnqueue keeps such a pod from
/// being tried, without a word, as in kube-scheduler.
pub(crate) fn lacks_claim(server: &Server, pod: &Value) -> bool {
    let namespace = text(&pod["metadata"]["namespace"]);
    let exists = |name: &str| {
        let claim = server.store.get(RESOURCECLAIMS, namespace, name);
        claim.is_some_and(|claim| claim["metadata"]["deletionTimestamp"].is_null())
    };
    let entries = pod["spec"]["resourceClaims"].as_array().map_or(0, Vec::len);
    entries > 0 && (claims_of(pod).count() < entries || !claims_of(pod).all(exists))
}

/// Whether the devices of a claim can be used on the node; all of them belong to one node.
pub(crate) fn is_usable_on(claim: &Value, node: &str) -> bool {
    !claim["status"]["allocation"].is_null() && allocated(claim).all(|id| node_of(&id) == node)
}

/// Returns the node of a device: its pool, or the beginning of its name if nodes share the pool.
pub(crate) fn node_of(id: &DeviceId) -> &str {
    let (_, pool, device) = id;
    match pool == SHARED_POOL {
        true => device.split('-').next().unwrap_or_default(),
        false => pool,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
