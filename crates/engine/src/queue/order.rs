//! The orders in which entities are popped.

use std::cmp::Ordering;

use framework::quota::{Books, QuotaIx};
use framework::{Handle, QueuedEntity, Time};

use super::heap::Order;
use super::plugins::Plugins;
use crate::plugin_call::catch_panic;
use crate::ports::Probe;
use crate::profile::Profiles;

/// The order of the active queue: the QueueSort plugin of the profiles.
pub(super) struct SortPlugin<'a> {
    profiles: &'a Profiles,
    handle: Handle<'a>,
    probe: &'a mut dyn Probe,
}

impl<'a> SortPlugin<'a> {
    /// Returns the order of the profiles of `plugins`.
    pub(super) fn of(plugins: &'a mut Plugins<'_>) -> Self {
        Self { profiles: plugins.profiles, handle: plugins.handle, probe: &mut *plugins.probe }
    }

    /// Returns the books by whose quotas entities are ordered, if a profile orders them so.
    pub(super) fn quotas(&self) -> Option<&'a Books> {
        self.profiles.orders_by_quota().then(|| self.handle.cluster.quotas())
    }

    /// Returns the quota by which an entity is ordered: that of the first pod of a group.
    pub(super) fn quota_of(&self, entity: &QueuedEntity) -> Option<QuotaIx> {
        let books = self.quotas()?;
        let profile = self.profiles.get(entity.scheduler_name())?;
        let [first, ..] = entity.pods() else { return None };
        let quota = profile.orders_by_quota().then(|| books.quota_of(&first.pod))?;
        quota.map(|quota| quota.ix())
    }
}

impl Order<QueuedEntity> for SortPlugin<'_> {
    /// Pods beyond the minimum of an elastic group come last among entities of their priority. A
    /// comparison that panics is made by priority and time instead, so that the queue moves on.
    fn before(&mut self, a: &QueuedEntity, b: &QueuedEntity) -> bool {
        if a.priority() == b.priority() && a.is_surplus() != b.is_surplus() {
            return b.is_surplus();
        }
        let sort = self.profiles.queue_sort();
        let answer = catch_panic(&sort.name, self.probe, || sort.plugin.less(a, b, &self.handle));
        answer.unwrap_or_else(|_| {
            let [a_time, b_time] = [a, b].map(|entity| entity.history().timestamp);
            (b.priority(), a_time) < (a.priority(), b_time)
        })
    }
}

/// The order of rejected entities in backoff: its end, then the order of the active queue.
pub(super) struct ExpirationThenSort<'o, 'a>(pub(super) &'o mut SortPlugin<'a>);

impl Order<QueuedEntity> for ExpirationThenSort<'_, '_> {
    fn before(&mut self, a: &QueuedEntity, b: &QueuedEntity) -> bool {
        match expiration(a).cmp(&expiration(b)) {
            Ordering::Less => true,
            Ordering::Equal => self.0.before(a, b),
            Ordering::Greater => false,
        }
    }
}

/// The order of entities that failed with an error: the end of their backoff.
pub(super) struct Expiration;

impl Order<QueuedEntity> for Expiration {
    fn before(&mut self, a: &QueuedEntity, b: &QueuedEntity) -> bool {
        expiration(a) < expiration(b)
    }
}

fn expiration(entity: &QueuedEntity) -> Option<Time> {
    entity.history().backoff_expiration
}
