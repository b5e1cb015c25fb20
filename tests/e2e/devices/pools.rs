//! Pools whose devices are for several nodes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::super::cluster::{Cluster, devices_of, node_of, uid, users_of};
use super::super::daemon::Daemon;
use super::super::wait::eventually;
use super::{explanation, run};

const ZONE: &str = "topology.kubernetes.io/zone";

/// Returns devices with these names.
fn named(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name})).collect()
}

/// Waits until `count` pods are bound and all others wait for devices, and returns the names of
/// both.
async fn won_and_lost(cluster: &Cluster, count: usize, text: &str) -> [Vec<String>; 2] {
    cluster.bound_pods(count).await;
    let pods = cluster.pods.list(&ListParams::default()).await.unwrap().items;
    let (won, lost): (Vec<Pod>, Vec<Pod>) =
        pods.into_iter().partition(|pod| node_of(pod).is_some());
    assert_eq!(won.len(), count);
    let names = |pods: Vec<Pod>| pods.into_iter().map(|pod| pod.metadata.name.unwrap()).collect();
    let [won, lost]: [Vec<String>; 2] = [names(won), names(lost)];
    for name in &lost {
        cluster.has_condition(name, text).await;
    }
    [won, lost]
}

/// Returns the devices that are allocated for a pod, as `pool/device`.
async fn devices_for(cluster: &Cluster, pod: &str) -> Vec<String> {
    let pod = cluster.pods.get(pod).await.unwrap();
    let mut claims = cluster.all_device_claims().await;
    claims.retain(|claim| users_of(claim).iter().any(|user| user == uid(&pod)));
    claims.iter().flat_map(devices_of).collect()
}

#[test]
fn pods_on_all_nodes_race_for_the_last_device() {
    run(async |cluster| {
        let nodes = ["a", "b", "c"];
        for node in nodes {
            cluster.add_node(node, 10).await;
        }
        let pool = json!({"allNodes": true, "devices": named(&["fpga-0"])});
        cluster.add_slices("fabric", &[pool]).await;
        let daemon = Daemon::start(cluster).await;
        for number in 0..4 {
            cluster.create_pod(&cluster.pod_with_device(&format!("train-{number}"))).await;
        }
        let text = "0/3 nodes are available: 3 cannot allocate all claims. still not schedulable";
        let mut seen = BTreeSet::new();
        for left in (0..4).rev() {
            let [won, lost] = won_and_lost(cluster, 1, text).await;
            assert_eq!(lost.len(), left);
            assert!(seen.insert(won[0].clone()));
            eventually("the device is reserved for the pod alone", async || {
                (devices_for(cluster, &won[0]).await == ["fabric/fpga-0"]).then_some(())
            })
            .await;
            if let Some(name) = lost.first() {
                explanation(&daemon, cluster, name, "the node has 1: 1 in use").await;
            }
            cluster.delete_pod(&won[0]).await;
        }
        cluster.device_claims_are_gone().await;
    });
}

#[test]
fn devices_are_for_the_nodes_that_their_slice_selects() {
    run(async |cluster| {
        for (node, zone) in [("a", "east"), ("b", "east"), ("c", "west")] {
            cluster.add_node_in_zone(node, 10, zone).await;
        }
        let is_in = json!({"key": ZONE, "operator": "In", "values": ["east"]});
        let selector = json!({"nodeSelectorTerms": [{"matchExpressions": [is_in]}]});
        let pool = json!({"nodeSelector": selector, "devices": named(&["fpga-0", "fpga-1"])});
        cluster.add_slices("fabric", &[pool]).await;
        let daemon = Daemon::start(cluster).await;
        for number in 0..3 {
            cluster.create_pod(&cluster.pod_with_device(&format!("train-{number}"))).await;
        }
        let text = "0/3 nodes are available: 3 cannot allocate all claims";
        let [won, lost] = won_and_lost(cluster, 2, text).await;
        let west = cluster.node_name("c");
        for name in &won {
            assert_ne!(cluster.bound(name).await, west);
        }
        explanation(&daemon, cluster, &lost[0], "the node has 2: 2 in use").await;
        explanation(&daemon, cluster, &lost[0], "0 of 1 devices; the node has none").await;
        // Its own pool makes the node of the other zone fit.
        cluster.add_devices("c", 1).await;
        assert_eq!(cluster.bound(&lost[0]).await, west);
        let device = format!("{west}/gpu-0");
        assert_eq!(devices_for(cluster, &lost[0]).await, [device]);
    });
}

#[test]
fn claim_joins_a_device_of_the_node_and_one_of_all_nodes() {
    run(async |cluster| {
        for node in ["a", "b"] {
            cluster.add_node(node, 10).await;
        }
        cluster.add_devices("b", 2).await;
        let shared = json!({"allNodes": true, "devices": named(&["fpga-0"])});
        cluster.add_slices("fabric", &[shared]).await;
        let request = |name: &str| json!({"name": name, "exactly": {"deviceClassName": cluster.device_class()}});
        let two = json!([request("one"), request("other")]);
        cluster.add_device_template("two", &two).await;
        let daemon = Daemon::start(cluster).await;
        cluster.create_pod(&cluster.pod_with_claim("pair", "two")).await;
        assert_eq!(cluster.bound("pair").await, cluster.node_name("b"));
        // One device of three is left, on node b or for all nodes.
        cluster.create_pod(&cluster.pod_with_claim("late", "two")).await;
        cluster.has_condition("late", "2 cannot allocate all claims").await;
        let reason = "request other: 0 of 1 devices; the node has 3: 3 in use";
        explanation(&daemon, cluster, "late", reason).await;
        cluster.delete_pod("pair").await;
        cluster.bound("late").await;
        assert_eq!(devices_for(cluster, "late").await.len(), 2);
    });
}

/// A device of two partitions that are attached to different nodes: as a whole it is for both, and
/// all consume the same counters.
#[test]
fn partitions_share_counters_across_nodes() {
    run(async |cluster| {
        for node in ["a", "b"] {
            cluster.add_node(node, 10).await;
        }
        let memory = |count: u32| json!({"memory": {"value": format!("{count}Gi")}});
        let partition = |name: &str, count: u32, place: Value| {
            let mut device = json!({
                "name": name,
                "attributes": {"size": {"int": count}},
                "consumesCounters": [{"counterSet": "card", "counters": memory(count)}],
            });
            device.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
            device
        };
        let on = |node: &str| json!({"nodeName": cluster.node_name(node)});
        let devices = [
            partition("half-0", 1, on("a")),
            partition("half-1", 1, on("b")),
            partition("whole", 2, json!({"allNodes": true})),
        ];
        let counters = json!([{"name": "card", "counters": memory(2)}]);
        let card = [
            json!({"perDeviceNodeSelection": true, "sharedCounters": counters}),
            json!({"perDeviceNodeSelection": true, "devices": devices}),
        ];
        cluster.add_slices("card", &card).await;
        for (name, size) in [("half", 1), ("whole", 2)] {
            let test = format!("device.attributes['{}'].size == {size}", cluster.device_driver());
            let selectors = json!([{"cel": {"expression": test}}]);
            let exactly =
                json!({"deviceClassName": cluster.device_class(), "selectors": selectors});
            let requests = json!([{"name": "part", "exactly": exactly}]);
            cluster.add_device_template(name, &requests).await;
        }
        let daemon = Daemon::start(cluster).await;
        for name in ["half-0", "half-1"] {
            cluster.create_pod(&cluster.pod_with_claim(name, "half")).await;
        }
        let nodes = BTreeSet::from([cluster.bound("half-0").await, cluster.bound("half-1").await]);
        assert_eq!(nodes, ["a", "b"].map(|node| cluster.node_name(node)).into());
        cluster.create_pod(&cluster.pod_with_claim("whole", "whole")).await;
        let text = "0/2 nodes are available: 2 cannot allocate all claims";
        cluster.has_condition("whole", text).await;
        explanation(&daemon, cluster, "whole", "1 without the counters").await;
        // Half of the memory is still in use, on whichever node.
        cluster.delete_pod("half-0").await;
        explanation(&daemon, cluster, "whole", "1 without the counters").await;
        cluster.has_condition("whole", text).await;
        cluster.delete_pod("half-1").await;
        cluster.bound("whole").await;
        assert_eq!(devices_for(cluster, "whole").await, ["card/whole"]);
        cluster.create_pod(&cluster.pod_with_claim("late", "half")).await;
        cluster.has_condition("late", text).await;
        cluster.delete_pod("whole").await;
        cluster.bound("late").await;
    });
}
