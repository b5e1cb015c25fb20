//! Actions of other schedulers and of kubelets on pods that we placed.

use framework::Time;
use sandbox::resources::PODS;
use serde_json::{Value, json};

use super::super::coverage::Fault;
use super::super::server::Server;
use super::chance::one_of;
use super::related::collection;
use super::{Churn, FOREIGN};

/// Reasons for which a kubelet rejects a pod.
const REJECTIONS: [&str; 3] = ["NodeAffinity", "OutOfcpu", "UnexpectedAdmissionError"];
/// The annotation of the mirror of a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

impl Churn {
    /// Places a pod on a node that we have just chosen for another one: a static pod, or one that
    /// another scheduler binds.
    pub(crate) fn take_room(&mut self, server: &mut Server, node: &str, now: Time) -> String {
        let cpu = one_of(&mut self.rng, ["100m", "1", "2"]);
        let container = json!({"name": "c", "image": "example.com/app:1",
            "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}});
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("taker{}", self.rng.u32(..6)), "namespace": "kube-system"},
            "spec": {"schedulerName": FOREIGN, "containers": [container],
                "terminationGracePeriodSeconds": 1}});
        let is_static = self.rng.bool();
        if is_static {
            pod["metadata"]["annotations"] = json!({MIRROR: "x"});
            pod["spec"]["priorityClassName"] = json!("system-node-critical");
            pod["spec"]["nodeName"] = json!(node);
        }
        let pods = collection(PODS, "kube-system");
        let target = format!("{pods}/{}", pod["metadata"]["name"].as_str().unwrap_or_default());
        let now_gone = format!("{target}?gracePeriodSeconds=0");
        server.request("DELETE", &now_gone, &Value::Null, now);
        let mut status = server.request("POST", &pods, &pod, now);
        if !is_static {
            status = bind(server, &target, node, now);
        }
        format!("{target} takes {cpu} on {node}: {status}")
    }

    /// Lets another scheduler bind its pods, without much thought.
    pub(super) fn schedule_elsewhere(&mut self, server: &mut Server, now: Time) -> String {
        let is_theirs = |pod: &Value| {
            pod["spec"]["schedulerName"] == FOREIGN && pod["spec"]["nodeName"].is_null()
        };
        let pods: Vec<String> =
            server.live_pods().filter(|pod| is_theirs(pod)).map(|pod| path_of(pod)).collect();
        let name = |node: &Value| node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let nodes: Vec<String> = server.nodes().map(|node| name(node)).collect();
        let mut bound = 0;
        for pod in &pods {
            let Some(node) = self.rng.choice(&nodes) else { break };
            bound += u32::from(bind(server, pod, node, now) == 201);
        }
        format!("another scheduler binds {bound} of {} pods", pods.len())
    }

    /// Lets the kubelet reject a pod that does not run yet. Its owner, if it is one of those that
    /// keep the name, replaces it.
    pub(crate) fn reject_pod(&mut self, server: &mut Server, uid: &str, now: Time) -> String {
        let waits =
            |pod: &Value| pod["metadata"]["uid"] == uid && pod["status"]["startTime"].is_null();
        let pod = server.live_pods().find(|pod| waits(pod)).cloned();
        let Some(pod) = pod else { return format!("{uid} runs already") };
        let path = path_of(&pod);
        let reason = one_of(&mut self.rng, REJECTIONS);
        server.fired.push(Fault::KubeletRejects);
        let status = json!({"phase": "Failed", "reason": reason, "message": "Pod was rejected"});
        let written =
            server.request("PATCH", &format!("{path}/status"), &json!({ "status": status }), now);
        let mut said = format!("the kubelet rejects {path}, {reason}: {written}");
        if self.rng.bool() {
            let now_gone = format!("{path}?gracePeriodSeconds=0");
            server.request("DELETE", &now_gone, &Value::Null, now);
            let metadata = &pod["metadata"];
            let mut spec = pod["spec"].clone();
            if let Some(spec) = spec.as_object_mut() {
                spec.remove("nodeName");
            }
            let new = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
                "metadata": {"name": metadata["name"], "labels": metadata["labels"],
                    "ownerReferences": metadata["ownerReferences"]}});
            let namespace = metadata["namespace"].as_str().unwrap_or_default();
            let created = server.request("POST", &collection(PODS, namespace), &new, now);
            said = format!("{said}, replaced: {created}");
        }
        said
    }
}

/// Binds a pod.
fn bind(server: &mut Server, pod: &str, node: &str, now: Time) -> u16 {
    let name = pod.rsplit('/').next().unwrap_or_default();
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"kind": "Node", "name": node}});
    server.request("POST", &format!("{pod}/binding"), &binding, now)
}

pub(super) fn path_of(pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", collection(PODS, text("namespace")), text("name"))
}
