//! A provisioner for every class; its volumes exist only as objects.
//!
//! It acts once the PersistentVolume controller has written its name into a claim. Two parameters
//! of the class control it: [`DELAY`], the seconds that provisioning takes, and [`FAILURES`], the
//! number of failures before a success.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use framework::Time;
use framework::storage::{PersistentVolumeClaim, SELECTED_NODE, StorageClass};
use serde_json::{Value, json};

use super::RETRY;
use super::event::{self, EventKind};
use super::persistent_volume::{STORAGE_PROVISIONER, reference};
use super::work_queue::{Key, WorkQueue, key};
use crate::informer::{Informer, ObjectEvent};
use crate::metadata::{name, namespace, uid};
use crate::object::{entries, put, read, remove, text};
use crate::resources::{
    CSINODES, NODES, PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, STORAGECLASSES,
};
use crate::store::{DeleteOptions, Store};

/// Parameter of a StorageClass: seconds of provisioning.
const DELAY: &str = "sandbox/provisioning-seconds";
/// Parameter of a StorageClass: number of failures before a success.
const FAILURES: &str = "sandbox/provisioning-failures";
/// Annotation of provisioned volumes with the name of the provisioner.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The component that its events name.
const SOURCE: &str = "provisioner";
const ZONE: &str = "topology.kubernetes.io/zone";

#[derive(Debug)]
pub(super) struct Provisioner {
    claims: Informer,
    classes: Informer,
    volumes: Informer,
    due: WorkQueue,
    /// Volumes in provisioning, by the UID of their claim.
    under_way: BTreeMap<String, Provisioning>,
}

/// A volume in provisioning.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Provisioning {
    ready_at: Time,
    node: String,
    failures: u32,
}

/// A claim that needs a volume.
struct Task {
    object: Arc<Value>,
    claim: PersistentVolumeClaim,
    class: Arc<Value>,
}

impl Provisioner {
    pub(super) fn new() -> Self {
        Self {
            claims: Informer::new(PERSISTENTVOLUMECLAIMS),
            classes: Informer::new(STORAGECLASSES),
            volumes: Informer::new(PERSISTENTVOLUMES),
            due: WorkQueue::default(),
            under_way: BTreeMap::new(),
        }
    }

    pub(super) fn step(&mut self, store: &mut Store, now: Time) {
        self.delete_released(store, now);
        self.follow(store);
        while let Some(key) = self.due.pop(now) {
            self.sync(store, &key, now);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.due.next_deadline()
    }

    fn delete_released(&mut self, store: &mut Store, now: Time) {
        for event in self.volumes.events(store) {
            if let ObjectEvent::Present(volume) = event
                && text(&volume, "/status/phase") == "Released"
                && goes_with_claim(&volume)
            {
                // The claim may have been deleted by another client.
                store
                    .delete(PERSISTENTVOLUMES, "", name(&volume), &DeleteOptions::default(), now)
                    .ok();
            }
        }
    }

    fn follow(&mut self, store: &Store) {
        for event in self.claims.events(store) {
            match event {
                ObjectEvent::Present(claim) => self.due.add(key(&claim)),
                ObjectEvent::Removed(claim) => drop(self.under_way.remove(uid(&claim))),
            }
        }
        if !self.classes.events(store).is_empty() {
            store.objects(PERSISTENTVOLUMECLAIMS).for_each(|claim| self.due.add(key(claim)));
        }
    }

    fn sync(&mut self, store: &mut Store, key: &Key, now: Time) {
        let Some(task) = Task::of(store, key) else { return };
        let uid = uid(&task.object).to_owned();
        let mut own = task.progress(self.under_way.remove(&uid), now);
        if now >= own.ready_at {
            match task.volume(store, own.failures) {
                Ok(volume) => {
                    let message = format!("Successfully provisioned volume {}", name(&volume));
                    // A volume of this name belongs to this claim and is found later.
                    store.create(PERSISTENTVOLUMES, volume, now).ok();
                    event::record(
                        store,
                        SOURCE,
                        &task.object,
                        EventKind::normal("ProvisioningSucceeded"),
                        &message,
                        now,
                    );
                    return;
                }
                Err(why) => fail(store, &task.object, &why, now),
            }
            own.failures += 1;
            own.ready_at = now + RETRY.max(task.delay());
        }
        self.due.add_after(key.clone(), own.ready_at);
        self.under_way.insert(uid, own);
    }
}

impl Task {
    /// Returns the task for a claim, if the claim asks for this provisioner.
    fn of(store: &Store, key: &Key) -> Option<Self> {
        let object = store.get(PERSISTENTVOLUMECLAIMS, &key.0, &key.1)?.clone();
        let claim = PersistentVolumeClaim::from_api(&read(&object)?);
        let class = store.get(STORAGECLASSES, "", &claim.class)?.clone();
        let asked = &object["metadata"]["annotations"][STORAGE_PROVISIONER];
        let waits = StorageClass::from_api(&read(&class)?).waits_for_first_consumer();
        let is_due = !claim.terminating
            && claim.volume_name.is_none()
            && *asked == class["provisioner"]
            && (!waits || claim.selected_node.is_some());
        is_due.then_some(Self { object, claim, class })
    }

    /// Returns the progress; a newly selected node restarts provisioning.
    fn progress(&self, own: Option<Provisioning>, now: Time) -> Provisioning {
        let node = self.claim.selected_node.as_deref().unwrap_or_default();
        let failures = own.as_ref().map_or(0, |own| own.failures);
        own.filter(|own| own.node == node).unwrap_or_else(|| Provisioning {
            ready_at: now + self.delay(),
            node: node.to_owned(),
            failures,
        })
    }

    fn delay(&self) -> Duration {
        Duration::from_secs(self.parameter(DELAY).into())
    }

    /// Returns a numeric parameter of the class, 0 if absent.
    fn parameter(&self, name: &str) -> u32 {
        let parameter = self.class["parameters"][name].as_str();
        parameter.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Returns the volume.
    ///
    /// # Errors
    /// Why it cannot be made.
    fn volume(&self, store: &Store, failures: u32) -> Result<Value, String> {
        let reachable = match &self.claim.selected_node {
            Some(node) => {
                let node = store.get(NODES, "", node);
                let node = node.ok_or("failed to get target node: there is none of its name")?;
                self.topology_of(store, node).into_iter().collect()
            }
            None => self.allowed_topologies(),
        };
        if failures < self.parameter(FAILURES) {
            let class = &*self.claim.class;
            let wanted = self.parameter(FAILURES);
            return Err(format!(
                "failed to provision volume with StorageClass {class:?}: parameter {FAILURES} is \
                 {wanted}"
            ));
        }
        Ok(self.volume_in(reachable))
    }

    /// Returns the volume, reachable from nodes that match one of these terms, or from all nodes
    /// without terms.
    fn volume_in(&self, reachable: Vec<Value>) -> Value {
        let Self { object, claim, class } = self;
        let name = format!("pvc-{}", uid(object));
        let mut volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {PROVISIONED_BY: class["provisioner"]}},
            "spec": {
                "capacity": {"storage": object["spec"]["resources"]["requests"]["storage"]},
                "storageClassName": &*claim.class,
                "persistentVolumeReclaimPolicy": class["reclaimPolicy"],
                "csi": {"driver": class["provisioner"], "volumeHandle": name},
                "claimRef": reference(object),
            },
        });
        for field in ["accessModes", "volumeMode", "volumeAttributesClassName"] {
            if let Some(asked) = object["spec"].get(field) {
                put(&mut volume, &["spec", field], asked.clone());
            }
        }
        if !reachable.is_empty() {
            let path = ["spec", "nodeAffinity", "required", "nodeSelectorTerms"];
            put(&mut volume, &path, reachable.into());
        }
        volume
    }

    /// Returns the term for nodes in the topology of `node`: by the labels in the class, else the
    /// keys of the driver on the node, else the zone.
    fn topology_of(&self, store: &Store, node: &Value) -> Option<Value> {
        let allowed = entries(&self.class, "/allowedTopologies");
        let allowed = allowed.flat_map(|term| entries(term, "/matchLabelExpressions"));
        let mut keys: BTreeSet<&str> = allowed.map(|own| text(own, "/key")).collect();
        let csi_node = store.get(CSINODES, "", name(node));
        let drivers = csi_node.into_iter().flat_map(|csi_node| entries(csi_node, "/spec/drivers"));
        let mut own = drivers.filter(|driver| driver["name"] == self.class["provisioner"]);
        if let Some(driver) = own.next().filter(|_| keys.is_empty()) {
            keys.extend(entries(driver, "/topologyKeys").filter_map(Value::as_str));
        }
        if keys.is_empty() {
            keys.insert(ZONE);
        }
        let labels = &node["metadata"]["labels"];
        let here = keys.iter().filter_map(|key| Some((key, labels.get(key)?)));
        let here: Vec<Value> = here
            .map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]}))
            .collect();
        (!here.is_empty()).then(|| json!({ "matchExpressions": here }))
    }

    /// Returns the terms for nodes in the topologies that the class allows.
    fn allowed_topologies(&self) -> Vec<Value> {
        let terms = entries(&self.class, "/allowedTopologies").map(|term| {
            let own = entries(term, "/matchLabelExpressions");
            let own = own
                .map(|one| json!({"key": one["key"], "operator": "In", "values": one["values"]}));
            json!({"matchExpressions": own.collect::<Vec<_>>()})
        });
        terms.collect()
    }
}

/// Returns whether the volume was provisioned and is deleted with its claim.
pub(super) fn goes_with_claim(volume: &Value) -> bool {
    text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete"
        && volume["metadata"]["annotations"].get(PROVISIONED_BY).is_some()
}

/// Removes the selected node after a failure, so that the scheduler selects again.
fn fail(store: &mut Store, claim: &Value, why: &str, now: Time) {
    let kind = EventKind::warning("ProvisioningFailed");
    event::record(store, SOURCE, claim, kind, why, now);
    let deselect = |claim: &mut Value| {
        if claim["metadata"]["annotations"].get(SELECTED_NODE).is_some() {
            remove(claim, &["metadata", "annotations"], SELECTED_NODE);
        }
        Ok(())
    };
    // The write fails if the claim was deleted.
    store.modify(PERSISTENTVOLUMECLAIMS, namespace(claim), name(claim), now, deselect).ok();
}
