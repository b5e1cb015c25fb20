//! For which pods room is held, and for how long pods run.

use std::time::Duration;

use serde_json::Value;

use crate::Pod;

/// The annotation of a pod with the seconds that it runs at most, as its owner expects.
pub const RUN_TIME_ANNOTATION: &str = "loadmaster.io/expected-run-seconds";
/// Where a pod has that annotation.
pub const RUN_TIME_FIELD: &str = "/metadata/annotations/loadmaster.io~1expected-run-seconds";
/// Where a pod has the seconds after which the kubelet ends it.
pub const DEADLINE_FIELD: &str = "/spec/activeDeadlineSeconds";

/// For which waiting pods and groups the scheduler holds room, and how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldPolicy {
    /// How long a pod has waited since its first attempt before room is held for it.
    pub after: Duration,
    /// Maximum number of pods and groups for which room is held.
    pub most: usize,
    /// Maximum share of the nodes that is held, in percent. One node may always be held.
    pub percent_of_nodes: usize,
    /// How long room is held.
    pub expires_after: Duration,
    /// How long the room of a lost pod of a group is held for its replacement; zero for not at all.
    pub replaced_within: Duration,
}

/// Returns how long a pod runs at most, if it declares that: `activeDeadlineSeconds`, or its
/// [annotation](RUN_TIME_ANNOTATION) if that is shorter. The cluster keeps both only for a plugin
/// that [holds room](crate::PluginBuilder::holds_room).
pub fn run_time(pod: &Pod) -> Option<Duration> {
    let deadline = pod.extra.get(DEADLINE_FIELD).and_then(Value::as_u64);
    let expected = pod.extra.get(RUN_TIME_FIELD).and_then(Value::as_str);
    let expected = expected.and_then(|text| text.parse::<u64>().ok());
    deadline.into_iter().chain(expected).min().map(Duration::from_secs)
}
