//! Backoff: the time for which an entity whose attempt failed gives way to others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework::{EntityKey, History, Pod, QueuedEntity, Time};

use super::heap::EntityHeap;
use super::order::{Expiration, ExpirationThenSort, SortPlugin};
use super::pace::{Kind, Occasion, Pace};
use super::place::Place;

/// Backoffs end at whole seconds.
const WINDOW: Duration = Duration::from_secs(1);

/// The rule for the length of a backoff: it doubles with every failure up to a maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure (`podInitialBackoffSeconds`).
    pub initial: Duration,
    /// At most (`podMaxBackoffSeconds`); zero turns backoff off.
    pub max: Duration,
}

impl Backoff {
    /// Returns the backoff of what failed `count` times; zero if `count` is zero or backoff is
    /// off.
    pub fn duration(&self, count: u32) -> Duration {
        let Some(doublings) = count.checked_sub(1).filter(|_| !self.max.is_zero()) else {
            return Duration::ZERO;
        };
        let initial = nanos(self.initial);
        let fits = initial <= nanos(self.max).checked_shr(doublings).unwrap_or(0);
        if !fits {
            return self.max;
        }
        Duration::from_nanos(initial.checked_shl(doublings).unwrap_or(0))
    }

    /// Returns the end of a backoff, a whole second, or `None` if there is none. The backoff grows
    /// with the consecutive errors if there are any, otherwise with the rejections.
    pub fn expiration(&self, history: &History) -> Option<Time> {
        let count = match history.consecutive_errors {
            0 => history.unschedulable_count,
            errors => errors,
        };
        let backs_off = count > 0 && !self.max.is_zero();
        backs_off.then(|| (history.timestamp + self.duration(count)).floor_to_second())
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether an entity whose backoff ends at `expiration` still backs off at `now`. It does for one
/// second more: Kubernetes looks at whole seconds only.
pub fn is_backing_off(expiration: Option<Time>, now: Time) -> bool {
    expiration.is_some_and(|expiration| now < expiration + WINDOW)
}

/// Number of consecutive errors from which the retries of an entity are spread out.
const SPREAD_FROM: u32 = 3;
/// Maximum number of spread retries per second. At a fifth of a millisecond for each attempt they
/// take less than three hundredths of the time, however many fail and whatever their priority is.
const MAX_SPREAD: u32 = 128;
/// Time between two spread retries, so that nothing else waits behind more than one of them.
const SPREAD_STEP: Duration = Duration::from_nanos(1_000_000_000 / MAX_SPREAD as u64);

/// The numbers of spread retries by the second in which they are due.
///
/// Entities whose attempts fail with errors for hours, for example because an admission webhook of
/// their namespace is down, would otherwise take a share of all attempts that grows with their
/// number.
#[derive(Debug, Default)]
struct SpreadRetries(BTreeMap<Time, u32>);

impl SpreadRetries {
    /// Takes a place in the first second from `wanted` on that has one, and returns its time.
    fn place(&mut self, wanted: Time) -> Time {
        let mut second = wanted;
        while self.0.get(&second).is_some_and(|taken| *taken >= MAX_SPREAD) {
            second = second + WINDOW;
        }
        let taken = self.0.entry(second).or_default();
        let time = second + SPREAD_STEP * *taken;
        *taken += 1;
        time
    }

    /// Forgets the seconds that have passed.
    fn forget_before(&mut self, now: Time) {
        self.0 = self.0.split_off(&now.floor_to_second());
    }
}

/// The entities in backoff.
///
/// A rejected entity may be popped before its backoff ends, when no entity is active. An entity that
/// failed with an error may not.
#[derive(Debug, Default)]
pub(super) struct BackoffQueue {
    rejected: EntityHeap,
    /// Rejected entities of kinds that were popped early in vain too often.
    held: Vec<Held>,
    failed: EntityHeap,
    retries: SpreadRetries,
}

/// The entities of a kind that are held back from early pops. One of them at a time is among the
/// others.
#[derive(Debug)]
struct Held {
    kind: Kind,
    entities: EntityHeap,
    /// The entity that was moved to the others last.
    offered: Option<EntityKey>,
}

impl BackoffQueue {
    /// Number of entities.
    pub(super) fn len(&self) -> usize {
        let held: usize = self.held.iter().map(|held| held.entities.len()).sum();
        self.rejected.len() + held + self.failed.len()
    }

    /// Whether there are rejected entities.
    pub(super) const fn has_rejected(&self) -> bool {
        // No held kind is empty.
        !self.rejected.is_empty() || !self.held.is_empty()
    }

    /// Returns the heaps of rejected entities.
    fn rejected(&self) -> impl Iterator<Item = &EntityHeap> {
        std::iter::once(&self.rejected).chain(self.held.iter().map(|held| &held.entities))
    }

    fn rejected_mut(&mut self) -> impl Iterator<Item = &mut EntityHeap> {
        std::iter::once(&mut self.rejected)
            .chain(self.held.iter_mut().map(|held| &mut held.entities))
    }

    /// Returns the entity `key`.
    pub(super) fn get(&self, key: &EntityKey) -> Option<(Place, &QueuedEntity)> {
        let rejected = self.rejected().find_map(|entities| entities.get(key));
        let rejected = rejected.map(|entity| (Place::Backoff, entity));
        rejected.or_else(|| Some((Place::ErrorBackoff, self.failed.get(key)?)))
    }

    /// Returns every entity.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, &QueuedEntity)> {
        let rejected = self.rejected().flat_map(EntityHeap::iter);
        let rejected = rejected.map(|entity| (Place::Backoff, entity));
        rejected.chain(self.failed.iter().map(|entity| (Place::ErrorBackoff, entity)))
    }

    /// Adds an entity whose expiration is known. The backoff of one that has failed several times
    /// may become longer, so that not too many of them are retried in one second.
    pub(super) fn push(&mut self, mut entity: QueuedEntity, sort: &mut SortPlugin<'_>) -> Place {
        let history = entity.history_mut();
        if history.has_no_rejector() {
            if history.consecutive_errors >= SPREAD_FROM {
                let expiration = history.backoff_expiration;
                history.backoff_expiration = expiration.map(|wanted| self.retries.place(wanted));
            }
            self.failed.push(entity, &mut Expiration);
            Place::ErrorBackoff
        } else {
            let key = entity.key();
            // An entity that was offered, has left and is back may come after others of its kind.
            for held in &mut self.held {
                held.offered.take_if(|offered| *offered == key);
            }
            self.rejected.push(entity, &mut ExpirationThenSort(sort));
            Place::Backoff
        }
    }

    /// Removes and returns the first rejected entity whose kind may be popped early, also if it
    /// still backs off.
    pub(super) fn pop(
        &mut self,
        now: Time,
        pace: &mut Pace,
        sort: &mut SortPlugin<'_>,
    ) -> Option<QueuedEntity> {
        let order = &mut ExpirationThenSort(sort);
        for Held { kind, entities, offered } in &mut self.held {
            let is_offered = offered.as_ref().is_some_and(|key| self.rejected.get(key).is_some());
            if !is_offered && pace.wait_until(kind, now).is_none() {
                let entity = entities.pop(order).expect("no held kind is empty");
                *offered = Some(entity.key());
                self.rejected.push(entity, order);
            }
        }
        self.held.retain(|held| !held.entities.is_empty());
        while let Some(entity) = self.rejected.pop(order) {
            let kind = Kind::of(&entity);
            if pace.wait_until(&kind, now).is_none() {
                pace.popped(&entity, Some(Occasion::Early));
                return Some(entity);
            }
            match self.held.iter_mut().find(|held| held.kind == kind) {
                Some(held) => {
                    held.entities.push(entity, order);
                    // It may come before the one that was offered.
                    held.offered = None;
                }
                None => {
                    let mut entities = EntityHeap::default();
                    entities.push(entity, order);
                    self.held.push(Held { kind, entities, offered: None });
                }
            }
        }
        let waits = self.held.iter().filter_map(|held| pace.wait_until(&held.kind, now));
        let until = waits.min();
        pace.refuse_until(until);
        None
    }

    /// Removes and returns an entity whose backoff is over.
    pub(super) fn pop_complete(
        &mut self,
        now: Time,
        sort: &mut SortPlugin<'_>,
    ) -> Option<QueuedEntity> {
        let order = &mut ExpirationThenSort(sort);
        let complete = self.rejected_mut().find(|entities| is_complete(entities, now));
        let complete = complete.and_then(|entities| entities.pop(order));
        if complete.is_some() {
            self.held.retain(|held| !held.entities.is_empty());
            return complete;
        }
        self.retries.forget_before(now);
        is_complete(&self.failed, now).then(|| self.failed.pop(&mut Expiration)).flatten()
    }

    /// Removes and returns the entity `key`.
    pub(super) fn remove(
        &mut self,
        key: &EntityKey,
        sort: &mut SortPlugin<'_>,
    ) -> Option<QueuedEntity> {
        let order = &mut ExpirationThenSort(sort);
        let rejected = self.rejected_mut().find_map(|entities| entities.remove(key, order));
        self.held.retain(|held| !held.entities.is_empty());
        rejected.or_else(|| self.failed.remove(key, &mut Expiration))
    }

    /// Replaces a pod of the entity `key`, which may be of another kind then. Returns whether the
    /// entity is in backoff.
    pub(super) fn update(
        &mut self,
        key: &EntityKey,
        pod: &Arc<Pod>,
        pace: &mut Pace,
        sort: &mut SortPlugin<'_>,
    ) -> bool {
        let replace = |entity: &mut QueuedEntity| entity.set_pod(pod.clone());
        let order = &mut ExpirationThenSort(sort);
        let mut held = self.held.iter_mut().map(|held| &mut held.entities);
        if let Some(entity) = held.find_map(|entities| entities.remove(key, order)) {
            self.held.retain(|held| !held.entities.is_empty());
            self.rejected.push(entity, order);
        }
        if self.rejected.update(key, order, replace) {
            pace.refuse_until(None);
            return true;
        }
        self.failed.update(key, &mut Expiration, replace)
    }

    /// Returns the time at which the next backoff is over.
    pub(super) fn next_complete(&self) -> Option<Time> {
        let heads = self.rejected().chain([&self.failed]).filter_map(EntityHeap::peek);
        let ends = heads.filter_map(|entity| entity.history().backoff_expiration);
        ends.min().map(|expiration| expiration + WINDOW)
    }
}

fn is_complete(heap: &EntityHeap, now: Time) -> bool {
    heap.peek().is_some_and(|entity| !is_backing_off(entity.history().backoff_expiration, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(initial: u64, max: u64) -> Backoff {
        Backoff { initial: Duration::from_secs(initial), max: Duration::from_secs(max) }
    }

    #[test]
    fn backoff_doubles_up_to_the_maximum() {
        let rows: [(Backoff, u32, u64); 12] = [
            (rule(1, 10), 0, 0),
            (rule(1, 10), 1, 1),
            (rule(1, 10), 2, 2),
            (rule(1, 10), 4, 8),
            (rule(1, 10), 5, 10),
            (rule(1, 10), 64, 10),
            (rule(1, 10), u32::MAX, 10),
            (rule(10, 5), 1, 5),
            (rule(5, 0), 3, 0),
            (rule(0, 10), 3, 0),
            (rule(0, 10), u32::MAX, 0),
            (rule(3, 24), 4, 24),
        ];
        for (rule, count, seconds) in rows {
            assert_eq!(rule.duration(count), Duration::from_secs(seconds), "{rule:?} × {count}");
        }
        let forever = Backoff { initial: Duration::from_nanos(1), max: Duration::MAX };
        assert_eq!(forever.duration(64), Duration::from_nanos(1 << 63));
        assert_eq!(forever.duration(65), Duration::MAX);
    }

    #[test]
    fn retries_are_spread_over_seconds() {
        let (mut retries, second) = (SpreadRetries::default(), Time::from_secs);
        let placed: Vec<Time> = (0..300).map(|_| retries.place(second(110))).collect();
        let due_in = |at| placed.iter().filter(|due| due.floor_to_second() == second(at)).count();
        assert_eq!([110, 111, 112].map(due_in), [128, 128, 44]);
        let mut pairs = placed.windows(2);
        assert!(pairs.all(|pair| pair[1].since(pair[0]) >= SPREAD_STEP), "one at a time");
        assert_eq!(retries.place(second(104)), second(104), "an earlier second has places");
        retries.forget_before(second(112));
        assert_eq!(retries.0.len(), 1);
    }

    #[test]
    fn backoff_ends_at_a_whole_second() {
        let millis = |millis: i64| Time::from_nanos(millis * 1_000_000);
        let mut history = History::new(millis(100_700));
        // Rejections, errors, expected expiration in seconds.
        let rows = [
            (0, 0, None),
            (1, 0, Some(101)),
            (3, 0, Some(104)),
            (3, 1, Some(101)),
            (0, 2, Some(102)),
            (9, 9, Some(110)),
        ];
        for (rejections, errors, seconds) in rows {
            history.unschedulable_count = rejections;
            history.consecutive_errors = errors;
            let expected = seconds.map(Time::from_secs);
            assert_eq!(rule(1, 10).expiration(&history), expected, "{rejections}, {errors}");
            assert_eq!(rule(1, 0).expiration(&history), None);
        }
        let end = Some(Time::from_secs(101));
        assert!(is_backing_off(end, millis(100_900)));
        assert!(is_backing_off(end, millis(101_999)));
        assert!(!is_backing_off(end, millis(102_000)));
        let spread = Some(millis(101_300));
        assert!(
            is_backing_off(spread, millis(102_299)) && !is_backing_off(spread, millis(102_300))
        );
        assert!(!is_backing_off(None, Time::ZERO));
    }
}
