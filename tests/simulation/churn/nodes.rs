//! Random actions on nodes.

use framework::Time;
use sandbox::resources::NODES;
use serde_json::{Value, json};

use super::super::extender;
use super::super::server::{BUSY, Server};
use super::Churn;
use super::chance::one_of;

/// The label of the zone of a node. It may change.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
/// The label of the name of a node. It may change, too.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
/// The label of the name of a node that never changes.
pub(crate) const MACHINE: &str = "example.com/machine";
pub(super) const ZONES: [&str; 3] = ["a", "b", "c"];
pub(crate) const NODE_NAMES: usize = 8;

const PATH: &str = "/api/v1/nodes";

impl Churn {
    /// Size and machine of a node follow from its name, so a recreated node is the same.
    pub(super) fn create_node(&mut self, server: &mut Server, now: Time) -> String {
        let number = self.node_number();
        let name = format!("n{number}");
        let (cpus, most_pods) = (self.cpus[number].to_string(), self.most_pods[number].to_string());
        let mut size = json!({"cpu": cpus, "memory": "4Gi", "pods": most_pods});
        if self.has_sources() {
            // A plugin that reads NUMA nodes asks the node for devices.
            size[extender::RESOURCE] = json!("1000");
        }
        let labels = json!({ZONE: ZONES[number % 3], HOSTNAME: name, MACHINE: name});
        let node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"capacity": size, "allocatable": size}});
        let status = server.request("POST", PATH, &node, now);
        format!("create node {name}: {status}")
    }

    pub(super) fn delete_node(&mut self, server: &mut Server, now: Time) -> String {
        let Some(node) = self.any(server, NODES) else { return "no node to delete".to_owned() };
        let status = server.request("DELETE", &node, &Value::Null, now);
        format!("delete {node}: {status}")
    }

    /// Returns taints; most nodes have none.
    pub(super) fn change_node(&mut self, server: &mut Server, now: Time) -> String {
        let patch = match self.rng.u32(..8) {
            0 => json!({"spec": {"unschedulable": true}}),
            1 | 2 => json!({"spec": {"unschedulable": null}}),
            3 => json!({"spec": {"taints": [{"key": BUSY, "effect": "NoSchedule"}]}}),
            4 | 5 => json!({"spec": {"taints": null}}),
            6 => json!({"metadata": {"labels": {"disk": "fast"}}}),
            _ => json!({"metadata": {"labels": {"disk": null}}}),
        };
        self.patch_node(server, &patch, now)
    }

    /// Changes or removes the labels of zone or hostname.
    pub(super) fn move_node(&mut self, server: &mut Server, now: Time) -> String {
        let labels = match self.rng.u32(..8) {
            0 => json!({ZONE: null}),
            1 => json!({HOSTNAME: null}),
            2..6 => json!({ZONE: one_of(&mut self.rng, ZONES)}),
            _ => json!({HOSTNAME: format!("n{}", self.node_number())}),
        };
        self.patch_node(server, &json!({"metadata": {"labels": labels}}), now)
    }

    pub(super) fn grow_node(&mut self, server: &mut Server, now: Time) -> String {
        let number = self.node_number();
        let (resource, amount) = match self.rng.bool() {
            true => ("cpu", &mut self.cpus[number]),
            false => ("pods", &mut self.most_pods[number]),
        };
        *amount += 1;
        let amount = amount.to_string();
        let size = json!({resource: amount});
        let patch = json!({"status": {"capacity": size, "allocatable": size}});
        let status = server.request("PATCH", &format!("{PATH}/n{number}/status"), &patch, now);
        format!("node n{number} has {amount} {resource}: {status}")
    }

    pub(super) fn heartbeat(&mut self, server: &mut Server, now: Time) -> String {
        let stamp = now.as_nanos().to_string();
        let patch = json!({"metadata": {"annotations": {"example.com/heartbeat": stamp}}});
        self.patch_node(server, &patch, now)
    }

    fn patch_node(&mut self, server: &mut Server, patch: &Value, now: Time) -> String {
        let Some(node) = self.any(server, NODES) else { return "no node to change".to_owned() };
        let status = server.request("PATCH", &node, patch, now);
        format!("patch {node} with {patch}: {status}")
    }
}
