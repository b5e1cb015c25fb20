//! Which pods have to be notified that they wait because of their group: the gate of groups keeps
//! them back, or their PodGroup or other members are missing for some time.
//!
//! The condition and the event are written beside the decisions, at a bounded rate: the pods of one
//! group may be many, and pods of others must not wait for their writes. Both are repeated until
//! the watch shows the condition, because the API server may refuse them for a while.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use framework::{
    Pod, PodGroupCondition, PodGroupKey, PodGroupSource, PodKey, ScheduledCondition, StatusPatch,
    Time, Uid,
};

use crate::context::{Context, PodEvent};
use crate::decide::gate;
use crate::pod_group::condition;
use crate::ports::Count;
use crate::profile::{GROUP_GATE, gated_condition};
use crate::queue::Queue;
use crate::world::World;

/// Maximum number of pods that get their condition and event in one interval.
const BATCH: usize = 10;
/// The interval.
const INTERVAL: Duration = Duration::from_millis(100);
/// Time for which a pod waits for its PodGroup or for other members before it is notified. Most
/// groups are complete within a moment.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time after which both are written again, unless the watch has shown the condition.
const REPEAT_AFTER: Duration = Duration::from_mins(2);

/// The pods that wait because of their group.
#[derive(Debug, Default)]
pub(crate) struct GroupNotices {
    gated: BTreeMap<Uid, Progress>,
    /// The pods that are notified if they still wait then, in the order of the times. Entries of
    /// pods that have left are skipped.
    delayed: VecDeque<(Time, Member)>,
    /// The pods to be notified. Entries of pods that have left are skipped.
    waiting: VecDeque<Member>,
    /// The pods that were notified, in the order of the times at which they are notified again.
    /// Entries of pods whose condition was shown, or that have left, are skipped.
    notified: VecDeque<(Time, Member)>,
    /// Number of pods that may be notified now.
    left: usize,
    /// When more pods may be notified.
    next: Option<Time>,
}

/// Name and UID of a pod.
#[derive(Debug, Clone)]
struct Member {
    key: PodKey,
    uid: Uid,
}

/// How far the notice of a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Delayed,
    Waiting,
    Notified,
    /// The watch shows the condition.
    Shown,
}

/// Whether the gate of groups keeps a pending pod back.
pub(crate) fn is_gated(pod: &Pod, queue: &Queue) -> bool {
    pod.group().is_some() && queue.gate_of(&pod.key).is_some_and(|gate| **gate == *GROUP_GATE)
}

/// Why a pod waits.
#[derive(Debug, Clone, PartialEq)]
enum Reason {
    /// The pods of groups are gated, because they are not decided together.
    Gate,
    /// A plugin that schedules groups gates the group.
    Plugin,
    /// Another member has scheduling gates.
    Member,
}

impl Reason {
    fn of(pod: &Pod, world: &World) -> Option<Self> {
        pod.group()?;
        let gate = world.queue().gate_of(&pod.key)?;
        if **gate == *GROUP_GATE {
            return Some(Self::Gate);
        }
        let is_of_groups = || world.profile_of(pod)?.plugins.get(gate).cloned();
        let group = world.group_of(pod)?;
        if is_of_groups().is_some_and(|plugin| plugin.schedules_groups) {
            return Some(Self::Plugin);
        }
        let waits = pod.spec.scheduling_gates.is_empty() && gated_member(&group, world).is_some();
        waits.then_some(Self::Member)
    }
}

/// Whether the PodGroup of a pod exists and has no condition.
fn is_group_silent(pod: &Pod, world: &World) -> bool {
    let group = world.group_of(pod).filter(|group| group.source == PodGroupSource::Kubernetes);
    let known = group.and_then(|group| world.pod_group(&group));
    known.is_some_and(|known| known.condition.is_none())
}

/// Returns the first queued member of a group that has scheduling gates.
pub(crate) fn gated_member<'w>(group: &PodGroupKey, world: &'w World) -> Option<&'w Pod> {
    let members = world.queue().members_of(group).iter().map(|member| &*member.pod);
    members.into_iter().find(|pod| !pod.spec.scheduling_gates.is_empty())
}

impl GroupNotices {
    /// Notes whether a pending pod waits because of its group.
    pub(crate) fn see_pending(&mut self, pod: &PodKey, world: &World, cx: &mut Context<'_>) {
        let Some(known) = world.pending().get(pod) else { return };
        let reason = Reason::of(known, world);
        // A pod that was never gated costs nothing further.
        if reason.is_none() && !self.gated.contains_key(&known.uid) {
            return;
        }
        let condition = reason.as_ref().and_then(|reason| condition_of(known, reason, world, cx));
        self.see(known, reason.zip(condition), cx.now);
        if is_group_silent(known, world) {
            self.notify_for_group(known, cx.now);
        }
    }

    /// Lets a member that says why it waits be notified again, because its PodGroup says nothing:
    /// it may be a new one of the same name.
    fn notify_for_group(&mut self, pod: &Pod, now: Time) {
        if self.gated.get(&pod.uid) == Some(&Progress::Shown) {
            self.gated.insert(pod.uid.clone(), Progress::Delayed);
            self.delayed.push_back((now + PATIENCE, Member::of(pod)));
        }
    }

    /// Notifies some of the pods that wait because of their group, by condition and event. Returns
    /// the groups whose members are notified because the group is not complete.
    pub(crate) fn notify(&mut self, world: &World, cx: &mut Context<'_>) -> Vec<Incomplete> {
        let mut incomplete = Vec::new();
        while let Some(key) = self.pop(cx.now, |pod| {
            world.pending().get(pod).is_some_and(|pod| Reason::of(pod, world).is_some())
        }) {
            let Some(pod) = world.pending().get(&key) else { continue };
            let Some((reason, group)) = Reason::of(pod, world).zip(pod.group()) else { continue };
            let Some(condition) = condition_of(pod, &reason, world, cx) else { continue };
            match (&reason, pod.pod_group()) {
                (Reason::Plugin | Reason::Member, Some(group)) => {
                    let reporter = pod.spec.scheduler_name.clone();
                    incomplete.push(Incomplete { group, reporter });
                }
                _ => cx.probe.count(Count::GroupMemberGated { pod: &pod.key, group }),
            }
            if pod.scheduled_condition.as_deref() == Some(&condition) {
                continue;
            }
            let event = PodEvent::warning("FailedScheduling", "Scheduling", &condition.message);
            cx.effects.record(pod, &pod.spec.scheduler_name, event);
            let patch = StatusPatch { condition: Some(condition), nominated_node_name: None };
            cx.effects.patch_pod_status(pod, patch);
        }
        incomplete
    }

    /// Notes a pending pod. A pod that has the condition already needs no notice, for example
    /// after a restart.
    fn see(&mut self, pod: &Pod, waits: Option<(Reason, ScheduledCondition)>, now: Time) {
        let Some((reason, condition)) = waits else {
            self.forget(&pod.uid);
            return;
        };
        let is_shown = pod.scheduled_condition.as_deref() == Some(&condition);
        match (self.gated.get(&pod.uid), is_shown) {
            (_, true) => {
                self.gated.insert(pod.uid.clone(), Progress::Shown);
                self.skip_notified();
            }
            (None, false) if reason != Reason::Gate => {
                self.gated.insert(pod.uid.clone(), Progress::Delayed);
                self.delayed.push_back((now + PATIENCE, Member::of(pod)));
            }
            (None, false) => self.enqueue(Member::of(pod), now),
            // The pod has joined another group, or others write the condition, too.
            (Some(Progress::Shown), false) => {
                self.gated.insert(pod.uid.clone(), Progress::Notified);
                self.notified.push_back((now + REPEAT_AFTER, Member::of(pod)));
            }
            (Some(Progress::Delayed | Progress::Waiting | Progress::Notified), false) => {}
        }
    }

    fn enqueue(&mut self, member: Member, now: Time) {
        self.gated.insert(member.uid.clone(), Progress::Waiting);
        self.waiting.push_back(member);
        if self.left == 0 {
            self.next.get_or_insert(now);
        }
    }

    /// Forgets a pod that is gone, has a node, or is not gated any more.
    pub(crate) fn forget(&mut self, pod: &Uid) {
        if self.gated.remove(pod).is_some() {
            self.skip_notified();
            self.skip_delayed();
        }
    }

    /// Removes the entries before the first pod that waits to be notified.
    fn skip_delayed(&mut self) {
        while self.delayed.front().is_some_and(|(_, member)| !self.is(member, Progress::Delayed)) {
            self.delayed.pop_front();
        }
    }

    /// Removes the entries before the first pod that has to be notified again.
    fn skip_notified(&mut self) {
        while self.notified.front().is_some_and(|(_, member)| !self.is(member, Progress::Notified))
        {
            self.notified.pop_front();
        }
    }

    fn is(&self, member: &Member, progress: Progress) -> bool {
        self.gated.get(&member.uid) == Some(&progress)
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let again = self.notified.front().map(|(at, _)| *at);
        let delayed = self.delayed.front().map(|(at, _)| *at);
        self.next.into_iter().chain(again).chain(delayed).min()
    }

    /// Handles the passage of time.
    pub(crate) fn tick(&mut self, now: Time) {
        while let Some((_, member)) = self.delayed.pop_front_if(|(at, _)| *at <= now) {
            if self.is(&member, Progress::Delayed) {
                self.enqueue(member, now);
            }
        }
        self.skip_delayed();
        while let Some((_, member)) = self.notified.pop_front_if(|(at, _)| *at <= now) {
            if self.is(&member, Progress::Notified) {
                self.enqueue(member, now);
            }
        }
        self.skip_notified();
        if self.next.is_some_and(|next| next <= now) {
            (self.left, self.next) = (BATCH, None);
        }
    }

    /// Returns the next pod to notify. Forgets those that do not wait any more.
    fn pop(&mut self, now: Time, waits: impl Fn(&PodKey) -> bool) -> Option<PodKey> {
        while self.left > 0 {
            let member = self.waiting.pop_front()?;
            if !self.is(&member, Progress::Waiting) {
                continue;
            }
            if !waits(&member.key) {
                self.gated.remove(&member.uid);
                continue;
            }
            self.left -= 1;
            if self.left == 0 && !self.waiting.is_empty() {
                self.next = Some(now + INTERVAL);
            }
            let key = member.key.clone();
            self.gated.insert(member.uid.clone(), Progress::Notified);
            self.notified.push_back((now + REPEAT_AFTER, member));
            return Some(key);
        }
        None
    }
}

/// A group of which too few pods exist, or one has scheduling gates, and the scheduler that is
/// responsible for it.
pub(crate) struct Incomplete {
    pub(crate) group: PodGroupKey,
    pub(crate) reporter: Arc<str>,
}

impl Incomplete {
    /// Returns the condition of the group; `None` if its PodGroup does not exist.
    pub(crate) fn condition(&self, world: &World) -> Option<PodGroupCondition> {
        let needed = world.min_count(&self.group)?;
        let state = world.cluster().pod_group_state(&self.group);
        let exist = state.map_or(0, |state| state.all_count());
        let text = match gated_member(&self.group, world) {
            _ if exist < needed => {
                format!("waiting for pods: minCount is {needed}, and {exist} exist")
            }
            Some(member) => waiting_for(member),
            None => return None,
        };
        Some(condition(false, "Unschedulable", &text))
    }
}

/// The reason of a group that waits for a member with scheduling gates.
fn waiting_for(member: &Pod) -> String {
    format!("waiting for pod {}, which has scheduling gates", member.key)
}

/// Returns the condition of a pod that waits.
fn condition_of(
    pod: &Pod,
    reason: &Reason,
    world: &World,
    cx: &mut Context<'_>,
) -> Option<ScheduledCondition> {
    let message = match reason {
        Reason::Gate => return gated_condition(pod),
        Reason::Plugin => gate(world, world.profile_of(pod)?, pod, cx)?.message(),
        Reason::Member => waiting_for(gated_member(&pod.pod_group()?, world)?),
    };
    let reason = "SchedulingGated".into();
    Some(ScheduledCondition { status: false, reason, message: message.into() })
}

impl Member {
    fn of(pod: &Pod) -> Self {
        Self { key: pod.key.clone(), uid: pod.uid.clone() }
    }
}

#[cfg(test)]
mod tests {
    use testkit::pod;

    use super::*;

    fn member(name: &str) -> Pod {
        pod(name).label(framework::POD_GROUP_LABEL, "g").build()
    }

    fn shown(name: &str) -> Pod {
        let mut shown = member(name);
        shown.scheduled_condition = gated_condition(&shown).map(Arc::new);
        shown
    }

    impl GroupNotices {
        /// Notes a pod that the gate keeps back.
        fn gated(&mut self, pod: &Pod, now: Time) {
            let condition = gated_condition(pod).unwrap();
            self.see(pod, Some((Reason::Gate, condition)), now);
        }

        /// Notes a pod that waits for other members.
        fn incomplete(&mut self, pod: &Pod, now: Time) {
            let condition = gated_condition(pod).unwrap();
            self.see(pod, Some((Reason::Plugin, condition)), now);
        }
    }

    fn notified(notices: &mut GroupNotices, now: Time) -> usize {
        notices.tick(now);
        std::iter::from_fn(|| notices.pop(now, |_| true)).count()
    }

    #[test]
    fn pods_are_notified_once_at_a_bounded_rate() {
        let (mut notices, mut now) = (GroupNotices::default(), Time::from_secs(1));
        for number in 0..25 {
            for _ in 0..2 {
                notices.gated(&member(&number.to_string()), now);
            }
        }
        let mut batches = Vec::new();
        while let Some(next) = notices.next_deadline() {
            now = now.max(next);
            batches.push(notified(&mut notices, now));
            (0..25).for_each(|number| notices.gated(&shown(&number.to_string()), now));
        }
        assert_eq!(batches, [10, 0], "the watch shows all conditions");
    }

    #[test]
    fn batches_follow_each_other_after_the_interval() {
        let (mut notices, mut now) = (GroupNotices::default(), Time::from_secs(1));
        (0..25).for_each(|number| notices.gated(&member(&number.to_string()), now));
        let mut batches = Vec::new();
        while batches.len() < 3 {
            now = now.max(notices.next_deadline().unwrap());
            batches.push(notified(&mut notices, now));
        }
        assert_eq!((batches, now), (vec![10, 10, 5], Time::from_secs(1) + 2 * INTERVAL));
    }

    #[test]
    fn notice_is_repeated_until_the_condition_is_shown() {
        let (mut notices, mut now) = (GroupNotices::default(), Time::from_secs(1));
        notices.gated(&member("refused"), now);
        notices.gated(&member("shown"), now);
        assert_eq!(notified(&mut notices, now), 2);
        notices.gated(&shown("shown"), now);
        for _ in 0..3 {
            let before = now;
            now = notices.next_deadline().unwrap();
            assert_eq!(now, before + REPEAT_AFTER);
            assert_eq!(notified(&mut notices, now), 1);
        }
        notices.gated(&shown("refused"), now);
        assert_eq!(notices.next_deadline(), None);
        notices.gated(&member("refused"), now);
        assert_eq!(notices.next_deadline(), Some(now + REPEAT_AFTER), "others have replaced it");
    }

    #[test]
    fn pod_with_the_condition_and_pod_that_left_are_not_notified() {
        let (mut notices, now) = (GroupNotices::default(), Time::from_secs(1));
        notices.gated(&shown("known"), now);
        let gone = member("gone");
        notices.gated(&gone, now);
        notices.see(&gone, None, now);
        assert_eq!((notified(&mut notices, now), notices.gated.len()), (0, 1));
        assert_eq!(notices.next_deadline(), None, "nothing is left to do");
    }

    #[test]
    fn member_that_waits_for_others_is_notified_after_some_time() {
        let (mut notices, now) = (GroupNotices::default(), Time::from_secs(1));
        notices.incomplete(&member("waits"), now);
        notices.incomplete(&member("leaves"), now);
        assert_eq!(notified(&mut notices, now), 0);
        notices.see(&member("leaves"), None, now);
        assert_eq!(notices.next_deadline(), Some(now + PATIENCE));
        assert_eq!(notified(&mut notices, now + PATIENCE), 1);
        notices.incomplete(&shown("waits"), now + PATIENCE);
        assert_eq!(notices.next_deadline(), None, "the watch shows the condition");
    }

    #[test]
    fn member_whose_group_is_complete_is_not_notified() {
        let (mut notices, now) = (GroupNotices::default(), Time::from_secs(1));
        notices.incomplete(&member("runs"), now);
        notices.tick(now + PATIENCE);
        assert_eq!(notices.pop(now + PATIENCE, |_| false), None);
        assert_eq!((notices.next_deadline(), notices.gated.len()), (None, 0));
    }
}
