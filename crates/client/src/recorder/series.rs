//! Which events have happened, to tell when they happen again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::{Event, EventType};
use framework::{PodKey, Time, Uid};

use super::record::{Occurrences, Record};

/// What did not happen for so long is over.
const FINISH: Duration = Duration::from_mins(6);

/// How often the counts of series are told.
const REFRESH: Duration = Duration::from_mins(30);

/// What events of one series have in common. The reporting instance follows from the controller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    regarding: PodKey,
    uid: Uid,
    is_warning: bool,
    reason: Cow<'static, str>,
    action: Cow<'static, str>,
    reporting_controller: Arc<str>,
}

impl Key {
    fn of(event: &Event) -> Self {
        Self {
            regarding: event.regarding.clone(),
            uid: event.uid.clone(),
            is_warning: event.event_type == EventType::Warning,
            reason: event.reason.clone(),
            action: event.action.clone(),
            reporting_controller: event.reporting_controller.clone(),
        }
    }
}

/// Place of an event among the others: when it happened last, and its stamp.
type Age = (Time, i64);

/// Events of the last minutes; no more than a given number.
#[derive(Debug)]
pub(super) struct SeriesMemory {
    capacity: usize,
    events: BTreeMap<Key, (Arc<Record>, Occurrences)>,
    by_age: BTreeMap<Age, Key>,
    /// When series are looked through next: for those that are over, and for all.
    sweeps: Option<Sweeps>,
}

#[derive(Debug, Clone, Copy)]
struct Sweeps {
    finish: Time,
    refresh: Time,
}

impl SeriesMemory {
    pub(super) const fn new(capacity: usize) -> Self {
        Self { capacity, events: BTreeMap::new(), by_age: BTreeMap::new(), sweeps: None }
    }

    /// Counts an event that has happened before; `None` if it has not.
    pub(super) fn observe(
        &mut self,
        event: &Event,
        now: Time,
    ) -> Option<(Arc<Record>, Occurrences)> {
        let key = Key::of(event);
        let (record, seen) = self.events.get_mut(&key)?;
        self.by_age.remove(&(seen.last, record.stamp));
        *seen = Occurrences { count: seen.count.saturating_add(1), last: now };
        self.by_age.insert((now, record.stamp), key);
        Some((record.clone(), *seen))
    }

    /// Remembers an event that has happened for the first time, for the oldest one if need be.
    pub(super) fn remember(&mut self, record: Arc<Record>) {
        if self.capacity == 0 {
            return;
        }
        if self.events.len() >= self.capacity {
            self.forget_oldest();
        }
        let now = record.time;
        self.sweeps.get_or_insert(Sweeps { finish: now + FINISH, refresh: now + REFRESH });
        let key = Key::of(&record.event);
        self.by_age.insert((now, record.stamp), key.clone());
        self.events.insert(key, (record, Occurrences { count: 1, last: now }));
    }

    /// The series to patch now: all of them if it is time to refresh them, those that are over if
    /// it is time to look for them. What is over is forgotten.
    pub(super) fn sweep(&mut self, now: Time) -> Vec<(Arc<Record>, Occurrences)> {
        let mut patches = Vec::new();
        let Some(mut sweeps) = self.sweeps else { return patches };
        if sweeps.finish <= now {
            sweeps.finish = now + FINISH;
            while self.by_age.first_key_value().is_some_and(|((last, _), _)| *last + FINISH < now) {
                patches.extend(self.forget_oldest());
            }
        }
        if sweeps.refresh <= now {
            sweeps.refresh = now + REFRESH;
            patches.extend(self.events.values().cloned());
        }
        self.sweeps = (!self.events.is_empty()).then_some(sweeps);
        patches.retain(|(_, seen)| seen.count > 1);
        patches
    }

    /// When [`sweep`](Self::sweep) has something to do next.
    pub(super) fn next_sweep(&self) -> Option<Time> {
        self.sweeps.map(|sweeps| sweeps.finish.min(sweeps.refresh))
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.capacity);
    }

    fn forget_oldest(&mut self) -> Option<(Arc<Record>, Occurrences)> {
        let (_, key) = self.by_age.pop_first()?;
        self.events.remove(&key)
    }
}
