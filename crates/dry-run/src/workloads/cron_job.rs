//! CronJobs: one run of their Job.

use serde_json::{Value, json};

use super::template::{controller, controller_reference, metadata_of, name, namespace, text};
use super::{Controllers, job};

/// Returns namespace and name of the CronJob of a Job.
pub(super) fn of_job(job: &Value) -> Option<(String, String)> {
    let owner = text(controller(job, "CronJob")?, "/name");
    Some((namespace(job).to_owned(), owner.to_owned()))
}

/// Adds one run, unless a Job of the CronJob is under way. The name of the Job ends with the minute
/// of the run, which is 0, the beginning of virtual time.
pub(super) fn sync(controllers: &mut Controllers<'_>, cron_job: &Value) {
    let key = (namespace(cron_job).to_owned(), name(cron_job).to_owned());
    if cron_job["spec"]["suspend"] == true || controllers.jobs.contains(&key) {
        return;
    }
    let template = &cron_job["spec"]["jobTemplate"];
    let mut metadata = Value::Object(metadata_of(template));
    metadata["name"] = format!("{}-0", key.1).into();
    metadata["namespace"] = key.0.into();
    metadata["ownerReferences"] = json!([controller_reference(cron_job)]);
    let run = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
        "spec": template["spec"]});
    job::sync(controllers, &run);
}
