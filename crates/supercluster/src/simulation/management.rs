//! The API server of the management cluster: original pods with intents and placements.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{Pod, Uid};
use serde_json::Value;

use crate::message::PodObject;
use crate::scheduler::{
    Intent, LeaseAnswer, LeaseOperation, LeaseRecord, OriginalPod, Placement, WriteAnswer,
};

/// A write.
#[derive(Debug, Clone)]
pub(super) enum ManagementOperation {
    Intent {
        uid: Uid,
        resource_version: u64,
        intent: Intent,
    },
    Placement {
        uid: Uid,
        placement: Placement,
    },
    /// The condition `PodScheduled`, with its message.
    Condition {
        uid: Uid,
        message: String,
    },
}

/// An original pod.
#[derive(Debug, Clone)]
pub(super) struct ManagementPod {
    pub(super) pod: Arc<Pod>,
    pub(super) intent: Option<Intent>,
    pub(super) placement: Option<Placement>,
    pub(super) condition: Option<String>,
    /// Whether it is deleted, and kept by its finalizer.
    pub(super) terminating: bool,
    /// The latest attempt that each cluster has sealed, since when it has no delegate.
    pub(super) released: BTreeMap<usize, u32>,
    /// The scheduler whose pod it is; `None` if all schedulers see it.
    pub(super) owner: Option<usize>,
}

/// The original pods.
#[derive(Debug)]
pub(super) struct ManagementApi {
    pub(super) pods: BTreeMap<Uid, ManagementPod>,
    leases: BTreeMap<Arc<str>, LeaseRecord>,
    version: u64,
    object: Arc<Value>,
}

impl ManagementApi {
    pub(super) fn new() -> Self {
        let (pods, leases) = (BTreeMap::new(), BTreeMap::new());
        Self { pods, leases, version: 0, object: Arc::new(Value::Null) }
    }

    pub(super) fn create(&mut self, pod: Pod, owner: Option<usize>) -> Uid {
        self.version += 1;
        let pod = Arc::new(Pod { resource_version: self.version, ..pod });
        let uid = pod.uid.clone();
        let created = ManagementPod {
            pod,
            intent: None,
            placement: None,
            condition: None,
            terminating: false,
            released: BTreeMap::new(),
            owner,
        };
        self.pods.insert(uid.clone(), created);
        uid
    }

    /// Whether an original is deleted, and kept by its finalizer.
    pub(super) fn is_terminating(&self, uid: &str) -> bool {
        self.pods.get(&Uid::from(uid)).is_some_and(|pod| pod.terminating)
    }

    /// Marks an original as deleted.
    pub(super) fn terminate(&mut self, uid: &Uid) {
        self.version += 1;
        if let Some(known) = self.pods.get_mut(uid) {
            known.terminating = true;
            Arc::make_mut(&mut known.pod).resource_version = self.version;
        }
    }

    /// Returns the pod as schedulers see it.
    pub(super) fn original(&self, uid: &Uid) -> Option<OriginalPod> {
        let known = self.pods.get(uid)?;
        let object = PodObject { pod: known.pod.clone(), object: self.object.clone() };
        let (intent, placement) = (known.intent.clone(), known.placement.clone());
        let version = known.pod.resource_version;
        Some(OriginalPod { object, intent, placement, version })
    }

    /// Reads or writes a Lease.
    pub(super) fn lease(&mut self, cluster: &Arc<str>, operation: &LeaseOperation) -> LeaseAnswer {
        self.version += 1;
        let created = LeaseRecord {
            uid: format!("lease-{cluster}").into(),
            resource_version: self.version,
            renewals: 0,
            fences: 0,
        };
        let record = self.leases.entry(cluster.clone()).or_insert(created);
        if let LeaseOperation::Renew(written) | LeaseOperation::Fence(written) = operation {
            if written.resource_version != record.resource_version {
                return LeaseAnswer::Conflict;
            }
            *record = LeaseRecord { resource_version: self.version, ..written.clone() };
        }
        LeaseAnswer::Record(record.clone())
    }

    /// Carries out a write.
    pub(super) fn carry_out(&mut self, operation: &ManagementOperation) -> (WriteAnswer, bool) {
        let (ManagementOperation::Intent { uid, .. }
        | ManagementOperation::Placement { uid, .. }
        | ManagementOperation::Condition { uid, .. }) = operation;
        let Some(known) = self.pods.get_mut(uid) else { return (WriteAnswer::Gone, false) };
        match operation {
            ManagementOperation::Intent { resource_version, .. }
                if known.pod.resource_version != *resource_version =>
            {
                return (WriteAnswer::Conflict, false);
            }
            ManagementOperation::Intent { intent, .. } => {
                (known.intent, known.placement) = (Some(intent.clone()), None);
            }
            ManagementOperation::Placement { placement, .. } => {
                known.placement = Some(placement.clone());
            }
            ManagementOperation::Condition { message, .. } => {
                known.condition = Some(message.clone());
            }
        }
        self.version += 1;
        Arc::make_mut(&mut known.pod).resource_version = self.version;
        (WriteAnswer::Done(self.version), true)
    }
}
