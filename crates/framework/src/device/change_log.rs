use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Changes that are kept in addition to as many as there are things that can change.
const KEPT_MIN: usize = 1024;

/// The number of the latest change in any log. A copy of a cluster changes on its own, and a reader that has
/// seen one of the two must not take the changes of the other for the next ones.
static LATEST: AtomicU64 = AtomicU64::new(0);

/// The latest changes of things that a cache depends on.
#[derive(Debug, Clone)]
pub struct ChangeLog<K> {
    revision: u64,
    /// The number of the latest change that is no longer kept; 0 if all are kept.
    dropped: u64,
    /// Number and what changed, oldest first.
    changes: VecDeque<(u64, K)>,
}

impl<K> Default for ChangeLog<K> {
    fn default() -> Self {
        Self { revision: 0, dropped: 0, changes: VecDeque::new() }
    }
}

impl<K> ChangeLog<K> {
    /// Records a change. Keeps about as many changes as there are things, given by `things`.
    pub(crate) fn push(&mut self, key: K, things: usize) {
        self.revision = LATEST.fetch_add(1, Ordering::Relaxed) + 1;
        self.changes.push_back((self.revision, key));
        if self.changes.len() > things + KEPT_MIN
            && let Some((dropped, _)) = self.changes.pop_front()
        {
            self.dropped = dropped;
        }
    }

    /// Returns the number of the latest change; 0 if there is none. No other change has this number, in
    /// whatever log.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns what changed after this revision, oldest change first, possibly several times;
    /// `None` if that is not known: too long ago, or a revision of another log.
    pub fn since(&self, revision: u64) -> Option<impl Iterator<Item = &K>> {
        let first = if revision == self.dropped {
            0
        } else {
            self.changes.binary_search_by_key(&revision, |(own, _)| *own).ok()? + 1
        };
        Some(self.changes.range(first..).map(|(_, key)| key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(log: &ChangeLog<u32>, revision: u64) -> Option<Vec<u32>> {
        log.since(revision).map(|keys| keys.copied().collect())
    }

    #[test]
    fn reader_gets_the_changes_that_it_has_not_seen() {
        let mut log = ChangeLog::default();
        assert_eq!(since(&log, 0), Some(vec![]));
        log.push(1, 0);
        let first = log.revision();
        log.push(2, 0);
        assert_eq!(since(&log, 0), Some(vec![1, 2]));
        assert_eq!(since(&log, first), Some(vec![2]));
        assert_eq!(since(&log, log.revision()), Some(vec![]));
        (0..KEPT_MIN).for_each(|_| log.push(3, 0));
        assert_eq!(since(&log, 0), None);
        assert_eq!(since(&log, first), None);
    }

    #[test]
    fn reader_of_a_copy_is_not_taken_for_one_of_the_original() {
        let mut log = ChangeLog::default();
        log.push(1, 0);
        let mut copy = log.clone();
        let shared = log.revision();
        log.push(2, 0);
        copy.push(3, 0);
        assert_eq!(since(&copy, log.revision()), None);
        assert_eq!(since(&copy, shared), Some(vec![3]));
    }
}
