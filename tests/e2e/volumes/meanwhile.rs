//! Objects that disappear or change after the node was selected and before the first write: a proxy
//! delays the requests of the scheduler until then.

use kube::api::{Patch, PatchParams};

use super::*;
use crate::e2e::proxy::{Proxy, Way};

const ASSUMED: &str = "scheduler_cache_size{type=\"assumed_pods\"}";

/// Runs an action after the Pod `web` was assigned the Node `a`, before the writes of the volume
/// `disk` or the claim `data` arrive.
async fn meanwhile(cluster: &Cluster, kind: Kind, deed: impl AsyncFnOnce()) -> (Daemon, Proxy) {
    cluster.add_node_with("a", 1, json!({"unschedulable": true})).await;
    cluster.add_class("class", kind, json!({})).await;
    if kind == Kind::Static {
        cluster.add_volume(cluster.volume("disk", "class", &[])).await;
    }
    let proxy = Proxy::start(&cluster.scheduler_kubeconfig().await, Way::Open).await;
    let daemon = Daemon::spawn(cluster, &proxy.kubeconfig).await;
    daemon.ready().await;
    cluster.add_claim("data", "class").await;
    create_pod(cluster, "web", &["data"]).await;
    cluster.has_condition("web", "node(s) were unschedulable").await;
    proxy.set(Way::Mute);
    cluster.patch_node("a", json!({"unschedulable": false})).await;
    daemon.counts(ASSUMED, 1.0).await;
    deed().await;
    proxy.set(Way::Open);
    (daemon, proxy)
}

#[test]
fn the_volume_is_deleted() {
    run_by_hand(async |cluster| {
        let deed = async || cluster.delete_volume("disk").await;
        let (daemon, _proxy) = meanwhile(cluster, Kind::Static, deed).await;
        cluster.has_condition("web", "didn't find available persistent volumes to bind").await;
        daemon.counts(ASSUMED, 0.0).await;
        cluster.add_volume(cluster.volume("another", "class", &[])).await;
        assert_eq!(cluster.claim_bound("data").await, cluster.storage_name("another"));
        cluster.bound("web").await;
    });
}

#[test]
fn the_volume_is_changed() {
    run_by_hand(async |cluster| {
        let deed = async || {
            let label = Patch::Merge(json!({"metadata": {"labels": {"team": "storage"}}}));
            let name = cluster.storage_name("disk");
            cluster.volumes().patch(&name, &PatchParams::default(), &label).await.unwrap();
        };
        let (_daemon, _proxy) = meanwhile(cluster, Kind::Static, deed).await;
        assert_eq!(cluster.claim_bound("data").await, cluster.storage_name("disk"));
        cluster.bound("web").await;
        let volume = cluster.volumes().get(&cluster.storage_name("disk")).await.unwrap();
        assert_eq!(volume.metadata.labels.unwrap()["team"], "storage");
    });
}

#[test]
fn the_volume_is_bound_to_another_claim() {
    run_by_hand(async |cluster| {
        let deed = async || {
            let other = cluster.create_claim(cluster.claim("other", "class", ONE_NODE)).await;
            let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": cluster.name, "name": "other", "uid": other.metadata.uid});
            let take = Patch::Merge(json!({"spec": {"claimRef": reference}}));
            let name = cluster.storage_name("disk");
            cluster.volumes().patch(&name, &PatchParams::default(), &take).await.unwrap();
        };
        let (_daemon, _proxy) = meanwhile(cluster, Kind::Static, deed).await;
        assert_eq!(cluster.claim_bound("other").await, cluster.storage_name("disk"));
        cluster.has_condition("web", "didn't find available persistent volumes to bind").await;
    });
}

#[test]
fn the_claim_is_deleted() {
    run_by_hand(async |cluster| {
        let deed = async || cluster.delete_claim("data").await;
        let (daemon, _proxy) = meanwhile(cluster, Kind::Provisioned, deed).await;
        cluster.has_condition("web", "persistentvolumeclaim \"data\" not found").await;
        daemon.counts(ASSUMED, 0.0).await;
        cluster.add_claim("data", "class").await;
        cluster.claim_bound("data").await;
        cluster.bound("web").await;
    });
}

#[test]
fn the_claim_is_replaced_by_another_of_its_name() {
    run_by_hand(async |cluster| {
        let deed = async || {
            cluster.delete_claim("data").await;
            cluster.add_claim("data", "class").await;
        };
        let (daemon, _proxy) = meanwhile(cluster, Kind::Provisioned, deed).await;
        cluster.claim_bound("data").await;
        cluster.bound("web").await;
        daemon.counts(ASSUMED, 0.0).await;
    });
}

#[test]
fn the_node_is_deleted() {
    run_by_hand(async |cluster| {
        let deed = async || cluster.delete_node("a").await;
        let (_daemon, _proxy) = meanwhile(cluster, Kind::Static, deed).await;
        let volume = cluster.reserved_for("data").await;
        cluster.add_node("b", 1).await;
        assert_eq!(cluster.claim_bound("data").await, volume);
        assert_eq!(cluster.bound("web").await, cluster.node_name("b"));
    });
}

#[test]
fn the_node_is_replaced_by_another_of_its_name_without_room() {
    run_by_hand(async |cluster| {
        let deed = async || cluster.delete_node("a").await;
        let (daemon, _proxy) = meanwhile(cluster, Kind::Static, deed).await;
        cluster.reserved_for("data").await;
        // A Node that returns before the scheduler looks counts as never deleted.
        daemon.counts(ASSUMED, 0.0).await;
        cluster.add_node("a", 0).await;
        cluster.has_condition("web", "Insufficient cpu").await;
        cluster.resize_node("a", 1).await;
        cluster.claim_bound("data").await;
        cluster.bound("web").await;
    });
}
