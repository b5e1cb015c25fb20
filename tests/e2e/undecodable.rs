//! Objects of a shape that the scheduler cannot read, as a newer API server may send them. Only the
//! sandbox writes such objects.

use sandbox::http::Server;
use sandbox::resources::RESOURCECLAIMS;
use serde_json::json;

use super::cluster::{Cluster, run_without_controllers};
use super::daemon::Daemon;
use super::devices::explanation;

/// A node with one device, which the claim of the pod `first` gets.
async fn prepare(cluster: &Cluster) {
    cluster.add_device_class().await;
    cluster.add_node("a", 4).await;
    cluster.add_devices("a", 1).await;
    cluster.add_device_claim("taken").await;
    cluster.add_device_claim("waiting").await;
}

/// Changes the allocation of the claim to a shape that no version of the API has.
fn spoil(server: &Server, cluster: &Cluster) {
    server.with_store(|store, now| {
        let spoil = |claim: &mut serde_json::Value| {
            let devices = claim["status"]["allocation"]["devices"]["results"].take();
            claim["status"]["allocation"]["devices"] = json!({"results": {"all": devices}});
            Ok(())
        };
        store.modify(RESOURCECLAIMS, &cluster.name, "taken", now, spoil).unwrap();
    });
}

async fn assert_taken_and_reported(cluster: &Cluster, daemon: &Daemon, pod: &str) {
    let series =
        "loadmaster_undecodable_objects_total{resource=\"resourceclaims.resource.k8s.io\"}";
    daemon.counts(series, 1.0).await;
    let line = daemon.log.line("the last readable version stays").await;
    for part in ["/taken", "resourceclaims", "resourceVersion=", "status.allocation.devices"] {
        assert!(line.contains(part), "{line}");
    }
    cluster.create_pod(&cluster.pod_with_device_claim(pod, "waiting")).await;
    cluster.has_condition(pod, "cannot allocate all claims").await;
    cluster.create_pod(&cluster.pod(&format!("{pod}-plain"), 1)).await;
    cluster.bound(&format!("{pod}-plain")).await;
    assert!(daemon.probes.is_ready().await);
}

#[test]
fn claim_of_a_newer_shape_keeps_its_devices() {
    run_without_controllers(async |cluster| {
        let Some(server) = cluster.sandbox() else {
            return eprintln!("skipped: only the sandbox writes such objects");
        };
        prepare(cluster).await;
        let daemon = Daemon::start(cluster).await;
        cluster.create_pod(&cluster.pod_with_device_claim("first", "taken")).await;
        cluster.bound("first").await;
        spoil(server, cluster);
        assert_taken_and_reported(cluster, &daemon, "second").await;
        drop(daemon);
        let daemon = Daemon::start(cluster).await;
        assert_taken_and_reported(cluster, &daemon, "third").await;
        cluster.create_pod(&cluster.pod_with_device_claim("user", "taken")).await;
        // As for a claim that does not exist, PreEnqueue keeps the pod back without a condition.
        explanation(&daemon, cluster, "user", "cannot be decoded: status.allocation").await;
    });
}
