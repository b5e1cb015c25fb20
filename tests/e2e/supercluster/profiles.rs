//! ClusterProfiles as the list of members.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::Role;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use sandbox::resources::CUSTOMRESOURCEDEFINITIONS;
use sandbox::store::DeleteOptions;
use serde_json::{Value, json};

use super::super::wait::eventually;
use super::world::{NAMESPACE, World, placement_of, run};
use crate::manifests::find_all;

const FLEET: &str = "fleet";
const KIND: (&str, &str) = ("multicluster.x-k8s.io/v1alpha1", "ClusterProfile");
const SELECTOR: &str = "supercluster.loadmaster.io/cluster-selector";

/// The CustomResourceDefinition, with the fields of the kind that matter here.
fn definition() -> Value {
    let text = json!({"type": "string"});
    let conditions = json!({"type": "array", "items": {"type": "object",
        "x-kubernetes-preserve-unknown-fields": true}});
    let properties = json!({"type": "array", "items": {"type": "object",
        "required": ["name", "value"], "properties": {"name": text, "value": text}}});
    let spec = json!({"type": "object", "required": ["clusterManager"], "properties": {
        "displayName": text,
        "clusterManager": {"type": "object", "properties": {"name": text}}}});
    let status = json!({"type": "object",
        "properties": {"conditions": conditions, "properties": properties}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    json!({
        "metadata": {"name": "clusterprofiles.multicluster.x-k8s.io"},
        "spec": {
            "group": "multicluster.x-k8s.io", "scope": "Namespaced",
            "names": {"plural": "clusterprofiles", "kind": "ClusterProfile"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

impl World {
    /// Creates the namespace and the kind, with the permissions of the chart.
    async fn serve_profiles(&self) {
        let server = &self.management;
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": FLEET}})).unwrap();
        Api::all(server.client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
        server.server.with_store(|store, now| {
            store.create(CUSTOMRESOURCEDEFINITIONS, definition(), now).unwrap();
        });
        let roles: Vec<Role> = find_all("tests/manifests/rendered/cluster-profiles.yaml");
        let is_profiles =
            |role: &&Role| role.metadata.name.as_deref() == Some("loadmaster-cluster-profiles");
        let rules = roles.iter().find(is_profiles).unwrap().rules.clone().unwrap();
        server.permit_in(FLEET, rules).await;
    }

    fn create_profile(&self, name: &str, agent: Option<String>, region: &str, cost: &str) {
        let annotations = agent.map(|url| json!({"supercluster.loadmaster.io/agent": url}));
        let profile = json!({"metadata": {"name": name, "namespace": FLEET,
                "labels": {"region": region}, "annotations": annotations.unwrap_or(json!({}))},
            "spec": {"displayName": name, "clusterManager": {"name": "test"}}});
        self.management.server.with_store(|store, now| {
            let profiles = store.resource_of_kind(KIND.0, KIND.1).unwrap();
            store.create(profiles, profile, now).unwrap();
        });
        self.set_status(name, json!({"properties": [{"name": "cost", "value": cost}]}));
    }

    fn set_status(&self, name: &str, status: Value) {
        self.management.server.with_store(|store, now| {
            let profiles = store.resource_of_kind(KIND.0, KIND.1).unwrap();
            let set = |profile: &mut Value| {
                profile["status"] = status;
                Ok(())
            };
            store.modify(profiles, FLEET, name, now, set).unwrap();
        });
    }

    fn delete_profile(&self, name: &str) {
        self.management.server.with_store(|store, now| {
            let profiles = store.resource_of_kind(KIND.0, KIND.1).unwrap();
            store.delete(profiles, FLEET, name, &DeleteOptions::default(), now).unwrap();
        });
    }

    /// Creates a pod with this cluster selector.
    async fn create_selecting(&self, name: &str, labels: Value) {
        let selector = json!({"matchLabels": labels}).to_string();
        self.management.create_annotated(name, "1", json!({SELECTOR: selector})).await;
    }

    async fn cluster_of(&self, name: &str) -> String {
        eventually(&format!("{name} is placed"), async || {
            let pod = self.management.pods.get(name).await.unwrap();
            Some(placement_of(&pod)?.0)
        })
        .await
    }
}

#[test]
fn profiles_are_the_members_while_they_exist() {
    run(2, async |world| {
        for member in &world.members {
            member.cluster.add_node("a", 8).await;
        }
        world.serve_profiles().await;
        let url = |member: usize| format!("https://127.0.0.1:{}", world.members[member].port);
        let connection = json!({"certificateAuthority": world.file("ca", "crt"),
            "clientCertificate": world.file("client", "crt"),
            "clientKey": world.file("client", "key")});
        let file = json!({"apiVersion": "supercluster.loadmaster.io/v1alpha1",
            "kind": "SuperclusterConfiguration", "clustersToSampleBp": 10000,
            "clusterProfiles": {"namespace": FLEET, "connection": connection},
            "clusters": [{"name": "m0", "server": url(0), "labels": {"region": "eu"},
                "certificateAuthority": world.file("ca", "crt"),
                "clientCertificate": world.file("client", "crt"),
                "clientKey": world.file("client", "key")}]});
        world.create_profile("m0", None, "elsewhere", "1");
        world.create_profile("m9", None, "nowhere", "1");
        let second = url(1);
        world.start_scheduler_of(file, json!({})).await;
        let log = &world.scheduler.as_ref().unwrap().log;
        let line = log.line("\"The cluster is no member\"").await;
        assert!(line.contains("profile=\"m9\"") && line.contains("no annotation"), "{line}");

        // The label of the file and the property of the profile are matched.
        world.create_selecting("first", json!({"region": "eu", "cost": "1"})).await;
        assert_eq!(world.cluster_of("first").await, "m0");
        world.create_selecting("second", json!({"cost": "2"})).await;
        let message = world.rejected("second").await;
        assert!(message.starts_with("0/1 clusters are available: m0: "), "{message}");

        // A cluster comes while the scheduler runs.
        world.create_profile("m1", Some(second.clone()), "us", "2");
        assert_eq!(world.cluster_of("second").await, "m1");
        world.running(2).await;

        // It is not healthy for a while, and takes no new pods.
        let unhealthy = json!({"properties": [{"name": "cost", "value": "2"}], "conditions": [
            {"type": "ControlPlaneHealthy", "status": "False", "reason": "Down", "message": "etcd"}]});
        world.set_status("m1", unhealthy);
        log.line("\"The cluster takes no new pods\" cluster=\"m1\"").await;
        world.create_selecting("third", json!({"region": "us"})).await;
        let message = world.rejected("third").await;
        let expected = "m1: its ClusterProfile says that its control plane is not healthy: etcd";
        assert!(message.contains(expected), "{message}");
        world.set_status("m1", json!({"properties": [{"name": "cost", "value": "2"}]}));
        assert_eq!(world.cluster_of("third").await, "m1");

        // It goes: its pods stay. It comes back, and one that was deleted meanwhile is released.
        world.delete_profile("m1");
        log.line("The cluster is no member any more").await;
        world.create_selecting("fourth", json!({"region": "us"})).await;
        let message = world.rejected("fourth").await;
        assert!(message.starts_with("0/1 clusters are available: m0: "), "{message}");
        world.management.delete("second").await;
        let there = &world.members[1].cluster.pods;
        assert!(there.get_opt("second").await.unwrap().is_some());
        world.create_profile("m1", Some(second), "us", "2");
        world.gone("second").await;
        assert_eq!(world.cluster_of("fourth").await, "m1");

        // It is drained: pods that may be replaced move, and the others stay.
        let down = json!([{"type": "ControlPlaneHealthy", "status": "False", "reason": "Down"}]);
        world.set_status("m0", json!({"conditions": down}));
        log.line("\"The cluster takes no new pods\" cluster=\"m0\"").await;
        let moves = json!({"supercluster.loadmaster.io/replace-after": "5m"});
        for number in 0..4 {
            let name = format!("moves-{number}");
            world.management.create_annotated(&name, "1", moves.clone()).await;
        }
        for number in 0..4 {
            assert_eq!(world.cluster_of(&format!("moves-{number}")).await, "m1");
        }
        world.set_status("m0", json!({}));
        world.running(7).await;
        let client = world.members[1].cluster.client.clone();
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(client, NAMESPACE);
        let budget = json!({"metadata": {"name": "web"},
            "spec": {"minAvailable": 6, "selector": {"matchLabels": {"app": "web"}}}});
        let budget = serde_json::from_value(budget).unwrap();
        budgets.create(&PostParams::default(), &budget).await.unwrap();
        world.management.server.with_store(|store, now| {
            let profiles = store.resource_of_kind(KIND.0, KIND.1).unwrap();
            let drain = |profile: &mut Value| {
                profile["metadata"]["labels"]["supercluster.loadmaster.io/drain"] = "true".into();
                Ok(())
            };
            store.modify(profiles, FLEET, "m1", now, drain).unwrap();
        });
        log.line("\"The cluster is drained: the pod may not leave yet\"").await;
        let left = world.management.list().await;
        let left = left.iter().filter(|pod| placement_of(pod).is_some_and(|own| own.0 == "m1"));
        assert_eq!(left.count(), 6, "the budget keeps them");
        budgets.delete("web", &DeleteParams::default()).await.unwrap();
        eventually("the pods have moved", async || {
            let pods = world.running(7).await.into_iter();
            let mut moving = pods.filter(|pod| pod.name_any().starts_with("moves"));
            moving.all(|pod| placement_of(&pod).unwrap().0 == "m0").then_some(())
        })
        .await;
        assert_eq!(world.cluster_of("fourth").await, "m1");
        world.create_selecting("fifth", json!({"region": "us"})).await;
        let message = world.rejected("fifth").await;
        assert!(message.contains("m1: it is being drained"), "{message}");
    });
}
