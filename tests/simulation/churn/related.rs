//! Random actions on namespaces, Services and controllers of pods.

use framework::Time;
use sandbox::resources::{REPLICASETS, REPLICATIONCONTROLLERS, Resource, SERVICES, STATEFULSETS};
use serde_json::{Value, json};

use super::super::server::Server;
use super::chance::{once_in, one_of};
use super::pods::{self, APP, APPS};
use super::{Churn, NAMESPACES, TEAM, TEAMS};

/// A namespace that is created and deleted repeatedly.
const VOLATILE: &str = NAMESPACES[2];
const NAMESPACES_PATH: &str = "/api/v1/namespaces";

impl Churn {
    /// Creates, deletes or relabels a namespace.
    pub(super) fn change_namespace(&mut self, server: &mut Server, now: Time) -> String {
        match self.rng.u32(..8) {
            0..3 => self.create_namespace(server, now),
            3 => {
                let target = format!("{NAMESPACES_PATH}/{VOLATILE}");
                let status = server.request("DELETE", &target, &Value::Null, now);
                format!("delete namespace {VOLATILE}: {status}")
            }
            _ => self.relabel_namespace(server, now),
        }
    }

    fn create_namespace(&mut self, server: &mut Server, now: Time) -> String {
        let labels = json!({TEAM: one_of(&mut self.rng, TEAMS)});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": VOLATILE, "labels": labels}});
        let status = server.request("POST", NAMESPACES_PATH, &namespace, now);
        format!("create namespace {VOLATILE} with {labels}: {status}")
    }

    fn relabel_namespace(&mut self, server: &mut Server, now: Time) -> String {
        let namespace = one_of(&mut self.rng, NAMESPACES);
        let team = one_of(&mut self.rng, [Some(TEAMS[0]), Some(TEAMS[1]), None]);
        let patch = json!({"metadata": {"labels": {TEAM: team}}});
        let target = format!("{NAMESPACES_PATH}/{namespace}");
        let status = server.request("PATCH", &target, &patch, now);
        format!("patch {target} with {patch}: {status}")
    }

    /// Creates, deletes or changes a Service.
    pub(super) fn change_service(&mut self, server: &mut Server, now: Time) -> String {
        let selector = json!({APP: one_of(&mut self.rng, APPS)});
        let service = json!({"spec": {"selector": selector, "ports": [{"port": 80}]}});
        self.change_object(server, SERVICES, "service", service, now)
    }

    /// Creates or deletes a controller object that no controller runs. Pods name it as their owner,
    /// and its selector applies to them.
    pub(super) fn change_controller(&mut self, server: &mut Server, now: Time) -> String {
        let template = pods::template(&mut self.rng);
        let labels = &template["metadata"]["labels"];
        let (kind, selector) = match self.rng.bool() {
            true => (STATEFULSETS, json!({"matchLabels": {APP: labels[APP]}})),
            false => (REPLICATIONCONTROLLERS, json!({APP: labels[APP]})),
        };
        let spec = json!({"selector": selector, "template": template, "replicas": 1,
            "serviceName": "service"});
        self.change_object(server, kind, "controller", json!({"spec": spec}), now)
    }

    /// Creates, replaces or deletes the object of this name in a random namespace.
    pub(super) fn change_object(
        &mut self,
        server: &mut Server,
        kind: &'static Resource,
        name: &str,
        mut object: Value,
        now: Time,
    ) -> String {
        let namespace = one_of(&mut self.rng, NAMESPACES);
        let objects = collection(kind, namespace);
        let target = format!("{objects}/{name}");
        if once_in(&mut self.rng, 3) {
            let status = server.request("DELETE", &target, &Value::Null, now);
            return format!("delete {target}: {status}");
        }
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.kind);
        object["metadata"] = json!({"name": name});
        let mut status = server.request("POST", &objects, &object, now);
        if status == 409 {
            status = server.request("PATCH", &target, &json!({"spec": object["spec"]}), now);
        }
        format!("{target} is {}: {status}", object["spec"]["selector"])
    }

    /// Scales or deletes a ReplicaSet.
    pub(super) fn scale(&mut self, server: &mut Server, now: Time) -> String {
        let replicas = self.rng.u32(..6);
        let (namespace, name) =
            one_of(&mut self.rng, [("default", "red"), ("default", "blue"), (VOLATILE, "red")]);
        let sets = collection(REPLICASETS, namespace);
        let target = format!("{sets}/{name}");
        if once_in(&mut self.rng, 8) {
            let status = server.request("DELETE", &target, &Value::Null, now);
            return format!("delete {target}: {status}");
        }
        let mut template = pods::template(&mut self.rng);
        template["metadata"]["labels"]["set"] = json!(name);
        let selector = json!({"matchLabels": {"set": name}});
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": selector, "template": template}});
        let mut status = server.request("POST", &sets, &set, now);
        if status == 409 {
            let patch = json!({"spec": {"replicas": replicas}});
            status = server.request("PATCH", &target, &patch, now);
        }
        format!("scale {target} to {replicas}: {status}")
    }
}

/// Returns the path of the objects of a kind, in a namespace; cluster-scoped kinds have none.
pub(super) fn collection(kind: &Resource, namespace: &str) -> String {
    let prefix =
        if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
    let place =
        if namespace.is_empty() { String::new() } else { format!("namespaces/{namespace}/") };
    format!("{prefix}/{}/{place}{}", kind.version, kind.plural)
}
