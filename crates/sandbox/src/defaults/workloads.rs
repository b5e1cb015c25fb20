//! Defaults of the kinds that create pods.

use serde_json::{Value, json};

use super::fill::{Object, default, defaults, ensure, get, items, text};

const REVISIONS: i64 = 10;

/// Sets the defaults of ReplicaSets and ReplicationControllers.
pub(super) fn replica_set(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else { return };
    default(spec, "replicas", 1);
    template(spec);
    status_numbers(object, &["replicas"]);
}

/// Sets the defaults of Deployments.
pub(super) fn deployment(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else { return };
    defaults(
        spec,
        [
            ("replicas", 1.into()),
            ("revisionHistoryLimit", REVISIONS.into()),
            ("progressDeadlineSeconds", 600.into()),
        ],
    );
    if let Some(strategy) = ensure(spec, "strategy") {
        default(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = ensure(strategy, "rollingUpdate")
        {
            defaults(rolling, [("maxUnavailable", "25%".into()), ("maxSurge", "25%".into())]);
        }
    }
    template(spec);
    ensure(object, "status");
}

/// Sets the defaults of StatefulSets.
pub(super) fn stateful_set(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else { return };
    defaults(
        spec,
        [
            ("replicas", 1.into()),
            ("podManagementPolicy", "OrderedReady".into()),
            ("revisionHistoryLimit", REVISIONS.into()),
        ],
    );
    if let Some(strategy) = ensure(spec, "updateStrategy") {
        default(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = ensure(strategy, "rollingUpdate")
        {
            default(rolling, "partition", 0);
        }
    }
    if let Some(retention) = ensure(spec, "persistentVolumeClaimRetentionPolicy") {
        defaults(retention, [("whenDeleted", "Retain".into()), ("whenScaled", "Retain".into())]);
    }
    template(spec);
    for claim in items(spec, "volumeClaimTemplates") {
        defaults(claim, [("apiVersion", "v1".into()), ("kind", "PersistentVolumeClaim".into())]);
        super::storage::claim(claim);
    }
    status_numbers(object, &["replicas", "availableReplicas"]);
}

/// Sets the defaults of DaemonSets.
pub(super) fn daemon_set(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else { return };
    default(spec, "revisionHistoryLimit", REVISIONS);
    if let Some(strategy) = ensure(spec, "updateStrategy") {
        default(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = ensure(strategy, "rollingUpdate")
        {
            defaults(rolling, [("maxUnavailable", 1.into()), ("maxSurge", 0.into())]);
        }
    }
    template(spec);
    let numbers =
        ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];
    status_numbers(object, &numbers);
}

/// Sets the defaults of Jobs.
pub(super) fn job(object: &mut Object) {
    let uid = get(object, "metadata").map(|metadata| text(metadata, "uid").to_owned());
    let name = get(object, "metadata").map(|metadata| text(metadata, "name").to_owned());
    let Some(spec) = ensure(object, "spec") else { return };
    job_spec(spec);
    if let (Some(uid), Some(name), None) = (uid, name, spec.get("manualSelector"))
        && !uid.is_empty()
    {
        job_selector(spec, &uid, &name);
    }
    ensure(object, "status");
}

fn job_spec(spec: &mut Object) {
    if spec.get("parallelism").is_none() {
        default(spec, "completions", 1);
    }
    defaults(
        spec,
        [
            ("parallelism", 1.into()),
            ("completionMode", "NonIndexed".into()),
            ("suspend", false.into()),
            ("podReplacementPolicy", "TerminatingOrFailed".into()),
        ],
    );
    let limit = if spec.contains_key("backoffLimitPerIndex") { i32::MAX } else { 6 };
    default(spec, "backoffLimit", limit);
    template(spec);
}

/// Writes the selector of a job, which is its UID.
fn job_selector(spec: &mut Object, uid: &str, name: &str) {
    let labels = [
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
        ("controller-uid", uid),
        ("job-name", name),
    ];
    if let Some(selected) = ensure(spec, "selector").and_then(|it| ensure(it, "matchLabels")) {
        default(selected, labels[0].0, uid);
    }
    let metadata = ensure(spec, "template").and_then(|template| ensure(template, "metadata"));
    if let Some(pod_labels) = metadata.and_then(|metadata| ensure(metadata, "labels")) {
        for (key, value) in labels {
            default(pod_labels, key, value);
        }
    }
}

/// Sets the defaults of CronJobs.
pub(super) fn cron_job(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else { return };
    defaults(
        spec,
        [
            ("concurrencyPolicy", "Allow".into()),
            ("suspend", false.into()),
            ("successfulJobsHistoryLimit", 3.into()),
            ("failedJobsHistoryLimit", 1.into()),
        ],
    );
    if let Some(job) = get(spec, "jobTemplate").and_then(|template| ensure(template, "spec")) {
        job_spec(job);
    }
    ensure(object, "status");
}

/// Sets the defaults of PodTemplates, and of kinds with a pod template in a field.
pub(super) fn template(object: &mut Object) {
    let Some(template) = get(object, "template") else { return };
    ensure(template, "metadata");
    if let Some(spec) = ensure(template, "spec") {
        super::pod::pod_spec(spec);
    }
}

fn status_numbers(object: &mut Object, fields: &[&str]) {
    if let Some(status) = ensure(object, "status") {
        for field in fields {
            default(status, field, 0);
        }
    }
}

/// Sets the defaults of PodDisruptionBudgets.
pub(super) fn disruption_budget(object: &mut Object) {
    ensure(object, "spec");
    let numbers = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
    status_numbers(object, &numbers);
}

/// Sets the defaults of Events in the form of the core group, in which both groups are stored.
pub(super) fn event(object: &mut Object) {
    defaults(
        object,
        [
            ("involvedObject", json!({})),
            ("source", json!({})),
            ("firstTimestamp", Value::Null),
            ("lastTimestamp", Value::Null),
            ("eventTime", Value::Null),
            ("reportingComponent", "".into()),
            ("reportingInstance", "".into()),
        ],
    );
}
