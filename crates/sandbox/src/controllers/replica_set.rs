//! The ReplicaSet controller: keeps the number of pods that a ReplicaSet wants.
//!
//! It owns the pods that it creates and adopts no others.

use framework::Time;
use serde_json::{Value, json};

use super::owned_pods::{Counts, OwnedPods, create_pods};
use super::work_queue::Key;
use super::{BURST, RETRY};
use crate::metadata::{generation, uid};
use crate::object::{condition_status, entries, is_terminating, number, put, set_condition};
use crate::resources::REPLICASETS;
use crate::status::Status;
use crate::store::Store;

const FAILURE: &str = "ReplicaFailure";

#[derive(Debug)]
pub(super) struct ReplicaSetController {
    pods: OwnedPods,
}

impl ReplicaSetController {
    pub(super) fn new() -> Self {
        Self { pods: OwnedPods::new(REPLICASETS) }
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
        let Some(set) = store.get(REPLICASETS, &key.0, &key.1).cloned() else { return };
        let counts = self.pods.of(uid(&set)).map(|pods| pods.counts()).unwrap_or_default();
        let outcome = if is_terminating(&set) {
            Ok(())
        } else {
            self.manage_replicas(store, &set, counts.active, now)
        };
        if outcome.is_err() {
            self.pods.queue.add_after(key.clone(), now + RETRY);
        }
        let write = |set: &mut Value| {
            write_status(set, counts, outcome.as_ref().err(), now);
            Ok(())
        };
        // The write fails if the ReplicaSet was deleted, which then needs no status.
        store.modify(REPLICASETS, &key.0, &key.1, now, write).ok();
    }

    /// Creates or deletes pods, one burst at a time; their events queue the ReplicaSet again.
    fn manage_replicas(
        &self,
        store: &mut Store,
        set: &Value,
        active: i64,
        now: Time,
    ) -> Result<(), Status> {
        let missing = number(set, "/spec/replicas").unwrap_or(1) - active;
        if missing > 0 {
            return create_pods(store, set, missing.min(BURST), now);
        }
        let surplus = usize::try_from(-missing).unwrap_or(0);
        self.pods.delete(store, set, surplus, now);
        Ok(())
    }
}

fn write_status(set: &mut Value, counts: Counts, failure: Option<&Status>, now: Time) {
    let observed = generation(set);
    let counted = [
        ("replicas", counts.active),
        ("fullyLabeledReplicas", counts.active),
        ("readyReplicas", counts.ready),
        ("availableReplicas", counts.ready),
    ];
    for (field, count) in counted {
        put(set, &["status", field], json!(count));
    }
    put(set, &["status", "observedGeneration"], json!(observed));
    match failure {
        // Messages differ in the generated name; the condition keeps the first one.
        Some(_) if condition_status(set, FAILURE) == "True" => {}
        Some(failure) => {
            let condition = json!({"type": FAILURE, "status": "True",
                "reason": "FailedCreate", "message": failure.message});
            set_condition(set, condition, now);
        }
        None if entries(set, "/status/conditions").next().is_some() => {
            put(set, &["status", "conditions"], json!([]));
        }
        None => {}
    }
}
