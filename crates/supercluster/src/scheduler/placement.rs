//! The annotations that schedulers write on an original pod: their intent before the first commit of an attempt, and the placement
//! after one has succeeded.
//!
//! The intent is written with the resourceVersion of the pod as a precondition, so that of several schedulers that
//! try the same pod only one goes on. A scheduler that finds the intent of another one asks its clusters first, which
//! seals the attempt, and so makes sure that no pod is placed twice.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::message::{Committed, PodObject};

/// Annotation with the [`Intent`], as JSON.
pub const INTENT: &str = "supercluster.loadmaster.io/intent";
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
}

impl OriginalPod {
    /// Reads the annotations of a pod. One that cannot be read counts as absent: an intent or a placement that
    /// somebody else has changed.
    pub fn new(object: PodObject) -> Self {
        let parse = |key: &str| object.annotation(key);
        let intent = parse(INTENT).and_then(|text| serde_json::from_str(text).ok());
        let placement = parse(PLACEMENT).and_then(|text| serde_json::from_str(text).ok());
        Self { intent, placement, object }
    }
}
