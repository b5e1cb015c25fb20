//! The scheduler is killed at each step of binding volumes, and restarted.

use super::*;

#[test]
fn after_a_volume_is_reserved() {
    run_by_hand(async |cluster| {
        for node in ["a", "b"] {
            cluster.add_node(node, 1).await;
        }
        cluster.add_class("local", Kind::Static, json!({})).await;
        for node in ["a", "b"] {
            cluster.add_volume(cluster.volume(node, "local", &[node])).await;
        }
        let daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "local").await;
        let volume = cluster.reserved_for("data").await;
        let _restarted = restart(cluster, daemon).await;
        assert_eq!(cluster.claim_bound("data").await, volume);
        assert_eq!(cluster.bound("data").await, volume, "each volume has the name of its node");
        assert_eq!(reserved_volumes(cluster).await, [volume]);
    });
}

#[test]
fn after_a_node_is_selected() {
    run_by_hand(async |cluster| {
        for node in ["a", "b"] {
            cluster.add_node(node, 1).await;
        }
        cluster.add_class("fast", Kind::Provisioned, json!({})).await;
        let daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "fast").await;
        let node = cluster.selected_node("data").await;
        let _restarted = restart(cluster, daemon).await;
        cluster.claim_bound("data").await;
        assert_eq!(cluster.bound("data").await, node);
    });
}

/// Class, volumes and claims `first` and `second`, and the Pod `web` with both claims.
async fn create_pod_with_two_claims(cluster: &Cluster) {
    cluster.add_node("a", 1).await;
    cluster.add_class("local", Kind::Static, json!({})).await;
    for (name, size) in [("first", "1Gi"), ("second", "2Gi")] {
        let mut volume = cluster.volume(name, "local", &[]);
        volume["spec"]["capacity"]["storage"] = json!(size);
        cluster.add_volume(volume).await;
        let mut claim = cluster.claim(name, "local", ONE_NODE);
        claim["spec"]["resources"]["requests"]["storage"] = json!(size);
        cluster.create_claim(claim).await;
    }
    create_pod(cluster, "web", &["first", "second"]).await;
}

#[test]
fn between_two_volumes_of_a_pod() {
    run_in_sandbox(async |cluster, server| {
        let daemon = Daemon::start(cluster).await;
        let second = format!("only-path=/persistentvolumes/{}", cluster.storage_name("second"));
        misbehave(server, &["errors=1", "only-methods=PATCH", &second]);
        create_pod_with_two_claims(cluster).await;
        cluster.claim_bound("first").await;
        cluster.rejected("web").await;
        let daemon = restart(cluster, daemon).await;
        misbehave(server, &[]);
        assert_eq!(cluster.claim_bound("second").await, cluster.storage_name("second"));
        cluster.bound("web").await;
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 0.0).await;
    });
}

#[test]
fn before_the_pod_is_bound() {
    run_in_sandbox(async |cluster, server| {
        let daemon = Daemon::start(cluster).await;
        misbehave(server, &["throttling=1", "only-methods=POST", "only-path=/binding"]);
        create_pod_with_two_claims(cluster).await;
        for claim in ["first", "second"] {
            cluster.claim_bound(claim).await;
        }
        let _restarted = restart(cluster, daemon).await;
        misbehave(server, &[]);
        cluster.bound("web").await;
        assert_eq!(reserved_volumes(cluster).await.len(), 2);
    });
}

#[test]
fn while_many_pods_wait_for_their_volumes() {
    run_in_sandbox(async |cluster, _| {
        cluster.add_node("a", 40).await;
        let parameters = json!({"sandbox/provisioning-seconds": "2"});
        cluster.add_class("slow", Kind::Provisioned, parameters).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        let daemon = Daemon::start(cluster).await;
        for number in 0..20 {
            let (made, there) = (format!("made-{number}"), format!("there-{number}"));
            cluster.add_volume(cluster.volume(&there, "local", &[])).await;
            create_pod_and_claim(cluster, &made, "slow").await;
            create_pod_and_claim(cluster, &there, "local").await;
        }
        let daemon = restart(cluster, daemon).await;
        cluster.bound_pods(40).await;
        assert_eq!(reserved_volumes(cluster).await.len(), 20);
        cluster.assert_bound_once().await;
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 0.0).await;
    });
}
