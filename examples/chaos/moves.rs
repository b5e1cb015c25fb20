//! Pods that may be moved, pods that need most of a node, and how many were moved for them.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::pods::{NAMESPACE, typed};

/// The profile of the replicas: pods are moved soon, and a move does not take long.
pub(crate) const PROFILE: &str = "\
profiles:
- schedulerName: loadmaster
  plugins: {multiPoint: {enabled: [{name: MakeRoom}]}}
  pluginConfig:
  - name: MakeRoom
    args: {afterSeconds: 1, paceSeconds: 1, moveTimeoutSeconds: 10}
";

/// Creates a ReplicaSet whose pods may be moved, also to nodes whose taint other pods do not
/// tolerate: three for each node. Where no controller runs, it has no pods.
pub(crate) async fn create_movable(client: &Client, nodes: usize) -> anyhow::Result<()> {
    let mut spec = pod_spec("500m");
    spec["tolerations"] = json!([{"operator": "Exists"}]);
    let set = typed::<ReplicaSet>(json!({
        "metadata": {"name": "movable"},
        "spec": {
            "replicas": 3 * nodes,
            "selector": {"matchLabels": {"kind": "Movable"}},
            "template": {
                "metadata": {"labels": {"kind": "Movable"}},
                "spec": spec,
            },
        },
    }))?;
    Api::namespaced(client.clone(), NAMESPACE).create(&PostParams::default(), &set).await?;
    Ok(())
}

/// Creates a pod that needs most of a node, and ends by itself.
pub(crate) async fn create_large(client: &Client, number: u64) -> anyhow::Result<()> {
    let pod = typed(json!({
        "metadata": {
            "name": format!("large-{number}"), "labels": {"kind": "Large"},
            "annotations": {"sandbox.loadmaster.dev/run-seconds": "5"},
        },
        "spec": pod_spec("2500m"),
    }))?;
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.create(&PostParams::default(), &pod).await?;
    Ok(())
}

fn pod_spec(cpu: &str) -> Value {
    json!({
        "schedulerName": "loadmaster",
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 0,
        "containers": [{
            "name": "pause",
            "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": {"cpu": cpu}},
        }],
    })
}

/// Says how many pods were moved, and how many plans were stopped, by the events.
pub(crate) async fn summary(client: &Client) -> anyhow::Result<String> {
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let events = events.list(&ListParams::default()).await?.items;
    let count = |reason| events.iter().filter(|own| own.reason.as_deref() == Some(reason)).count();
    let (moved, stopped) = (count("MovedToMakeRoom"), count("MakeRoomStopped"));
    Ok(format!("{moved} evictions made room for pods, {stopped} plans stopped"))
}
