//! The ResourceClaim controller: creates the claims of pods and PodGroups from templates, removes
//! reservations of pods that do not run any more and of PodGroups that are gone, deallocates claims
//! without reservations, and deletes the claims of ended pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::Time;
use framework::device::FINALIZER;
use framework::device::template::{GROUP_CLAIM_NAME, POD_CLAIM_NAME, claim_for, claim_for_group};
use serde_json::{Value, json};

use super::RETRY;
use super::event::{self, EventKind};
use super::work_queue::{Key, WorkQueue, key};
use crate::informer::{Informer, ObjectEvent};
use crate::metadata::{metadata_mut, name, namespace, uid};
use crate::object::{controller_of, entries, is_terminating, put, remove, text};
use crate::resources::{PODGROUPS, PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES};
use crate::store::{DeleteOptions, Store};

/// The component that its events name.
const SOURCE: &str = "resource_claim";
const RESERVED_FOR: &str = "/status/reservedFor";
const STATUSES: &str = "/status/resourceClaimStatuses";

#[derive(Debug)]
pub(super) struct ResourceClaimController {
    pods: Informer,
    claims: Informer,
    templates: Informer,
    groups: Informer,
    pods_due: WorkQueue,
    claims_due: WorkQueue,
    groups_due: WorkQueue,
    /// Claims by the UID of a pod or PodGroup that owns or reserves them.
    by_user: BTreeMap<String, BTreeSet<Key>>,
    /// The pods and PodGroups of a claim, by the key of the claim.
    users_of: BTreeMap<Key, BTreeSet<String>>,
    /// Pods without all their claims, with the reason in the last event.
    incomplete: BTreeMap<Key, String>,
    /// PodGroups without all their claims, with the reason in the last event.
    incomplete_groups: BTreeMap<Key, String>,
    /// Pods that wait for their PodGroup or its claims, by the PodGroup.
    waiting: BTreeMap<Key, BTreeSet<Key>>,
}

/// The owner of claims from templates.
struct Owner<'a> {
    object: &'a Value,
    /// The annotation of its claims.
    annotation: &'static str,
    /// Makes a claim.
    make: fn(&Value, &str, &Value) -> Value,
}

impl ResourceClaimController {
    pub(super) fn new() -> Self {
        Self {
            pods: Informer::new(PODS),
            claims: Informer::new(RESOURCECLAIMS),
            templates: Informer::new(RESOURCECLAIMTEMPLATES),
            groups: Informer::new(PODGROUPS),
            pods_due: WorkQueue::default(),
            claims_due: WorkQueue::default(),
            groups_due: WorkQueue::default(),
            by_user: BTreeMap::new(),
            users_of: BTreeMap::new(),
            incomplete: BTreeMap::new(),
            incomplete_groups: BTreeMap::new(),
            waiting: BTreeMap::new(),
        }
    }

    pub(super) fn step(&mut self, store: &mut Store, now: Time) {
        self.follow_claims(store);
        self.follow_pods(store);
        self.follow_groups(store);
        if !self.templates.events(store).is_empty() {
            self.incomplete.keys().for_each(|pod| self.pods_due.add(pod.clone()));
            self.incomplete_groups.keys().for_each(|group| self.groups_due.add(group.clone()));
        }
        while let Some(group) = self.groups_due.pop(now) {
            self.sync_group(store, group, now);
        }
        // The status of the groups may name new claims.
        self.follow_groups(store);
        while let Some(pod) = self.pods_due.pop(now) {
            self.sync_pod(store, pod, now);
        }
        while let Some(claim) = self.claims_due.pop(now) {
            sync_claim(store, &claim, now);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.pods_due.next_deadline().into_iter().chain(self.groups_due.next_deadline()).min()
    }

    fn follow_claims(&mut self, store: &Store) {
        for event in self.claims.events(store) {
            let (ObjectEvent::Present(claim) | ObjectEvent::Removed(claim)) = &event;
            let key = key(claim);
            for user in self.users_of.remove(&key).unwrap_or_default() {
                if let Some(claims) = self.by_user.get_mut(&user) {
                    claims.remove(&key);
                    if claims.is_empty() {
                        self.by_user.remove(&user);
                    }
                }
            }
            if let ObjectEvent::Present(claim) = event {
                let reserved = entries(&claim, RESERVED_FOR).map(|user| text(user, "/uid"));
                let owner = controller_of(&claim).map(|owner| text(owner, "/uid"));
                let users: BTreeSet<String> =
                    reserved.chain(owner).map(ToOwned::to_owned).collect();
                for user in &users {
                    self.by_user.entry(user.clone()).or_default().insert(key.clone());
                }
                self.users_of.insert(key.clone(), users);
                self.claims_due.add(key);
            }
        }
    }

    fn follow_pods(&mut self, store: &Store) {
        for event in self.pods.events(store) {
            match event {
                ObjectEvent::Present(pod) if !is_done(&pod) => {
                    if entries(&pod, "/spec/resourceClaims").next().is_some() {
                        self.pods_due.add(key(&pod));
                    }
                }
                ObjectEvent::Present(pod) | ObjectEvent::Removed(pod) => {
                    self.incomplete.remove(&key(&pod));
                    let claims = self.by_user.get(uid(&pod)).into_iter().flatten();
                    claims.for_each(|claim| self.claims_due.add(claim.clone()));
                }
            }
        }
    }

    fn follow_groups(&mut self, store: &Store) {
        for event in self.groups.events(store) {
            match event {
                ObjectEvent::Present(group) => {
                    if entries(&group, "/spec/resourceClaims").next().is_some() {
                        self.groups_due.add(key(&group));
                    }
                    let waiting = self.waiting.remove(&key(&group)).unwrap_or_default();
                    waiting.into_iter().for_each(|pod| self.pods_due.add(pod));
                }
                ObjectEvent::Removed(group) => {
                    self.incomplete_groups.remove(&key(&group));
                    let claims = self.by_user.get(uid(&group)).into_iter().flatten();
                    claims.for_each(|claim| self.claims_due.add(claim.clone()));
                }
            }
        }
    }

    /// Creates the missing claims of a PodGroup, and names them in its status.
    fn sync_group(&mut self, store: &mut Store, group_key: Key, now: Time) {
        let reported = self.incomplete_groups.remove(&group_key);
        let Some(group) = store.get(PODGROUPS, &group_key.0, &group_key.1).cloned() else { return };
        if is_terminating(&group) {
            return;
        }
        let mut statuses: Vec<Value> = entries(&group, STATUSES).cloned().collect();
        let known = statuses.len();
        for claim in entries(&group, "/spec/resourceClaims") {
            let owner =
                Owner { object: &group, annotation: GROUP_CLAIM_NAME, make: claim_for_group };
            let claim_name = text(claim, "/name");
            match self.generated_claim(store, &owner, claim, now) {
                Ok(None) => {}
                Ok(Some(made)) => {
                    statuses.push(json!({"name": claim_name, "resourceClaimName": made}));
                }
                Err(why) => {
                    let message = format!("PodGroupResourceClaim {claim_name}: {why}");
                    if reported.as_ref() != Some(&message) {
                        let kind = EventKind::warning("FailedResourceClaimCreation");
                        event::record(store, SOURCE, &group, kind, &message, now);
                    }
                    self.groups_due.add_after(group_key.clone(), now + RETRY);
                    self.incomplete_groups.insert(group_key, message);
                    return;
                }
            }
        }
        if statuses.len() > known {
            let write = |group: &mut Value| {
                put(group, &["status", "resourceClaimStatuses"], statuses.into());
                Ok(())
            };
            // The write fails if the PodGroup was deleted.
            store.modify(PODGROUPS, &group_key.0, &group_key.1, now, write).ok();
        }
    }

    /// Returns the name of the claim for an entry of a pod: that of its PodGroup, or one of its
    /// own. `None` if the status of the pod has it, or if the PodGroup lacks it yet.
    fn claim_of_pod(
        &mut self,
        store: &mut Store,
        pod: &Value,
        entry: &Value,
        now: Time,
    ) -> Result<Option<String>, String> {
        let (entry_name, group_name) = (text(entry, "/name"), group_name(pod));
        let is_needed = !text(entry, "/resourceClaimTemplateName").is_empty()
            && !entries(pod, STATUSES).any(|status| text(status, "/name") == entry_name);
        if is_needed && !group_name.is_empty() {
            let group = store.get(PODGROUPS, namespace(pod), group_name);
            if group.is_none_or(|group| is_shared(entry, group)) {
                let made = group.map_or("", |group| generated_name(group, entry_name));
                if !made.is_empty() {
                    return Ok(Some(made.to_owned()));
                }
                let group = (namespace(pod).to_owned(), group_name.to_owned());
                self.waiting.entry(group).or_default().insert(key(pod));
                return Ok(None);
            }
        }
        let owner = Owner { object: pod, annotation: POD_CLAIM_NAME, make: claim_for };
        self.generated_claim(store, &owner, entry, now)
    }

    /// Creates the missing claims of a pod, and reserves allocated ones for a pod that got its node
    /// without a scheduler.
    fn sync_pod(&mut self, store: &mut Store, pod_key: Key, now: Time) {
        let reported = self.incomplete.remove(&pod_key);
        let Some(pod) = store.get(PODS, &pod_key.0, &pod_key.1).cloned() else { return };
        if is_terminating(&pod) || is_done(&pod) {
            return;
        }
        let mut statuses: Vec<Value> = entries(&pod, STATUSES).cloned().collect();
        let known = statuses.len();
        for pod_claim in entries(&pod, "/spec/resourceClaims") {
            let pod_claim_name = text(pod_claim, "/name");
            match self.claim_of_pod(store, &pod, pod_claim, now) {
                Ok(None) => {}
                Ok(Some(claim)) => {
                    statuses.push(json!({"name": pod_claim_name, "resourceClaimName": claim}));
                }
                Err(why) => {
                    let message = format!("PodResourceClaim {pod_claim_name}: {why}");
                    if reported.as_ref() != Some(&message) {
                        let kind = EventKind::warning("FailedResourceClaimCreation");
                        event::record(store, SOURCE, &pod, kind, &message, now);
                    }
                    self.pods_due.add_after(pod_key.clone(), now + RETRY);
                    self.incomplete.insert(pod_key, message);
                    return;
                }
            }
        }
        if statuses.len() > known {
            let write = |pod: &mut Value| {
                put(pod, &["status", "resourceClaimStatuses"], statuses.into());
                Ok(())
            };
            // The write fails if the pod was deleted.
            store.modify(PODS, &pod_key.0, &pod_key.1, now, write).ok();
        }
        if !text(&pod, "/spec/nodeName").is_empty() {
            reserve(store, &pod, now);
        }
    }

    /// Returns the name of a claim that the status of its owner lacks. The claim is created, unless
    /// the controller created it before.
    fn generated_claim(
        &self,
        store: &mut Store,
        owner: &Owner<'_>,
        entry: &Value,
        now: Time,
    ) -> Result<Option<String>, String> {
        let object = owner.object;
        let (entry_name, template) =
            (text(entry, "/name"), text(entry, "/resourceClaimTemplateName"));
        let mut statuses = entries(object, STATUSES);
        if template.is_empty() || statuses.any(|status| text(status, "/name") == entry_name) {
            return Ok(None);
        }
        let own = self.by_user.get(uid(object)).into_iter().flatten();
        let mut own =
            own.filter_map(|(namespace, name)| store.get(RESOURCECLAIMS, namespace, name));
        let is_it = |claim: &&Arc<Value>| {
            is_owned_by(claim, object)
                && claim["metadata"]["annotations"][owner.annotation] == entry_name
        };
        if let Some(claim) = own.find(is_it) {
            return Ok(Some(name(claim).to_owned()));
        }
        let stored = store.get(RESOURCECLAIMTEMPLATES, namespace(object), template);
        let stored = stored.ok_or_else(|| {
            format!(
                "resource claim template \"{template}\": {} \"{template}\" not found",
                RESOURCECLAIMTEMPLATES.qualified()
            )
        })?;
        let claim = (owner.make)(object, entry_name, stored);
        let created = store.create(RESOURCECLAIMS, claim, now);
        created.map(|claim| Some(name(&claim).to_owned())).map_err(|status| status.message)
    }
}

/// Reserves the allocated claims of a pod that has a node, for the pod or its PodGroup.
fn reserve(store: &mut Store, pod: &Value, now: Time) {
    let group = store.get(PODGROUPS, namespace(pod), group_name(pod)).cloned();
    for entry in entries(pod, "/spec/resourceClaims") {
        let direct = text(entry, "/resourceClaimName");
        let claim_name = match direct {
            "" => generated_name(pod, text(entry, "/name")),
            direct => direct,
        };
        let Some(claim) = store.get(RESOURCECLAIMS, namespace(pod), claim_name) else { continue };
        let shared_by = group.as_ref().filter(|group| is_shared(entry, group));
        let (owner, user) = match shared_by {
            Some(group) => (
                &**group,
                json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups",
                    "name": name(group), "uid": uid(group)}),
            ),
            None => (pod, json!({"resource": "pods", "name": name(pod), "uid": uid(pod)})),
        };
        let is_allowed = !direct.is_empty() || is_owned_by(claim, owner);
        let is_allocated = claim["status"]["allocation"].is_object();
        let mut users: Vec<Value> = entries(claim, RESERVED_FOR).cloned().collect();
        // A scheduler without the gate reserves it for the pod.
        let is_reserved =
            users.iter().any(|own| own["uid"] == user["uid"] || text(own, "/uid") == uid(pod));
        if is_allowed && is_allocated && !is_reserved && !is_terminating(claim) {
            users.push(user);
            let write = |claim: &mut Value| {
                put(claim, &["status", "reservedFor"], users.into());
                Ok(())
            };
            // The write fails if the claim was deleted.
            store.modify(RESOURCECLAIMS, namespace(pod), claim_name, now, write).ok();
        }
    }
}

/// Returns the name of the claim for an entry in the status of a pod or PodGroup; empty if it has
/// none.
fn generated_name<'a>(owner: &'a Value, entry: &str) -> &'a str {
    let mut statuses = entries(owner, STATUSES);
    let status = statuses.find(|status| text(status, "/name") == entry);
    status.map_or("", |status| text(status, "/resourceClaimName"))
}

/// Returns the name of the PodGroup of a pod; empty if it has none.
fn group_name(pod: &Value) -> &str {
    text(pod, "/spec/schedulingGroup/podGroupName")
}

/// Whether an entry of a pod is equal to one of its PodGroup, so that they have one claim.
fn is_shared(entry: &Value, group: &Value) -> bool {
    let fields = ["/name", "/resourceClaimName", "/resourceClaimTemplateName"];
    entries(group, "/spec/resourceClaims")
        .any(|own| fields.iter().all(|field| text(own, field) == text(entry, field)))
}

/// Removes reservations of pods that are gone or done. A claim that loses its last one is
/// deallocated, so that its devices are free for others and its next user may run elsewhere. A
/// claim that belongs to a pod that is done is deleted.
fn sync_claim(store: &mut Store, key: &Key, now: Time) {
    let (namespace, claim_name) = key;
    let Some(claim) = store.get(RESOURCECLAIMS, namespace, claim_name).cloned() else { return };
    let users: Vec<Value> = entries(&claim, RESERVED_FOR).cloned().collect();
    let valid: Vec<Value> =
        users.iter().filter(|user| is_in_use(store, namespace, user)).cloned().collect();
    let is_unused = valid.is_empty();
    let has_finalizer = entries(&claim, "/metadata/finalizers").any(|own| own == FINALIZER);
    let is_released = valid.len() < users.len();
    if is_released || (is_unused && has_finalizer && is_terminating(&claim)) {
        let is_deallocated = is_unused && has_finalizer;
        let release = |claim: &mut Value| {
            match valid.is_empty() {
                true => remove(claim, &["status"], "reservedFor"),
                false => put(claim, &["status", "reservedFor"], valid.into()),
            }
            if is_deallocated {
                remove(claim, &["status"], "allocation");
                remove(claim, &["status"], "devices");
            }
            Ok(())
        };
        // These writes and the deletion below fail if the claim was deleted.
        store.modify(RESOURCECLAIMS, namespace, claim_name, now, release).ok();
        if is_deallocated {
            let unprotect = |claim: &mut Value| {
                if let Some(Value::Array(own)) = metadata_mut(claim).get_mut("finalizers") {
                    own.retain(|own| own != FINALIZER);
                }
                Ok(())
            };
            store.modify(RESOURCECLAIMS, namespace, claim_name, now, unprotect).ok();
        }
    }
    let owner = owning_pod(&claim);
    let pod = owner.and_then(|owner| store.get(PODS, namespace, text(owner, "/name")));
    let is_needless =
        owner.zip(pod).is_some_and(|(owner, pod)| uid(pod) != text(owner, "/uid") || is_done(pod));
    if is_unused && is_needless && !is_terminating(&claim) {
        store.delete(RESOURCECLAIMS, namespace, claim_name, &DeleteOptions::default(), now).ok();
    }
}

/// Returns whether a reservation belongs to a pod that runs or may run, or to a PodGroup that
/// exists. Reservations of anything else stay.
fn is_in_use(store: &Store, namespace: &str, user: &Value) -> bool {
    let of = |resource| {
        let object = store.get(resource, namespace, text(user, "/name"));
        object.filter(|object| uid(object) == text(user, "/uid"))
    };
    match (text(user, "/apiGroup"), text(user, "/resource")) {
        ("", "pods") => of(PODS).is_some_and(|pod| !is_done(pod)),
        ("scheduling.k8s.io", "podgroups") => of(PODGROUPS).is_some(),
        _ => true,
    }
}

/// Returns whether no container of the pod runs or will run.
fn is_done(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
        || (is_terminating(pod) && text(pod, "/spec/nodeName").is_empty())
}

/// Returns the reference to the pod that a claim was created for.
fn owning_pod(claim: &Value) -> Option<&Value> {
    controller_of(claim).filter(|owner| owner["apiVersion"] == "v1" && owner["kind"] == "Pod")
}

fn is_owned_by(claim: &Value, owner: &Value) -> bool {
    controller_of(claim).is_some_and(|own| text(own, "/uid") == uid(owner))
}
