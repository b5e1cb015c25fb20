//! What changes in the world do to cache and queue (event handlers, in Kubernetes).

use std::sync::Arc;

use framework::{ActionType, ClusterEvent, EventResource, Node, Pod, PodKey, Status, Time, Uid};

use serde_json::Value;

use crate::classify::{node_updates, pod_updates};
use crate::engine::{Change, Engine, cx};
use crate::occurrence::{Objects, Occurrence};
use crate::ports::Ports;

impl Engine {
    /// Takes in a change: the state of an object as it is now, however it came there.
    pub fn apply(&mut self, change: Change, now: Time, ports: &mut Ports<'_>) {
        let changed = self.bindings.wait_for_changes().then(|| change.object());
        match change {
            Change::Node(node) => self.apply_node(node, now, ports),
            Change::NodeDeleted(name) => self.delete_node(&name, now, ports),
            Change::Pod(pod) => self.apply_pod(*pod, now, ports),
            Change::PodDeleted { key, uid } => self.delete_pod(&key, &uid, now, ports),
            Change::Object { kind, namespace, name, object } => {
                self.apply_object(kind, &namespace, &name, object, now, ports);
            }
        }
        if let Some(changed) = changed {
            self.wake_bindings(&changed, now, ports);
        }
        self.carry_out_commands(now, ports);
    }

    fn apply_node(&mut self, node: Node, now: Time, ports: &mut Ports<'_>) {
        let old = self.cache.node(&node.name);
        if self.cache.set_node(&node).is_empty() {
            // A heartbeat.
            return;
        }
        let actions = match &old {
            None => vec![ActionType::ADD],
            // Both as the cache knows them, which forgets amounts of nothing.
            Some(old) => {
                self.cache.node(&node.name).map_or_else(Vec::new, |new| node_updates(old, &new))
            }
        };
        let (old, new) = (old.map(Arc::new), Arc::new(node));
        for action in actions {
            let event = ClusterEvent::new(EventResource::Node, action);
            let objects = Objects::Node(old.clone(), Some(new.clone()));
            self.move_all(&Occurrence { event, objects }, &|_| true, now, ports.probe);
        }
    }

    fn delete_node(&mut self, name: &str, now: Time, ports: &mut Ports<'_>) {
        let Some(old) = self.cache.node(name).map(Arc::new) else { return };
        let event = ClusterEvent::new(EventResource::Node, ActionType::DELETE);
        let objects = Objects::Node(Some(old), None);
        self.move_all(&Occurrence { event, objects }, &|_| true, now, ports.probe);
        self.cache.remove_node(name);
    }

    /// Kinds other than pods and nodes know additions, deletions, and updates of whatever sort.
    fn apply_object(
        &mut self,
        kind: EventResource,
        namespace: &str,
        name: &str,
        object: Option<Arc<Value>>,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let old = self.cache.set_object(&kind, namespace, name, object.clone());
        let action = match (&old, &object) {
            (None, None) => return,
            (Some(old), Some(new)) if old == new => return,
            (None, Some(_)) => ActionType::ADD,
            (Some(_), Some(_)) => ActionType::UPDATE,
            (Some(_), None) => ActionType::DELETE,
        };
        let event = ClusterEvent::new(kind, action);
        let occurrence = Occurrence { event, objects: Objects::Other(old, object) };
        self.move_all(&occurrence, &|_| true, now, ports.probe);
    }

    fn apply_pod(&mut self, mut pod: Pod, now: Time, ports: &mut Ports<'_>) {
        self.cache.share(&mut pod);
        let pod = Arc::new(pod);
        let replaced = self.pending.get(&pod.key).filter(|known| known.uid != pod.uid);
        if let Some(replaced) = replaced.cloned() {
            self.delete_pod(&replaced.key, &replaced.uid, now, ports);
        }
        match pod.node_name.clone() {
            _ if pod.terminal => self.delete_pod(&pod.key, &pod.uid, now, ports),
            Some(node) => self.apply_assigned(pod, &node, now, ports),
            None if self.is_responsible_for(&pod) => self.apply_unassigned(pod, now, ports),
            None => {}
        }
    }

    fn apply_assigned(&mut self, pod: Arc<Pod>, node: &Arc<str>, now: Time, ports: &mut Ports<'_>) {
        let was_assumed = self.cache.is_assumed(&pod.uid);
        if pod.terminating {
            self.victim_settled(&pod.uid);
        }
        let before = self.cache.apply(pod.clone(), node);
        let stays = before.as_ref().is_none_or(|before| before.node_name == pod.node_name);
        if !stays {
            // Somebody else has bound it: the room it was assumed to take is free.
            self.assigned_pod_event(ActionType::DELETE, before.clone(), None, now, ports);
        }
        let known = before.filter(|_| stays && !was_assumed);
        let actions = match &known {
            None => vec![ActionType::ADD],
            Some(old) => pod_updates(old, &pod),
        };
        for action in actions {
            self.assigned_pod_event(action, known.clone(), Some(pod.clone()), now, ports);
        }
        if let Some(pending) = self.pending.remove(&pod.key) {
            self.preemptor_leaves(&pod.uid, now);
            self.queue.delete(&pending, &mut cx!(self, now, ports.probe));
            self.confirm_binding(&pod, node, now, ports);
        }
    }

    fn apply_unassigned(&mut self, pod: Arc<Pod>, now: Time, ports: &mut Ports<'_>) {
        if self.cache.placed(&pod.uid).is_some() && !self.cache.is_assumed(&pod.uid) {
            // It has been seen bound, which nothing undoes: this is an older version.
            return;
        }
        let Some(old) = self.pending.insert(pod.key.clone(), pod.clone()) else {
            self.queue.add(pod, &mut cx!(self, now, ports.probe));
            return;
        };
        if old.resource_version == pod.resource_version && pod.resource_version != 0 {
            return;
        }
        if self.cache.placed(&pod.uid).is_some() {
            if !old.terminating && pod.terminating {
                self.assumed_pod_deleted(&pod.uid, now, ports);
            } else if self.queue.is_in_flight(&pod.uid) {
                // A plugin may still reject it, and 1.36 would not know that this may have helped.
                self.queue.update(&old, pod, &mut cx!(self, now, ports.probe));
            }
            return;
        }
        self.queue.update(&old, pod.clone(), &mut cx!(self, now, ports.probe));
        if old.nominated_node_name.is_some() && old.nominated_node_name != pod.nominated_node_name {
            self.nomination_ended(old, now, ports);
        }
    }

    fn delete_pod(&mut self, key: &PodKey, uid: &Uid, now: Time, ports: &mut Ports<'_>) {
        self.victim_settled(uid);
        if self.cache.placed(uid).is_some() && !self.cache.is_assumed(uid) {
            let pod = self.cache.remove(uid);
            self.assigned_pod_event(ActionType::DELETE, pod, None, now, ports);
        }
        if self.pending.get(key).is_none_or(|pending| pending.uid != *uid) {
            return;
        }
        let Some(pending) = self.pending.remove(key) else { return };
        self.preemptor_leaves(uid, now);
        self.queue.delete(&pending, &mut cx!(self, now, ports.probe));
        if self.cache.is_assumed(uid) {
            self.assumed_pod_deleted(uid, now, ports);
        } else if pending.nominated_node_name.is_some() {
            self.nomination_ended(pending, now, ports);
        }
    }

    /// A pod that was on its way to a node is being deleted, or gone: its room is free at once, unless
    /// it waits in Permit, where its binding cycle frees it.
    fn assumed_pod_deleted(&mut self, uid: &Uid, now: Time, ports: &mut Ports<'_>) {
        let pod = self.cache.placed(uid).map(|placed| placed.pod.clone());
        let removed = Status::unschedulable("removed");
        if !self.reject_waiting(uid, removed, now, ports) && self.cache.is_assumed(uid) {
            self.cache.remove(uid);
        }
        self.assigned_pod_event(ActionType::DELETE, pod, None, now, ports);
    }

    /// Room that was reserved by a nomination is free for pods of at most that priority.
    fn nomination_ended(&mut self, pod: Arc<Pod>, now: Time, ports: &mut Ports<'_>) {
        let priority = pod.priority();
        let event = ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE);
        let objects = Objects::Pod(Some(pod), None);
        let may_move = move |other: &Pod| other.priority() <= priority;
        self.move_all(&Occurrence { event, objects }, &may_move, now, ports.probe);
    }

    /// The room of a pod that came back rejected is free for every other pod.
    pub(crate) fn freed_for_others(&mut self, pod: Arc<Pod>, now: Time, ports: &mut Ports<'_>) {
        let uid = pod.uid.clone();
        let event = ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE);
        let objects = Objects::Pod(Some(pod), None);
        let may_move = move |other: &Pod| other.uid != uid;
        self.move_all(&Occurrence { event, objects }, &may_move, now, ports.probe);
    }

    pub(crate) fn assigned_pod_event(
        &mut self,
        action: ActionType,
        old: Option<Arc<Pod>>,
        new: Option<Arc<Pod>>,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let event = ClusterEvent::new(EventResource::AssignedPod, action);
        let objects = Objects::Pod(old, new);
        self.move_all(&Occurrence { event, objects }, &|_| true, now, ports.probe);
    }
}
