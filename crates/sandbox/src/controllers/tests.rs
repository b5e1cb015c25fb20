//! A cluster under all controllers, in some tests with kubelets.

use std::sync::Arc;

use framework::Time;
use serde_json::{Value, json};

use super::Controllers;
use crate::kubelet::Kubelets;
use crate::metadata::name;
use crate::object::{condition_status, number, put, set_condition, text};
use crate::resources::{
    CONFIGMAPS, DEPLOYMENTS, JOBS, NAMESPACES, NODES, PODDISRUPTIONBUDGETS, PODGROUPS, PODS,
    REPLICASETS, Resource, SERVICEACCOUNTS,
};
use crate::store::{DeleteOptions, Store};

pub(super) struct Cluster {
    pub(super) store: Store,
    controllers: Controllers,
    kubelets: Kubelets,
    now: Time,
}

impl Cluster {
    pub(super) fn new() -> Self {
        let now = Time::from_secs(1_000_000);
        Self {
            store: Store::new(1, now),
            controllers: Controllers::new(),
            kubelets: Kubelets::new(),
            now,
        }
    }

    pub(super) fn create(&mut self, resource: &'static Resource, object: Value) {
        self.store.create(resource, object, self.now).unwrap();
        self.settle();
    }

    pub(super) fn change(
        &mut self,
        resource: &'static Resource,
        name: &str,
        path: &[&str],
        value: Value,
    ) {
        let change = |object: &mut Value| {
            put(object, path, value);
            Ok(())
        };
        self.store.modify(resource, namespace_of(resource), name, self.now, change).unwrap();
        self.settle();
    }

    pub(super) fn delete(&mut self, resource: &'static Resource, name: &str) {
        let options = DeleteOptions::default();
        self.store.delete(resource, namespace_of(resource), name, &options, self.now).unwrap();
        self.settle();
    }

    /// Steps controllers and kubelets until nothing changes any more.
    pub(super) fn settle(&mut self) {
        for _ in 0..100 {
            let before = self.store.resource_version();
            self.controllers.step(&mut self.store, self.now);
            self.kubelets.step(&mut self.store, self.now);
            if self.store.resource_version() == before {
                return;
            }
        }
        panic!("the controllers do not come to rest");
    }

    pub(super) fn wait(&mut self, seconds: u64) {
        self.now = self.now + std::time::Duration::from_secs(seconds);
        self.settle();
    }

    pub(super) fn get(&self, resource: &'static Resource, name: &str) -> &Value {
        self.store.get(resource, namespace_of(resource), name).unwrap()
    }

    pub(super) fn pods(&self) -> Vec<String> {
        self.store.objects(PODS).map(|pod| name(pod).to_owned()).collect()
    }

    /// Binds all pods, as a scheduler does.
    pub(super) fn bind_all_to(&mut self, node: &str) {
        for pod in self.pods() {
            if text(self.get(PODS, &pod), "/spec/nodeName").is_empty() {
                self.change(PODS, &pod, &["spec", "nodeName"], json!(node));
            }
        }
    }

    fn budget(&self, field: &str) -> Option<i64> {
        number(self.get(PODDISRUPTIONBUDGETS, "budget"), &format!("/status/{field}"))
    }
}

fn namespace_of(resource: &Resource) -> &'static str {
    if resource.namespaced { "default" } else { "" }
}

fn replica_set(name: &str, replicas: i64) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas,
        "selector": {"matchLabels": {"app": name}}, "template": template(name)}})
}

pub(super) fn template(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": "pause"}]}})
}

pub(super) fn node(name: &str) -> Value {
    json!({"metadata": {"name": name},
        "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}}})
}

#[test]
fn replica_set_keeps_its_number_of_pods() {
    let mut cluster = Cluster::new();
    cluster.create(REPLICASETS, replica_set("web", 3));
    let pods = cluster.pods();
    assert_eq!(pods.len(), 3);
    let pod = cluster.get(PODS, &pods[0]);
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], cluster.get(REPLICASETS, "web")["metadata"]["uid"]);
    let own = ["apiVersion", "kind", "controller"].map(|field| owner[field].clone());
    assert_eq!(own, [json!("apps/v1"), json!("ReplicaSet"), json!(true)]);
    assert_eq!(pod["metadata"]["labels"], json!({"app": "web"}));
    assert!(pods[0].starts_with("web-"), "{pods:?}");

    cluster.delete(PODS, &pods[0]);
    assert_eq!(cluster.pods().len(), 3);
    cluster.change(REPLICASETS, "web", &["spec", "replicas"], json!(1));
    assert_eq!(cluster.pods().len(), 1);
    let set = cluster.get(REPLICASETS, "web");
    assert_eq!(set["status"]["replicas"], 1);
    assert_eq!(set["status"]["observedGeneration"], set["metadata"]["generation"]);
}

#[test]
fn large_replica_set_is_filled_in_bursts() {
    let mut cluster = Cluster::new();
    cluster.create(REPLICASETS, replica_set("web", 1_234));
    assert_eq!(cluster.pods().len(), 1_234);
    assert_eq!(cluster.get(REPLICASETS, "web")["status"]["replicas"], 1_234);
}

#[test]
fn replica_set_reports_refused_pods_and_retries() {
    let mut cluster = Cluster::new();
    let mut set = replica_set("web", 1);
    set["spec"]["template"]["spec"]["priorityClassName"] = json!("later");
    cluster.create(REPLICASETS, set);
    assert_eq!(condition_status(cluster.get(REPLICASETS, "web"), "ReplicaFailure"), "True");

    let class = json!({"metadata": {"name": "later"}, "value": 7});
    cluster.create(crate::resources::PRIORITYCLASSES, class);
    cluster.wait(5);
    assert_eq!(cluster.pods().len(), 1);
    assert_eq!(condition_status(cluster.get(REPLICASETS, "web"), "ReplicaFailure"), "");
}

#[test]
fn deployment_moves_all_replicas_to_the_replica_set_of_its_template() {
    let mut cluster = Cluster::new();
    cluster.create(NODES, node("n1"));
    cluster.create(DEPLOYMENTS, replica_set("shop", 2));
    let first = name(cluster.store.objects(REPLICASETS).next().unwrap()).to_owned();
    assert!(first.starts_with("shop-"));
    cluster.bind_all_to("n1");
    let status = &cluster.get(DEPLOYMENTS, "shop")["status"];
    assert_eq!((&status["availableReplicas"], &status["updatedReplicas"]), (&json!(2), &json!(2)));
    assert_eq!(condition_status(cluster.get(DEPLOYMENTS, "shop"), "Available"), "True");

    let path = ["spec", "template", "metadata", "labels", "release"];
    cluster.change(DEPLOYMENTS, "shop", &path, json!("2"));
    assert_eq!(cluster.store.objects(REPLICASETS).count(), 2);
    assert_eq!(cluster.get(REPLICASETS, &first)["spec"]["replicas"], 0);
    let releases: Vec<&Value> =
        cluster.store.objects(PODS).map(|pod| &pod["metadata"]["labels"]["release"]).collect();
    assert_eq!(releases, [&json!("2"), &json!("2")]);
}

#[test]
fn dependents_of_a_deleted_deployment_are_deleted() {
    let mut cluster = Cluster::new();
    cluster.create(DEPLOYMENTS, replica_set("shop", 2));
    cluster.delete(DEPLOYMENTS, "shop");
    assert_eq!(cluster.store.objects(REPLICASETS).count(), 0);
    assert_eq!(cluster.pods(), [""; 0]);
}

#[test]
fn object_with_a_remaining_owner_stays() {
    let mut cluster = Cluster::new();
    for name in ["one", "other"] {
        cluster.create(CONFIGMAPS, json!({"metadata": {"name": name}}));
    }
    let owner = |name: &str| {
        let owner = cluster.get(CONFIGMAPS, name);
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name,
            "uid": owner["metadata"]["uid"]})
    };
    let owners = json!([owner("one"), owner("other")]);
    let owned = json!({"metadata": {"name": "owned", "ownerReferences": owners}});
    cluster.create(CONFIGMAPS, owned);
    cluster.delete(CONFIGMAPS, "one");
    let left = &cluster.get(CONFIGMAPS, "owned")["metadata"]["ownerReferences"];
    assert_eq!(left.as_array().map(Vec::len), Some(1));
    cluster.delete(CONFIGMAPS, "other");
    assert!(cluster.store.get(CONFIGMAPS, "default", "owned").is_none());
}

#[test]
fn object_whose_owner_never_existed_is_deleted() {
    let mut cluster = Cluster::new();
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"});
    let owned = json!({"metadata": {"name": "owned", "ownerReferences": [owner]}});
    cluster.create(CONFIGMAPS, owned);
    assert!(cluster.store.get(CONFIGMAPS, "default", "owned").is_none());
}

#[test]
fn job_runs_its_pods_to_completion() {
    let mut cluster = Cluster::new();
    cluster.create(NODES, node("n1"));
    let mut template = template("sum");
    template["metadata"]["annotations"] = json!({crate::kubelet::RUN_SECONDS_ANNOTATION: "60"});
    template["spec"]["restartPolicy"] = json!("Never");
    let spec = json!({"completions": 3, "parallelism": 2, "template": template});
    cluster.create(JOBS, json!({"metadata": {"name": "sum"}, "spec": spec}));
    assert_eq!(cluster.pods().len(), 2);
    cluster.bind_all_to("n1");
    cluster.wait(60);
    cluster.bind_all_to("n1");
    assert_eq!(cluster.get(JOBS, "sum")["status"]["succeeded"], 2);
    cluster.wait(60);
    let job = cluster.get(JOBS, "sum");
    assert_eq!(job["status"]["succeeded"], 3);
    assert_eq!(condition_status(job, "Complete"), "True");
    assert_eq!(cluster.pods().len(), 3);
}

#[test]
fn job_that_asks_for_a_gang_gets_a_pod_group() {
    let mut cluster = Cluster::new();
    let job = |name: &str, scheduling: Value, group: Option<&str>| {
        let mut template = template(name);
        template["spec"]["restartPolicy"] = json!("Never");
        if let Some(group) = group {
            template["spec"]["schedulingGroup"] = json!({"podGroupName": group});
        }
        let spec = json!({"completions": 3, "parallelism": 3, "template": template,
            "scheduling": scheduling});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let scheduling = json!({
        "schedulingPolicy": {"gang": {}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
    });
    cluster.create(JOBS, job("train", scheduling.clone(), None));
    let groups: Vec<Arc<Value>> = cluster.store.objects(PODGROUPS).cloned().collect();
    let [group] = &groups[..] else { panic!("{groups:?}") };
    assert_eq!(group["spec"]["schedulingPolicy"]["gang"]["minCount"], 3);
    assert_eq!(group["spec"]["schedulingConstraints"], scheduling["schedulingConstraints"]);
    let owner = &group["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["controller"]), (&json!("Job"), &json!(true)));
    let pods = cluster.pods();
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        let pod = cluster.get(PODS, pod);
        assert_eq!(pod["spec"]["schedulingGroup"]["podGroupName"], group["metadata"]["name"]);
        let owners = pod["metadata"]["ownerReferences"].as_array().unwrap();
        assert_eq!((&owners[0]["kind"], &owners[1]["kind"]), (&json!("Job"), &json!("PodGroup")));
        assert_eq!(owners[1]["controller"], Value::Null);
    }
    // A pod that ends for good is replaced by a member of the same group.
    cluster.delete(PODS, &pods[0]);
    let named = |pod: &Value| pod["spec"]["schedulingGroup"]["podGroupName"].clone();
    assert!(cluster.store.objects(PODS).all(|pod| named(pod) == group["metadata"]["name"]));
    cluster.delete(JOBS, "train");
    assert_eq!((cluster.pods().len(), cluster.store.objects(PODGROUPS).count()), (0, 0));

    cluster.create(JOBS, job("own", scheduling, Some("mine")));
    cluster.create(JOBS, job("two", json!({"schedulingPolicy": {"gang": {"minCount": 2}}}), None));
    let groups: Vec<&Arc<Value>> = cluster.store.objects(PODGROUPS).collect();
    assert_eq!(groups.len(), 1, "the pods of `own` name a group themselves");
    assert_eq!(groups[0]["spec"]["schedulingPolicy"]["gang"]["minCount"], 2);
}

fn budget(spec: Value) -> Value {
    let mut budget = json!({"metadata": {"name": "budget"}, "spec": spec});
    budget["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    budget
}

#[test]
fn budget_status_follows_its_pods() {
    let mut cluster = Cluster::new();
    cluster.create(NODES, node("n1"));
    cluster.create(REPLICASETS, replica_set("web", 4));
    cluster.create(REPLICASETS, replica_set("other", 2));
    cluster.create(PODDISRUPTIONBUDGETS, budget(json!({"maxUnavailable": "25%"})));
    assert_eq!(
        (cluster.budget("expectedPods"), cluster.budget("currentHealthy")),
        (Some(4), Some(0))
    );
    assert_eq!(cluster.budget("disruptionsAllowed"), Some(0));

    cluster.bind_all_to("n1");
    assert_eq!(
        (cluster.budget("desiredHealthy"), cluster.budget("currentHealthy")),
        (Some(3), Some(4))
    );
    assert_eq!(cluster.budget("disruptionsAllowed"), Some(1));
    let budget = cluster.get(PODDISRUPTIONBUDGETS, "budget");
    assert_eq!(condition_status(budget, "DisruptionAllowed"), "True");
    assert_eq!(budget["status"]["observedGeneration"], 1);

    let pod = name(cluster.store.objects(PODS).last().unwrap()).to_owned();
    let change = |pod: &mut Value| {
        set_condition(pod, json!({"type": "Ready", "status": "False"}), Time::ZERO);
        Ok(())
    };
    cluster.store.modify(PODS, "default", &pod, cluster.now, change).unwrap();
    cluster.settle();
    assert_eq!(cluster.budget("disruptionsAllowed"), Some(0));
}

#[test]
fn budget_without_a_scale_allows_no_disruption() {
    let mut cluster = Cluster::new();
    let mut template = template("web");
    template["spec"]["restartPolicy"] = json!("Never");
    let spec = json!({"completions": 1, "template": template});
    cluster.create(JOBS, json!({"metadata": {"name": "web"}, "spec": spec}));
    cluster.create(PODDISRUPTIONBUDGETS, budget(json!({"maxUnavailable": 1})));
    let budget = cluster.get(PODDISRUPTIONBUDGETS, "budget");
    assert_eq!(budget["status"]["conditions"][0]["reason"], "SyncFailed");
    assert_eq!(cluster.budget("disruptionsAllowed"), Some(0));
}

#[test]
fn eviction_that_did_not_happen_expires_after_two_minutes() {
    let mut cluster = Cluster::new();
    cluster.create(NODES, node("n1"));
    cluster.create(REPLICASETS, replica_set("web", 2));
    cluster.bind_all_to("n1");
    cluster.create(PODDISRUPTIONBUDGETS, budget(json!({"minAvailable": 1})));
    let pod = cluster.pods().remove(0);
    let since = json!(cluster.now.to_string());
    cluster.change(PODDISRUPTIONBUDGETS, "budget", &["status", "disruptedPods", &pod], since);
    assert_eq!(cluster.budget("disruptionsAllowed"), Some(0));
    cluster.wait(119);
    assert_eq!(cluster.budget("disruptionsAllowed"), Some(0));
    cluster.wait(1);
    assert_eq!(cluster.budget("disruptionsAllowed"), Some(1));
}

#[test]
fn pods_of_a_deleted_node_are_deleted_after_a_delay() {
    let mut cluster = Cluster::new();
    cluster.create(NODES, node("n1"));
    cluster.create(REPLICASETS, replica_set("web", 1));
    cluster.bind_all_to("n1");
    let pod = cluster.pods().remove(0);
    cluster.delete(NODES, "n1");
    cluster.wait(39);
    assert_eq!(cluster.pods(), [pod.as_str()]);
    cluster.wait(1);
    assert_eq!(cluster.pods().len(), 1);
    assert_ne!(cluster.pods(), [pod]);
}

#[test]
fn pods_stay_when_their_node_returns_in_time() {
    let mut cluster = Cluster::new();
    cluster.create(NODES, node("n1"));
    cluster.create(REPLICASETS, replica_set("web", 1));
    cluster.bind_all_to("n1");
    let pods = cluster.pods();
    cluster.delete(NODES, "n1");
    cluster.create(NODES, node("n1"));
    cluster.wait(60);
    assert_eq!(cluster.pods(), pods);
}

#[test]
fn equal_seeds_give_equal_clusters() {
    let run = || {
        let mut cluster = Cluster::new();
        cluster.create(NODES, node("n1"));
        cluster.create(DEPLOYMENTS, replica_set("shop", 3));
        cluster.create(PODDISRUPTIONBUDGETS, budget(json!({"minAvailable": "50%"})));
        cluster.bind_all_to("n1");
        cluster.wait(600);
        let pods: Vec<Value> = cluster.store.objects(PODS).map(|pod| (**pod).clone()).collect();
        (cluster.store.resource_version(), pods)
    };
    assert_eq!(run(), run());
}

#[test]
fn idle_controllers_write_nothing() {
    let mut cluster = Cluster::new();
    cluster.create(DEPLOYMENTS, replica_set("shop", 3));
    cluster.create(PODDISRUPTIONBUDGETS, budget(json!({"minAvailable": 1})));
    assert_eq!(cluster.controllers.next_deadline(), None);
    let before = cluster.store.resource_version();
    cluster.wait(3_600);
    assert_eq!(cluster.store.resource_version(), before);
}

#[test]
fn every_namespace_has_a_default_service_account() {
    let mut cluster = Cluster::new();
    cluster.create(NAMESPACES, json!({"metadata": {"name": "web"}}));
    let uid = |cluster: &Cluster| {
        let account = cluster.store.get(SERVICEACCOUNTS, "default", "default").unwrap();
        crate::metadata::uid(account).to_owned()
    };
    let first = uid(&cluster);
    assert!(cluster.store.get(SERVICEACCOUNTS, "web", "default").is_some());
    cluster.delete(SERVICEACCOUNTS, "default");
    assert_ne!(uid(&cluster), first);
    cluster.delete(NAMESPACES, "web");
    assert!(cluster.store.get(NAMESPACES, "", "web").is_none());
}
