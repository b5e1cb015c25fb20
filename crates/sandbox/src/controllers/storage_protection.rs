//! The storage protection controllers: a deleted claim stays while a pod on a node uses it, a
//! deleted volume while it is bound.

use std::collections::{BTreeMap, BTreeSet};

use framework::Time;
use serde_json::Value;

use super::work_queue::{Key, WorkQueue, key};
use crate::informer::{Informer, ObjectEvent};
use crate::metadata::{name, namespace, uid};
use crate::object::{entries, is_terminating, text};
use crate::resources::{PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, PODS, Resource};
use crate::storage_protection;
use crate::store::Store;

#[derive(Debug)]
pub(super) struct StorageProtectionController {
    pods: Informer,
    claims: Informer,
    volumes: Informer,
    claims_due: WorkQueue,
    /// UIDs of the pods on nodes that use a claim.
    users: BTreeMap<Key, BTreeSet<String>>,
}

impl StorageProtectionController {
    pub(super) fn new() -> Self {
        Self {
            pods: Informer::new(PODS),
            claims: Informer::new(PERSISTENTVOLUMECLAIMS),
            volumes: Informer::new(PERSISTENTVOLUMES),
            claims_due: WorkQueue::default(),
            users: BTreeMap::new(),
        }
    }

    pub(super) fn step(&mut self, store: &mut Store, now: Time) {
        self.follow_pods(store);
        for event in self.claims.events(store) {
            if let ObjectEvent::Present(claim) = event {
                self.claims_due.add(key(&claim));
            }
        }
        while let Some(claim) = self.claims_due.pop(now) {
            if !self.users.contains_key(&claim) {
                release(store, PERSISTENTVOLUMECLAIMS, &claim, now);
            }
        }
        for event in self.volumes.events(store) {
            if let ObjectEvent::Present(volume) = event
                && text(&volume, "/status/phase") != "Bound"
            {
                release(store, PERSISTENTVOLUMES, &key(&volume), now);
            }
        }
    }

    fn follow_pods(&mut self, store: &Store) {
        for event in self.pods.events(store) {
            match event {
                ObjectEvent::Present(pod) if text(&pod, "/spec/nodeName").is_empty() => {}
                ObjectEvent::Present(pod) => {
                    for claim in claims_of(&pod) {
                        self.users.entry(claim).or_default().insert(uid(&pod).to_owned());
                    }
                }
                ObjectEvent::Removed(pod) => {
                    claims_of(&pod).for_each(|claim| self.leave(claim, uid(&pod)))
                }
            }
        }
    }

    fn leave(&mut self, claim: Key, pod: &str) {
        if let Some(users) = self.users.get_mut(&claim) {
            users.remove(pod);
            if users.is_empty() {
                self.users.remove(&claim);
                self.claims_due.add(claim);
            }
        }
    }
}

/// Returns the claims that a pod names, and the claims of its ephemeral volumes.
fn claims_of(pod: &Value) -> impl Iterator<Item = Key> {
    entries(pod, "/spec/volumes").filter_map(|volume| {
        let claim = match text(volume, "/persistentVolumeClaim/claimName") {
            "" => {
                volume.get("ephemeral")?;
                format!("{}-{}", name(pod), text(volume, "/name"))
            }
            claim => claim.to_owned(),
        };
        Some((namespace(pod).to_owned(), claim))
    })
}

/// Removes the finalizer of a terminating object.
fn release(store: &mut Store, resource: &'static Resource, key: &Key, now: Time) {
    let (namespace, name) = key;
    let Some(object) = store.get(resource, namespace, name) else { return };
    if is_terminating(object) {
        let release = |object: &mut Value| {
            storage_protection::release(resource, object);
            Ok(())
        };
        // The write fails if the object was deleted.
        store.modify(resource, namespace, name, now, release).ok();
    }
}
