//! Pods from creation to binding.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSchedulingGate};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, node_of, run, uid};
use super::daemon::Daemon;

/// A Pod with a scheduling gate.
fn gated(mut pod: Pod) -> Pod {
    let gate = PodSchedulingGate { name: "loadmaster.e2e/wait".to_owned() };
    pod.spec.as_mut().unwrap().scheduling_gates = Some(vec![gate]);
    pod
}

/// A Pod of another scheduler.
fn of_another(mut pod: Pod) -> Pod {
    pod.spec.as_mut().unwrap().scheduler_name = Some("somebody-else".to_owned());
    pod
}

async fn remove_gates(cluster: &Cluster, pod: &str) {
    let patch = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
    cluster.pods.patch(pod, &PatchParams::default(), &patch).await.unwrap();
}

/// Checks that no node has more of these Pods, of one CPU each, than CPUs.
fn assert_not_overcommitted(pods: &[Pod], cpus: usize) {
    let mut nodes = BTreeMap::new();
    for node in pods.iter().filter_map(node_of) {
        *nodes.entry(node).or_insert(0) += 1;
    }
    assert!(nodes.values().all(|pods| *pods <= cpus), "{nodes:?}");
}

/// The other tests read nodes and pods in protobuf.
#[test]
fn pod_is_bound_where_json_is_configured() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let json = |config: &mut Value| {
            config["clientConnection"]["contentType"] = "application/json".into();
        };
        let _daemon = Daemon::start_with(cluster, json).await;
        cluster.create_pod(&cluster.pod("web", 1)).await;
        assert_eq!(cluster.bound("web").await, cluster.node_name("a"));
    });
}

#[test]
fn pod_is_bound_and_gets_an_event() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let _daemon = Daemon::start(cluster).await;
        let pod = cluster.create_pod(&cluster.pod("web", 1)).await;
        let node = cluster.bound("web").await;
        assert_eq!(node, cluster.node_name("a"));

        let [event] = cluster.events(&pod, "Scheduled").await.try_into().unwrap();
        let note = format!("Successfully assigned {}/web to {node}", cluster.name);
        assert_eq!(event.note, Some(note));
        assert_eq!(event.type_.as_deref(), Some("Normal"));
        assert_eq!(event.action.as_deref(), Some("Binding"));
        assert_eq!(event.reporting_controller.as_ref(), Some(&cluster.name));
        let instance = event.reporting_instance.unwrap();
        assert!(instance.starts_with(&format!("{}-", cluster.name)), "{instance}");
        let regarding = event.regarding.unwrap();
        assert_eq!(
            (regarding.kind.as_deref(), regarding.name.as_deref(), regarding.namespace),
            (Some("Pod"), Some("web"), Some(cluster.name.clone()))
        );
    });
}

#[test]
fn unschedulable_pod_gets_a_reason_and_is_bound_when_a_node_is_added() {
    run(async |cluster| {
        cluster.add_node("small", 1).await;
        let _daemon = Daemon::start(cluster).await;
        let pod = cluster.create_pod(&cluster.pod("web", 2)).await;
        let condition = cluster.rejected("web").await;
        assert_eq!(condition.reason.as_deref(), Some("Unschedulable"));
        // Other tests may have nodes, which the pod does not select.
        let message = condition.message.unwrap();
        assert!(message.starts_with("0/"), "{message}");
        assert!(message.contains(" nodes are available: 1 Insufficient cpu"), "{message}");
        let [event] = cluster.events(&pod, "FailedScheduling").await.try_into().unwrap();
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert!(event.note.unwrap().contains("1 Insufficient cpu"));

        cluster.add_node("large", 2).await;
        assert_eq!(cluster.bound("web").await, cluster.node_name("large"));
    });
}

#[test]
fn gated_pod_is_bound_when_its_gates_are_removed() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let _daemon = Daemon::start(cluster).await;
        cluster.create_pod(&gated(cluster.pod("gated", 1))).await;
        // The scheduler sees the pods in this order.
        cluster.create_pod(&cluster.pod("free", 1)).await;
        cluster.bound("free").await;
        let waiting = cluster.rejected("gated").await;
        assert_eq!(waiting.reason.as_deref(), Some("SchedulingGated"));
        assert_eq!(node_of(&cluster.pods.get("gated").await.unwrap()), None);

        remove_gates(cluster, "gated").await;
        cluster.bound("gated").await;
    });
}

#[test]
fn pods_of_other_schedulers_are_ignored_and_count_on_their_nodes() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let _daemon = Daemon::start(cluster).await;
        cluster.create_pod(&of_another(cluster.pod("theirs", 3))).await;
        cluster.bind("theirs", "a").await;
        cluster.create_pod(&of_another(cluster.pod("pending", 1))).await;
        cluster.create_pod(&cluster.pod("large", 2)).await;
        cluster.create_pod(&cluster.pod("small", 1)).await;

        cluster.rejected("large").await;
        cluster.bound("small").await;
        assert_eq!(node_of(&cluster.pods.get("pending").await.unwrap()), None);
        cluster.delete_pod("theirs").await;
        cluster.bound("large").await;
    });
}

#[test]
fn pod_bound_by_another_client_stays_on_its_node() {
    run(async |cluster| {
        cluster.add_node_with("a", 2, json!({"unschedulable": true})).await;
        let _daemon = Daemon::start(cluster).await;
        cluster.create_pod(&cluster.pod("web", 2)).await;
        cluster.rejected("web").await;
        cluster.bind("web", "a").await;
        cluster.patch_node("a", json!({"unschedulable": null, "taints": null})).await;
        cluster.nodes_are_seen().await;
        cluster.create_pod(&cluster.pod("late", 1)).await;
        let message = cluster.rejected("late").await.message.unwrap();
        assert!(message.contains("1 Insufficient cpu"), "{message}");
        cluster.delete_pod("web").await;
        cluster.bound("late").await;
    });
}

#[test]
fn deleted_pending_pod_is_forgotten() {
    run(async |cluster| {
        cluster.add_node("a", 1).await;
        let daemon = Daemon::start(cluster).await;
        cluster.create_pod(&cluster.pod("rejected", 2)).await;
        cluster.create_pod(&gated(cluster.pod("gated", 1))).await;
        cluster.rejected("rejected").await;
        cluster.delete_pod("rejected").await;
        cluster.delete_pod("gated").await;
        cluster.create_pod(&cluster.pod("next", 1)).await;
        cluster.bound("next").await;
        for queue in ["active", "backoff", "unschedulable", "gated"] {
            daemon.counts(&format!("scheduler_pending_pods{{queue=\"{queue}\"}}"), 0.0).await;
        }
    });
}

#[test]
fn new_pod_of_the_same_name_is_bound() {
    run(async |cluster| {
        cluster.add_node("a", 2).await;
        let _daemon = Daemon::start(cluster).await;
        let mut before = None;
        for _ in 0..5 {
            let pod = cluster.create_pod(&cluster.pod("web", 2)).await;
            assert_ne!(Some(uid(&pod)), before.as_ref().map(uid));
            assert_eq!(cluster.bound("web").await, cluster.node_name("a"));
            cluster.events(&pod, "Scheduled").await;
            cluster.delete_pod("web").await;
            before = Some(pod);
        }
    });
}

#[test]
fn rejected_pod_replaced_by_a_fitting_one_is_bound() {
    run(async |cluster| {
        cluster.add_node("a", 2).await;
        let _daemon = Daemon::start(cluster).await;
        cluster.create_pod(&cluster.pod("web", 3)).await;
        cluster.rejected("web").await;
        cluster.delete_pod("web").await;
        cluster.create_pod(&cluster.pod("web", 2)).await;
        cluster.bound("web").await;
    });
}

#[test]
fn hundred_pods_fill_nodes_without_overcommitting() {
    run(async |cluster| {
        for node in ["a", "b", "c", "d"] {
            cluster.add_node(node, 25).await;
        }
        let daemon = Daemon::start(cluster).await;
        cluster.create_pods("web", 101).await;
        let pods = cluster.bound_pods(100).await;
        assert_not_overcommitted(&pods, 25);
        let profile = &cluster.name;
        let scheduled = format!(
            "scheduler_schedule_attempts_total{{profile=\"{profile}\",result=\"scheduled\"}}"
        );
        daemon.counts(&scheduled, 100.0).await;
        cluster.assert_bound_once().await;
        assert_eq!(cluster.bound_pods(100).await.len(), 100, "there is no room for one more");
    });
}
