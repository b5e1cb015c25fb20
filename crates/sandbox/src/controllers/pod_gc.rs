//! The pod garbage collector: deletes pods on nodes that no longer exist.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework::Time;
use serde_json::{Value, json};

use crate::informer::{Informer, ObjectEvent};
use crate::metadata::{name, namespace, uid};
use crate::object::{put, set_condition, text};
use crate::resources::{NODES, PODS};
use crate::store::{DeleteOptions, Store};

/// Time until the pods are deleted: a node may return, or be seen after its pods.
const QUARANTINE: Duration = Duration::from_secs(40);

#[derive(Debug)]
pub(super) struct PodGarbageCollector {
    nodes: Informer,
    pods: Informer,
    /// Missing nodes of bound pods, with the time when their pods are deleted.
    missing: BTreeMap<String, Time>,
}

impl PodGarbageCollector {
    pub(super) fn new() -> Self {
        Self { nodes: Informer::new(NODES), pods: Informer::new(PODS), missing: BTreeMap::new() }
    }

    pub(super) fn step(&mut self, store: &mut Store, now: Time) {
        for event in self.nodes.events(store) {
            match event {
                ObjectEvent::Present(node) => drop(self.missing.remove(name(&node))),
                ObjectEvent::Removed(node) => self.miss(name(&node), now),
            }
        }
        for event in self.pods.events(store) {
            if let ObjectEvent::Present(pod) = event {
                let node = text(&pod, "/spec/nodeName");
                if !node.is_empty() && store.get(NODES, "", node).is_none() {
                    self.miss(node, now);
                }
            }
        }
        if self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.collect(store, now);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.missing.values().min().copied()
    }

    fn miss(&mut self, node: &str, now: Time) {
        self.missing.entry(node.to_owned()).or_insert(now + QUARANTINE);
    }

    /// Deletes the pods of all nodes whose time is over, in one walk over all pods.
    fn collect(&mut self, store: &mut Store, now: Time) {
        let given_up = |pod: &&Arc<Value>| {
            let deadline = self.missing.get(text(pod, "/spec/nodeName"));
            deadline.is_some_and(|deadline| *deadline <= now)
        };
        let orphans: Vec<Arc<Value>> = store.objects(PODS).filter(given_up).cloned().collect();
        for pod in orphans {
            delete(store, &pod, now);
        }
        self.missing.retain(|_, deadline| *deadline > now);
    }
}

/// Marks a pod that has not ended as failed, and deletes it without grace, because no kubelet can
/// end it.
fn delete(store: &mut Store, pod: &Value, now: Time) {
    let (namespace, name) = (namespace(pod), name(pod));
    if !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
        let fail = |pod: &mut Value| {
            put(pod, &["status", "phase"], json!("Failed"));
            let condition = json!({"type": "DisruptionTarget", "status": "True",
                "lastProbeTime": null, "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists"});
            set_condition(pod, condition, now);
            Ok(())
        };
        store.modify(PODS, namespace, name, now, fail).ok();
    }
    let options = DeleteOptions { uid: Some(uid(pod).to_owned()), ..DeleteOptions::with_grace(0) };
    // The pod may have been deleted by another client.
    store.delete(PODS, namespace, name, &options, now).ok();
}
