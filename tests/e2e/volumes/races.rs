//! Pods that compete for one volume, claim or attachment.

use super::*;

/// Waits until one of two Pods has a Node; returns its name, and that of the other.
async fn winner_of<'a>(cluster: &Cluster, pods: [&'a str; 2]) -> [&'a str; 2] {
    let [pod] = &cluster.bound_pods(1).await[..] else { panic!("both have got it") };
    let is_first = pod.metadata.name.as_deref() == Some(pods[0]);
    if is_first { pods } else { [pods[1], pods[0]] }
}

#[test]
fn two_pods_race_for_one_volume() {
    run_by_hand(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        cluster.add_volume(cluster.volume("only", "local", &[])).await;
        let daemon = Daemon::start(cluster).await;
        let pods = ["data-0", "data-1"];
        for name in pods {
            create_pod_and_claim(cluster, name, "local").await;
        }
        let (won, lost) = tokio::select! {
            _ = cluster.reserved_for(pods[0]) => (pods[0], pods[1]),
            _ = cluster.reserved_for(pods[1]) => (pods[1], pods[0]),
        };
        cluster.has_condition(lost, "didn't find available persistent volumes to bind").await;
        assert_eq!(cluster.claim_bound(won).await, cluster.storage_name("only"));
        cluster.bound(won).await;

        cluster.add_volume(cluster.volume("another", "local", &[])).await;
        assert_eq!(cluster.claim_bound(lost).await, cluster.storage_name("another"));
        cluster.bound(lost).await;
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 0.0).await;
    });
}

#[test]
fn two_pods_race_for_the_last_attachment_of_a_node() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.limit_attachments("a", 1).await;
        let pods = ["data-0", "data-1"];
        for name in pods {
            cluster.add_bound_claim(name, ONE_NODE).await;
        }
        let _daemon = Daemon::start(cluster).await;
        for name in pods {
            create_pod(cluster, name, &[name]).await;
        }
        let [won, lost] = winner_of(cluster, pods).await;
        cluster.has_condition(lost, "node(s) exceed max volume count").await;
        cluster.delete_pod(won).await;
        cluster.bound(lost).await;
    });
}

#[test]
fn two_pods_race_for_a_read_write_once_pod_claim() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.add_bound_claim("data", ONE_POD).await;
        let _daemon = Daemon::start(cluster).await;
        let pods = ["web-0", "web-1"];
        for name in pods {
            create_pod(cluster, name, &["data"]).await;
        }
        let [won, lost] = winner_of(cluster, pods).await;
        cluster
            .has_condition(lost, "ReadWriteOncePod access mode already in-use by another pod")
            .await;
        cluster.delete_pod(won).await;
        cluster.bound(lost).await;
    });
}

#[test]
fn two_pods_with_one_waiting_claim_share_its_node() {
    run_by_hand(async |cluster| {
        for node in ["a", "b"] {
            cluster.add_node(node, 4).await;
        }
        cluster.add_class("fast", Kind::Provisioned, json!({})).await;
        cluster.add_claim("data", "fast").await;
        let _daemon = Daemon::start(cluster).await;
        for name in ["web-0", "web-1"] {
            create_pod(cluster, name, &["data"]).await;
        }
        let node = cluster.selected_node("data").await;
        cluster.claim_bound("data").await;
        for name in ["web-0", "web-1"] {
            assert_eq!(cluster.bound(name).await, node);
        }
    });
}

#[test]
fn each_of_many_pods_gets_one_of_as_many_volumes() {
    run(async |cluster| {
        for node in ["a", "b", "c"] {
            cluster.add_node(node, 10).await;
        }
        cluster.add_class("local", Kind::Static, json!({})).await;
        for number in 0..12 {
            let node = ["a", "b", "c"][number % 3];
            let volume = cluster.volume(&format!("disk-{number}"), "local", &[node]);
            cluster.add_volume(volume).await;
        }
        let daemon = Daemon::start(cluster).await;
        for number in 0..13 {
            create_pod_and_claim(cluster, &format!("data-{number}"), "local").await;
        }
        eventually("every volume is reserved", async || {
            (reserved_volumes(cluster).await.len() == 12).then_some(())
        })
        .await;
        for volume in cluster.own_volumes().await {
            cluster.claim_bound(claim_of(&volume).unwrap().name.as_deref().unwrap()).await;
        }
        assert_eq!(cluster.bound_pods(12).await.len(), 12);
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 0.0).await;
        cluster.assert_bound_once().await;
    });
}
