//! The cache of recent events, which recognizes when an event occurs again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::{Event, EventType};
use framework::{PodKey, Time, Uid};

use super::event_object::{EventObject, EventSeries, Stamp};

/// Time without an occurrence after which a series is finished, and the interval between checks for
/// such series.
const FINISH_TIME: Duration = Duration::from_mins(6);

/// Interval between patches of all series with their counts.
const REFRESH_TIME: Duration = Duration::from_mins(30);

/// The fields that events of one series have in common, beside the note. The reporting instance
/// follows from the controller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct EventKey {
    regarding: PodKey,
    uid: Uid,
    is_warning: bool,
    reason: Cow<'static, str>,
    action: Cow<'static, str>,
    reporting_controller: Arc<str>,
}

impl EventKey {
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

/// The order of cached events: the time of the last occurrence, then the stamp.
type Age = (Time, Stamp);

/// A cached event, and how often it occurred.
type Cached = (Arc<EventObject>, EventSeries);

/// The events of the last minutes, up to a maximum number.
#[derive(Debug)]
pub(super) struct EventCache {
    capacity: usize,
    events: BTreeMap<EventKey, Cached>,
    by_age: BTreeMap<Age, EventKey>,
    /// The times of the next checks, while the cache is not empty.
    checks: Option<Checks>,
}

#[derive(Debug, Clone, Copy)]
struct Checks {
    finish: Time,
    refresh: Time,
}

impl EventCache {
    pub(super) const fn new(capacity: usize) -> Self {
        Self { capacity, events: BTreeMap::new(), by_age: BTreeMap::new(), checks: None }
    }

    /// Counts an occurrence of a cached event. Returns `None` if the event is not cached, or only
    /// with another note.
    pub(super) fn count(&mut self, event: &Event, now: Time) -> Option<Cached> {
        let key = EventKey::of(event);
        let (object, series) = self.events.get_mut(&key)?;
        if object.event.note != event.note {
            return None;
        }
        self.by_age.remove(&(series.last_observed, object.stamp));
        *series = EventSeries { count: series.count.saturating_add(1), last_observed: now };
        self.by_age.insert((now, object.stamp), key);
        Some((object.clone(), *series))
    }

    /// Adds an event that occurred for the first time with its note. A full cache evicts its oldest
    /// event. Returns the event that differs in the note alone, which is replaced.
    pub(super) fn add(&mut self, object: Arc<EventObject>) -> Option<Cached> {
        if self.capacity == 0 {
            return None;
        }
        let key = EventKey::of(&object.event);
        let replaced = self.remove(&key);
        if self.events.len() >= self.capacity {
            self.remove_oldest();
        }
        let now = object.time;
        self.checks
            .get_or_insert(Checks { finish: now + FINISH_TIME, refresh: now + REFRESH_TIME });
        self.by_age.insert((now, object.stamp), key.clone());
        self.events.insert(key, (object, EventSeries { count: 1, last_observed: now }));
        replaced
    }

    /// Removes the events about a pod, and returns them.
    pub(super) fn take_about(&mut self, pod: &PodKey, uid: &Uid) -> Vec<Cached> {
        let first = EventKey {
            regarding: pod.clone(),
            uid: uid.clone(),
            is_warning: false,
            reason: "".into(),
            action: "".into(),
            reporting_controller: "".into(),
        };
        let about = self.events.range(&first..).map(|(key, _)| key);
        let about = about.take_while(|key| key.regarding == *pod && key.uid == *uid);
        let about: Vec<EventKey> = about.cloned().collect();
        about.iter().filter_map(|key| self.remove(key)).collect()
    }

    /// Removes an event that was never written, so that its next occurrence is.
    pub(super) fn forget(&mut self, object: &EventObject) {
        let key = EventKey::of(&object.event);
        if self.events.get(&key).is_some_and(|(cached, _)| cached.stamp == object.stamp) {
            self.remove(&key);
        }
    }

    /// Returns the series to patch now: all series if a refresh is due, and finished ones if a
    /// check for them is due. Removes finished series.
    pub(super) fn take_due_series(&mut self, now: Time) -> Vec<Cached> {
        let mut due = Vec::new();
        let Some(mut checks) = self.checks else { return due };
        if checks.finish <= now {
            checks.finish = now + FINISH_TIME;
            let is_finished = |last: Time| last + FINISH_TIME < now;
            while self.by_age.first_key_value().is_some_and(|((last, _), _)| is_finished(*last)) {
                due.extend(self.remove_oldest());
            }
        }
        if checks.refresh <= now {
            checks.refresh = now + REFRESH_TIME;
            due.extend(self.events.values().cloned());
        }
        self.checks = (!self.events.is_empty()).then_some(checks);
        due.retain(|(_, series)| series.count > 1);
        due
    }

    /// Returns the time at which [`take_due_series`](Self::take_due_series) is due next.
    pub(super) fn next_check(&self) -> Option<Time> {
        self.checks.map(|checks| checks.finish.min(checks.refresh))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.by_age.len(), self.events.len());
        self.events.len()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.capacity);
    }

    fn remove(&mut self, key: &EventKey) -> Option<Cached> {
        let (object, series) = self.events.remove(key)?;
        self.by_age.remove(&(series.last_observed, object.stamp));
        Some((object, series))
    }

    fn remove_oldest(&mut self) -> Option<Cached> {
        let (_, key) = self.by_age.pop_first()?;
        self.events.remove(&key)
    }
}
