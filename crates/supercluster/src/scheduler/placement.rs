//! The annotations that schedulers write on an original pod: their intent before the first commit
//! of an attempt, and the placement after one has succeeded.
//!
//! The intent is written with the resourceVersion of the pod as a precondition, so that of several
//! schedulers that try the same pod only one goes on. A scheduler that finds the intent of another
//! one asks its clusters first, which seals the attempt, and so makes sure that no pod is placed
//! twice.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{Committed, PodObject, TryNumber};

/// Annotation with the [`Intent`], as JSON.
pub const INTENT: &str = "supercluster.loadmaster.io/intent";
/// Annotation with the time after which a pod is placed anew if its cluster is lost, for example
/// `5m`, or `never`.
pub const REPLACE_AFTER: &str = "supercluster.loadmaster.io/replace-after";
/// Time beside the termination grace period between the end of a lease and the time at which the
/// delegate is gone: for a bind or a deletion that is under way, and for a difference of clock
/// rates.
const MARGIN: Duration = Duration::from_secs(15);
/// Shortest time without a renewal after which a delegate is deleted; several times the interval of
/// renewals.
pub(super) const SHORTEST_FENCE: Duration = Duration::from_secs(15);
/// The termination grace period of a pod that names none, in seconds.
const DEFAULT_GRACE_S: u64 = 30;
/// Annotation with the [`Placement`], as JSON.
pub const PLACEMENT: &str = "supercluster.loadmaster.io/placement";

/// An attempt to place a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// Number of the attempt; higher than any before.
    pub attempt: u32,
    /// The scheduler.
    pub scheduler: Arc<str>,
    /// The clusters in which it may commit.
    pub clusters: Vec<Arc<str>>,
    /// The terms of its delegates, if the pod may be replaced when its cluster is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence_after_s: Option<u32>,
}

/// Where a delegate of a pod runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// The cluster.
    pub cluster: Arc<str>,
    /// The delegate.
    pub committed: Committed,
}

/// An original pod, with what schedulers have written on it.
#[derive(Debug, Clone)]
pub struct OriginalPod {
    /// The pod.
    pub object: PodObject,
    /// The latest attempt.
    pub intent: Option<Intent>,
    /// Where it runs.
    pub placement: Option<Placement>,
    /// The resourceVersion that has them.
    pub version: u64,
}

impl OriginalPod {
    /// Reads the annotations of a pod. One that cannot be read counts as absent: an intent or a
    /// placement that somebody else has changed.
    pub fn new(object: PodObject) -> Self {
        let parse = |key: &str| object.annotation(key);
        let intent = parse(INTENT).and_then(|text| serde_json::from_str(text).ok());
        let placement = parse(PLACEMENT).and_then(|text| serde_json::from_str(text).ok());
        Self { intent, placement, version: object.pod.resource_version, object }
    }

    /// Returns the time without a renewal after which an agent deletes a delegate of the pod, in
    /// seconds; `None` if the pod stays where it is when its cluster is lost. `default` is the time
    /// after which a pod without the annotation [`REPLACE_AFTER`] is replaced.
    ///
    /// # Errors
    /// The annotation is neither a time nor `never`.
    pub fn fence_after_s(&self, default: Option<Duration>) -> Result<Option<u32>, String> {
        let replace_after = match self.object.annotation(REPLACE_AFTER) {
            None => default,
            Some("never") => None,
            Some(text) => Some(parse_duration(text).ok_or_else(|| {
                format!(
                    "annotation {REPLACE_AFTER}: {text:?} is no time like 5m, and not \"never\""
                )
            })?),
        };
        Ok(replace_after.map(|after| {
            let fence = after.saturating_sub(self.end_time()).max(SHORTEST_FENCE);
            u32::try_from(fence.as_secs()).unwrap_or(u32::MAX)
        }))
    }

    /// Returns the time without a renewal after which a delegate with these terms is gone: its
    /// agent has deleted it, and its containers have had their time to end.
    fn replace_after(&self, fence_after_s: u32) -> Duration {
        Duration::from_secs(u64::from(fence_after_s)) + self.end_time()
    }

    /// The time that a delegate takes to end once its lease has ended.
    fn end_time(&self) -> Duration {
        let grace = self.object.object.pointer("/spec/terminationGracePeriodSeconds");
        Duration::from_secs(grace.and_then(Value::as_u64).unwrap_or(DEFAULT_GRACE_S)) + MARGIN
    }

    /// Returns the time without a renewal of its cluster's lease after which the placed pod is
    /// replaced; `None` if it is not placed, or stays.
    pub fn placed_for(&self) -> Option<Duration> {
        let fence_after_s = self.placement.as_ref()?.committed.fence_after_s?;
        Some(self.replace_after(fence_after_s))
    }

    /// Returns the time without a renewal after which no delegate of a pod runs in one of its
    /// clusters.
    pub fn gone_after(&self, cluster: &str) -> Option<Duration> {
        match &self.placement {
            Some(placement) if *placement.cluster == *cluster => self.placed_for(),
            _ => self.intended_for().map(super::leases::unanswered),
        }
    }

    /// The same for a pod that is placed, or may be.
    pub(super) fn waits_for(&self) -> Option<Duration> {
        match &self.placement {
            Some(_) => self.placed_for(),
            None => self.intended_for(),
        }
    }

    /// The same for the commits of the latest attempt.
    pub(super) fn intended_for(&self) -> Option<Duration> {
        Some(self.replace_after(self.intent.as_ref()?.fence_after_s?))
    }

    /// Returns the cluster in which it is placed, or those in which it may be.
    pub(super) fn clusters(&self) -> impl Iterator<Item = &Arc<str>> {
        let placed = self.placement.as_ref().map(|placement| &placement.cluster);
        let intended = self.intent.iter().filter(|_| self.placement.is_none());
        placed.into_iter().chain(intended.flat_map(|intent| &intent.clusters))
    }

    /// Returns the number of the latest attempt.
    pub fn latest_attempt(&self) -> u32 {
        let intended = self.intent.as_ref().map_or(0, |intent| intent.attempt);
        let placed = self.placement.as_ref().map_or(0, |own| own.committed.key.number.attempt);
        intended.max(placed)
    }

    /// Whether a delegate is left over from an earlier try. A later try is only begun when the
    /// earlier ones have failed for good, or their cluster was lost.
    pub fn is_left_over(&self, delegate: &str, number: TryNumber) -> bool {
        match &self.placement {
            Some(Placement { committed, .. }) => {
                *committed.uid != *delegate && number < committed.key.number
            }
            None => number.attempt < self.latest_attempt(),
        }
    }
}

/// Reads a time of whole seconds, minutes or hours, such as `90s`, `5m` or `1h`.
fn parse_duration(text: &str) -> Option<Duration> {
    let (number, seconds) = match text.char_indices().last()? {
        (at, 's') => (&text[..at], 1),
        (at, 'm') => (&text[..at], 60),
        (at, 'h') => (&text[..at], 3_600),
        _ => return None,
    };
    let number: u32 = number.parse().ok()?;
    number.checked_mul(seconds).map(|seconds| Duration::from_secs(u64::from(seconds)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::CommitKey;

    fn original(annotation: Option<&str>, grace: Option<u64>) -> OriginalPod {
        let mut object = json!({"metadata": {"name": "p", "resourceVersion": "3"}, "spec": {}});
        if let Some(text) = annotation {
            object["metadata"]["annotations"][REPLACE_AFTER] = text.into();
        }
        if let Some(seconds) = grace {
            object["spec"]["terminationGracePeriodSeconds"] = seconds.into();
        }
        OriginalPod::new(PodObject::from_json(object).unwrap())
    }

    #[test]
    fn delegate_is_fenced_early_enough_to_end_before_its_pod_is_replaced() {
        let default = Some(Duration::from_secs(300));
        let fence = |annotation, grace| original(annotation, grace).fence_after_s(default);
        assert_eq!(fence(None, None), Ok(Some(300 - 30 - 15)));
        assert_eq!(fence(Some("10m"), Some(60)), Ok(Some(600 - 60 - 15)));
        assert_eq!(fence(Some("never"), None), Ok(None));
        assert_eq!(original(None, None).fence_after_s(None), Ok(None));
        // A time that is too short is lengthened.
        assert_eq!(fence(Some("1s"), Some(40)), Ok(Some(15)));
        assert_eq!(original(None, Some(40)).replace_after(15), Duration::from_secs(70));
        for invalid in ["", "5", "m", "-5m", "5d", "99999999h"] {
            let error = fence(Some(invalid), None).unwrap_err();
            assert!(error.contains(&format!("{invalid:?} is no time")), "{error}");
        }
    }

    #[test]
    fn delegate_of_an_earlier_try_is_left_over() {
        let number = |attempt, candidate| TryNumber { attempt, candidate };
        let mut pod = original(None, None);
        let intent = |attempt| Intent {
            attempt,
            scheduler: "s".into(),
            clusters: Vec::new(),
            fence_after_s: None,
        };
        pod.intent = Some(intent(3));
        assert!(pod.is_left_over("d", number(2, 0)));
        assert!(!pod.is_left_over("d", number(3, 0)), "it may be the one that is committed");
        let key = CommitKey { pod: "u".into(), number: number(3, 1) };
        let committed = Committed { key, uid: "d".into(), node: "n".into(), fence_after_s: None };
        pod.placement = Some(Placement { cluster: "c".into(), committed });
        assert!(!pod.is_left_over("d", number(3, 1)));
        assert!(pod.is_left_over("other", number(3, 0)));
        assert!(!pod.is_left_over("other", number(4, 0)), "another scheduler knows more");
    }
}
