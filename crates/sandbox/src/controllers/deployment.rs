//! The Deployment controller: one ReplicaSet for every template of a Deployment, and all replicas
//! in the ReplicaSet of the current template.
//!
//! A new template replaces all pods at once. Unlike strategy Recreate, the controller does not wait
//! for the old pods to end. It does not honour the limits of a rolling update.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::Time;
use serde_json::{Value, json};

use super::RETRY;
use super::work_queue::{Key, WorkQueue, key};
use crate::informer::{Informer, ObjectEvent};
use crate::metadata::{generation, name, namespace, uid};
use crate::object::{
    controller_of, controller_reference, is_terminating, number, put, set_condition, text,
};
use crate::resources::{DEPLOYMENTS, REPLICASETS};
use crate::status::Status;
use crate::store::Store;

const HASH_LABEL: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";
/// Characters of hashes in names: no vowels, to avoid words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

#[derive(Debug)]
pub(super) struct DeploymentController {
    informer: Informer,
    replica_sets: Informer,
    /// Names of ReplicaSets by the UID of their Deployment.
    owned: BTreeMap<String, BTreeSet<String>>,
    queue: WorkQueue,
}

impl DeploymentController {
    pub(super) fn new() -> Self {
        Self {
            informer: Informer::new(DEPLOYMENTS),
            replica_sets: Informer::new(REPLICASETS),
            owned: BTreeMap::new(),
            queue: WorkQueue::default(),
        }
    }

    pub(super) fn step(&mut self, store: &mut Store, now: Time) {
        for event in self.informer.events(store) {
            match event {
                ObjectEvent::Present(deployment) => self.queue.add(key(&deployment)),
                ObjectEvent::Removed(deployment) => drop(self.owned.remove(uid(&deployment))),
            }
        }
        for event in self.replica_sets.events(store) {
            self.take_in(&event);
        }
        while let Some(key) = self.queue.pop(now) {
            self.sync(store, &key, now);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.queue.next_deadline()
    }

    fn take_in(&mut self, event: &ObjectEvent) {
        let (ObjectEvent::Present(set) | ObjectEvent::Removed(set)) = event;
        let Some(owner) = controller_of(set).filter(|own| own["kind"] == "Deployment") else {
            return;
        };
        let owned = self.owned.entry(text(owner, "/uid").to_owned()).or_default();
        match event {
            ObjectEvent::Present(_) => owned.insert(name(set).to_owned()),
            ObjectEvent::Removed(_) => owned.remove(name(set)),
        };
        self.queue.add((namespace(set).to_owned(), text(owner, "/name").to_owned()));
    }

    fn sync(&mut self, store: &mut Store, key: &Key, now: Time) {
        let Some(deployment) = store.get(DEPLOYMENTS, &key.0, &key.1).cloned() else { return };
        let owned = self.owned.get(uid(&deployment)).into_iter().flatten();
        let sets: Vec<Arc<Value>> =
            owned.filter_map(|set| store.get(REPLICASETS, &key.0, set).cloned()).collect();
        let hash = template_hash(&deployment["spec"]["template"]);
        let current = format!("{}-{hash}", key.1);
        if !is_terminating(&deployment) && deployment["spec"]["paused"] != true {
            scale_all(store, &deployment, &sets, &current, now);
            let exists = sets.iter().any(|set| name(set) == current);
            if !exists && create_replica_set(store, &deployment, &sets, &hash, now).is_err() {
                self.queue.add_after(key.clone(), now + RETRY);
            }
        }
        let write = |deployment: &mut Value| {
            write_status(deployment, &sets, &current, now);
            Ok(())
        };
        // The write fails if the Deployment was deleted, which then needs no status.
        store.modify(DEPLOYMENTS, &key.0, &key.1, now, write).ok();
    }
}

fn replicas(object: &Value) -> i64 {
    number(object, "/spec/replicas").unwrap_or(1)
}

/// Scales the current ReplicaSet to all replicas and the others to none.
fn scale_all(store: &mut Store, deployment: &Value, sets: &[Arc<Value>], current: &str, now: Time) {
    for set in sets {
        let wanted = if name(set) == current { replicas(deployment) } else { 0 };
        let scale = |set: &mut Value| {
            put(set, &["spec", "replicas"], json!(wanted));
            Ok(())
        };
        // The write fails if the ReplicaSet was deleted; the next sync creates the current one
        // again.
        store.modify(REPLICASETS, namespace(set), name(set), now, scale).ok();
    }
}

fn create_replica_set(
    store: &mut Store,
    deployment: &Value,
    sets: &[Arc<Value>],
    hash: &str,
    now: Time,
) -> Result<(), Status> {
    let revisions = sets.iter().filter_map(|set| {
        set["metadata"]["annotations"][REVISION].as_str().and_then(|text| text.parse::<u64>().ok())
    });
    let revision = (revisions.max().unwrap_or(0) + 1).to_string();
    let mut template = deployment["spec"]["template"].clone();
    put(&mut template, &["metadata", "labels", HASH_LABEL], json!(hash));
    let mut selector = deployment["spec"]["selector"].clone();
    put(&mut selector, &["matchLabels", HASH_LABEL], json!(hash));
    let set = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", name(deployment)),
            "namespace": namespace(deployment),
            "labels": template["metadata"]["labels"],
            "annotations": {REVISION: revision},
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {
            "replicas": replicas(deployment),
            "selector": selector,
            "template": template,
        },
    });
    store.create(REPLICASETS, set, now)?;
    let note = |deployment: &mut Value| {
        put(deployment, &["metadata", "annotations", REVISION], json!(revision));
        Ok(())
    };
    store.modify(DEPLOYMENTS, namespace(deployment), name(deployment), now, note)?;
    Ok(())
}

fn write_status(deployment: &mut Value, sets: &[Arc<Value>], current: &str, now: Time) {
    let count = |field: &str, of: &dyn Fn(&str) -> bool| -> i64 {
        let sets = sets.iter().filter(|set| of(name(set)));
        sets.map(|set| number(&set["status"], field).unwrap_or(0)).sum()
    };
    let all = |_: &str| true;
    let wanted = replicas(deployment);
    let updated = count("/replicas", &|name| name == current);
    let available = count("/availableReplicas", &all);
    let counted = [
        ("replicas", count("/replicas", &all)),
        ("updatedReplicas", updated),
        ("readyReplicas", count("/readyReplicas", &all)),
        ("availableReplicas", available),
        ("unavailableReplicas", (wanted - available).max(0)),
    ];
    for (field, count) in counted {
        put(deployment, &["status", field], json!(count));
    }
    let observed = generation(deployment);
    put(deployment, &["status", "observedGeneration"], json!(observed));
    set_conditions(deployment, available >= wanted, updated == wanted, now);
}

fn set_conditions(deployment: &mut Value, available: bool, updated: bool, now: Time) {
    let (status, reason, message) = if available {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    let condition =
        json!({"type": "Available", "status": status, "reason": reason, "message": message});
    set_condition(deployment, condition, now);
    let reason = if available && updated { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" };
    let condition =
        json!({"type": "Progressing", "status": "True", "reason": reason, "message": ""});
    set_condition(deployment, condition, now);
}

/// Returns a short hash of a template: FNV-1a over its JSON.
fn template_hash(template: &Value) -> String {
    let fold = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = template.to_string().bytes().fold(0x811c_9dc5, fold);
    hash.to_string().bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % 27])).collect()
}
