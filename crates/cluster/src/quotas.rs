//! ElasticQuotas, and the pods that count for them.

use std::collections::BTreeSet;

use super::Cluster;
use super::object::Indexed;
use super::object_state::ObjectState;
use ::quota::{Books, QuotaIx};
use api::{ObjectKey, Pod, QuotaKey};

/// Returns the key of an ElasticQuota by the key of its object.
pub fn quota_key(object: &ObjectKey) -> QuotaKey {
    QuotaKey { namespace: object.namespace.clone(), name: object.name.clone() }
}

/// ElasticQuotas.
impl Cluster {
    /// Counts the pods of quotas from now on.
    pub fn count_quotas(&mut self) {
        self.quotas.count();
    }

    /// Returns the quotas and their pods; empty if they are not counted.
    pub const fn quotas(&self) -> &Books {
        &self.quotas
    }

    /// Notes whether a pod waits for a node or for its bind to be seen.
    pub fn set_pending_claimant(&mut self, pod: &Pod, is_pending: bool) {
        self.quotas.set_pending(pod, is_pending);
    }

    /// Returns the quotas whose object or usage has changed since the last call.
    pub fn take_changed_quotas(&mut self) -> BTreeSet<QuotaIx> {
        self.quotas.take_changed()
    }

    pub(super) fn set_quota(&mut self, object: Indexed<'_>) {
        let ObjectState::ElasticQuota(quota) = object.state else { return };
        self.quotas.set_quota(&quota_key(object.key), object.present(quota));
    }

    /// Lets the quotas follow the devices of a ResourceClaim.
    pub(super) fn set_claim_of_quotas(&mut self, object: Indexed<'_>) {
        let ObjectState::ResourceClaim(claim) = object.state else { return };
        let spec = object.is_there.then_some(&*claim.spec);
        self.quotas.set_claim(&object.key.namespace, &object.key.name, spec);
    }
}
