//! Pods that are moved so that another fits.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::cluster::{Cluster, chart_rules, node_of, run};
use super::daemon::Daemon;
use super::wait::eventually;

fn make_room(config: &mut Value) {
    let profile = &mut config["profiles"][0];
    profile["plugins"] = json!({"multiPoint": {"enabled": [{"name": "MakeRoom"}]}});
    let args = json!({"afterSeconds": 1, "paceSeconds": 1});
    profile["pluginConfig"] = json!([{"name": "MakeRoom", "args": args}]);
}

/// Replaces the permissions by those of the chart with the plugin.
async fn permit_evictions(cluster: &Cluster) {
    let mut rules = chart_rules();
    rules.push(PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["pods/eviction".to_owned()]),
        verbs: vec!["create".to_owned()],
        ..PolicyRule::default()
    });
    cluster.permit(&rules).await;
}

/// Creates a ReplicaSet `web` of pods of one CPU.
async fn create_web(cluster: &Cluster, replicas: usize) {
    let set: ReplicaSet = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": cluster.pod("web", 1).spec,
            },
        },
    }))
    .unwrap();
    cluster.create(&set).await;
}

/// Returns the pods of the ReplicaSet, once so many have a node.
async fn placed(cluster: &Cluster, count: usize) -> Vec<Pod> {
    eventually(&format!("{count} pods of web have nodes"), async || {
        let of_web = ListParams::default().labels("app=web");
        let pods = cluster.pods.list(&of_web).await.unwrap().items;
        (pods.iter().filter(|pod| node_of(pod).is_some()).count() == count).then_some(pods)
    })
    .await
}

#[test]
fn replicas_move_so_that_a_waiting_pod_fits() {
    run(async |cluster| {
        if !cluster.runs_controllers() {
            return eprintln!("skipped: no controller makes pods");
        }
        permit_evictions(cluster).await;
        cluster.add_node("a", 4).await;
        let daemon = Daemon::start_with(cluster, make_room).await;
        create_web(cluster, 2).await;
        let first = placed(cluster, 2).await;
        cluster.add_node("b", 2).await;
        let large = cluster.create_pod(&cluster.pod("large", 4)).await;
        assert_eq!(cluster.bound("large").await, cluster.node_name("a"));
        let second = placed(cluster, 2).await;
        let moved = |pod: &&Pod| node_of(pod) == Some(cluster.node_name("b"));
        assert_eq!(second.iter().filter(moved).count(), 2);
        let names =
            |pods: &[Pod]| -> Vec<_> { pods.iter().map(|pod| pod.metadata.uid.clone()).collect() };
        assert!(names(&first).iter().all(|uid| !names(&second).contains(uid)));
        daemon.counts("loadmaster_move_plans_total{outcome=\"completed\"}", 1.0).await;
        daemon.counts("loadmaster_pod_moves_total{step=\"placed\"}", 2.0).await;
        let events = cluster.events(&large, "MakingRoom").await;
        assert_eq!(events.len(), 2, "{events:?}");
    });
}

#[test]
fn eviction_that_is_forbidden_stops_the_plan() {
    run(async |cluster| {
        if !cluster.runs_controllers() {
            return eprintln!("skipped: no controller makes pods");
        }
        cluster.add_node("a", 4).await;
        let daemon = Daemon::start_with(cluster, make_room).await;
        daemon.log.line("create pods/eviction").await;
        create_web(cluster, 1).await;
        let first = placed(cluster, 1).await;
        cluster.add_node("b", 1).await;
        let large = cluster.create_pod(&cluster.pod("large", 4)).await;
        daemon.counts("loadmaster_move_plans_total{outcome=\"refused\"}", 1.0).await;
        let events = cluster.events(&large, "MakeRoomStopped").await;
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(placed(cluster, 1).await[0].metadata.uid, first[0].metadata.uid);
    });
}
