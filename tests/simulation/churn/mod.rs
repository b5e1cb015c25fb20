//! What users, nodes and other schedulers do meanwhile.

pub(crate) mod catalogue;
mod chance;
pub(crate) mod nodes;
mod pods;
mod preemption;
mod related;
mod storage;

use std::time::Duration;

use fastrand::Rng;
use framework::Time;
use sandbox::resources::{NODES, PODS, REPLICATIONCONTROLLERS, Resource, STATEFULSETS};
use serde_json::{Value, json};

use super::server::Server;
use chance::{once_in, one_of};
use nodes::NODE_NAMES;
pub(crate) use pods::ALONE;
use pods::{APP, APPS};

/// Pods of one name are in all of them. The last one comes and goes.
const NAMESPACES: [&str; 3] = ["default", "kube-system", "shop"];
/// The label of namespaces that affinity terms select by.
const TEAM: &str = "team";
const TEAMS: [&str; 2] = ["red", "blue"];
/// Names that pods are given, again and again.
const POD_NAMES: u32 = 14;
const FOREIGN: &str = "other-scheduler";

/// A source of surprises.
pub(crate) struct Churn {
    rng: Rng,
    /// CPUs of the node of each number. They only grow: what was decided on what a node had, holds.
    cpus: [usize; NODE_NAMES],
    /// How many volumes can be attached to the node of each number. They only grow, too.
    attachable: [i64; NODE_NAMES],
    /// How many of ten pods that users create want volumes and little else.
    claimants: u32,
}

impl Churn {
    /// Surprises by seed.
    pub(crate) fn new(mut rng: Rng) -> Self {
        let claimants = one_of(&mut rng, [1, 3, 9]);
        let attachable = [1, 2, 1, 1, 2, 1, 0, 1];
        let cpus = std::array::from_fn(|number| 2 + number % 3);
        Self { rng, cpus, attachable, claimants }
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
        preemption::create_classes(server, now);
        for _ in 0..self.rng.u32(1..6) + self.claimants {
            self.create_node(server, now);
        }
        for _ in 0..self.rng.u32(..6) {
            self.change_namespace(server, now);
            self.change_service(server, now);
            self.change_controller(server, now);
            self.change_budget(server, now);
        }
        self.begin_storage(server, now);
        for _ in 0..self.rng.u32(..20) {
            self.create_pod(server, now);
        }
    }

    /// The churn is over. All claims are there, so that a volume that is kept from them is missed.
    pub(crate) fn leave(&mut self, server: &mut Server, now: Time) {
        for namespace in NAMESPACES {
            self.create_all_claims(server, namespace, now);
        }
    }

    /// Many pods come at once, the most important ones of all among them.
    pub(crate) fn rush(&mut self, server: &mut Server, now: Time) {
        for _ in 0..self.rng.u32(2..8) {
            self.create_important_pod(server, now);
        }
    }

    /// The last words.
    pub(crate) fn end(&mut self, server: &mut Server, now: Time) {
        for _ in 0..2 {
            self.create_node(server, now);
        }
        self.restore_storage(server, now);
        for _ in 0..3 {
            self.create_pod(server, now);
        }
    }

    /// One surprise, and what it was.
    pub(crate) fn step(&mut self, server: &mut Server, now: Time) -> String {
        match self.rng.u32(..191) {
            0..34 => self.create_pod(server, now),
            34..52 => self.delete_pod(server, now),
            52..57 => self.replace_pod(server, now),
            57..63 => self.open_gates(server, now),
            63..67 => self.finish_pod(server, now),
            67..70 => self.drop_finalizers(server, now),
            70..74 => self.bind_elsewhere(server, now),
            74..82 => self.relabel_pod(server, now),
            82..87 => self.create_node(server, now),
            87..90 => self.delete_node(server, now),
            90..97 => self.change_node(server, now),
            97..103 => self.move_node(server, now),
            103..105 => self.grow_node(server, now),
            105..109 => self.scale(server, now),
            109..114 => self.change_namespace(server, now),
            114..119 => self.change_service(server, now),
            119..124 => self.change_controller(server, now),
            124..132 => self.change_budget(server, now),
            132..136 => self.squat(server, now),
            136..139 => self.nominate(server, now),
            139..142 => self.evict(server, now),
            142..145 => {
                server.store.compact();
                "history is compacted".to_owned()
            }
            145..185 => self.change_storage(server, now),
            185 => self.stop_controllers(server, now),
            _ => self.heartbeat(server, now),
        }
    }

    /// For longer than some pods wait for their volumes, now and then.
    fn stop_controllers(&mut self, server: &mut Server, now: Time) -> String {
        let pause = Duration::from_millis(self.rng.u64(..30_000));
        server.stop_controllers(now + pause);
        format!("the controllers do nothing for {pause:?}")
    }

    fn create_pod(&mut self, server: &mut Server, now: Time) -> String {
        let is_crowded = self.rng.u32(..10) < self.claimants;
        let namespaces = if is_crowded { [NAMESPACES[0]; 3] } else { NAMESPACES };
        let namespace = one_of(&mut self.rng, namespaces);
        let name = format!("p{}", self.rng.u32(..POD_NAMES));
        let pod = self.pod(server, namespace, &name);
        self.create_claims_of(&pod, server, now);
        let target = related::collection(PODS, namespace);
        match server.request("POST", &target, &pod, now) {
            201 => format!("create {pod}"),
            status => format!("create {namespace}/{name}: {status}"),
        }
    }

    fn pod(&mut self, server: &Server, namespace: &str, name: &str) -> Value {
        let mut pod = match self.rng.u32(..10) < self.claimants {
            true => pods::claimant(&mut self.rng),
            false => pods::template(&mut self.rng),
        };
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["namespace"] = json!(namespace);
        if once_in(&mut self.rng, 12) {
            pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }
        if once_in(&mut self.rng, 3) {
            pod["metadata"]["ownerReferences"] = self.owner(server, namespace);
        }
        if once_in(&mut self.rng, 12) {
            pod["spec"]["schedulerName"] = json!(FOREIGN);
            if self.rng.bool() {
                pod["spec"]["nodeName"] = json!(format!("n{}", self.rng.usize(..NODE_NAMES)));
            }
        } else if once_in(&mut self.rng, 6) {
            pod["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
        }
        pod
    }

    /// A controller of this namespace that pods can name as theirs, if there is one.
    fn owner(&mut self, server: &Server, namespace: &str) -> Value {
        let kind = one_of(&mut self.rng, [STATEFULSETS, REPLICATIONCONTROLLERS]);
        let mut objects = server.store.objects(kind);
        let owner = objects.find(|object| object["metadata"]["namespace"] == namespace);
        let Some(owner) = owner else { return json!([]) };
        let (name, uid) = (&owner["metadata"]["name"], &owner["metadata"]["uid"]);
        json!([{"apiVersion": kind.api_version(), "kind": kind.kind, "name": name, "uid": uid,
            "controller": true}])
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
        let pod = self.pod(server, namespace, name);
        self.create_claims_of(&pod, server, now);
        let come = server.request("POST", old.trim_end_matches(name), &pod, now);
        format!("replace {old} by {pod}: {gone}, {come}")
    }

    /// Gates open; a label changes with them now and then.
    fn open_gates(&mut self, server: &mut Server, now: Time) -> String {
        let mut patch = json!({"spec": {"schedulingGates": null}});
        if self.rng.bool() {
            patch["metadata"] = json!({"labels": {APP: one_of(&mut self.rng, APPS)}});
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

    /// A pod, wherever it is on its way, goes to another application, or to none.
    fn relabel_pod(&mut self, server: &mut Server, now: Time) -> String {
        let app = one_of(&mut self.rng, [Some("a"), Some("b"), Some("c"), None]);
        self.patch_pod(server, "", &json!({"metadata": {"labels": {APP: app}}}), now)
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

    /// The path of some object.
    fn any(&mut self, server: &Server, resource: &'static Resource) -> Option<String> {
        let objects: Vec<&Value> = server.store.objects(resource).map(AsRef::as_ref).collect();
        let object = self.rng.choice(objects)?;
        let name = object["metadata"]["name"].as_str()?;
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        Some(format!("{}/{name}", related::collection(resource, namespace)))
    }
}
