//! The status patch of a pending pod.

use engine::EffectId;
use framework::{Answer, PodKey, StatusPatch, Uid};
use serde::Deserialize;
use serde_json::{Value, json};

use super::next_step::NextStep;
use super::outcome::{Outcome, is_pod_gone};

/// A status patch of a pending pod.
///
/// The patch carries the resourceVersion of the pod it is based on, so it cannot overwrite the
/// `PodScheduled` condition of a pod that was bound since. After a conflict the dispatcher reads
/// the pod: a bound pod needs no patch, a pending one is patched with its current resourceVersion.
/// kube-scheduler 1.36 sends no resourceVersion.
#[derive(Debug)]
pub(super) struct PodStatusPatch {
    pub(super) pod: PodKey,
    pub(super) uid: Uid,
    pub(super) observed_generation: i64,
    /// The resourceVersion of the pod; 0 if it is not known.
    pub(super) resource_version: u64,
    pub(super) patch: StatusPatch,
    /// The last effect that writes the nomination. Its answer shows the version after the patch.
    pub(super) nominates: Option<EffectId>,
    /// Whether to read the pod before the next patch.
    pub(super) must_read: bool,
}

/// The part of a pod that is read from the reply to a patch.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

impl PodStatusPatch {
    /// Merges a later patch into this one. The fields of the later patch win.
    pub(super) fn merge(&mut self, later: Self) {
        self.observed_generation = later.observed_generation;
        self.resource_version = self.resource_version.max(later.resource_version);
        self.nominates = later.nominates.or(self.nominates);
        let (patch, later) = (&mut self.patch, later.patch);
        patch.condition = later.condition.or(patch.condition.take());
        patch.nominated_node_name = later.nominated_node_name.or(patch.nominated_node_name.take());
    }

    /// Handles a conflict of the patch and the pod that is read after it, and the version after a
    /// patch of the nomination.
    ///
    /// # Errors
    /// Returns any other outcome.
    pub(super) fn handle_outcome(
        &mut self,
        outcome: Outcome,
        may_retry: bool,
    ) -> Result<NextStep, Outcome> {
        match outcome {
            Outcome::Succeeded(body) if self.must_read => match serde_json::from_slice(&body) {
                Ok(pod) => Ok(self.refresh(&pod)),
                Err(error) => Err(Outcome::Unknown(format!("the response is not JSON: {error}"))),
            },
            Outcome::Succeeded(body) if self.nominates.is_some() => {
                Ok(NextStep::Finish(Answer::Ok(version_of(&body))))
            }
            Outcome::Rejected { status: 409, message }
                if may_retry && self.resource_version != 0 && !is_pod_gone(409, &message) =>
            {
                self.must_read = true;
                Ok(NextStep::Continue)
            }
            outcome => Err(outcome),
        }
    }

    /// Takes the resourceVersion of the pod that was read. Finishes if the pod is bound or another
    /// pod has its name.
    fn refresh(&mut self, pod: &Value) -> NextStep {
        let metadata = &pod["metadata"];
        if metadata["uid"].as_str().map(Uid::from).as_ref() != Some(&self.uid) {
            return NextStep::Finish(Answer::Gone("another pod has this name".to_owned()));
        }
        if pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty()) {
            return NextStep::Finish(Answer::ok());
        }
        let version = metadata["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        self.resource_version = version.unwrap_or(0);
        self.must_read = false;
        NextStep::Continue
    }
}

/// Returns the metadata of the pod in a reply that say its version.
fn version_of(reply: &[u8]) -> Option<Value> {
    let Object { metadata } = serde_json::from_slice(reply).ok()?;
    Some(json!({ "metadata": { "resourceVersion": metadata.resource_version } }))
}
