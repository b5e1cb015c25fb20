//! Pods with existing, reserved or provisioned volumes.

mod bad_objects;
mod binding;
mod faults;
mod meanwhile;
mod races;
mod restarts;
mod trouble;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::ListParams;
use sandbox::faults::Settings;
use sandbox::http::Server;
use serde_json::{Value, json};

use super::cluster::{
    Cluster, Kind, chart_rules, claim_of, is_bound, node_of, run as run_in_cluster,
    run_without_controllers, with_claims,
};
use super::daemon::Daemon;
use super::wait::eventually;

/// The access mode ReadWriteOncePod.
const ONE_POD: &str = "ReadWriteOncePod";
/// The access mode of all other claims.
const ONE_NODE: &str = "ReadWriteOnce";

/// Runs a test, and checks the final state.
fn run(test: impl AsyncFnOnce(&Cluster)) {
    run_in_cluster(async |cluster| {
        test(cluster).await;
        assert_bound_rightly(cluster).await;
        assert_explained(cluster).await;
    });
}

/// Runs a test in a cluster without a volume controller.
fn run_by_hand(test: impl AsyncFnOnce(&Cluster)) {
    run_without_controllers(async |cluster| {
        test(cluster).await;
        assert_bound_rightly(cluster).await;
        assert_explained(cluster).await;
    });
}

/// Runs a test in the sandbox, which can inject faults and delay provisioning.
fn run_in_sandbox(test: impl AsyncFnOnce(&Cluster, &Server)) {
    run(async |cluster| match cluster.sandbox() {
        None => eprintln!("skipped: only the sandbox injects faults"),
        Some(server) => test(cluster, server).await,
    });
}

/// Sets faults, in the notation of `loadmaster sandbox --fault`.
fn misbehave(server: &Server, faults: &[&str]) {
    let settings = faults.iter().fold(Settings::default(), |all, one| all.with(one).unwrap());
    server.set_faults(settings);
}

/// Checks that every bound claim has a volume of its own, which refers to it and has its access
/// modes.
async fn assert_bound_rightly(cluster: &Cluster) {
    let claims = cluster.claims().list(&ListParams::default()).await.unwrap().items;
    let mut taken = BTreeSet::new();
    for claim in claims.iter().filter(|claim| is_bound(claim)) {
        let spec = claim.spec.as_ref().unwrap();
        let name = spec.volume_name.as_deref().unwrap();
        assert!(taken.insert(name), "two claims have {name}");
        let volume = cluster.volumes().get(name).await.unwrap();
        assert_eq!(claim_of(&volume).unwrap().uid, claim.metadata.uid, "{name}");
        let modes = volume.spec.unwrap().access_modes.unwrap();
        let asked = spec.access_modes.iter().flatten();
        asked.for_each(|mode| assert!(modes.contains(mode), "{name} lacks {mode}"));
    }
}

/// Checks that every Pod has a Node, or a condition with a reason.
async fn assert_explained(cluster: &Cluster) {
    for pod in cluster.pods.list(&ListParams::default()).await.unwrap().items {
        if node_of(&pod).is_none() {
            let condition = cluster.rejected(pod.metadata.name.as_deref().unwrap()).await;
            assert!(condition.message.is_some_and(|message| !message.is_empty()));
        }
    }
}

/// Parameters of a class whose volumes are not provisioned during a test.
fn never() -> Value {
    json!({"sandbox/provisioning-seconds": "86400"})
}

/// Creates a Pod of one CPU with these claims.
async fn create_pod(cluster: &Cluster, name: &str, claims: &[&str]) -> Pod {
    cluster.create_pod(&with_claims(cluster.pod(name, 1), claims)).await
}

/// Creates a Pod with a claim of the same name, and that claim.
async fn create_pod_and_claim(cluster: &Cluster, name: &str, class: &str) -> Pod {
    cluster.add_claim(name, class).await;
    create_pod(cluster, name, &[name]).await
}

/// Starts a daemon with this time limit in seconds for binding volumes.
async fn start_impatient(cluster: &Cluster, seconds: u32) -> Daemon {
    Daemon::start_with(cluster, |config| {
        config["profiles"][0]["pluginConfig"] =
            json!([{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": seconds}}]);
    })
    .await
}

/// Kills a daemon, and starts another.
async fn restart(cluster: &Cluster, mut daemon: Daemon) -> Daemon {
    daemon.signal("KILL");
    daemon.ended().await;
    Daemon::start(cluster).await
}

/// Returns the full names of the volumes that are reserved for claims or bound to them.
async fn reserved_volumes(cluster: &Cluster) -> Vec<String> {
    let volumes = cluster.own_volumes().await.into_iter();
    volumes
        .filter(|volume| claim_of(volume).is_some())
        .filter_map(|own| own.metadata.name)
        .collect()
}
