//! Jobs: pods that end.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::template::{controller, count, name, namespace, pod_of, put, text, uid};
use super::{Controllers, Key, key_of};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// Whether the Job has completed or failed.
pub(super) fn is_over(job: &Value) -> bool {
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        matches!(text(condition, "/type"), "Complete" | "Failed") && condition["status"] == "True"
    })
}

/// Adds the pods that run next: as many as `parallelism` allows and the completions need.
pub(super) fn sync(controllers: &mut Controllers<'_>, job: &Value) {
    if is_over(job) {
        return;
    }
    let root = controllers.cron_job_of(job).unwrap_or_else(|| key_of("Job", job));
    let present = controllers.pods_of("Job", job);
    let wanted = wanted(job);
    controllers.count(root.clone(), wanted, &present);
    let missing = wanted.saturating_sub(present.len());
    if missing == 0 {
        return;
    }
    let Some(pod) = pod(job) else {
        let message = "spec.template: is missing; no pods are made from it";
        return controllers.warn("Job", job, message);
    };
    if text(job, "/spec/completionMode") != "Indexed" {
        return controllers.add_pods(&root, job, name(job), missing, &pod);
    }
    let active: BTreeSet<usize> =
        present.iter().filter_map(|pod| pod.labels.get(INDEX)?.parse().ok()).collect();
    let completed = intervals(text(job, "/status/completedIndexes"));
    let completions = count(job, "/spec/completions").unwrap_or(0);
    let is_open = |index: &usize| {
        !active.contains(index)
            && !completed.iter().any(|(first, last)| (first..=last).contains(&index))
    };
    let fits = missing.min(controllers.room());
    let indexes: Vec<usize> = (0..completions).filter(is_open).take(fits).collect();
    for index in indexes {
        let base = format!("{}-{index}", name(job));
        let pod = indexed(pod.clone(), index, &base);
        controllers.add_pods(&root, job, &base, 1, &pod);
    }
    if fits < missing {
        controllers.cut("Job", job);
    }
}

impl Controllers<'_> {
    /// Returns the CronJob of a Job, if the dump has it.
    fn cron_job_of(&self, job: &Value) -> Option<Key> {
        let owner = text(controller(job, "CronJob")?, "/name");
        let is_known = self.has("CronJob", namespace(job), owner);
        is_known.then(|| ("CronJob", namespace(job).to_owned(), owner.to_owned()))
    }
}

/// Returns the number of pods that the Job runs at once now. A Job without `completions` is a work
/// queue: all its pods run, until one has succeeded.
fn wanted(job: &Value) -> usize {
    if job["spec"]["suspend"] == true {
        return 0;
    }
    let succeeded = count(job, "/status/succeeded").unwrap_or(0);
    let parallelism = count(job, "/spec/parallelism");
    let completions = count(job, "/spec/completions").or(parallelism.is_none().then_some(1));
    match completions {
        Some(completions) => parallelism.unwrap_or(1).min(completions.saturating_sub(succeeded)),
        None if succeeded > 0 => 0,
        None => parallelism.unwrap_or(1),
    }
}

/// Returns a pod of the Job without a name.
fn pod(job: &Value) -> Option<Value> {
    let mut pod = pod_of(job)?;
    if job["spec"]["manualSelector"] != true {
        let (name, uid) = (name(job), uid(job));
        let labels = [("job-name", name), ("controller-uid", uid.as_str())];
        for (label, value) in labels {
            for key in [label.to_owned(), format!("batch.kubernetes.io/{label}")] {
                put(&mut pod, &["metadata", "labels", &key], value.into());
            }
        }
    }
    let finalizers = pod["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let finalizers = finalizers.into_iter().chain([json!(TRACKING)]);
    pod["metadata"]["finalizers"] = finalizers.collect();
    Some(pod)
}

/// Returns the pod with its completion index and this host name.
fn indexed(mut pod: Value, index: usize, hostname: &str) -> Value {
    for map in ["annotations", "labels"] {
        put(&mut pod, &["metadata", map, INDEX], index.to_string().into());
    }
    put(&mut pod, &["spec", "hostname"], hostname.into());
    pod
}

/// Parses intervals such as `1,3-5`, first and last number of each. An interval that cannot be
/// parsed is left out.
fn intervals(text: &str) -> Vec<(usize, usize)> {
    let interval = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    text.split(',').filter_map(interval).collect()
}
