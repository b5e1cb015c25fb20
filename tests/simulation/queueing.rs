//! Invariants of the scheduling queue: whose turn it is, backoffs, and how long pods wait.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::queue::Place;
use engine::{Attempt, Engine, Outcome};
use framework::{EntityKey, History, PluginName, Pod, PodKey, QueuedEntity, Time, Uid};

use super::rules::{Checked, rule};

/// The shortest and the longest backoff, in seconds.
const BACKOFF: (u64, u64) = (1, 10);
/// Number of consecutive errors from which retries are spread out.
const SPREAD_FROM: u32 = 3;
/// Backoffs end at whole seconds.
const WINDOW: Duration = Duration::from_secs(1);
/// Maximum time for which a pod is unschedulable: five minutes, and the time until the next flush.
const LONGEST_WAIT: Duration = Duration::from_secs(330);

/// The failed attempts of each queued pod, after the last step.
#[derive(Debug, Default)]
pub(crate) struct Failures(BTreeMap<Uid, Known>);

/// The known state of a pod.
#[derive(Debug, Default)]
struct Known {
    /// As of its last failure.
    count: Count,
    /// Whether it was queued as a new pod since. A pod that changes while it is bound is queued
    /// beside its binding cycle, which may still fail.
    is_new: bool,
}

/// Numbers of failed attempts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    rejections: u32,
    errors: u32,
}

impl Count {
    const fn of(history: &History) -> Self {
        Self { rejections: history.unschedulable_count, errors: history.consecutive_errors }
    }

    /// Whether one more failure leads from here to `next`: a rejection, an error, or evictions that
    /// failed.
    fn precedes(self, next: Self) -> bool {
        let Self { rejections, errors } = self;
        next == Self { rejections: rejections + 1, errors: 0 }
            || next == Self { rejections, errors: errors + 1 }
            || next == Self { rejections, errors: rejections.max(1) }
    }

    /// Returns the backoff that Kubernetes prescribes, in seconds.
    fn backoff(self) -> u64 {
        let failures = if self.errors > 0 { self.errors } else { self.rejections };
        let (shortest, longest) = BACKOFF;
        (1..failures).fold(shortest, |backoff, _| (2 * backoff).min(longest))
    }
}

impl Failures {
    /// Checks the queue after a step. Each failure counts once, and determines the backoff. No pod
    /// is kept in backoff, or unschedulable, for longer than the rules say, by a process that
    /// `is_running`.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) fn check(&mut self, engine: &Engine, is_running: bool, now: Time) -> Checked {
        for (place, entity) in engine.queue().entities() {
            let queued = match entity {
                QueuedEntity::Pod(queued) => queued,
                // Failures of pods of the group count for the group as well.
                QueuedEntity::Group(group) => {
                    if is_running {
                        ends_in_time(place, &group.members()[0].pod.key, &group.history, now)?;
                    }
                    continue;
                }
            };
            let key = &queued.pod.key;
            let count = Count::of(&queued.history);
            let known = self.0.entry(queued.pod.uid.clone()).or_default();
            if count == Count::default() {
                known.is_new = true;
            } else if count != known.count {
                let from_new = known.is_new && Count::default().precedes(count);
                rule(from_new || known.count.precedes(count), || {
                    format!("{key} has failed with {count:?} after {known:?}")
                })?;
                // An extender that hangs makes an attempt end later than it began.
                rule(queued.history.timestamp >= now, || {
                    format!("{key} has failed now, and waits since {:?}", queued.history.timestamp)
                })?;
                *known = Known { count, is_new: false };
            }
            if is_running {
                ends_in_time(place, key, &queued.history, now)?;
            }
        }
        if self.0.len() > engine.pending().count() {
            self.0.retain(|uid, _| engine.pending().any(|pod| pod.uid == *uid));
        }
        Ok(())
    }
}

fn ends_in_time(place: Place, key: &PodKey, history: &History, now: Time) -> Checked {
    let since = history.timestamp;
    match place {
        Place::Backoff | Place::ErrorBackoff => {
            let count = Count::of(history);
            let end = (since + Duration::from_secs(count.backoff())).floor_to_second();
            // Repeated errors are retried one at a time within a second.
            let spread = if count.errors < SPREAD_FROM { Duration::ZERO } else { WINDOW };
            let expiration = history.backoff_expiration.unwrap_or_default();
            rule(end <= expiration && expiration <= end + spread, || {
                format!("{key} backs off until {expiration:?} after {count:?}")
            })?;
            rule(now < expiration + WINDOW, || format!("{key} backs off for too long"))?;
            let is_error =
                history.unschedulable_plugins.is_empty() && history.pending_plugins.is_empty();
            let is_at_home = is_error == (place == Place::ErrorBackoff);
            rule(is_at_home, || format!("{key} is in {place:?} after {history:?}"))
        }
        Place::Unschedulable => {
            rule(now <= since + LONGEST_WAIT, || format!("{key} is unschedulable since {since:?}"))
        }
        Place::Active | Place::Gated => Ok(()),
    }
}

/// Number of attempts in vain of pods of one kind, before the ends of their backoffs, that are not
/// paced.
const BURST: u32 = 16;
/// The time that each further one takes.
const INTERVAL: Duration = Duration::from_millis(10);

/// The attempts in vain of pods that still backed off. A scheduler that makes them without a pause
/// keeps a processor busy.
#[derive(Debug, Default)]
pub(crate) struct EarlyAttempts {
    /// The time at which all of them are paid off, by kind.
    debts: BTreeMap<String, Time>,
}

impl EarlyAttempts {
    /// Checks an attempt before the end of a backoff.
    ///
    /// # Errors
    /// Too many attempts of pods of this kind were in vain.
    pub(crate) fn include(&mut self, attempt: &Attempt, kind: String, now: Time) -> Checked {
        // A pod that is skipped, for example because it is being deleted, is not tried again.
        let is_in_vain = !matches!(attempt.outcome, Outcome::Assumed(_) | Outcome::Skipped);
        let paid_off = self.debts.get(&kind).copied().filter(|paid_off| *paid_off > now);
        let debt = paid_off.map_or(Duration::ZERO, |paid_off| paid_off.since(now));
        rule(debt <= INTERVAL * (BURST - 1), || {
            format!("{} is tried early, and others of its kind {debt:?} ahead", attempt.pod.key)
        })?;
        if is_in_vain {
            self.debts.retain(|_, paid_off| *paid_off > now);
            self.debts.insert(kind, paid_off.unwrap_or(now) + INTERVAL);
        }
        Ok(())
    }
}

/// Returns what pods have in common that are probably rejected alike.
fn kind_of(pod: &Pod, rejectors: &BTreeSet<PluginName>) -> String {
    let spec = pod.spec.volumes.is_empty().then_some(&pod.spec);
    format!("{} {:?} {rejectors:?} {spec:?}", pod.key.namespace, pod.requests)
}

/// Returns the entity of the queue that a pod belongs to.
fn entity_of(pod: &Pod) -> EntityKey {
    pod.pod_group().map_or_else(|| EntityKey::Pod(pod.key.clone()), EntityKey::Group)
}

/// The pods and groups that may be tried next.
#[derive(Debug)]
pub(crate) struct Turns {
    /// The first of the active pods: the highest priority, and the longest wait.
    first: Option<(Reverse<i32>, Time)>,
    places: BTreeMap<EntityKey, (Place, (Reverse<i32>, Time))>,
    /// The pods that back off, with the plugins that rejected them, if no pod is active.
    early: BTreeMap<EntityKey, BTreeSet<PluginName>>,
}

impl Turns {
    /// Returns the pods that may be tried next.
    pub(crate) fn of(engine: &Engine) -> Self {
        let queue = engine.queue();
        let idle = queue.entities().filter(|(_, entity)| !queue.is_in_flight(entity.uid()));
        let places = idle.map(|(place, entity)| {
            let turn = (Reverse(entity.priority()), entity.history().timestamp);
            (entity.key(), (place, turn))
        });
        let places: BTreeMap<_, _> = places.collect();
        let active = places.values().filter(|(place, _)| *place == Place::Active);
        let first = active.map(|(_, turn)| *turn).min();
        let early = queue.entities();
        let early = early.filter(|(place, _)| *place == Place::Backoff && first.is_none());
        let early =
            early.map(|(_, entity)| (entity.key(), entity.history().unschedulable_plugins.clone()));
        Self { first, places, early: early.collect() }
    }

    /// Returns the kind of a pod that was tried before the end of its backoff.
    pub(crate) fn early_kind(&self, pod: &Pod) -> Option<String> {
        self.early.get(&entity_of(pod)).map(|rejectors| kind_of(pod, rejectors))
    }

    /// Checks that it was the turn of the pod that was tried. A pod that backs off has its turn
    /// only while no pod is active, and not after an error.
    ///
    /// # Errors
    /// The rule is violated.
    pub(crate) fn include(&self, attempt: &Attempt) -> Checked {
        let key = &attempt.pod.key;
        let Some((place, turn)) = self.places.get(&entity_of(&attempt.pod)) else { return Ok(()) };
        let is_next = match (place, self.first) {
            (Place::Active, Some(first)) => *turn == first,
            (Place::Backoff, None) => true,
            _ => false,
        };
        rule(is_next, || format!("{key} in {place:?} is tried before {:?}", self.first))
    }
}
