//! The versions that our own writes gave pods.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use framework::{Time, Uid};
use serde::Deserialize;

/// How long a version is kept. It is only needed until the watch shows it.
const KEEP: Duration = Duration::from_mins(1);

/// The resourceVersion of each pod in the reply to our last write of it.
///
/// A status patch changes the version of a pod before the watch shows the change. A bind that named the
/// version of the watch would be refused because of our own patch. A version with another specification than
/// the scheduler knew is left out: a bind that was decided on the old one has to be refused. So is a version with a
/// node: others have bound the pod, and the patch of a condition has to be refused.
#[derive(Debug, Default)]
pub(super) struct OwnWrites {
    versions: BTreeMap<Uid, (u64, Time)>,
    /// The writes in the order of their replies.
    by_time: VecDeque<(Time, Uid)>,
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
    generation: Option<i64>,
}

/// The pods in replies that are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WrittenPods {
    None,
    /// Versions with this `metadata.generation`.
    Of(i64),
    Every,
}

impl WrittenPods {
    fn include(self, generation: Option<i64>) -> bool {
        match self {
            Self::None => false,
            Self::Of(known) => generation.is_none_or(|generation| generation == known),
            Self::Every => true,
        }
    }
}

impl OwnWrites {
    /// Records the pod in a reply. Ignores a reply that is no object with a numeric resourceVersion.
    pub(super) fn record(&mut self, pod: &[u8], recorded: WrittenPods, now: Time) {
        self.forget_old(now);
        if recorded == WrittenPods::None {
            return;
        }
        let Ok(Object { metadata, spec }) = serde_json::from_slice(pod) else { return };
        let has_node = spec.node_name.is_some_and(|node| !node.is_empty());
        if has_node || !recorded.include(metadata.generation) {
            return;
        }
        let Ok(version) = metadata.resource_version.parse() else { return };
        let uid = Uid::from(&*metadata.uid);
        self.versions.insert(uid.clone(), (version, now));
        self.by_time.push_back((now, uid));
    }

    /// Returns the version of a pod after our last write, 0 if there is none.
    pub(super) fn version_of(&self, pod: &Uid) -> u64 {
        self.versions.get(pod).map_or(0, |(version, _)| *version)
    }

    fn forget_old(&mut self, now: Time) {
        while let Some((at, uid)) = self.by_time.pop_front_if(|(at, _)| now.since(*at) > KEEP) {
            if self.versions.get(&uid).is_some_and(|(_, last)| *last == at) {
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
        let mut record = |pod: &[u8], at| writes.record(pod, WrittenPods::Every, second(at));
        record(&pod("a", "5"), 0);
        record(&pod("b", "6"), 0);
        record(&pod("a", "8"), 40);
        record(b"{}", 70);
        assert_eq!(["a", "b"].map(|uid| writes.version_of(&uid.into())), [8, 0]);
        writes.record(&pod("c", "opaque"), WrittenPods::Every, second(200));
        assert_eq!((writes.versions.len(), writes.by_time.len()), (0, 0), "nothing is left");
    }

    #[test]
    fn version_of_a_pod_that_others_have_bound_is_not_kept() {
        let mut writes = OwnWrites::default();
        writes.record(&pod("a", "5"), WrittenPods::Every, Time::ZERO);
        let bound = serde_json::json!({"metadata": {"uid": "a", "resourceVersion": "6"},
            "spec": {"nodeName": "n"}});
        writes.record(bound.to_string().as_bytes(), WrittenPods::Every, Time::ZERO);
        assert_eq!(writes.version_of(&"a".into()), 5);
    }
}
