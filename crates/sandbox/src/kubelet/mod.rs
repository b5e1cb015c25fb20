//! Simulated kubelets: they admit the pods bound to their node, run them, end them, and send
//! heartbeats of the node.
//!
//! Every Node gets a kubelet unless it has the annotation [`KUBELET_ANNOTATION`]`: "false"`.
//! Containers are not run. A pod with the annotation [`RUN_SECONDS_ANNOTATION`] succeeds after that
//! time, all others run until they are deleted. Kubelets do not evict: taints with effect NoExecute
//! count only at admission.

mod admission;
mod device_claims;
mod heartbeat;
mod pod_status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use framework::{ExtraFields, Node, Pod, Time};
use serde_json::Value;

use crate::informer::{Informer, ObjectEvent};
use crate::metadata::{has_finalizers, name, namespace, uid};
use crate::object::{entries, is_terminating, number, text};
use crate::resources::{NODES, PODS, RESOURCECLAIMS};
use crate::status::Status;
use crate::store::{DeleteOptions, Store};

/// Annotation of a Node: with `"false"` it has no kubelet.
pub const KUBELET_ANNOTATION: &str = "sandbox.loadmaster.dev/kubelet";
/// Annotation of a pod: seconds until its containers succeed.
pub const RUN_SECONDS_ANNOTATION: &str = "sandbox.loadmaster.dev/run-seconds";

/// The settings of kubelets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Time from admission to running.
    pub start_delay: Duration,
    /// Time from deletion to the end of the containers, at most the grace period of the pod.
    pub stop_delay: Duration,
    /// Time between renewals of the lease of a node.
    pub lease_period: Duration,
    /// Time between renewals of the heartbeat times in the conditions of a node.
    pub status_period: Duration,
}

impl Default for Settings {
    /// Returns settings with which pods start and stop at once; periods are the periods of
    /// Kubernetes.
    fn default() -> Self {
        Self {
            start_delay: Duration::ZERO,
            stop_delay: Duration::ZERO,
            lease_period: Duration::from_secs(10),
            status_period: Duration::from_secs(300),
        }
    }
}

/// The kubelets of all nodes.
#[derive(Debug)]
pub struct Kubelets {
    settings: Settings,
    nodes: Informer,
    pods: Informer,
    claims: Informer,
    /// Kubelets by node.
    kubelets: BTreeMap<String, Kubelet>,
    /// Pods bound to nodes without a kubelet, by node.
    waiting: BTreeMap<String, BTreeSet<ObjectRef>>,
    /// Admitted pods whose claims for devices are not all allocated and reserved for them.
    unprepared: BTreeSet<ObjectRef>,
    /// Planned tasks, by time and in the order of planning.
    agenda: BTreeMap<(Time, u64), Task>,
    planned: u64,
    /// Number of assigned pod addresses.
    addresses: u32,
}

/// The kubelet of one node.
#[derive(Debug)]
struct Kubelet {
    node: Node,
    node_ref: ObjectRef,
    address: String,
    /// Admitted pods that have not ended, by UID. They use resources of the node.
    pods: BTreeMap<String, Pod>,
    /// UIDs of the terminating pods.
    stopping: BTreeSet<String>,
}

/// The identity of an object: name and UID.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ObjectRef {
    namespace: String,
    name: String,
    uid: String,
}

#[derive(Debug, Clone)]
enum Task {
    Start(ObjectRef),
    Complete(ObjectRef),
    Stop(ObjectRef),
    RenewLease(ObjectRef),
    Beat(ObjectRef),
}

impl ObjectRef {
    fn of(object: &Value) -> Self {
        Self {
            namespace: namespace(object).to_owned(),
            name: name(object).to_owned(),
            uid: uid(object).to_owned(),
        }
    }
}

impl Default for Kubelets {
    fn default() -> Self {
        Self::new()
    }
}

impl Kubelets {
    /// Returns kubelets with the default settings.
    pub fn new() -> Self {
        Self::with_settings(Settings::default())
    }

    /// Returns kubelets with these settings.
    pub fn with_settings(settings: Settings) -> Self {
        Self {
            settings,
            nodes: Informer::new(NODES),
            pods: Informer::new(PODS),
            claims: Informer::new(RESOURCECLAIMS),
            kubelets: BTreeMap::new(),
            waiting: BTreeMap::new(),
            unprepared: BTreeSet::new(),
            agenda: BTreeMap::new(),
            planned: 0,
            addresses: 0,
        }
    }

    /// Processes the changes in the store and all due tasks. Call it every few milliseconds while
    /// the store changes, and at [`next_deadline`](Self::next_deadline).
    pub fn step(&mut self, store: &mut Store, now: Time) {
        let mut arriving = Vec::new();
        for event in self.nodes.events(store) {
            match event {
                ObjectEvent::Present(node) if !has_kubelet(&node) => self.leave_node(name(&node)),
                ObjectEvent::Present(node) if self.knows_node(&node) => self.update_node(&node),
                ObjectEvent::Present(node) => {
                    self.leave_node(name(&node));
                    arriving.push(node);
                }
                ObjectEvent::Removed(node) => self.leave_node(name(&node)),
            }
        }
        for event in self.pods.events(store) {
            match event {
                ObjectEvent::Present(pod) => self.meet_pod(store, &pod, now),
                ObjectEvent::Removed(pod) => self.forget_pod(&pod),
            }
        }
        for node in arriving {
            self.start_kubelet(store, &node, now);
        }
        self.meet_claims(store, now);
        while let Some(task) = self.pop_due(now) {
            self.carry_out(store, task, now);
        }
    }

    /// Returns the time of the next due task, if nothing changes until then.
    pub fn next_deadline(&self) -> Option<Time> {
        self.agenda.first_key_value().map(|((time, _), _)| *time)
    }

    fn plan(&mut self, time: Time, task: Task) {
        self.planned += 1;
        self.agenda.insert((time, self.planned), task);
    }

    fn pop_due(&mut self, now: Time) -> Option<Task> {
        let entry = self.agenda.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// Starts the pods that a changed claim may have kept waiting.
    fn meet_claims(&mut self, store: &Store, now: Time) {
        let events = self.claims.events(store);
        if self.unprepared.is_empty() {
            return;
        }
        let changed: BTreeSet<String> = events
            .iter()
            .map(|event| match event {
                ObjectEvent::Present(claim) | ObjectEvent::Removed(claim) => {
                    namespace(claim).to_owned()
                }
            })
            .collect();
        let retried = self.unprepared.extract_if(.., |pod| changed.contains(&pod.namespace));
        let retried: Vec<ObjectRef> = retried.collect();
        retried.into_iter().for_each(|pod| self.plan(now, Task::Start(pod)));
    }

    fn knows_node(&self, object: &Value) -> bool {
        let kubelet = self.kubelets.get(name(object));
        kubelet.is_some_and(|kubelet| kubelet.node_ref.uid == uid(object))
    }

    fn update_node(&mut self, object: &Value) {
        if let Some(kubelet) = self.kubelets.get_mut(name(object)) {
            kubelet.node = node_from(object);
        }
    }

    /// Starts the kubelet of a node. Pods that run there keep their resources before new ones are
    /// admitted.
    fn start_kubelet(&mut self, store: &mut Store, object: &Value, now: Time) {
        let node_ref = ObjectRef::of(object);
        let mut addresses = entries(object, "/status/addresses");
        let address = addresses.find(|own| own["type"] == "InternalIP");
        let kubelet = Kubelet {
            node: node_from(object),
            node_ref: node_ref.clone(),
            address: address.map_or("", |own| text(own, "/address")).to_owned(),
            pods: BTreeMap::new(),
            stopping: BTreeSet::new(),
        };
        self.kubelets.insert(node_ref.name.clone(), kubelet);
        self.register(store, object, &node_ref, now);
        let waiting = self.waiting.remove(&node_ref.name).unwrap_or_default();
        let mut pods: Vec<Arc<Value>> =
            waiting.iter().filter_map(|pod| current(store, pod)).collect();
        pods.sort_by_key(|pod| !was_admitted(pod));
        for pod in pods {
            self.meet_pod(store, &pod, now);
        }
    }

    fn register(&mut self, store: &mut Store, object: &Value, node: &ObjectRef, now: Time) {
        let register = |node: &mut Value| {
            heartbeat::register(node, now);
            Ok(())
        };
        // The write fails if the node was deleted, which then needs no status.
        store.modify(NODES, "", &node.name, now, register).ok();
        heartbeat::renew_lease(store, object, now);
        let Settings { lease_period, status_period, .. } = self.settings;
        let offset = |period| share(period, &node.uid);
        self.plan(now + offset(lease_period), Task::RenewLease(node.clone()));
        self.plan(now + offset(status_period), Task::Beat(node.clone()));
    }

    fn leave_node(&mut self, node: &str) {
        let Some(kubelet) = self.kubelets.remove(node) else { return };
        let pods = kubelet.pods.into_iter().map(|(uid, pod)| ObjectRef {
            namespace: pod.key.namespace.to_string(),
            name: pod.key.name.to_string(),
            uid,
        });
        self.waiting.entry(node.to_owned()).or_default().extend(pods);
    }

    fn meet_pod(&mut self, store: &mut Store, pod: &Value, now: Time) {
        let node = text(pod, "/spec/nodeName");
        if node.is_empty() {
            return;
        }
        let Some(kubelet) = self.kubelets.get_mut(node) else {
            self.waiting.entry(node.to_owned()).or_default().insert(ObjectRef::of(pod));
            return;
        };
        let is_known = kubelet.pods.contains_key(uid(pod));
        if is_finished(pod) {
            kubelet.pods.remove(uid(pod));
        } else if !is_known && (was_admitted(pod) || !is_terminating(pod)) {
            self.take_in(store, pod, now);
        }
        if is_terminating(pod) {
            self.plan_stop(pod, now);
        }
    }

    fn plan_stop(&mut self, pod: &Value, now: Time) {
        let kubelet = self.kubelets.get_mut(text(pod, "/spec/nodeName"));
        if kubelet.is_some_and(|kubelet| kubelet.stopping.insert(uid(pod).to_owned())) {
            let delay = self.settings.stop_delay.min(grace(pod));
            self.plan(now + delay, Task::Stop(ObjectRef::of(pod)));
        }
    }

    /// Admits or rejects a pod. A pod that an earlier kubelet admitted keeps running.
    fn take_in(&mut self, store: &mut Store, object: &Value, now: Time) {
        let Some(kubelet) = self.kubelets.get_mut(text(object, "/spec/nodeName")) else { return };
        let Ok(pod) = Pod::from_json(object, &ExtraFields::default()) else { return };
        let pod_ref = ObjectRef::of(object);
        if !was_admitted(object)
            && let Err(rejection) = admission::admit(&pod, &kubelet.node, kubelet.pods.values())
        {
            write_status(store, &pod_ref, now, |pod| pod_status::reject(pod, &rejection, now));
            return;
        }
        kubelet.pods.insert(pod_ref.uid.clone(), pod);
        if text(object, "/status/phase") == "Running" {
            let started = Time::parse_rfc3339(text(object, "/status/startTime"));
            self.plan_end(object, started.unwrap_or(now));
        } else {
            self.plan(now + self.settings.start_delay, Task::Start(pod_ref));
        }
    }

    /// Plans the success of a pod with a run time.
    fn plan_end(&mut self, pod: &Value, started: Time) {
        let seconds = annotation(pod, RUN_SECONDS_ANNOTATION).and_then(|text| text.parse().ok());
        if let Some(seconds) = seconds {
            self.plan(started + Duration::from_secs(seconds), Task::Complete(ObjectRef::of(pod)));
        }
    }

    fn forget_pod(&mut self, pod: &Value) {
        self.unprepared.remove(&ObjectRef::of(pod));
        let node = text(pod, "/spec/nodeName");
        if let Some(kubelet) = self.kubelets.get_mut(node) {
            kubelet.pods.remove(uid(pod));
            kubelet.stopping.remove(uid(pod));
        } else if let Some(waiting) = self.waiting.get_mut(node) {
            waiting.remove(&ObjectRef::of(pod));
            if waiting.is_empty() {
                self.waiting.remove(node);
            }
        }
    }

    fn carry_out(&mut self, store: &mut Store, task: Task, now: Time) {
        match task {
            Task::Start(pod) => self.start(store, &pod, now),
            Task::Complete(pod) => {
                write_status(store, &pod, now, |pod| pod_status::succeed(pod, now));
            }
            Task::Stop(pod) => stop(store, &pod, now),
            Task::RenewLease(node) => {
                if let Some(object) = self.own_node(store, &node) {
                    heartbeat::renew_lease(store, &object, now);
                    self.plan(now + self.settings.lease_period, Task::RenewLease(node));
                }
            }
            Task::Beat(node) => {
                if self.own_node(store, &node).is_some() {
                    let beat = |node: &mut Value| {
                        heartbeat::beat(node, now);
                        Ok(())
                    };
                    store.modify(NODES, "", &node.name, now, beat).ok();
                    self.plan(now + self.settings.status_period, Task::Beat(node));
                }
            }
        }
    }

    fn start(&mut self, store: &mut Store, pod: &ObjectRef, now: Time) {
        let Some(object) = current(store, pod) else { return };
        let Some(kubelet) = self.kubelets.get(text(&object, "/spec/nodeName")) else { return };
        if !kubelet.pods.contains_key(&pod.uid) || is_terminating(&object) {
            return;
        }
        if !device_claims::are_ready(store, &object) {
            self.unprepared.insert(pod.clone());
            return;
        }
        let host_ip = kubelet.address.clone();
        let pod_ip = match object["spec"]["hostNetwork"].as_bool() {
            Some(true) => host_ip.clone(),
            _ => self.next_address(),
        };
        write_status(store, pod, now, |pod| pod_status::run(pod, &pod_ip, &host_ip, now));
        self.plan_end(&object, now.floor_to_second());
    }

    /// Returns the next address of 10.0.0.0/8.
    fn next_address(&mut self) -> String {
        self.addresses = self.addresses % 0x00ff_fffe + 1;
        let [_, a, b, c] = self.addresses.to_be_bytes();
        format!("10.{a}.{b}.{c}")
    }

    /// Returns the node, if this kubelet was started for it.
    fn own_node(&self, store: &Store, node: &ObjectRef) -> Option<Arc<Value>> {
        let kubelet = self.kubelets.get(&node.name)?;
        let object = store.get(NODES, "", &node.name)?;
        (kubelet.node_ref == *node && uid(object) == node.uid).then(|| object.clone())
    }
}

/// Ends a terminating pod: its containers exit, and the object is removed unless it has finalizers.
fn stop(store: &mut Store, pod: &ObjectRef, now: Time) {
    let Some(object) = current(store, pod) else { return };
    if has_finalizers(&object) {
        write_status(store, pod, now, |pod| pod_status::succeed(pod, now));
    }
    let options = DeleteOptions { uid: Some(pod.uid.clone()), ..DeleteOptions::with_grace(0) };
    // Another client may have removed the pod.
    store.delete(PODS, &pod.namespace, &pod.name, &options, now).ok();
}

/// Writes the status of a pod that has not ended, if the pod exists.
fn write_status(store: &mut Store, pod: &ObjectRef, now: Time, write: impl FnOnce(&mut Value)) {
    let change = |object: &mut Value| -> Result<(), Status> {
        if uid(object) == pod.uid && !is_finished(object) {
            write(object);
        }
        Ok(())
    };
    store.modify(PODS, &pod.namespace, &pod.name, now, change).ok();
}

fn current(store: &Store, pod: &ObjectRef) -> Option<Arc<Value>> {
    let object = store.get(PODS, &pod.namespace, &pod.name)?;
    (uid(object) == pod.uid).then(|| object.clone())
}

/// Decodes a node. A node that does not decode gets a kubelet without resources.
fn node_from(object: &Value) -> Node {
    let node = Node::from_json(object, &ExtraFields::default()).map(|(node, _)| node);
    node.unwrap_or_else(|_| Node { name: name(object).into(), ..Node::default() })
}

fn has_kubelet(node: &Value) -> bool {
    annotation(node, KUBELET_ANNOTATION) != Some("false")
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

fn is_finished(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Returns whether a kubelet has admitted the pod.
fn was_admitted(pod: &Value) -> bool {
    !text(pod, "/status/startTime").is_empty()
}

fn grace(pod: &Value) -> Duration {
    let seconds = number(pod, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// Returns a part of the period that depends on the node, so that not all nodes report at once.
fn share(period: Duration, uid: &str) -> Duration {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    period.mul_f64((hasher.finish() % 1000) as f64 / 1000.0)
}
