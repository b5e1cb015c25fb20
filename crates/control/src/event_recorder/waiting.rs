//! The writes of events that wait to be sent, up to a maximum number.

use std::collections::{BTreeMap, BTreeSet};

use framework::Time;

use super::EventWrite;
use super::event_object::{Importance, Stamp};

/// Writes that are ready or back off; at most one for each object.
///
/// When there are too many, the oldest of the least important ones is dropped.
#[derive(Debug)]
pub(super) struct WaitingWrites {
    capacity: usize,
    writes: BTreeMap<Stamp, EventWrite>,
    /// The writes that can be sent, oldest event first.
    ready: BTreeSet<Stamp>,
    backing_off: BTreeSet<(Time, Stamp)>,
    by_importance: BTreeSet<(Importance, Stamp)>,
}

impl WaitingWrites {
    pub(super) const fn new(capacity: usize) -> Self {
        Self {
            capacity,
            writes: BTreeMap::new(),
            ready: BTreeSet::new(),
            backing_off: BTreeSet::new(),
            by_importance: BTreeSet::new(),
        }
    }

    /// Adds a write of an object of which none waits. It is ready once its time has come. Returns
    /// the write that had to be dropped, which may be this one.
    pub(super) fn add(&mut self, write: EventWrite, now: Time) -> Option<EventWrite> {
        let stamp = write.object.stamp;
        self.by_importance.insert((write.object.importance(), stamp));
        match write.ready_at <= now {
            true => self.ready.insert(stamp),
            false => self.backing_off.insert((write.ready_at, stamp)),
        };
        self.writes.insert(stamp, write);
        if self.writes.len() <= self.capacity {
            return None;
        }
        let (_, least) = *self.by_importance.first()?;
        self.remove(least)
    }

    /// Makes the writes ready whose delay has ended.
    pub(super) fn tick(&mut self, now: Time) {
        while let Some((until, stamp)) = self.backing_off.first().copied()
            && until <= now
        {
            self.backing_off.remove(&(until, stamp));
            self.ready.insert(stamp);
        }
    }

    /// Takes the next write to send.
    pub(super) fn take_ready(&mut self) -> Option<EventWrite> {
        let stamp = *self.ready.first()?;
        self.remove(stamp)
    }

    /// Returns the waiting write of an object.
    pub(super) fn get_mut(&mut self, stamp: Stamp) -> Option<&mut EventWrite> {
        self.writes.get_mut(&stamp)
    }

    /// Removes the waiting write of an object.
    pub(super) fn remove(&mut self, stamp: Stamp) -> Option<EventWrite> {
        let write = self.writes.remove(&stamp)?;
        self.ready.remove(&stamp);
        self.backing_off.remove(&(write.ready_at, stamp));
        self.by_importance.remove(&(write.object.importance(), stamp));
        Some(write)
    }

    /// Removes the writes that back off.
    pub(super) fn clear_backing_off(&mut self) {
        for (_, stamp) in std::mem::take(&mut self.backing_off) {
            self.remove(stamp);
        }
    }

    /// Returns the end of the first delay.
    pub(super) fn next_ready(&self) -> Option<Time> {
        self.backing_off.first().map(|(until, _)| *until)
    }

    pub(super) fn len(&self) -> usize {
        self.writes.len()
    }

    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn backing_off(&self) -> usize {
        self.backing_off.len()
    }
}
