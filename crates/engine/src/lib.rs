//! The deterministic scheduler of Loadmaster.
//!
//! [`Engine`] is one value with one owner. [`Input`]s go in, [`Effect`]s come out, time is an
//! argument, randomness comes from a seed: the same engine runs in the daemon, in simulations, in
//! benchmarks and against the golden corpus.
//!
//! - [`queue`]: pods on their way: active, backing off, unschedulable, in flight.
//! - [`world`]: nodes, pods that run or are assumed to run on them, queue, nominations, pending and
//!   waiting pods behind one door, and the change log.
//! - [`cycle`]: the steps of a decision: PreFilter, Filter, PreScore, Score, PostFilter; Reserve
//!   and Permit after it.
//! - `ranking`: what earlier decisions know of the nodes, repaired instead of asked again.
//! - [`decide`]: decisions as values, which change nothing; samples, explanations and trials.
//! - `binding`: the binding cycles: PreBind, Bind and what follows a lost answer.
//! - `attempts`: carries decisions out, and acts on the ends of binding cycles.
//! - `preemption`: the evictions that make room for a pod.
//! - `moves`: pods that are moved one by one, so that a pod fits that waits.
//! - `engine`: mediates between them.
//! - [`record`]: what each attempt found, kept in bounded memory.
//! - [`profile`]: the plugins that run for the pods of a scheduler name.
//! - [`ports`]: extenders and measurements.
//! - [`counters`]: counters that only metrics read.
//! - [`timers`]: the timers of plugins.
//!
//! Modules import downward, in this order: engine, moves, preemption, attempts, binding, failure,
//! decide, ranking, cycle, world, queue, profile, and the small modules that all of them use. There
//! is one exception: `moves` tries its plans with `engine::supposition`. No two files import each
//! other.

mod attempt;
mod attempts;
mod binding;
mod change;
pub mod classify;
mod config;
mod context;
pub mod counters;
pub mod cycle;
pub mod decide;
mod effect;
mod engine;
mod extender;
mod extender_calls;
mod failure;
mod go_duration;
mod group_notices;
mod holds;
mod input;
mod moves;
mod nominator;
mod object_event;
mod placements;
mod plugin_call;
mod plugin_events;
mod plugin_writes;
mod pod_group;
pub mod ports;
mod preemption;
pub mod profile;
pub mod queue;
mod quota_statuses;
mod ranking;
pub mod record;
mod reserving;
mod silent_plugins;
pub mod timers;
pub mod world;

pub use attempt::{Attempt, Outcome};
pub use binding::BindingPhases;
pub use change::Change;
pub use config::EngineConfig;
pub use context::Context;
pub use cycle::TieBreak;
pub use decide::{Evaluation, PostFilterEvaluation, Trial};
pub use effect::{
    Effect, EffectId, EffectKind, Event, EventSubject, Eviction, MovesWanted, ObjectRef,
    PlannedMove, PlannedMoves,
};
pub use engine::Engine;
pub use engine::supposition::{PlacedGroup, Supposition, successor_of};
pub use framework::EventType;
pub use input::{Input, Output};
pub use nominator::Nominator;
pub use object_event::{ObjectEvent, Objects};
pub use placements::Settled;
pub use plugin_call::catch_panic;
pub use pod_group::{GroupSearch, LevelProspects};
