use std::collections::VecDeque;

/// Changes that are kept in addition to as many as there are things that can change.
const KEPT_MIN: usize = 1024;

/// The latest changes of things that a cache depends on.
#[derive(Debug, Clone)]
pub struct ChangeLog<K> {
    revision: u64,
    /// Revision and what changed, oldest first.
    changes: VecDeque<(u64, K)>,
}

impl<K> Default for ChangeLog<K> {
    fn default() -> Self {
        Self { revision: 0, changes: VecDeque::new() }
    }
}

impl<K> ChangeLog<K> {
    /// Records a change. Keeps about as many changes as there are things, given by `things`.
    pub(crate) fn push(&mut self, key: K, things: usize) {
        self.revision += 1;
        self.changes.push_back((self.revision, key));
        if self.changes.len() > things + KEPT_MIN {
            self.changes.pop_front();
        }
    }

    /// Returns the number of the latest change.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns what changed after this revision, oldest change first, possibly several times;
    /// `None` if that is too long ago to know.
    pub fn since(&self, revision: u64) -> Option<impl Iterator<Item = &K>> {
        let oldest = self.changes.front().map_or(self.revision + 1, |(oldest, _)| *oldest);
        (revision + 1 >= oldest).then(|| {
            let first = self.changes.partition_point(|(own, _)| *own <= revision);
            self.changes.range(first..).map(|(_, key)| key)
        })
    }
}
