//! Pods in the replies to fences.

use engine::Engine;
use framework::{Answer, PodKey, Uid};
use serde_json::Value;

/// A pod in the reply to a fence, which the watch has to show.
#[derive(Debug)]
pub(super) struct Written {
    pod: PodKey,
    uid: Uid,
    pub(super) version: u64,
    /// Whether the pod had a node, so that the fence has written nothing.
    pub(super) is_bound: bool,
}

impl Written {
    /// Returns the pod in an answer; `None` if the answer shows none.
    pub(super) fn of(answer: &Answer) -> Option<Self> {
        let Answer::Ok(Some(pod)) = answer else { return None };
        let metadata = &pod["metadata"];
        let text = |field: &str| metadata[field].as_str();
        Some(Self {
            pod: PodKey::new(text("namespace")?, text("name")?),
            uid: text("uid")?.into(),
            version: text("resourceVersion")?.parse().ok()?,
            is_bound: is_bound(pod),
        })
    }

    /// Returns whether the watch has shown the pod in this version. A pod that is gone was deleted
    /// later.
    pub(super) fn is_shown(&self, engine: &Engine) -> bool {
        let pending = engine.pending_pod(&self.pod).filter(|pod| pod.uid == self.uid);
        let placed = || engine.world().placed(&self.uid).map(|placed| &placed.pod);
        let known = pending.or_else(placed);
        known.is_none_or(|pod| pod.resource_version >= self.version)
    }
}

fn is_bound(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string()
}
