//! Pods that may not preempt for a while, because too many preemptions led to no binding.

use std::collections::{BTreeMap, BTreeSet};

use framework::preemption::Pause;
use framework::{PodKey, Time, Uid};

use crate::effect::{EffectKind, Event, EventType, note};
use crate::engine::{Engine, cx};
use crate::ports::{Count, Ports, Probe};

/// When which pod is tried again because its pause is over.
#[derive(Default)]
pub(super) struct Pauses {
    by_pod: BTreeMap<Uid, (Time, PodKey)>,
    by_end: BTreeSet<(Time, Uid)>,
}

impl Pauses {
    /// The pod pauses until then, in place of another time; returns whether that is news.
    fn set(&mut self, pod: PodKey, uid: &Uid, until: Time) -> bool {
        let before = self.by_pod.insert(uid.clone(), (until, pod));
        let before = before.map(|(until, _)| until);
        if let Some(before) = before {
            self.by_end.remove(&(before, uid.clone()));
        }
        self.by_end.insert((until, uid.clone()));
        before != Some(until)
    }

    pub(super) fn remove(&mut self, uid: &Uid) {
        if let Some((until, _)) = self.by_pod.remove(uid) {
            self.by_end.remove(&(until, uid.clone()));
        }
    }

    pub(super) fn next_end(&self) -> Option<Time> {
        self.by_end.first().map(|(until, _)| *until)
    }

    /// Takes a pod whose pause is over.
    fn pop_over(&mut self, now: Time) -> Option<PodKey> {
        let (until, _) = self.by_end.first()?;
        let (_, uid) = if *until <= now { self.by_end.pop_first()? } else { return None };
        self.by_pod.remove(&uid).map(|(_, pod)| pod)
    }
}

impl Engine {
    /// Has the pod tried again when the pause is over, and tells of it once.
    pub(crate) fn put_off_preemption(
        &mut self,
        preemptor: PodKey,
        uid: &Uid,
        pause: &Pause,
        probe: &mut dyn Probe,
    ) {
        let pod = self.pending.get(&preemptor).filter(|pod| pod.uid == *uid).cloned();
        let Some(pod) = pod else { return };
        if !self.preemptions.pauses.set(preemptor, uid, pause.until) {
            return;
        }
        probe.count(Count::PreemptionPaused(if pause.node.is_some() { "node" } else { "pod" }));
        self.emit(EffectKind::Event(Event {
            regarding: pod.key.clone(),
            uid: pod.uid.clone(),
            related: None,
            event_type: EventType::Warning,
            reason: "PreemptionPaused",
            action: "Preempting",
            note: note(&pause.to_string()),
            reporting_controller: pod.spec.scheduler_name.clone(),
        }));
    }

    /// Pods whose pause is over are tried again, whatever they wait for.
    pub(crate) fn end_pauses(&mut self, now: Time, ports: &mut Ports<'_>) {
        while let Some(pod) = self.preemptions.pauses.pop_over(now) {
            self.queue.activate(&[pod], &mut cx!(self, now, ports.probe));
        }
    }
}
