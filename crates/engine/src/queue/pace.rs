//! The pace of early pops and of looks.
//!
//! Kubernetes pops a rejected pod before its backoff ends while no pod is active. A decision of a
//! tenth of a millisecond makes that a busy loop: the same pods are rejected again and again, each
//! time with requests to the API server. Pods of one template share their answers, but pods that
//! differ, for example in their claims, do not. So early pops in vain are limited for each kind of
//! pod.
//!
//! Looks are attempts in vain that do not count. They take their turns from the same pace, so that
//! no backoff has to slow them down.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use framework::{PluginName, PodRequests, PodSpec, QueuedEntity, Time, Uid};

/// Number of early pops in vain of a kind that are not paced.
const BURST: u32 = 16;
/// One further early pop in vain of a kind is allowed per interval, 100 a second.
const INTERVAL: Duration = Duration::from_millis(10);

/// Pods that are probably rejected alike: of one namespace, with equal requests, rejected by the
/// same plugins, and equal in their specification unless they have volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    namespace: Arc<str>,
    requests: Arc<PodRequests>,
    rejectors: BTreeSet<PluginName>,
    spec: Option<Arc<PodSpec>>,
}

impl Kind {
    pub(super) fn of(entity: &QueuedEntity) -> Self {
        // A group is of the kind of its first member.
        let [first, ..] = entity.pods() else { unreachable!("a queued entity has a pod") };
        let spec = &first.pod.spec;
        Self {
            namespace: first.pod.key.namespace.clone(),
            requests: first.pod.requests.clone(),
            rejectors: entity.history().unschedulable_plugins.clone(),
            spec: spec.volumes.is_empty().then(|| spec.clone()),
        }
    }
}

/// Why the attempt of a pod may be a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occasion {
    /// The pod backs off.
    Early,
    /// The pod is tried for its template.
    Trial,
}

/// Counts the early pops and looks that end in another rejection. A pop or look that finds a node
/// is not counted.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The pod that was popped early or for its template, while its attempt is under way.
    popped: Option<(Uid, Kind, Occasion)>,
    /// When all of these attempts of a kind are paid off, at one per [`INTERVAL`].
    debts: Vec<(Kind, Time)>,
    /// When the next early pop is allowed, if all were refused.
    refused_until: Option<Time>,
}

impl Pace {
    /// Number of kinds with attempts to pay off.
    #[cfg(test)]
    pub(super) const fn len(&self) -> usize {
        self.debts.len()
    }

    /// Notes a pop, and whether it is early or for a template.
    pub(super) fn popped(&mut self, entity: &QueuedEntity, occasion: Option<Occasion>) {
        self.popped = occasion.map(|occasion| (entity.uid().clone(), Kind::of(entity), occasion));
    }

    /// Whether the attempt of a pod, which is under way, may be a look.
    pub(super) fn may_look(&self, pod: &Uid, now: Time) -> bool {
        let popped = self.popped.as_ref().filter(|(popped, ..)| popped == pod);
        popped.is_some_and(|(_, kind, occasion)| match occasion {
            Occasion::Early => true,
            Occasion::Trial => self.wait_until(kind, now).is_none(),
        })
    }

    /// Notes that the attempt of a pod was in vain. One for a template counts for the backoff of
    /// its pod instead.
    pub(super) fn failed(&mut self, pod: &Uid, now: Time) {
        let Some((_, kind, occasion)) = self.popped.take_if(|(popped, ..)| popped == pod) else {
            return;
        };
        if occasion == Occasion::Early {
            self.charge(kind, now);
        }
    }

    /// Notes that the attempt of a pod was a look.
    pub(super) fn looked(&mut self, pod: &Uid, now: Time) {
        if let Some((_, kind, _)) = self.popped.take_if(|(popped, ..)| popped == pod) {
            self.charge(kind, now);
        }
    }

    fn charge(&mut self, kind: Kind, now: Time) {
        self.debts.retain(|(_, paid_off)| *paid_off > now);
        match self.debts.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, paid_off)) => *paid_off = *paid_off + INTERVAL,
            None => self.debts.push((kind, now + INTERVAL)),
        }
    }

    /// Returns the time from which on a pod of this kind may be popped early, if it is after `now`.
    pub(super) fn wait_until(&self, kind: &Kind, now: Time) -> Option<Time> {
        let (_, paid_off) = self.debts.iter().find(|(known, _)| known == kind)?;
        let over = paid_off.since(now).checked_sub(INTERVAL.saturating_mul(BURST - 1))?;
        (!over.is_zero()).then(|| now + over)
    }

    /// Notes that every early pop was refused, the first one until this time, or that none was.
    pub(super) const fn refuse_until(&mut self, until: Option<Time>) {
        self.refused_until = until;
    }

    /// Takes in the time.
    pub(super) fn tick(&mut self, now: Time) {
        self.refused_until.take_if(|until| *until <= now);
    }

    /// Returns the time at which an early pop is allowed, if all were refused.
    pub(super) const fn refused_until(&self) -> Option<Time> {
        self.refused_until
    }
}

#[cfg(test)]
mod tests {
    use testkit::pod;

    use super::*;

    fn queued(name: &str, cpu: &str) -> QueuedEntity {
        QueuedEntity::of_pod(Arc::new(pod(name).cpu(cpu).build()), Time::ZERO)
    }

    fn fail(pace: &mut Pace, pod: &QueuedEntity, early: bool, now: Time) {
        pace.popped(pod, early.then_some(Occasion::Early));
        pace.failed(pod.uid(), now);
    }

    #[test]
    fn early_pops_in_vain_of_a_kind_are_paced_after_a_burst() {
        let mut pace = Pace::default();
        let mut now = Time::from_secs(1);
        let wait = |pace: &Pace, cpu, now| pace.wait_until(&Kind::of(&queued("other", cpu)), now);
        for number in 0..BURST {
            assert_eq!(wait(&pace, "1", now), None);
            fail(&mut pace, &queued(&format!("p{number}"), "1"), true, now);
        }
        for _ in 0..3 {
            assert_eq!(wait(&pace, "1", now), Some(now + INTERVAL));
            assert_eq!(wait(&pace, "2", now), None, "another kind");
            now = now + INTERVAL;
            assert_eq!(wait(&pace, "1", now), None);
            fail(&mut pace, &queued("p", "1"), true, now);
        }
        assert_eq!(pace.len(), 1);
        fail(&mut pace, &queued("p", "2"), true, now + INTERVAL * BURST);
        assert_eq!(pace.len(), 1, "the first debt is paid off");
    }

    #[test]
    fn other_pops_are_free() {
        let (mut pace, now) = (Pace::default(), Time::from_secs(1));
        let [early, active] = ["early", "active"].map(|name| queued(name, "1"));
        for _ in 0..100 {
            pace.popped(&early, Some(Occasion::Early));
            fail(&mut pace, &active, false, now);
            pace.failed(early.uid(), now);
        }
        assert_eq!(pace.len(), 0);
    }

    #[test]
    fn looks_for_a_template_are_paced_like_early_pops() {
        let (mut pace, mut now) = (Pace::default(), Time::from_secs(1));
        let (trial, early) = (queued("trial", "1"), queued("early", "1"));
        assert!(!pace.may_look(trial.uid(), now));
        for _ in 0..BURST {
            pace.popped(&trial, Some(Occasion::Trial));
            assert!(pace.may_look(trial.uid(), now) && !pace.may_look(early.uid(), now));
            pace.looked(trial.uid(), now);
        }
        for _ in 0..3 {
            pace.popped(&trial, Some(Occasion::Trial));
            assert!(!pace.may_look(trial.uid(), now));
            pace.failed(trial.uid(), now);
            pace.popped(&early, Some(Occasion::Early));
            assert!(pace.may_look(early.uid(), now), "it was popped at its pace");
            pace.popped(&early, None);
            now = now + INTERVAL;
            pace.popped(&trial, Some(Occasion::Trial));
            assert!(pace.may_look(trial.uid(), now));
            pace.looked(trial.uid(), now);
        }
    }
}
