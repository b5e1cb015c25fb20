//! Volumes that are not made, and what disappears while a pod waits for its volumes.

use super::*;

#[test]
fn a_volume_that_cannot_be_made_is_told_and_asked_for_again() {
    run_in_sandbox(async |cluster, _| {
        cluster.add_node("a", 4).await;
        let parameters =
            json!({"sandbox/provisioning-seconds": "1", "sandbox/provisioning-failures": "1"});
        cluster.add_class("flaky", Kind::Provisioned, parameters).await;
        let daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "flaky").await;
        cluster.told("data", "binding volumes: provisioning failed for PVC \"data\"").await;
        cluster.claim_bound("data").await;
        cluster.bound("data").await;
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 0.0).await;
    });
}

#[test]
fn a_volume_that_is_never_made_is_given_up_and_used_when_it_comes() {
    run_by_hand(async |cluster| {
        for node in ["a", "b"] {
            cluster.add_node(node, 1).await;
        }
        cluster.add_class("fast", Kind::Provisioned, never()).await;
        let _daemon = start_impatient(cluster, 1).await;
        create_pod_and_claim(cluster, "data", "fast").await;
        let node = cluster.selected_node("data").await;
        cluster.told("data", "binding volumes: context deadline exceeded").await;
        assert_eq!(cluster.selected_node("data").await, node, "the volume may still come");
        cluster.claim_bound("data").await;
        assert_eq!(cluster.bound("data").await, node);
    });
}

#[test]
fn a_pod_goes_elsewhere_when_its_volume_cannot_be_made_on_the_node_and_that_is_full() {
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
fn a_claim_that_is_deleted_while_its_volume_is_made_takes_nothing_with_it() {
    run_by_hand(async |cluster| {
        cluster.add_node("a", 1).await;
        cluster.add_class("fast", Kind::Provisioned, never()).await;
        let daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "fast").await;
        cluster.selected_node("data").await;
        cluster.delete_claim("data").await;
        cluster.told("data", "persistentvolumeclaim \"data\" not found").await;
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 0.0).await;

        cluster.add_claim("data", "fast").await;
        cluster.selected_node("data").await;
        cluster.claim_bound("data").await;
        cluster.bound("data").await;
    });
}

#[test]
fn a_volume_that_is_lost_before_it_is_bound_is_replaced_by_another() {
    run_by_hand(async |cluster| {
        cluster.add_node("a", 1).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        cluster.add_volume(cluster.volume("first", "local", &[])).await;
        let _daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "local").await;
        cluster.reserved_for("data").await;
        cluster.delete_volume("first").await;
        cluster.told("data", "didn't find available persistent volumes to bind").await;
        cluster.add_volume(cluster.volume("second", "local", &[])).await;
        assert_eq!(cluster.claim_bound("data").await, cluster.storage_name("second"));
        cluster.bound("data").await;
    });
}

#[test]
fn a_claim_whose_volume_is_lost_tells_its_pods() {
    run(async |cluster| {
        if !cluster.runs_controllers() {
            return eprintln!("skipped: nobody notices here that volumes are lost");
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
        cluster.told("web", "bound to non-existent persistentvolume").await;
    });
}

#[test]
fn a_reserved_volume_stays_with_its_claim_when_the_node_is_deleted() {
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
fn a_pod_whose_selected_node_is_deleted_goes_elsewhere_once_the_provisioner_has_noticed() {
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
fn a_pod_that_is_deleted_while_it_waits_leaves_its_room_and_its_volume_to_the_next() {
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
