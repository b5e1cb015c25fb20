//! What users, nodes and other schedulers do meanwhile.

use std::time::Duration;

use fastrand::Rng;
use framework::Time;
use sandbox::resources::{NODES, PODS, REPLICASETS, Resource};
use serde_json::{Value, json};

use super::server::{OURS, Server};

const PODS_PATH: &str = "/api/v1/namespaces/default/pods";
const NODES_PATH: &str = "/api/v1/nodes";
const REPLICA_SETS_PATH: &str = "/apis/apps/v1/namespaces/default/replicasets";
/// Names that pods are given, again and again.
const POD_NAMES: u32 = 40;
const NODE_NAMES: u32 = 8;
const FOREIGN: &str = "other-scheduler";

/// A source of surprises.
pub struct Churn {
    rng: Rng,
}

impl Churn {
    /// Surprises by seed.
    pub const fn new(rng: Rng) -> Self {
        Self { rng }
    }

    /// How long nothing happens.
    pub fn pause(&mut self) -> Duration {
        Duration::from_millis(match self.rng.u32(..10) {
            0..6 => self.rng.u64(..20),
            6..9 => self.rng.u64(..1000),
            _ => self.rng.u64(..15_000),
        })
    }

    /// What is there before the scheduler starts.
    pub fn begin(&mut self, server: &mut Server, now: Time) {
        for _ in 0..self.rng.u32(1..6) {
            self.create_node(server, now);
        }
        for _ in 0..self.rng.u32(..20) {
            self.create_pod(server, now);
        }
    }

    /// The last words: nodes are left schedulable, so that there is something to place pods on.
    pub fn end(&mut self, server: &mut Server, now: Time) {
        for _ in 0..2 {
            self.create_node(server, now);
        }
    }

    /// One surprise, and what it was.
    pub fn step(&mut self, server: &mut Server, now: Time) -> String {
        match self.rng.u32(..100) {
            0..34 => self.create_pod(server, now),
            34..50 => self.delete_pod(server, now),
            50..55 => self.replace_pod(server, now),
            55..61 => self.open_gates(server, now),
            61..66 => self.finish_pod(server, now),
            66..71 => self.bind_elsewhere(server, now),
            71..75 => self.relabel_pod(server, now),
            75..80 => self.create_node(server, now),
            80..83 => self.delete_node(server, now),
            83..91 => self.change_node(server, now),
            91..95 => self.scale(server, now),
            95..98 => {
                server.store.compact();
                "history is compacted".to_owned()
            }
            _ => self.heartbeat(server, now),
        }
    }

    fn create_pod(&mut self, server: &mut Server, now: Time) -> String {
        let name = format!("p{}", self.rng.u32(..POD_NAMES));
        let pod = self.pod(&name);
        let status = server.request("POST", PODS_PATH, &pod, now);
        format!("create pod {name}: {status}")
    }

    fn pod(&mut self, name: &str) -> Value {
        let mut spec = self.pod_spec();
        let metadata = json!({"name": name, "namespace": "default", "labels": {"app": "a"}});
        if self.rng.u32(..12) == 0 {
            spec["schedulerName"] = json!(FOREIGN);
            if let Some(node) = self.any_node_name() {
                spec["nodeName"] = json!(node);
            }
        } else if self.rng.u32(..6) == 0 {
            spec["schedulingGates"] = json!([{"name": "example.com/wait"}]);
        }
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    }

    fn pod_spec(&mut self) -> Value {
        let cpu = ["100m", "500m", "1", "2", "3"][self.rng.usize(..5)];
        let mut container = json!({"name": "c", "image": "example.com/app:1",
            "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}});
        if self.rng.u32(..10) == 0 {
            container["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
        }
        let mut spec = json!({"schedulerName": OURS, "containers": [container],
            "terminationGracePeriodSeconds": self.rng.u32(..3)});
        if self.rng.u32(..5) == 0 {
            let zone = ["a", "b"][self.rng.usize(..2)];
            spec["nodeSelector"] = json!({"zone": zone});
        }
        spec
    }

    fn delete_pod(&mut self, server: &mut Server, now: Time) -> String {
        let Some(name) = self.any(server, PODS) else { return "no pod to delete".to_owned() };
        let status = server.request("DELETE", &format!("{PODS_PATH}/{name}"), &Value::Null, now);
        format!("delete pod {name}: {status}")
    }

    /// A pod goes at once and another of its name comes.
    fn replace_pod(&mut self, server: &mut Server, now: Time) -> String {
        let Some(name) = self.any(server, PODS) else { return "no pod to replace".to_owned() };
        let target = format!("{PODS_PATH}/{name}?gracePeriodSeconds=0");
        let gone = server.request("DELETE", &target, &Value::Null, now);
        let pod = self.pod(&name);
        let come = server.request("POST", PODS_PATH, &pod, now);
        format!("replace pod {name}: {gone}, {come}")
    }

    fn open_gates(&mut self, server: &mut Server, now: Time) -> String {
        let patch = json!({"spec": {"schedulingGates": null}});
        self.patch_pod(server, "", &patch, now)
    }

    fn finish_pod(&mut self, server: &mut Server, now: Time) -> String {
        let patch = json!({"status": {"phase": "Succeeded"}});
        self.patch_pod(server, "/status", &patch, now)
    }

    fn relabel_pod(&mut self, server: &mut Server, now: Time) -> String {
        let patch = json!({"metadata": {"labels": {"app": self.rng.u32(..5).to_string()}}});
        self.patch_pod(server, "", &patch, now)
    }

    fn patch_pod(&mut self, server: &mut Server, sub: &str, patch: &Value, now: Time) -> String {
        let Some(name) = self.any(server, PODS) else { return "no pod to change".to_owned() };
        let status = server.request("PATCH", &format!("{PODS_PATH}/{name}{sub}"), patch, now);
        format!("patch pod {name} with {patch}: {status}")
    }

    /// Another scheduler binds a pod, one of ours now and then.
    fn bind_elsewhere(&mut self, server: &mut Server, now: Time) -> String {
        let (Some(pod), Some(node)) = (self.any(server, PODS), self.any(server, NODES)) else {
            return "nothing to bind".to_owned();
        };
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"kind": "Node", "name": node}});
        let target = format!("{PODS_PATH}/{pod}/binding");
        let status = server.request("POST", &target, &binding, now);
        format!("somebody else binds {pod} to {node}: {status}")
    }

    /// Size and zone of a node follow from its name, so that one that comes back is the same.
    fn create_node(&mut self, server: &mut Server, now: Time) -> String {
        let number = self.rng.u32(..NODE_NAMES);
        let name = format!("n{number}");
        let zone = if number % 2 == 0 { "a" } else { "b" };
        let size = json!({"cpu": (2 + number % 3).to_string(), "memory": "4Gi", "pods": "6"});
        let node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"zone": zone}},
            "status": {"capacity": size, "allocatable": size}});
        let status = server.request("POST", NODES_PATH, &node, now);
        format!("create node {name}: {status}")
    }

    fn delete_node(&mut self, server: &mut Server, now: Time) -> String {
        let Some(name) = self.any(server, NODES) else { return "no node to delete".to_owned() };
        let status = server.request("DELETE", &format!("{NODES_PATH}/{name}"), &Value::Null, now);
        format!("delete node {name}: {status}")
    }

    fn change_node(&mut self, server: &mut Server, now: Time) -> String {
        let taint = json!([{"key": "example.com/busy", "effect": "NoSchedule"}]);
        let patch = match self.rng.u32(..4) {
            0 => json!({"spec": {"unschedulable": true}}),
            1 => json!({"spec": {"unschedulable": null}}),
            2 => json!({"spec": {"taints": taint}}),
            _ => json!({"spec": {"taints": null}}),
        };
        self.patch_node(server, &patch, now)
    }

    fn heartbeat(&mut self, server: &mut Server, now: Time) -> String {
        let stamp = now.as_nanos().to_string();
        let patch = json!({"metadata": {"annotations": {"example.com/heartbeat": stamp}}});
        self.patch_node(server, &patch, now)
    }

    fn patch_node(&mut self, server: &mut Server, patch: &Value, now: Time) -> String {
        let Some(name) = self.any(server, NODES) else { return "no node to change".to_owned() };
        let status = server.request("PATCH", &format!("{NODES_PATH}/{name}"), patch, now);
        format!("patch node {name} with {patch}: {status}")
    }

    fn scale(&mut self, server: &mut Server, now: Time) -> String {
        let replicas = self.rng.u32(..6);
        if let Some(name) = self.any(server, REPLICASETS) {
            let patch = json!({"spec": {"replicas": replicas}});
            let target = format!("{REPLICA_SETS_PATH}/{name}");
            let status = server.request("PATCH", &target, &patch, now);
            return format!("scale {name} to {replicas}: {status}");
        }
        let labels = json!({"app": "set"});
        let template = json!({"metadata": {"labels": labels}, "spec": self.pod_spec()});
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "set", "namespace": "default"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
                "template": template}});
        let status = server.request("POST", REPLICA_SETS_PATH, &set, now);
        format!("create ReplicaSet set of {replicas}: {status}")
    }

    fn any_node_name(&mut self) -> Option<String> {
        self.rng.bool().then(|| format!("n{}", self.rng.u32(..NODE_NAMES)))
    }

    fn any(&mut self, server: &Server, resource: &'static Resource) -> Option<String> {
        let names: Vec<&str> = server
            .store
            .objects(resource)
            .filter_map(|object| object["metadata"]["name"].as_str())
            .collect();
        (!names.is_empty()).then(|| names[self.rng.usize(..names.len())].to_owned())
    }
}
