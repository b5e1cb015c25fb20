//! Entities in the scheduling queue.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{PluginName, Pod, PodGroupKey, PodKey, ScheduledCondition, Time, Uid};

/// The parts of the queue in which an entity spends time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Ready for an attempt.
    Active,
    /// Backing off after a failed attempt.
    Backoff,
    /// Rejected, waiting for an event.
    Unschedulable,
    /// Gated by a PreEnqueue plugin.
    Gated,
}

/// The time that an entity has spent in each part of the queue, over all its attempts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueTimes {
    /// Ready for an attempt.
    pub active: Duration,
    /// Backing off after a failed attempt.
    pub backoff: Duration,
    /// Rejected, waiting for an event.
    pub unschedulable: Duration,
    /// Gated by a PreEnqueue plugin.
    pub gated: Duration,
    /// Where the entity waits, and since when; `None` during an attempt.
    current: Option<(Waiting, Time)>,
}

impl QueueTimes {
    /// Counts the time until `now` for the part that the entity leaves, and notes the part that it
    /// enters, `None` for an attempt.
    pub fn enter(&mut self, part: Option<Waiting>, now: Time) {
        if let Some((left, since)) = self.current {
            let spent = now.since(since);
            match left {
                Waiting::Active => self.active += spent,
                Waiting::Backoff => self.backoff += spent,
                Waiting::Unschedulable => self.unschedulable += spent,
                Waiting::Gated => self.gated += spent,
            }
        }
        self.current = part.map(|part| (part, now));
    }

    /// Returns the time in all parts.
    pub fn total(&self) -> Duration {
        self.active + self.backoff + self.unschedulable + self.gated
    }

    /// Returns the times including the wait that goes on at `now`.
    #[must_use]
    pub fn until(mut self, now: Time) -> Self {
        self.enter(self.current.map(|(part, _)| part), now);
        self
    }
}

/// The identity of an entity of the scheduling queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntityKey {
    /// A pod that is scheduled alone.
    Pod(PodKey),
    /// A group of pods.
    Group(PodGroupKey),
}

/// What the scheduling queue holds: pods that are decided together, with the history of their
/// attempts (`QueuedEntityInfo` in Kubernetes). A pod that is scheduled alone is an entity of size
/// one.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "nearly every entity is a pod")]
pub enum QueuedEntity {
    /// A pod that is scheduled alone.
    Pod(QueuedPod),
    /// A group of pods.
    Group(Box<QueuedGroup>),
}

impl QueuedEntity {
    /// Returns the entity of a pod that is added to the queue at `now`.
    pub fn of_pod(pod: Arc<Pod>, now: Time) -> Self {
        Self::Pod(QueuedPod::new(pod, now))
    }

    /// Returns the identity of the entity.
    pub fn key(&self) -> EntityKey {
        match self {
            Self::Pod(queued) => EntityKey::Pod(queued.pod.key.clone()),
            Self::Group(group) => EntityKey::Group(group.key.clone()),
        }
    }

    /// Returns the identity of the entity while it is in flight: the UID of the pod, or a text that
    /// names the group.
    pub fn uid(&self) -> &Uid {
        match self {
            Self::Pod(queued) => &queued.pod.uid,
            Self::Group(group) => &group.uid,
        }
    }

    /// Returns the priority by which QueueSort plugins order entities.
    pub fn priority(&self) -> i32 {
        match self {
            Self::Pod(queued) => queued.pod.priority(),
            Self::Group(group) => group.priority,
        }
    }

    /// Whether only pods beyond the minimum of an elastic group wait.
    pub fn is_surplus(&self) -> bool {
        matches!(self, Self::Group(group) if group.is_surplus)
    }

    /// Returns the scheduler name of the pods, which names their profile.
    pub fn scheduler_name(&self) -> &Arc<str> {
        match self {
            Self::Pod(queued) => &queued.pod.spec.scheduler_name,
            Self::Group(group) => &group.members[0].pod.spec.scheduler_name,
        }
    }

    /// Returns the pods in the order in which they are placed; there is at least one.
    pub fn pods(&self) -> &[QueuedPod] {
        match self {
            Self::Pod(queued) => std::slice::from_ref(queued),
            Self::Group(group) => &group.members,
        }
    }

    /// Replaces one of the pods by a newer version.
    pub fn set_pod(&mut self, pod: Arc<Pod>) {
        match self {
            Self::Pod(queued) => queued.set_pod(pod),
            Self::Group(group) => group.set_pod(pod),
        }
    }

    /// Returns the history of the entity.
    pub fn history(&self) -> &History {
        match self {
            Self::Pod(queued) => &queued.history,
            Self::Group(group) => &group.history,
        }
    }

    /// Returns the history of the entity, to be continued.
    pub fn history_mut(&mut self) -> &mut History {
        match self {
            Self::Pod(queued) => &mut queued.history,
            Self::Group(group) => &mut group.history,
        }
    }

    /// Notes that the entity and its pods enter a part of the queue.
    pub fn enter(&mut self, part: Waiting, now: Time) {
        let enter = |history: &mut History| {
            if part == Waiting::Active {
                history.initial_attempt.get_or_insert(now);
            }
            history.times.enter(Some(part), now);
        };
        self.each_history(enter);
    }

    /// Notes that an attempt for the entity begins.
    pub fn begin_attempt(&mut self, now: Time) {
        self.each_history(|history| {
            history.attempts = history.attempts.saturating_add(1);
            history.times.enter(None, now);
        });
    }

    fn each_history(&mut self, mut change: impl FnMut(&mut History)) {
        change(self.history_mut());
        if let Self::Group(group) = self {
            group.members.iter_mut().for_each(|member| change(&mut member.history));
        }
    }
}

/// A group of pods in the scheduling queue: its members that wait for a node
/// (`QueuedPodGroupInfo` in Kubernetes).
#[derive(Debug, Clone)]
pub struct QueuedGroup {
    /// API, namespace and name.
    pub key: PodGroupKey,
    uid: Uid,
    /// The priority of its PodGroup, by which QueueSort plugins order it.
    pub priority: i32,
    /// Whether only pods beyond the minimum of an elastic group wait. Entities of its priority go
    /// before it.
    pub is_surplus: bool,
    /// What has happened to the group in the queue.
    pub history: History,
    /// The nodes that the last attempt lacked.
    pub missing_nodes: Option<MissingNodes>,
    /// The members, in the order in which they are placed; empty only during an attempt.
    members: Vec<QueuedPod>,
}

/// Nodes that a group lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingNodes {
    /// Number of nodes.
    pub count: usize,
    /// What each has, for example `cpu 8, nvidia.com/gpu 4`.
    pub shape: String,
    /// A node of the cluster that is like it; without, each node is for one pod.
    pub like: Option<Arc<str>>,
}

impl fmt::Display for MissingNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, shape, like } = self;
        let nodes = if *count == 1 { "node" } else { "nodes" };
        match like {
            Some(like) => write!(f, "lacks {count} {nodes} like {like} ({shape})"),
            None => write!(f, "lacks {count} {nodes} with {shape}"),
        }
    }
}

impl QueuedGroup {
    /// Creates the record of a group, with its first member. Its history begins with that of the
    /// member.
    pub fn new(key: PodGroupKey, priority: i32, member: QueuedPod) -> Self {
        let uid = Uid::from(&*format!("PodGroup {key}"));
        let history = member.history.clone();
        Self {
            key,
            uid,
            priority,
            is_surplus: false,
            history,
            missing_nodes: None,
            members: vec![member],
        }
    }

    /// Returns the members, in the order in which they are placed.
    pub fn members(&self) -> &[QueuedPod] {
        &self.members
    }

    /// Removes and returns all members.
    pub fn take_members(&mut self) -> Vec<QueuedPod> {
        std::mem::take(&mut self.members)
    }

    /// Adds a member, or replaces the one of its name. Members are placed by priority, highest
    /// first, then by attempts, most first, then by time and name, as in Kubernetes 1.37.
    pub fn insert(&mut self, member: QueuedPod) {
        self.remove(&member.pod.key);
        let place = |own: &QueuedPod| {
            let (priority, history) = (own.pod.priority(), &own.history);
            (Reverse(priority), Reverse(history.attempts), history.timestamp, own.pod.key.clone())
        };
        let new = place(&member);
        let index = self.members.partition_point(|own| place(own) < new);
        self.members.insert(index, member);
    }

    /// Removes and returns the member of this name.
    pub fn remove(&mut self, pod: &PodKey) -> Option<QueuedPod> {
        let index = self.members.iter().position(|own| own.pod.key == *pod)?;
        Some(self.members.remove(index))
    }

    fn set_pod(&mut self, pod: Arc<Pod>) {
        let known = self.members.iter_mut().find(|own| own.pod.key == pod.key);
        if let Some(known) = known {
            known.set_pod(pod);
        }
    }
}

/// What has happened in the scheduling queue to an entity or to one of its pods.
#[derive(Debug, Clone)]
pub struct History {
    /// When it was added to the queue, or requeued after its last failed attempt.
    pub timestamp: Time,
    /// When it first entered the active queue; `None` until then.
    pub initial_attempt: Option<Time>,
    /// Number of attempts, including the current one.
    pub attempts: u32,
    /// Number of attempts that found it unschedulable. It sets the backoff.
    pub unschedulable_count: u32,
    /// Number of consecutive attempts that ended in an error. It sets the backoff after an error.
    pub consecutive_errors: u32,
    /// Plugins that rejected it in its last attempt, or that gate it.
    pub unschedulable_plugins: BTreeSet<PluginName>,
    /// Plugins that answered Pending in its last attempt.
    pub pending_plugins: BTreeSet<PluginName>,
    /// Whether its last attempt showed that no node can take any pod of its template.
    pub template_rejected: bool,
    /// The PreEnqueue plugin that gates it, if any.
    pub gating_plugin: Option<PluginName>,
    /// End of its backoff, computed once per failure.
    pub backoff_expiration: Option<Time>,
    /// Whether it was requeued because it was unschedulable for too long, not because of an event.
    pub flushed: bool,
    /// When it was last looked at because it was gated for too long.
    pub gate_flushed: Option<Time>,
    /// The time that it has spent in each part of the queue.
    pub times: QueueTimes,
}

impl History {
    /// Returns the history of what is added to the queue at `now`.
    pub fn new(now: Time) -> Self {
        Self {
            timestamp: now,
            initial_attempt: None,
            attempts: 0,
            unschedulable_count: 0,
            consecutive_errors: 0,
            unschedulable_plugins: BTreeSet::new(),
            pending_plugins: BTreeSet::new(),
            template_rejected: false,
            gating_plugin: None,
            backoff_expiration: None,
            flushed: false,
            gate_flushed: None,
            times: QueueTimes::default(),
        }
    }

    /// Whether no plugin rejected it in its last attempt, because the attempt ended in an error.
    pub fn has_no_rejector(&self) -> bool {
        self.unschedulable_plugins.is_empty() && self.pending_plugins.is_empty()
    }

    /// Returns the plugins that rejected it in its last attempt, by name.
    pub fn rejectors(&self) -> impl Iterator<Item = &PluginName> {
        self.unschedulable_plugins.union(&self.pending_plugins)
    }
}

/// A pod in the scheduling queue, with its history (`QueuedPodInfo` in Kubernetes).
#[derive(Debug, Clone)]
pub struct QueuedPod {
    /// The pod as last seen.
    pub pod: Arc<Pod>,
    /// The `PodScheduled` condition that was written last. The watch may not have shown it yet.
    pub written_condition: Option<Arc<ScheduledCondition>>,
    /// What has happened to the pod in the queue.
    pub history: History,
}

impl QueuedPod {
    /// Creates the record of a pod added to the queue at `now`.
    pub fn new(pod: Arc<Pod>, now: Time) -> Self {
        Self { pod, written_condition: None, history: History::new(now) }
    }

    /// Replaces the pod by a newer version. The condition that was written is shared with a version
    /// that shows it.
    pub fn set_pod(&mut self, pod: Arc<Pod>) {
        if let (Some(written), Some(shown)) =
            (&mut self.written_condition, &pod.scheduled_condition)
            && written == shown
        {
            written.clone_from(shown);
        }
        self.pod = pod;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod;

    #[test]
    fn members_are_placed_by_priority_attempts_time_and_name() {
        let member = |name: &str, priority, attempts, seconds| {
            let pod = Arc::new(pod(name).priority(priority).build());
            let mut member = QueuedPod::new(pod, Time::from_secs(seconds));
            member.history.attempts = attempts;
            member
        };
        let first = member("late", 0, 0, 9);
        let mut group = QueuedGroup::new(PodGroupKey::new("default", "g"), 0, first);
        for (name, priority, attempts, seconds) in
            [("b", 0, 0, 2), ("a", 0, 0, 2), ("tried", 0, 1, 9), ("high", 5, 0, 9), ("a", 0, 0, 2)]
        {
            group.insert(member(name, priority, attempts, seconds));
        }
        let names: Vec<_> = group.members().iter().map(|own| &*own.pod.key.name).collect();
        assert_eq!(names, ["high", "tried", "a", "b", "late"]);
        assert!(group.remove(&PodKey::new("default", "b")).is_some());
        assert!(group.remove(&PodKey::new("default", "b")).is_none());
    }

    #[test]
    fn condition_that_was_written_is_shared_with_the_pod_that_shows_it() {
        let because = |message: &str| {
            let (status, reason) = (false, "Unschedulable".into());
            Arc::new(ScheduledCondition { status, reason, message: message.into() })
        };
        let showing = |condition: &Arc<ScheduledCondition>| {
            let mut shows = pod("p").build();
            shows.scheduled_condition = Some(condition.clone());
            Arc::new(shows)
        };
        let mut queued = QueuedPod::new(pod("p").build().into(), Time::ZERO);
        let written = because("no room");
        queued.written_condition = Some(written.clone());
        queued.set_pod(showing(&because("no disk")));
        assert!(Arc::ptr_eq(queued.written_condition.as_ref().unwrap(), &written));
        let shown = because("no room");
        queued.set_pod(showing(&shown));
        assert!(Arc::ptr_eq(queued.written_condition.as_ref().unwrap(), &shown));
    }
}
