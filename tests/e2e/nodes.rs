//! Changes of nodes and their effect on pods.

use serde_json::json;

use super::cluster::run;
use super::daemon::Daemon;

#[test]
fn pending_pod_is_bound_when_a_node_is_added() {
    run(async |cluster| {
        let _daemon = Daemon::start(cluster).await;
        cluster.create_pod(&cluster.pod("web", 1)).await;
        cluster.rejected("web").await;
        cluster.add_node("a", 1).await;
        assert_eq!(cluster.bound("web").await, cluster.node_name("a"));
    });
}

#[test]
fn deleted_node_gets_no_pods() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let _daemon = Daemon::start(cluster).await;
        cluster.create_pod(&cluster.pod("before", 1)).await;
        cluster.bound("before").await;
        cluster.delete_node("a").await;
        cluster.nodes_are_seen().await;
        cluster.create_pod(&cluster.pod("after", 2)).await;
        cluster.rejected("after").await;
        cluster.add_node("b", 2).await;
        assert_eq!(cluster.bound("after").await, cluster.node_name("b"));
    });
}

#[test]
fn uncordoned_node_gets_pods() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let _daemon = Daemon::start(cluster).await;
        cluster.patch_node("a", json!({"unschedulable": true})).await;
        cluster.nodes_are_seen().await;
        cluster.create_pod(&cluster.pod("web", 2)).await;
        let message = cluster.rejected("web").await.message.unwrap();
        assert!(message.contains("node(s) were unschedulable"), "{message}");
        cluster.patch_node("a", json!({"unschedulable": null, "taints": null})).await;
        cluster.bound("web").await;
    });
}

#[test]
fn node_gets_pods_when_its_taint_is_removed() {
    run(async |cluster| {
        let taint = json!([{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]);
        cluster.add_node_with("a", 4, json!({"taints": taint})).await;
        let _daemon = Daemon::start(cluster).await;
        cluster.create_pod(&cluster.pod("web", 2)).await;
        let message = cluster.rejected("web").await.message.unwrap();
        assert!(message.contains("node(s) had untolerated taint(s)"), "{message}");
        cluster.patch_node("a", json!({"taints": null})).await;
        cluster.bound("web").await;
    });
}

#[test]
fn grown_node_gets_the_pod_that_did_not_fit() {
    run(async |cluster| {
        cluster.add_node("a", 1).await;
        let _daemon = Daemon::start(cluster).await;
        cluster.create_pod(&cluster.pod("web", 2)).await;
        cluster.rejected("web").await;
        cluster.resize_node("a", 2).await;
        cluster.bound("web").await;
    });
}
