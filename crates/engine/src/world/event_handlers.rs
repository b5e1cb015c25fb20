//! Event handlers: how changes of API objects update cache and queue (`eventhandlers.go` in
//! kube-scheduler).

use std::sync::Arc;

use framework::{ActionType, ClusterEvent, EventResource, Node, Pod, PodKey, Uid};
use serde_json::Value;

use super::{LoggedChange, World};
use crate::change::Change;
use crate::classify::{node_updates, pod_updates};
use crate::context::Context;
use crate::object_event::{ObjectEvent, Objects};
use crate::queue::Updated;

/// An effect of a change that the engine passes on to binding cycles, preemptions and plugins.
#[derive(Debug)]
pub(crate) enum Changed {
    /// A pending pod has a node now.
    Bound { pod: Uid, node: Arc<str> },
    /// A pending pod is gone.
    PendingDeleted(Uid),
    /// A pod that is assumed on a node is being deleted or is gone. Its room is not free yet.
    AssumedDeleted(Uid),
    /// A pod, pending or placed, is gone.
    Deleted(Arc<Pod>),
}

impl World {
    /// Returns the deletion that `change` implies if it shows a new pod in place of a pending pod of the
    /// same name.
    pub(crate) fn implied_deletion(&self, change: &Change) -> Option<Change> {
        let Change::Pod(pod) = change else { return None };
        let known = self.view.pending.get(&pod.key).filter(|known| known.uid != pod.uid)?;
        Some(Change::PodDeleted { key: known.key.clone(), uid: known.uid.clone() })
    }

    /// Takes in the new state of an object, and moves the unschedulable pods that the change may help.
    pub(crate) fn apply(&mut self, change: Change, cx: &mut Context<'_>) -> Vec<Changed> {
        match change {
            Change::Node(node) => self.set_node(node, cx),
            Change::NodeDeleted(name) => self.delete_node(&name, cx),
            Change::Pod(pod) => return self.set_pod(*pod, cx),
            Change::PodDeleted { key, uid } => return self.delete_pod(&key, &uid, cx),
            Change::Object { kind, namespace, name, object } => {
                let old = self.view.cache.set_object(&kind, &namespace, &name, object.clone());
                self.move_after_update(kind, old, object, cx);
            }
        }
        Vec::new()
    }

    fn set_node(&mut self, node: Node, cx: &mut Context<'_>) {
        let Some(update) = self.view.cache.set_node(&node) else { return };
        self.log.push(update.node, LoggedChange::Node(update.change));
        let actions = match &update.old {
            None => vec![ActionType::ADD],
            // Both nodes are read from the cache, which drops amounts of zero.
            Some(old) => self
                .view
                .cache
                .node(&node.name)
                .map_or_else(Vec::new, |new| node_updates(old, &new)),
        };
        let (old, new) = (update.old.map(Arc::new), Arc::new(node));
        for action in actions {
            self.move_pods(&ObjectEvent::node(action, old.clone(), Some(new.clone())), cx);
        }
    }

    /// Like kube-scheduler, moves the pods before the node leaves the cache.
    fn delete_node(&mut self, name: &str, cx: &mut Context<'_>) {
        let Some(old) = self.view.cache.node(name).map(Arc::new) else { return };
        self.move_pods(&ObjectEvent::node(ActionType::DELETE, Some(old), None), cx);
        if let Some(update) = self.view.cache.remove_node(name) {
            self.log.push(update.node, LoggedChange::Node(update.change));
        }
        self.view.preemptions.fruitless_mut().forget_node(name);
    }

    /// Moves pods after a change of an object that is neither pod nor node. Such an event does not say
    /// which part changed.
    fn move_after_update(
        &mut self,
        kind: EventResource,
        old: Option<Arc<Value>>,
        new: Option<Arc<Value>>,
        cx: &mut Context<'_>,
    ) {
        let action = match (&old, &new) {
            (None, None) => return,
            (Some(old), Some(new)) if old == new => return,
            (None, Some(_)) => ActionType::ADD,
            (Some(_), Some(_)) => ActionType::UPDATE,
            (Some(_), None) => ActionType::DELETE,
        };
        let event = ClusterEvent::new(kind, action);
        self.move_pods(&ObjectEvent { event, objects: Objects::Other(old, new) }, cx);
    }

    fn set_pod(&mut self, mut pod: Pod, cx: &mut Context<'_>) -> Vec<Changed> {
        self.view.cache.share(&mut pod);
        let pod = Arc::new(pod);
        match pod.node_name.clone() {
            _ if pod.terminal => self.delete_pod(&pod.key, &pod.uid, cx),
            Some(node) => self.set_assigned_pod(pod, node, cx),
            None if self.view.profile_of(&pod).is_some() => self.set_pending_pod(pod, cx),
            None => Vec::new(),
        }
    }

    fn set_assigned_pod(
        &mut self,
        pod: Arc<Pod>,
        node: Arc<str>,
        cx: &mut Context<'_>,
    ) -> Vec<Changed> {
        let was_assumed = self.view.cache.is_assumed(&pod.uid);
        let before = self.place(&pod, &node);
        let moved = before.as_ref().is_some_and(|before| before.node_name != pod.node_name);
        if moved {
            // Another scheduler has bound the pod elsewhere, so the room on the assumed node is free.
            let event = ObjectEvent::assigned_pod(ActionType::DELETE, before.clone(), None);
            self.move_pods(&event, cx);
        }
        let known = before.filter(|_| !moved && !was_assumed);
        let actions = match &known {
            None => vec![ActionType::ADD],
            Some(old) => pod_updates(old, &pod),
        };
        for action in actions {
            let event = ObjectEvent::assigned_pod(action, known.clone(), Some(pod.clone()));
            self.move_pods(&event, cx);
        }
        match self.view.pending.remove(&pod.key) {
            None => Vec::new(),
            Some(pending) => {
                self.remove_from_queue(&pending, cx);
                vec![Changed::Bound { pod: pod.uid.clone(), node }]
            }
        }
    }

    /// Places a pod where the watch shows it. Returns the pod as it was placed before.
    fn place(&mut self, pod: &Arc<Pod>, node: &Arc<str>) -> Option<Arc<Pod>> {
        let before = self.view.cache.placement(&pod.uid);
        let (replaced, changed) = self.view.cache.apply(pod.clone(), node);
        if changed {
            if let Some(before) = before {
                self.log.push(before.node, LoggedChange::PodGone(before.ix));
            }
            self.log_placed(&pod.uid);
        }
        replaced
    }

    fn set_pending_pod(&mut self, pod: Arc<Pod>, cx: &mut Context<'_>) -> Vec<Changed> {
        if self.view.confirmed_node(&pod.uid).is_some() {
            // A bind cannot be undone, so this version of the pod is older.
            return Vec::new();
        }
        let Some(old) = self.view.pending.insert(pod.key.clone(), pod.clone()) else {
            self.add_to_queue(pod, cx);
            return Vec::new();
        };
        if old.resource_version == pod.resource_version && pod.resource_version != 0 {
            return Vec::new();
        }
        if self.view.cache.is_assumed(&pod.uid) {
            if !old.terminating && pod.terminating {
                return vec![Changed::AssumedDeleted(pod.uid.clone())];
            }
            if self.queue.is_in_flight(&pod.uid) {
                // A plugin may still reject the pod. kube-scheduler 1.36 would miss that this update may
                // have helped it.
                self.update_in_queue(&old, pod, cx);
            }
            return Vec::new();
        }
        let unnominated =
            old.nominated_node_name.is_some() && old.nominated_node_name != pod.nominated_node_name;
        self.update_in_queue(&old, pod, cx);
        if unnominated {
            self.move_after_nomination(old, cx);
        }
        Vec::new()
    }

    fn delete_pod(&mut self, key: &PodKey, uid: &Uid, cx: &mut Context<'_>) -> Vec<Changed> {
        let mut changed = Vec::new();
        if self.view.confirmed_node(uid).is_some() {
            let pod = self.take_off(uid);
            changed.extend(pod.clone().map(Changed::Deleted));
            self.move_pods(&ObjectEvent::assigned_pod(ActionType::DELETE, pod, None), cx);
        }
        if self.view.pending.get(key).is_none_or(|pending| pending.uid != *uid) {
            return changed;
        }
        let Some(pending) = self.view.pending.remove(key) else { return changed };
        self.remove_from_queue(&pending, cx);
        changed.push(Changed::PendingDeleted(uid.clone()));
        changed.push(Changed::Deleted(pending.clone()));
        if self.view.cache.is_assumed(uid) {
            changed.push(Changed::AssumedDeleted(uid.clone()));
        } else if pending.nominated_node_name.is_some() {
            self.move_after_nomination(pending, cx);
        }
        changed
    }
}

/// Updates of queue and nominator.
impl World {
    fn add_to_queue(&mut self, pod: Arc<Pod>, cx: &mut Context<'_>) {
        let (queue, mut queue_cx) = self.queue_and_context(cx);
        let updated = queue.add(pod.clone(), &mut queue_cx);
        self.nominate_by_status(pod, updated);
    }

    fn update_in_queue(&mut self, old: &Arc<Pod>, new: Arc<Pod>, cx: &mut Context<'_>) {
        if self.queue.is_in_flight(&new.uid) {
            self.view.nominator.refresh(&new);
        } else if self.queue.get(&new.key).is_some() {
            self.view.nominator.update(old, new.clone());
        }
        let (queue, mut queue_cx) = self.queue_and_context(cx);
        let updated = queue.update(old, new.clone(), &mut queue_cx);
        self.nominate_by_status(new, updated);
    }

    /// Nominates a pod that has entered the active queue to the node that its status names.
    fn nominate_by_status(&mut self, pod: Arc<Pod>, updated: Updated) {
        if updated == Updated::EnteredActive {
            self.view.nominator.add(pod, &framework::NominatingInfo::Noop);
        }
    }

    fn remove_from_queue(&mut self, pod: &Arc<Pod>, cx: &mut Context<'_>) {
        self.view.nominator.delete(&pod.uid);
        let (queue, mut queue_cx) = self.queue_and_context(cx);
        queue.delete(pod, &mut queue_cx);
    }
}

#[cfg(test)]
mod tests {
    use framework::testing::pod;
    use framework::{NominatingInfo, Time};

    use super::*;
    use crate::context::Effects;
    use crate::queue::QueueConfig;
    use crate::queue::tests::profiles;

    fn apply(world: &mut World, change: Change) {
        let (extenders, probe) = (&mut (), &mut ());
        let effects = Effects::default();
        let now = Time::from_secs(1000);
        world.apply(change, &mut Context { now, extenders, probe, effects });
    }

    fn see(world: &mut World, pod: framework::testing::PodBuilder) {
        apply(world, Change::Pod(Box::new(pod.build())));
    }

    #[test]
    fn nominations_follow_the_pending_pods() {
        let mut world = World::new(profiles(), QueueConfig::default());
        let uid = pod("p").build().uid;
        let nominated =
            |world: &World| world.view().nominator().node_of(&uid).map(ToString::to_string);
        see(&mut world, pod("gated").gate("example.com/hold").nominated("n"));
        assert!(world.view().nominator().is_empty(), "a gated pod is not nominated");
        see(&mut world, pod("p").nominated("n"));
        assert_eq!(nominated(&world).as_deref(), Some("n"));
        see(&mut world, pod("p").nominated("m"));
        assert_eq!(nominated(&world).as_deref(), Some("m"));

        let info = NominatingInfo::Override("o".into());
        world.view.nominator.add(std::sync::Arc::new(pod("p").build()), &info);
        see(&mut world, pod("p"));
        see(&mut world, pod("p").label("app", "web"));
        assert_eq!(nominated(&world), None, "the status no longer names a node");
        world.view.nominator.add(std::sync::Arc::new(pod("p").build()), &info);
        see(&mut world, pod("p").label("app", "db"));
        assert_eq!(nominated(&world).as_deref(), Some("o"), "kept until it is written");
        apply(
            &mut world,
            Change::PodDeleted { key: PodKey::new("default", "p"), uid: uid.clone() },
        );
        assert!(world.view().nominator().is_empty());
    }
}
