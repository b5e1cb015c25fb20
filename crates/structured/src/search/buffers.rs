//! Vectors that one search leaves to the next, so that the search of a node allocates little
//! memory.

use std::ops::Range;

use super::{Found, Frame, Pick, Search, Selectable};
use crate::constraint::ClaimConstraints;
use crate::counters::CounterBook;
use crate::diagnosis::Obstacle;
use crate::pools::{AllocatedInPool, Pool};
use crate::request::Need;

/// The vectors of a search that has ended, to be filled again.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub(super) pools: Vec<Pool<'static>>,
    pub(super) devices: Vec<Found<'static>>,
    pub(super) needs: Vec<Need>,
    pub(super) picks: Vec<Vec<Pick>>,
    pub(super) chosen: Vec<Vec<usize>>,
    pub(super) allocated: Vec<AllocatedInPool<'static>>,
    pub(super) device_ranges: Vec<Range<usize>>,
    pub(super) constraints: Vec<ClaimConstraints<'static>>,
    pub(super) counters: Vec<Option<CounterBook<'static>>>,
    pub(super) selectable: Vec<Selectable>,
    pub(super) obstacles: Vec<Option<Obstacle>>,
    pub(super) frames: Vec<Frame>,
}

impl Search<'_> {
    /// Ends the search. The next one can use its vectors.
    pub(crate) fn end(self) -> Buffers {
        Buffers {
            pools: emptied(self.pools),
            devices: emptied(self.devices),
            needs: self.needs,
            picks: self.picks,
            chosen: self.chosen,
            allocated: emptied(self.allocated),
            device_ranges: self.device_ranges,
            constraints: emptied(self.constraints),
            counters: emptied(self.counters),
            selectable: self.selectable,
            obstacles: self.obstacles,
            frames: self.frames,
        }
    }
}

/// Returns an empty vector for elements of another lifetime. Collecting from a vector into one of
/// elements of the same size keeps its memory.
pub(super) fn emptied<T, U>(mut vector: Vec<T>) -> Vec<U> {
    vector.clear();
    vector.into_iter().filter_map(|_| None).collect()
}

/// Returns the vector with this number of equal elements.
pub(super) fn filled<T: Clone>(mut vector: Vec<T>, count: usize, element: T) -> Vec<T> {
    vector.clear();
    vector.resize(count, element);
    vector
}

/// Returns the vector with this number of empty vectors.
pub(super) fn filled_with_empty<T>(mut vector: Vec<Vec<T>>, count: usize) -> Vec<Vec<T>> {
    vector.iter_mut().for_each(Vec::clear);
    vector.resize_with(count, Vec::new);
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emptied_vector_keeps_its_memory() {
        let vector: Vec<&u64> = Vec::with_capacity(10);
        let place = vector.as_ptr().cast::<u8>();
        let emptied: Vec<&u64> = emptied(vector);
        assert_eq!((emptied.as_ptr().cast::<u8>(), emptied.capacity()), (place, 10));
    }
}
