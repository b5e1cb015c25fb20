//! The versions that our own writes gave pods.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use framework::{Time, Uid};
use serde::Deserialize;

/// How long a version is kept. It is only needed until the watch shows it.
const KEEP: Duration = Duration::from_mins(1);

/// The resourceVersion of each pod in the reply to our last write of it.
///
/// A status patch changes the version of a pod before the watch shows the change. A bind that named
/// the version of the watch would be refused because of our own patch. The reply shows the whole
/// pod, which others may have changed meanwhile. So only a call about the same specification takes
/// the version: a bind that was decided on another one has to be refused. A version with a node is
/// left out: others have bound the pod, and the patch of a condition has to be refused.
#[derive(Debug, Default)]
pub(super) struct OwnWrites {
    versions: BTreeMap<Uid, Written>,
    /// The writes in the order of their replies.
    by_time: VecDeque<(Time, Uid)>,
}

#[derive(Debug)]
struct Written {
    version: u64,
    /// `metadata.generation`, 0 if the pod has none.
    generation: i64,
    at: Time,
}

/// The part of a pod that is read from a reply.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    resource_version: String,
    #[serde(default)]
    generation: i64,
}

impl OwnWrites {
    /// Records the pod in a reply. Ignores a reply that is no object with a numeric
    /// resourceVersion.
    pub(super) fn record(&mut self, pod: &[u8], now: Time) {
        self.forget_old(now);
        let Ok(Object { metadata, spec }) = serde_json::from_slice(pod) else { return };
        if spec.node_name.is_some_and(|node| !node.is_empty()) {
            return;
        }
        let Ok(version) = metadata.resource_version.parse() else { return };
        let uid = Uid::from(&*metadata.uid);
        let written = Written { version, generation: metadata.generation, at: now };
        self.versions.insert(uid.clone(), written);
        self.by_time.push_back((now, uid));
    }

    /// Returns the version of a pod after our last write, 0 if there is none or it has another
    /// specification.
    pub(super) fn version_of(&self, pod: &Uid, generation: i64) -> u64 {
        let written = self.versions.get(pod).filter(|written| written.generation == generation);
        written.map_or(0, |written| written.version)
    }

    fn forget_old(&mut self, now: Time) {
        while let Some((at, uid)) = self.by_time.pop_front_if(|(at, _)| now.since(*at) > KEEP) {
            if self.versions.get(&uid).is_some_and(|last| last.at == at) {
                self.versions.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, version: &str) -> Vec<u8> {
        let metadata = serde_json::json!({ "uid": uid, "resourceVersion": version });
        serde_json::json!({ "metadata": metadata }).to_string().into()
    }

    #[test]
    fn version_is_kept_for_a_minute_after_the_last_write() {
        let (mut writes, second) = (OwnWrites::default(), Time::from_secs);
        let mut record = |pod: &[u8], at| writes.record(pod, second(at));
        record(&pod("a", "5"), 0);
        record(&pod("b", "6"), 0);
        record(&pod("a", "8"), 40);
        record(b"{}", 70);
        assert_eq!(["a", "b"].map(|uid| writes.version_of(&uid.into(), 0)), [8, 0]);
        writes.record(&pod("c", "opaque"), second(200));
        assert_eq!((writes.versions.len(), writes.by_time.len()), (0, 0), "nothing is left");
    }

    #[test]
    fn version_of_a_pod_that_others_have_bound_is_not_kept() {
        let mut writes = OwnWrites::default();
        writes.record(&pod("a", "5"), Time::ZERO);
        let bound = serde_json::json!({"metadata": {"uid": "a", "resourceVersion": "6"},
            "spec": {"nodeName": "n"}});
        writes.record(bound.to_string().as_bytes(), Time::ZERO);
        assert_eq!(writes.version_of(&"a".into(), 0), 5);
    }
}
