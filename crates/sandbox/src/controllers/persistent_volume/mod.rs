//! The PersistentVolume controller, and a provisioner whose volumes exist only by name.
//!
//! Claims are bound to volumes that are there, to those reserved for them, or to new ones: of classes
//! that name a provisioner, at once or when a scheduler has selected a node. Parameters of the class
//! tell how the provisioner behaves: [`DELAY`], the seconds it takes, and [`FAILURES`], how often it
//! fails first. Left out on purpose: protection of what is in use, resizing, and recycling.

use std::collections::BTreeMap;
use std::time::Duration;

use framework::Time;
use framework::storage::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, PersistentVolume, PersistentVolumeClaim, SELECTED_NODE,
    StorageClass,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::RETRY;
use super::work_queue::{Key, WorkQueue, key};
use crate::informer::{Informer, News};
use crate::metadata::{name, namespace, uid};
use crate::object::{put, remove, text, timestamp};
use crate::resources::{EVENTS, NODES, PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, STORAGECLASSES};
use crate::store::{DeleteOptions, Store};

/// Parameter of a StorageClass: seconds until a volume is made.
const DELAY: &str = "sandbox/provisioning-seconds";
/// Parameter of a StorageClass: how often making a volume fails first.
const FAILURES: &str = "sandbox/provisioning-failures";
/// Annotation of volumes that were made for a claim, with the name of who made them.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const ZONE: &str = "topology.kubernetes.io/zone";

#[derive(Debug)]
pub(super) struct PersistentVolumeController {
    claims: Informer,
    volumes: Informer,
    classes: Informer,
    claims_due: WorkQueue,
    volumes_due: WorkQueue,
    /// Volumes being made, by UID of their claim.
    provisioning: BTreeMap<String, Provisioning>,
}

/// A volume that is being made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Provisioning {
    ready_at: Time,
    node: String,
    failed: u32,
}

impl PersistentVolumeController {
    pub(super) fn new() -> Self {
        Self {
            claims: Informer::new(PERSISTENTVOLUMECLAIMS),
            volumes: Informer::new(PERSISTENTVOLUMES),
            classes: Informer::new(STORAGECLASSES),
            claims_due: WorkQueue::default(),
            volumes_due: WorkQueue::default(),
            provisioning: BTreeMap::new(),
        }
    }

    pub(super) fn step(&mut self, store: &mut Store, now: Time) {
        self.follow(store);
        while let Some(key) = self.volumes_due.pop(now) {
            sync_volume(store, &key.1, now);
        }
        while let Some(key) = self.claims_due.pop(now) {
            self.sync_claim(store, &key, now);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let deadlines = [self.claims_due.next_deadline(), self.volumes_due.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    fn follow(&mut self, store: &Store) {
        for news in self.claims.news(store) {
            let (News::Present(claim) | News::Gone(claim)) = &news;
            if matches!(news, News::Gone(_)) {
                self.provisioning.remove(uid(claim));
            }
            self.claims_due.add(key(claim));
            let volume = text(claim, "/spec/volumeName");
            if !volume.is_empty() {
                self.volumes_due.add((String::new(), volume.to_owned()));
            }
        }
        let mut look_at_all = !self.classes.news(store).is_empty();
        for news in self.volumes.news(store) {
            let (News::Present(volume) | News::Gone(volume)) = &news;
            self.volumes_due.add(key(volume));
            let claim = &volume["spec"]["claimRef"];
            look_at_all |= claim.is_null();
            let (namespace, name) = (text(claim, "/namespace"), text(claim, "/name"));
            self.claims_due.add((namespace.to_owned(), name.to_owned()));
        }
        if look_at_all {
            store.objects(PERSISTENTVOLUMECLAIMS).for_each(|claim| self.claims_due.add(key(claim)));
        }
    }

    fn sync_claim(&mut self, store: &mut Store, key: &Key, now: Time) {
        let Some(object) = store.get(PERSISTENTVOLUMECLAIMS, &key.0, &key.1).cloned() else {
            return;
        };
        let claim = read(&object).map(|claim| PersistentVolumeClaim::from_api(&claim));
        let Some(claim) = claim.filter(|claim| !claim.terminating) else { return };
        if let Some(volume) = &claim.volume_name {
            return sync_claim_of(store, &claim, volume, &object, now);
        }
        let class = storage_class(store, &claim);
        let waits = class.as_ref().is_some_and(StorageClass::waits_for_first_consumer);
        if let Some(volume) = matching_volume(store, &claim, waits) {
            return bind(store, &volume, &object, now);
        }
        let is_due = !waits || claim.selected_node.is_some();
        if is_due && class.is_some_and(|class| class.provisions()) {
            self.provision(store, &object, &claim, now);
        }
    }

    fn provision(
        &mut self,
        store: &mut Store,
        object: &Value,
        claim: &PersistentVolumeClaim,
        now: Time,
    ) {
        let Some(class) = store.get(STORAGECLASSES, "", &claim.class).cloned() else { return };
        let parameter = |name: &str| class["parameters"][name].as_str()?.parse::<u32>().ok();
        let delay = Duration::from_secs(parameter(DELAY).unwrap_or(0).into());
        let node = claim.selected_node.as_deref().unwrap_or_default();
        let started =
            |failed| Provisioning { ready_at: now + delay, node: node.to_owned(), failed };
        let own = self.provisioning.entry(uid(object).to_owned()).or_insert_with(|| started(0));
        if own.node != node {
            *own = started(own.failed);
        }
        if now < own.ready_at {
            return self.claims_due.add_after(key(object), own.ready_at);
        }
        if own.failed < parameter(FAILURES).unwrap_or(0) {
            own.failed += 1;
            own.ready_at = now + RETRY.max(delay);
            self.claims_due.add_after(key(object), own.ready_at);
            return fail(store, object, now);
        }
        self.provisioning.remove(uid(object));
        let volume = volume_for(store, object, claim, &class);
        // One of this name is this claim's: it will be found.
        store.create(PERSISTENTVOLUMES, volume, now).ok();
    }
}

fn storage_class(store: &Store, claim: &PersistentVolumeClaim) -> Option<StorageClass> {
    read(store.get(STORAGECLASSES, "", &claim.class)?).map(|class| StorageClass::from_api(&class))
}

/// A claim that names its volume is bound to it if nobody else has that, and lost if it was bound
/// and the volume is gone.
fn sync_claim_of(
    store: &mut Store,
    claim: &PersistentVolumeClaim,
    volume: &str,
    object: &Value,
    now: Time,
) {
    let found = store.get(PERSISTENTVOLUMES, "", volume).and_then(|object| read(object));
    let found = found.map(|volume| PersistentVolume::from_api(&volume));
    if found.is_some_and(|volume| volume.claim_ref.is_none() || volume.is_for(claim)) {
        return bind(store, volume, object, now);
    }
    if claim.bind_completed {
        let lose = |claim: &mut Value| {
            put(claim, &["status", "phase"], json!("Lost"));
            Ok(())
        };
        // A claim that is gone is not lost.
        store.modify(PERSISTENTVOLUMECLAIMS, &claim.namespace, &claim.name, now, lose).ok();
    }
}

/// The volume for the claim: one reserved for it, else, unless it waits for a pod, the smallest that
/// will do.
fn matching_volume(store: &Store, claim: &PersistentVolumeClaim, waits: bool) -> Option<String> {
    let volumes = store.objects(PERSISTENTVOLUMES).filter_map(|volume| read(volume));
    let volumes = volumes.map(|volume| PersistentVolume::from_api(&volume));
    let volumes: Vec<_> = volumes.filter(|volume| !volume.terminating).collect();
    let reserved = volumes.iter().find(|volume| volume.is_for(claim));
    let fitting = || {
        let fitting = volumes.iter().filter(|volume| !waits && will_do(volume, claim));
        fitting.min_by_key(|volume| volume.capacity)
    };
    reserved.or_else(fitting).map(|volume| volume.name.to_string())
}

fn will_do(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let selected = claim.selector.as_ref().is_none_or(|selector| {
        selector.as_ref().is_ok_and(|selector| selector.matches(&volume.labels))
    });
    selected
        && volume.claim_ref.is_none()
        && volume.available
        && volume.class == claim.class
        && claim.request.is_none_or(|request| volume.capacity >= request)
        && volume.volume_mode == claim.volume_mode
        && volume.attributes_class == claim.attributes_class
        && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
}

fn reference(claim: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace(claim),
        "name": name(claim), "uid": uid(claim)})
}

/// Binds volume and claim to one another, as far as they are not yet.
fn bind(store: &mut Store, volume: &str, claim: &Value, now: Time) {
    let take = |volume: &mut Value| {
        if volume["spec"]["claimRef"].is_null() {
            put(volume, &["metadata", "annotations", BOUND_BY_CONTROLLER], json!("yes"));
        }
        if text(volume, "/spec/claimRef/uid") != uid(claim) {
            put(volume, &["spec", "claimRef"], reference(claim));
        }
        put(volume, &["status", "phase"], json!("Bound"));
        Ok(())
    };
    let Ok(taken) = store.modify(PERSISTENTVOLUMES, "", volume, now, take) else { return };
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
    // A claim that is gone frees its volume.
    store.modify(PERSISTENTVOLUMECLAIMS, namespace(claim), name(claim), now, complete).ok();
}

/// Says in the status of a volume whether it can be had; one that was made for a claim goes with it.
fn sync_volume(store: &mut Store, volume: &str, now: Time) {
    let Some(object) = store.get(PERSISTENTVOLUMES, "", volume).cloned() else { return };
    let reference = &object["spec"]["claimRef"];
    let (namespace, name) = (text(reference, "/namespace"), text(reference, "/name"));
    let claim = store.get(PERSISTENTVOLUMECLAIMS, namespace, name);
    let claim = claim.filter(|claim| uid(claim) == text(reference, "/uid"));
    let phase = match claim {
        _ if text(reference, "/uid").is_empty() => "Available",
        Some(claim) if text(claim, "/spec/volumeName") == volume => "Bound",
        Some(_) => return,
        None => "Released",
    };
    let goes_with_claim = text(&object, "/spec/persistentVolumeReclaimPolicy") == "Delete"
        && object["metadata"]["annotations"].get(PROVISIONED_BY).is_some();
    if phase == "Released" && goes_with_claim {
        // It may be gone by itself.
        store.delete(PERSISTENTVOLUMES, "", volume, &DeleteOptions::default(), now).ok();
        return;
    }
    let write = |volume: &mut Value| {
        put(volume, &["status", "phase"], json!(phase));
        Ok(())
    };
    // A volume that is gone needs no status.
    store.modify(PERSISTENTVOLUMES, "", volume, now, write).ok();
}

/// A volume made for the claim, reachable from the zone of the selected node if that has one.
fn volume_for(
    store: &Store,
    object: &Value,
    claim: &PersistentVolumeClaim,
    class: &Value,
) -> Value {
    let name = format!("pvc-{}", uid(object));
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: class["provisioner"]}},
        "spec": {
            "capacity": {"storage": object["spec"]["resources"]["requests"]["storage"]},
            "accessModes": object["spec"]["accessModes"],
            "volumeMode": object["spec"]["volumeMode"],
            "storageClassName": &*claim.class,
            "persistentVolumeReclaimPolicy": class["reclaimPolicy"],
            "csi": {"driver": class["provisioner"], "volumeHandle": name},
            "claimRef": reference(object),
        },
    });
    let node = claim.selected_node.as_deref().and_then(|node| store.get(NODES, "", node));
    if let Some(zone) = node.and_then(|node| node["metadata"]["labels"][ZONE].as_str()) {
        let here = json!({"key": ZONE, "operator": "In", "values": [zone]});
        let terms = json!([{"matchExpressions": [here]}]);
        put(&mut volume, &["spec", "nodeAffinity", "required", "nodeSelectorTerms"], terms);
    }
    volume
}

/// No volume can be made: the scheduler is to select a node again.
fn fail(store: &mut Store, claim: &Value, now: Time) {
    let event = json!({
        "metadata": {"generateName": format!("{}.", name(claim)), "namespace": namespace(claim)},
        "involvedObject": reference(claim),
        "type": "Warning", "reason": "ProvisioningFailed",
        "message": "failed to provision volume: the class says so",
        "source": {"component": "provisioner"}, "count": 1,
        "firstTimestamp": timestamp(now), "lastTimestamp": timestamp(now),
    });
    // An event is no more than news.
    store.create(EVENTS, event, now).ok();
    let deselect = |claim: &mut Value| {
        if claim["metadata"]["annotations"].get(SELECTED_NODE).is_some() {
            remove(claim, &["metadata", "annotations"], SELECTED_NODE);
        }
        Ok(())
    };
    // A claim that is gone needs no other node.
    store.modify(PERSISTENTVOLUMECLAIMS, namespace(claim), name(claim), now, deselect).ok();
}

fn read<T: DeserializeOwned>(object: &Value) -> Option<T> {
    T::deserialize(object).ok()
}
