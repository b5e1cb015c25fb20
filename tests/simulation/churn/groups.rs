//! Random actions on PodGroups of both APIs and on the pods that belong to them.
//!
//! The pods of a group are mostly equal, so that an oracle can say whether enough of them fit.

use std::collections::BTreeMap;

use fastrand::Rng;
use framework::{POD_GROUP_LABEL, Time};
use sandbox::resources::{NODES, PODGROUPS, PODS};
use serde_json::{Value, json};

use super::super::coverage::Fault;
use super::super::groups::{self, NATIVE, OTHER};
use super::super::patience;
use super::super::server::{DEFAULT, SPREADING, Server};
use super::chance::{once_in, one_of};
use super::nodes::{MACHINE, ZONE};
use super::pods::{ALONE, APP, APPS};
use super::preemption::CLASSES;
use super::related::collection;
use super::{Churn, NAMESPACES};

/// Names of PodGroups of `scheduling.k8s.io`. The last one is never created.
const GROUPS: [&str; 4] = ["g0", "g1", "g2", "ghost"];
/// The name of a PodGroup of Coscheduling.
const COSCHEDULED: &str = "c0";
/// Number of names of the pods of a group.
const MEMBERS: u32 = 5;
/// A count that no cluster can hold.
const TOO_MANY: u32 = 10_000;
/// A label that no node has.
const NOWHERE: &str = "example.com/nowhere";

/// A PodGroup, and what most of its pods are like.
#[derive(Debug, Clone)]
pub(super) struct Made {
    /// Labels and specification of a member.
    member: Value,
}

/// The PodGroups that were made, by the paths of their objects.
pub(super) type Groups = BTreeMap<String, Made>;

/// Name and namespace of a PodGroup.
#[derive(Debug, Clone, Copy)]
struct Name {
    namespace: &'static str,
    name: &'static str,
}

impl Name {
    fn any(rng: &mut Rng) -> Self {
        let namespace = if once_in(rng, 5) { NAMESPACES[1] } else { NAMESPACES[0] };
        let name = match rng.u32(..12) {
            0 => GROUPS[3],
            1 | 2 => COSCHEDULED,
            other => GROUPS[other as usize % 3],
        };
        Self { namespace, name }
    }

    fn is_of_coscheduling(self) -> bool {
        self.name == COSCHEDULED
    }

    fn collection(self) -> String {
        let api = if self.is_of_coscheduling() { OTHER } else { NATIVE };
        format!("/apis/{api}/namespaces/{}/podgroups", self.namespace)
    }

    fn path(self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }
}

impl Churn {
    /// Lets the API server serve the PodGroups of Coscheduling.
    pub(super) fn begin_groups(&mut self, server: &mut Server, now: Time) {
        groups::serve_coscheduling(server, now);
        for _ in 0..self.rng.u32(..4) {
            self.change_groups(server, now);
        }
    }

    /// Carries out an action on PodGroups or their pods, and describes it.
    pub(super) fn change_groups(&mut self, server: &mut Server, now: Time) -> String {
        match self.rng.u32(..20) {
            0..4 => self.create_whole_group(server, now),
            4 => self.make_group(server, now),
            5..12 => {
                let name = Name::any(&mut self.rng);
                self.create_member(name, server, now)
            }
            12..15 => self.delete_member(server, now),
            15..17 => self.change_count(server, now),
            17 => self.delete_group(server, now),
            18 => self.replace_group(server, now),
            _ => self.bind_member(server, now),
        }
    }

    /// Creates a gang that fits, if no group of its name is there, and its pods.
    pub(super) fn create_last_group(&mut self, server: &mut Server, now: Time) {
        let name = Name { namespace: NAMESPACES[0], name: GROUPS[0] };
        let spec = json!({"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 0});
        let group = json!({"apiVersion": NATIVE, "kind": "PodGroup",
            "metadata": {"name": name.name}, "spec": spec});
        server.request("POST", &name.collection(), &group, now);
        for _ in 0..3 {
            self.create_member(name, server, now);
        }
    }

    /// Creates a PodGroup and pods for it, in any order. Some pods may come later.
    fn create_whole_group(&mut self, server: &mut Server, now: Time) -> String {
        let name = Name::any(&mut self.rng);
        let is_first = self.rng.bool();
        let mut done = Vec::new();
        if is_first {
            done.push(self.make(name, server, now));
        }
        for _ in 0..self.rng.u32(1..=MEMBERS) {
            done.push(self.create_member(name, server, now));
        }
        if !is_first {
            done.push(self.make(name, server, now));
        }
        done.join("; ")
    }

    fn make_group(&mut self, server: &mut Server, now: Time) -> String {
        let name = Name::any(&mut self.rng);
        self.make(name, server, now)
    }

    /// Creates a PodGroup, unless one of its name exists.
    fn make(&mut self, name: Name, server: &mut Server, now: Time) -> String {
        if name.name == GROUPS[3] {
            return "a PodGroup never comes".to_owned();
        }
        let (spec, member) = self.group(name);
        let api_version = if name.is_of_coscheduling() { OTHER } else { NATIVE };
        let group = json!({"apiVersion": api_version, "kind": "PodGroup",
            "metadata": {"name": name.name}, "spec": spec});
        let status = server.request("POST", &name.collection(), &group, now);
        if status == 201 {
            // Pods that came before their PodGroup keep what they are.
            self.groups.entry(name.path()).or_insert(Made { member });
        }
        format!("create {} with {spec}: {status}", name.path())
    }

    /// Returns the specification of a PodGroup, and what its pods are like.
    fn group(&mut self, name: Name) -> (Value, Value) {
        let rng = &mut self.rng;
        let known = self.groups.get(&name.path()).cloned();
        let made = known.unwrap_or_else(|| Made { member: member(rng) });
        let count = match rng.u32(..16) {
            0 => TOO_MANY,
            1 => MEMBERS + 1,
            _ => rng.u32(1..=4),
        };
        if name.is_of_coscheduling() {
            return (json!({"minMember": count}), made.member);
        }
        let policy = match once_in(rng, 5) {
            true => json!({"basic": {}}),
            false => json!({"gang": {"minCount": count}}),
        };
        let mut spec = json!({"schedulingPolicy": policy});
        let class = made.member["spec"]["priorityClassName"].as_str().unwrap_or_default();
        let (_, priority, _) =
            CLASSES.into_iter().find(|(name, ..)| *name == class).unwrap_or_default();
        spec["priority"] = json!(priority);
        if once_in(rng, 12) {
            spec["priority"] = json!(one_of(rng, [-10, 7, 1000]));
        }
        if once_in(rng, 3) {
            spec["disruptionMode"] = json!({"all": {}});
        }
        match rng.u32(..12) {
            0 => {
                spec["schedulingConstraints"] = json!({"topology": [{"key": NOWHERE}]});
            }
            1..4 => spec["schedulingConstraints"] = json!({"topology": [{"key": ZONE}]}),
            _ => {}
        }
        (spec, made.member)
    }

    /// Creates a pod of a group. Few differ from the others of their group.
    fn create_member(&mut self, name: Name, server: &mut Server, now: Time) -> String {
        let rng = &mut self.rng;
        let made = self.groups.entry(name.path()).or_insert_with(|| Made { member: member(rng) });
        let mut pod = made.member.clone();
        let is_patient = match self.emphasis.is_on(super::super::emphasis::Theme::UnderWay) {
            true => rng.bool(),
            false => once_in(rng, 8),
        };
        if is_patient {
            pod["metadata"]["labels"][patience::LABEL] = json!(one_of(rng, patience::VALUES));
        }
        match rng.u32(..40) {
            0 => pod["spec"]["priorityClassName"] = json!(one_of(rng, ["low", "high"])),
            1 => pod["spec"]["schedulerName"] = json!(SPREADING),
            2 => pod["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]),
            3 => {
                pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
                    json!(one_of(rng, ["100m", "2", "3"]));
            }
            _ => {}
        }
        match name.is_of_coscheduling() {
            true => pod["metadata"]["labels"][POD_GROUP_LABEL] = json!(name.name),
            false => pod["spec"]["schedulingGroup"] = json!({"podGroupName": name.name}),
        }
        let number = rng.u32(..MEMBERS);
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(format!("{}-{number}", name.name));
        let status = server.request("POST", &collection(PODS, name.namespace), &pod, now);
        format!("create {}/{pod}: {status}", name.namespace)
    }

    /// Deletes a pod of a group, at once or with grace, or lets it end.
    fn delete_member(&mut self, server: &mut Server, now: Time) -> String {
        let Some(pod) = self.any_member(server) else { return "no member to delete".to_owned() };
        server.fired.push(Fault::MemberGone);
        match self.rng.u32(..4) {
            0 => {
                let status = server.request("DELETE", &pod, &Value::Null, now);
                format!("delete {pod}: {status}")
            }
            1 => {
                let patch = json!({"status": {"phase": "Succeeded"}});
                let status = server.request("PATCH", &format!("{pod}/status"), &patch, now);
                format!("{pod} ends: {status}")
            }
            _ => {
                let at_once = format!("{pod}?gracePeriodSeconds=0");
                let status = server.request("DELETE", &at_once, &Value::Null, now);
                format!("delete {pod} at once: {status}")
            }
        }
    }

    /// Raises or lowers the number of pods that a gang needs.
    fn change_count(&mut self, server: &mut Server, now: Time) -> String {
        let name = Name::any(&mut self.rng);
        let count = self.rng.u32(1..=MEMBERS);
        let spec = match name.is_of_coscheduling() {
            true => json!({"minMember": count}),
            false => json!({"schedulingPolicy": {"gang": {"minCount": count}}}),
        };
        let target = name.path();
        let is_gang = name.is_of_coscheduling()
            || server.store.objects(PODGROUPS).any(|group| {
                group["metadata"]["name"] == name.name
                    && group["metadata"]["namespace"] == name.namespace
                    && !group["spec"]["schedulingPolicy"]["gang"].is_null()
            });
        if !is_gang {
            return format!("{target} is no gang");
        }
        let status = server.request("PATCH", &target, &json!({ "spec": spec }), now);
        if status == 200 {
            server.fired.push(Fault::CountChanged);
        }
        format!("{target} needs {count}: {status}")
    }

    fn delete_group(&mut self, server: &mut Server, now: Time) -> String {
        let name = Name::any(&mut self.rng);
        let target = name.path();
        let status = server.request("DELETE", &target, &Value::Null, now);
        if status == 200 {
            server.fired.push(Fault::GroupDeleted);
        }
        format!("delete {target}: {status}")
    }

    /// Deletes a PodGroup, and creates another one of its name. Its pods stay.
    fn replace_group(&mut self, server: &mut Server, now: Time) -> String {
        let name = Name::any(&mut self.rng);
        let gone = server.request("DELETE", &name.path(), &Value::Null, now);
        if gone == 200 {
            server.fired.push(Fault::GroupReplaced);
        }
        format!("{} is deleted: {gone}; {}", name.path(), self.make(name, server, now))
    }

    /// Binds a pod of a group as another scheduler.
    fn bind_member(&mut self, server: &mut Server, now: Time) -> String {
        let (Some(pod), Some(node)) = (self.any_member(server), self.any(server, NODES)) else {
            return "no member to bind".to_owned();
        };
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let binding = json!({"apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": name(&pod)}, "target": {"kind": "Node", "name": name(&node)}});
        let status = server.request("POST", &format!("{pod}/binding"), &binding, now);
        format!("somebody else binds {pod} to {node}: {status}")
    }

    /// Returns the path of a pod that belongs to a group.
    fn any_member(&mut self, server: &Server) -> Option<String> {
        let members = server.store.objects(PODS).filter(|pod| groups::is_member(pod));
        let pod = self.rng.choice(members.collect::<Vec<_>>())?;
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
        Some(format!("{}/{}", collection(PODS, text("namespace")), text("name")))
    }
}

/// Returns labels and specification of the pods of a group.
fn member(rng: &mut Rng) -> Value {
    let cpu = one_of(rng, ["100m", "500m", "1", "1", "1", "2"]);
    let container = json!({"name": "c", "image": "example.com/app:1",
        "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}});
    let mut labels = json!({APP: one_of(rng, APPS)});
    let scheduler = if once_in(rng, 8) { SPREADING } else { DEFAULT };
    let mut spec = json!({"schedulerName": scheduler, "containers": [container],
        "terminationGracePeriodSeconds": rng.u32(..10)});
    if once_in(rng, 5) {
        labels[ALONE] = json!("x");
        let term = json!({"labelSelector": {"matchLabels": {ALONE: "x"}}, "topologyKey": MACHINE});
        spec["affinity"] =
            json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    }
    if rng.bool() {
        spec["priorityClassName"] = json!(one_of(rng, ["low", "high", "highest"]));
    }
    json!({"metadata": {"labels": labels}, "spec": spec})
}
