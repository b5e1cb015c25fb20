//! The Job controller: runs pods until enough have succeeded or too many have failed.
//!
//! A Job with `spec.scheduling` gets a PodGroup, to which its pods belong, as with the gate
//! WorkloadWithJob of Kubernetes 1.37. No Workload is made.

use framework::Time;
use serde_json::{Value, json};

use super::event::{EventKind, record};
use super::owned_pods::{Counts, OwnedPods, pod_from_template};
use super::work_queue::Key;
use super::{BURST, RETRY};
use crate::metadata::{name, namespace, uid};
use crate::object::{
    condition_status, controller_reference, is_terminating, number, put, set_condition, text,
    timestamp,
};
use crate::resources::{JOBS, PODGROUPS, PODS};
use crate::status::Status;
use crate::store::Store;

const DEFAULT_BACKOFF_LIMIT: i64 = 6;

#[derive(Debug)]
pub(super) struct JobController {
    pods: OwnedPods,
}

/// The next action for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Starts this number of pods; deletes pods if negative.
    Run(i64),
    Complete,
    /// More pods failed than `backoffLimit` allows.
    Failed,
}

impl JobController {
    pub(super) fn new() -> Self {
        Self { pods: OwnedPods::new(JOBS) }
    }

    pub(super) fn step(&mut self, store: &mut Store, now: Time) {
        self.pods.follow(store);
        while let Some(key) = self.pods.queue.pop(now) {
            self.sync(store, &key, now);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.pods.queue.next_deadline()
    }

    fn sync(&mut self, store: &mut Store, key: &Key, now: Time) {
        let Some(job) = store.get(JOBS, &key.0, &key.1).cloned() else { return };
        if is_terminating(&job) || is_over(&job) {
            return;
        }
        let counts = self.pods.of(uid(&job)).map(|pods| pods.counts()).unwrap_or_default();
        let verdict = verdict(&job["spec"], counts);
        match verdict {
            Verdict::Run(missing @ 1..) => {
                let is_new = counts == Counts::default();
                let group = ensure_pod_group(store, &job, is_new, now);
                let created = group
                    .and_then(|group| create_pods(store, &job, group, missing.min(BURST), now));
                if created.is_err() {
                    self.pods.queue.add_after(key.clone(), now + RETRY);
                }
            }
            Verdict::Run(surplus) => self.end_pods(store, &job, -surplus, now),
            Verdict::Complete | Verdict::Failed => self.end_pods(store, &job, counts.active, now),
        }
        let write = |job: &mut Value| {
            write_status(job, counts, verdict, now);
            Ok(())
        };
        // The write fails if the Job was deleted, which then needs no status.
        store.modify(JOBS, &key.0, &key.1, now, write).ok();
    }

    fn end_pods(&self, store: &mut Store, job: &Value, count: i64, now: Time) {
        self.pods.delete(store, job, usize::try_from(count).unwrap_or(0), now);
    }
}

/// Returns the reference to the PodGroup of a Job, which is made before its first pod; `None` for a
/// Job without one.
///
/// # Errors
/// The API refuses the PodGroup.
fn ensure_pod_group(
    store: &mut Store,
    job: &Value,
    is_new: bool,
    now: Time,
) -> Result<Option<Value>, Status> {
    let Some(group) = pod_group(job) else { return Ok(None) };
    let (own_namespace, own_name) = (namespace(job).to_owned(), name(&group).to_owned());
    if store.get(PODGROUPS, &own_namespace, &own_name).is_none() && is_new {
        store.create(PODGROUPS, group, now)?;
        let message = format!("Created PodGroup {own_name}");
        record(store, "job-controller", job, EventKind::normal("PodGroupCreated"), &message, now);
    }
    let known = store.get(PODGROUPS, &own_namespace, &own_name);
    Ok(known.map(|known| {
        let mut reference = controller_reference(known);
        let fields = reference.as_object_mut().into_iter();
        fields.for_each(|fields| fields.retain(|field, _| !OF_CONTROLLERS.contains(&&**field)));
        reference
    }))
}

/// The fields of a reference that only one to a controller has.
const OF_CONTROLLERS: [&str; 2] = ["controller", "blockOwnerDeletion"];

/// Returns the PodGroup that a Job asks for. A gang needs all pods that run beside each other,
/// unless the Job says otherwise. Pods that name a group of their own get no other one.
fn pod_group(job: &Value) -> Option<Value> {
    let (scheduling, template) = (job["spec"].get("scheduling")?, &job["spec"]["template"]["spec"]);
    let mut policy = scheduling.get("schedulingPolicy")?.clone();
    if !template["schedulingGroup"].is_null() {
        return None;
    }
    if policy["gang"].is_object() && policy["gang"]["minCount"].is_null() {
        policy["gang"]["minCount"] = json!(number(job, "/spec/parallelism").unwrap_or(1));
    }
    let mut spec = json!({"schedulingPolicy": policy});
    let given = ["schedulingConstraints", "disruptionMode", "resourceClaims"]
        .map(|field| (field, scheduling.get(field)));
    // The pods of a PodGroup have its priority.
    let priority = ("priorityClassName", template.get("priorityClassName"));
    for (field, value) in given.into_iter().chain([priority]) {
        if let Some(value) = value {
            spec[field] = value.clone();
        }
    }
    let part_of_uid: String = uid(job).chars().take(8).collect();
    Some(json!({
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": format!("{}-{part_of_uid}", name(job)),
            "namespace": namespace(job),
            "ownerReferences": [controller_reference(job)],
        },
        "spec": spec,
    }))
}

/// Creates pods of a Job, as members of its PodGroup if it has one.
///
/// # Errors
/// The first refusal of the API.
fn create_pods(
    store: &mut Store,
    job: &Value,
    group: Option<Value>,
    count: i64,
    now: Time,
) -> Result<(), Status> {
    for _ in 0..count {
        let mut pod = pod_from_template(job);
        if let Some(group) = &group {
            pod["spec"]["schedulingGroup"] = json!({"podGroupName": group["name"]});
            let owners = pod["metadata"]["ownerReferences"].as_array_mut();
            owners.into_iter().for_each(|owners| owners.push(group.clone()));
        }
        store.create(PODS, pod, now)?;
    }
    Ok(())
}

fn is_over(job: &Value) -> bool {
    ["Complete", "Failed"].iter().any(|of_type| condition_status(job, of_type) == "True")
}

/// Without `completions`, the first success ends the job once no pod is active.
fn verdict(spec: &Value, counts: Counts) -> Verdict {
    let parallelism = number(spec, "/parallelism").unwrap_or(1);
    let completions = number(spec, "/completions");
    if counts.failed > number(spec, "/backoffLimit").unwrap_or(DEFAULT_BACKOFF_LIMIT) {
        return Verdict::Failed;
    }
    let wanted = match completions {
        Some(completions) if counts.succeeded >= completions => return Verdict::Complete,
        Some(completions) => parallelism.min(completions - counts.succeeded),
        None if counts.succeeded > 0 && counts.active == 0 => return Verdict::Complete,
        None if counts.succeeded > 0 => counts.active.min(parallelism),
        None => parallelism,
    };
    let wanted = if spec["suspend"] == true { 0 } else { wanted };
    Verdict::Run(wanted - counts.active)
}

fn write_status(job: &mut Value, counts: Counts, verdict: Verdict, now: Time) {
    if text(job, "/status/startTime").is_empty() && job["spec"]["suspend"] != true {
        put(job, &["status", "startTime"], json!(timestamp(now)));
    }
    let counted = [
        ("active", counts.active),
        ("ready", counts.ready),
        ("succeeded", counts.succeeded),
        ("failed", counts.failed),
    ];
    for (field, count) in counted {
        put(job, &["status", field], json!(count));
    }
    let condition = match verdict {
        Verdict::Run(_) => return,
        Verdict::Complete => {
            put(job, &["status", "completionTime"], json!(timestamp(now)));
            json!({"type": "Complete", "status": "True", "reason": "CompletionsReached",
                "message": "Reached expected number of succeeded pods"})
        }
        Verdict::Failed => json!({"type": "Failed", "status": "True",
            "reason": "BackoffLimitExceeded",
            "message": "Job has reached the specified backoff limit"}),
    };
    set_condition(job, condition, now);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_runs_pods_within_its_parallelism_until_it_completes() {
        let counts = |active, succeeded, failed| Counts { active, ready: 0, succeeded, failed };
        let table = [
            (json!({}), counts(0, 0, 0), Verdict::Run(1)),
            (json!({"parallelism": 3, "completions": 5}), counts(0, 0, 0), Verdict::Run(3)),
            (json!({"parallelism": 3, "completions": 5}), counts(1, 3, 0), Verdict::Run(1)),
            (json!({"parallelism": 3, "completions": 5}), counts(0, 5, 2), Verdict::Complete),
            (json!({"parallelism": 1, "completions": 5}), counts(3, 0, 0), Verdict::Run(-2)),
            (json!({"parallelism": 2}), counts(1, 1, 0), Verdict::Run(0)),
            (json!({"parallelism": 2}), counts(0, 1, 0), Verdict::Complete),
            (json!({"completions": 2, "backoffLimit": 1}), counts(0, 0, 1), Verdict::Run(1)),
            (json!({"completions": 2, "backoffLimit": 1}), counts(0, 0, 2), Verdict::Failed),
            (json!({"suspend": true}), counts(1, 0, 0), Verdict::Run(-1)),
        ];
        for (spec, counts, expected) in table {
            assert_eq!(verdict(&spec, counts), expected, "{spec} {counts:?}");
        }
    }
}
