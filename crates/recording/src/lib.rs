//! Recordings of what enters and leaves the engine, and their replay.
//!
//! The engine is deterministic: equal inputs in equal order with an equal seed give equal effects.
//! A recording holds these inputs, so an engine of the same configuration makes the same decisions
//! again.
//!
//! - [`Encoder::step`] is the hook: it lets an engine take a step, and writes down the input, the
//!   results of extenders and the outcome. [`Encoder::take_effects`] writes down the effects.
//! - [`Encoder`] and [`Decoder`] turn [`Operation`]s into bytes and back. Equal parts of pods and
//!   nodes are written once and then named by number. Secrets are not written, nor fields that the
//!   engine does not read.
//! - [`Compressor`] and [`FileReader`] put chunks of such bytes into files that can be read up to
//!   the point where they are cut off or damaged.
//! - [`Replayer`] feeds operations to a fresh engine and compares what comes out.
//! - [`Rebuilder`] brings an engine to a state after a checkpoint, and judges the recorded
//!   decisions there.
//!
//! Nothing here does I/O beyond the reader and the buffers that its caller passes in.

mod decoder;
mod encoder;
mod file;
mod hook;
mod operation;
mod rebuilder;
mod record;
mod replayer;
#[cfg(test)]
mod tests;
mod value;

pub use decoder::{DecodeError, Decoder};
pub use encoder::{Chunk, Encoder};
pub use file::{Compressor, Ending, FileReader, Header, OpenError, VERSION};
pub use operation::{Called, Decided, EffectSummary, Operation, Taken};
pub use rebuilder::{Agreement, Rebuilder};
pub use replayer::{Difference, Replayer};
