//! Quotas in the world: pods that a change of a quota lets take more.

use framework::quota::{Reading, Sums};
use framework::{ElasticQuota, Object, ObjectUpdate, Pod, PodKey, QuotaKey, QuotaSpec, quota_key};

use super::World;
use crate::context::Context;

impl World {
    /// Returns the ElasticQuotas whose usage has changed since the last call, and orders the queue
    /// by it.
    pub(crate) fn take_changed_quotas(&mut self, cx: &mut Context<'_>) -> Vec<QuotaKey> {
        let changed = self.cluster.take_changed_quotas();
        let (queue, mut plugins) = self.queue_and_plugins(cx);
        queue.usage_changed(&changed, &mut plugins);
        let books = self.cluster.quotas();
        changed.into_iter().map(|ix| books.view(ix).key().clone()).collect()
    }

    /// Returns the pending pods that may take back more than before a change of an ElasticQuota:
    /// pods within the guarantee of their quota, which has grown, or that of another quota has
    /// shrunk. Plugins that rejected such a pod for want of room do not know quotas.
    pub(super) fn pods_that_gain(&self, update: &ObjectUpdate) -> Vec<PodKey> {
        let Some(object) = update.new.as_ref().or(update.old.as_ref()) else { return Vec::new() };
        let quota = |object: &Option<Object>| {
            object.as_ref().and_then(|object| object.get::<ElasticQuota>()).cloned()
        };
        let (old, new) = (quota(&update.old), quota(&update.new));
        let spec = |quota: &Option<ElasticQuota>| quota.as_ref().map(|own| own.spec.clone());
        if spec(&old) == spec(&new) || !self.cluster.quotas().counts() {
            return Vec::new();
        }
        let (before, after) = (spec(&old), spec(&new));
        let min = |spec: &Option<QuotaSpec>, name: &str| {
            let min = spec.as_ref().and_then(|spec| spec.min.as_ref());
            min.and_then(|min| min.get(name)).copied().unwrap_or_default()
        };
        let named = [&before, &after].into_iter().flatten().filter_map(|spec| spec.min.as_ref());
        let names: Vec<_> = named.flat_map(|min| min.keys().cloned()).collect();
        let grows = names.iter().any(|name| min(&after, name) > min(&before, name));
        let shrinks = names.iter().any(|name| min(&after, name) < min(&before, name));
        let key = quota_key(object.key());
        let books = self.cluster.quotas();
        let gains = |pod: &Pod| {
            let Some(quota) = books.quota_of(pod) else { return false };
            let is_own = quota.path().any(|above| *above.key() == key);
            let asked = books.request_of(pod);
            (if is_own { grows } else { shrinks })
                && !books.is_over_min(quota.ix(), &Sums::default(), &asked, Reading::Mentioned)
        };
        let pods = self.pending.iter().filter(|(_, pod)| gains(pod));
        pods.map(|(key, _)| key.clone()).collect()
    }
}
