//! Invariants of unschedulable pods: an event that makes a pod fit requeues it.

use std::collections::BTreeSet;
use std::ops::AddAssign;
use std::sync::Arc;

use engine::Engine;
use engine::queue::Place;
use framework::{PodKey, QueuedEntity, QueuedPod, Time, Uid};

use super::oracle::{Oracle, Related};
use super::rules::{Checked, rule};

/// Numbers of pods that changes requeued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WakeUps {
    /// All requeued pods.
    pub(crate) all: usize,
    /// Requeued pods that still do not fit.
    pub(crate) idle: usize,
}

impl AddAssign for WakeUps {
    fn add_assign(&mut self, other: Self) {
        self.all += other.all;
        self.idle += other.idle;
    }
}

impl WakeUps {
    /// Returns the requeued pods among those that were [`parked`].
    pub(crate) fn among(parked: &BTreeSet<Uid>, engine: &Engine, related: &Related) -> Self {
        let woken = engine.queue().iter().filter(|(place, queued)| {
            let is_ready = matches!(place, Place::Active | Place::Backoff);
            is_ready && parked.contains(&queued.pod.uid)
        });
        let woken: Vec<_> = woken.map(|(_, queued)| &queued.pod).collect();
        if woken.is_empty() {
            return Self::default();
        }
        let oracle = Oracle::of_engine(engine, related);
        let idle = woken.iter().filter(|pod| oracle.takers(pod).next().is_none()).count();
        Self { all: woken.len(), idle }
    }
}

/// Returns the unschedulable pods that are scheduled alone.
pub(crate) fn parked(engine: &Engine) -> BTreeSet<Uid> {
    waiting(engine).map(|queued| queued.pod.uid.clone()).collect()
}

fn waiting(engine: &Engine) -> impl Iterator<Item = &QueuedPod> {
    let entities = engine.queue().entities().filter(|(place, _)| *place == Place::Unschedulable);
    entities.filter_map(|(_, entity)| match entity {
        QueuedEntity::Pod(queued) => Some(queued),
        QueuedEntity::Group(_) => None,
    })
}

/// Checks that an unschedulable pod still fits on no node.
///
/// Only room of a nominated pod may be freed without an event, so pods parked before `unnominated`,
/// the last time at which a nomination ended, are exempt. An assumed pod may satisfy the affinity
/// of another pod, and requeues it once its bind is confirmed, so the check is skipped while there
/// is one. A pod whose class is tried waits for the answer, and one to which a plugin answered
/// Pending for an event of that plugin.
pub(crate) fn parked_pods_fit_nowhere(
    engine: &Engine,
    related: &Related,
    unnominated: Time,
) -> Checked {
    let parked = waiting(engine).filter(|queued| queued.history.timestamp > unnominated);
    let parked = parked.filter(|queued| engine.queue().trial_for(&queued.pod.key).is_none());
    let parked = parked.filter(|queued| queued.history.pending_plugins.is_empty());
    let parked: Vec<_> = parked.filter(|queued| !queued.pod.terminating).collect();
    if parked.is_empty() || engine.world().assumed_count() > 0 {
        return Ok(());
    }
    let oracle = Oracle::of_engine(engine, related);
    for queued in parked.into_iter().filter(|queued| oracle.is_sure_of(&queued.pod)) {
        let takers = oracle.takers(&queued.pod);
        let takers: Vec<&Arc<str>> =
            takers.filter(|node| !oracle.is_opposed_by_nominated(node, &queued.pod)).collect();
        rule(takers.is_empty(), || {
            let (pod, rejectors) = (&queued.pod.key, &queued.history.unschedulable_plugins);
            format!("{pod}, rejected by {rejectors:?}, waits, and {takers:?} take it")
        })?;
    }
    Ok(())
}

/// Returns the pods to which a plugin answered Pending and that wait for the end of another pod.
pub(crate) fn pending_pods(engine: &Engine) -> Vec<PodKey> {
    let pending = waiting(engine).filter(|queued| !queued.history.pending_plugins.is_empty());
    pending.map(|queued| queued.pod.key.clone()).collect()
}

/// Checks that these pods, whose event has come, are tried without a backoff.
pub(crate) fn are_ready(pods: &[PodKey], engine: &Engine) -> Checked {
    let late = pods.iter().find_map(|pod| {
        let (place, _) = engine.queue().get(pod)?;
        matches!(place, Place::Unschedulable | Place::Backoff).then_some((pod, place))
    });
    rule(late.is_none(), || format!("the event that a plugin waited for leaves {late:?}"))
}
