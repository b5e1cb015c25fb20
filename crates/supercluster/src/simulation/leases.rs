//! A model of the Leases of members in the management cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::scheduler::{LeaseAnswer, LeaseOperation, LeaseRecord};

/// The Leases by cluster.
#[derive(Debug, Default)]
pub(super) struct Leases {
    records: BTreeMap<Arc<str>, LeaseRecord>,
    version: u64,
}

impl Leases {
    /// Reads or writes a Lease.
    pub(super) fn carry_out(
        &mut self,
        cluster: &Arc<str>,
        operation: &LeaseOperation,
    ) -> LeaseAnswer {
        self.version += 1;
        let created = LeaseRecord {
            uid: format!("lease-{cluster}").into(),
            resource_version: self.version,
            renewals: 0,
            fences: 0,
        };
        let record = self.records.entry(cluster.clone()).or_insert(created);
        if let LeaseOperation::Renew(written) | LeaseOperation::Fence(written) = operation {
            if written.resource_version != record.resource_version {
                return LeaseAnswer::Conflict;
            }
            *record = LeaseRecord { resource_version: self.version, ..written.clone() };
        }
        LeaseAnswer::Record(record.clone())
    }
}
