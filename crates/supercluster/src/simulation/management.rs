//! A model of the API server of the management cluster: original pods with intents and placements.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::EffectKind;
use framework::{Pod, Time, Uid};
use serde_json::{Value, json};

use super::servers::{
    ManagementEvent, ManagementOperation, ManagementOutcome, ManagementServer, ManagementWrite,
    Work,
};
use crate::message::PodObject;
use crate::mirror::FINALIZER;
use crate::scheduler::{Intent, OriginalPod, Placement, WriteAnswer};

/// An original pod.
#[derive(Debug, Clone)]
struct ManagementPod {
    pod: Arc<Pod>,
    intent: Option<Intent>,
    placement: Option<Placement>,
    /// Whether the finalizer keeps it when it is deleted.
    has_finalizer: bool,
    status: Value,
}

/// The original pods.
#[derive(Debug)]
pub(super) struct ManagementApi {
    pods: BTreeMap<Uid, ManagementPod>,
    /// The changes that the watch has not shown.
    events: Vec<ManagementEvent>,
    version: u64,
    /// Whether objects have finalizers and a status, which mirrors read.
    has_mirrors: bool,
    object: Arc<Value>,
}

impl ManagementApi {
    pub(super) fn new(has_mirrors: bool) -> Self {
        let (pods, events) = (BTreeMap::new(), Vec::new());
        Self { pods, events, version: 0, has_mirrors, object: Arc::new(Value::Null) }
    }

    /// Returns the pod as schedulers see it.
    fn original(&self, known: &ManagementPod) -> OriginalPod {
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
        OriginalPod { object, intent, placement, version }
    }

    fn show(&mut self, uid: &Uid) {
        let original = self.pods.get(uid).map(|known| self.original(known));
        self.events.extend(original.map(|own| ManagementEvent::Changed(Box::new(own))));
    }

    fn remove(&mut self, uid: &Uid) -> WriteAnswer {
        if let Some(gone) = self.pods.remove(uid) {
            self.events.push(ManagementEvent::Deleted(gone.pod.key.clone(), uid.clone()));
        }
        WriteAnswer::Gone
    }

    fn write(&mut self, write: &ManagementWrite) -> WriteAnswer {
        let ManagementWrite { uid, operation, .. } = write;
        let Some(known) = self.pods.get_mut(uid) else { return WriteAnswer::Gone };
        let version = known.pod.resource_version;
        match operation {
            ManagementOperation::Intent { resource_version, .. }
            | ManagementOperation::Release { resource_version, .. }
                if version != *resource_version =>
            {
                return WriteAnswer::Conflict;
            }
            // A pod that is deleted gets no finalizer.
            ManagementOperation::Intent { .. } if known.pod.terminating && !known.has_finalizer => {
                return WriteAnswer::Failed("no new finalizers can be added".to_owned());
            }
            ManagementOperation::Intent { intent, .. } => {
                (known.intent, known.placement) = (Some(intent.clone()), None);
                known.has_finalizer = true;
            }
            ManagementOperation::Placement(placement) => {
                known.placement = Some(placement.clone());
            }
            ManagementOperation::Effect(effect) => {
                if !matches!(effect.kind, EffectKind::PatchPodStatus { .. }) {
                    return WriteAnswer::Done(version);
                }
            }
            ManagementOperation::Status { status, .. } => merge(&mut known.status, status),
            ManagementOperation::Event(_) => return WriteAnswer::Done(version),
            ManagementOperation::Delete if known.pod.terminating => {
                return WriteAnswer::Done(version);
            }
            ManagementOperation::Delete if known.has_finalizer => {
                Arc::make_mut(&mut known.pod).terminating = true;
            }
            ManagementOperation::Release { .. } if !known.pod.terminating => {
                known.has_finalizer = false;
            }
            ManagementOperation::Delete
            | ManagementOperation::Release { .. }
            | ManagementOperation::Remove => return self.remove(uid),
        }
        self.version += 1;
        Arc::make_mut(&mut known.pod).resource_version = self.version;
        self.show(uid);
        WriteAnswer::Done(self.version)
    }
}

impl ManagementServer for ManagementApi {
    fn create(&mut self, pod: Pod, _: Time) -> Vec<ManagementEvent> {
        self.version += 1;
        let pod = Arc::new(Pod { resource_version: self.version, ..pod });
        let uid = pod.uid.clone();
        let created = ManagementPod {
            pod,
            intent: None,
            placement: None,
            has_finalizer: false,
            status: json!({"phase": "Pending"}),
        };
        self.pods.insert(uid.clone(), created);
        self.show(&uid);
        std::mem::take(&mut self.events)
    }

    fn carry_out(&mut self, write: ManagementWrite, _: Time) -> Work<ManagementOutcome> {
        let answer = self.write(&write);
        Work::done((answer, std::mem::take(&mut self.events)))
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
