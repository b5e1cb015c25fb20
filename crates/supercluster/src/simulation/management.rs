//! The API server of the management cluster: original pods with intents and placements.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{Pod, Uid};
use serde_json::{Value, json};

use crate::message::PodObject;
use crate::mirror::FINALIZER;
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
    /// The status of the delegate.
    Status {
        uid: Uid,
        status: Value,
        is_unreachable: bool,
    },
    /// Deletes the pod. Its finalizer keeps it.
    Delete {
        uid: Uid,
    },
    /// Removes the finalizer.
    Release {
        uid: Uid,
        resource_version: u64,
    },
}

impl ManagementOperation {
    /// Returns the UID of the pod.
    pub(super) const fn uid(&self) -> &Uid {
        match self {
            Self::Intent { uid, .. }
            | Self::Placement { uid, .. }
            | Self::Condition { uid, .. }
            | Self::Status { uid, .. }
            | Self::Delete { uid }
            | Self::Release { uid, .. } => uid,
        }
    }
}

/// An original pod.
#[derive(Debug, Clone)]
pub(super) struct ManagementPod {
    pub(super) pod: Arc<Pod>,
    pub(super) intent: Option<Intent>,
    pub(super) placement: Option<Placement>,
    pub(super) condition: Option<String>,
    /// Whether the finalizer keeps it when it is deleted.
    has_finalizer: bool,
    status: Value,
    /// Whether the status says that the agent does not answer.
    is_unreachable: bool,
    /// The scheduler whose pod it is; `None` if all schedulers see it.
    pub(super) owner: Option<usize>,
}

impl ManagementPod {
    /// Returns what is wrong with its status at rest.
    pub(super) fn wrong_status(&self) -> Option<String> {
        let name = &self.pod.key;
        let expected = self.placement.as_ref().map(|placement| &*placement.committed.uid);
        let shown = self.status.get("podIP").and_then(Value::as_str);
        if shown != expected {
            return Some(format!("{name} shows {shown:?}, and runs as {expected:?}"));
        }
        self.is_unreachable.then(|| format!("{name} is not ready"))
    }
}

/// The original pods.
#[derive(Debug)]
pub(super) struct ManagementApi {
    pub(super) pods: BTreeMap<Uid, ManagementPod>,
    leases: BTreeMap<Arc<str>, LeaseRecord>,
    version: u64,
    /// Whether objects have finalizers and a status, which mirrors read.
    has_mirrors: bool,
    object: Arc<Value>,
}

impl ManagementApi {
    pub(super) fn new(has_mirrors: bool) -> Self {
        let (pods, leases) = (BTreeMap::new(), BTreeMap::new());
        Self { pods, leases, version: 0, has_mirrors, object: Arc::new(Value::Null) }
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
            has_finalizer: false,
            status: json!({"phase": "Pending"}),
            is_unreachable: false,
            owner,
        };
        self.pods.insert(uid.clone(), created);
        uid
    }

    /// Returns the pod as schedulers see it.
    pub(super) fn original(&self, uid: &Uid) -> Option<OriginalPod> {
        let known = self.pods.get(uid)?;
        let object = match self.has_mirrors {
            true => {
                let finalizers: &[&str] = if known.has_finalizer { &[FINALIZER] } else { &[] };
                let metadata = json!({"finalizers": finalizers});
                Arc::new(json!({"metadata": metadata, "status": known.status}))
            }
            false => self.object.clone(),
        };
        let object = PodObject { pod: known.pod.clone(), object };
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
        let uid = operation.uid();
        let Some(known) = self.pods.get_mut(uid) else { return (WriteAnswer::Gone, false) };
        match operation {
            ManagementOperation::Intent { resource_version, .. }
                if known.pod.resource_version != *resource_version =>
            {
                return (WriteAnswer::Conflict, false);
            }
            // A pod that is deleted gets no finalizer.
            ManagementOperation::Intent { .. } if known.pod.terminating && !known.has_finalizer => {
                return (WriteAnswer::Failed("no new finalizers can be added".to_owned()), false);
            }
            ManagementOperation::Intent { intent, .. } => {
                (known.intent, known.placement) = (Some(intent.clone()), None);
                known.has_finalizer = true;
            }
            ManagementOperation::Placement { placement, .. } => {
                known.placement = Some(placement.clone());
            }
            ManagementOperation::Condition { message, .. } => {
                known.condition = Some(message.clone());
            }
            ManagementOperation::Status { status, is_unreachable, .. } => {
                merge(&mut known.status, status);
                known.is_unreachable = *is_unreachable;
            }
            ManagementOperation::Delete { .. } if known.pod.terminating => {
                return (WriteAnswer::Done(known.pod.resource_version), false);
            }
            ManagementOperation::Delete { .. } if known.has_finalizer => {
                Arc::make_mut(&mut known.pod).terminating = true;
            }
            ManagementOperation::Release { resource_version, .. }
                if known.pod.resource_version != *resource_version =>
            {
                return (WriteAnswer::Conflict, false);
            }
            ManagementOperation::Release { .. } if !known.pod.terminating => {
                known.has_finalizer = false;
            }
            ManagementOperation::Delete { .. } | ManagementOperation::Release { .. } => {
                self.pods.remove(uid);
                return (WriteAnswer::Gone, true);
            }
        }
        self.version += 1;
        Arc::make_mut(&mut known.pod).resource_version = self.version;
        (WriteAnswer::Done(self.version), true)
    }
}

/// Applies a merge patch to a status.
fn merge(status: &mut Value, patch: &Value) {
    let (Some(fields), Some(patch)) = (status.as_object_mut(), patch.as_object()) else { return };
    for (key, value) in patch {
        match value {
            Value::Null => fields.remove(key),
            value => fields.insert(key.clone(), value.clone()),
        };
    }
}
