//! Topology spread and pod affinity.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Affinity, Pod, Service, TopologySpreadConstraint};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cluster::{Cluster, node_of, run};
use super::daemon::Daemon;

fn typed<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

/// A Pod with this label `app`.
fn of_app(mut pod: Pod, app: &str) -> Pod {
    pod.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
    pod
}

/// A Pod with a required term under `podAffinity` or `podAntiAffinity`, by hostname.
fn requiring(mut pod: Pod, kind: &str, mut term: Value) -> Pod {
    term["topologyKey"] = json!("kubernetes.io/hostname");
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    pod.spec.as_mut().unwrap().affinity = Some(typed::<Affinity>(json!({kind: required})));
    pod
}

/// A Pod with required anti-affinity to its own application by hostname.
fn alone(cluster: &Cluster, name: &str) -> Pod {
    let own = json!({"labelSelector": {"matchLabels": {"app": "db"}}});
    requiring(of_app(cluster.pod(name, 1), "db"), "podAntiAffinity", own)
}

/// A Deployment `web` whose Pods request one CPU each.
fn deployment(cluster: &Cluster, replicas: usize, spread: &Value) -> Deployment {
    let mut spec = cluster.pod("web", 1).spec.unwrap();
    spec.termination_grace_period_seconds = None;
    spec.topology_spread_constraints =
        typed::<Option<Vec<TopologySpreadConstraint>>>(spread.clone());
    typed(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec},
        },
    }))
}

/// Returns the number of these Pods on each node of the test, by its name in the test.
fn per_node(cluster: &Cluster, pods: &[Pod]) -> BTreeMap<String, usize> {
    let prefix = cluster.node_name("");
    let mut counts = BTreeMap::new();
    for node in pods.iter().filter_map(node_of) {
        *counts.entry(node.strip_prefix(&prefix).unwrap().to_owned()).or_insert(0) += 1;
    }
    counts
}

#[test]
fn deployment_is_spread_evenly_over_zones() {
    run(async |cluster| {
        if !cluster.runs_controllers() {
            return eprintln!("skipped: no controller creates the pods of a Deployment");
        }
        for (node, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
            cluster.add_node_in_zone(node, 8, zone).await;
        }
        let _daemon = Daemon::start(cluster).await;
        let spread = json!([{
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }]);
        cluster.create(&deployment(cluster, 6, &spread)).await;
        let counts = per_node(cluster, &cluster.bound_pods(6).await);
        assert_eq!(counts["b1"], 3, "as many as in zone a: {counts:?}");
    });
}

#[test]
fn pods_of_a_service_are_spread_by_default() {
    run(async |cluster| {
        if !cluster.runs_controllers() {
            return eprintln!("skipped: no controller creates the pods of a Deployment");
        }
        // By resources alone, all pods would be placed on the large node.
        cluster.add_node("large", 64).await;
        cluster.add_node("small", 4).await;
        let _daemon = Daemon::start(cluster).await;
        let service = json!({
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        });
        cluster.create(&typed::<Service>(service)).await;
        cluster.create(&deployment(cluster, 4, &Value::Null)).await;
        let counts = per_node(cluster, &cluster.bound_pods(4).await);
        assert_eq!(counts.len(), 2, "{counts:?}");
    });
}

#[test]
fn anti_affine_pods_wait_for_deletions_and_nodes() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.add_node("b", 4).await;
        let _daemon = Daemon::start(cluster).await;
        for name in ["db-0", "db-1"] {
            cluster.create_pod(&alone(cluster, name)).await;
        }
        let first = cluster.bound("db-0").await;
        assert_ne!(first, cluster.bound("db-1").await);

        cluster.create_pod(&alone(cluster, "db-2")).await;
        let message = cluster.rejected("db-2").await.message.unwrap();
        let expected = "2 node(s) didn't match pod anti-affinity rules";
        assert!(message.starts_with("0/") && message.contains(expected), "{message}");
        cluster.delete_pod("db-0").await;
        assert_eq!(cluster.bound("db-2").await, first);

        cluster.create_pod(&alone(cluster, "db-3")).await;
        cluster.rejected("db-3").await;
        cluster.add_node("c", 4).await;
        assert_eq!(cluster.bound("db-3").await, cluster.node_name("c"));
    });
}

#[test]
fn namespace_label_makes_an_affinity_term_match() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.add_node("b", 4).await;
        let _daemon = Daemon::start(cluster).await;
        cluster.create_pod(&of_app(cluster.pod("db", 1), "db")).await;
        let node = cluster.bound("db").await;
        let term = json!({
            "labelSelector": {"matchLabels": {"app": "db"}},
            "namespaceSelector": {"matchLabels": {"loadmaster.e2e/team": "shop"}},
        });
        cluster.create_pod(&requiring(cluster.pod("web", 1), "podAffinity", term)).await;
        let message = cluster.rejected("web").await.message.unwrap();
        let expected = "2 node(s) didn't match pod affinity rules";
        assert!(message.contains(expected), "{message}");
        cluster.label_namespace(&json!({"loadmaster.e2e/team": "shop"})).await;
        assert_eq!(cluster.bound("web").await, node);
    });
}
