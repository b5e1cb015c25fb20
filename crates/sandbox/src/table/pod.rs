//! Columns of pods.

use framework::Time;
use serde_json::Value;

use super::columns::{AGE, Column, NAME, number, text_or};
use super::{age, descriptions};
use crate::object::{condition_status, entries, is_terminating, text};

const NONE: &str = "<none>";

/// The columns of pods.
pub(super) const COLUMNS: &[Column] = &[
    NAME,
    Column::text(
        "Ready",
        "The aggregate readiness state of this pod for accepting traffic.",
        |pod, _| ready(pod).into(),
    ),
    Column::text("Status", "The aggregate status of the containers in this pod.", |pod, _| {
        status(pod).into()
    }),
    Column::text(
        "Restarts",
        "The number of times the containers in this pod have been restarted and when the last \
         container in this pod has restarted.",
        |pod, now| restarts(pod, now).into(),
    ),
    AGE,
    Column::text(
        "IP",
        "podIP address allocated to the pod. Routable at least within the cluster. Empty if not \
         yet allocated.",
        |pod, _| text_or(pod, "/status/podIP", NONE).into(),
    )
    .wide(),
    Column::text("Node", descriptions::POD_NODE, |pod, _| {
        text_or(pod, "/spec/nodeName", NONE).into()
    })
    .wide(),
    Column::text("Nominated Node", descriptions::POD_NOMINATED_NODE, |pod, _| {
        text_or(pod, "/status/nominatedNodeName", NONE).into()
    })
    .wide(),
    Column::text("Readiness Gates", descriptions::POD_READINESS_GATES, |pod, _| {
        readiness_gates(pod).into()
    })
    .wide(),
];

/// Returns the sidecars: init containers that always restart.
fn sidecars(pod: &Value) -> impl Iterator<Item = &Value> {
    entries(pod, "/spec/initContainers").filter(|container| container["restartPolicy"] == "Always")
}

fn is_sidecar(pod: &Value, status: &Value) -> bool {
    sidecars(pod).any(|container| container["name"] == status["name"])
}

fn ready(pod: &Value) -> String {
    let total = entries(pod, "/spec/containers").count() + sidecars(pod).count();
    let is_ready = |status: &&Value| status["ready"] == true;
    let regular = entries(pod, "/status/containerStatuses")
        .filter(|status| status["state"]["running"].is_object());
    let sidecars = entries(pod, "/status/initContainerStatuses")
        .filter(|status| is_sidecar(pod, status) && status["started"] == true);
    format!("{}/{total}", regular.chain(sidecars).filter(is_ready).count())
}

/// Returns the status of the pod in a word.
fn status(pod: &Value) -> String {
    let phase = text(pod, "/status/phase");
    if is_terminating(pod) && text(pod, "/status/reason") == "NodeLost" {
        return "Unknown".to_owned();
    }
    if is_terminating(pod) && !matches!(phase, "Succeeded" | "Failed") {
        return "Terminating".to_owned();
    }
    let is_gated = entries(pod, "/status/conditions").any(|condition| {
        condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated"
    });
    let known = if is_gated { "SchedulingGated" } else { text_or(pod, "/status/reason", phase) };
    if let Some(initializing) = initializing(pod)
        && condition_status(pod, "Initialized") != "True"
    {
        return initializing;
    }
    of_containers(pod).unwrap_or_else(|| known.to_owned())
}

/// Returns the progress of initialization, `None` if it is complete.
fn initializing(pod: &Value) -> Option<String> {
    let total = entries(pod, "/spec/initContainers").count();
    for (index, status) in entries(pod, "/status/initContainerStatuses").enumerate() {
        let state = &status["state"];
        let terminated = &state["terminated"];
        if terminated["exitCode"] == 0 || is_sidecar(pod, status) && status["started"] == true {
            continue;
        }
        if terminated.is_object() {
            return Some(format!("Init:{}", end(terminated)));
        }
        let waiting = text(state, "/waiting/reason");
        return Some(match waiting {
            "" | "PodInitializing" => format!("Init:{index}/{total}"),
            reason => format!("Init:{reason}"),
        });
    }
    None
}

/// Returns the state of the containers; the first container takes precedence.
fn of_containers(pod: &Value) -> Option<String> {
    let mut running = false;
    let mut said = None;
    let statuses: Vec<&Value> = entries(pod, "/status/containerStatuses").collect();
    for status in statuses.into_iter().rev() {
        let state = &status["state"];
        let waiting = text(state, "/waiting/reason");
        if !waiting.is_empty() {
            said = Some(waiting.to_owned());
        } else if state["terminated"].is_object() {
            said = Some(end(&state["terminated"]));
        } else if status["ready"] == true && state["running"].is_object() {
            running = true;
        }
    }
    if said.as_deref() == Some("Completed") && running {
        let is_ready = condition_status(pod, "Ready") == "True";
        return Some(if is_ready { "Running" } else { "NotReady" }.to_owned());
    }
    said
}

/// Returns why a container ended.
fn end(terminated: &Value) -> String {
    match (text(terminated, "/reason"), number(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn restarts(pod: &Value, now: Time) -> String {
    let regular = entries(pod, "/status/containerStatuses");
    let init = entries(pod, "/status/initContainerStatuses");
    let counted: Vec<&Value> =
        regular.chain(init.filter(|status| is_sidecar(pod, status))).collect();
    let restarts: i64 = counted.iter().map(|status| number(status, "/restartCount")).sum();
    let ends = counted.iter().map(|status| &status["lastState"]["terminated"]["finishedAt"]);
    match ends.filter(|end| end.is_string()).max_by_key(|end| end.as_str()) {
        Some(last) if restarts > 0 => format!("{restarts} ({} ago)", age::since(last, now)),
        _ => restarts.to_string(),
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates: Vec<&str> =
        entries(pod, "/spec/readinessGates").map(|gate| text(gate, "/conditionType")).collect();
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = gates.iter().filter(|gate| condition_status(pod, gate) == "True").count();
    format!("{open}/{}", gates.len())
}
