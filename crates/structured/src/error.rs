use crate::steps::OutOfSteps;

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

impl From<OutOfSteps> for AllocateError {
    fn from(OutOfSteps: OutOfSteps) -> Self {
        Self::OutOfSteps
    }
}
