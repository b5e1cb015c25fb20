/// The reason the devices of a node could not be searched to the end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// The search took more steps than its budget. It stands for the time limit of Filter.
    #[error("the search for devices took too many steps")]
    OutOfSteps,
    /// The node cannot be used; other nodes may fit.
    #[error("{0}")]
    Node(Box<str>),
    /// The attempt of the pod ends, for all nodes. The text is that of kube-scheduler.
    #[error("{0}")]
    Fatal(Box<str>),
}

impl AllocateError {
    pub(crate) fn fatal(text: impl Into<Box<str>>) -> Self {
        Self::Fatal(text.into())
    }
}

/// Maximum number of steps of the search for devices on one node. A step is one device considered
/// for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget(pub u64);

impl Budget {
    /// Steps that stand for one second of the time limit of kube-scheduler.
    pub const STEPS_PER_SECOND: u64 = 20_000;
    /// The budget if there is no time limit, so that a search ends in any case.
    pub const UNLIMITED: Self = Self(50_000_000);

    /// Returns the budget for a time limit in milliseconds; 0 means none.
    pub const fn of_millis(millis: u64) -> Self {
        match millis {
            0 => Self::UNLIMITED,
            millis => Self(millis.saturating_mul(Self::STEPS_PER_SECOND).div_ceil(1000)),
        }
    }
}
