//! Which events help a pod that its quota has rejected.

use framework::quota::{QuotaView, Refusal, Sums};
use framework::{ElasticQuota, EventForPod, HintResult, Pod, QueueingHint, quota_key};

use super::CapacityScheduling;

impl CapacityScheduling {
    /// Requeues a pod that fits into its quota once another pod is gone, or uses less.
    pub(super) fn after_pod(&self, event: EventForPod<'_>) -> HintResult {
        let (old, _) = event.objects.pods()?;
        let books = event.handle.cluster.quotas();
        let is_own = old.is_some_and(|old| old.uid == event.pod.uid);
        let is_counted = old.is_some_and(|old| books.quota_of(old).is_some());
        let helps = is_own || (is_counted && self.fits(&event));
        Ok(QueueingHint::queue_if(helps))
    }

    /// Requeues a pod that may take back what others have borrowed, since a node may have pods of
    /// others now where it fits.
    pub(super) fn after_node(&self, event: EventForPod<'_>) -> HintResult {
        Ok(QueueingHint::queue_if(self.may_reclaim(&event)))
    }

    /// Requeues a pod that fits into its quota now, or that may take back more than before.
    pub(super) fn after_quota(&self, event: EventForPod<'_>) -> HintResult {
        let (old, new) = event.objects.typed::<ElasticQuota>()?;
        if old.map(|own| &own.spec) == new.map(|own| &own.spec) {
            return Ok(QueueingHint::Skip);
        }
        Ok(QueueingHint::queue_if(self.fits(&event) || self.gains(&event, old, new)))
    }

    fn fits(&self, event: &EventForPod<'_>) -> bool {
        self.admit(event.pod, event.handle).is_ok()
    }

    /// Whether the quota of the pod stays within its guarantee, so that it takes back what others
    /// have borrowed.
    fn may_reclaim(&self, event: &EventForPod<'_>) -> bool {
        let books = event.handle.cluster.quotas();
        let Some(quota) = books.quota_of(event.pod) else { return false };
        let asked = books.request_of(event.pod);
        !matches!(self.admit(event.pod, event.handle), Err(Refusal::Max { .. }))
            && !books.is_over_min(quota.ix(), &Sums::default(), &asked, self.reading)
    }

    /// Whether the pod may take back more: its quota or one above it guarantees more, or another
    /// quota less.
    fn gains(
        &self,
        event: &EventForPod<'_>,
        old: Option<&ElasticQuota>,
        new: Option<&ElasticQuota>,
    ) -> bool {
        if !self.may_reclaim(event) {
            return false;
        }
        let Ok((old_object, new_object)) = event.objects.others() else { return false };
        let key = new_object.or(old_object).map(|object| quota_key(object.key()));
        let is_above = |view: QuotaView<'_>| key.as_ref().is_some_and(|key| view.key() == key);
        let is_own = own_path(event.pod, event).any(is_above);
        let guarantees = |quota: Option<&ElasticQuota>, name: &str| {
            let min = quota.and_then(|quota| quota.spec.min.as_ref());
            min.and_then(|min| min.get(name)).copied().unwrap_or_default()
        };
        let all = [old, new].into_iter().flatten().filter_map(|quota| quota.spec.min.as_ref());
        let mut names = all.flat_map(|min| min.keys());
        let changed_place = old.map(|own| &own.spec.parent) != new.map(|own| &own.spec.parent);
        changed_place
            || names.any(|name| {
                let (before, after) = (guarantees(old, name), guarantees(new, name));
                if is_own { after > before } else { after < before }
            })
    }
}

fn own_path<'a>(pod: &Pod, event: &EventForPod<'a>) -> impl Iterator<Item = QuotaView<'a>> {
    let quota = event.handle.cluster.quotas().quota_of(pod);
    quota.into_iter().flat_map(|own| own.path())
}
