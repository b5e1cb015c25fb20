//! Devices with binding conditions.

use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::{Value, json};

use super::super::cluster::{Cluster, devices_of, node_of, users_of};
use super::super::daemon::Daemon;
use super::super::wait::eventually;
use super::run;

const READY: &str = "example.com/attached";
const BROKEN: &str = "example.com/broken";

/// Adds a node, and a device that has to be attached before a pod on the node may use it.
async fn add_fabric_device(cluster: &Cluster) {
    cluster.add_node("a", 4).await;
    let node = cluster.node_name("a");
    let device = json!({
        "name": "gpu-0",
        "bindingConditions": [READY],
        "bindingFailureConditions": [BROKEN],
    });
    cluster.add_slices(&node, &[json!({"nodeName": node, "devices": [device]})]).await;
}

/// Waits until a claim is allocated, reserved for a pod, and without a report of its driver.
async fn allocated(cluster: &Cluster) -> ResourceClaim {
    eventually("a claim is allocated and waits for its driver", async || {
        let claims = cluster.all_device_claims().await;
        claims.into_iter().find(|claim| {
            let is_reported = claim
                .status
                .as_ref()
                .is_some_and(|own| own.devices.as_ref().is_some_and(|devices| !devices.is_empty()));
            !devices_of(claim).is_empty() && !users_of(claim).is_empty() && !is_reported
        })
    })
    .await
}

#[test]
fn pod_is_bound_after_its_device_is_attached() {
    run(async |cluster| {
        add_fabric_device(cluster).await;
        let _daemon = Daemon::start(cluster).await;
        let pod = cluster.create_pod(&cluster.pod_with_device("train")).await;
        let claim = allocated(cluster).await;
        let events = cluster.events(&pod, "BindingConditionsPending").await;
        let node = cluster.node_name("a");
        let note = format!("waiting for binding conditions for device on node {node}");
        assert_eq!(events[0].note.as_ref(), Some(&note));
        assert_eq!(node_of(&cluster.pods.get("train").await.unwrap()), None);
        cluster.report_devices(&claim, READY).await;
        assert_eq!(cluster.bound("train").await, node);
    });
}

#[test]
fn device_that_fails_is_allocated_again() {
    run(async |cluster| {
        add_fabric_device(cluster).await;
        let daemon = Daemon::start(cluster).await;
        cluster.create_pod(&cluster.pod_with_device("train")).await;
        let claim = allocated(cluster).await;
        let name = claim.metadata.name.clone().unwrap();
        cluster.report_devices(&claim, BROKEN).await;
        let text = format!(
            "running PreBind plugin \"DynamicResources\": device binding failed: claim={name}, \
             reason=Reported, message=\"by the driver\""
        );
        cluster.has_condition("train", &text).await;
        let again = allocated(cluster).await;
        assert_eq!(again.metadata.uid, claim.metadata.uid);
        cluster.report_devices(&again, READY).await;
        cluster.bound("train").await;
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 0.0).await;
    });
}

#[test]
fn device_that_is_not_attached_in_time_is_allocated_again() {
    run(async |cluster| {
        add_fabric_device(cluster).await;
        let daemon = Daemon::start_with(cluster, with_short_timeout).await;
        cluster.create_pod(&cluster.pod_with_device("train")).await;
        let name = allocated(cluster).await.metadata.name.unwrap();
        let text = format!(
            "running PreBind plugin \"DynamicResources\": device binding timeout: claim={name}"
        );
        cluster.has_condition("train", &text).await;
        eventually("the pod is bound", async || {
            let mut claims = cluster.all_device_claims().await;
            claims.retain(|claim| !devices_of(claim).is_empty());
            for claim in &claims {
                cluster.report_devices(claim, READY).await;
            }
            node_of(&cluster.pods.get("train").await.ok()?)
        })
        .await;
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 0.0).await;
    });
}

/// Sets the shortest time in which devices have to be attached.
fn with_short_timeout(config: &mut Value) {
    let args = json!({"bindingTimeout": "2s"});
    config["profiles"][0]["pluginConfig"] = json!([{"name": "DynamicResources", "args": args}]);
}
