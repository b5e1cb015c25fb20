//! Dangling references and invalid objects: the affected pods get a reason, and others are not
//! blocked.

use sandbox::resources::{PERSISTENTVOLUMES, Resource, STORAGECLASSES};

use super::*;

/// Creates the Pod `good`, and checks that it is bound.
async fn assert_others_are_bound(cluster: &Cluster) {
    cluster.add_bound_claim("good", ONE_NODE).await;
    create_pod(cluster, "good", &["good"]).await;
    cluster.bound("good").await;
}

#[test]
fn pod_waits_for_a_missing_claim() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let _daemon = Daemon::start(cluster).await;
        create_pod(cluster, "web", &["data"]).await;
        cluster.has_condition("web", "persistentvolumeclaim \"data\" not found").await;
        assert_others_are_bound(cluster).await;
        cluster.add_bound_claim("data", ONE_NODE).await;
        cluster.bound("web").await;
    });
}

#[test]
fn pod_waits_for_a_missing_class() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let _daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "late").await;
        cluster.has_condition("data", "pod has unbound immediate PersistentVolumeClaims").await;
        assert_others_are_bound(cluster).await;
        cluster.add_class("late", Kind::Static, json!({})).await;
        cluster.add_volume(cluster.volume("disk", "late", &[])).await;
        assert_eq!(cluster.claim_bound("data").await, cluster.storage_name("disk"));
        cluster.bound("data").await;
    });
}

#[test]
fn pod_waits_for_a_deleted_class() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        let _daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "local").await;
        cluster.has_condition("data", "didn't find available persistent volumes to bind").await;
        cluster.delete_class("local").await;
        // The deletion of a class wakes no pod, and the watch of nodes may be ahead of that of
        // classes.
        eventually("the pod waits for the class", async || {
            cluster.add_node("b", 4).await;
            let message = cluster.rejected("data").await.message?;
            if message.contains("pod has unbound immediate PersistentVolumeClaims") {
                return Some(());
            }
            cluster.delete_node("b").await;
            None
        })
        .await;
        assert_others_are_bound(cluster).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        cluster.add_volume(cluster.volume("disk", "local", &[])).await;
        cluster.claim_bound("data").await;
        cluster.bound("data").await;
    });
}

#[test]
fn pod_waits_for_the_missing_volume_of_its_claim() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let _daemon = Daemon::start(cluster).await;
        let mut claim = cluster.claim("data", "none", ONE_NODE);
        claim["spec"]["storageClassName"] = json!("");
        claim["spec"]["volumeName"] = json!(cluster.storage_name("nowhere"));
        cluster.create_claim(claim).await;
        create_pod(cluster, "web", &["data"]).await;
        cluster.has_condition("web", "pod has unbound immediate PersistentVolumeClaims").await;
        assert_others_are_bound(cluster).await;
    });
}

#[test]
fn volume_reserved_for_a_deleted_claim_is_not_used() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        let mut volume = cluster.volume("disk", "local", &[]);
        volume["spec"]["claimRef"] = json!({"namespace": cluster.name, "name": "data",
            "uid": "00000000-0000-0000-0000-000000000001"});
        cluster.add_volume(volume).await;
        let _daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "local").await;
        cluster.has_condition("data", "didn't find available persistent volumes to bind").await;
        assert_others_are_bound(cluster).await;
    });
}

#[test]
fn unreachable_volumes_block_no_other_pod() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        cluster.add_volume(cluster.volume("far", "local", &["elsewhere"])).await;
        let _daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "local").await;
        cluster.has_condition("data", "didn't find available persistent volumes to bind").await;
        assert_others_are_bound(cluster).await;
        cluster.add_node("elsewhere", 4).await;
        assert_eq!(cluster.claim_bound("data").await, cluster.storage_name("far"));
        assert_eq!(cluster.bound("data").await, cluster.node_name("elsewhere"));
    });
}

/// Writes objects that the API server refuses today but may have accepted earlier.
fn spoil(server: &Server, kind: &'static Resource, name: &str, path: &str, value: &Value) {
    let spoil = |object: &mut Value| {
        *object.pointer_mut(path).unwrap() = value.clone();
        Ok(())
    };
    server.with_store(|store, now| store.modify(kind, "", name, now, spoil)).unwrap();
}

#[test]
fn invalid_objects_block_no_other_pod() {
    run_in_sandbox(async |cluster, server| {
        cluster.add_node("a", 4).await;
        cluster.add_class("odd", Kind::Provisioned, never()).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        cluster.add_capacity("odd", "a", "1Gi").await;
        for name in ["size", "operator", "good"] {
            cluster.add_volume(cluster.volume(name, "local", &["a"])).await;
        }
        let name = |name| cluster.storage_name(name);
        let odd = json!("one of a kind");
        let operator =
            "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/operator";
        for (kind, name, path) in [
            (PERSISTENTVOLUMES, name("size"), "/spec/capacity/storage"),
            (PERSISTENTVOLUMES, name("operator"), operator),
            (STORAGECLASSES, name("odd"), "/volumeBindingMode"),
        ] {
            spoil(server, kind, &name, path, &odd);
        }
        let _daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "waiting", "odd").await;
        cluster.has_condition("waiting", "pod has unbound immediate PersistentVolumeClaims").await;
        create_pod_and_claim(cluster, "data", "local").await;
        assert_eq!(cluster.claim_bound("data").await, name("good"));
        cluster.bound("data").await;
    });
}
