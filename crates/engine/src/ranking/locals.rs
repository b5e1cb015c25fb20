//! The local scores that lanes share.

use rustc_hash::FxHashMap;

use super::local::{LocalKey, LocalScores};
use super::unusable::Unusable;

/// Maximum number of local scores that lanes share. One more forgets the scores that were used
/// least recently.
pub(super) const MAX_LOCALS: usize = 256;

/// The local scores that lanes share.
#[derive(Debug, Default)]
pub(super) struct Locals {
    by_key: FxHashMap<LocalKey, Local>,
    /// Number of bytes that all scores take.
    bytes: usize,
}

/// Local scores, and when they were used.
#[derive(Debug, Default)]
struct Local {
    last_used: u64,
    bytes: usize,
    scores: LocalScores,
}

impl Locals {
    /// Repairs the scores of a key. Forgets them if that fails.
    pub(super) fn repair(
        &mut self,
        key: &LocalKey,
        clock: u64,
        repair: impl FnOnce(&mut LocalScores) -> Result<(), Unusable>,
    ) -> Result<(), Unusable> {
        if !self.by_key.contains_key(key) {
            if self.by_key.len() == MAX_LOCALS {
                self.drop_oldest();
            }
            self.by_key.insert(key.clone(), Local::default());
        }
        let Some(local) = self.by_key.get_mut(key) else { return Err(Unusable) };
        local.last_used = clock;
        let repaired = repair(&mut local.scores);
        if repaired.is_err() {
            local.scores = LocalScores::default();
        }
        self.bytes -= local.bytes;
        local.bytes = local.scores.bytes();
        self.bytes += local.bytes;
        repaired
    }

    /// Number of bytes that all scores take.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns when each of the scores was used last, and its number of bytes, in no order.
    pub(super) fn uses(&self) -> impl Iterator<Item = (u64, usize)> {
        self.by_key.values().map(|local| (local.last_used, local.bytes))
    }

    /// Forgets the scores that were used last at `last` or before.
    pub(super) fn drop_up_to(&mut self, last: u64) {
        self.by_key.retain(|_, local| local.last_used > last);
        self.bytes = self.by_key.values().map(|local| local.bytes).sum();
    }

    /// Forgets the scores that were used least recently.
    fn drop_oldest(&mut self) {
        let oldest = self.by_key.iter().min_by_key(|(_, local)| local.last_used);
        let oldest = oldest.map(|(key, _)| key.clone());
        let local = oldest.and_then(|key| self.by_key.remove(&key));
        self.bytes -= local.map_or(0, |local| local.bytes);
    }
}

#[cfg(test)]
mod tests {
    use framework::NodeIx;
    use testkit::pod;

    use super::super::local::LocalScore;
    use super::*;
    use crate::world::ChangeLog;

    fn key(cpu: &str) -> LocalKey {
        LocalKey {
            scheduler_name: "loadmaster".into(),
            filters: vec![0],
            scores: vec![1],
            requests: pod("p").cpu(cpu).build().requests,
        }
    }

    #[test]
    fn local_scores_are_shared_by_requests_and_forgotten_by_use() {
        let (mut locals, log, node) = (Locals::default(), ChangeLog::default(), NodeIx::new(3));
        let made = locals.repair(&key("1"), 1, |scores| {
            assert!(scores.catch_up(&mut log.reader(), 10).is_none());
            scores.set(node, LocalScore::of(7).unwrap());
            Ok(())
        });
        assert!(made.is_ok());
        assert_eq!(locals.bytes(), 20);
        let repaired = locals.repair(&key("1"), 2, |scores| {
            assert!(scores.catch_up(&mut log.reader(), 12).is_some());
            assert_eq!(scores.get(node).get(), Some(7));
            Ok(())
        });
        assert!(repaired.is_ok());
        for cpu in 2..=MAX_LOCALS + 1 {
            let clock = cpu as u64 + 1;
            assert!(locals.repair(&key(&cpu.to_string()), clock, |_| Ok(())).is_ok());
        }
        let oldest = locals.uses().map(|(last_used, _)| last_used).min();
        assert_eq!((locals.by_key.len(), oldest), (MAX_LOCALS, Some(3)));
        assert!(!locals.by_key.contains_key(&key("1")));
        assert_eq!(locals.bytes(), 0);
    }

    #[test]
    fn scores_that_could_not_be_repaired_are_forgotten() {
        let (mut locals, log) = (Locals::default(), ChangeLog::default());
        let failed = locals.repair(&key("1"), 1, |scores| {
            scores.catch_up(&mut log.reader(), 10);
            Err(Unusable)
        });
        assert!(failed.is_err());
        let made = locals.repair(&key("1"), 2, |scores| {
            assert!(scores.catch_up(&mut log.reader(), 10).is_none(), "all nodes are scored again");
            Ok(())
        });
        assert!(made.is_ok());
    }
}
