//! The patch that makes binds of an earlier scheduler fail.

use framework::{Answer, PodKey, Uid};
use serde::Deserialize;
use serde_json::{Value, json};

use super::next_step::NextStep;
use super::outcome::{Outcome, is_pod_gone};

/// A patch that only changes the resourceVersion of a pending pod.
///
/// The patch names the version that it replaces. After a conflict the pod is read: a bound pod is
/// the answer, a pending one is patched in its current version.
#[derive(Debug)]
pub(super) struct PodTouch {
    pub(super) pod: PodKey,
    pub(super) uid: Uid,
    pub(super) observed_generation: i64,
    /// The resourceVersion of the pod; 0 if it is not known.
    pub(super) resource_version: u64,
    /// Whether the pod has the condition `PodScheduled`, which the patch then keeps.
    pub(super) has_condition: bool,
    /// Number of patches that changed nothing, because another scheduler sent the same in this
    /// second. Each one moves the next `lastProbeTime` back by a second.
    pub(super) unchanged: u32,
    /// Whether to read the pod before the next patch.
    pub(super) must_read: bool,
}

/// The fields of the pod that are read.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    resource_version: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    condition_type: String,
}

impl PodTouch {
    /// Handles the pod in a reply, or a conflict.
    ///
    /// # Errors
    /// Returns any other outcome.
    pub(super) fn handle_outcome(
        &mut self,
        outcome: Outcome,
        may_retry: bool,
    ) -> Result<NextStep, Outcome> {
        match outcome {
            Outcome::Succeeded(body) => match serde_json::from_slice(&body) {
                Ok(pod) => Ok(self.handle_pod(&pod)),
                Err(_) => Err(Outcome::Unknown("the response is not a pod".to_owned())),
            },
            Outcome::Rejected { status: 409, message }
                if may_retry && !is_pod_gone(409, &message) =>
            {
                self.must_read = true;
                Ok(NextStep::Continue)
            }
            outcome => Err(outcome),
        }
    }

    fn handle_pod(&mut self, object: &Object) -> NextStep {
        if Uid::from(&*object.metadata.uid) != self.uid {
            return NextStep::Finish(Answer::Gone("another pod has this name".to_owned()));
        }
        let version = object.metadata.resource_version.parse().unwrap_or(0);
        let was_read = std::mem::take(&mut self.must_read);
        if !object.spec.node_name.is_empty() || (!was_read && version != self.resource_version) {
            return NextStep::Finish(Answer::Ok(Some(self.answer(version, &object.spec))));
        }
        if !was_read {
            self.unchanged += 1;
            return NextStep::Continue;
        }
        self.resource_version = version;
        let mut conditions = object.status.conditions.iter();
        self.has_condition = conditions.any(|condition| condition.condition_type == "PodScheduled");
        NextStep::Continue
    }

    /// Returns the metadata of the pod in a version, and its node if it has one.
    fn answer(&self, version: u64, spec: &Spec) -> Value {
        let Self { pod: PodKey { namespace, name }, uid, .. } = self;
        let mut pod = json!({ "metadata": { "namespace": namespace, "name": name, "uid": uid.to_string(),
            "resourceVersion": version.to_string() } });
        if !spec.node_name.is_empty() {
            pod["spec"] = json!({ "nodeName": spec.node_name });
        }
        pod
    }
}
