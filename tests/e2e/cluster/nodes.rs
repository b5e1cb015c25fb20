//! Nodes of a test.

use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{Cluster, LABEL, create, named};

impl Cluster {
    /// Returns the name of a node in the whole cluster.
    pub(in crate::e2e) fn node_name(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// Adds a ready Node with this number of CPUs.
    pub(in crate::e2e) async fn add_node(&self, name: &str, cpus: u32) {
        self.add_node_with(name, cpus, json!({})).await;
    }

    /// Adds a Node in this zone.
    pub(in crate::e2e) async fn add_node_in_zone(&self, name: &str, cpus: u32, zone: &str) {
        self.add_node(name, cpus).await;
        let labels = json!({"topology.kubernetes.io/zone": zone});
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        let name = self.node_name(name);
        self.nodes.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Adds a Node with this spec.
    pub(in crate::e2e) async fn add_node_with(&self, name: &str, cpus: u32, spec: Value) {
        let name = self.node_name(name);
        let mut node: Node = named(&name);
        let labels = [(LABEL, self.name.as_str()), ("kubernetes.io/hostname", &name)];
        node.metadata.labels =
            Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        create(&self.nodes, &node).await;
        // The API server taints new nodes as not ready, and accepts their status only in a separate
        // request. Without a status a node has no room.
        let taints = spec.get("taints").cloned().unwrap_or_default();
        let mut spec = json!({"spec": spec});
        spec["spec"]["taints"] = taints;
        let default = PatchParams::default();
        self.nodes.patch(&name, &default, &Patch::Merge(spec)).await.unwrap();
        self.give_room(&name, cpus).await;
    }

    async fn give_room(&self, node: &str, cpus: u32) {
        let room = json!({"cpu": cpus.to_string(), "memory": "64Gi", "pods": "110"});
        let ready = json!([{"type": "Ready", "status": "True", "reason": "KubeletReady"}]);
        let status =
            json!({"status": {"capacity": room, "allocatable": room, "conditions": ready}});
        let (default, patch) = (PatchParams::default(), Patch::Merge(status));
        self.nodes.patch_status(node, &default, &patch).await.unwrap();
    }

    /// Changes the number of CPUs of a Node.
    pub(in crate::e2e) async fn resize_node(&self, name: &str, cpus: u32) {
        self.give_room(&self.node_name(name), cpus).await;
    }

    /// Changes the spec of a Node by a merge patch.
    pub(in crate::e2e) async fn patch_node(&self, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        let name = self.node_name(name);
        self.nodes.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Deletes a Node.
    pub(in crate::e2e) async fn delete_node(&self, name: &str) {
        self.nodes.delete(&self.node_name(name), &DeleteParams::default()).await.unwrap();
    }

    /// Waits until the scheduler has seen all earlier changes of nodes: a node that is added now is
    /// used.
    pub(in crate::e2e) async fn nodes_are_seen(&self) {
        self.add_node("marker", 1).await;
        let mut marker = self.pod("marker", 1);
        let hostname = ("kubernetes.io/hostname".to_owned(), self.node_name("marker"));
        marker.spec.as_mut().unwrap().node_selector = Some([hostname].into());
        self.create_pod(&marker).await;
        self.bound("marker").await;
        self.delete_pod("marker").await;
        self.delete_node("marker").await;
    }
}
