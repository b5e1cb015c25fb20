//! The scheduler under faults: engine, protocol machines and the store of the sandbox under a
//! virtual clock, with faults from a seed.
//!
//! - [`world`]: time, and the order of events.
//! - `replica`: one run of the scheduler, from start to crash.
//! - `patience`: a plugin that waits and writes.
//! - `server`: the store with its kubelets and controllers.
//! - `api_servers`: the servers in front of the store, whose caches may lag.
//! - `network`: faults of requests, replies and watch streams.
//! - `trouble`, `extender`: faults that last and stay in one place.
//! - `churn`: actions of users, nodes and other schedulers.
//! - `clocks`: wall clocks that are wrong and corrected.
//! - `coverage`: how often faults and states were met.
//! - `foreign`: an invariant of nodes on which other schedulers place pods, too.
//! - `rules`: invariants of every step and of the world at rest.
//! - `progress`: pods are bound, whatever else is broken, or say why they wait.
//! - `view`, `decisions`, `preemptions`, `wake_ups`, `writes`: invariants of the changes that the
//!   scheduler receives, its decisions, its victims, the pods that it requeues, and its requests.
//! - `queueing`, `limits`, `calls`, `zones`, `explanations`, `leases`, `farewells`: invariants of turns and
//!   backoffs, of the number and rate of requests, of the calls of reflectors, of the order of nodes, of what
//!   users read, of the Lease, and of processes that are asked to end.
//! - `volumes`, `devices`: invariants of volumes and devices, and of their claims.
//! - `oracle`: where pods fit, computed naively.

mod api_servers;
mod calls;
mod churn;
mod clocks;
mod coverage;
mod decisions;
mod devices;
mod explanations;
mod extender;
mod farewells;
mod foreign;
mod leases;
mod limits;
mod network;
mod oracle;
mod patience;
mod preemptions;
mod progress;
mod queueing;
mod replica;
mod rules;
mod server;
mod trouble;
mod view;
mod volumes;
mod wake_ups;
mod world;
mod writes;
mod zones;

pub(crate) use rules::Violation;
pub(crate) use world::{Summary, World};

/// One in this many seeds lives through hours of lasting faults, and less of everything else.
const LASTING: u64 = 4;
/// One in this many seeds has devices.
const DEVICES: u64 = 3;

/// Runs one seed: `steps` of churn and faults, then rest, then the final checks.
///
/// # Errors
/// A rule was violated, or a thread panicked; the panic has been printed.
pub(crate) fn run(seed: u64, steps: u32, trace: bool) -> Result<Summary, Violation> {
    let life = || {
        let mut world = World::new(seed, trace);
        if seed.is_multiple_of(LASTING) {
            world.live_through(steps / 4)?;
            world.endure()?;
        } else {
            world.live_through(steps)?;
        }
        world.calm_down()
    };
    std::panic::catch_unwind(life).unwrap_or_else(|_| Err(Violation::of_panic(seed)))
}
