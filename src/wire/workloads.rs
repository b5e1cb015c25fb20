//! Workloads: the objects from which controllers make pods.

use framework::api;
use serde::Deserialize;
use serde_json::Value;

use super::collect::decode;

/// `apiVersion` and kind of the workloads.
const KINDS: [(&str, &str); 7] = [
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "CronJob"),
    ("batch/v1", "Job"),
    ("v1", "ReplicationController"),
];

pub(super) fn is_workload(version: &str, kind: &str) -> bool {
    KINDS.contains(&(version, kind))
}

/// Checks the fields that a controller reads.
///
/// # Errors
/// A field has another type; with its path.
pub(super) fn check(value: &Value, kind: &str) -> Result<(), String> {
    decode::<Workload>(value, kind).map(drop)
}

#[derive(Deserialize)]
struct Workload {
    #[serde(rename = "metadata", default)]
    _metadata: api::ObjectMeta,
    #[serde(rename = "spec")]
    _spec: Option<Spec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(rename = "replicas")]
    _replicas: Option<i32>,
    #[serde(rename = "parallelism")]
    _parallelism: Option<i32>,
    #[serde(rename = "completions")]
    _completions: Option<i32>,
    #[serde(rename = "suspend")]
    _suspend: Option<bool>,
    #[serde(rename = "template")]
    _template: Option<Template>,
    #[serde(rename = "jobTemplate")]
    _job_template: Option<JobTemplate>,
}

#[derive(Deserialize)]
struct Template {
    #[serde(rename = "metadata")]
    _metadata: Option<api::ObjectMeta>,
    #[serde(rename = "spec")]
    _spec: Option<api::PodSpec>,
}

#[derive(Deserialize)]
struct JobTemplate {
    #[serde(rename = "spec")]
    _spec: Option<Box<Spec>>,
}
