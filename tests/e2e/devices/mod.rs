//! Pods with devices.

mod conditions;
mod groups;
mod pools;
mod taint_rules;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use sandbox::faults::Settings;
use sandbox::http::Server;
use serde_json::{Value, json};

use super::cluster::{Cluster, devices_of, node_of, run as run_in_cluster, uid, users_of};
use super::daemon::Daemon;
use super::wait::eventually;

/// Number of Pods, and of devices, where all of them are used.
const PODS: usize = 6;

/// Runs a test in a cluster with the ResourceClaim controller, and checks the final state.
fn run(test: impl AsyncFnOnce(&Cluster)) {
    run_in_cluster(async |cluster| {
        if !cluster.runs_controllers() {
            eprintln!("skipped: the cluster has no ResourceClaim controller");
            return;
        }
        cluster.add_device_class().await;
        test(cluster).await;
        assert_allocated_once(cluster).await;
    });
}

/// Runs a test in the sandbox, which can inject faults.
fn run_in_sandbox(test: impl AsyncFnOnce(&Cluster, &Server)) {
    run(async |cluster| match cluster.sandbox() {
        None => eprintln!("skipped: only the sandbox injects faults"),
        Some(server) => test(cluster, server).await,
    });
}

/// Checks that no two claims have the same device.
async fn assert_allocated_once(cluster: &Cluster) {
    let mut taken = BTreeSet::new();
    for claim in cluster.all_device_claims().await {
        for device in devices_of(&claim) {
            assert!(taken.insert(device.clone()), "{device} is allocated twice");
        }
    }
}

/// Waits until every claim is reserved for a Pod that exists, and each bound Pod has `count`
/// devices on its node.
async fn assert_reserved_rightly(cluster: &Cluster, count: usize) {
    eventually("every bound pod has its devices", async || {
        let pods = cluster.pods.list(&ListParams::default()).await.ok()?.items;
        let claims = cluster.all_device_claims().await;
        let exists = |user: &String| pods.iter().any(|pod| uid(pod) == user);
        let is_right = |pod: &Pod| {
            let own =
                claims.iter().filter(|claim| users_of(claim).iter().any(|user| user == uid(pod)));
            let devices: Vec<String> = own.flat_map(devices_of).collect();
            let node = node_of(pod).unwrap_or_default();
            devices.len() == count && devices.iter().all(|device| device.starts_with(&node))
        };
        let are_users_alive = claims.iter().all(|claim| users_of(claim).iter().all(exists));
        let bound = pods.iter().filter(|pod| node_of(pod).is_some());
        (are_users_alive && bound.clone().all(is_right)).then_some(())
    })
    .await;
}

/// Waits until the explanation of a pod has this text.
pub(super) async fn explanation(daemon: &Daemon, cluster: &Cluster, pod: &str, text: &str) {
    let path = format!("/explain/pods/{}/{pod}", cluster.name);
    eventually(&format!("the explanation of {pod} has {text:?}"), async || {
        let (_, answer) = daemon.endpoints.get(&path).await?;
        answer.contains(text).then_some(())
    })
    .await;
}

#[test]
fn pod_from_a_template_gets_a_device() {
    run(async |cluster| {
        for node in ["a", "b"] {
            cluster.add_node(node, 4).await;
        }
        cluster.add_devices("b", 1).await;
        let _daemon = Daemon::start(cluster).await;
        let pod = cluster.create_pod(&cluster.pod_with_device("train")).await;
        assert_eq!(cluster.bound("train").await, cluster.node_name("b"));
        let claims = cluster.all_device_claims().await;
        let [claim] = claims.as_slice() else { panic!("{claims:?}") };
        assert_eq!(devices_of(claim), [format!("{}/gpu-0", cluster.node_name("b"))]);
        assert_eq!(users_of(claim), [uid(&pod)]);
        let finalizers = claim.metadata.finalizers.clone().unwrap();
        assert_eq!(finalizers, ["resource.kubernetes.io/delete-protection"]);
        cluster.delete_pod("train").await;
        cluster.device_claims_are_gone().await;
    });
}

#[test]
fn two_pods_race_for_the_last_device() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.add_devices("a", 1).await;
        let _daemon = Daemon::start(cluster).await;
        let pods = ["train-0", "train-1"];
        for name in pods {
            cluster.create_pod(&cluster.pod_with_device(name)).await;
        }
        let bound = cluster.bound_pods(1).await;
        let is_first = bound[0].metadata.name.as_deref() == Some(pods[0]);
        let [won, lost] = if is_first { pods } else { [pods[1], pods[0]] };
        cluster.has_condition(lost, "0/1 nodes are available: 1 cannot allocate all claims").await;
        assert_reserved_rightly(cluster, 1).await;
        cluster.delete_pod(won).await;
        cluster.bound(lost).await;
        assert_reserved_rightly(cluster, 1).await;
    });
}

#[test]
fn new_device_wakes_the_pod_that_waits_for_it() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let _daemon = Daemon::start(cluster).await;
        cluster.create_pod(&cluster.pod_with_device("train")).await;
        cluster.has_condition("train", "cannot allocate all claims").await;
        cluster.add_devices("a", 1).await;
        cluster.bound("train").await;
    });
}

#[test]
fn pod_gets_an_extended_resource_from_devices() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.add_devices("a", 1).await;
        let _daemon = Daemon::start(cluster).await;
        let pod = cluster.create_pod(&cluster.pod_with_device_resource("train")).await;
        cluster.bound("train").await;
        assert_reserved_rightly(cluster, 1).await;
        let claims = cluster.all_device_claims().await;
        let [claim] = claims.as_slice() else { panic!("{claims:?}") };
        assert_eq!(users_of(claim), [uid(&pod)]);
        let written: Value = json!(cluster.pods.get("train").await.unwrap());
        let status = &written["status"]["extendedResourceClaimStatus"];
        assert_eq!(status["resourceClaimName"], json!(claim.metadata.name));
        let mapping = &status["requestMappings"][0];
        assert_eq!(mapping["resourceName"], cluster.device_resource());
        cluster.create_pod(&cluster.pod_with_device_resource("late")).await;
        cluster.has_condition("late", "cannot allocate all claims").await;
        cluster.delete_pod("train").await;
        cluster.bound("late").await;
        cluster.delete_pod("late").await;
        cluster.device_claims_are_gone().await;
    });
}

/// Binds as many Pods as there are devices while answers to these requests get lost, and deletes
/// the Pods.
fn bind_despite(faults: &[&str], pod: impl Fn(&Cluster, &str) -> Pod) {
    bind_until(faults, pod, async |cluster, server| {
        cluster.bound_pods(PODS).await;
        misbehave(server, &[]);
    });
}

/// Binds Pods until all of them are bound, in the eyes of `all_bound`, which also ends the faults.
fn bind_until(
    faults: &[&str],
    pod: impl Fn(&Cluster, &str) -> Pod,
    all_bound: impl AsyncFnOnce(&Cluster, &Server),
) {
    run_in_sandbox(async |cluster, server| {
        for node in ["a", "b"] {
            cluster.add_node(node, 10).await;
            cluster.add_devices(node, PODS / 2).await;
        }
        let daemon = Daemon::start(cluster).await;
        misbehave(server, &[&["lost-answers=0.15"], faults].concat());
        for number in 0..PODS {
            cluster.create_pod(&pod(cluster, &format!("train-{number}"))).await;
        }
        all_bound(cluster, server).await;
        assert_reserved_rightly(cluster, 1).await;
        assert_allocated_once(cluster).await;
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 0.0).await;
        for number in 0..PODS {
            cluster.delete_pod(&format!("train-{number}")).await;
        }
        cluster.device_claims_are_gone().await;
    });
}

/// Sets faults, in the notation of `loadmaster sandbox --fault`.
fn misbehave(server: &Server, faults: &[&str]) {
    let settings = faults.iter().fold(Settings::default(), |all, one| all.with(one).unwrap());
    server.set_faults(settings);
}

#[test]
fn answers_to_finalizers_and_allocations_get_lost() {
    bind_despite(&["only-methods=PATCH", "only-path=/resourceclaims/"], Cluster::pod_with_device);
}

#[test]
fn answers_to_bindings_of_pods_with_devices_get_lost() {
    bind_despite(&["only-methods=POST", "only-path=/binding"], Cluster::pod_with_device);
}

#[test]
fn answers_to_claims_for_extended_resources_get_lost() {
    let faults = ["only-methods=POST", "only-path=/resourceclaims"];
    bind_until(&faults, Cluster::pod_with_device_resource, bound_with_events);
}

#[test]
fn answers_to_statuses_of_pods_with_extended_resources_get_lost() {
    let faults = ["lost-answers=0.5", "only-methods=PATCH", "only-path=/pods/"];
    bind_until(&faults, Cluster::pod_with_device_resource, async |cluster, server| {
        bound_with_events(cluster, server).await;
        assert_statuses_name_claims(cluster).await;
    });
}

/// Checks that the status of each Pod names the claim that is reserved for it.
async fn assert_statuses_name_claims(cluster: &Cluster) {
    let claims = cluster.all_device_claims().await;
    for pod in cluster.pods.list(&ListParams::default()).await.unwrap().items {
        let own =
            claims.iter().filter(|claim| users_of(claim).iter().any(|user| user == uid(&pod)));
        let names: Vec<_> = own.map(|claim| json!(claim.metadata.name)).collect();
        let status = &json!(pod)["status"]["extendedResourceClaimStatus"];
        assert_eq!(names, [status["resourceClaimName"].clone()], "{status}");
    }
}

/// Waits until all Pods are bound. A Pod whose attempt failed after the creation of its claim
/// deletes the claim at its next attempt. Like kube-scheduler it then waits for an event of the
/// cluster.
async fn bound_with_events(cluster: &Cluster, server: &Server) {
    cluster.bound_pods(1).await;
    misbehave(server, &[]);
    let mut cpus = 10;
    eventually("all pods are bound", async || {
        cpus += 1;
        cluster.resize_node("a", cpus).await;
        let pods = cluster.pods.list(&ListParams::default()).await.ok()?.items;
        (pods.iter().filter(|pod| node_of(pod).is_some()).count() == PODS).then_some(())
    })
    .await;
}
