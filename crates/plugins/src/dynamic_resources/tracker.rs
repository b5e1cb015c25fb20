//! The claim tracker: what the scheduler knows of claims and devices beyond the watch.
//!
//! An *assumed* claim is the answer of the API server to a write of this scheduler, until the watch
//! shows that version. A claim is *in flight* from Reserve until its allocation is written. Pods of
//! one group share that allocation: it stays in flight as long as one of them relies on it, and any
//! of them may write it. If the outcome of that write stays unknown, the claim is *in doubt*: its
//! devices count as allocated until the watch shows another version, which the write can no longer
//! replace, or until any request must have ended. Rule dynamic-resources-unknown-write of
//! docs/differences.toml.
//!
//! A *fence* resolves a doubt sooner. It removes the finalizer of the claim and names the same
//! version as the lost write, so that the API server carries out at most one of the two. Either way
//! the claim gets a version that the write cannot replace. A claim in that version needs no
//! finalizer: it is not allocated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use framework::device::{Allocation, ResourceClaim};
use framework::{
    Cluster, Command, EventResource, Handle, Object, ObjectKey, ObjectState, ObjectUpdate, Pod,
    PodGroupKey, PodKey, Time, Uid,
};
use serde_json::{Value, json};
use structured::Overlay;

use super::counted::Counted;
use super::releases::Releases;
use super::turns::Turns;

/// The time after which the API server cannot carry out a request whose answer was lost.
const LONGEST_REQUEST: Duration = Duration::from_mins(2);
/// The pause after the first fence of a claim. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between two fences, which is the longest backoff of a pod.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The claims that a scheduler tracks, shared by its profiles.
#[derive(Debug, Default)]
pub(crate) struct ClaimTracker(Mutex<TrackedClaims>);

impl ClaimTracker {
    /// Locks the tracker for one call.
    pub(super) fn lock(&self) -> MutexGuard<'_, TrackedClaims> {
        // Each change of the tracker is atomic, so a panic leaves it consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tracked claims, by UID.
#[derive(Debug, Default)]
pub(super) struct TrackedClaims {
    assumed: BTreeMap<Uid, Arc<ResourceClaim>>,
    in_flight: BTreeMap<Uid, InFlight>,
    in_doubt: BTreeMap<Uid, InDoubt>,
    counted: Counted,
    pub(super) releases: Releases,
    pub(super) turns: Turns,
}

/// An allocation that is not written yet.
#[derive(Debug)]
struct InFlight {
    /// The pods whose Reserve relies on the allocation.
    pods: BTreeSet<Uid>,
    /// The group of these pods.
    group: Option<PodGroupKey>,
    /// The claim with its allocation.
    claim: Arc<ResourceClaim>,
    /// The version that a write without an answer named, of a pod that is done.
    doubted: Option<Arc<str>>,
}

/// An allocation that may have been written.
#[derive(Debug)]
struct InDoubt {
    /// The claim with its allocation, at the version that the write named.
    claim: Arc<ResourceClaim>,
    /// When the doubt ends.
    until: Time,
    /// Whether the watch has shown the claim. It may not show one yet that the scheduler has
    /// created.
    is_shown: bool,
    /// The next fence; `None` for a claim for extended resources, which is deleted.
    fence: Option<Fence>,
}

/// The write that resolves a doubt.
#[derive(Debug)]
struct Fence {
    /// The pod for which the claim was allocated.
    pod: (PodKey, Uid),
    at: Time,
    /// The pause after it.
    pause: Duration,
}

/// Whether `a` is a newer version than `b`; both are decimal numbers of any length.
pub(super) fn is_newer(a: &str, b: &str) -> bool {
    (a.len(), a) > (b.len(), b)
}

impl TrackedClaims {
    /// Returns the latest version of the claim: the assumed one if the watch has not caught up with
    /// it.
    pub(super) fn latest<'a>(
        &'a self,
        namespace: &str,
        name: &str,
        cluster: &'a Cluster,
    ) -> Option<&'a Arc<ResourceClaim>> {
        let stored = cluster.resource_claim(namespace, name)?;
        Some(self.assumed_version(stored).unwrap_or(stored))
    }

    /// Returns the assumed version of a stored claim if it is newer.
    fn assumed_version(&self, stored: &ResourceClaim) -> Option<&Arc<ResourceClaim>> {
        let assumed = self.assumed.get(&stored.uid)?;
        is_newer(&assumed.resource_version, &stored.resource_version).then_some(assumed)
    }

    /// Whether the claim is being allocated for a pod, or may have been.
    pub(super) fn is_in_flight(&self, claim: &Uid) -> bool {
        self.in_flight.contains_key(claim) || self.in_doubt.contains_key(claim)
    }

    /// Returns the devices that are allocated beyond the stored claims. Only claims that have
    /// changed since the last call are looked at.
    pub(super) fn overlay(&mut self, cluster: &Cluster) -> Arc<Overlay> {
        let Self { in_flight, in_doubt, assumed, counted, .. } = self;
        let is_tracked = |uid: &Uid| {
            in_flight.contains_key(uid) || in_doubt.contains_key(uid) || assumed.contains_key(uid)
        };
        let changed = counted.changed(cluster, is_tracked).unwrap_or_else(|| {
            let tracked = self.in_flight.keys().chain(self.in_doubt.keys());
            tracked.chain(self.assumed.keys()).chain(self.counted.claims()).cloned().collect()
        });
        for uid in &changed {
            let allocation = self.unshown_allocation(uid, cluster).cloned();
            self.counted.set(uid, allocation);
        }
        self.counted.overlay(cluster)
    }

    /// Returns the allocation of a claim that the stored claim does not show.
    fn unshown_allocation<'a>(
        &'a self,
        uid: &Uid,
        cluster: &Cluster,
    ) -> Option<&'a Arc<Allocation>> {
        let in_flight = self.in_flight.get(uid).map(|own| &own.claim);
        let own = in_flight.or_else(|| self.in_doubt.get(uid).map(|own| &own.claim));
        let claim = own.or_else(|| {
            let claim = self.assumed.get(uid)?;
            is_ahead(claim, cluster).then_some(claim)
        })?;
        claim.allocation.as_ref().filter(|_| !is_shown_allocated(claim, cluster))
    }

    /// Returns [`overlay`](Self::overlay), made from nothing.
    #[cfg(test)]
    pub(super) fn overlay_from_nothing(&self, cluster: &Cluster) -> Overlay {
        let in_flight = self.in_flight.values().map(|own| &own.claim);
        let in_doubt = self.in_doubt.values().map(|own| &own.claim);
        let assumed = self.assumed.values().filter(|claim| {
            let stored = cluster.resource_claim(&claim.namespace, &claim.name);
            stored.is_some_and(|stored| self.assumed_version(stored).is_some())
                && !self.is_in_flight(&claim.uid)
        });
        let claims = in_flight.chain(in_doubt).chain(assumed);
        let claims = claims.filter(|claim| !is_shown_allocated(claim, cluster));
        let mut overlay = Overlay::default();
        claims.filter_map(|claim| claim.allocation.as_deref()).for_each(|own| overlay.add(own));
        overlay.update(cluster);
        overlay
    }

    /// Records that Reserve has allocated a claim for a pod, which may be a member of a group.
    pub(super) fn reserve(
        &mut self,
        claim: Arc<ResourceClaim>,
        pod: &Uid,
        group: Option<PodGroupKey>,
    ) {
        self.counted.note(&claim.uid);
        let pods = BTreeSet::from([pod.clone()]);
        let flight = InFlight { pods, group, claim, doubted: None };
        self.in_flight.insert(flight.claim.uid.clone(), flight);
    }

    /// Gives the claims that are in flight for a group their allocations, and returns them as they
    /// were.
    pub(super) fn take_shared(
        &self,
        claims: &mut [Arc<ResourceClaim>],
        group: &PodGroupKey,
    ) -> Vec<Arc<ResourceClaim>> {
        let mut before = Vec::new();
        for claim in claims.iter_mut().filter(|claim| claim.allocation.is_none()) {
            let flight = self.in_flight.get(&claim.uid);
            let Some(flight) = flight.filter(|own| own.group.as_ref() == Some(group)) else {
                continue;
            };
            let allocation = flight.claim.allocation.clone();
            let allocated = ResourceClaim { allocation, ..ResourceClaim::clone(claim) };
            before.push(std::mem::replace(claim, allocated.into()));
        }
        before
    }

    /// Notes that a pod relies on an allocation in flight for its group. Returns whether there is
    /// such an allocation.
    pub(super) fn join(&mut self, claim: &Uid, pod: &Uid) -> bool {
        let Some(flight) = self.in_flight.get_mut(claim) else { return false };
        flight.pods.insert(pod.clone());
        true
    }

    /// Replaces the claim in flight that exists only in memory by the created one.
    pub(super) fn rename(&mut self, in_memory: &Uid, created: Arc<ResourceClaim>, pod: &Uid) {
        if self.in_flight.remove(in_memory).is_some() {
            self.counted.note(in_memory);
            self.reserve(created, pod, None);
        }
    }

    /// Assumes the claim that the API server returned after a write, and ends its flight.
    pub(super) fn assume(&mut self, claim: Arc<ResourceClaim>, handle: &Handle<'_>) {
        let cluster = handle.cluster;
        self.sweep(cluster);
        self.in_flight.remove(&claim.uid);
        self.counted.note(&claim.uid);
        let Some(stored) = cluster.resource_claim(&claim.namespace, &claim.name) else { return };
        let latest = self.assumed_version(stored).unwrap_or(stored).clone();
        if stored.uid != claim.uid || !is_newer(&claim.resource_version, &latest.resource_version) {
            return;
        }
        report_change(&latest, &claim, handle);
        self.assumed.insert(claim.uid.clone(), claim);
    }

    /// Forgets the allocation of a claim that Reserve made for the pod, unless other pods of its
    /// group rely on it.
    pub(super) fn release(&mut self, claim: &Uid, pod: &Pod, handle: &Handle<'_>) {
        let Some(InFlight { claim, doubted, .. }) = self.leave(claim, &pod.uid) else { return };
        match doubted {
            Some(version) => self.begin_doubt(&claim, version, pod, handle),
            None => report_deallocation(&claim, handle),
        }
    }

    /// Forgets the allocation of a claim that Reserve made for the pod for a while, and reports
    /// nothing.
    pub(super) fn forget(&mut self, claim: &Uid, pod: &Uid) {
        self.leave(claim, pod);
    }

    /// Notes that the allocation of this version of a claim may have been written. Its devices stay
    /// allocated for a while, and as long as other pods of the group rely on them.
    pub(super) fn doubt(&mut self, claim: &ResourceClaim, pod: &Pod, handle: &Handle<'_>) {
        let version = &claim.resource_version;
        if let Some(flight) = self.flight_of(&claim.uid, &pod.uid) {
            flight.doubted = Some(version.clone());
        }
        if let Some(flight) = self.leave(&claim.uid, &pod.uid) {
            self.begin_doubt(&flight.claim, version.clone(), pod, handle);
        }
    }

    fn begin_doubt(
        &mut self,
        allocated: &ResourceClaim,
        resource_version: Arc<str>,
        pod: &Pod,
        handle: &Handle<'_>,
    ) {
        let claim = ResourceClaim { resource_version, ..allocated.clone() };
        let until = handle.now + LONGEST_REQUEST;
        let is_shown = !claim.is_for_extended_resources;
        let pod = (pod.key.clone(), pod.uid.clone());
        let fence = is_shown.then_some(Fence { pod, at: handle.now, pause: FIRST_PAUSE });
        let mut own = InDoubt { claim: claim.into(), until, is_shown, fence };
        own.look(handle.cluster);
        self.in_doubt.insert(own.claim.uid.clone(), own);
    }

    /// Notes that a pod does not rely on an allocation any more. Returns what is in flight no
    /// longer.
    fn leave(&mut self, claim: &Uid, pod: &Uid) -> Option<InFlight> {
        let flight = self.flight_of(claim, pod)?;
        flight.pods.remove(pod);
        if !flight.pods.is_empty() {
            return None;
        }
        self.counted.note(claim);
        self.in_flight.remove(claim)
    }

    /// Returns the allocation in flight on which a pod relies.
    fn flight_of(&mut self, claim: &Uid, pod: &Uid) -> Option<&mut InFlight> {
        self.in_flight.get_mut(claim).filter(|own| own.pods.contains(pod))
    }

    /// Whether a pod relies on an allocation in flight.
    pub(super) fn has_in_flight(&self, claim: &Uid, pod: &Uid) -> bool {
        self.in_flight.get(claim).is_some_and(|own| own.pods.contains(pod))
    }

    /// Sends the fences that are due.
    pub(super) fn fence(&mut self, handle: &Handle<'_>) {
        for InDoubt { claim, fence, .. } in self.in_doubt.values_mut() {
            let Some(fence) = fence.as_mut().filter(|own| own.at <= handle.now) else { continue };
            let (pod, uid) = fence.pod.clone();
            handle.command(Command::Write { pod, uid, write: super::bind::fence(claim) });
            fence.at = handle.now + fence.pause;
            fence.pause = (fence.pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Ends the doubts that the watch has resolved or that have lasted too long. Returns when the
    /// next doubt ends or the next fence is due.
    pub(super) fn resolve(&mut self, handle: &Handle<'_>) -> Option<Time> {
        if self.in_doubt.is_empty() {
            return None;
        }
        self.in_doubt.retain(|uid, own| {
            own.look(handle.cluster);
            let lasts = own.until > handle.now && own.is_possible(handle.cluster);
            if !lasts {
                self.counted.note(uid);
                if !is_shown_allocated(&own.claim, handle.cluster) {
                    report_deallocation(&own.claim, handle);
                }
            }
            lasts
        });
        let fences = self.in_doubt.values().filter_map(|own| Some(own.fence.as_ref()?.at));
        self.in_doubt.values().map(|own| own.until).chain(fences).min()
    }

    /// Drops assumed versions that the watch has caught up with.
    fn sweep(&mut self, cluster: &Cluster) {
        self.assumed.retain(|_, claim| is_ahead(claim, cluster));
    }

    /// Returns the numbers of tracked claims: assumed, in flight, in doubt.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        (self.assumed.len(), self.in_flight.len(), self.in_doubt.len())
    }
}

impl InDoubt {
    /// Notes whether the watch shows the claim.
    fn look(&mut self, cluster: &Cluster) {
        let stored = cluster.resource_claim(&self.claim.namespace, &self.claim.name);
        self.is_shown |= stored.is_some_and(|stored| stored.uid == self.claim.uid);
    }

    /// Whether the write may still be carried out: it names the version that the claim has.
    fn is_possible(&self, cluster: &Cluster) -> bool {
        let stored = cluster.resource_claim(&self.claim.namespace, &self.claim.name);
        stored.map_or(!self.is_shown, |stored| {
            stored.uid == self.claim.uid
                && !is_newer(&stored.resource_version, &self.claim.resource_version)
        })
    }
}

/// Whether the watch shows an older version of the claim.
fn is_ahead(claim: &ResourceClaim, cluster: &Cluster) -> bool {
    let stored = cluster.resource_claim(&claim.namespace, &claim.name);
    stored.is_some_and(|stored| {
        stored.uid == claim.uid && is_newer(&claim.resource_version, &stored.resource_version)
    })
}

/// Whether the watch shows the claim allocated, so that the cluster counts its devices.
fn is_shown_allocated(claim: &ResourceClaim, cluster: &Cluster) -> bool {
    let stored = cluster.resource_claim(&claim.namespace, &claim.name);
    stored.is_some_and(|stored| stored.uid == claim.uid && stored.allocation.is_some())
}

/// Reports that a claim in flight has lost its allocation. kube-scheduler reports nothing, so pods
/// that wait for these devices would miss it. Rule dynamic-resources-released-hint of
/// docs/differences.toml.
fn report_deallocation(claim: &ResourceClaim, handle: &Handle<'_>) {
    let free = ResourceClaim { allocation: None, ..claim.clone() };
    report_change(claim, &free, handle);
}

/// Reports a change of a claim that the watch has not shown.
fn report_change(old: &ResourceClaim, new: &ResourceClaim, handle: &Handle<'_>) {
    let [old, new] = [old, new].map(|claim| Some(event_object(claim)));
    handle.command(Command::ObjectChanged(Box::new(ObjectUpdate { old, new })));
}

/// Returns a claim as hints see it.
fn event_object(claim: &ResourceClaim) -> Object {
    let ResourceClaim { namespace, name, .. } = claim;
    let kind = EventResource::ResourceClaim;
    let key = ObjectKey::namespaced(kind, namespace.clone(), name.clone());
    Object::new(key, ObjectState::ResourceClaim(Arc::new(claim.clone())), &json_of(claim))
}

fn json_of(claim: &ResourceClaim) -> Value {
    let users: Vec<Value> = claim.reserved_for.iter().map(super::bind::consumer).collect();
    let mut status = json!({});
    if let Some(allocation) = &claim.allocation {
        status["allocation"] = allocation.to_json();
    }
    if !users.is_empty() {
        status["reservedFor"] = users.into();
    }
    json!({
        "metadata": {
            "namespace": &*claim.namespace,
            "name": &*claim.name,
            "uid": claim.uid.to_string(),
        },
        "status": status,
    })
}

#[cfg(test)]
mod tests {
    use super::is_newer;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (older, newer) in [("9", "10"), ("99", "100"), ("100", "101"), ("", "1")] {
            assert!(is_newer(newer, older) && !is_newer(older, newer), "{older} and {newer}");
        }
        assert!(!is_newer("7", "7"));
    }
}
