//! How pods choose a quota.

use std::sync::Arc;

use api::Pod;

use crate::amounts::Amounts;
use crate::node::QuotaIx;

/// What a pod says about its quota: its namespace, and the name in its label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Choice {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Option<Arc<str>>,
}

impl Choice {
    pub(crate) fn of(pod: &Pod) -> Self {
        Self { namespace: pod.key.namespace.clone(), name: pod.quota_name().map(Into::into) }
    }
}

/// The pods that make the same choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// The quota that the choice leads to.
    pub(crate) quota: Option<QuotaIx>,
    /// Number of pods.
    pub(crate) pods: usize,
    pub(crate) usage: Usage,
}

/// Amounts that pods use and ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Amounts of pods with a node.
    pub(crate) used: Amounts,
    /// Amounts of all pods.
    pub(crate) demand: Amounts,
    /// Number of pods without a node.
    pub(crate) waiting: i64,
}

impl Usage {
    pub(crate) fn negated(&self) -> Self {
        let negated =
            |amounts: &Amounts| amounts.iter().map(|(own, amount)| (own, -amount)).collect();
        Self { used: negated(&self.used), demand: negated(&self.demand), waiting: -self.waiting }
    }
}
