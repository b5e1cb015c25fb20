//! Pods that are spared for a while: by their PriorityClass, or by their quota.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::Hasher as _;
use std::time::Duration;

use framework::{Handle, Pod, PodKey, QUOTA_MINIMUM_RUN_ANNOTATION, Time};
use serde::Deserialize;
use twox_hash::XxHash64;

/// PriorityClasses, as `<plural>.<version>.<group>`.
pub const PRIORITY_CLASSES: &str = "priorityclasses.v1.scheduling.k8s.io";

/// The annotations of PreemptionToleration of scheduler-plugins.
const MINIMUM_PREEMPTABLE: &str =
    "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority";
const TOLERATION_SECONDS: &str = "preemption-toleration.scheduling.x-k8s.io/toleration-seconds";

/// The field with the name of the PriorityClass of a pod.
pub(super) const CLASS_FIELD: &str = "/spec/priorityClassName";

/// A PriorityClass, with the fields that protect its pods.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct PriorityClass {
    metadata: Metadata,
    value: i32,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    annotations: BTreeMap<String, String>,
}

/// How a pod is protected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Protection {
    /// When the pod started.
    start: Option<Time>,
    /// For how long the pod runs at least.
    minimum: Option<Duration>,
    /// The toleration of preemption of its PriorityClass.
    toleration: Option<Toleration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Toleration {
    /// The priority from which on preemptors are not tolerated.
    minimum_preemptable: i64,
    /// For how long, from the start of the pod; `None` for ever.
    time: Option<Duration>,
}

impl Protection {
    /// Returns the protection of a placed pod.
    pub(super) fn of(pod: &Pod, handle: &Handle<'_>) -> Self {
        let cluster = handle.cluster;
        let quota = cluster.quotas().quota_of(pod);
        let path = quota.into_iter().flat_map(|own| own.path());
        let of_quota = path.filter_map(|own| own.object().spec.minimum_run).max();
        let class = pod.extra.get(CLASS_FIELD).and_then(|name| name.as_str());
        let class =
            class.and_then(|name| cluster.decoded::<PriorityClass>(PRIORITY_CLASSES, "", name));
        let of_class = class.and_then(|class| {
            let seconds: u64 = class.annotation(QUOTA_MINIMUM_RUN_ANNOTATION)?;
            Some(Duration::from_secs(seconds))
        });
        Self {
            start: pod.start_time.get(),
            minimum: of_quota.max(of_class),
            toleration: class.and_then(PriorityClass::toleration),
        }
    }

    /// Whether the pod is spared by a preemptor of this priority now. Notes in `end` when the first
    /// protection of all pods ends.
    pub(super) fn spares(
        self,
        preemptor: i32,
        handle: &Handle<'_>,
        end: &Cell<Option<Time>>,
    ) -> bool {
        let now = handle.wall_time();
        let start = self.start.unwrap_or(now);
        let tolerated =
            self.toleration.filter(|own| i64::from(preemptor) < own.minimum_preemptable);
        if tolerated.is_some_and(|own| own.time.is_none()) {
            return true;
        }
        let times = [self.minimum, tolerated.and_then(|own| own.time)];
        let Some(until) = times.into_iter().flatten().max().map(|time| start + time) else {
            return false;
        };
        if until <= now {
            return false;
        }
        end.set(Some(end.get().map_or(until, |known| known.min(until))));
        true
    }
}

impl PriorityClass {
    fn annotation<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.metadata.annotations.get(name)?.trim().parse().ok()
    }

    /// Returns the toleration, unless there is none or an annotation cannot be read.
    fn toleration(&self) -> Option<Toleration> {
        let read = |name: &str| {
            let text = self.metadata.annotations.get(name)?;
            Some(text.trim().parse::<i64>())
        };
        let (minimum, seconds) = (read(MINIMUM_PREEMPTABLE), read(TOLERATION_SECONDS));
        if minimum.is_none() && seconds.is_none() {
            return None;
        }
        let minimum = minimum.unwrap_or_else(|| Ok(i64::from(self.value) + 1)).ok()?;
        let seconds = seconds.unwrap_or(Ok(0)).ok()?;
        let time = u64::try_from(seconds).ok().map(Duration::from_secs);
        Some(Toleration { minimum_preemptable: minimum, time })
    }
}

/// Returns the token of the timer that wakes a preemptor.
pub(super) fn token_of(pod: &PodKey) -> u64 {
    let mut hasher = XxHash64::with_seed(0);
    hasher.write(pod.namespace.as_bytes());
    hasher.write_u8(b'/');
    hasher.write(pod.name.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(annotations: serde_json::Value) -> Option<Toleration> {
        let class = json!({"metadata": {"annotations": annotations}, "value": 10});
        serde_json::from_value::<PriorityClass>(class).unwrap().toleration()
    }

    #[test]
    fn toleration_is_read_with_its_defaults() {
        let of = |minimum, seconds: Option<u64>| {
            Some(Toleration {
                minimum_preemptable: minimum,
                time: seconds.map(Duration::from_secs),
            })
        };
        assert_eq!(class(json!({})), None);
        assert_eq!(class(json!({MINIMUM_PREEMPTABLE: "100"})), of(100, Some(0)));
        assert_eq!(class(json!({TOLERATION_SECONDS: "60"})), of(11, Some(60)));
        assert_eq!(class(json!({TOLERATION_SECONDS: "-1"})), of(11, None));
        assert_eq!(class(json!({TOLERATION_SECONDS: "soon"})), None);
    }
}
