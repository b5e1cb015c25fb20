//! The scheduler under faults: engine, protocol machines and the store of the sandbox under a
//! virtual clock, with faults from a seed.
//!
//! - [`world`]: time, and the order of events.
//! - `replica`: one run of the scheduler, from start to crash.
//! - `patience`: a plugin that waits and writes.
//! - `server`: the store with its kubelets and controllers.
//! - `api_servers`: the servers in front of the store, whose caches may lag.
//! - `network`: faults of requests, replies and watch streams.
//! - `emphasis`: what a seed does often, and what it leaves out.
//! - `trouble`, `extender`: faults that last and stay in one place.
//! - `churn`: actions of users, nodes and other schedulers.
//! - `sources`: what plugins of scheduler-plugins read, which comes late, lies and goes.
//! - `driver`: a driver of devices that reports late, or that devices are broken.
//! - `clocks`: wall clocks that are wrong and corrected.
//! - `coverage`: how often faults and states were met.
//! - `foreign`: an invariant of nodes on which other schedulers place pods, too.
//! - `rules`: invariants of every step and of the world at rest.
//! - `progress`: pods are bound, whatever else is broken, or say why they wait.
//! - `view`, `decisions`, `preemptions`, `wake_ups`, `writes`: invariants of the changes that the
//!   scheduler receives, its decisions, its victims, the pods that it requeues, and its requests.
//! - `queueing`, `limits`, `retries`, `calls`, `zones`, `explanations`, `leases`, `farewells`:
//!   invariants of turns and backoffs, of the number and rate of requests, of repeated requests, of
//!   the calls of reflectors, of the order of nodes, of what users read, of the Lease, and of
//!   processes that are asked to end.
//! - `quiet`: invariants of moments in which nothing is under way.
//! - `evictions`, `times`: invariants of repeated preemptions, and of the times that are written.
//! - `counts`: invariants of what the scheduler counts and keeps.
//! - `volumes`, `devices`: invariants of volumes and devices, and of their claims.
//! - `recording`: the recording of each process, which is replayed at the end.
//! - [`groups`]: invariants of PodGroups.
//! - `oracle`: where pods fit, computed naively.
//! - `parts`: state machines alone, against naive models.

mod api_servers;
mod calls;
mod churn;
mod clocks;
mod counts;
mod coverage;
mod decisions;
mod devices;
mod driver;
mod emphasis;
mod evictions;
mod explanations;
mod extender;
mod farewells;
mod foreign;
mod groups;
mod leases;
mod limits;
mod network;
mod oracle;
mod parts;
mod patience;
mod preemptions;
mod progress;
mod queueing;
mod quiet;
mod recording;
mod replica;
mod retries;
mod rules;
mod server;
mod sources;
mod times;
mod trouble;
mod view;
mod volumes;
mod wake_ups;
mod world;
mod writes;
mod zones;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use rules::Violation;
pub(crate) use world::{Summary, World};

/// One in this many seeds lives through hours of lasting faults, and less of everything else.
const LASTING: u64 = 4;
/// One in this many of the others does everything, at low rates; all others have an emphasis.
const GENERAL: u64 = 8;
/// One in this many seeds without an emphasis has devices.
const DEVICES: u64 = 3;
/// One in this many seeds has PodGroups.
const GROUPS: u64 = 4;
/// One in this many seeds has sources of plugins, unless it has devices or PodGroups.
const SOURCES: u64 = 5;
/// One in this many seeds does not score nodes by their storage capacity, as by default.
const WITHOUT_STORAGE_SCORES: u64 = 2;

/// In one of this many seeds a process fences every pending pod before its first decision
/// (`--strict-takeover`).
const STRICT: u64 = 3;

/// Runs one seed: the histories of all parts, then, for the whole world, `steps` of churn and
/// faults, then rest, then the final checks. Without `steps` there is no world. Returns what was
/// covered until the end, and the first violation of a rule, which may be a panic that has been
/// printed.
pub(crate) fn run(seed: u64, steps: u32, trace: bool) -> (Summary, Option<Violation>) {
    let mut world = World::new(seed, trace);
    let life = || {
        parts::run(seed)?;
        if steps == 0 {
            return Ok(());
        }
        if seed.is_multiple_of(LASTING) {
            world.live_through(steps / 4)?;
            world.endure()?;
        } else {
            world.live_through(steps)?;
        }
        world.calm_down()?;
        world.replay_recordings()
    };
    let lived = catch_unwind(AssertUnwindSafe(life));
    let lived = lived.unwrap_or_else(|_| Err(world.violation("something panicked")));
    (world.into_summary(), lived.err())
}
