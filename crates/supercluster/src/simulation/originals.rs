//! The original pods as the API server of the management cluster has shown them, apart from
//! schedulers and mirrors.

use std::collections::BTreeMap;

use framework::{PodKey, Uid};
use serde_json::Value;

use crate::scheduler::OriginalPod;

/// An original pod.
#[derive(Debug)]
pub(super) struct Original {
    /// The latest version.
    pub(super) pod: OriginalPod,
    /// The scheduler whose pod it is; `None` if all schedulers see it.
    pub(super) owner: Option<usize>,
    /// The message of the condition PodScheduled that a scheduler has written.
    pub(super) condition: Option<String>,
    /// Whether the status says that the agent does not answer.
    pub(super) is_unreachable: bool,
}

/// The original pods by UID.
pub(super) type Originals = BTreeMap<Uid, Original>;

impl Original {
    pub(super) const fn new(pod: OriginalPod, owner: Option<usize>) -> Self {
        Self { pod, owner, condition: None, is_unreachable: false }
    }

    pub(super) fn key(&self) -> &PodKey {
        &self.pod.object.pod.key
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.pod.object.pod.terminating
    }

    /// Returns the names of its finalizers.
    pub(super) fn finalizers(&self) -> Vec<String> {
        let list = self.pod.object.object.pointer("/metadata/finalizers").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Returns what is wrong with its status at rest.
    pub(super) fn wrong_status(&self) -> Option<String> {
        let name = self.key();
        let expected = self.pod.placement.as_ref().map(|placement| &*placement.committed.uid);
        let shown = self.pod.object.object.pointer("/status/podIP").and_then(Value::as_str);
        if shown != expected {
            return Some(format!("{name} shows {shown:?}, and runs as {expected:?}"));
        }
        self.is_unreachable.then(|| format!("{name} is not ready"))
    }
}
