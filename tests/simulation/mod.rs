//! The scheduler in a world that goes wrong: engine, protocol machines and the store of the sandbox under
//! a virtual clock, with seeded faults.
//!
//! - [`world`]: time, and what happens in which order.
//! - `replica`: one life of the scheduler, from start to crash.
//! - `server`: the API server with its kubelets and controllers.
//! - `network`: what becomes of requests, replies and watch streams on their way.
//! - `churn`: what users, nodes and other schedulers do meanwhile.
//! - `rules`: what must hold at every step, and once everything is quiet.

mod churn;
mod network;
mod replica;
mod rules;
mod server;
mod world;

pub use rules::Violation;
pub use world::{Summary, World};

/// Runs one seed: `steps` of churn and faults, then calm, then the final checks.
///
/// # Errors
/// A rule was broken.
pub fn run(seed: u64, steps: u32, trace: bool) -> Result<Summary, Violation> {
    let mut world = World::new(seed, trace);
    world.live_through(steps)?;
    world.calm_down()
}
