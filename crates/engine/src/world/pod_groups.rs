//! PodGroups in the world: their members, and groups that come back from an attempt.

use std::sync::Arc;

use framework::{
    EventResource, NominatingInfo, ObjectUpdate, Pod, PodGroup, PodGroupKey, QueuedEntity,
    QueuedGroup, QueuedPod,
};

use super::World;
use crate::change::Change;
use crate::context::Context;

/// Looking in.
impl World {
    /// Returns the group with which a pod is scheduled; `None` for a pod that is scheduled alone.
    pub(crate) fn group_of(&self, pod: &Pod) -> Option<PodGroupKey> {
        if self.profiles.schedules_groups() { pod.pod_group() } else { None }
    }

    /// Returns the groups whose members the change of a pod may change: those of the pod as it is
    /// known, and as it becomes.
    pub(crate) fn groups_of_changed(&self, change: &Change) -> Vec<PodGroupKey> {
        let (key, uid, new) = match change {
            Change::Pod(pod) => (&pod.key, &pod.uid, Some(&**pod)),
            Change::PodDeleted { key, uid } => (key, uid, None),
            _ => return Vec::new(),
        };
        if !self.profiles.schedules_groups() {
            return Vec::new();
        }
        let placed = self.placed(uid).map(|placed| &*placed.pod);
        let known = placed.or_else(|| self.pending.get(key).map(|pending| &**pending));
        let mut groups: Vec<_> =
            [known, new].into_iter().flatten().filter_map(Pod::pod_group).collect();
        groups.dedup();
        groups
    }

    /// Returns the PodGroup of this key.
    pub(crate) fn pod_group(&self, group: &PodGroupKey) -> Option<&Arc<PodGroup>> {
        self.cluster.pod_group(group)
    }

    /// Returns how many pods of a group are placed together at least; `None` without a PodGroup.
    pub(crate) fn min_count(&self, group: &PodGroupKey) -> Option<u32> {
        let known = self.pod_group(group)?;
        Some(if self.profiles.places_gangs_whole() { known.min_count() } else { 1 })
    }

    /// Whether a group waits for pods: fewer exist than are placed together, or its PodGroup does
    /// not.
    pub(crate) fn is_incomplete(&self, group: &PodGroupKey) -> bool {
        let exist = self.cluster.pod_group_state(group).map_or(0, |state| state.all_count());
        self.min_count(group).is_none_or(|needed| exist < needed)
    }

    /// Returns the scheduler name of a member with a node.
    pub(crate) fn scheduler_of_placed(&self, group: &PodGroupKey) -> Option<Arc<str>> {
        let member = self.cluster.pod_group_state(group)?.scheduled().next()?;
        Some(self.cluster.pod(member).pod.spec.scheduler_name.clone())
    }

    /// Returns the number of members of a group that run on a node or are assumed there.
    pub(crate) fn scheduled_members(&self, group: &PodGroupKey) -> u32 {
        self.cluster.pod_group_state(group).map_or(0, |state| state.scheduled_count())
    }
}

/// Changes.
impl World {
    /// Notes the pending pod that the watch shows in place of another version, or that one is gone.
    pub(super) fn set_pending_member(&mut self, old: Option<&Pod>, new: Option<&Pod>) {
        if self.cluster.quotas().counts() {
            old.into_iter().for_each(|old| self.cluster.set_pending_claimant(old, false));
            new.into_iter().for_each(|new| self.cluster.set_pending_claimant(new, true));
        }
        if !self.profiles.schedules_groups() {
            return;
        }
        old.into_iter().for_each(|old| self.cluster.set_pending_member(old, false));
        new.into_iter().for_each(|new| self.cluster.set_pending_member(new, true));
    }

    /// Lets the queue follow a change of a PodGroup. Returns the group.
    pub(super) fn follow_pod_group(
        &mut self,
        update: &ObjectUpdate,
        cx: &mut Context<'_>,
    ) -> Option<PodGroupKey> {
        let object = update.new.as_ref().or(update.old.as_ref())?;
        let is_custom = matches!(object.kind(), EventResource::Custom(_));
        let is_pod_group = is_custom || *object.kind() == EventResource::PodGroup;
        if !self.profiles.schedules_groups() || !is_pod_group {
            return None;
        }
        object.get::<PodGroup>()?;
        let group = framework::pod_group_key(object.key());
        let (queue, mut plugins) = self.queue_and_plugins(cx);
        queue.pod_group_changed(&group, &mut plugins);
        Some(group)
    }

    /// Returns the member as last seen, and nominates it as the attempt of its group asks. Returns
    /// `None` if another pod of the same name has replaced it, or if it is gone.
    pub(crate) fn fail_member(
        &mut self,
        member: &mut QueuedPod,
        nominating: &NominatingInfo,
        cx: &mut Context<'_>,
    ) -> Option<Arc<Pod>> {
        let known = self.pending.get(&member.pod.key)?;
        let known = Some(known.clone()).filter(|known| known.uid == member.pod.uid)?;
        member.set_pod(known.clone());
        self.nominate_after_failure(&known, nominating, cx);
        Some(known)
    }

    /// Requeues a group that was rejected or that failed, and ends its flight. Members that are
    /// gone are dropped.
    ///
    /// Rule rejected-groups-wait-for-events of docs/differences.toml.
    pub(crate) fn requeue_group(&mut self, mut group: Box<QueuedGroup>, cx: &mut Context<'_>) {
        self.retain_pending(&mut group);
        let (queue, mut plugins) = self.queue_and_plugins(cx);
        let entity = QueuedEntity::Group(group);
        match entity.pods().is_empty() {
            true => queue.done(entity.uid()),
            false => queue.add_unschedulable_if_not_present(entity, &mut plugins),
        }
    }

    /// Requeues the members of a group that were left over when the others were placed, and ends
    /// the flight of the group.
    pub(crate) fn requeue_leftovers(&mut self, mut group: Box<QueuedGroup>, cx: &mut Context<'_>) {
        self.retain_pending(&mut group);
        let (queue, mut plugins) = self.queue_and_plugins(cx);
        match group.members().is_empty() {
            true => queue.done(QueuedEntity::Group(group).uid()),
            false => queue.requeue_leftovers(group, &mut plugins),
        }
    }

    fn retain_pending(&self, group: &mut QueuedGroup) {
        for member in group.take_members() {
            if self.is_pending(&member.pod) {
                group.insert(member);
            }
        }
    }
}
