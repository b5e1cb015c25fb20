//! The pod garbage collector: pods on nodes that are gone are deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework::Time;
use serde_json::{Value, json};

use crate::informer::{Informer, News};
use crate::metadata::{name, namespace, uid};
use crate::object::{put, set_condition, text};
use crate::resources::{NODES, PODS};
use crate::store::{DeleteOptions, Store};

/// A node may be about to come back, or a pod may be seen before its node.
const QUARANTINE: Duration = Duration::from_secs(40);

#[derive(Debug)]
pub(super) struct PodGarbageCollector {
    nodes: Informer,
    pods: Informer,
    /// Nodes that pods are bound to and that are not there, and when they will be given up.
    missing: BTreeMap<String, Time>,
}

impl PodGarbageCollector {
    pub(super) fn new() -> Self {
        Self { nodes: Informer::new(NODES), pods: Informer::new(PODS), missing: BTreeMap::new() }
    }

    pub(super) fn step(&mut self, store: &mut Store, now: Time) {
        for news in self.nodes.news(store) {
            match news {
                News::Present(node) => drop(self.missing.remove(name(&node))),
                News::Gone(node) => self.miss(name(&node), now),
            }
        }
        for news in self.pods.news(store) {
            if let News::Present(pod) = news {
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

    /// Deletes the pods of all nodes that are given up, in one walk over all pods.
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

/// A pod that has not ended has failed; then it goes without grace, as nobody is left to end it.
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
    // It may have gone in between.
    store.delete(PODS, namespace, name, &options, now).ok();
}
