//! What users, nodes and other schedulers do meanwhile.

use std::time::Duration;

use fastrand::Rng;
use framework::Time;
use sandbox::resources::{NODES, PODS, Resource};
use serde_json::{Value, json};

use super::patience;
use super::server::{BUSY, OURS, Server};

const NODES_PATH: &str = "/api/v1/nodes";
const REPLICA_SETS_PATH: &str = "/apis/apps/v1/namespaces/default/replicasets";
/// Pods of one name are in both.
const NAMESPACES: [&str; 2] = ["default", "kube-system"];
/// Names that pods are given, again and again.
const POD_NAMES: u32 = 20;
const NODE_NAMES: usize = 8;
const FOREIGN: &str = "other-scheduler";

/// A source of surprises.
pub(crate) struct Churn {
    rng: Rng,
    /// CPUs of the node of each number. They only grow: what was decided on what a node had, holds.
    cpus: [usize; NODE_NAMES],
}

impl Churn {
    /// Surprises by seed.
    pub(crate) fn new(rng: Rng) -> Self {
        Self { rng, cpus: std::array::from_fn(|number| 2 + number % 3) }
    }

    /// How long nothing happens.
    pub(crate) fn pause(&mut self) -> Duration {
        Duration::from_millis(match self.rng.u32(..10) {
            0..6 => self.rng.u64(..20),
            6..9 => self.rng.u64(..1000),
            _ => self.rng.u64(..15_000),
        })
    }

    /// What is there before the scheduler starts.
    pub(crate) fn begin(&mut self, server: &mut Server, now: Time) {
        for _ in 0..self.rng.u32(1..6) {
            self.create_node(server, now);
        }
        for _ in 0..self.rng.u32(..20) {
            self.create_pod(server, now);
        }
    }

    /// The last words.
    pub(crate) fn end(&mut self, server: &mut Server, now: Time) {
        for _ in 0..2 {
            self.create_node(server, now);
        }
    }

    /// One surprise, and what it was.
    pub(crate) fn step(&mut self, server: &mut Server, now: Time) -> String {
        match self.rng.u32(..100) {
            0..34 => self.create_pod(server, now),
            34..50 => self.delete_pod(server, now),
            50..55 => self.replace_pod(server, now),
            55..61 => self.open_gates(server, now),
            61..65 => self.finish_pod(server, now),
            65..68 => self.drop_finalizers(server, now),
            68..72 => self.bind_elsewhere(server, now),
            72..75 => self.relabel_pod(server, now),
            75..80 => self.create_node(server, now),
            80..83 => self.delete_node(server, now),
            83..90 => self.change_node(server, now),
            90..92 => self.grow_node(server, now),
            92..95 => self.scale(server, now),
            95..98 => {
                server.store.compact();
                "history is compacted".to_owned()
            }
            _ => self.heartbeat(server, now),
        }
    }

    fn create_pod(&mut self, server: &mut Server, now: Time) -> String {
        let namespace = NAMESPACES[self.rng.usize(..2)];
        let name = format!("p{}", self.rng.u32(..POD_NAMES));
        let pod = self.pod(namespace, &name);
        let target = format!("/api/v1/namespaces/{namespace}/pods");
        let status = server.request("POST", &target, &pod, now);
        format!("create pod {namespace}/{name}: {status}")
    }

    fn pod(&mut self, namespace: &str, name: &str) -> Value {
        let mut spec = self.pod_spec();
        let mut metadata = json!({"name": name, "namespace": namespace, "labels": {"app": "a"}});
        if self.rng.u32(..5) == 0 {
            metadata["labels"][patience::LABEL] = json!(patience::VALUES[self.rng.usize(..3)]);
        }
        if self.rng.u32(..12) == 0 {
            metadata["finalizers"] = json!(["example.com/hold"]);
        }
        if self.rng.u32(..12) == 0 {
            spec["schedulerName"] = json!(FOREIGN);
            if self.rng.bool() {
                spec["nodeName"] = json!(format!("n{}", self.rng.usize(..NODE_NAMES)));
            }
        } else if self.rng.u32(..6) == 0 {
            spec["schedulingGates"] = json!([{"name": "example.com/wait"}]);
        }
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    }

    fn pod_spec(&mut self) -> Value {
        let cpu = ["100m", "500m", "1", "2", "3"][self.rng.usize(..5)];
        let memory = ["256Mi", "256Mi", "1Gi", "3Gi"][self.rng.usize(..4)];
        let mut container = json!({"name": "c", "image": "example.com/app:1",
            "resources": {"requests": {"cpu": cpu, "memory": memory}}});
        if self.rng.u32(..8) == 0 {
            container["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
        }
        let mut spec = json!({"schedulerName": OURS, "containers": [container],
            "terminationGracePeriodSeconds": self.rng.u32(..40)});
        match self.rng.u32(..10) {
            0 => spec["nodeSelector"] = json!({"zone": "a"}),
            1 => spec["nodeSelector"] = json!({"zone": "b"}),
            2 => spec["nodeSelector"] = json!({"disk": "fast"}),
            3 => spec["tolerations"] = json!([{"key": BUSY, "operator": "Exists"}]),
            4 => spec["priorityClassName"] = json!("system-node-critical"),
            _ => {}
        }
        spec
    }

    fn delete_pod(&mut self, server: &mut Server, now: Time) -> String {
        let Some(pod) = self.any(server, PODS) else { return "no pod to delete".to_owned() };
        let status = server.request("DELETE", &pod, &Value::Null, now);
        format!("delete {pod}: {status}")
    }

    /// A pod goes at once and another of its name comes.
    fn replace_pod(&mut self, server: &mut Server, now: Time) -> String {
        let Some(old) = self.any(server, PODS) else { return "no pod to replace".to_owned() };
        let mut place = old.rsplitn(4, '/');
        let (Some(name), Some(_), Some(namespace)) = (place.next(), place.next(), place.next())
        else {
            unreachable!("{old} is the path of a pod")
        };
        let now_gone = format!("{old}?gracePeriodSeconds=0");
        let gone = server.request("DELETE", &now_gone, &Value::Null, now);
        let pod = self.pod(namespace, name);
        let come = server.request("POST", old.trim_end_matches(name), &pod, now);
        format!("replace {old}: {gone}, {come}")
    }

    /// Gates open; a label changes with them now and then.
    fn open_gates(&mut self, server: &mut Server, now: Time) -> String {
        let mut patch = json!({"spec": {"schedulingGates": null}});
        if self.rng.bool() {
            patch["metadata"] = json!({"labels": {"app": "open"}});
        }
        self.patch_pod(server, "", &patch, now)
    }

    fn finish_pod(&mut self, server: &mut Server, now: Time) -> String {
        let patch = json!({"status": {"phase": "Succeeded"}});
        self.patch_pod(server, "/status", &patch, now)
    }

    /// What kept a deleted pod there is done.
    fn drop_finalizers(&mut self, server: &mut Server, now: Time) -> String {
        self.patch_pod(server, "", &json!({"metadata": {"finalizers": null}}), now)
    }

    fn relabel_pod(&mut self, server: &mut Server, now: Time) -> String {
        let patch = json!({"metadata": {"labels": {"app": self.rng.u32(..5).to_string()}}});
        self.patch_pod(server, "", &patch, now)
    }

    fn patch_pod(&mut self, server: &mut Server, sub: &str, patch: &Value, now: Time) -> String {
        let Some(pod) = self.any(server, PODS) else { return "no pod to change".to_owned() };
        let status = server.request("PATCH", &format!("{pod}{sub}"), patch, now);
        format!("patch {pod} with {patch}: {status}")
    }

    /// Another scheduler binds a pod, one of ours now and then.
    fn bind_elsewhere(&mut self, server: &mut Server, now: Time) -> String {
        let (Some(pod), Some(node)) = (self.any(server, PODS), self.any(server, NODES)) else {
            return "nothing to bind".to_owned();
        };
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let binding = json!({"apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": name(&pod)}, "target": {"kind": "Node", "name": name(&node)}});
        let status = server.request("POST", &format!("{pod}/binding"), &binding, now);
        format!("somebody else binds {pod} to {node}: {status}")
    }

    /// Size and zone of a node follow from its name, so that one that comes back is the same.
    fn create_node(&mut self, server: &mut Server, now: Time) -> String {
        let number = self.rng.usize(..NODE_NAMES);
        let name = format!("n{number}");
        let zone = if number.is_multiple_of(2) { "a" } else { "b" };
        let size = json!({"cpu": self.cpus[number].to_string(), "memory": "4Gi", "pods": "6"});
        let node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"zone": zone}},
            "status": {"capacity": size, "allocatable": size}});
        let status = server.request("POST", NODES_PATH, &node, now);
        format!("create node {name}: {status}")
    }

    fn delete_node(&mut self, server: &mut Server, now: Time) -> String {
        let Some(node) = self.any(server, NODES) else { return "no node to delete".to_owned() };
        let status = server.request("DELETE", &node, &Value::Null, now);
        format!("delete {node}: {status}")
    }

    fn change_node(&mut self, server: &mut Server, now: Time) -> String {
        let patch = match self.rng.u32(..6) {
            0 => json!({"spec": {"unschedulable": true}}),
            1 => json!({"spec": {"unschedulable": null}}),
            2 => json!({"spec": {"taints": [{"key": BUSY, "effect": "NoSchedule"}]}}),
            3 => json!({"spec": {"taints": null}}),
            4 => json!({"metadata": {"labels": {"disk": "fast"}}}),
            _ => json!({"metadata": {"labels": {"disk": null}}}),
        };
        self.patch_node(server, &patch, now)
    }

    fn grow_node(&mut self, server: &mut Server, now: Time) -> String {
        let number = self.rng.usize(..NODE_NAMES);
        self.cpus[number] += 1;
        let size = json!({"cpu": self.cpus[number].to_string()});
        let patch = json!({"status": {"capacity": size, "allocatable": size}});
        let status =
            server.request("PATCH", &format!("{NODES_PATH}/n{number}/status"), &patch, now);
        format!("node n{number} has {} CPUs: {status}", self.cpus[number])
    }

    fn heartbeat(&mut self, server: &mut Server, now: Time) -> String {
        let stamp = now.as_nanos().to_string();
        let patch = json!({"metadata": {"annotations": {"example.com/heartbeat": stamp}}});
        self.patch_node(server, &patch, now)
    }

    fn patch_node(&mut self, server: &mut Server, patch: &Value, now: Time) -> String {
        let Some(node) = self.any(server, NODES) else { return "no node to change".to_owned() };
        let status = server.request("PATCH", &node, patch, now);
        format!("patch {node} with {patch}: {status}")
    }

    fn scale(&mut self, server: &mut Server, now: Time) -> String {
        let replicas = self.rng.u32(..6);
        let name = ["red", "blue"][self.rng.usize(..2)];
        let labels = json!({"set": name});
        let template = json!({"metadata": {"labels": labels}, "spec": self.pod_spec()});
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
                "template": template}});
        let mut status = server.request("POST", REPLICA_SETS_PATH, &set, now);
        if status == 409 {
            let patch = json!({"spec": {"replicas": replicas}});
            let target = format!("{REPLICA_SETS_PATH}/{name}");
            status = server.request("PATCH", &target, &patch, now);
        }
        format!("scale ReplicaSet {name} to {replicas}: {status}")
    }

    /// The path of some object.
    fn any(&mut self, server: &Server, resource: &'static Resource) -> Option<String> {
        let objects: Vec<&Value> = server.store.objects(resource).map(AsRef::as_ref).collect();
        let object = self.rng.choice(objects)?;
        let name = object["metadata"]["name"].as_str()?;
        Some(match object["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("/api/v1/namespaces/{namespace}/{}/{name}", resource.plural),
            None => format!("/api/v1/{}/{name}", resource.plural),
        })
    }
}
