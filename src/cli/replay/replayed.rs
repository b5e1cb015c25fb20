//! An engine at a moment of a recording.

use engine::Engine;
use framework::Time;
use recording::{Agreement, Difference, Operation, Rebuilder, Replayer};

/// An engine at a moment of a recording.
#[derive(Debug)]
pub(in crate::cli) enum Replayed {
    /// It made all decisions again.
    Decided(Box<Replayer>),
    /// It was rebuilt from a checkpoint, because the beginning is missing.
    Rebuilt(Box<Rebuilder>),
}

impl Replayed {
    pub(super) fn new(engine: Engine, has_beginning: bool) -> Self {
        match has_beginning {
            true => Self::Decided(Box::new(Replayer::new(engine))),
            false => Self::Rebuilt(Box::new(Rebuilder::new(engine))),
        }
    }

    /// Takes the next operation.
    ///
    /// # Errors
    /// The engine decides otherwise than recorded.
    pub(super) fn step(&mut self, operation: Operation) -> Result<(), Box<Difference>> {
        match self {
            Self::Decided(replayer) => replayer.step(operation)?,
            Self::Rebuilt(rebuilder) => rebuilder.step(operation),
        }
        Ok(())
    }

    /// Runs the last call.
    ///
    /// # Errors
    /// The engine decides otherwise than recorded.
    pub(super) fn finish(&mut self) -> Result<(), Box<Difference>> {
        match self {
            Self::Decided(replayer) => replayer.finish(),
            Self::Rebuilt(_) => Ok(()),
        }
    }

    /// Whether everything is known that the recorded engine knew.
    pub(super) const fn is_complete(&self) -> bool {
        match self {
            Self::Decided(_) => true,
            Self::Rebuilt(rebuilder) => rebuilder.is_complete(),
        }
    }

    /// Returns how the recorded decisions compare with the rebuilt state; `None` if they were made
    /// again.
    pub(super) const fn agreement(&self) -> Option<Agreement> {
        match self {
            Self::Decided(_) => None,
            Self::Rebuilt(rebuilder) => Some(rebuilder.agreement()),
        }
    }

    /// Returns the engine.
    pub(in crate::cli) const fn engine(&self) -> &Engine {
        match self {
            Self::Decided(replayer) => replayer.engine(),
            Self::Rebuilt(rebuilder) => rebuilder.engine(),
        }
    }

    /// Returns the time of the last call.
    pub(in crate::cli) const fn now(&self) -> Time {
        match self {
            Self::Decided(replayer) => replayer.now(),
            Self::Rebuilt(rebuilder) => rebuilder.now(),
        }
    }

    /// Returns the wall time of the last call.
    pub(in crate::cli) const fn wall_time(&self) -> Time {
        match self {
            Self::Decided(replayer) => replayer.wall_time(),
            Self::Rebuilt(rebuilder) => rebuilder.wall_time(),
        }
    }

    /// Returns the number of operations.
    pub(super) const fn operations(&self) -> u64 {
        match self {
            Self::Decided(replayer) => replayer.operations(),
            Self::Rebuilt(rebuilder) => rebuilder.operations(),
        }
    }

    /// Whether attempts were made again, so that there is a history of them.
    pub(in crate::cli) const fn has_history(&self) -> bool {
        matches!(self, Self::Decided(_))
    }
}
