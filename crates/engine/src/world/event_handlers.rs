//! Event handlers: how changes of API objects update cache and queue (`eventhandlers.go` in
//! kube-scheduler).

use std::sync::Arc;

use framework::{
    ActionType, ClusterEvent, Code, EventResource, Node, NodeChange, NominatedPods, NominatingInfo,
    ObjectUpdate, Pod, PodGroupKey, PodKey, StatusPatch, Uid,
};

use super::changed::Changed;
use super::{LoggedChange, World};
use crate::change::Change;
use crate::classify::{node_updates, pod_updates};
use crate::context::Context;
use crate::nominator::nominated_to;
use crate::object_event::ObjectEvent;
use crate::ports::{Count, Span};
use crate::queue::Updated;

/// The name that clears a nomination.
const NO_NODE: &str = "";

impl World {
    /// Returns the deletion that `change` implies if it shows a new pod in place of a pending pod
    /// of the same name.
    pub fn implied_deletion(&self, change: &Change) -> Option<Change> {
        let Change::Pod(pod) = change else { return None };
        let known = self.pending.get(&pod.key).filter(|known| known.uid != pod.uid)?;
        Some(Change::PodDeleted { key: known.key.clone(), uid: known.uid.clone() })
    }

    /// Applies the new state of an object, and moves the unschedulable pods that the change may
    /// help.
    pub fn apply(&mut self, change: Change, cx: &mut Context<'_>) -> Vec<Changed> {
        cx.probe.start(Span::Change);
        let changed = self.handle_change(change, cx);
        cx.probe.stop(Span::Change, Code::Success);
        changed
    }

    fn handle_change(&mut self, change: Change, cx: &mut Context<'_>) -> Vec<Changed> {
        match change {
            Change::Node(node) => self.set_node(node, cx),
            Change::NodeDeleted(name) => self.delete_node(&name, cx),
            Change::Pod(pod) => return self.set_pod(*pod, cx),
            Change::PodDeleted { key, uid } => return self.delete_pod(&key, &uid, cx),
            Change::Object(object) => {
                let update = self.set_object(*object);
                self.log_described_node(&update);
                self.handle_update(update, cx);
            }
            Change::ObjectDeleted(key) => {
                let update = self.remove_object(&key);
                self.log_described_node(&update);
                self.handle_update(update, cx);
            }
        }
        Vec::new()
    }

    /// Logs a change of the node that an object describes.
    fn log_described_node(&mut self, update: &ObjectUpdate) {
        if update.old == update.new {
            return;
        }
        let changed = update.new.as_ref().or(update.old.as_ref());
        if let Some(node) = changed.and_then(|object| self.cluster.described_node(object.key())) {
            self.log.push(node, LoggedChange::Node(NodeChange::EXTRA_FIELDS));
        }
    }

    fn set_node(&mut self, node: Node, cx: &mut Context<'_>) {
        let Some(update) = self.update_node(&node) else { return };
        self.log.push(update.node, LoggedChange::Node(update.change));
        let actions = match &update.old {
            None => vec![ActionType::ADD],
            // Both nodes are read from the cluster, which drops amounts of zero.
            Some(old) => self.node(&node.name).map_or_else(Vec::new, |new| node_updates(old, &new)),
        };
        let (old, new) = (update.old.map(Arc::new), Arc::new(node));
        for action in actions {
            let event = ObjectEvent::node(action, old.clone(), Some(new.clone()));
            self.move_pods(&event, cx);
            cx.probe.count(Count::Event(&event.event));
        }
    }

    /// Like kube-scheduler, moves the pods before the node leaves the cache.
    fn delete_node(&mut self, name: &str, cx: &mut Context<'_>) {
        let Some(old) = self.node(name).map(Arc::new) else { return };
        let event = ObjectEvent::node(ActionType::DELETE, Some(old), None);
        self.move_pods(&event, cx);
        if let Some(update) = self.remove_node(name) {
            self.log.push(update.node, LoggedChange::Node(update.change));
        }
        self.preemptions.fruitless_mut().forget_node(name);
        self.clear_nominations_to(name, cx);
        cx.probe.count(Count::Event(&event.event));
    }

    /// Clears the nominations to a node that is gone, in the status of the pods, too. The attempt
    /// or the bind of a pod that is under way decides about its own nomination.
    ///
    /// Rule nomination-to-a-deleted-node of docs/differences.toml.
    fn clear_nominations_to(&mut self, node: &str, cx: &mut Context<'_>) {
        let nominated = self.nominator.nominated_to(node);
        self.clear_nominations(nominated, cx);
    }

    /// Clears the nominations of the queued pods of a group that cannot run: the room of its
    /// victims goes to others.
    pub(crate) fn clear_nominations_of_group(&mut self, group: &PodGroupKey, cx: &mut Context<'_>) {
        let members = self.queue.members_of(group).iter().map(|member| member.pod.clone());
        let nominated = members.filter_map(|pod| {
            let node = self.nominator.node_of(&pod.uid)?.clone();
            Some(nominated_to(pod, node))
        });
        let nominated: Vec<_> = nominated.collect();
        self.clear_nominations(nominated.iter().cloned(), cx);
        for pod in nominated {
            self.move_after_nomination(pod, cx);
        }
    }

    /// Clears the nomination of a queued pod to a node.
    pub(crate) fn clear_nomination_to(&mut self, pod: &Pod, node: &str, cx: &mut Context<'_>) {
        let nominated = self.nominator.node_of(&pod.uid).filter(|own| ***own == *node).cloned();
        let known = self.pending.get(&pod.key).filter(|known| known.uid == pod.uid).cloned();
        if let Some((known, node)) = known.zip(nominated) {
            self.clear_nominations([known.clone()], cx);
            self.move_after_nomination(nominated_to(known, node), cx);
        }
    }

    fn clear_nominations(
        &mut self,
        nominated: impl IntoIterator<Item = Arc<Pod>>,
        cx: &mut Context<'_>,
    ) {
        for pod in nominated {
            let is_under_way = self.queue.is_in_flight(&pod.uid) || self.is_assumed(&pod.uid);
            if is_under_way || !self.pending.contains_key(&pod.key) {
                continue;
            }
            let cleared = NominatingInfo::Override(NO_NODE.into());
            let nominated_node_name = self.nominator.to_write(&pod, &cleared);
            self.nominator.delete(&pod.uid);
            let patch = StatusPatch { condition: None, nominated_node_name };
            if let Some(effect) = cx.effects.patch_pod_status(&pod, patch) {
                self.nomination_written(&pod, NO_NODE.into(), Some(effect));
            }
        }
    }

    /// Moves pods after a change of an object that is neither pod nor node. The event does not say
    /// which part changed.
    pub fn handle_update(&mut self, update: ObjectUpdate, cx: &mut Context<'_>) {
        let has_changed = !update.is_none();
        if has_changed {
            self.follow_pod_group(&update, cx);
        }
        let gaining = self.pods_that_gain(&update);
        let Some(event) = ObjectEvent::of_object(update) else { return };
        if has_changed {
            self.move_pods(&event, cx);
        }
        if !gaining.is_empty() {
            self.activate(&gaining, cx);
        }
        cx.probe.count(Count::Event(&event.event));
    }

    fn set_pod(&mut self, mut pod: Pod, cx: &mut Context<'_>) -> Vec<Changed> {
        self.share(&mut pod);
        let pod = Arc::new(pod);
        match pod.node_name.clone() {
            _ if pod.terminal => self.delete_pod(&pod.key, &pod.uid, cx),
            Some(node) => self.set_assigned_pod(pod, node, cx),
            None if self.profile_of(&pod).is_some() => self.set_pending_pod(pod, cx),
            None => Vec::new(),
        }
    }

    fn set_assigned_pod(
        &mut self,
        pod: Arc<Pod>,
        node: Arc<str>,
        cx: &mut Context<'_>,
    ) -> Vec<Changed> {
        let was_assumed = self.is_assumed(&pod.uid);
        let before = self.place(&pod, &node);
        let moved = before.as_ref().is_some_and(|before| before.node_name != pod.node_name);
        if moved {
            // Another scheduler has bound the pod elsewhere, so the room on the assumed node is
            // free.
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
            cx.probe.count(Count::Event(&event.event));
        }
        if known.is_some() {
            // As in kube-scheduler, the update as a whole counts beside its parts.
            let update = ClusterEvent::new(EventResource::AssignedPod, ActionType::UPDATE);
            cx.probe.count(Count::Event(&update));
        }
        match self.pending.remove(&pod.key) {
            None => Vec::new(),
            Some(pending) => {
                self.set_pending_member(Some(&pending), None);
                let nominated = self.nominator.node_of(&pending.uid).cloned();
                self.remove_from_queue(&pending, cx);
                if let Some(elsewhere) = nominated.filter(|nominated| *nominated != node) {
                    // Another scheduler has bound the pod, so the room that was kept for it is
                    // free.
                    self.move_after_nomination(nominated_to(pending, elsewhere), cx);
                }
                self.count_unscheduled_pod(ActionType::DELETE, cx);
                vec![Changed::Bound { pod: pod.uid.clone(), node }]
            }
        }
    }

    /// Places a pod where the watch shows it. Returns the pod as it was placed before.
    fn place(&mut self, pod: &Arc<Pod>, node: &Arc<str>) -> Option<Arc<Pod>> {
        let before = self.placement(&pod.uid);
        let (replaced, changed) = self.place_shown(pod.clone(), node);
        if changed {
            if let Some(before) = before {
                self.log.push(before.node, LoggedChange::PodGone(before.ix));
            }
            self.log_placed(&pod.uid);
        } else if let (Some(before), Some(replaced)) = (before, &replaced)
            && replaced.start_time != pod.start_time
        {
            self.log.push(before.node, LoggedChange::PodStarted(before.ix));
        }
        replaced
    }

    fn set_pending_pod(&mut self, pod: Arc<Pod>, cx: &mut Context<'_>) -> Vec<Changed> {
        if self.confirmed_node(&pod.uid).is_some() {
            // A bind cannot be undone, so this version of the pod is older.
            return Vec::new();
        }
        let old = self.pending.insert(pod.key.clone(), pod.clone());
        self.set_pending_member(old.as_deref(), Some(&pod));
        let Some(old) = old else {
            self.add_to_queue(pod, cx);
            self.count_unscheduled_pod(ActionType::ADD, cx);
            return Vec::new();
        };
        if old.resource_version == pod.resource_version && pod.resource_version != 0 {
            return Vec::new();
        }
        self.nominator.see(&pod);
        let changed = self.update_pending_pod(&old, &pod, cx);
        // As in kube-scheduler, the update as a whole counts beside its parts.
        self.count_unscheduled_pod(ActionType::UPDATE, cx);
        for part in pod_updates(&old, &pod) {
            if part != ActionType::UPDATE {
                self.count_unscheduled_pod(part, cx);
            }
        }
        changed
    }

    fn update_pending_pod(
        &mut self,
        old: &Arc<Pod>,
        pod: &Arc<Pod>,
        cx: &mut Context<'_>,
    ) -> Vec<Changed> {
        if self.is_assumed(&pod.uid) {
            if !old.terminating && pod.terminating {
                return vec![Changed::AssumedDeleted(pod.uid.clone())];
            }
            if self.queue.is_in_flight(&pod.uid) {
                // A plugin may still reject the pod. kube-scheduler 1.36 would miss that this
                // update may have helped it.
                self.update_in_queue(old, pod.clone(), cx);
            }
            return Vec::new();
        }
        let unnominated =
            old.nominated_node_name().is_some_and(|old| pod.nominated_node_name() != Some(old));
        self.update_in_queue(old, pod.clone(), cx);
        if unnominated {
            self.move_after_nomination(old.clone(), cx);
        }
        Vec::new()
    }

    fn delete_pod(&mut self, key: &PodKey, uid: &Uid, cx: &mut Context<'_>) -> Vec<Changed> {
        let mut changed = Vec::new();
        if self.confirmed_node(uid).is_some() {
            let pod = self.take_off(uid);
            changed.extend(pod.clone().map(Changed::Deleted));
            let event = ObjectEvent::assigned_pod(ActionType::DELETE, pod, None);
            self.move_pods(&event, cx);
            cx.probe.count(Count::Event(&event.event));
        }
        if self.pending.get(key).is_none_or(|pending| pending.uid != *uid) {
            return changed;
        }
        let Some(pending) = self.pending.remove(key) else { return changed };
        self.set_pending_member(Some(&pending), None);
        let nominated = self.nominator.node_of(uid).cloned();
        self.remove_from_queue(&pending, cx);
        changed.push(Changed::PendingDeleted(uid.clone()));
        changed.push(Changed::Deleted(pending.clone()));
        if self.is_assumed(uid) {
            changed.push(Changed::AssumedDeleted(uid.clone()));
        } else if let Some(node) = nominated.or_else(|| pending.nominated_node_name().cloned()) {
            // kube-scheduler asks the status alone, which the API server may have refused to write.
            self.move_after_nomination(nominated_to(pending, node), cx);
        }
        self.count_unscheduled_pod(ActionType::DELETE, cx);
        changed
    }
}

/// Updates of queue and nominator.
impl World {
    /// Counts an event of a pod without a node that was handled.
    fn count_unscheduled_pod(&self, action: ActionType, cx: &mut Context<'_>) {
        let event = ClusterEvent::new(EventResource::UnschedulablePod, action).to_string();
        let label = self.profiles.behaviours().pod_event_label(&event);
        cx.probe.count(Count::PodEvent(&label));
    }

    fn add_to_queue(&mut self, pod: Arc<Pod>, cx: &mut Context<'_>) {
        let (queue, mut plugins) = self.queue_and_plugins(cx);
        let updated = queue.add(pod.clone(), &mut plugins);
        self.nominate_by_status(pod, updated);
    }

    fn update_in_queue(&mut self, old: &Arc<Pod>, new: Arc<Pod>, cx: &mut Context<'_>) {
        if self.queue.is_in_flight(&new.uid) {
            self.nominator.refresh(&new);
        } else if self.queue.get(&new.key).is_some() {
            self.nominator.update(old, new.clone());
        }
        let (queue, mut plugins) = self.queue_and_plugins(cx);
        let updated = queue.update(old, new.clone(), &mut plugins);
        self.nominate_by_status(new, updated);
    }

    /// Nominates a pod that has entered the active queue to the node that its status names. Since
    /// 1.37 the nomination of a gated pod counts, too.
    fn nominate_by_status(&mut self, pod: Arc<Pod>, updated: Updated) {
        let is_nominated = match updated {
            Updated::EnteredActive => true,
            Updated::EnteredGated => self.profiles.behaviours().gated_pods_are_nominated,
            Updated::Known => false,
        };
        if is_nominated {
            self.nominator.add(pod, &framework::NominatingInfo::Noop);
        }
    }

    fn remove_from_queue(&mut self, pod: &Arc<Pod>, cx: &mut Context<'_>) {
        self.nominator.forget(&pod.uid);
        let (queue, mut plugins) = self.queue_and_plugins(cx);
        queue.delete(pod, &mut plugins);
    }
}

#[cfg(test)]
mod tests {
    use framework::{Level, NominatingInfo, Object, ObjectKey, Time};
    use testkit::{PodBuilder, node, pod};

    use super::*;
    use crate::effect::{Effect, EffectId, EffectKind};
    use crate::ports::{Ports, Probe};
    use crate::queue::QueueConfig;
    use crate::queue::tests::{REPORTS, profiles, profiles_at};

    /// A probe that keeps the labels of handled events.
    #[derive(Default)]
    struct Handled(Vec<String>);

    impl Probe for Handled {
        fn count(&mut self, count: Count<'_>) {
            if let Count::PodEvent(label) = &count {
                self.0.push((*label).to_owned());
            }
            if let Count::Event(event) = count {
                self.0.push(event.to_string());
            }
        }
    }

    /// Applies a change. Returns the labels of the handled events.
    fn apply(world: &mut World, change: Change) -> Vec<String> {
        let mut probe = Handled::default();
        effects_of(world, change, &mut probe);
        probe.0
    }

    fn effects_of(world: &mut World, change: Change, probe: &mut Handled) -> Vec<Effect> {
        with_context(probe, |cx| {
            world.apply(change, cx);
            cx.effects.take()
        })
    }

    fn with_context<T>(probe: &mut Handled, call: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let ports = &mut Ports { extenders: &mut (), probe };
        call(&mut Context::alone(Time::from_secs(1000), ports))
    }

    fn see(world: &mut World, pod: PodBuilder) -> Vec<String> {
        apply(world, Change::Pod(Box::new(pod.build())))
    }

    fn deleted(name: &str) -> Change {
        Change::PodDeleted { key: PodKey::new("default", name), uid: pod(name).build().uid }
    }

    #[test]
    fn events_of_unscheduled_pods_have_the_labels_of_the_level() {
        for (level, expected) in
            [(Level::V1_36, "UnschedulablePodAdd"), (Level::V1_37, "UnscheduledPodAdd")]
        {
            let world = &mut World::new(profiles_at(level), QueueConfig::default());
            assert_eq!(see(world, pod("p")), [expected], "{level}");
        }
    }

    #[test]
    fn nomination_of_a_gated_pod_protects_its_room_from_1_37_on() {
        for (level, expected) in [(Level::V1_36, None), (Level::V1_37, Some("n"))] {
            let world = &mut World::new(profiles_at(level), QueueConfig::default());
            apply(world, Change::Node(node("n").build()));
            let gated = pod("p").gate("example.com/hold").nominated("n");
            let uid = gated.clone().build().uid;
            see(world, gated);
            assert_eq!(world.nominator().node_of(&uid).map(|node| &**node), expected, "{level}");
            apply(world, deleted("p"));
            assert_eq!(world.nominator().node_of(&uid), None);
        }
    }

    #[test]
    fn change_of_an_object_that_describes_a_node_is_a_change_of_the_node() {
        let world = &mut World::new(profiles(), QueueConfig::default());
        apply(world, Change::Node(node("n").build()));
        let report = |node: &str, free: i64| {
            let json = serde_json::json!({"metadata": {"name": node}, "free": free});
            testkit::object(EventResource::Custom(REPORTS.into()), json)
        };
        let mut changes = |change: Change| {
            let revision = world.log.revision();
            let ix = world.cluster().node_named("n").unwrap();
            let before = world.cluster().node(ix).generation();
            apply(world, change);
            let logged = world.log.changed_since(revision).unwrap().objects == [ix];
            (logged, world.cluster().node(ix).generation() != before)
        };
        let set = |report: Object| Change::Object(Box::new(report));
        let key = report("n", 1).key().clone();
        assert_eq!(changes(set(report("n", 1))), (true, true));
        assert_eq!(changes(set(report("n", 1))), (false, false), "the same report");
        assert_eq!(changes(set(report("n", 2))), (true, true));
        assert_eq!(changes(set(report("elsewhere", 1))), (false, false));
        assert_eq!(changes(Change::ObjectDeleted(key)), (true, true));
    }

    #[test]
    fn handled_events_have_the_labels_of_kube_scheduler() {
        let world = &mut World::new(profiles(), QueueConfig::default());
        let n = || node("n").allocatable("cpu", "4");
        let node_change = |node: testkit::NodeBuilder| Change::Node(node.build());
        assert_eq!(apply(world, node_change(n())), ["NodeAdd"]);
        assert_eq!(apply(world, node_change(n())), [""; 0], "a heartbeat");
        let relabelled = n().label("zone", "z").allocatable("cpu", "5");
        let parts = ["NodeUpdateNodeAllocatable", "NodeUpdateNodeLabel"];
        assert_eq!(apply(world, node_change(relabelled)), parts);

        let version = |version| {
            pod("p").with(move |pod| {
                pod.metadata.resource_version = format!("{version}");
            })
        };
        assert_eq!(see(world, version(1)), ["UnscheduledPodAdd"]);
        assert_eq!(see(world, version(1)), [""; 0], "the same version");
        assert_eq!(see(world, version(2)), ["UnscheduledPodUpdate"]);
        let labelled = || version(3).label("app", "web");
        let parts = ["UnscheduledPodUpdate", "UnscheduledPodUpdatePodLabel"];
        assert_eq!(see(world, labelled()), parts);
        let bound = ["AssignedPodAdd", "UnscheduledPodDelete"];
        assert_eq!(see(world, labelled().on("n")), bound);
        let relabelled = version(4).label("app", "db").on("n");
        let parts = ["AssignedPodUpdatePodLabel", "AssignedPodUpdate"];
        assert_eq!(see(world, relabelled), parts);
        let twice = ["AssignedPodUpdate", "AssignedPodUpdate"];
        assert_eq!(see(world, version(5).label("app", "db").on("n")), twice);
        assert_eq!(apply(world, deleted("p")), ["AssignedPodDelete"]);

        see(world, pod("q"));
        assert_eq!(apply(world, deleted("q")), ["UnscheduledPodDelete"]);

        let class = |size: u32| {
            let key = ObjectKey::cluster_scoped(EventResource::StorageClass, "c".into());
            let object = serde_json::json!({ "parameters": { "size": size } });
            Change::decode(key, Some(object)).unwrap()
        };
        assert_eq!(apply(world, class(1)), ["storage.k8s.io/StorageClassAdd"]);
        let update = ["storage.k8s.io/StorageClassUpdate"];
        assert_eq!(apply(world, class(2)), update);
        assert_eq!(apply(world, class(2)), update, "no part that is kept has changed");
        assert_eq!(apply(world, Change::NodeDeleted("n".into())), ["NodeDelete"]);
    }

    #[test]
    fn nominations_follow_the_pending_pods() {
        let mut world = World::new(profiles_at(Level::V1_36), QueueConfig::default());
        let uid = pod("p").build().uid;
        let nominated = |world: &World| world.nominator().node_of(&uid).map(ToString::to_string);
        see(&mut world, pod("gated").gate("example.com/hold").nominated("n"));
        assert!(world.nominator().is_empty(), "a gated pod is not nominated");
        see(&mut world, pod("p").nominated("n"));
        assert_eq!(nominated(&world).as_deref(), Some("n"));
        see(&mut world, pod("p").nominated("m"));
        assert_eq!(nominated(&world).as_deref(), Some("m"));

        let info = NominatingInfo::Override("o".into());
        world.nominator.add(std::sync::Arc::new(pod("p").build()), &info);
        see(&mut world, pod("p"));
        see(&mut world, pod("p").label("app", "web"));
        assert_eq!(nominated(&world), None, "the status no longer names a node");
        world.nominator.add(std::sync::Arc::new(pod("p").build()), &info);
        see(&mut world, pod("p").label("app", "db"));
        assert_eq!(nominated(&world).as_deref(), Some("o"), "kept until it is written");
        apply(&mut world, deleted("p"));
        assert!(world.nominator().is_empty());
    }

    /// Shows pod `p` at this resourceVersion, nominated to the node.
    fn see_at(world: &mut World, version: u64, node: &str) {
        let mut seen = if node.is_empty() { pod("p") } else { pod("p").nominated(node) }.build();
        seen.resource_version = version;
        apply(world, Change::Pod(Box::new(seen)));
    }

    #[test]
    fn answer_to_a_cleared_nomination_tells_it_from_one_of_others() {
        let uid = pod("p").build().uid;
        // Version of the nomination by others, version of the answer, whether that comes first,
        // expected node.
        let rows = [
            (9, 8, false, Some("n")),
            (9, 8, true, Some("n")),
            (9, 10, false, None),
            (9, 10, true, None),
        ];
        for (seen, answered, answer_first, expected) in rows {
            let world = &mut World::new(profiles(), QueueConfig::default());
            see_at(world, 5, "");
            let known = pod("p").build();
            world.nomination_written(&known, "n".into(), Some(EffectId::from_u64(0)));
            world.clear_nomination(&known, Some(EffectId::from_u64(1)));
            let answer = |world: &mut World| {
                with_context(&mut Handled::default(), |cx| {
                    world.nomination_answered(EffectId::from_u64(1), answered, cx);
                });
            };
            if answer_first {
                answer(world);
                see_at(world, seen, "n");
            } else {
                see_at(world, seen, "n");
                answer(world);
            }
            let node = world.nominator().node_of(&uid);
            assert_eq!(node.map(|node| &**node), expected, "{seen} {answered} {answer_first}");
        }
    }

    #[test]
    fn answer_to_a_nomination_that_others_have_cleared_frees_its_room() {
        let world = &mut World::new(profiles(), QueueConfig::default());
        see_at(world, 5, "");
        let known = Arc::new(pod("p").build());
        world.nominator.add(known.clone(), &NominatingInfo::Override("n".into()));
        world.nomination_written(&known, "n".into(), Some(EffectId::from_u64(0)));
        see_at(world, 9, "");
        assert!(!world.nominator().is_empty(), "it may not be written yet");
        with_context(&mut Handled::default(), |cx| {
            world.nomination_answered(EffectId::from_u64(0), 8, cx);
        });
        assert!(world.nominator().is_empty());
    }

    #[test]
    fn deleted_node_clears_the_nominations_of_waiting_pods() {
        let world = &mut World::new(profiles(), QueueConfig::default());
        apply(world, Change::Node(node("n").build()));
        see(world, pod("shown").nominated("n"));
        see(world, pod("elsewhere").nominated("m"));
        let unwritten = Arc::new(pod("unwritten").build());
        see(world, pod("unwritten"));
        world.nominator.add(unwritten, &NominatingInfo::Override("n".into()));
        let effects = effects_of(world, Change::NodeDeleted("n".into()), &mut Handled::default());
        let patches: Vec<_> = effects
            .iter()
            .filter_map(|effect| match &effect.kind {
                EffectKind::PatchPodStatus { pod, patch, .. } => Some((&*pod.name, patch.clone())),
                _ => None,
            })
            .collect();
        let cleared = StatusPatch { condition: None, nominated_node_name: Some("".into()) };
        assert_eq!(patches, [("shown", cleared)]);
        assert_eq!(world.nominator().nodes().collect::<Vec<_>>(), ["m"]);
        see(world, pod("shown").nominated("n").label("app", "web"));
        let nominated = world.nominator().nodes().collect::<Vec<_>>();
        assert_eq!(nominated, ["m"], "an outdated status does not nominate again");
    }
}
