//! Random histories of the allocator against a slow one.
//!
//! - [`history`](crate::simulation::history()): changes of slices and allocations, and allocations
//!   of random claims.
//! - `naive`: a slow allocator, which tries everything and remembers nothing.
//! - `details`: what an allocation says besides its devices.
//! - `alike`: slices whose devices differ in one thing only.
//! - `steps`: the steps that searches may take.
//! - `random`, `world`, `toy`: random slices and claims, small clusters, and selectors.

mod alike;
pub(crate) mod details;
mod history;
pub(crate) mod naive;
pub(crate) mod random;
mod steps;
pub(crate) mod toy;
pub(crate) mod world;

pub use self::history::history;
