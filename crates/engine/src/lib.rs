//! The deterministic scheduler of Loadmaster.
//!
//! [`Engine`] is one value with one owner. [`Change`]s go in, [`Effect`]s come out, time is an argument,
//! randomness comes from a seed: the same engine runs in the daemon, in simulations, in benchmarks and
//! against the golden corpus.
//!
//! - [`cache`]: nodes, and pods that run or are assumed to run on them.
//! - [`queue`]: pods on their way: active, backing off, unschedulable, in flight, nominated.
//! - [`cycle`]: one attempt to find a node: PreFilter, Filter, PreScore, Score.
//! - `binding`: what follows on a chosen node: Permit, PreBind, Bind, PostBind.
//! - `preemption`: evicting pods to make room for another.
//! - [`profile`]: which plugins run for the pods of a scheduler name.
//! - [`ports`]: the synchronous ways out: extenders and measurements.

mod attempt;
mod binding;
pub mod cache;
mod changes;
pub mod classify;
pub mod cycle;
mod effect;
mod engine;
mod explain;
mod failure;
mod guard;
mod occurrence;
pub mod ports;
mod preemption;
pub mod profile;
pub mod queue;

pub use attempt::{Attempt, Outcome};
pub use effect::{Effect, EffectId, EffectKind, Event, EventType, Eviction, ObjectRef};
pub use engine::{Change, Engine, EngineConfig, TieBreak};
pub use explain::{Evaluation, Rescue};
pub use occurrence::{Objects, Occurrence};
