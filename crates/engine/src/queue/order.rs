//! The orders in which pods are popped.

use std::cmp::Ordering;

use framework::{Handle, QueueSort, QueuedPod};

use super::context::Context;
use super::heap::Order;
use crate::plugin_call::catch_panic;
use crate::ports::Probe;
use crate::profile::Named;

/// The order of the active queue: the QueueSort plugin of the profiles.
pub(super) struct SortPlugin<'a> {
    sort: &'a Named<dyn QueueSort>,
    handle: Handle<'a>,
    probe: &'a mut dyn Probe,
}

impl<'a> SortPlugin<'a> {
    /// Returns the order of the profiles of `cx`.
    pub(super) fn of(cx: &'a mut Context<'_>) -> Self {
        Self { sort: cx.profiles.queue_sort(), handle: cx.handle, probe: &mut *cx.probe }
    }
}

impl Order for SortPlugin<'_> {
    /// A comparison that panics is made by priority and time instead, so that the queue moves on.
    fn before(&mut self, a: &QueuedPod, b: &QueuedPod) -> bool {
        let answer =
            catch_panic(&self.sort.name, self.probe, || self.sort.plugin.less(a, b, &self.handle));
        answer.unwrap_or_else(|_| (b.pod.priority(), a.timestamp) < (a.pod.priority(), b.timestamp))
    }
}

/// The order of rejected pods in backoff: its end, then the order of the active queue.
pub(super) struct ExpirationThenSort<'o, 'a>(pub(super) &'o mut SortPlugin<'a>);

impl Order for ExpirationThenSort<'_, '_> {
    fn before(&mut self, a: &QueuedPod, b: &QueuedPod) -> bool {
        match a.backoff_expiration.cmp(&b.backoff_expiration) {
            Ordering::Less => true,
            Ordering::Equal => self.0.before(a, b),
            Ordering::Greater => false,
        }
    }
}

/// The order of pods that failed with an error: the end of their backoff.
pub(super) struct Expiration;

impl Order for Expiration {
    fn before(&mut self, a: &QueuedPod, b: &QueuedPod) -> bool {
        a.backoff_expiration < b.backoff_expiration
    }
}
