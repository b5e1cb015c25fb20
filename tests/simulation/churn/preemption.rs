//! Random actions that interfere with preemption.

use framework::Time;
use sandbox::resources::{PODDISRUPTIONBUDGETS, PODS};
use serde_json::{Value, json};

use super::super::coverage::Fault;
use super::super::server::{DEFAULT, Server};
use super::chance::{once_in, one_of};
use super::related::collection;
use super::{Churn, FOREIGN, pods};

/// Name and value of a priority class, and whether its pods may preempt.
type Class = (&'static str, i32, bool);

/// Priority classes. The extreme values are the lowest and the highest possible ones.
pub(super) const CLASSES: [Class; 6] = [
    ("lowest", i32::MIN, true),
    ("low", -10, true),
    ("high", 1000, true),
    ("polite", 1000, false),
    ("highest", 1_000_000_000, true),
    ("system-node-critical", 2_000_001_000, true),
];

/// Priority classes that are created later.
pub(super) fn create_classes(server: &mut Server, now: Time) {
    for (name, value, preempts) in CLASSES {
        let policy = if preempts { "PreemptLowerPriority" } else { "Never" };
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value, "preemptionPolicy": policy});
        let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
        server.request("POST", path, &class, now);
    }
}

impl Churn {
    /// Creates, deletes or changes a PodDisruptionBudget; it may select no pod or every pod.
    pub(super) fn change_budget(&mut self, server: &mut Server, now: Time) -> String {
        let app = one_of(&mut self.rng, pods::APPS);
        let mut spec = json!({"selector": pods::pods_meant(&mut self.rng, app)});
        if once_in(&mut self.rng, 8) {
            spec["selector"] = Value::Null;
        }
        match self.rng.u32(..4) {
            0 => spec["minAvailable"] = json!(self.rng.u32(..3)),
            1 => spec["maxUnavailable"] = json!(self.rng.u32(..3)),
            2 => spec["minAvailable"] = json!("50%"),
            _ => spec["minAvailable"] = json!(1),
        }
        let name = one_of(&mut self.rng, ["budget", "other-budget"]);
        self.change_object(server, PODDISRUPTIONBUDGETS, name, json!({ "spec": spec }), now)
    }

    /// Creates several pods that need evictions, the least important ones first.
    pub(super) fn let_preemptors_meet(&mut self, server: &mut Server, now: Time) -> String {
        server.fired.push(Fault::PreemptorsMeet);
        for class in [CLASSES[2], CLASSES[2], CLASSES[4], CLASSES[5]] {
            if self.rng.bool() {
                self.create_preemptor(class.0, server, now);
            }
        }
        "several preemptors come".to_owned()
    }

    /// Creates a pod of ours that requests resources only.
    pub(super) fn create_important_pod(&mut self, server: &mut Server, now: Time) {
        let class = one_of(&mut self.rng, [CLASSES[2], CLASSES[4], CLASSES[5]]);
        self.create_preemptor(class.0, server, now);
    }

    fn create_preemptor(&mut self, class: &str, server: &mut Server, now: Time) {
        let cpu = one_of(&mut self.rng, ["500m", "1", "2"]);
        let container = json!({"name": "c", "image": "example.com/app:1",
            "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("important{}", self.rng.u32(..100))},
            "spec": {"schedulerName": DEFAULT, "priorityClassName": class,
                "containers": [container]}});
        server.request("POST", &collection(PODS, "default"), &pod, now);
    }

    /// Lets a pod of another scheduler take the room of a preemptor.
    pub(super) fn squat(&mut self, server: &mut Server, now: Time) -> String {
        let is_nominated = |pod: &Value| {
            pod["status"]["nominatedNodeName"].is_string() && pod["spec"]["nodeName"].is_null()
        };
        let nominated: Vec<_> = server.live_pods().filter(|pod| is_nominated(pod)).collect();
        let Some(robbed) = self.rng.choice(nominated).cloned() else {
            return "nobody to rob".to_owned();
        };
        server.fired.push(Fault::RoomTaken);
        let mut pod = pods::template(&mut self.rng);
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(format!("squatter{}", self.rng.u32(..8)));
        pod["spec"]["schedulerName"] = json!(FOREIGN);
        pod["spec"]["nodeName"] = robbed["status"]["nominatedNodeName"].clone();
        pod["spec"]["containers"] = robbed["spec"]["containers"].clone();
        let target = collection(PODS, "default");
        let status = server.request("POST", &target, &pod, now);
        format!("{pod} takes the room of {}: {status}", robbed["metadata"]["name"])
    }

    /// Sets or clears the nomination of a pod, as another client.
    pub(super) fn nominate(&mut self, server: &mut Server, now: Time) -> String {
        let node = match self.rng.u32(..4) {
            0 => Value::Null,
            1 => json!(format!("n{}", self.node_number())),
            _ => server.nodes().last().map_or(Value::Null, |node| node["metadata"]["name"].clone()),
        };
        self.patch_pod(server, "/status", &json!({"status": {"nominatedNodeName": node}}), now)
    }

    /// Evicts a pod, if its budgets allow it.
    pub(super) fn evict(&mut self, server: &mut Server, now: Time) -> String {
        let Some(pod) = self.any(server, PODS) else { return "no pod to evict".to_owned() };
        let name = pod.rsplit('/').next().unwrap_or_default();
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": name}});
        let status = server.request("POST", &format!("{pod}/eviction"), &eviction, now);
        format!("evict {pod}: {status}")
    }
}
