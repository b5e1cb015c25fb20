//! The status that a kubelet writes into pods.

use framework::Time;
use serde_json::{Value, json};

use super::admission::Rejection;
use crate::object::{entries, put, remove, set_condition, text, timestamp};

/// Writes the status of a rejected pod.
pub(super) fn reject(pod: &mut Value, rejection: &Rejection, now: Time) {
    put(pod, &["status", "phase"], json!("Failed"));
    put(pod, &["status", "reason"], json!(rejection.reason));
    let message = format!("Pod was rejected: {}", rejection.message);
    put(pod, &["status", "message"], json!(message));
    put(pod, &["status", "startTime"], json!(timestamp(now)));
}

/// Writes the status of a pod whose containers run and are ready.
pub(super) fn run(pod: &mut Value, pod_ip: &str, host_ip: &str, now: Time) {
    let started = timestamp(now);
    put(pod, &["status", "phase"], json!("Running"));
    put(pod, &["status", "startTime"], json!(started));
    for (field, list, address) in [("podIP", "podIPs", pod_ip), ("hostIP", "hostIPs", host_ip)] {
        if !address.is_empty() {
            put(pod, &["status", field], json!(address));
            put(pod, &["status", list], json!([{"ip": address}]));
        }
    }
    for of_type in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"] {
        set_pod_condition(pod, of_type, true, "", now);
    }
    let running = json!({"running": {"startedAt": started}});
    let over = completed(&started, &started);
    set_container_statuses(pod, |container, init| {
        let sidecar = container["restartPolicy"] == "Always";
        if init && !sidecar { (over.clone(), true) } else { (running.clone(), true) }
    });
}

/// Writes the status of a pod whose containers have succeeded.
pub(super) fn succeed(pod: &mut Value, now: Time) {
    let started = text(pod, "/status/startTime").to_owned();
    put(pod, &["status", "phase"], json!("Succeeded"));
    for (of_type, status) in [
        ("PodReadyToStartContainers", false),
        ("Initialized", true),
        ("Ready", false),
        ("ContainersReady", false),
    ] {
        let reason = if of_type == "PodReadyToStartContainers" { "" } else { "PodCompleted" };
        set_pod_condition(pod, of_type, status, reason, now);
    }
    let over = completed(&started, &timestamp(now));
    set_container_statuses(pod, |_, init| (over.clone(), init));
}

fn completed(started: &str, finished: &str) -> Value {
    json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": started,
        "finishedAt": finished}})
}

fn set_pod_condition(pod: &mut Value, of_type: &str, status: bool, reason: &str, now: Time) {
    let status = if status { "True" } else { "False" };
    let mut condition = json!({"type": of_type, "status": status, "lastProbeTime": null});
    if !reason.is_empty() {
        condition["reason"] = json!(reason);
    }
    set_condition(pod, condition, now);
}

/// Sets the status of all containers. `state` gets a container and whether it is an init container,
/// and returns its state and its readiness.
fn set_container_statuses(pod: &mut Value, state: impl Fn(&Value, bool) -> (Value, bool)) {
    let uid = text(pod, "/metadata/uid").to_owned();
    for (list, statuses, init) in [
        ("/spec/containers", "containerStatuses", false),
        ("/spec/initContainers", "initContainerStatuses", true),
    ] {
        let all: Vec<Value> = entries(pod, list)
            .map(|container| {
                let (state, ready) = state(container, init);
                container_status(container, &uid, state, ready)
            })
            .collect();
        if all.is_empty() {
            remove(pod, &["status"], statuses);
        } else {
            put(pod, &["status", statuses], json!(all));
        }
    }
}

fn container_status(container: &Value, uid: &str, state: Value, ready: bool) -> Value {
    let name = text(container, "/name");
    json!({
        "name": name,
        "image": container["image"],
        "imageID": "",
        "containerID": format!("sandbox://{uid}/{name}"),
        "started": state.get("running").is_some(),
        "ready": ready,
        "restartCount": 0,
        "lastState": {},
        "state": state,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::condition_status;

    fn pod() -> Value {
        json!({"metadata": {"uid": "u"}, "spec": {
            "initContainers": [{"name": "i", "image": "x"},
                {"name": "s", "image": "x", "restartPolicy": "Always"}],
            "containers": [{"name": "c", "image": "x"}]},
            "status": {"phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "True"}]}})
    }

    #[test]
    fn started_pod_is_running_and_ready_and_keeps_other_conditions() {
        let mut pod = pod();
        run(&mut pod, "10.0.0.1", "", Time::from_secs(5));
        assert_eq!(pod["status"]["phase"], "Running");
        assert_eq!(pod["status"]["podIPs"], json!([{"ip": "10.0.0.1"}]));
        assert!(pod["status"].get("hostIP").is_none());
        for of_type in ["PodScheduled", "Initialized", "Ready", "ContainersReady"] {
            assert_eq!(condition_status(&pod, of_type), "True", "{of_type}");
        }
        assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
        let init = &pod["status"]["initContainerStatuses"];
        assert_eq!(init[0]["state"]["terminated"]["reason"], "Completed");
        assert_eq!(init[1]["state"]["running"]["startedAt"], "1970-01-01T00:00:05Z");
    }

    #[test]
    fn finished_pod_has_succeeded_and_is_not_ready() {
        let mut pod = pod();
        run(&mut pod, "", "", Time::from_secs(5));
        succeed(&mut pod, Time::from_secs(9));
        assert_eq!(pod["status"]["phase"], "Succeeded");
        assert_eq!(condition_status(&pod, "Ready"), "False");
        let state = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(
            (text(state, "/startedAt"), text(state, "/finishedAt")),
            ("1970-01-01T00:00:05Z", "1970-01-01T00:00:09Z")
        );
    }

    #[test]
    fn rejected_pod_has_failed() {
        let mut pod = pod();
        let rejection = Rejection { reason: "OutOfcpu".to_owned(), message: "full".to_owned() };
        reject(&mut pod, &rejection, Time::ZERO);
        let status = &pod["status"];
        assert_eq!(
            (text(status, "/phase"), text(status, "/reason"), text(status, "/message")),
            ("Failed", "OutOfcpu", "Pod was rejected: full")
        );
    }
}
