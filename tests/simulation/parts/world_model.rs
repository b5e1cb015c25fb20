//! A naive model of what the scheduler knows: nodes, placed and pending pods, nominations and
//! waits, in lists.
//!
//! It has the rules of `eventhandlers.go`, `cache.go`, `nominator.go` and `waiting_pods_map.go` in
//! kube-scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::profile::Profiles;
use engine::queue::{QueueConfig, Updated};
use engine::world::{ExpiredWait, World};
use engine::{Change, EffectId, ObjectEvent, Objects};
use framework::{
    ActionType, Cluster, ClusterEvent, EventResource, Labels, Node, NodeIx, NominatedPods,
    NominatingInfo, Object, ObjectKey, ObjectUpdate, Pod, PodKey, QueuedPod, Time, Uid, WaitingPod,
};
use testkit::HandleParts;

use super::super::rules::{Checked, rule};
use super::queue_model::{self, Around};
use super::updates;

/// A pod on a node.
#[derive(Debug, Clone)]
struct Placed {
    pod: Arc<Pod>,
    node: Arc<str>,
    is_assumed: bool,
}

/// A pod for which room on a node is kept.
#[derive(Debug, Clone)]
struct Nomination {
    pod: Arc<Pod>,
    node: Arc<str>,
}

/// Names of nodes that were requested to be written as the nomination of a pod, since the watch
/// last showed one of them, or the one that was there before.
#[derive(Debug)]
struct Writes {
    shown: String,
    requested: Vec<Requested>,
}

/// A requested write.
#[derive(Debug, Clone)]
struct Requested {
    node: String,
    effect: Option<EffectId>,
    /// The version of the pod after the write, if the answer has shown it.
    version: Option<u64>,
}

/// Region and zone.
type Zone = (String, String);

/// What a step changes about nodes, by name, as the change log has it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    objects: BTreeSet<Arc<str>>,
    pods: BTreeSet<Arc<str>>,
    starts: BTreeSet<Arc<str>>,
}

/// The model.
#[derive(Debug)]
pub(super) struct Model {
    profiles: &'static Profiles,
    pub(super) queue: queue_model::Model,
    /// What plugins see.
    cluster: Cluster,
    nodes: BTreeMap<Arc<str>, Node>,
    /// The zones in the order in which their first nodes came, and their nodes in order of arrival.
    zones: Vec<(Zone, Vec<Arc<str>>)>,
    placed: Vec<Placed>,
    pub(super) pending: BTreeMap<PodKey, Arc<Pod>>,
    /// In the order of nomination.
    nominations: Vec<Nomination>,
    writes: BTreeMap<Uid, Writes>,
    waiting: BTreeMap<Uid, WaitingPod>,
    /// The objects of other kinds.
    objects: BTreeMap<ObjectKey, Object>,
    /// The evictions that the status of a budget may not count yet.
    evicting: BTreeMap<String, BTreeSet<Uid>>,
    /// The nodes on which preemptions were in vain.
    pub(super) contested: BTreeSet<Arc<str>>,
    /// The labels of handled events.
    handled: Vec<String>,
    changes: Changes,
}

/// Changes of objects.
impl Model {
    pub(super) fn new(profiles: &'static Profiles, config: QueueConfig) -> Self {
        Self {
            profiles,
            queue: queue_model::Model::new(config),
            cluster: Cluster::default(),
            nodes: BTreeMap::new(),
            zones: Vec::new(),
            placed: Vec::new(),
            pending: BTreeMap::new(),
            nominations: Vec::new(),
            writes: BTreeMap::new(),
            waiting: BTreeMap::new(),
            objects: BTreeMap::new(),
            evicting: BTreeMap::new(),
            contested: BTreeSet::new(),
            handled: Vec::new(),
            changes: Changes::default(),
        }
    }

    /// Handles a change. Returns what the engine is notified of.
    pub(super) fn apply(&mut self, change: &Change, now: Time) -> Vec<String> {
        match change {
            Change::Node(node) => self.set_node(node, now),
            Change::NodeDeleted(name) => self.delete_node(name, now),
            Change::Object(object) => self.set_object(object.key(), Some(object), now),
            Change::ObjectDeleted(key) => self.set_object(key, None, now),
            Change::PodDeleted { key, uid } => return self.delete_pod(key, uid, now),
            Change::Pod(pod) => return self.set_pod(&Arc::new((**pod).clone()), now),
        }
        Vec::new()
    }

    fn set_node(&mut self, node: &Node, now: Time) {
        let old = self.nodes.insert(node.name.clone(), node.clone());
        if old.as_ref() == Some(node) {
            return;
        }
        self.cluster.set_node(node);
        self.changes.objects.insert(node.name.clone());
        let zone = zone_of(&node.labels);
        let is_there =
            |(known, names): &(Zone, Vec<Arc<str>>)| *known == zone && names.contains(&node.name);
        if !self.zones.iter().any(is_there) {
            self.leave_zone(&node.name);
            match self.zones.iter_mut().find(|(known, _)| *known == zone) {
                Some((_, names)) => names.push(node.name.clone()),
                None => self.zones.push((zone, vec![node.name.clone()])),
            }
        }
        let actions = old.as_ref().map_or(vec![ActionType::ADD], |old| updates::of_node(old, node));
        let (old, new) = (old.map(Arc::new), Some(Arc::new(node.clone())));
        for action in actions {
            self.move_node(action, old.clone(), new.clone(), now);
        }
    }

    fn delete_node(&mut self, name: &Arc<str>, now: Time) {
        let Some(old) = self.nodes.get(name).cloned() else { return };
        // Its pods are moved before it goes.
        self.move_node(ActionType::DELETE, Some(Arc::new(old)), None, now);
        self.nodes.remove(name);
        self.cluster.remove_node(name);
        self.leave_zone(name);
        self.contested.remove(name);
        self.clear_nominations_to(name);
        self.changes.objects.insert(name.clone());
    }

    /// The nominations of waiting pods to a node that is gone end. An attempt or a bind decides
    /// about its own.
    fn clear_nominations_to(&mut self, node: &str) {
        let nominated = self.nominations.iter().filter(|own| *own.node == *node);
        let pods: Vec<Arc<Pod>> = nominated.map(|own| own.pod.clone()).collect();
        for pod in pods {
            let is_assumed = self.placed.iter().any(|placed| placed.pod.uid == pod.uid);
            let is_under_way = is_assumed || self.queue.is_in_flight(&pod.uid);
            if !is_under_way && self.pending.contains_key(&pod.key) {
                self.end_nomination(&pod, None);
            }
        }
    }

    fn leave_zone(&mut self, name: &str) {
        self.zones.iter_mut().for_each(|(_, names)| names.retain(|own| **own != *name));
        self.zones.retain(|(_, names)| !names.is_empty());
    }

    fn move_node(
        &mut self,
        action: ActionType,
        old: Option<Arc<Node>>,
        new: Option<Arc<Node>>,
        now: Time,
    ) {
        let event = ClusterEvent::new(EventResource::Node, action);
        self.handled.push(event.to_string());
        self.notify(&ObjectEvent { event, objects: Objects::Node(old, new) }, &|_| true, now);
    }

    fn set_object(&mut self, key: &ObjectKey, new: Option<&Object>, now: Time) {
        let old = match new {
            Some(new) => self.objects.insert(key.clone(), new.clone()),
            None => self.objects.remove(key),
        };
        let name = &*key.name;
        if key.kind == EventResource::PodDisruptionBudget {
            // Its status may now count the evicted pods that have ended.
            let runs: BTreeSet<Uid> = self.running().collect();
            match new {
                Some(_) => self
                    .evicting
                    .entry(name.to_owned())
                    .or_default()
                    .retain(|uid| runs.contains(uid)),
                None => drop(self.evicting.remove(name)),
            }
        }
        self.handle_update(ObjectUpdate { old, new: new.cloned() }, now);
    }

    pub(super) fn handle_update(&mut self, update: ObjectUpdate, now: Time) {
        let ObjectUpdate { old, new } = update;
        let json = |object: &Option<Object>| object.as_ref().map(Object::json);
        let has_changed = json(&old) != json(&new);
        let action = match (&old, &new) {
            (None, None) => return,
            (None, Some(_)) => ActionType::ADD,
            (Some(_), Some(_)) => ActionType::UPDATE,
            (Some(_), None) => ActionType::DELETE,
        };
        let Some(object) = new.as_ref().or(old.as_ref()) else { return };
        let event = ClusterEvent::new(object.kind().clone(), action);
        self.handled.push(event.to_string());
        if has_changed {
            let objects = Objects::Other(old.map(Arc::new), new.map(Arc::new));
            self.notify(&ObjectEvent { event, objects }, &|_| true, now);
        }
    }

    fn set_pod(&mut self, pod: &Arc<Pod>, now: Time) -> Vec<String> {
        let mut changed = Vec::new();
        // A pod of another UID under the name means that the former one is gone.
        if let Some(former) =
            self.pending.get(&pod.key).filter(|known| known.uid != pod.uid).cloned()
        {
            changed = self.delete_pod(&former.key, &former.uid, now);
        }
        let is_ours = self.profiles.get(&pod.spec.scheduler_name).is_some();
        changed.extend(match &pod.node_name {
            _ if pod.terminal => self.delete_pod(&pod.key, &pod.uid, now),
            Some(node) => self.set_assigned(pod, node, now),
            None if is_ours => self.set_pending(pod, now),
            None => Vec::new(),
        });
        changed
    }

    fn set_assigned(&mut self, pod: &Arc<Pod>, node: &Arc<str>, now: Time) -> Vec<String> {
        let before = self.placed.iter().find(|placed| placed.pod.uid == pod.uid).cloned();
        self.placed.retain(|placed| placed.pod.uid != pod.uid);
        self.placed.push(Placed { pod: pod.clone(), node: node.clone(), is_assumed: false });
        self.log_placed(before.as_ref(), pod, node);
        let is_elsewhere = before.as_ref().is_some_and(|before| before.node != *node);
        let was_assumed = before.as_ref().is_some_and(|before| before.is_assumed);
        let before = before.map(|before| before.pod);
        if is_elsewhere {
            // The room on the other node is free.
            self.move_assigned(ActionType::DELETE, before.clone(), None, now);
        }
        let known = before.filter(|_| !is_elsewhere && !was_assumed);
        let actions = known.as_ref().map_or(vec![ActionType::ADD], |old| updates::of_pod(old, pod));
        for action in actions {
            self.handled.push(format!("AssignedPod{}", action.name()));
            self.move_assigned(action, known.clone(), Some(pod.clone()), now);
        }
        if known.is_some() {
            self.handled.push("AssignedPodUpdate".to_owned());
        }
        let Some(pending) = self.pending.remove(&pod.key) else { return Vec::new() };
        let nominated = self.nominated_node(&pod.uid);
        self.leave_queue(&pending, now);
        if nominated.is_some_and(|nominated| nominated != *node) {
            self.move_after_nomination(&pending, now);
        }
        self.handled.push("UnscheduledPodDelete".to_owned());
        vec![format!("{} is bound to {node}", pod.uid)]
    }

    /// Notes what the change log has: pods that came, went or have changed as far as plugins see
    /// it.
    fn log_placed(&mut self, before: Option<&Placed>, pod: &Arc<Pod>, node: &Arc<str>) {
        let Some(before) = before else {
            self.changes.pods.insert(node.clone());
            return;
        };
        let old = &before.pod;
        let is_alike = before.node == *node
            && (old.terminating, &old.labels, &old.requests, &old.spec, &old.extra)
                == (pod.terminating, &pod.labels, &pod.requests, &pod.spec, &pod.extra);
        if !is_alike {
            self.changes.pods.extend([before.node.clone(), node.clone()]);
        } else if old.start_time != pod.start_time {
            self.changes.starts.insert(node.clone());
        }
    }

    fn set_pending(&mut self, pod: &Arc<Pod>, now: Time) -> Vec<String> {
        let placed = self.placed.iter().find(|placed| placed.pod.uid == pod.uid);
        let (is_assumed, is_confirmed) =
            (placed.is_some_and(|own| own.is_assumed), placed.is_some_and(|own| !own.is_assumed));
        if is_confirmed {
            // A bind cannot be undone, so this version is older.
            return Vec::new();
        }
        let Some(old) = self.pending.insert(pod.key.clone(), pod.clone()) else {
            let updated = self.on_queue(now, |queue, around| queue.add(pod, around));
            self.nominate_by_status(pod, updated);
            self.handled.push("UnscheduledPodAdd".to_owned());
            return Vec::new();
        };
        if old.resource_version == pod.resource_version && pod.resource_version != 0 {
            return Vec::new();
        }
        self.note_shown(pod);
        let mut changed = Vec::new();
        if is_assumed && pod.terminating && !old.terminating {
            changed.push(format!("assumed {} goes", pod.uid));
        } else if !is_assumed || self.queue.is_in_flight(&pod.uid) {
            self.update_in_queue(&old, pod, now);
            let lost_nomination = old.nominated_node_name().is_some()
                && old.nominated_node_name() != pod.nominated_node_name();
            if lost_nomination && !is_assumed {
                self.move_after_nomination(&old, now);
            }
        }
        self.handled.push("UnscheduledPodUpdate".to_owned());
        for part in updates::of_pod(&old, pod) {
            if part != ActionType::UPDATE {
                self.handled.push(format!("UnscheduledPod{}", part.name()));
            }
        }
        changed
    }

    fn delete_pod(&mut self, key: &PodKey, uid: &Uid, now: Time) -> Vec<String> {
        let mut changed = Vec::new();
        let confirmed =
            self.placed.iter().find(|own| own.pod.uid == *uid && !own.is_assumed).cloned();
        if let Some(gone) = confirmed {
            self.take_off(uid);
            changed.push(format!("{uid} is gone"));
            self.handled.push("AssignedPodDelete".to_owned());
            self.move_assigned(ActionType::DELETE, Some(gone.pod), None, now);
        }
        let Some(pending) = self.pending.get(key).filter(|own| own.uid == *uid).cloned() else {
            return changed;
        };
        self.pending.remove(key);
        let nominated = self.nominated_node(uid);
        self.leave_queue(&pending, now);
        changed.push(format!("pending {uid} is gone"));
        changed.push(format!("{uid} is gone"));
        if self.placed.iter().any(|own| own.pod.uid == *uid) {
            changed.push(format!("assumed {uid} goes"));
        } else if nominated.is_some() || pending.nominated_node_name().is_some() {
            self.move_after_nomination(&pending, now);
        }
        self.handled.push("UnscheduledPodDelete".to_owned());
        changed
    }

    fn nominated_node(&self, uid: &Uid) -> Option<Arc<str>> {
        self.nominations.iter().find(|own| own.pod.uid == *uid).map(|own| own.node.clone())
    }

    /// The room that was kept for a pod is free for pods that are no more important.
    fn move_after_nomination(&mut self, pod: &Arc<Pod>, now: Time) {
        let event = assigned_event(ActionType::DELETE, Some(pod.clone()), None);
        self.notify(&event, &|other| other.priority() <= pod.priority(), now);
    }

    fn move_assigned(
        &mut self,
        action: ActionType,
        old: Option<Arc<Pod>>,
        new: Option<Arc<Pod>>,
        now: Time,
    ) {
        self.notify(&assigned_event(action, old, new), &|_| true, now);
    }

    pub(super) fn notify(
        &mut self,
        event: &ObjectEvent,
        may_move: &dyn Fn(&Pod) -> bool,
        now: Time,
    ) {
        self.on_queue(now, |queue, around| queue.move_all(event, may_move, around));
    }

    fn update_in_queue(&mut self, old: &Arc<Pod>, new: &Arc<Pod>, now: Time) {
        if self.queue.is_in_flight(&new.uid) {
            self.refresh_nomination(new);
        } else if self.queue.has(&new.key) {
            self.update_nomination(old, new);
        }
        let updated = self.on_queue(now, |queue, around| queue.update(old, new, around));
        self.nominate_by_status(new, updated);
    }

    fn leave_queue(&mut self, pod: &Arc<Pod>, now: Time) {
        self.clear_nomination(&pod.uid);
        self.writes.remove(&pod.uid);
        self.on_queue(now, |queue, around| queue.delete(pod, around));
    }

    /// Calls into the model of the queue.
    pub(super) fn on_queue<T>(
        &mut self,
        now: Time,
        call: impl FnOnce(&mut queue_model::Model, Around<'_>) -> T,
    ) -> T {
        let parts = HandleParts { now, ..HandleParts::default() };
        let around = Around { profiles: self.profiles, handle: parts.handle(&self.cluster) };
        call(&mut self.queue, around)
    }
}

fn name_of_nomination(pod: &Pod) -> String {
    pod.nominated_node_name().map(ToString::to_string).unwrap_or_default()
}

fn assigned_event(action: ActionType, old: Option<Arc<Pod>>, new: Option<Arc<Pod>>) -> ObjectEvent {
    let event = ClusterEvent::new(EventResource::AssignedPod, action);
    ObjectEvent { event, objects: Objects::Pod(old, new) }
}

/// Returns region and zone of a node, by the old labels or else the new ones.
fn zone_of(labels: &Labels) -> Zone {
    let label =
        |old: &str, new: &str| labels.get(old).or(labels.get(new)).unwrap_or_default().to_owned();
    (
        label("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
        label("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    )
}

/// Attempts and nominations.
impl Model {
    /// Returns whether the pod was placed nowhere.
    pub(super) fn assume(&mut self, pod: &Pod, node: &Arc<str>) -> bool {
        if self.placed.iter().any(|placed| placed.pod.uid == pod.uid) {
            return false;
        }
        let pod = Arc::new(Pod { node_name: Some(node.clone()), ..pod.clone() });
        self.clear_nomination(&pod.uid);
        self.placed.push(Placed { pod, node: node.clone(), is_assumed: true });
        self.changes.pods.insert(node.clone());
        true
    }

    pub(super) fn forget(&mut self, uid: &Uid) {
        if self.placed.iter().any(|placed| placed.pod.uid == *uid && placed.is_assumed) {
            self.take_off(uid);
        }
    }

    fn take_off(&mut self, uid: &Uid) {
        let gone = self.placed.iter().position(|placed| placed.pod.uid == *uid);
        let gone = self.placed.remove(gone.expect("the pod is placed"));
        self.changes.pods.insert(gone.node);
        self.cancel_eviction(uid);
    }

    pub(super) fn requeue_failed(
        &mut self,
        mut queued: QueuedPod,
        nominating: &NominatingInfo,
        now: Time,
    ) -> Option<Arc<Pod>> {
        match self.pending.get(&queued.pod.key).cloned() {
            Some(known) if known.uid == queued.pod.uid => {
                queued.pod = known.clone();
                self.on_queue(now, |queue, around| queue.fail(queued, around));
                let before = self.nominated_node(&known.uid);
                self.nominate(&known, nominating);
                if before.is_some() && self.nominated_node(&known.uid) != before {
                    let event = assigned_event(ActionType::DELETE, Some(known.clone()), None);
                    let may_move = |other: &Pod| {
                        other.uid != known.uid && other.priority() <= known.priority()
                    };
                    self.notify(&event, &may_move, now);
                }
                Some(known)
            }
            Some(_) => {
                self.queue.done(&queued.pod.uid);
                None
            }
            None => {
                self.queue.done(&queued.pod.uid);
                Some(queued.pod)
            }
        }
    }

    pub(super) fn requeue_outdated(&mut self, mut queued: QueuedPod, now: Time) {
        match self.pending.get(&queued.pod.key).filter(|known| known.uid == queued.pod.uid) {
            Some(known) => {
                queued.pod = known.clone();
                self.on_queue(now, |queue, around| queue.fail_outdated(queued, around));
            }
            None => self.queue.done(&queued.pod.uid),
        }
    }

    pub(super) fn retry_pending_after_error(&mut self, key: &PodKey, uid: &Uid, now: Time) {
        if let Some(known) = self.pending.get(key).filter(|known| known.uid == *uid).cloned() {
            self.on_queue(now, |queue, around| queue.retry_after_error(&known, around));
        }
    }

    fn nominate_by_status(&mut self, pod: &Arc<Pod>, updated: Updated) {
        if updated != Updated::Known {
            self.nominate(pod, &NominatingInfo::Noop);
        }
    }

    /// Nominates a pod to the given node, or else to the one that its status names after all
    /// writes.
    fn nominate(&mut self, pod: &Arc<Pod>, info: &NominatingInfo) {
        self.clear_nomination(&pod.uid);
        let node = match info {
            NominatingInfo::Override(node) => node.clone(),
            NominatingInfo::Noop => self.nomination_after_writes(pod).into(),
        };
        if !node.is_empty() {
            self.nominations.push(Nomination { pod: pod.clone(), node });
        }
    }

    fn nomination_after_writes(&self, pod: &Pod) -> String {
        let last = self.writes.get(&pod.uid).and_then(|writes| writes.requested.last());
        last.map_or_else(|| name_of_nomination(pod), |last| last.node.clone())
    }

    /// A write of a nomination is requested.
    pub(super) fn request(&mut self, pod: &Pod, node: &str, effect: Option<EffectId>) {
        let Some(pod) = self.pending.get(&pod.key).filter(|own| own.uid == pod.uid) else { return };
        if self.nomination_after_writes(pod) != node {
            let new = Writes { shown: name_of_nomination(pod), requested: Vec::new() };
            let writes = self.writes.entry(pod.uid.clone()).or_insert(new);
            let node = node.to_owned();
            writes.requested.push(Requested { node, effect, version: None });
            // The latest ones are remembered.
            writes.requested.drain(..writes.requested.len().saturating_sub(8));
        }
    }

    /// The watch shows a version of a pod.
    fn note_shown(&mut self, pod: &Pod) {
        let name = name_of_nomination(pod);
        let Some(writes) = self.writes.get_mut(&pod.uid) else { return };
        match writes.requested[0].version {
            Some(answered) if pod.resource_version < answered => {
                writes.shown = name;
                return;
            }
            Some(_) => writes.shown = writes.requested.remove(0).node,
            None => {}
        }
        if writes.shown != name {
            while !writes.requested.is_empty() && writes.requested.remove(0).node != name {}
        }
        writes.shown = name;
        self.writes.retain(|_, own| !own.requested.is_empty());
    }

    /// The API server has answered a write. Earlier ones were carried out before it, or with it. A
    /// version that the watch has shown already decides.
    pub(super) fn answered(&mut self, effect: EffectId, version: u64, now: Time) {
        let is_it = |own: &Requested| own.effect == Some(effect) && own.version.is_none();
        let mut all = self.writes.iter_mut();
        let found = all.find_map(|(uid, own)| {
            let place = own.requested.iter().position(is_it)?;
            own.requested.drain(..place);
            own.requested[0].version = Some(version);
            Some(uid.clone())
        });
        let Some(uid) = found else { return };
        let known = self.pending.values().find(|pod| pod.uid == uid).cloned();
        let Some(pod) = known.filter(|pod| pod.resource_version >= version) else { return };
        self.note_shown(&pod);
        let before = self.nominated_node(&uid);
        let follows = !self.writes.contains_key(&uid) && self.queue.has(&pod.key);
        if follows && before.as_deref().unwrap_or_default() != name_of_nomination(&pod) {
            self.nominate(&pod, &NominatingInfo::Noop);
            if before.is_some() {
                self.move_after_nomination(&pod, now);
            }
        }
    }

    /// A queued pod has a new version. A nomination that is not written yet stays if the status
    /// names no node. All stays while writes are not shown.
    fn update_nomination(&mut self, old: &Pod, new: &Arc<Pod>) {
        let own = self.nominations.iter().find(|own| own.pod.uid == old.uid);
        let own = own.map(|own| own.node.clone());
        let is_bare = |pod: &Pod| name_of_nomination(pod).is_empty();
        let stays = self.writes.contains_key(&new.uid);
        if stays || own.is_some() && is_bare(old) && is_bare(new) {
            self.nominate(new, &NominatingInfo::Override(own.unwrap_or_default()));
        } else {
            self.nominate(new, &NominatingInfo::Noop);
        }
    }

    /// A pod in flight has a new version, and keeps its nomination and its turn.
    fn refresh_nomination(&mut self, pod: &Arc<Pod>) {
        if let Some(own) = self.nominations.iter_mut().find(|own| own.pod.uid == pod.uid) {
            own.pod = pod.clone();
        }
    }

    fn clear_nomination(&mut self, uid: &Uid) {
        self.nominations.retain(|own| own.pod.uid != *uid);
    }

    /// A nomination ends, and its write is requested.
    pub(super) fn end_nomination(&mut self, pod: &Pod, effect: Option<EffectId>) {
        self.clear_nomination(&pod.uid);
        self.request(pod, "", effect);
    }

    pub(super) fn move_others(&mut self, pod: &Arc<Pod>, now: Time) {
        let event = assigned_event(ActionType::DELETE, Some(pod.clone()), None);
        self.notify(&event, &|other| other.uid != pod.uid, now);
    }
}

/// Evictions and waits.
impl Model {
    fn running(&self) -> impl Iterator<Item = Uid> {
        self.placed
            .iter()
            .filter(|placed| !placed.pod.terminating)
            .map(|placed| placed.pod.uid.clone())
    }

    /// The budgets select pods by the label `app`, which is their name.
    pub(super) fn begin_eviction(&mut self, pod: &Pod) {
        let app = pod.labels.get("app").unwrap_or_default();
        let kind = EventResource::PodDisruptionBudget;
        let key = ObjectKey::namespaced(kind, "default".into(), app.into());
        let budget = self.objects.get(&key).map(Object::json);
        let Some(budget) = budget else { return };
        if budget["status"]["disruptedPods"].get(&*pod.key.name).is_none() {
            self.evicting.entry(app.to_owned()).or_default().insert(pod.uid.clone());
        }
    }

    pub(super) fn cancel_eviction(&mut self, uid: &Uid) {
        self.evicting.values_mut().for_each(|evicting| evicting.retain(|own| own != uid));
    }

    pub(super) fn wait_on_permit(&mut self, pod: &WaitingPod) {
        self.waiting.insert(pod.pod.uid.clone(), pod.clone());
    }

    /// Ends the wait of a plugin, or of all. Returns whether the pod has none left.
    pub(super) fn allow(&mut self, uid: &Uid, plugin: Option<&str>) -> bool {
        let Some(pod) = self.waiting.get_mut(uid) else { return false };
        pod.pending.retain(|name, _| plugin.is_some_and(|plugin| **name != *plugin));
        let is_allowed = pod.pending.is_empty();
        if is_allowed {
            self.waiting.remove(uid);
        }
        is_allowed
    }

    /// Returns the pod whose wait ends first, the plugin, and how long it waits.
    fn first_wait(&self) -> Option<(Time, &Uid, &str, Duration)> {
        let waits = self.waiting.iter().flat_map(|(uid, pod)| {
            pod.pending
                .iter()
                .map(move |(plugin, until)| (*until, uid, &**plugin, until.since(pod.since)))
        });
        waits.min()
    }
}

/// Comparison with the world.
impl Model {
    /// Compares everything that the world shows, and what has changed since the `revision` of the
    /// change log, when the nodes had the ids `before`.
    ///
    /// # Errors
    /// The world differs.
    pub(super) fn check(
        &mut self,
        world: &mut World,
        revision: u64,
        before: &BTreeMap<Arc<str>, NodeIx>,
        now: Time,
    ) -> Checked {
        self.queue.check(world.queue(), now)?;
        self.check_cache(world)?;
        self.check_log(world, revision, before)?;
        let pending: Vec<_> = world.pending().values().collect();
        let expected: Vec<_> = self.pending.values().collect();
        rule(pending == expected, || format!("{:?} are pending", keys(&pending)))?;
        self.check_nominations(world)?;
        self.check_waits(world)
    }

    fn check_cache(&self, world: &mut World) -> Checked {
        world.refresh_node_order();
        let (world, cluster) = (&*world, world.cluster());
        for Placed { pod, node, is_assumed } in &self.placed {
            let Some(shown) = world.placed(&pod.uid) else {
                return Err(format!("{} is not placed", pod.uid));
            };
            let on = cluster.node_name(shown.node);
            rule(on == node, || format!("{} is on {on} instead of {node}", pod.uid))?;
            rule(shown.pod == *pod, || format!("{} is placed in an old version", pod.uid))?;
            let assumed = world.is_assumed(&pod.uid);
            rule(assumed == *is_assumed, || format!("{} is assumed: {assumed}", pod.uid))?;
            let runs = world.is_running(&pod.uid);
            rule(runs != pod.terminating, || format!("{} runs: {runs}", pod.uid))?;
        }
        let count = cluster.pod_count();
        rule(count == self.placed.len(), || format!("{count} pods are placed"))?;
        let assumed = self.placed.iter().filter(|placed| placed.is_assumed).count();
        rule(world.assumed_count() == assumed, || {
            format!("{} are assumed", world.assumed_count())
        })?;
        let order: Vec<&str> =
            world.node_order().iter().map(|node| &**cluster.node_name(*node)).collect();
        let turns = (0..self.nodes.len())
            .flat_map(|turn| self.zones.iter().filter_map(move |(_, names)| names.get(turn)));
        let turns: Vec<&str> = turns.map(|name| &**name).collect();
        rule(order == turns, || format!("the order of nodes is {order:?} instead of {turns:?}"))?;
        for (name, evicting) in &self.evicting {
            let shown: BTreeSet<Uid> = cluster.evicting("default", name).cloned().collect();
            rule(shown == *evicting, || {
                format!("budget {name} counts {shown:?} instead of {evicting:?}")
            })?;
        }
        let known: Vec<&Node> = self.nodes.values().collect();
        for node in &known {
            // Images are kept in an index of their own.
            let kept = Node { images: Box::default(), ..(*node).clone() };
            let shown = world.node(&node.name);
            rule(shown.as_ref() == Some(&kept), || format!("{shown:?} instead of {kept:?}"))?;
        }
        rule(cluster.nodes().iter().count() == known.len(), || "another node is known".to_owned())
    }

    fn check_log(
        &mut self,
        world: &World,
        revision: u64,
        before: &BTreeMap<Arc<str>, NodeIx>,
    ) -> Checked {
        let expected = std::mem::take(&mut self.changes);
        let Some(changed) = world.log().changed_since(revision) else {
            return Err("the log is cut".to_owned());
        };
        let nodes: BTreeSet<Arc<str>> = expected.objects.union(&expected.pods).cloned().collect();
        let cluster = world.cluster();
        let rows = [
            (nodes, changed.nodes),
            (expected.objects, changed.objects),
            (expected.starts, changed.starts),
        ];
        for (names, shown) in rows {
            // Nodes that are gone have no name any more, and another one may have their id.
            let id =
                |name: &Arc<str>| cluster.node_named(name).or_else(|| before.get(name).copied());
            let known: BTreeSet<NodeIx> = names.iter().filter_map(id).collect();
            let has_all =
                known.iter().all(|node| shown.contains(node)) && shown.len() <= names.len();
            let has_more = shown.len() > known.len() && names.iter().all(|name| id(name).is_some());
            rule(has_all && !has_more, || format!("the log has {shown:?} instead of {names:?}"))?;
        }
        Ok(())
    }

    fn check_nominations(&self, world: &World) -> Checked {
        let nominator = world.nominator();
        let nodes: BTreeSet<&str> = self.nominations.iter().map(|own| &*own.node).collect();
        rule(nominator.nodes().eq(nodes.iter().copied()), || {
            format!(
                "pods are nominated to {:?} instead of {nodes:?}",
                nominator.nodes().collect::<Vec<_>>()
            )
        })?;
        for node in nodes {
            let shown = nominator.nominated_to(node);
            let own =
                self.nominations.iter().filter(|own| *own.node == *node).map(|own| own.pod.clone());
            let own: Vec<_> = own.collect();
            rule(shown == own, || {
                format!("{:?} are nominated to {node} instead of {:?}", uids(&shown), uids(&own))
            })?;
        }
        rule(
            nominator.len() == self.nominations.len()
                && nominator.is_empty() == self.nominations.is_empty(),
            || format!("{} pods are nominated", nominator.len()),
        )?;
        let wrong =
            self.nominations.iter().find(|own| nominator.node_of(&own.pod.uid) != Some(&own.node));
        rule(wrong.is_none(), || {
            format!("{:?} is nominated elsewhere", wrong.map(|own| &own.pod.uid))
        })
    }

    fn check_waits(&self, world: &World) -> Checked {
        let shown = world.next_permit_deadline();
        let expected = self.first_wait().map(|(until, ..)| until);
        rule(shown == expected, || {
            format!("the next wait ends at {shown:?} instead of {expected:?}")
        })?;
        let of = |pods: &BTreeMap<Uid, WaitingPod>| -> Vec<_> {
            pods.iter().map(|(uid, pod)| (uid.clone(), pod.since, pod.pending.clone())).collect()
        };
        let (shown, expected) = (of(world.waiting_pods()), of(&self.waiting));
        rule(shown == expected, || format!("{shown:?} wait instead of {expected:?}"))
    }

    /// Compares the wait that has timed out first.
    ///
    /// # Errors
    /// It is another one.
    pub(super) fn check_expired(&self, shown: Option<&ExpiredWait>, now: Time) -> Checked {
        let expected = self.first_wait().filter(|(until, ..)| *until <= now);
        let expected = expected.map(|(_, uid, plugin, waited)| {
            (
                uid.to_string(),
                format!(
                    "rejected due to timeout after waiting {}s at plugin {plugin}",
                    waited.as_secs()
                ),
            )
        });
        let shown = shown.map(|wait| (wait.pod.to_string(), wait.status().message()));
        rule(shown == expected, || format!("{shown:?} has timed out instead of {expected:?}"))
    }

    /// Compares the labels of handled events, in any order.
    ///
    /// # Errors
    /// They differ.
    pub(super) fn check_handled(&mut self, mut shown: Vec<String>) -> Checked {
        let mut expected = std::mem::take(&mut self.handled);
        shown.sort();
        expected.sort();
        rule(shown == expected, || format!("{shown:?} were handled instead of {expected:?}"))
    }
}

fn keys(pods: &[&Arc<Pod>]) -> Vec<String> {
    pods.iter().map(|pod| pod.key.to_string()).collect()
}

fn uids(pods: &[Arc<Pod>]) -> Vec<String> {
    pods.iter().map(|pod| pod.uid.to_string()).collect()
}
