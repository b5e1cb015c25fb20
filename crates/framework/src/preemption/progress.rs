//! The preemptions in progress.

use foldhash::HashSet;

use super::FruitlessPreemptions;
use crate::Uid;

/// The preemptions in progress, and the preemptions that led to no binding. The engine changes it;
/// plugins read it through their [`Handle`](crate::Handle).
#[derive(Debug, Clone, Default)]
pub struct PreemptionProgress {
    /// Never iterated.
    running: HashSet<Uid>,
    fruitless: FruitlessPreemptions,
}

impl PreemptionProgress {
    /// Returns whether victims of this pod are still to be evicted. Until they are, another attempt
    /// fails.
    pub fn is_running(&self, preemptor: &Uid) -> bool {
        self.running.contains(preemptor)
    }

    /// Marks the start of the evictions for this pod.
    pub fn begin(&mut self, preemptor: &Uid) {
        self.running.insert(preemptor.clone());
    }

    /// Marks the end of the evictions for this pod: the last eviction has begun, or the preemption
    /// is called off.
    pub fn end(&mut self, preemptor: &Uid) {
        self.running.remove(preemptor);
    }

    /// Returns the preemptions that led to no binding, and the pauses that follow them.
    pub const fn fruitless(&self) -> &FruitlessPreemptions {
        &self.fruitless
    }

    /// Returns the preemptions that led to no binding, for the engine to change.
    pub const fn fruitless_mut(&mut self) -> &mut FruitlessPreemptions {
        &mut self.fruitless
    }
}
