//! The scheduler under faults: engine, protocol machines and the store of the sandbox under a
//! virtual clock, with faults from a seed.
//!
//! - [`world`]: time, and the order of events.
//! - `replica`: one run of the scheduler, from start to crash.
//! - `patience`: a plugin that waits and writes.
//! - `server`: the API server with its kubelets and controllers.
//! - `network`: faults of requests, replies and watch streams.
//! - `churn`: actions of users, nodes and other schedulers.
//! - `rules`: invariants of every step and of the world at rest.
//! - `view`, `decisions`, `preemptions`, `wake_ups`, `writes`: invariants of the changes that the
//!   scheduler receives, its decisions, its victims, the pods that it requeues, and its requests.
//! - `volumes`: invariants of volumes and claims.
//! - `oracle`: where pods fit, computed naively.

mod churn;
mod decisions;
mod network;
mod oracle;
mod patience;
mod preemptions;
mod replica;
mod rules;
mod server;
mod view;
mod volumes;
mod wake_ups;
mod world;
mod writes;

pub(crate) use rules::Violation;
pub(crate) use world::{Summary, World};

/// Runs one seed: `steps` of churn and faults, then rest, then the final checks.
///
/// # Errors
/// A rule was violated, or a thread panicked; the panic has been printed.
pub(crate) fn run(seed: u64, steps: u32, trace: bool) -> Result<Summary, Violation> {
    let life = || {
        let mut world = World::new(seed, trace);
        world.live_through(steps)?;
        world.calm_down()
    };
    std::panic::catch_unwind(life).unwrap_or_else(|_| Err(Violation::of_panic(seed)))
}
