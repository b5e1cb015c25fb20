//! State machines alone, against naive models.
//!
//! A history of a part is short and takes a fraction of a millisecond. Thousands of them bring
//! about situations that the whole world seldom does.
//!
//! - [`queue`]: the scheduling queue, against [`queue_model`].
//! - [`world`]: what the scheduler knows, with its queue, against [`world_model`].
//! - [`timers`]: the timers of plugins.
//! - [`election`]: electors that compete for a Lease, each with a witness.
//! - [`reflector`]: a reflector and an [`api_server`].
//! - [`dispatcher`]: the API dispatcher, against a list of its calls; [`events`]: the event
//!   recorder, against a count of what has occurred.
//! - [`scheduler`]: engine, API dispatcher, event recorder and takeover of the client, against a
//!   server that keeps pods in a map.
//! - [`takeover`]: a standby that takes over from a leader whose binds are under way, with caches
//!   that lag.
//! - [`binding`]: binding cycles of an engine with few pods, whose plugins and extenders do
//!   anything.
//! - [`preemption`]: an engine with few pods, whose requests fail, are late or are lost;
//!   [`fruitless`]: preemptions that lead to no binding.
//! - [`volumes`], [`devices`]: VolumeBinding and DynamicResources; the allocator of devices is
//!   compared in its own crate.
//! - [`extended`]: DynamicResources, with extended resources that devices provide.
//! - [`plugins`], [`pods`], [`updates`], [`server`], [`filters`]: what several parts have in
//!   common.

mod api_server;
mod binding;
mod devices;
mod dispatcher;
mod election;
mod events;
mod extended;
mod filters;
mod fruitless;
mod plugins;
mod pods;
mod preemption;
mod queue;
mod queue_model;
mod reflector;
mod scheduler;
mod server;
mod takeover;
mod timers;
mod updates;
mod volumes;
mod world;
mod world_model;

use fastrand::Rng;

use super::rules::{Checked, Violation};

/// A state machine that is compared with a naive model.
struct Part {
    name: &'static str,
    /// Number of histories of each seed.
    histories: u64,
    /// Lives through one history, and records its steps.
    run: fn(&mut Rng, &mut Vec<String>) -> Checked,
}

const PARTS: &[Part] = &[
    Part { name: "queue", histories: 100, run: queue::run },
    Part { name: "world", histories: 100, run: world::run },
    Part { name: "timers", histories: 20, run: timers::run },
    Part { name: "election", histories: 8, run: election::run },
    Part { name: "reflector", histories: 60, run: reflector::run },
    Part { name: "API dispatcher", histories: 100, run: dispatcher::live },
    Part { name: "event recorder", histories: 60, run: events::live },
    Part { name: "scheduler", histories: 75, run: scheduler::live },
    Part { name: "takeover", histories: 40, run: takeover::live },
    Part { name: "binding", histories: 100, run: binding::live },
    Part { name: "allocator", histories: 100, run: allocator },
    Part { name: "devices", histories: 40, run: devices::run },
    Part { name: "extended resources", histories: 60, run: extended::run },
    Part { name: "fruitless preemptions", histories: 200, run: fruitless::run },
    Part { name: "preemption", histories: 60, run: preemption::run },
    Part { name: "volumes", histories: 40, run: volumes::run },
];

fn allocator(random: &mut Rng, trace: &mut Vec<String>) -> Checked {
    structured::simulation::history(random, trace).map(|_| ())
}

/// Runs all histories of a seed.
///
/// # Errors
/// A part differs from its model.
pub(crate) fn run(seed: u64) -> Result<(), Violation> {
    for Part { name, histories, run } in PARTS {
        for history in 0..*histories {
            let mut random = Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(history));
            let mut trace = Vec::new();
            run(&mut random, &mut trace).map_err(|text| Violation {
                seed,
                text: format!("{name}, history {history}: {text}"),
                trace,
            })?;
        }
    }
    Ok(())
}
