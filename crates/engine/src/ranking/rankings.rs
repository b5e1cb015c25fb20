//! The memory of all lanes.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use framework::CycleState;
use rustc_hash::FxHashMap;

use super::failures::Failures;
use super::known::Known;
use super::lane::Lane;
use super::locals::Locals;
use super::repair::Columns;
use super::search::{Counts, Recalled};
use crate::world::ChangeLog;

/// Maximum number of lanes that are remembered. One more forgets the half that was used least
/// recently.
pub(super) const MAX_LANES: usize = 4096;
/// Maximum number of bytes that all lanes hold together for each node beyond [`SMALL_CLUSTER`]:
/// those of 1,000 rankings.
const MAX_BYTES_PER_NODE: usize = 3 << 10;
/// Number of nodes up to which a ranking is made sooner than a pod is bound.
const SMALL_CLUSTER: usize = 5_000;
/// Maximum number of bytes that all lanes hold together in a small cluster: those of 300 rankings
/// of 5,000 nodes.
const MAX_BYTES_OF_SMALL_CLUSTER: usize = 4 << 20;
/// Maximum number of bytes that all lanes hold together: the bytes of 1,000 rankings of a million
/// nodes.
pub(super) const MAX_BYTES: usize = 3 << 30;
/// Number of lanes that hold something after their first pod. Many pods are the only ones of their
/// lane.
pub(super) const MAX_NEW: usize = 16;

/// The memory of the lanes that were used last.
#[derive(Debug, Default)]
pub(crate) struct Rankings {
    lanes: FxHashMap<Lane, Known>,
    locals: Locals,
    /// The lanes that had their first pod last.
    new: VecDeque<Lane>,
    /// Number of uses.
    clock: u64,
    /// Number of bytes that all lanes hold, without the scores that they share.
    bytes: usize,
    /// Number of nodes in the cluster.
    nodes: usize,
    counts: Counts,
    columns: Columns,
}

/// Attempts.
impl Rankings {
    /// Begins an attempt: takes up what is known of a lane, and gives plugins what they have kept.
    pub(crate) fn recall<'r>(
        &'r mut self,
        lane: &Lane,
        log: &'r ChangeLog,
        state: &mut CycleState,
    ) -> Recalled<'r> {
        self.clock += 1;
        self.nodes = log.nodes();
        if self.lanes.len() == MAX_LANES && !self.lanes.contains_key(lane) {
            self.forget_half();
        }
        let known = match self.lanes.entry(lane.clone()) {
            Entry::Vacant(place) => place.insert(Known::new()),
            Entry::Occupied(place) => {
                let known = place.into_mut();
                known.is_new = false;
                known
            }
        };
        known.last_used = self.clock;
        let mut log = log.reader();
        state.resume(known.resume(&mut log));
        let Self { locals, counts, columns, .. } = self;
        Recalled { known, locals, counts, columns, log, filters: None }
    }

    /// Ends an attempt: keeps what plugins keep for the next pod of the lane.
    pub(crate) fn suspend(&mut self, lane: &Lane, state: &mut CycleState) {
        let Some(known) = self.lanes.get_mut(lane) else { return };
        known.suspend(state.suspend());
        self.bytes -= known.bytes;
        known.measure();
        self.bytes += known.bytes;
        if known.is_new {
            self.new.push_back(lane.clone());
            self.drop_oldest_new();
        }
        self.limit();
    }

    /// Returns what failed attempts have left for a lane. Its memory is counted at the next use.
    pub(crate) fn failures_mut(&mut self, lane: &Lane) -> Option<&mut Failures> {
        self.lanes.get_mut(lane).map(|known| &mut known.failures)
    }

    /// Returns the number of decisions and failed attempts that rankings answered.
    pub(crate) const fn counts(&self) -> Counts {
        self.counts
    }
}

/// The limit of memory.
impl Rankings {
    /// Forgets what a lane holds that has had no second pod for long.
    fn drop_oldest_new(&mut self) {
        if self.new.len() <= MAX_NEW {
            return;
        }
        let oldest = self.new.pop_front().and_then(|lane| self.lanes.get_mut(&lane));
        if let Some(oldest) = oldest.filter(|known| known.is_new) {
            self.bytes -= std::mem::replace(&mut oldest.bytes, 0);
            oldest.forget();
        }
    }

    fn forget_half(&mut self) {
        let mut uses: Vec<u64> = self.lanes.values().map(|known| known.last_used).collect();
        let (_, middle, _) = uses.select_nth_unstable(MAX_LANES / 2);
        let middle = *middle;
        self.lanes.retain(|_, known| known.last_used > middle);
        self.bytes = self.lanes.values().map(|known| known.bytes).sum();
    }

    fn max_bytes(&self) -> usize {
        let others = self.nodes.saturating_sub(SMALL_CLUSTER);
        (MAX_BYTES_OF_SMALL_CLUSTER + MAX_BYTES_PER_NODE * others).min(MAX_BYTES)
    }

    /// Forgets what was used least recently if all lanes hold too much. An eighth of the memory is
    /// then free, so that the next attempts need not look at all lanes.
    fn limit(&mut self) {
        let most = self.max_bytes();
        if self.bytes + self.locals.bytes() <= most {
            return;
        }
        let last = self.last_use_to_forget(most - most / 8);
        let outdated = self.lanes.values_mut().filter(|known| known.last_used <= last);
        for known in outdated {
            self.bytes -= std::mem::replace(&mut known.bytes, 0);
            known.forget();
        }
        self.locals.drop_up_to(last);
    }

    /// Returns the last use up to which all is to be forgotten, so that no more than this number of
    /// bytes is left.
    fn last_use_to_forget(&self, left: usize) -> u64 {
        let lanes = self.lanes.values().map(|known| (known.last_used, known.bytes));
        let mut uses: Vec<(u64, usize)> = lanes.chain(self.locals.uses()).collect();
        uses.sort_unstable();
        let mut bytes = self.bytes + self.locals.bytes();
        let forgotten = uses.iter().take_while(|(_, own)| {
            let is_too_much = bytes > left;
            bytes -= own;
            is_too_much
        });
        forgotten.last().map_or(0, |(last_used, _)| *last_used)
    }
}

#[cfg(test)]
mod tests;
