//! Random actions of users, nodes and other schedulers.

pub(crate) mod catalogue;
mod chance;
pub(crate) mod devices;
mod foreign;
mod mass;
pub(crate) mod nodes;
mod pods;
mod preemption;
mod related;
mod storage;
mod under_way;

use std::time::Duration;

use fastrand::Rng;
use framework::Time;
use sandbox::resources::{NODES, PODS, REPLICATIONCONTROLLERS, Resource, STATEFULSETS};
use serde_json::{Value, json};

use super::coverage::Fault;
use super::server::Server;
use chance::{once_in, one_of};
use nodes::NODE_NAMES;
pub(crate) use pods::ALONE;
use pods::{APP, APPS};

/// Namespaces with pods of equal names. The last one is created and deleted repeatedly.
const NAMESPACES: [&str; 3] = ["default", "kube-system", "shop"];
/// The label of namespaces that affinity terms select.
const TEAM: &str = "team";
const TEAMS: [&str; 2] = ["red", "blue"];
/// Names of pods, used repeatedly.
const POD_NAMES: u32 = 14;
const FOREIGN: &str = "other-scheduler";

/// A generator of random actions.
pub(crate) struct Churn {
    rng: Rng,
    /// CPUs of the node of each number. They only grow, so earlier decisions stay valid.
    cpus: [usize; NODE_NAMES],
    /// Attach limit of the node of each number. It only grows, too.
    attachable: [i64; NODE_NAMES],
    /// Share of created pods, in tenths, that mainly request volumes.
    claimants: u32,
    /// Whether there are devices.
    has_devices: bool,
    /// Whether another scheduler takes the room of preemptors again and again.
    has_rival: bool,
    /// Generation of the last pool of devices.
    generation: u64,
}

impl Churn {
    /// Creates a generator from a seed.
    pub(crate) fn new(mut rng: Rng, has_devices: bool) -> Self {
        let claimants = one_of(&mut rng, [1, 3, 9]);
        let attachable = [1, 2, 1, 1, 2, 1, 0, 1];
        let has_rival = once_in(&mut rng, 4);
        let cpus = std::array::from_fn(|number| 2 + number % 3);
        Self { rng, cpus, attachable, claimants, has_devices, has_rival, generation: 0 }
    }

    /// Whether there are devices.
    pub(crate) const fn has_devices(&self) -> bool {
        self.has_devices
    }

    /// Returns the time until the next action.
    pub(crate) fn pause(&mut self) -> Duration {
        Duration::from_millis(match self.rng.u32(..10) {
            0..6 => self.rng.u64(..20),
            6..9 => self.rng.u64(..1000),
            _ => self.rng.u64(..15_000),
        })
    }

    /// Creates the initial objects.
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
        if self.has_devices {
            self.begin_devices(server, now);
        }
        for _ in 0..self.rng.u32(..20) {
            self.create_pod(server, now);
        }
    }

    /// Ends the churn. All claims are created, so that a withheld volume is noticed.
    pub(crate) fn leave(&mut self, server: &mut Server, now: Time) {
        for namespace in NAMESPACES {
            self.create_all_claims(server, namespace, now);
        }
        if self.has_devices {
            self.restore_devices(server, now);
            self.publish_shared(server, now);
        }
    }

    /// Creates many pods at once, among them the most important ones.
    pub(crate) fn rush(&mut self, server: &mut Server, now: Time) {
        for _ in 0..self.rng.u32(2..8) {
            self.create_important_pod(server, now);
        }
    }

    /// Creates the final nodes.
    pub(crate) fn end(&mut self, server: &mut Server, now: Time) {
        for _ in 0..2 {
            self.create_node(server, now);
        }
        self.restore_storage(server, now);
        for _ in 0..3 {
            self.create_pod(server, now);
        }
    }

    /// Carries out one action, and describes it.
    pub(crate) fn step(&mut self, server: &mut Server, now: Time) -> String {
        if self.has_devices && once_in(&mut self.rng, 8) {
            return self.change_devices(server, now);
        }
        if self.has_rival && once_in(&mut self.rng, 4) {
            return self.squat(server, now);
        }
        match self.rng.u32(..210) {
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
                server.compact();
                server.fired.push(Fault::HistoryCompacted);
                "history is compacted".to_owned()
            }
            145..185 => self.change_storage(server, now),
            185 => self.stop_controllers(server, now),
            186..189 => self.let_preemptors_meet(server, now),
            191 => self.act_in_mass(server, now),
            192..196 => self.schedule_elsewhere(server, now),
            196..208 => self.disturb_pods_under_way(server, now),
            208..210 => self.create_crowd(server, now),
            _ => self.heartbeat(server, now),
        }
    }

    /// Sometimes longer than some pods wait for their volumes.
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
        let wants_devices = self.has_devices && self.rng.u32(..5) < 3;
        let mut pod = match self.rng.u32(..10) < self.claimants {
            _ if wants_devices && !once_in(&mut self.rng, 4) => devices::template(&mut self.rng),
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
        if wants_devices {
            devices::request_devices(&mut self.rng, &mut pod);
        }
        pod
    }

    /// Returns a controller of this namespace that can own pods, if there is one.
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

    /// Deletes a pod without grace, and creates another of its name.
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

    /// Removes gates, and sometimes changes a label.
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

    /// Removes the finalizers of a deleted pod.
    fn drop_finalizers(&mut self, server: &mut Server, now: Time) -> String {
        self.patch_pod(server, "", &json!({"metadata": {"finalizers": null}}), now)
    }

    /// Moves a pod to another application, or to none.
    fn relabel_pod(&mut self, server: &mut Server, now: Time) -> String {
        let app = one_of(&mut self.rng, [Some("a"), Some("b"), Some("c"), None]);
        self.patch_pod(server, "", &json!({"metadata": {"labels": {APP: app}}}), now)
    }

    fn patch_pod(&mut self, server: &mut Server, sub: &str, patch: &Value, now: Time) -> String {
        let Some(pod) = self.any(server, PODS) else { return "no pod to change".to_owned() };
        let status = server.request("PATCH", &format!("{pod}{sub}"), patch, now);
        format!("patch {pod} with {patch}: {status}")
    }

    /// Binds a pod as another scheduler, sometimes one of ours.
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

    /// Returns the path of a random object.
    fn any(&mut self, server: &Server, resource: &'static Resource) -> Option<String> {
        let objects: Vec<&Value> = server.store.objects(resource).map(AsRef::as_ref).collect();
        let object = self.rng.choice(objects)?;
        let name = object["metadata"]["name"].as_str()?;
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        Some(format!("{}/{name}", related::collection(resource, namespace)))
    }
}
