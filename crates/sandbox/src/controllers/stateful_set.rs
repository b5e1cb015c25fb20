//! The StatefulSet controller: pods with stable names, started in order, each with its own claims,
//! which outlive it.

use framework::Time;
use serde_json::{Value, json};

use super::RETRY;
use super::owned_pods::{OwnedPods, controlled_by, metadata_of_template};
use super::work_queue::Key;
use crate::metadata::{generation, name, namespace, uid};
use crate::object::{condition_status, entries, is_terminating, number, put, text};
use crate::resources::{PERSISTENTVOLUMECLAIMS, PODS, STATEFULSETS};
use crate::status::Status;
use crate::store::{DeleteOptions, Store};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

#[derive(Debug)]
pub(super) struct StatefulSetController {
    pods: OwnedPods,
}

impl StatefulSetController {
    pub(super) fn new() -> Self {
        Self { pods: OwnedPods::new(STATEFULSETS) }
    }

    pub(super) fn step(&mut self, store: &mut Store, now: Time) {
        self.pods.follow(store);
        while let Some(key) = self.pods.queue.pop(now) {
            self.sync(store, &key, now);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.pods.queue.next_deadline()
    }

    fn sync(&mut self, store: &mut Store, key: &Key, now: Time) {
        let Some(set) = store.get(STATEFULSETS, &key.0, &key.1).cloned() else { return };
        if !is_terminating(&set) && self.scale(store, &set, now).is_err() {
            self.pods.queue.add_after(key.clone(), now + RETRY);
        }
        let counts = self.pods.of(uid(&set)).map(|pods| pods.counts()).unwrap_or_default();
        let write = |set: &mut Value| {
            let observed = generation(set);
            for field in ["replicas", "currentReplicas", "updatedReplicas"] {
                put(set, &["status", field], json!(counts.active));
            }
            for field in ["readyReplicas", "availableReplicas"] {
                put(set, &["status", field], json!(counts.ready));
            }
            put(set, &["status", "observedGeneration"], json!(observed));
            Ok(())
        };
        // The write fails if the StatefulSet was deleted, which then needs no status.
        store.modify(STATEFULSETS, &key.0, &key.1, now, write).ok();
    }

    /// Takes the next step towards the wanted pods. In order, a pod is created when all lower
    /// ordinals are ready and deleted when all higher ones are gone; its events queue the set
    /// again.
    fn scale(&self, store: &mut Store, set: &Value, now: Time) -> Result<(), Status> {
        let wanted = number(set, "/spec/replicas").unwrap_or(1).max(0);
        let in_order = text(set, "/spec/podManagementPolicy") != "Parallel";
        for ordinal in 0..wanted {
            let ready = step_up(store, set, ordinal, now)?;
            if in_order && !ready {
                return Ok(());
            }
        }
        let surplus = self.ordinals(set).into_iter().rev().take_while(|ordinal| *ordinal >= wanted);
        for ordinal in surplus.take(if in_order { 1 } else { usize::MAX }) {
            let options = DeleteOptions::default();
            // The pod may have been deleted by another client.
            store.delete(PODS, namespace(set), &pod_name(set, ordinal), &options, now).ok();
        }
        Ok(())
    }

    /// Returns the ordinals of the existing pods, ascending.
    fn ordinals(&self, set: &Value) -> Vec<i64> {
        let prefix = format!("{}-", name(set));
        let names = self.pods.of(uid(set)).into_iter().flat_map(|pods| pods.names());
        let ordinals = names.filter_map(|name| name.strip_prefix(&prefix)?.parse().ok());
        let mut ordinals: Vec<i64> = ordinals.collect();
        ordinals.sort_unstable();
        ordinals
    }
}

/// Creates the pod if it is missing, and returns whether it is ready. A pod that has ended is
/// deleted first.
fn step_up(store: &mut Store, set: &Value, ordinal: i64, now: Time) -> Result<bool, Status> {
    let pod_name = pod_name(set, ordinal);
    let Some(pod) = store.get(PODS, namespace(set), &pod_name).cloned() else {
        create_claims(store, set, ordinal, now)?;
        store.create(PODS, new_pod(set, ordinal), now)?;
        return Ok(false);
    };
    if matches!(text(&pod, "/status/phase"), "Succeeded" | "Failed") && !is_terminating(&pod) {
        store.delete(PODS, namespace(set), &pod_name, &DeleteOptions::with_grace(0), now)?;
    }
    Ok(!is_terminating(&pod) && condition_status(&pod, "Ready") == "True")
}

/// Existing claims are used again.
fn create_claims(store: &mut Store, set: &Value, ordinal: i64, now: Time) -> Result<(), Status> {
    for template in entries(set, "/spec/volumeClaimTemplates") {
        let claim_name = claim_name(set, ordinal, name(template));
        if store.get(PERSISTENTVOLUMECLAIMS, namespace(set), &claim_name).is_some() {
            continue;
        }
        let mut metadata = metadata_of_template(template);
        if let Some(labels) = set["spec"]["selector"]["matchLabels"].as_object() {
            for (key, value) in labels {
                put(&mut metadata, &["labels", key], value.clone());
            }
        }
        metadata["name"] = claim_name.into();
        metadata["namespace"] = namespace(set).into();
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": metadata, "spec": template["spec"]});
        store.create(PERSISTENTVOLUMECLAIMS, claim, now)?;
    }
    Ok(())
}

fn pod_name(set: &Value, ordinal: i64) -> String {
    format!("{}-{ordinal}", name(set))
}

fn claim_name(set: &Value, ordinal: i64, template: &str) -> String {
    format!("{template}-{}", pod_name(set, ordinal))
}

/// Returns a pod from the template, with its name and its claims.
fn new_pod(set: &Value, ordinal: i64) -> Value {
    let pod_name = pod_name(set, ordinal);
    let mut pod = controlled_by(set);
    pod["metadata"]["name"] = pod_name.as_str().into();
    put(&mut pod, &["metadata", "labels", POD_NAME], pod_name.as_str().into());
    put(&mut pod, &["metadata", "labels", POD_INDEX], ordinal.to_string().into());
    put(&mut pod, &["spec", "hostname"], pod_name.into());
    if let Some(service) = set["spec"].get("serviceName") {
        put(&mut pod, &["spec", "subdomain"], service.clone());
    }
    let templates: Vec<&str> = entries(set, "/spec/volumeClaimTemplates").map(name).collect();
    let own = entries(&pod, "/spec/volumes");
    let own = own.filter(|volume| !templates.contains(&text(volume, "/name"))).cloned();
    let claimed = templates.iter().map(|template| {
        json!({"name": template,
            "persistentVolumeClaim": {"claimName": claim_name(set, ordinal, template)}})
    });
    let volumes: Vec<Value> = own.chain(claimed).collect();
    if !volumes.is_empty() {
        put(&mut pod, &["spec", "volumes"], volumes.into());
    }
    pod
}
