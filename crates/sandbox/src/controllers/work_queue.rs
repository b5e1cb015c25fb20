//! The queue of objects that a controller has to reconcile.

use std::collections::BTreeSet;

use framework::Time;
use serde_json::Value;

use crate::metadata::{name, namespace};

/// Namespace and name of an object.
pub(super) type Key = (String, String);

pub(super) fn key(object: &Value) -> Key {
    (namespace(object).to_owned(), name(object).to_owned())
}

/// Keys of objects to reconcile, each once, some of them later.
#[derive(Debug, Default)]
pub(super) struct WorkQueue {
    ready: BTreeSet<Key>,
    later: BTreeSet<(Time, Key)>,
}

impl WorkQueue {
    pub(super) fn add(&mut self, key: Key) {
        self.ready.insert(key);
    }

    pub(super) fn add_after(&mut self, key: Key, time: Time) {
        self.later.insert((time, key));
    }

    /// Returns the next key to look at by now.
    pub(super) fn pop(&mut self, now: Time) -> Option<Key> {
        while self.later.first().is_some_and(|(time, _)| *time <= now) {
            self.ready.extend(self.later.pop_first().map(|(_, key)| key));
        }
        self.ready.pop_first()
    }

    /// Returns when the next key is due; the epoch if a key is due now.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let later = || self.later.first().map(|(time, _)| *time);
        self.ready.first().map(|_| Time::ZERO).or_else(later)
    }
}
