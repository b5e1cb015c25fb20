use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Changes that are kept in addition to as many as there are things that can change.
const KEPT_MIN: usize = 1024;

/// Gives numbers, from 1, to the changes of a part of a cluster and of all copies of that cluster.
///
/// A copy changes on its own, and a reader that has seen one of the two must not take a change of
/// the other for one that it knows. Copies therefore share their numbers, and no two changes have
/// the same one. Clusters that are not copies of each other have different `Numbers`, which are
/// compared by identity.
#[derive(Debug, Clone, Default)]
pub struct Numbers(Arc<AtomicU64>);

impl Numbers {
    /// Returns the next number.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns whether both number the same cluster or its copies.
    pub fn are_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What a reader has seen of a [`ChangeLog`]; by default nothing.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The numbers of the log and that of the latest change.
    latest: Option<(Numbers, u64)>,
}

/// The latest changes of things that a cache depends on.
#[derive(Debug, Clone)]
pub struct ChangeLog<K> {
    numbers: Numbers,
    /// The number of the latest change; 0 if there is none.
    latest: u64,
    /// The number of the latest change that is no longer kept; 0 if all are kept.
    dropped: u64,
    /// Number and what changed, oldest first.
    changes: VecDeque<(u64, K)>,
}

impl<K> Default for ChangeLog<K> {
    fn default() -> Self {
        Self { numbers: Numbers::default(), latest: 0, dropped: 0, changes: VecDeque::new() }
    }
}

impl<K> ChangeLog<K> {
    /// Records a change. Keeps about as many changes as there are things, given by `things`.
    pub fn push(&mut self, key: K, things: usize) {
        self.latest = self.numbers.next();
        self.changes.push_back((self.latest, key));
        if self.changes.len() > things + KEPT_MIN
            && let Some((dropped, _)) = self.changes.pop_front()
        {
            self.dropped = dropped;
        }
    }

    /// Returns what a reader has seen that knows all changes.
    pub fn seen(&self) -> Seen {
        Seen { latest: Some((self.numbers.clone(), self.latest)) }
    }

    /// Returns whether a reader knows all changes.
    pub fn is_at(&self, seen: &Seen) -> bool {
        let latest = seen.latest.as_ref();
        latest.is_some_and(|(numbers, at)| *at == self.latest && numbers.are_same(&self.numbers))
    }

    /// Returns the keys that changed since `seen`, in the order of the changes, possibly several
    /// times; `None` if they are not known: `seen` is too old, or of another log.
    pub fn since<'a>(&'a self, seen: &Seen) -> Option<impl Iterator<Item = &'a K> + use<'a, K>> {
        let seen = match &seen.latest {
            None => 0,
            Some((numbers, at)) => numbers.are_same(&self.numbers).then_some(*at)?,
        };
        let first = if seen == self.dropped {
            0
        } else {
            self.changes.binary_search_by_key(&seen, |(own, _)| *own).ok()? + 1
        };
        Some(self.changes.range(first..).map(|(_, key)| key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(log: &ChangeLog<u32>, seen: &Seen) -> Option<Vec<u32>> {
        log.since(seen).map(|keys| keys.copied().collect())
    }

    #[test]
    fn reader_gets_the_changes_that_it_has_not_seen() {
        let mut log = ChangeLog::default();
        let nothing = Seen::default();
        assert_eq!(since(&log, &nothing), Some(vec![]));
        log.push(1, 0);
        let first = log.seen();
        log.push(2, 0);
        assert_eq!(since(&log, &nothing), Some(vec![1, 2]));
        assert_eq!(since(&log, &first), Some(vec![2]));
        assert_eq!(since(&log, &log.seen()), Some(vec![]));
        assert!(log.is_at(&log.seen()) && !log.is_at(&first) && !log.is_at(&nothing));
        (0..KEPT_MIN).for_each(|_| log.push(3, 0));
        assert_eq!(since(&log, &nothing), None);
        assert_eq!(since(&log, &first), None);
    }

    #[test]
    fn reader_of_a_copy_is_not_taken_for_one_of_the_original() {
        let mut log = ChangeLog::default();
        log.push(1, 0);
        let mut copy = log.clone();
        let shared = log.seen();
        log.push(2, 0);
        copy.push(3, 0);
        assert!(!copy.is_at(&log.seen()));
        assert_eq!(since(&copy, &log.seen()), None);
        assert_eq!(since(&copy, &shared), Some(vec![3]));
    }

    #[test]
    fn reader_of_another_log_has_seen_nothing_of_this_one() {
        let (mut log, mut other) = (ChangeLog::default(), ChangeLog::default());
        log.push(1, 0);
        other.push(2, 0);
        assert!(!other.is_at(&log.seen()));
        assert_eq!(since(&other, &log.seen()), None);
    }

    #[test]
    fn numbers_depend_on_the_changes_of_the_cluster_alone() {
        let numbers = || {
            let mut log = ChangeLog::default();
            (0..3).for_each(|key| log.push(key, 0));
            log.changes.iter().map(|(number, _)| *number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(), [1, 2, 3]);
        assert_eq!(numbers(), [1, 2, 3]);
    }
}
