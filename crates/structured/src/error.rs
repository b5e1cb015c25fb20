use framework::Cluster;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Budget(pub u64);

impl Budget {
    /// Steps that stand for one second of the time limit of kube-scheduler.
    pub const STEPS_PER_SECOND: u64 = 20_000;
    /// The budget if there is no time limit, so that a search ends in any case.
    pub const UNLIMITED: Self = Self(50_000_000);

    /// Steps of an attempt for each node of the cluster, besides those that single nodes may need.
    const STEPS_PER_NODE: u64 = 1_000;
    /// The number of nodes that may take their whole budget in one attempt.
    const LONG_SEARCHES: u64 = 5;

    /// Returns whether an attempt may go on that has taken these steps on all nodes together. kube-scheduler has no
    /// such limit: claims that take long on every node hold up all other pods.
    pub(crate) fn covers(self, steps: u64, cluster: &Cluster) -> bool {
        let of_nodes = Self::STEPS_PER_NODE.saturating_mul(cluster.table_len() as u64);
        steps <= self.0.saturating_mul(Self::LONG_SEARCHES).saturating_add(of_nodes)
    }

    /// Returns the budget of a node once the others have taken too many steps.
    pub(crate) fn short(self) -> Self {
        self.min(Self(Self::STEPS_PER_NODE))
    }

    /// Returns the budget for a time limit in milliseconds; 0 means none.
    pub const fn of_millis(millis: u64) -> Self {
        match millis {
            0 => Self::UNLIMITED,
            millis => Self(millis.saturating_mul(Self::STEPS_PER_SECOND).div_ceil(1000)),
        }
    }
}
