//! The lives of the pods of a recording.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::{Change, Input};
use framework::{PodKey, Time, Uid};
use recording::{Decided, EffectSummary, Operation};

/// The life of one pod.
#[derive(Debug, Clone)]
pub(super) struct Life {
    /// Namespace and name.
    pub(super) pod: PodKey,
    /// The wall time at which it was first seen.
    pub(super) arrived: Time,
    /// Whether it came without a node, for a profile of the scheduler.
    pub(super) is_ours: bool,
    /// Number of attempts.
    pub(super) attempts: u32,
    /// The first attempt that found no node, if it has no node since.
    pub(super) first_failure: Option<Time>,
    /// Number of attempts that found no node.
    pub(super) failures: u32,
    /// When the watch showed it bound, and its node.
    pub(super) bound: Option<(Time, Arc<str>)>,
    /// When its eviction began, and for which pod.
    pub(super) preempted: Option<(Time, PodKey)>,
    /// When it was gone or had ended.
    pub(super) ended: Option<Time>,
    /// Whether it was bound or gone before the first decision, so that another scheduler placed it.
    precedes_decisions: bool,
}

impl Life {
    /// Returns how long the pod waited for a node. `end` is the end of the recording.
    pub(super) fn waited(&self, end: Time) -> Duration {
        self.end_of_wait(end).since(self.arrived)
    }

    /// Returns the end of its wait.
    pub(super) fn end_of_wait(&self, end: Time) -> Time {
        let bound = self.bound.as_ref().map(|(at, _)| *at);
        bound.or(self.ended).unwrap_or(end)
    }

    /// Whether it waits at the end.
    pub(super) const fn is_pending(&self) -> bool {
        self.is_ours && !self.has_left_queue()
    }

    const fn has_left_queue(&self) -> bool {
        self.bound.is_some() || self.ended.is_some()
    }

    /// Whether the recorded process had to find a node for it.
    pub(super) const fn is_for_this_process(&self) -> bool {
        self.is_ours && !self.precedes_decisions
    }
}

/// The first decision of a process: after its informers have synced, and after it has taken the
/// Lease over.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstDecision {
    /// The number of operations before it.
    pub(super) operation: u64,
    /// The wall time.
    pub(super) at: Time,
}

/// The pods of a recording, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Lives {
    scheduler_names: Vec<String>,
    lives: Vec<Life>,
    by_uid: BTreeMap<Uid, usize>,
    /// The last pod of each name.
    by_name: BTreeMap<PodKey, usize>,
    /// The time of the last operation.
    pub(super) end: Time,
    /// The first decision. Without its beginning, a recording shows none before its first
    /// checkpoint.
    pub(super) first_decision: Option<FirstDecision>,
    operations: u64,
    /// Whether everything is known that the recorded process knew.
    is_complete: bool,
}

impl Lives {
    /// Creates a collection for a scheduler with these names of profiles, whose recording has its
    /// beginning or begins with a checkpoint.
    pub(super) fn of(scheduler_names: Vec<String>, has_beginning: bool) -> Self {
        Self { scheduler_names, is_complete: has_beginning, ..Self::default() }
    }

    /// Returns the names of the profiles.
    pub(super) fn scheduler_names(&self) -> &[String] {
        &self.scheduler_names
    }

    /// Returns what happened to a pod.
    pub(super) fn of_pod(&self, uid: &Uid) -> Option<&Life> {
        self.lives.get(*self.by_uid.get(uid)?)
    }

    /// Returns the pods.
    pub(super) fn pods(&self) -> &[Life] {
        &self.lives
    }

    /// Adds an operation.
    pub(super) fn step(&mut self, at: Time, operation: &Operation) {
        self.end = self.end.max(at);
        let operation_number = self.operations;
        self.operations += 1;
        match operation {
            Operation::Checkpoint => self.is_complete = true,
            Operation::Input { input: Input::Schedule, .. } if self.is_complete => {
                let first = FirstDecision { operation: operation_number, at };
                self.first_decision.get_or_insert(first);
            }
            // A pod that the first file left does not show is known from the checkpoint.
            Operation::Input { input: Input::Change(Change::Pod(pod)), .. }
            | Operation::Known(Change::Pod(pod)) => {
                let number = *self.by_uid.entry(pod.uid.clone()).or_insert_with(|| {
                    let name = &*pod.spec.scheduler_name;
                    let is_ours = pod.node_name.is_none()
                        && self.scheduler_names.iter().any(|own| own == name);
                    self.lives.push(Life {
                        pod: pod.key.clone(),
                        arrived: at,
                        is_ours,
                        attempts: 0,
                        first_failure: None,
                        failures: 0,
                        bound: None,
                        preempted: None,
                        ended: None,
                        precedes_decisions: false,
                    });
                    self.lives.len() - 1
                });
                self.by_name.insert(pod.key.clone(), number);
                let Some(life) = self.lives.get_mut(number) else { return };
                if let (Some(node), None) = (&pod.node_name, &life.bound) {
                    life.bound = Some((at, node.clone()));
                }
                if pod.terminal {
                    life.ended.get_or_insert(at);
                }
                life.precedes_decisions |= self.first_decision.is_none() && life.has_left_queue();
            }
            Operation::Input { input: Input::Change(Change::PodDeleted { uid, .. }), .. } => {
                let known = self.by_uid.get(uid);
                if let Some(life) = known.and_then(|number| self.lives.get_mut(*number)) {
                    life.ended.get_or_insert(at);
                    life.precedes_decisions |= self.first_decision.is_none();
                }
            }
            Operation::Attempt { pod, outcome } => {
                let Some(life) = self.named(pod) else { return };
                match outcome {
                    Decided::Assumed(_) => life.attempts += 1,
                    Decided::Unschedulable | Decided::Error => {
                        life.attempts += 1;
                        life.failures += 1;
                        life.first_failure.get_or_insert(at);
                    }
                    Decided::Repeated | Decided::Skipped => {}
                }
            }
            Operation::Effects(taken) => {
                for effect in &taken.effects {
                    if let EffectSummary::Evict(victim, preemptor) = effect
                        && let Some(life) = self.named(victim)
                    {
                        life.preempted.get_or_insert_with(|| (at, preemptor.clone()));
                    }
                }
            }
            _ => {}
        }
    }

    fn named(&mut self, pod: &PodKey) -> Option<&mut Life> {
        self.lives.get_mut(*self.by_name.get(pod)?)
    }
}

/// Returns a duration for people: `1h2m3s`, or `1.25s` if it is short.
pub(super) fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 10 {
        let text = format!("{:.3}", duration.as_secs_f64());
        let text = text.trim_end_matches('0').trim_end_matches('.');
        return format!("{text}s");
    }
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let mut text = String::new();
    if hours > 0 {
        text += &format!("{hours}h");
    }
    if minutes > 0 || hours > 0 {
        text += &format!("{minutes}m");
    }
    text + &format!("{}s", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        for (millis, expected) in
            [(0, "0s"), (1250, "1.25s"), (60_000, "1m0s"), (3_723_000, "1h2m3s"), (45_900, "45s")]
        {
            assert_eq!(duration_text(Duration::from_millis(millis)), expected);
        }
    }
}
