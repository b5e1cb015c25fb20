//! Pods by the controller that owns them.

use std::collections::BTreeMap;

use framework::Time;
use serde_json::{Value, json};

use super::work_queue::{WorkQueue, key};
use crate::informer::{Informer, News};
use crate::metadata::{name, namespace, uid};
use crate::object::{condition_status, controller_of, controller_reference, is_terminating, text};
use crate::resources::{PODS, Resource};
use crate::status::Status;
use crate::store::{DeleteOptions, Store};

/// The owners of one kind with their pods, counted as they come and go.
#[derive(Debug)]
pub(super) struct OwnedPods {
    owners: Informer,
    pods: Informer,
    kind: &'static str,
    /// Owners to look at.
    pub(super) queue: WorkQueue,
    by_owner: BTreeMap<String, PodSet>,
}

/// The pods of one controller.
#[derive(Debug, Default)]
pub(super) struct PodSet {
    pods: BTreeMap<String, OwnedPod>,
    counts: Counts,
}

/// Numbers of pods. One that is being deleted counts only if it has ended before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Not ended and not being deleted.
    pub(super) active: i64,
    /// Active and ready.
    pub(super) ready: i64,
    /// Ended well.
    pub(super) succeeded: i64,
    /// Ended otherwise.
    pub(super) failed: i64,
}

/// What controllers look at in a pod, ordered so that the first is the first to be deleted: not
/// scheduled, not running, not ready, cheap to delete, new.
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

    /// The names of the pods, also of those that are being deleted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.pods.keys().map(String::as_str)
    }

    /// Names and uids of the active pods that are best deleted, best first.
    pub(super) fn victims(&self, count: usize) -> Vec<(String, String)> {
        let mut active: Vec<_> =
            self.pods.iter().filter(|(_, pod)| pod.state == State::Active).collect();
        active.sort_by_key(|(_, pod)| *pod);
        active.truncate(count);
        active.into_iter().map(|(name, pod)| (name.clone(), pod.uid.clone())).collect()
    }
}

impl OwnedPods {
    /// Follows the owners of this kind, and the pods they own.
    pub(super) fn new(owners: &'static Resource) -> Self {
        Self {
            owners: Informer::new(owners),
            pods: Informer::new(PODS),
            kind: owners.kind,
            queue: WorkQueue::default(),
            by_owner: BTreeMap::new(),
        }
    }

    /// Takes in what is new and queues the owners it is about.
    pub(super) fn follow(&mut self, store: &Store) {
        for news in self.owners.news(store) {
            if let News::Present(owner) = news {
                self.queue.add(key(&owner));
            }
        }
        for news in self.pods.news(store) {
            self.take_pod(&news);
        }
    }

    fn take_pod(&mut self, news: &News) {
        let (News::Present(pod) | News::Gone(pod)) = news;
        let Some(owner) = controller_of(pod).filter(|owner| owner["kind"] == self.kind) else {
            return;
        };
        let pods = self.by_owner.entry(text(owner, "/uid").to_owned()).or_default();
        let present = matches!(news, News::Present(_));
        pods.set(name(pod), present.then(|| OwnedPod::of(pod)));
        if pods.pods.is_empty() {
            self.by_owner.remove(text(owner, "/uid"));
        }
        self.queue.add((namespace(pod).to_owned(), text(owner, "/name").to_owned()));
    }

    /// The pods of the owner with this uid, `None` if it has none.
    pub(super) fn of(&self, uid: &str) -> Option<&PodSet> {
        self.by_owner.get(uid)
    }

    /// Deletes `count` pods of the owner, those that are missed least.
    pub(super) fn delete(&self, store: &mut Store, owner: &Value, count: usize, now: Time) {
        let Some(pods) = self.of(uid(owner)).filter(|_| count > 0) else { return };
        for (pod, uid) in pods.victims(count) {
            let options = DeleteOptions { uid: Some(uid), ..DeleteOptions::default() };
            // It may be gone by itself.
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

/// A pod as the template of its controller wants it, with a generated name.
fn pod_from_template(owner: &Value) -> Value {
    let mut pod = controlled_by(owner);
    pod["metadata"]["generateName"] = format!("{}-", name(owner)).into();
    pod
}

/// A pod as the template of its controller wants it, still without a name.
pub(super) fn controlled_by(owner: &Value) -> Value {
    let template = &owner["spec"]["template"];
    let mut metadata = metadata_of_template(template);
    metadata["namespace"] = namespace(owner).into();
    metadata["ownerReferences"] = json!([controller_reference(owner)]);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

/// The metadata that a template gives to the objects made from it.
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
    fn the_pods_that_are_missed_least_go_first() {
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
