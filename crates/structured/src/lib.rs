//! The structured allocator: chooses the devices of a node for the claims of a pod, exactly as the
//! allocator of kube-scheduler 1.36 does.
//!
//! - [`Claims`]: the claims to allocate, with their classes and compiled selectors.
//! - [`Allocator`]: the devices of the cluster and what is allocated; [`Allocator::allocate`]
//!   searches the devices of one node.
//! - [`Memos`] and [`Trial`]: the answers for nodes whose devices look alike, kept from one pod to the
//!   next; [`Allocator::fits`] uses them.
//! - [`Overlay`]: the allocations that the watch does not show.
//! - [`CountedClass`]: counts the devices of a class, for scores of extended resources.
//! - [`Expression`] and [`Compiler`]: the selectors, in whatever language they are.
//!
//! The search is depth first: claims, requests and alternatives in order, devices by pool, slice and
//! place in the slice; the first complete solution wins. Devices that look alike to all claims are
//! tried once. A search takes at most as many steps as its [`Budget`] has.
//!
//! Nothing here reads a clock, does I/O or draws random numbers but from the given seed.

mod capacity;
mod claims;
mod constraint;
mod count;
mod counters;
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
#[cfg(test)]
mod tests;

pub use self::claims::Claims;
pub use self::count::{CountedClass, DeviceCount};
pub use self::diagnosis::{Diagnosis, Obstacle};
pub use self::error::{AllocateError, Budget};
pub use self::expression::{Compiled, Compiler, Expression};
pub use self::gates::Gates;
pub use self::memo::{Answer, Diagnoses, Memos, NodesByShape, Trial};
pub use self::overlay::Overlay;
pub use self::pools::Allocated;

use framework::device::Allocation;
use framework::{Cluster, NodeView};

use self::search::{Outcome, Search};

/// The devices of a cluster, and what is allocated.
#[derive(Debug, Clone, Copy)]
pub struct Allocator<'a> {
    cluster: &'a Cluster,
    gates: Gates,
    allocated: Allocated<'a>,
}

/// The outcome of a search on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The claims can be allocated: one allocation for each claim, in order.
    Allocations(Vec<Allocation>),
    /// The claims cannot be allocated, and why.
    Nothing(Box<Diagnosis>),
}

impl<'a> Allocator<'a> {
    /// Returns the allocator of a cluster.
    pub const fn new(cluster: &'a Cluster, gates: Gates, allocated: Allocated<'a>) -> Self {
        Self { cluster, gates, allocated }
    }

    /// Searches the devices of a node for the claims. `seed` determines the identities of shares.
    ///
    /// # Errors
    /// The search ended early; see [`AllocateError`].
    pub fn allocate(
        &self,
        claims: &Claims,
        node: &NodeView<'_>,
        budget: Budget,
        seed: u64,
    ) -> Result<Found, AllocateError> {
        Ok(match self.search(claims, node, budget, seed)? {
            Ok(allocations) => Found::Allocations(allocations),
            Err(search) => Found::Nothing(Box::new(search.diagnosis())),
        })
    }

    /// Searches the devices of a node; returns the failed search if there is no solution.
    fn search<'b>(
        &self,
        claims: &'b Claims,
        node: &NodeView<'b>,
        budget: Budget,
        seed: u64,
    ) -> Result<Result<Vec<Allocation>, Box<Search<'b>>>, AllocateError>
    where
        'a: 'b,
    {
        let mut search = Search::new(self, claims, node, budget)?;
        Ok(match search.run()? {
            Outcome::Done => Ok(result::allocations(&search, node.name(), seed)?),
            Outcome::Failed | Outcome::TooMany => Err(Box::new(search)),
        })
    }
}
