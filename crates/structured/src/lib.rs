//! The structured allocator: chooses the devices of a node for the claims of a pod, exactly as the
//! allocator of kube-scheduler 1.36 does.
//!
//! - [`Claims`]: the claims to allocate, with their classes and compiled selectors.
//! - [`Allocator`]: the devices of the cluster and what is allocated; [`Allocator::allocate`]
//!   searches the devices of one node.
//! - [`Memos`] and [`Trial`]: the answers for nodes whose devices look alike, kept from one pod to
//!   the next; [`Allocator::fits`] uses them.
//! - [`Overlay`]: the allocations that the watch does not show.
//! - [`CountedClass`]: counts the devices of a class, for scores of extended resources.
//! - [`Expression`] and [`Compiler`]: the selectors, in whatever language they are.
//! - `simulation`: random histories against a slow allocator (feature `simulation`).
//!
//! The search is depth first: claims, requests and alternatives in order, devices by pool, slice
//! and place in the slice; the first complete solution wins. Devices that look alike to all claims
//! are tried once. The search of a request ends once too few devices are left that it selects,
//! unless a selector that kube-scheduler evaluates may still fail. A search takes at most as many
//! steps as its [`Budget`] has. What searches take beyond a few steps comes from [`LongSearches`],
//! which all pods share.
//!
//! Nothing here reads a clock, does I/O or draws random numbers but from the given seed.

mod capacity;
mod claims;
mod constraint;
mod count;
mod counters;
mod counting;
mod diagnosis;
mod error;
mod expression;
mod gates;
mod memo;
mod overlay;
mod pools;
mod request;
mod result;
mod search;
mod share_id;
mod shared_pools;
#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
mod steps;
#[cfg(test)]
mod tests;

pub use self::claims::Claims;
pub use self::count::{CountedClass, DeviceCount};
pub use self::diagnosis::{Diagnosis, Obstacle};
pub use self::error::AllocateError;
pub use self::expression::{Compiled, Compiler, Expression};
pub use self::gates::Gates;
pub use self::memo::{Answer, Diagnoses, Memos, NodesByShape, Trial};
pub use self::overlay::Overlay;
pub use self::pools::Allocated;
pub use self::steps::{Budget, Limits, LongSearches};

use std::mem;

use framework::device::Allocation;
use framework::{Cluster, NodeView};

use self::search::{Buffers, Effort, Outcome, Search};

/// The devices of a cluster, and what is allocated.
#[derive(Debug, Clone, Copy)]
pub struct Allocator<'a> {
    cluster: &'a Cluster,
    gates: Gates,
    allocated: Allocated<'a>,
}

impl<'a> Allocator<'a> {
    /// Returns the allocator of a cluster.
    pub const fn new(cluster: &'a Cluster, gates: Gates, allocated: Allocated<'a>) -> Self {
        Self { cluster, gates, allocated }
    }

    /// Searches the devices of a node for the claims. Returns one allocation for each claim, in
    /// order; `None` if the claims cannot be allocated. The search takes no more steps than the
    /// limits allow. `seed` determines the identities of shares.
    ///
    /// # Errors
    /// The search ended early; see [`AllocateError`].
    pub fn allocate(
        &self,
        claims: &Claims,
        node: &NodeView<'_>,
        limits: Limits<'_>,
        seed: u64,
    ) -> Result<Option<Vec<Allocation>>, AllocateError> {
        let budget = limits.long.limit(limits.budget);
        let (found, steps) = self.allocate_in(&mut Buffers::default(), claims, node, budget, seed);
        limits.long.take(steps);
        found
    }

    /// Does the same as [`allocate`](Self::allocate), with the vectors of an earlier search.
    /// Returns the steps of the search, too.
    pub(crate) fn allocate_in(
        &self,
        buffers: &mut Buffers,
        claims: &Claims,
        node: &NodeView<'_>,
        budget: Budget,
        seed: u64,
    ) -> (Result<Option<Vec<Allocation>>, AllocateError>, u64) {
        let mut search = match Search::new(self, claims, node, budget, mem::take(buffers)) {
            Ok(search) => search,
            Err(error) => return (Err(error), 0),
        };
        let found = search.run(Effort::Least).and_then(|outcome| match outcome {
            Outcome::Done => result::allocations(&search, node.name(), seed).map(Some),
            Outcome::Failed | Outcome::TooMany => Ok(None),
        });
        let steps = search.steps.taken_of(budget);
        *buffers = search.end();
        (found, steps)
    }

    /// Returns why the claims cannot be allocated on the node; `None` if they can, or if the search
    /// ends with an error, which says why itself. Without steps left it is what was found until
    /// then. Returns the steps of the search, too.
    pub(crate) fn diagnosis(
        &self,
        claims: &Claims,
        node: &NodeView<'_>,
        budget: Budget,
    ) -> (Option<Diagnosis>, u64) {
        let search = Search::new(self, claims, node, budget, Buffers::default());
        let Ok(mut search) = search else { return (None, 0) };
        let diagnosis = match search.run(Effort::Full) {
            Ok(Outcome::Done) | Err(AllocateError::Node(_) | AllocateError::Fatal(_)) => None,
            Ok(Outcome::Failed | Outcome::TooMany) => Some(search.diagnosis(false)),
            Err(AllocateError::OutOfSteps) => Some(search.diagnosis(true)),
        };
        (diagnosis, search.steps.taken_of(budget))
    }
}
