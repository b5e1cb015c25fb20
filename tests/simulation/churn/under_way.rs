//! Random actions on pods that the scheduler is working on: that wait in their binding cycle or for
//! victims, or that share the answer of an attempt.

use framework::Time;
use sandbox::resources::{NODES, PODS};
use serde_json::{Value, json};

use super::super::coverage::Fault;
use super::super::groups::is_member;
use super::super::patience;
use super::super::server::{DEFAULT, Server, is_ours};
use super::chance::one_of;
use super::mass::MANY;
use super::pods::{APP, APPS};
use super::related::collection;
use super::{Churn, NAMESPACES};

/// Start of the names of equal pods.
const CROWD: &str = "crowd";
/// Number of equal pods.
const CROWDED: u32 = 4;
/// Maximum number of pods that are disturbed at once.
const MOST_DISTURBED: usize = 4;

impl Churn {
    /// Creates equal pods that need much room and evict no others, so that the attempt of one
    /// decides for all.
    pub(super) fn create_crowd(&mut self, server: &mut Server, now: Time) -> String {
        let cpu = one_of(&mut self.rng, ["1", "2", "3"]);
        let container = json!({"name": "c", "image": "example.com/app:1",
            "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}});
        let spec = json!({"schedulerName": DEFAULT, "priorityClassName": "polite",
            "containers": [container], "terminationGracePeriodSeconds": 1});
        let app = one_of(&mut self.rng, APPS);
        for number in 0..CROWDED {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
                "metadata": {"name": format!("{CROWD}{number}"), "labels": {APP: app}}});
            server.request("POST", &collection(PODS, NAMESPACES[0]), &pod, now);
        }
        format!("create equal pods that request {cpu} CPUs each")
    }

    /// Changes, deletes, replaces or binds some of the pods that the scheduler is working on.
    pub(super) fn disturb_pods_under_way(&mut self, server: &mut Server, now: Time) -> String {
        let mut under_way: Vec<_> =
            server.live_pods().filter(|pod| is_under_way(pod)).cloned().collect();
        self.rng.shuffle(&mut under_way);
        let disturbed = under_way.iter().take(MOST_DISTURBED);
        let done: Vec<String> = disturbed.map(|pod| self.disturb(pod, server, now)).collect();
        done.join("; ")
    }

    fn disturb(&mut self, pod: &Value, server: &mut Server, now: Time) -> String {
        server.fired.push(Fault::PodDisturbed);
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (pods, name) = (collection(PODS, &text("namespace")), text("name"));
        let path = format!("{pods}/{name}");
        match self.rng.u32(..8) {
            0 => {
                let status = server.request("DELETE", &path, &Value::Null, now);
                format!("delete {path}, which is under way: {status}")
            }
            1 | 2 => {
                let at_once = format!("{path}?gracePeriodSeconds=0");
                let gone = server.request("DELETE", &at_once, &Value::Null, now);
                let namesake = namesake(pod);
                let come = server.request("POST", &pods, &namesake, now);
                format!("replace {path}, which is under way: {gone}, {come}")
            }
            3 => {
                let nodes: Vec<String> = server.nodes().map(|node| name_of(node)).collect();
                let Some(node) = self.rng.choice(nodes) else { return "no node".to_owned() };
                let binding = json!({"apiVersion": "v1", "kind": "Binding",
                    "metadata": {"name": name}, "target": {"kind": NODES.kind, "name": node}});
                let status = server.request("POST", &format!("{path}/binding"), &binding, now);
                format!("bind {path}, which is under way, to {node}: {status}")
            }
            4 => {
                let mut tolerations =
                    pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
                let key = format!("example.com/t{}", tolerations.len());
                tolerations.push(json!({"key": key, "operator": "Exists"}));
                patch(server, &path, &json!({"spec": {"tolerations": tolerations}}), now)
            }
            5 => {
                let app = one_of(&mut self.rng, APPS);
                patch(server, &path, &json!({"metadata": {"labels": {APP: app}}}), now)
            }
            6 => {
                let number = self.rng.u32(..).to_string();
                let annotated =
                    json!({"metadata": {"annotations": {"example.com/number": number}}});
                patch(server, &path, &annotated, now)
            }
            _ => {
                let status = json!({"status": {"nominatedNodeName": Value::Null}});
                patch(server, &format!("{path}/status"), &status, now)
            }
        }
    }
}

fn patch(server: &mut Server, path: &str, patch: &Value, now: Time) -> String {
    let status = server.request("PATCH", path, patch, now);
    format!("patch {path}, which is under way, with {patch}: {status}")
}

/// Whether the scheduler may be working on a pod of ours that has no node.
fn is_under_way(pod: &Value) -> bool {
    let waits = !pod["metadata"]["labels"][patience::LABEL].is_null()
        || is_member(pod)
        || !pod["status"]["nominatedNodeName"].is_null()
        || [CROWD, MANY].iter().any(|equal| name_of(pod).starts_with(equal));
    waits && pod["spec"]["nodeName"].is_null() && is_ours(pod)
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Returns another pod with the name, the labels and the specification of this one.
fn namesake(pod: &Value) -> Value {
    let metadata = json!({"name": pod["metadata"]["name"], "labels": pod["metadata"]["labels"]});
    let mut spec = pod["spec"].clone();
    if let Some(spec) = spec.as_object_mut() {
        // The server sets it from the class.
        spec.remove("priority");
        spec.remove("preemptionPolicy");
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}
