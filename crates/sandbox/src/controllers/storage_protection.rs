//! The controllers that protect storage: a claim that is deleted stays while a pod on a node uses
//! it, a volume while it is bound.

use std::collections::{BTreeMap, BTreeSet};

use framework::Time;
use serde_json::Value;

use super::work_queue::{Key, WorkQueue, key};
use crate::informer::{Informer, News};
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
        for news in self.claims.news(store) {
            if let News::Present(claim) = news {
                self.claims_due.add(key(&claim));
            }
        }
        while let Some(claim) = self.claims_due.pop(now) {
            if !self.users.contains_key(&claim) {
                release(store, PERSISTENTVOLUMECLAIMS, &claim, now);
            }
        }
        for news in self.volumes.news(store) {
            if let News::Present(volume) = news
                && text(&volume, "/status/phase") != "Bound"
            {
                release(store, PERSISTENTVOLUMES, &key(&volume), now);
            }
        }
    }

    fn follow_pods(&mut self, store: &Store) {
        for news in self.pods.news(store) {
            match news {
                News::Present(pod) if text(&pod, "/spec/nodeName").is_empty() => {}
                News::Present(pod) => {
                    for claim in claims_of(&pod) {
                        self.users.entry(claim).or_default().insert(uid(&pod).to_owned());
                    }
                }
                News::Gone(pod) => claims_of(&pod).for_each(|claim| self.leave(claim, uid(&pod))),
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

/// The claims that a pod names, and those that are made for it.
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

/// Lets an object go that is being deleted.
fn release(store: &mut Store, resource: &'static Resource, (namespace, name): &Key, now: Time) {
    let Some(object) = store.get(resource, namespace, name) else { return };
    if is_terminating(object) {
        let release = |object: &mut Value| {
            storage_protection::release(resource, object);
            Ok(())
        };
        // One that is gone needs no release.
        store.modify(resource, namespace, name, now, release).ok();
    }
}
