//! Volumes that are not provisioned, and objects that disappear while a pod waits for its volumes.

use super::*;

#[test]
fn failed_provisioning_is_reported_and_retried() {
    run_in_sandbox(async |cluster, _| {
        cluster.add_node("a", 4).await;
        let parameters =
            json!({"sandbox/provisioning-seconds": "1", "sandbox/provisioning-failures": "1"});
        cluster.add_class("flaky", Kind::Provisioned, parameters).await;
        let daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "flaky").await;
        cluster
            .has_condition("data", "binding volumes: provisioning failed for PVC \"data\"")
            .await;
        cluster.claim_bound("data").await;
        cluster.bound("data").await;
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 0.0).await;
    });
}

#[test]
fn provisioning_times_out_and_a_late_volume_is_used() {
    run_by_hand(async |cluster| {
        for node in ["a", "b"] {
            cluster.add_node(node, 1).await;
        }
        cluster.add_class("fast", Kind::Provisioned, never()).await;
        let _daemon = start_impatient(cluster, 1).await;
        create_pod_and_claim(cluster, "data", "fast").await;
        let node = cluster.selected_node("data").await;
        cluster.has_condition("data", "binding volumes: context deadline exceeded").await;
        assert_eq!(cluster.selected_node("data").await, node, "the volume may still come");
        cluster.claim_bound("data").await;
        assert_eq!(cluster.bound("data").await, node);
    });
}

#[test]
fn pod_moves_when_provisioning_fails_and_its_node_is_full() {
    run_by_hand(async |cluster| {
        cluster.add_node("a", 1).await;
        cluster.add_class("fast", Kind::Provisioned, json!({})).await;
        let _daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "fast").await;
        assert_eq!(cluster.selected_node("data").await, cluster.node_name("a"));
        cluster.patch_node("a", json!({"unschedulable": true})).await;
        cluster.add_node("b", 1).await;
        cluster.deselect_node("data").await;
        let b = cluster.node_name("b");
        eventually("the other node is selected", async || {
            (cluster.selected_node("data").await == b).then_some(())
        })
        .await;
        cluster.claim_bound("data").await;
        assert_eq!(cluster.bound("data").await, b);
    });
}

#[test]
fn claim_deleted_during_provisioning_leaks_no_room() {
    run_by_hand(async |cluster| {
        cluster.add_node("a", 1).await;
        cluster.add_class("fast", Kind::Provisioned, never()).await;
        let daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "fast").await;
        cluster.selected_node("data").await;
        cluster.delete_claim("data").await;
        cluster.has_condition("data", "persistentvolumeclaim \"data\" not found").await;
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 0.0).await;

        cluster.add_claim("data", "fast").await;
        cluster.selected_node("data").await;
        cluster.claim_bound("data").await;
        cluster.bound("data").await;
    });
}

#[test]
fn volume_lost_before_binding_is_replaced() {
    run_by_hand(async |cluster| {
        cluster.add_node("a", 1).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        cluster.add_volume(cluster.volume("first", "local", &[])).await;
        let _daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "local").await;
        cluster.reserved_for("data").await;
        cluster.delete_volume("first").await;
        cluster.has_condition("data", "didn't find available persistent volumes to bind").await;
        cluster.add_volume(cluster.volume("second", "local", &[])).await;
        assert_eq!(cluster.claim_bound("data").await, cluster.storage_name("second"));
        cluster.bound("data").await;
    });
}

#[test]
fn lost_volume_is_reported_to_the_pods() {
    run(async |cluster| {
        if !cluster.runs_controllers() {
            return eprintln!("skipped: no controller detects lost volumes");
        }
        cluster.add_node("a", 1).await;
        cluster.add_bound_claim("data", ONE_NODE).await;
        cluster.delete_volume("data").await;
        eventually("the claim is lost", async || {
            let phase = cluster.claims().get("data").await.ok()?.status?.phase?;
            (phase == "Lost").then_some(())
        })
        .await;
        let _daemon = Daemon::start(cluster).await;
        create_pod(cluster, "web", &["data"]).await;
        cluster.has_condition("web", "bound to non-existent persistentvolume").await;
    });
}

#[test]
fn reserved_volume_keeps_its_claim_when_the_node_is_deleted() {
    run_by_hand(async |cluster| {
        cluster.add_node("a", 1).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        for name in ["first", "second"] {
            cluster.add_volume(cluster.volume(name, "local", &[])).await;
        }
        let _daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "local").await;
        let volume = cluster.reserved_for("data").await;
        cluster.delete_node("a").await;
        cluster.rejected("data").await;
        cluster.add_node("b", 1).await;
        assert_eq!(cluster.claim_bound("data").await, volume);
        assert_eq!(cluster.bound("data").await, cluster.node_name("b"));
    });
}

#[test]
fn pod_moves_when_its_selected_node_is_deleted() {
    run_in_sandbox(async |cluster, _| {
        cluster.add_node("a", 1).await;
        let parameters = json!({"sandbox/provisioning-seconds": "2"});
        cluster.add_class("slow", Kind::Provisioned, parameters).await;
        let _daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "slow").await;
        cluster.selected_node("data").await;
        cluster.delete_node("a").await;
        cluster.add_node("b", 1).await;
        assert_eq!(cluster.bound("data").await, cluster.node_name("b"));
    });
}

#[test]
fn deleted_waiting_pod_frees_its_room_and_volume() {
    run_by_hand(async |cluster| {
        cluster.add_node("a", 1).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        cluster.add_volume(cluster.volume("only", "local", &[])).await;
        let daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "local").await;
        cluster.reserved_for("data").await;
        cluster.delete_pod("data").await;
        create_pod(cluster, "next", &["data"]).await;
        assert_eq!(cluster.claim_bound("data").await, cluster.storage_name("only"));
        cluster.bound("next").await;
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 0.0).await;
    });
}
