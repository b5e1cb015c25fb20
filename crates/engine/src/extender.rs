//! The extenders, as the engine reads their configuration.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::Pod;

/// A configured extender, as the engine reads it. Extenders are called in the order of the list,
/// the ignorable ones last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extender {
    /// Its address, for messages.
    pub name: Arc<str>,
    /// It filters nodes.
    pub filter: bool,
    /// It scores nodes.
    pub prioritize: bool,
    /// It processes preemptions.
    pub preempt: bool,
    /// It binds pods.
    pub bind: bool,
    /// Weight of its scores.
    pub weight: i64,
    /// Its errors do not fail attempts.
    pub ignorable: bool,
    /// It is called only for pods that request one of these resources; for all pods if empty.
    pub managed_resources: BTreeSet<String>,
}

impl Extender {
    /// Whether the extender is called for `pod`.
    pub fn is_interested(&self, pod: &Pod) -> bool {
        let requested = || pod.requests.fit.scalars.iter().map(|(name, _)| &**name);
        self.managed_resources.is_empty()
            || requested().any(|name| self.managed_resources.contains(name))
    }
}
