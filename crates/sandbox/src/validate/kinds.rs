//! The rules of kinds other than pods.

use framework::{LabelSelector, Labels, api};
use serde::Deserialize;
use serde_json::Value;

use super::field::{Faults, Field};
use super::{names, pod, scheduling};

/// Highest priority of a class without a reserved name.
const USER_PRIORITY_MAX: i64 = 1_000_000_000;

/// Checks Nodes.
pub(super) fn node(node: &Field<'_>, faults: &mut Faults) {
    let taints = node.at(&["spec", "taints"]);
    let mut seen = Vec::new();
    for taint in taints.items() {
        scheduling::taint(&taint, faults);
        let identity = (taint.child("key").text(), taint.child("effect").text());
        if seen.contains(&identity) {
            faults.duplicate(&taint);
        }
        seen.push(identity);
    }
}

/// Checks that an event is in the namespace of its object.
pub(super) fn event(event: &Field<'_>, faults: &mut Faults) {
    let about = event.at(&["involvedObject", "namespace"]);
    let namespace = event.at(&["metadata", "namespace"]).text();
    let fits = match about.text() {
        "" => namespace == "default" || namespace == "kube-system",
        about => about == namespace,
    };
    if !fits {
        faults.invalid(&about, "does not match event.namespace");
    }
}

/// Checks a change of an event through `events.k8s.io`, which may only change the series. Events
/// are stored in the form of the core group.
pub(super) fn event_change(old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    let immutable = [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reportingComponent",
        "reportingInstance",
        "action",
        "type",
        "eventTime",
        "related",
    ];
    for field in immutable {
        faults.immutable(&old.child(field), &new.child(field));
    }
}

/// Checks ReplicaSets, Deployments, StatefulSets and DaemonSets.
pub(super) fn workload(object: &Field<'_>, faults: &mut Faults) {
    let spec = object.child("spec");
    faults.non_negative(&spec.child("replicas"));
    faults.non_negative(&spec.child("minReadySeconds"));
    let (selector, template) = (spec.child("selector"), spec.child("template"));
    if !selector.is_set() {
        faults.required(&selector, "");
    } else {
        scheduling::label_selector(&selector, faults);
        if selector.is_empty() {
            faults.invalid(&selector, "empty selector is invalid for deployment");
        } else if !selects(&selector, &template) {
            let labels = template.at(&["metadata", "labels"]);
            faults.invalid(&labels, "`selector` does not match template `labels`");
        }
    }
    names::labels(&template.at(&["metadata", "labels"]), faults);
    let restart_policy = template.at(&["spec", "restartPolicy"]);
    if matches!(restart_policy.text(), "OnFailure" | "Never") {
        faults.one_of(&restart_policy, &["Always"]);
    }
}

fn selects(selector: &Field<'_>, template: &Field<'_>) -> bool {
    let Ok(selector) = api::LabelSelector::deserialize(selector.value()) else { return false };
    let labels = template.at(&["metadata", "labels"]);
    let labels: Labels = labels.entries().map(|(key, value)| (key, value.text())).collect();
    LabelSelector::compile(Some(&selector)).is_ok_and(|selector| selector.matches(&labels))
}

/// Checks Jobs.
pub(super) fn job(job: &Field<'_>, faults: &mut Faults) {
    let spec = job.child("spec");
    for number in ["parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"] {
        faults.non_negative(&spec.child(number));
    }
    let pod_spec = spec.at(&["template", "spec"]);
    pod::spec(&pod_spec, faults);
    let restart_policy = pod_spec.child("restartPolicy");
    if !matches!(restart_policy.text(), "OnFailure" | "Never") {
        faults.required(&restart_policy, "valid values: \"OnFailure\", \"Never\"");
    }
}

/// Checks PodDisruptionBudgets.
pub(super) fn disruption_budget(budget: &Field<'_>, faults: &mut Faults) {
    let spec = budget.child("spec");
    let bounds = ["minAvailable", "maxUnavailable"].map(|bound| spec.child(bound));
    if bounds.iter().all(Field::is_set) {
        faults.invalid(&spec, "minAvailable and maxUnavailable cannot be both set");
    }
    for bound in &bounds {
        count_or_percentage(bound, faults);
    }
    scheduling::label_selector(&spec.child("selector"), faults);
    let policies = ["IfHealthyBudget", "AlwaysAllow"];
    faults.one_of(&spec.child("unhealthyPodEvictionPolicy"), &policies);
}

fn count_or_percentage(field: &Field<'_>, faults: &mut Faults) {
    faults.non_negative(field);
    let Value::String(text) = field.value() else { return };
    match text.strip_suffix('%').and_then(|number| number.parse::<u64>().ok()) {
        None => faults.invalid(field, PERCENTAGE),
        Some(0..=100) => {}
        Some(_) => faults.invalid(field, "must not be greater than 100%"),
    }
}

const PERCENTAGE: &str = "a valid percent string must be a numeric string followed by an ending \
     '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

/// Checks PriorityClasses.
pub(super) fn priority_class(class: &Field<'_>, faults: &mut Faults) {
    let (name, value) = (class.at(&["metadata", "name"]), class.child("value"));
    let is_system = matches!(name.text(), "system-cluster-critical" | "system-node-critical");
    if name.text().starts_with("system-") && !is_system {
        let why = "priority class names with 'system-' prefix are reserved for system use only";
        faults.forbidden(&name, why);
    }
    if !is_system && value.number().is_some_and(|number| number > USER_PRIORITY_MAX) {
        let why =
            format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
        faults.forbidden(&value, &why);
    }
    faults.one_of(&class.child("preemptionPolicy"), &["PreemptLowerPriority", "Never"]);
}

/// Checks Leases.
pub(super) fn lease(lease: &Field<'_>, faults: &mut Faults) {
    let spec = lease.child("spec");
    let duration = spec.child("leaseDurationSeconds");
    if duration.number().is_some_and(|seconds| seconds <= 0) {
        faults.invalid(&duration, "must be greater than 0");
    }
    faults.non_negative(&spec.child("leaseTransitions"));
}

/// Checks RoleBindings and ClusterRoleBindings.
pub(super) fn role_binding(binding: &Field<'_>, faults: &mut Faults) {
    let role = binding.child("roleRef");
    faults.one_of(&role.child("kind"), &["Role", "ClusterRole"]);
    faults.require(&role.child("name"));
}

/// Checks Services.
pub(super) fn service(service: &Field<'_>, faults: &mut Faults) {
    let spec = service.child("spec");
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    faults.one_of(&spec.child("type"), &types);
    let ports = spec.child("ports");
    let portless =
        spec.child("clusterIP").text() == "None" || spec.child("type").text() == "ExternalName";
    if ports.is_empty() && !portless {
        faults.required(&ports, "");
    }
    names::labels(&spec.child("selector"), faults);
}
