//! PodGroups in the queue: the members that wait form one entity.
//!
//! A group whose PodGroup does not exist is an entity, too: a PreEnqueue plugin gates it. A member
//! that comes or goes leaves the history of its group alone.

use foldhash::HashMap;
use framework::{
    EntityKey, History, Pod, PodGroupKey, PodKey, QueuedEntity, QueuedGroup, QueuedPod, Uid,
};

use super::hint::QueueingStrategy;
use super::order::SortPlugin;
use super::place::Place;
use super::plugins::Plugins;
use super::{Queue, label, pre_enqueue, record_failure};

/// The groups of the pods that were added and not deleted since.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// Never iterated.
    groups: HashMap<PodKey, Member>,
}

#[derive(Debug)]
struct Member {
    uid: Uid,
    group: PodGroupKey,
}

impl Members {
    fn insert(&mut self, pod: &Pod, group: PodGroupKey) {
        self.groups.insert(pod.key.clone(), Member { uid: pod.uid.clone(), group });
    }

    fn group_of(&self, pod: &PodKey) -> Option<&PodGroupKey> {
        self.groups.get(pod).map(|member| &member.group)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Forgets a pod, but not another one of its name.
    pub(super) fn forget(&mut self, pod: &Pod) {
        if self.groups.get(&pod.key).is_some_and(|member| member.uid == pod.uid) {
            self.groups.remove(&pod.key);
        }
    }
}

/// Returns the group with which a pod is scheduled.
pub(super) fn group_of(pod: &Pod, plugins: &Plugins<'_>) -> Option<PodGroupKey> {
    if plugins.profiles.schedules_groups() { pod.pod_group() } else { None }
}

/// Members.
impl Queue {
    /// Returns the entity that a pod belongs to.
    pub(super) fn entity_of(&self, pod: &PodKey) -> EntityKey {
        match self.members.group_of(pod) {
            Some(group) => EntityKey::Group(group.clone()),
            None => EntityKey::Pod(pod.clone()),
        }
    }

    /// Whether the update of a pod moves it into another group, or out of its group.
    pub(super) fn moves_between_groups(&self, new: &Pod, plugins: &Plugins<'_>) -> bool {
        plugins.profiles.schedules_groups()
            && self.members.group_of(&new.key) != new.pod_group().as_ref()
            && self.get(&new.key).is_some()
    }

    /// Adds a member to its group. The group keeps its place, unless a PreEnqueue plugin gates it
    /// or no longer does. A rejected group is tried again, because the member may complete it.
    pub(super) fn add_member(
        &mut self,
        group: PodGroupKey,
        member: QueuedPod,
        label: &str,
        plugins: &mut Plugins<'_>,
    ) -> Place {
        self.members.insert(&member.pod, group.clone());
        let (strategy, entity) = match self.take_group(&group, plugins) {
            Some((place, mut known)) => {
                known.insert(member);
                (strategy_of(place), known)
            }
            None => {
                let priority = priority_of(&group, &member, plugins);
                let entity = Box::new(QueuedGroup::new(group, priority, member));
                (QueueingStrategy::Immediately, entity)
            }
        };
        self.requeue(QueuedEntity::Group(entity), strategy, label, plugins)
    }

    /// Removes a pod from its entity, and the entity with its last pod.
    pub(super) fn remove_pod(&mut self, pod: &PodKey, plugins: &mut Plugins<'_>) {
        let Some(group) = self.members.group_of(pod).cloned() else {
            return self.remove(&EntityKey::Pod(pod.clone()), plugins);
        };
        self.members.groups.remove(pod);
        let Some((place, mut entity)) = self.take_group(&group, plugins) else { return };
        entity.remove(pod);
        if entity.members().is_empty() {
            return;
        }
        self.put_back_group(place, entity, plugins);
    }

    /// Handles a change of a PodGroup. Its event moves the group if it may help.
    pub fn pod_group_changed(&mut self, group: &PodGroupKey, plugins: &mut Plugins<'_>) {
        let Some((place, mut entity)) = self.take_group(group, plugins) else { return };
        if let [first, ..] = entity.members() {
            entity.priority = priority_of(group, first, plugins);
        }
        match plugins.handle.cluster.pod_group(group) {
            Some(_) => self.put_back_group(place, entity, plugins),
            None => {
                let entity = QueuedEntity::Group(entity);
                self.requeue(entity, QueueingStrategy::AfterBackoff, label::UPDATE, plugins);
            }
        }
    }

    /// Requeues a member whose attempt failed after the decision about its group. Its history names
    /// the plugins that rejected it, or none after an error. The group backs off as the member
    /// does; the first error is no reason to wait.
    pub fn add_failed_member(
        &mut self,
        group: PodGroupKey,
        mut member: QueuedPod,
        plugins: &mut Plugins<'_>,
    ) {
        record_failure(&mut member.history, plugins.now());
        self.members.insert(&member.pod, group.clone());
        let entity = match self.take_group(&group, plugins) {
            Some((_, mut known)) => {
                adopt(&mut known.history, &member.history);
                known.insert(member);
                known
            }
            None => {
                let priority = priority_of(&group, &member, plugins);
                Box::new(QueuedGroup::new(group, priority, member))
            }
        };
        let history = &entity.history;
        let strategy = match history.has_no_rejector() && history.consecutive_errors <= 1 {
            true => QueueingStrategy::Immediately,
            false => QueueingStrategy::AfterBackoff,
        };
        self.requeue(QueuedEntity::Group(entity), strategy, label::ATTEMPT_FAILED, plugins);
    }

    /// Requeues a member that changed after the decision about its group. It is tried at once, and
    /// has not failed.
    pub fn add_outdated_member(
        &mut self,
        group: PodGroupKey,
        member: QueuedPod,
        plugins: &mut Plugins<'_>,
    ) {
        self.add_member(group, member, label::ATTEMPT_FAILED, plugins);
    }

    /// Requeues the members of a group that were left over when the others were placed, and ends
    /// its flight: they are tried at once, and the group has not failed.
    pub fn requeue_leftovers(&mut self, mut group: Box<QueuedGroup>, plugins: &mut Plugins<'_>) {
        let history = &mut group.history;
        (history.unschedulable_count, history.consecutive_errors) = (0, 0);
        history.backoff_expiration = None;
        let mut entity = QueuedEntity::Group(group);
        let uid = entity.uid().clone();
        self.absorb_queued(&mut entity, plugins);
        self.requeue(entity, QueueingStrategy::Immediately, label::ATTEMPT_FAILED, plugins);
        self.done(&uid);
    }

    /// Moves the members of a group that were queued during its attempt into the entity that comes
    /// back from the attempt.
    pub(super) fn absorb_queued(&mut self, entity: &mut QueuedEntity, plugins: &mut Plugins<'_>) {
        let QueuedEntity::Group(group) = entity else { return };
        let key = group.key.clone();
        let Some((_, mut queued)) = self.take_group(&key, plugins) else { return };
        queued.take_members().into_iter().for_each(|member| group.insert(member));
    }

    /// Removes and returns a group and its place.
    fn take_group(
        &mut self,
        group: &PodGroupKey,
        plugins: &mut Plugins<'_>,
    ) -> Option<(Place, Box<QueuedGroup>)> {
        let key = EntityKey::Group(group.clone());
        let (place, _) = self.entity(&key)?;
        let sort = &mut SortPlugin::of(plugins);
        let taken = match place {
            Place::Active => self.active.remove(&key, sort),
            Place::Backoff | Place::ErrorBackoff => self.backoff.remove(&key, sort),
            Place::Unschedulable | Place::Gated => self.unschedulable.remove(&key),
        };
        match taken {
            Some(QueuedEntity::Group(entity)) => Some((place, entity)),
            _ => None,
        }
    }

    /// Puts a group back into its place. A PreEnqueue plugin may gate it.
    fn put_back_group(
        &mut self,
        place: Place,
        entity: Box<QueuedGroup>,
        plugins: &mut Plugins<'_>,
    ) {
        let mut entity = QueuedEntity::Group(entity);
        match place {
            Place::Unschedulable if pre_enqueue::passes(&mut entity, plugins) => {
                self.unschedulable.insert(entity);
            }
            Place::Unschedulable => {
                self.add_to_unschedulable(entity, label::UPDATE, plugins);
            }
            place => {
                self.requeue(entity, strategy_of(place), label::UPDATE, plugins);
            }
        }
    }
}

/// Returns the strategy with which a group that was taken from `place` goes on.
const fn strategy_of(place: Place) -> QueueingStrategy {
    match place {
        Place::Active => QueueingStrategy::Immediately,
        _ => QueueingStrategy::AfterBackoff,
    }
}

/// Returns the priority of a group: that of its PodGroup, or else that of its member.
fn priority_of(group: &PodGroupKey, member: &QueuedPod, plugins: &Plugins<'_>) -> i32 {
    let known = plugins.handle.cluster.pod_group(group);
    known.and_then(|group| group.priority).unwrap_or_else(|| member.pod.priority())
}

/// Notes whether only pods beyond the minimum of an elastic group wait.
pub(super) fn mark_surplus(entity: &mut QueuedEntity, plugins: &Plugins<'_>) {
    let QueuedEntity::Group(group) = entity else { return };
    let cluster = plugins.handle.cluster;
    group.is_surplus = cluster.runs_beyond_minimum(&group.key);
}

/// Takes the failure of a member into the history of its group.
fn adopt(group: &mut History, member: &History) {
    group.unschedulable_count = group.unschedulable_count.max(member.unschedulable_count);
    group.consecutive_errors = group.consecutive_errors.max(member.consecutive_errors);
    group.unschedulable_plugins.extend(member.unschedulable_plugins.iter().cloned());
    group.pending_plugins.extend(member.pending_plugins.iter().cloned());
    group.timestamp = member.timestamp;
    group.backoff_expiration = None;
}
