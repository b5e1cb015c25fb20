//! Pods by the controller that owns them.

use std::collections::BTreeMap;

use framework::Time;
use serde_json::{Value, json};

use super::work_queue::{WorkQueue, key};
use crate::informer::{Informer, ObjectEvent};
use crate::metadata::{name, namespace, uid};
use crate::object::{condition_status, controller_of, controller_reference, is_terminating, text};
use crate::resources::{PODS, Resource};
use crate::status::Status;
use crate::store::{DeleteOptions, Store};

/// The owners of one kind with their pods, counted incrementally.
#[derive(Debug)]
pub(super) struct OwnedPods {
    owners: Informer,
    pods: Informer,
    kind: &'static str,
    /// Owners to reconcile.
    pub(super) queue: WorkQueue,
    by_owner: BTreeMap<String, PodSet>,
}

/// The pods of one controller.
#[derive(Debug, Default)]
pub(super) struct PodSet {
    pods: BTreeMap<String, OwnedPod>,
    counts: Counts,
}

/// Numbers of pods. A terminating pod counts only if it had ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Neither ended nor terminating.
    pub(super) active: i64,
    /// Active and ready.
    pub(super) ready: i64,
    /// Succeeded.
    pub(super) succeeded: i64,
    /// Failed.
    pub(super) failed: i64,
}

/// The order in which a controller deletes pods, first to last: not scheduled, not running, not
/// ready, cheap to delete, new.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OwnedPod {
    scheduled: bool,
    running: bool,
    ready: bool,
    deletion_cost: i32,
    age: std::cmp::Reverse<Time>,
    uid: String,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Active,
    Terminating,
    Succeeded,
    Failed,
}

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

impl OwnedPod {
    fn of(pod: &Value) -> Self {
        let cost = pod["metadata"]["annotations"][DELETION_COST].as_str();
        let created = Time::parse_rfc3339(text(pod, "/metadata/creationTimestamp"));
        let phase = text(pod, "/status/phase");
        Self {
            scheduled: !text(pod, "/spec/nodeName").is_empty(),
            running: phase == "Running",
            ready: condition_status(pod, "Ready") == "True",
            deletion_cost: cost.and_then(|cost| cost.parse().ok()).unwrap_or(0),
            age: std::cmp::Reverse(created.unwrap_or_default()),
            uid: uid(pod).to_owned(),
            state: match phase {
                "Succeeded" => State::Succeeded,
                "Failed" => State::Failed,
                _ if is_terminating(pod) => State::Terminating,
                _ => State::Active,
            },
        }
    }

    fn counts(&self) -> Counts {
        let is = |state| i64::from(self.state == state);
        Counts {
            active: is(State::Active),
            ready: if self.ready { is(State::Active) } else { 0 },
            succeeded: is(State::Succeeded),
            failed: is(State::Failed),
        }
    }
}

impl Counts {
    fn add(&mut self, other: Self, times: i64) {
        self.active += times * other.active;
        self.ready += times * other.ready;
        self.succeeded += times * other.succeeded;
        self.failed += times * other.failed;
    }
}

impl PodSet {
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    fn set(&mut self, pod: &str, facts: Option<OwnedPod>) {
        if let Some(old) = self.pods.remove(pod) {
            self.counts.add(old.counts(), -1);
        }
        if let Some(new) = facts {
            self.counts.add(new.counts(), 1);
            self.pods.insert(pod.to_owned(), new);
        }
    }

    /// Returns the names of the pods, terminating ones included.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.pods.keys().map(String::as_str)
    }

    /// Returns names and UIDs of the active pods to delete first.
    pub(super) fn victims(&self, count: usize) -> Vec<(String, String)> {
        let mut active: Vec<_> =
            self.pods.iter().filter(|(_, pod)| pod.state == State::Active).collect();
        active.sort_by_key(|(_, pod)| *pod);
        active.truncate(count);
        active.into_iter().map(|(name, pod)| (name.clone(), pod.uid.clone())).collect()
    }
}

impl OwnedPods {
    /// Follows the owners of a kind and their pods.
    pub(super) fn new(owners: &'static Resource) -> Self {
        Self {
            owners: Informer::new(owners),
            pods: Informer::new(PODS),
            kind: owners.kind,
            queue: WorkQueue::default(),
            by_owner: BTreeMap::new(),
        }
    }

    /// Processes changes and queues the affected owners.
    pub(super) fn follow(&mut self, store: &Store) {
        for event in self.owners.events(store) {
            if let ObjectEvent::Present(owner) = event {
                self.queue.add(key(&owner));
            }
        }
        for event in self.pods.events(store) {
            self.take_pod(&event);
        }
    }

    fn take_pod(&mut self, event: &ObjectEvent) {
        let (ObjectEvent::Present(pod) | ObjectEvent::Removed(pod)) = event;
        let Some(owner) = controller_of(pod).filter(|owner| owner["kind"] == self.kind) else {
            return;
        };
        let pods = self.by_owner.entry(text(owner, "/uid").to_owned()).or_default();
        let present = matches!(event, ObjectEvent::Present(_));
        pods.set(name(pod), present.then(|| OwnedPod::of(pod)));
        if pods.pods.is_empty() {
            self.by_owner.remove(text(owner, "/uid"));
        }
        self.queue.add((namespace(pod).to_owned(), text(owner, "/name").to_owned()));
    }

    /// Returns the pods of the owner with this UID, `None` if it has none.
    pub(super) fn of(&self, uid: &str) -> Option<&PodSet> {
        self.by_owner.get(uid)
    }

    /// Deletes `count` pods of the owner, in the order of `victims`.
    pub(super) fn delete(&self, store: &mut Store, owner: &Value, count: usize, now: Time) {
        let Some(pods) = self.of(uid(owner)).filter(|_| count > 0) else { return };
        for (pod, uid) in pods.victims(count) {
            let options = DeleteOptions { uid: Some(uid), ..DeleteOptions::default() };
            // The pod may have been deleted by another client.
            store.delete(PODS, namespace(owner), &pod, &options, now).ok();
        }
    }
}

/// Creates up to `count` pods from the template of their controller.
///
/// # Errors
/// The first refusal of the API.
pub(super) fn create_pods(
    store: &mut Store,
    owner: &Value,
    count: i64,
    now: Time,
) -> Result<(), Status> {
    for _ in 0..count {
        store.create(PODS, pod_from_template(owner), now)?;
    }
    Ok(())
}

/// Returns a pod from the template of its controller, with a generated name.
pub(super) fn pod_from_template(owner: &Value) -> Value {
    let mut pod = controlled_by(owner);
    pod["metadata"]["generateName"] = format!("{}-", name(owner)).into();
    pod
}

/// Returns a pod from the template of its controller, without a name.
pub(super) fn controlled_by(owner: &Value) -> Value {
    let template = &owner["spec"]["template"];
    let mut metadata = metadata_of_template(template);
    metadata["namespace"] = namespace(owner).into();
    metadata["ownerReferences"] = json!([controller_reference(owner)]);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

/// Returns the metadata of objects made from a template.
pub(super) fn metadata_of_template(template: &Value) -> Value {
    let fields = ["annotations", "finalizers", "labels"].into_iter();
    let given = fields
        .filter_map(|field| Some((field.to_owned(), template["metadata"].get(field)?.clone())));
    Value::Object(given.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, spec: Value, status: Value, created: &str) -> Value {
        json!({"metadata": {"name": name, "uid": name, "creationTimestamp": created},
            "spec": spec, "status": status})
    }

    #[test]
    fn pods_to_delete_first_are_unscheduled_unready_or_new() {
        let ready =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let bound = json!({"nodeName": "n"});
        let mut cheap = pod("cheap", bound.clone(), ready.clone(), old);
        cheap["metadata"]["annotations"] = json!({DELETION_COST: "-1"});
        let pods = [
            pod("old", bound.clone(), ready.clone(), old),
            pod("new", bound.clone(), ready.clone(), new),
            cheap,
            pod("starting", bound.clone(), json!({"phase": "Pending"}), old),
            pod("not ready", bound, json!({"phase": "Running"}), old),
            pod("unscheduled", json!({}), json!({"phase": "Pending"}), old),
            pod("over", json!({}), json!({"phase": "Succeeded"}), old),
        ];
        let mut set = PodSet::default();
        for pod in &pods {
            set.set(name(pod), Some(OwnedPod::of(pod)));
        }
        let order: Vec<String> = set.victims(9).into_iter().map(|(name, _)| name).collect();
        assert_eq!(order, ["unscheduled", "starting", "not ready", "cheap", "new", "old"]);
        assert_eq!(set.counts(), Counts { active: 6, ready: 3, succeeded: 1, failed: 0 });
    }
}
