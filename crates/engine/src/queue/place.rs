//! The parts of the queue.

/// The part of the queue that an entity is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Ready for an attempt.
    Active,
    /// Rejected and backing off; popped only when no entity is active.
    Backoff,
    /// Failed with an error, waiting for its backoff to end.
    ErrorBackoff,
    /// Rejected, waiting for an event.
    Unschedulable,
    /// Gated by a PreEnqueue plugin, waiting for its event.
    Gated,
}

impl Place {
    /// Returns the value of the `queue` label of metrics.
    pub(super) const fn queue(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Backoff | Self::ErrorBackoff => "backoff",
            Self::Unschedulable | Self::Gated => "unschedulable",
        }
    }
}
