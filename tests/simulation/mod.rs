//! The scheduler in a world that goes wrong: engine, protocol machines and the store of the sandbox
//! under a virtual clock, with seeded faults.
//!
//! - [`world`]: time, and what happens in which order.
//! - `replica`: one life of the scheduler, from start to crash.
//! - `patience`: a plugin of it that waits and writes.
//! - `server`: the API server with its kubelets and controllers.
//! - `network`: what becomes of requests, replies and watch streams on their way.
//! - `churn`: what users, nodes and other schedulers do meanwhile.
//! - `rules`: what must hold at every step, and once everything is quiet.
//! - `view`, `decisions`, `preemptions`, `wake_ups`, `writes`: what must hold of what the scheduler
//!   is told, what it decides, whom it evicts, whom it wakes, and what it sends.
//! - `volumes`: what must hold of volumes and claims.
//! - `oracle`: where pods may go, said as plainly as possible.

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

/// Runs one seed: `steps` of churn and faults, then calm, then the final checks.
///
/// # Errors
/// A rule was broken, or something panicked; the panic has been printed.
pub(crate) fn run(seed: u64, steps: u32, trace: bool) -> Result<Summary, Violation> {
    let life = || {
        let mut world = World::new(seed, trace);
        world.live_through(steps)?;
        world.calm_down()
    };
    std::panic::catch_unwind(life).unwrap_or_else(|_| Err(Violation::of_panic(seed)))
}
