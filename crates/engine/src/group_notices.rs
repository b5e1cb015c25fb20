//! Which pods have to be notified that the gate of groups keeps them back.
//!
//! The condition and the event are written beside the decisions, at a bounded rate: the pods of one
//! group may be many, and pods of others must not wait for their writes. Both are repeated until
//! the watch shows the condition, because the API server may refuse them for a while.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use framework::{Pod, PodKey, StatusPatch, Time, Uid};

use crate::context::{Context, PodEvent};
use crate::ports::Count;
use crate::profile::{GROUP_GATE, gated_condition};
use crate::queue::Queue;
use crate::world::World;

/// Maximum number of pods that get their condition and event in one interval.
const BATCH: usize = 10;
/// The interval.
const INTERVAL: Duration = Duration::from_millis(100);
/// Time after which both are written again, unless the watch has shown the condition.
const REPEAT_AFTER: Duration = Duration::from_mins(2);

/// The pods that the gate keeps back.
#[derive(Debug, Default)]
pub(crate) struct GroupNotices {
    gated: BTreeMap<Uid, Progress>,
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
    Waiting,
    Notified,
    /// The watch shows the condition.
    Shown,
}

/// Whether the gate of groups keeps a pending pod back.
pub(crate) fn is_gated(pod: &Pod, queue: &Queue) -> bool {
    let queued = || queue.get(&pod.key).map(|(_, queued)| queued);
    pod.group().is_some()
        && queued()
            .is_some_and(|queued| queued.history.gating_plugin.as_deref() == Some(GROUP_GATE))
}

impl GroupNotices {
    /// Notes whether the gate holds a pending pod back.
    pub(crate) fn see_pending(&mut self, pod: &PodKey, world: &World, now: Time) {
        let Some(known) = world.pending().get(pod) else { return };
        self.see(known, is_gated(known, world.queue()), now);
    }

    /// Notifies some of the pods that the gate keeps back, by condition and event.
    pub(crate) fn notify(&mut self, world: &World, cx: &mut Context<'_>) {
        while let Some(key) = self.pop(cx.now) {
            let Some(pod) = world.pending().get(&key) else { continue };
            let Some((condition, group)) = gated_condition(pod).zip(pod.group()) else { continue };
            cx.probe.count(Count::GroupMemberGated { pod: &pod.key, group });
            let event = PodEvent::warning("FailedScheduling", "Scheduling", &condition.message);
            cx.effects.record(pod, &pod.spec.scheduler_name, event);
            let patch =
                StatusPatch { condition: Some(condition.clone()), nominated_node_name: None };
            cx.effects.patch_pod_status(pod, patch);
        }
    }

    /// Notes a pending pod. A pod that has the condition already needs no notice, for example
    /// after a restart.
    fn see(&mut self, pod: &Pod, is_gated: bool, now: Time) {
        if !is_gated {
            self.forget(&pod.uid);
            return;
        }
        let is_shown = pod.scheduled_condition.as_deref() == gated_condition(pod).as_ref();
        match (self.gated.get(&pod.uid), is_shown) {
            (_, true) => {
                self.gated.insert(pod.uid.clone(), Progress::Shown);
                self.skip_notified();
            }
            (None, false) => self.enqueue(Member::of(pod), now),
            // The pod has joined another group, or others write the condition, too.
            (Some(Progress::Shown), false) => {
                self.gated.insert(pod.uid.clone(), Progress::Notified);
                self.notified.push_back((now + REPEAT_AFTER, Member::of(pod)));
            }
            (Some(Progress::Waiting | Progress::Notified), false) => {}
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
        self.next.into_iter().chain(again).min()
    }

    /// Handles the passage of time.
    pub(crate) fn tick(&mut self, now: Time) {
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

    /// Returns the next pod to notify.
    fn pop(&mut self, now: Time) -> Option<PodKey> {
        while self.left > 0 {
            let member = self.waiting.pop_front()?;
            if !self.is(&member, Progress::Waiting) {
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

impl Member {
    fn of(pod: &Pod) -> Self {
        Self { key: pod.key.clone(), uid: pod.uid.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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

    fn notified(notices: &mut GroupNotices, now: Time) -> usize {
        notices.tick(now);
        std::iter::from_fn(|| notices.pop(now)).count()
    }

    #[test]
    fn pods_are_notified_once_at_a_bounded_rate() {
        let (mut notices, mut now) = (GroupNotices::default(), Time::from_secs(1));
        for number in 0..25 {
            for _ in 0..2 {
                notices.see(&member(&number.to_string()), true, now);
            }
        }
        let mut batches = Vec::new();
        while let Some(next) = notices.next_deadline() {
            now = now.max(next);
            batches.push(notified(&mut notices, now));
            (0..25).for_each(|number| notices.see(&shown(&number.to_string()), true, now));
        }
        assert_eq!(batches, [10, 0], "the watch shows all conditions");
    }

    #[test]
    fn batches_follow_each_other_after_the_interval() {
        let (mut notices, mut now) = (GroupNotices::default(), Time::from_secs(1));
        (0..25).for_each(|number| notices.see(&member(&number.to_string()), true, now));
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
        notices.see(&member("refused"), true, now);
        notices.see(&member("shown"), true, now);
        assert_eq!(notified(&mut notices, now), 2);
        notices.see(&shown("shown"), true, now);
        for _ in 0..3 {
            let before = now;
            now = notices.next_deadline().unwrap();
            assert_eq!(now, before + REPEAT_AFTER);
            assert_eq!(notified(&mut notices, now), 1);
        }
        notices.see(&shown("refused"), true, now);
        assert_eq!(notices.next_deadline(), None);
        notices.see(&member("refused"), true, now);
        assert_eq!(notices.next_deadline(), Some(now + REPEAT_AFTER), "others have replaced it");
    }

    #[test]
    fn pod_with_the_condition_and_pod_that_left_are_not_notified() {
        let (mut notices, now) = (GroupNotices::default(), Time::from_secs(1));
        notices.see(&shown("known"), true, now);
        let gone = member("gone");
        notices.see(&gone, true, now);
        notices.see(&gone, false, now);
        assert_eq!((notified(&mut notices, now), notices.gated.len()), (0, 1));
        assert_eq!(notices.next_deadline(), None, "nothing is left to do");
    }
}
