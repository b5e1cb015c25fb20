//! What a controller has to look at.

use std::collections::BTreeSet;

use framework::Time;
use serde_json::Value;

use crate::metadata::{name, namespace};

/// Namespace and name of an object.
pub(super) type Key = (String, String);

pub(super) fn key(object: &Value) -> Key {
    (namespace(object).to_owned(), name(object).to_owned())
}

/// Keys of objects to look at, each once, some now and some later.
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

    /// The next key to look at by now.
    pub(super) fn pop(&mut self, now: Time) -> Option<Key> {
        while self.later.first().is_some_and(|(time, _)| *time <= now) {
            self.ready.extend(self.later.pop_first().map(|(_, key)| key));
        }
        self.ready.pop_first()
    }

    /// When the next key is to be looked at; the epoch if one is waiting already.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let later = || self.later.first().map(|(time, _)| *time);
        self.ready.first().map(|_| Time::ZERO).or_else(later)
    }
}
