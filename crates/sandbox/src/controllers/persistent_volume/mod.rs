//! The PersistentVolume controller: binds claims to reserved or matching volumes, and requests
//! provisioning. Left out on purpose: resizing.

mod index;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::Time;
use framework::storage::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, PersistentVolume, PersistentVolumeClaim, StorageClass,
    default_class,
};
use serde_json::{Value, json};

use self::index::VolumeIndex;
use super::provisioner::goes_with_claim;
use super::work_queue::{Key, WorkQueue, key};
use crate::informer::{Informer, ObjectEvent};
use crate::metadata::{name, namespace, uid};
use crate::object::{put, read, remove, text};
use crate::resources::{PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, STORAGECLASSES};
use crate::store::Store;

/// Annotation of a claim with the name of the provisioner.
pub(super) const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

#[derive(Debug)]
pub(super) struct PersistentVolumeController {
    claims: Informer,
    volumes: Informer,
    classes: Informer,
    claims_due: WorkQueue,
    volumes_due: WorkQueue,
    index: VolumeIndex,
    /// Claims that a free volume may satisfy, by class.
    unsatisfied: BTreeMap<Arc<str>, BTreeSet<Key>>,
}

impl PersistentVolumeController {
    pub(super) fn new() -> Self {
        Self {
            claims: Informer::new(PERSISTENTVOLUMECLAIMS),
            volumes: Informer::new(PERSISTENTVOLUMES),
            classes: Informer::new(STORAGECLASSES),
            claims_due: WorkQueue::default(),
            volumes_due: WorkQueue::default(),
            index: VolumeIndex::default(),
            unsatisfied: BTreeMap::new(),
        }
    }

    pub(super) fn step(&mut self, store: &mut Store, now: Time) {
        self.follow_volumes(store);
        self.follow_claims(store);
        self.follow_classes(store);
        while let Some((_, volume)) = self.volumes_due.pop(now) {
            self.sync_volume(store, &volume, now);
        }
        while let Some(key) = self.claims_due.pop(now) {
            self.sync_claim(store, &key, now);
        }
    }

    fn follow_volumes(&mut self, store: &Store) {
        for event in self.volumes.events(store) {
            let (ObjectEvent::Present(object) | ObjectEvent::Removed(object)) = &event;
            let Some(volume) = volume_of(object) else { continue };
            self.volumes_due.add(key(object));
            match &volume.claim_ref {
                Some(own) => self.claims_due.add((own.namespace.to_string(), own.name.to_string())),
                None => {
                    let waiting = self.unsatisfied.remove(&volume.class).unwrap_or_default();
                    waiting.into_iter().for_each(|claim| self.claims_due.add(claim));
                }
            }
            match event {
                ObjectEvent::Present(_) => self.index.insert(volume),
                ObjectEvent::Removed(_) => self.index.remove(&volume.name),
            }
        }
    }

    fn follow_claims(&mut self, store: &Store) {
        for event in self.claims.events(store) {
            let (ObjectEvent::Present(claim) | ObjectEvent::Removed(claim)) = &event;
            let own = key(claim);
            let reserved = self.index.reserved_for(&own).map(str::to_owned);
            let named = text(claim, "/spec/volumeName").to_owned();
            for volume in reserved.chain([named]) {
                self.volumes_due.add((String::new(), volume));
            }
            self.claims_due.add(own);
        }
    }

    fn follow_classes(&mut self, store: &Store) {
        if !self.classes.events(store).is_empty() {
            store.objects(PERSISTENTVOLUMECLAIMS).for_each(|claim| self.claims_due.add(key(claim)));
        }
    }

    fn sync_claim(&mut self, store: &mut Store, key: &Key, now: Time) {
        let Some(object) = store.get(PERSISTENTVOLUMECLAIMS, &key.0, &key.1).cloned() else {
            return;
        };
        let claim = read(&object).map(|claim| PersistentVolumeClaim::from_api(&claim));
        let Some(claim) = claim.filter(|claim| !claim.terminating) else { return };
        match &claim.volume_name {
            Some(volume) => self.sync_claim_of(store, &claim, volume, &object, now),
            None if claim.bind_completed => lose(store, &claim, now),
            None => self.sync_unbound_claim(store, &claim, &object, now),
        }
    }

    /// Syncs a claim that names its volume: binds it unless another claim has the volume, and marks
    /// it as lost if it was bound and the volume is gone.
    fn sync_claim_of(
        &mut self,
        store: &mut Store,
        claim: &PersistentVolumeClaim,
        volume: &str,
        object: &Value,
        now: Time,
    ) {
        let is_free = |volume: &PersistentVolume| {
            let will_do = || volume.class == claim.class && volume.suits(claim);
            volume.claim_ref.is_none() && (claim.bind_completed || will_do())
        };
        let found = self.index.get(volume);
        if found.is_some_and(|found| found.is_for(claim) || is_free(found)) {
            return self.bind(store, volume, object, now);
        }
        if claim.bind_completed {
            lose(store, claim, now);
        }
    }

    /// Syncs an unbound claim. It gets the volume reserved for it; else, unless it waits for a pod,
    /// the smallest match; else the default class, if it names none; else a new volume, if its
    /// class has a provisioner.
    fn sync_unbound_claim(
        &mut self,
        store: &mut Store,
        claim: &PersistentVolumeClaim,
        object: &Value,
        now: Time,
    ) {
        let class = store.get(STORAGECLASSES, "", &claim.class);
        let class = class.and_then(|class| read(class)).map(|class| StorageClass::from_api(&class));
        let waits = class.as_ref().is_some_and(StorageClass::waits_for_first_consumer);
        let reserved = self.index.for_claim(claim);
        let found = reserved.or_else(|| self.index.smallest(claim).filter(|_| !waits));
        if let Some(volume) = found.map(|volume| volume.name.clone()) {
            return self.bind(store, &volume, object, now);
        }
        let classes = store.objects(STORAGECLASSES).map(|class| &**class);
        if let Some(default) = default_class::class_for(classes, object).map(str::to_owned) {
            let path = ["spec", "storageClassName"];
            return update_claim(store, claim, now, |claim| put(claim, &path, json!(default)));
        }
        if !waits {
            self.unsatisfied.entry(claim.class.clone()).or_default().insert(key(object));
        }
        let is_due = !waits || claim.selected_node.is_some();
        if let Some(class) = class.filter(|class| is_due && class.provisions()) {
            let path = ["metadata", "annotations", STORAGE_PROVISIONER];
            update_claim(store, claim, now, |claim| put(claim, &path, json!(&*class.provisioner)));
        }
    }

    /// Binds volume and claim to each other, as far as they are not yet.
    fn bind(&mut self, store: &mut Store, volume: &str, claim: &Value, now: Time) {
        let taken = self.write_volume(store, volume, now, |volume| {
            if volume["spec"]["claimRef"].is_null() {
                put(volume, &["metadata", "annotations", BOUND_BY_CONTROLLER], json!("yes"));
            }
            if text(volume, "/spec/claimRef/uid") != uid(claim) {
                put(volume, &["spec", "claimRef"], reference(claim));
            }
            put(volume, &["status", "phase"], json!("Bound"));
        });
        let Some(taken) = taken else { return };
        let complete = |claim: &mut Value| {
            if text(claim, "/spec/volumeName").is_empty() {
                put(claim, &["spec", "volumeName"], json!(volume));
                put(claim, &["metadata", "annotations", BOUND_BY_CONTROLLER], json!("yes"));
            }
            put(claim, &["metadata", "annotations", BIND_COMPLETED], json!("yes"));
            put(claim, &["status", "phase"], json!("Bound"));
            for field in ["accessModes", "capacity"] {
                put(claim, &["status", field], taken["spec"][field].clone());
            }
            Ok(())
        };
        // The write fails if the claim was deleted, which frees its volume.
        store.modify(PERSISTENTVOLUMECLAIMS, namespace(claim), name(claim), now, complete).ok();
    }

    /// Writes the phase of a volume. A reserved volume whose claim has another volume is free
    /// again.
    fn sync_volume(&mut self, store: &mut Store, volume: &str, now: Time) {
        let Some(object) = store.get(PERSISTENTVOLUMES, "", volume) else { return };
        let reference = &object["spec"]["claimRef"];
        let (namespace, name) = (text(reference, "/namespace"), text(reference, "/name"));
        let claim = store.get(PERSISTENTVOLUMECLAIMS, namespace, name);
        let claim = claim.filter(|claim| uid(claim) == text(reference, "/uid"));
        let phase = match claim.map(|claim| text(claim, "/spec/volumeName")) {
            _ if text(reference, "/uid").is_empty() => "Available",
            None => "Released",
            Some("") => return,
            Some(own) if own == volume => "Bound",
            Some(_) if goes_with_claim(object) => "Released",
            Some(_) => "Available",
        };
        self.write_volume(store, volume, now, |volume| {
            if phase == "Available" {
                release(volume);
            }
            put(volume, &["status", "phase"], json!(phase));
        });
    }

    /// Changes a volume in the store and in the index; returns `None` if it was deleted.
    fn write_volume(
        &mut self,
        store: &mut Store,
        volume: &str,
        now: Time,
        change: impl FnOnce(&mut Value),
    ) -> Option<Arc<Value>> {
        let change = |volume: &mut Value| {
            change(volume);
            Ok(())
        };
        let written = store.modify(PERSISTENTVOLUMES, "", volume, now, change).ok()?;
        self.index.insert(volume_of(&written)?);
        Some(written)
    }
}

/// Marks a claim as lost: its volume was deleted.
fn lose(store: &mut Store, claim: &PersistentVolumeClaim, now: Time) {
    update_claim(store, claim, now, |claim| put(claim, &["status", "phase"], json!("Lost")));
}

/// Changes a claim, unless it was deleted.
fn update_claim(
    store: &mut Store,
    claim: &PersistentVolumeClaim,
    now: Time,
    change: impl FnOnce(&mut Value),
) {
    let change = |claim: &mut Value| {
        change(claim);
        Ok(())
    };
    store.modify(PERSISTENTVOLUMECLAIMS, &claim.namespace, &claim.name, now, change).ok();
}

fn volume_of(object: &Value) -> Option<PersistentVolume> {
    read(object).map(|volume| PersistentVolume::from_api(&volume))
}

/// Removes the binding of a volume. A reservation by a user stays, by name.
fn release(volume: &mut Value) {
    if text(volume, "/spec/claimRef/uid").is_empty() {
        return;
    }
    if volume["metadata"]["annotations"].get(BOUND_BY_CONTROLLER).is_some() {
        remove(volume, &["metadata", "annotations"], BOUND_BY_CONTROLLER);
        remove(volume, &["spec"], "claimRef");
    } else {
        remove(volume, &["spec", "claimRef"], "uid");
    }
}

/// Returns the reference of a volume to its claim.
pub(super) fn reference(claim: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace(claim),
        "name": name(claim), "uid": uid(claim)})
}
