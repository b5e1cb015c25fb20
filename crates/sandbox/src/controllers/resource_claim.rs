//! The ResourceClaim controller: creates the claims of pods from templates, removes reservations of
//! pods that do not run any more, deallocates claims without reservations, and deletes the claims
//! of ended pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::Time;
use framework::device::FINALIZER;
use framework::device::template::{POD_CLAIM_NAME, claim_for};
use serde_json::{Value, json};

use super::RETRY;
use super::event::{self, EventKind};
use super::work_queue::{Key, WorkQueue, key};
use crate::informer::{Informer, ObjectEvent};
use crate::metadata::{metadata_mut, name, namespace, uid};
use crate::object::{controller_of, entries, is_terminating, put, remove, text};
use crate::resources::{PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES};
use crate::store::{DeleteOptions, Store};

/// The component that its events name.
const SOURCE: &str = "resource_claim";
const RESERVED_FOR: &str = "/status/reservedFor";

#[derive(Debug)]
pub(super) struct ResourceClaimController {
    pods: Informer,
    claims: Informer,
    templates: Informer,
    pods_due: WorkQueue,
    claims_due: WorkQueue,
    /// Claims by the UID of a pod that owns or reserves them.
    by_pod: BTreeMap<String, BTreeSet<Key>>,
    /// The pods of a claim, by the key of the claim.
    pods_of: BTreeMap<Key, BTreeSet<String>>,
    /// Pods without all their claims, with the reason in the last event.
    incomplete: BTreeMap<Key, String>,
}

impl ResourceClaimController {
    pub(super) fn new() -> Self {
        Self {
            pods: Informer::new(PODS),
            claims: Informer::new(RESOURCECLAIMS),
            templates: Informer::new(RESOURCECLAIMTEMPLATES),
            pods_due: WorkQueue::default(),
            claims_due: WorkQueue::default(),
            by_pod: BTreeMap::new(),
            pods_of: BTreeMap::new(),
            incomplete: BTreeMap::new(),
        }
    }

    pub(super) fn step(&mut self, store: &mut Store, now: Time) {
        self.follow_claims(store);
        self.follow_pods(store);
        if !self.templates.events(store).is_empty() {
            self.incomplete.keys().for_each(|pod| self.pods_due.add(pod.clone()));
        }
        while let Some(pod) = self.pods_due.pop(now) {
            self.sync_pod(store, pod, now);
        }
        while let Some(claim) = self.claims_due.pop(now) {
            sync_claim(store, &claim, now);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.pods_due.next_deadline()
    }

    fn follow_claims(&mut self, store: &Store) {
        for event in self.claims.events(store) {
            let (ObjectEvent::Present(claim) | ObjectEvent::Removed(claim)) = &event;
            let key = key(claim);
            for pod in self.pods_of.remove(&key).unwrap_or_default() {
                if let Some(claims) = self.by_pod.get_mut(&pod) {
                    claims.remove(&key);
                    if claims.is_empty() {
                        self.by_pod.remove(&pod);
                    }
                }
            }
            if let ObjectEvent::Present(claim) = event {
                let reserved = entries(&claim, RESERVED_FOR).map(|user| text(user, "/uid"));
                let owner = owning_pod(&claim).map(|owner| text(owner, "/uid"));
                let pods: BTreeSet<String> = reserved.chain(owner).map(ToOwned::to_owned).collect();
                for pod in &pods {
                    self.by_pod.entry(pod.clone()).or_default().insert(key.clone());
                }
                self.pods_of.insert(key.clone(), pods);
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
                    let claims = self.by_pod.get(uid(&pod)).into_iter().flatten();
                    claims.for_each(|claim| self.claims_due.add(claim.clone()));
                }
            }
        }
    }

    /// Creates the missing claims of a pod, and reserves allocated ones for a pod that got its node
    /// without a scheduler.
    fn sync_pod(&mut self, store: &mut Store, pod_key: Key, now: Time) {
        let reported = self.incomplete.remove(&pod_key);
        let Some(pod) = store.get(PODS, &pod_key.0, &pod_key.1).cloned() else { return };
        if is_terminating(&pod) || is_done(&pod) {
            return;
        }
        let mut statuses: Vec<Value> =
            entries(&pod, "/status/resourceClaimStatuses").cloned().collect();
        let known = statuses.len();
        for pod_claim in entries(&pod, "/spec/resourceClaims") {
            let pod_claim_name = text(pod_claim, "/name");
            match self.generated_claim(store, &pod, pod_claim, now) {
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

    /// Returns the name of a claim that the status of the pod lacks. The claim is created, unless
    /// the controller created it before.
    fn generated_claim(
        &self,
        store: &mut Store,
        pod: &Value,
        pod_claim: &Value,
        now: Time,
    ) -> Result<Option<String>, String> {
        let (pod_claim_name, template) =
            (text(pod_claim, "/name"), text(pod_claim, "/resourceClaimTemplateName"));
        let mut statuses = entries(pod, "/status/resourceClaimStatuses");
        if template.is_empty() || statuses.any(|status| text(status, "/name") == pod_claim_name) {
            return Ok(None);
        }
        let own = self.by_pod.get(uid(pod)).into_iter().flatten();
        let mut own =
            own.filter_map(|(namespace, name)| store.get(RESOURCECLAIMS, namespace, name));
        let is_it = |claim: &&Arc<Value>| {
            is_owned_by(claim, pod)
                && claim["metadata"]["annotations"][POD_CLAIM_NAME] == pod_claim_name
        };
        if let Some(claim) = own.find(is_it) {
            return Ok(Some(name(claim).to_owned()));
        }
        let object = store.get(RESOURCECLAIMTEMPLATES, namespace(pod), template);
        let object = object.ok_or_else(|| {
            format!(
                "resource claim template \"{template}\": {} \"{template}\" not found",
                RESOURCECLAIMTEMPLATES.qualified()
            )
        })?;
        let claim = claim_for(pod, pod_claim_name, object);
        let created = store.create(RESOURCECLAIMS, claim, now);
        created.map(|claim| Some(name(&claim).to_owned())).map_err(|status| status.message)
    }
}

/// Reserves the allocated claims of a pod that has a node.
fn reserve(store: &mut Store, pod: &Value, now: Time) {
    for pod_claim in entries(pod, "/spec/resourceClaims") {
        let direct = text(pod_claim, "/resourceClaimName");
        let claim_name = match direct {
            "" => generated_name(pod, text(pod_claim, "/name")),
            direct => direct,
        };
        let Some(claim) = store.get(RESOURCECLAIMS, namespace(pod), claim_name) else { continue };
        let is_allowed = !direct.is_empty() || is_owned_by(claim, pod);
        let is_allocated = claim["status"]["allocation"].is_object();
        let mut users: Vec<Value> = entries(claim, RESERVED_FOR).cloned().collect();
        let is_reserved = users.iter().any(|user| text(user, "/uid") == uid(pod));
        if is_allowed && is_allocated && !is_reserved && !is_terminating(claim) {
            users.push(json!({"resource": "pods", "name": name(pod), "uid": uid(pod)}));
            let write = |claim: &mut Value| {
                put(claim, &["status", "reservedFor"], users.into());
                Ok(())
            };
            // The write fails if the claim was deleted.
            store.modify(RESOURCECLAIMS, namespace(pod), claim_name, now, write).ok();
        }
    }
}

fn generated_name<'a>(pod: &'a Value, pod_claim: &str) -> &'a str {
    let mut statuses = entries(pod, "/status/resourceClaimStatuses");
    let status = statuses.find(|status| text(status, "/name") == pod_claim);
    status.map_or("", |status| text(status, "/resourceClaimName"))
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

/// Returns whether a reservation belongs to a pod that runs or may run. Reservations of anything
/// else than pods stay.
fn is_in_use(store: &Store, namespace: &str, user: &Value) -> bool {
    if !text(user, "/apiGroup").is_empty() || text(user, "/resource") != "pods" {
        return true;
    }
    let pod = store.get(PODS, namespace, text(user, "/name"));
    pod.is_some_and(|pod| uid(pod) == text(user, "/uid") && !is_done(pod))
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

fn is_owned_by(claim: &Value, pod: &Value) -> bool {
    owning_pod(claim).is_some_and(|owner| text(owner, "/uid") == uid(pod))
}
