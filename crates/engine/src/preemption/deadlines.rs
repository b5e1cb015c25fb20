//! Deadlines of pods.

use std::collections::{BTreeMap, BTreeSet};

use framework::{Time, Uid};

/// Pods with one deadline each, and what belongs to it.
#[derive(Debug)]
pub(super) struct Deadlines<T> {
    by_pod: BTreeMap<Uid, (Time, T)>,
    by_time: BTreeSet<(Time, Uid)>,
}

impl<T> Default for Deadlines<T> {
    fn default() -> Self {
        Self { by_pod: BTreeMap::new(), by_time: BTreeSet::new() }
    }
}

impl<T> Deadlines<T> {
    /// Sets the deadline of a pod. Returns whether it has changed.
    pub(super) fn set(&mut self, uid: &Uid, at: Time, value: T) -> bool {
        let before = self.by_pod.insert(uid.clone(), (at, value)).map(|(before, _)| before);
        if let Some(before) = before {
            self.by_time.remove(&(before, uid.clone()));
        }
        self.by_time.insert((at, uid.clone()));
        before != Some(at)
    }

    pub(super) fn contains(&self, uid: &Uid) -> bool {
        self.by_pod.contains_key(uid)
    }

    pub(super) fn remove(&mut self, uid: &Uid) {
        if let Some((at, _)) = self.by_pod.remove(uid) {
            self.by_time.remove(&(at, uid.clone()));
        }
    }

    /// Returns the first deadline.
    pub(super) fn next(&self) -> Option<Time> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Removes and returns a pod whose deadline has passed.
    pub(super) fn pop_passed(&mut self, now: Time) -> Option<(Uid, T)> {
        self.by_time.first().filter(|(at, _)| *at <= now)?;
        let (_, uid) = self.by_time.pop_first()?;
        let (_, value) = self.by_pod.remove(&uid)?;
        Some((uid, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_deadline_replaces_the_one_before() {
        let (mut deadlines, at) = (Deadlines::default(), Time::from_secs);
        let [a, b] = ["a", "b"].map(Uid::from);
        assert!(deadlines.set(&a, at(5), 1));
        assert!(deadlines.set(&b, at(7), 2));
        assert!(deadlines.set(&a, at(9), 3));
        assert!(!deadlines.set(&a, at(9), 4), "the deadline has not changed");
        assert_eq!((deadlines.next(), deadlines.pop_passed(at(6))), (Some(at(7)), None));
        assert_eq!(deadlines.pop_passed(at(8)), Some((b, 2)));
        assert_eq!((deadlines.next(), deadlines.pop_passed(at(8))), (Some(at(9)), None));
        assert!(deadlines.contains(&a));
        deadlines.remove(&a);
        assert_eq!((deadlines.next(), deadlines.pop_passed(at(10))), (None, None));
        assert!(!deadlines.contains(&a));
    }
}
