//! Which pods have to be told that the gate of groups keeps them back.
//!
//! The condition and the event are written beside the decisions, at a bounded rate: the pods of one group may be many,
//! and pods of others must not wait for their writes.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use framework::{Pod, PodKey, StatusPatch, Time, Uid};

use crate::context::{Context, PodEvent};
use crate::profile::{GROUP_GATE, gated_condition};
use crate::world::{View, World};

/// Maximum number of pods that get their condition and event in one interval.
const BATCH: usize = 10;
/// The interval.
const INTERVAL: Duration = Duration::from_millis(100);

/// The pods that the gate keeps back.
#[derive(Debug, Default)]
pub(crate) struct GroupNotices {
    /// The pods that are to be told.
    waiting: VecDeque<(PodKey, Uid)>,
    /// The pods that have been told or are to be told.
    gated: BTreeSet<Uid>,
    /// Number of pods that may be told now.
    left: usize,
    /// When more pods may be told.
    next: Option<Time>,
}

impl GroupNotices {
    /// Takes in whether the gate keeps a pending pod back.
    pub(crate) fn see_pending(&mut self, pod: &PodKey, world: &World, now: Time) {
        let Some(known) = world.view().pending().get(pod) else { return };
        let queued = world.queue().get(pod).map(|(_, queued)| queued);
        let gate = queued.and_then(|queued| queued.gating_plugin.as_deref());
        self.see(known, gate == Some(GROUP_GATE), now);
    }

    /// Tells some of the pods that the gate keeps back, by condition and event.
    pub(crate) fn notify(&mut self, view: &View, cx: &mut Context<'_>) {
        while let Some(key) = self.pop(cx.now) {
            let Some(pod) = view.pending().get(&key) else { continue };
            let Some(condition) = gated_condition(pod) else { continue };
            let event = PodEvent::warning("FailedScheduling", "Scheduling", &condition.message);
            cx.effects.record(pod, &pod.spec.scheduler_name, event);
            let patch =
                StatusPatch { condition: Some(condition.clone()), nominated_node_name: None };
            cx.effects.patch_pod_status(pod, patch);
        }
    }

    /// Takes in a pending pod. One that has the condition already needs no notice, for example after a restart.
    fn see(&mut self, pod: &Pod, is_gated: bool, now: Time) {
        if !is_gated {
            self.forget(&pod.uid);
            return;
        }
        if !self.gated.insert(pod.uid.clone()) {
            return;
        }
        if pod.scheduled_condition.as_deref() != gated_condition(pod).as_ref() {
            self.waiting.push_back((pod.key.clone(), pod.uid.clone()));
            if self.left == 0 {
                self.next.get_or_insert(now);
            }
        }
    }

    /// Takes in that a pod is gone, has a node, or is no longer gated.
    pub(crate) fn forget(&mut self, pod: &Uid) {
        self.gated.remove(pod);
    }

    pub(crate) const fn next_deadline(&self) -> Option<Time> {
        self.next
    }

    /// Takes in the time.
    pub(crate) fn tick(&mut self, now: Time) {
        if self.next.is_some_and(|next| next <= now) {
            (self.left, self.next) = (BATCH, None);
        }
    }

    /// Returns the next pod to tell.
    fn pop(&mut self, now: Time) -> Option<PodKey> {
        while self.left > 0 {
            let (pod, uid) = self.waiting.pop_front()?;
            if self.gated.contains(&uid) {
                self.left -= 1;
                if self.left == 0 && !self.waiting.is_empty() {
                    self.next = Some(now + INTERVAL);
                }
                return Some(pod);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use framework::testing::pod;

    use super::*;

    fn member(name: &str) -> Pod {
        pod(name).label(framework::POD_GROUP_LABEL, "g").build()
    }

    fn told(notices: &mut GroupNotices, now: Time) -> usize {
        notices.tick(now);
        std::iter::from_fn(|| notices.pop(now)).count()
    }

    #[test]
    fn pods_are_told_once_at_a_bounded_rate() {
        let (mut notices, mut now) = (GroupNotices::default(), Time::from_secs(1));
        for number in 0..25 {
            for _ in 0..2 {
                notices.see(&member(&number.to_string()), true, now);
            }
        }
        let mut batches = Vec::new();
        while let Some(next) = notices.next_deadline() {
            now = now.max(next);
            batches.push(told(&mut notices, now));
        }
        assert_eq!(batches, [10, 10, 5]);
        assert_eq!(now, Time::from_secs(1) + 2 * INTERVAL);
        assert_eq!(notices.gated.len(), 25);
    }

    #[test]
    fn pod_with_the_condition_and_pod_that_left_are_not_told() {
        let (mut notices, now) = (GroupNotices::default(), Time::from_secs(1));
        let mut known = member("known");
        known.scheduled_condition = gated_condition(&known).map(Arc::new);
        notices.see(&known, true, now);
        let gone = member("gone");
        notices.see(&gone, true, now);
        notices.see(&gone, false, now);
        assert_eq!((told(&mut notices, now), notices.gated.len()), (0, 1));
    }
}
