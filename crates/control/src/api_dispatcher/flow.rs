//! The part of the cluster that an API call depends on.

use std::sync::Arc;

/// Calls that succeed or fail together: the admission webhooks, quotas and permissions that concern
/// one call of a flow concern the others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Flow {
    /// Writes of one resource in one namespace; the namespace is empty for cluster-scoped objects.
    /// Patches of the status of pods are a part of their own, and plugins divide their writes
    /// further ([`Write::flow`](framework::Write)), such as volumes by their class.
    Objects { resource: Arc<str>, namespace: Arc<str>, part: Arc<str> },
    /// Calls of the extender with this index.
    Extender(usize),
}
