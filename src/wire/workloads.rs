//! Workloads: the objects from which controllers make pods.

use framework::api;
use serde::Deserialize;
use serde_json::Value;

use super::collect::decode;

/// The groups of the kinds whose fields are known.
const GROUPS: [&str; 3] = ["apps/v1", "batch/v1", "v1"];

/// Checks the fields that a controller reads.
///
/// # Errors
/// A field has another type; with its path.
pub(super) fn check(value: &Value, version: &str, kind: &str) -> Result<(), String> {
    if !GROUPS.contains(&version) {
        return Ok(());
    }
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
