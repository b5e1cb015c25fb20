//! Random actions of users, nodes and other schedulers.

pub(crate) mod catalogue;
mod chance;
pub(crate) mod devices;
mod foreign;
mod groups;
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
use super::emphasis::{Emphasis, Theme};
use super::patience;
use super::server::Server;
use super::sources::Sources;
use chance::{once_in, one_of};
use foreign::path_of;
use groups::Groups;
use nodes::NODE_NAMES;
pub(crate) use pods::ALONE;
pub(crate) use pods::APP;
use pods::APPS;

/// Namespaces with pods of equal names. The last one is created and deleted repeatedly.
const NAMESPACES: [&str; 3] = ["default", "kube-system", "shop"];
/// The label of namespaces that affinity terms select.
const TEAM: &str = "team";
const TEAMS: [&str; 2] = ["red", "blue"];
const FOREIGN: &str = "other-scheduler";

/// An action, and its description.
type Action = fn(&mut Churn, &mut Server, Time) -> String;

/// The actions, with their weights.
const ACTIONS: [(u32, Theme, Action); 31] = [
    (34, Theme::Pods, Churn::create_pod),
    (18, Theme::Pods, Churn::delete_pod),
    (5, Theme::Pods, Churn::replace_pod),
    (6, Theme::Pods, Churn::open_gates),
    (4, Theme::Pods, Churn::finish_pod),
    (3, Theme::Pods, Churn::drop_finalizers),
    (8, Theme::Pods, Churn::relabel_pod),
    (12, Theme::UnderWay, Churn::disturb_pods_under_way),
    (2, Theme::UnderWay, Churn::create_crowd),
    (5, Theme::Nodes, Churn::create_node),
    (3, Theme::Nodes, Churn::delete_node),
    (7, Theme::Nodes, Churn::change_node),
    (6, Theme::Nodes, Churn::move_node),
    (2, Theme::Nodes, Churn::grow_node),
    (2, Theme::Nodes, Churn::heartbeat),
    (1, Theme::Nodes, Churn::act_in_mass),
    (4, Theme::Topology, Churn::scale),
    (5, Theme::Topology, Churn::change_namespace),
    (5, Theme::Topology, Churn::change_service),
    (5, Theme::Topology, Churn::change_controller),
    (8, Theme::Preemption, Churn::change_budget),
    (3, Theme::Preemption, Churn::nominate),
    (3, Theme::Preemption, Churn::evict),
    (3, Theme::Preemption, Churn::let_preemptors_meet),
    (4, Theme::Foreign, Churn::squat),
    (4, Theme::Foreign, Churn::bind_elsewhere),
    (4, Theme::Foreign, Churn::schedule_elsewhere),
    (3, Theme::Servers, Churn::compact),
    (40, Theme::Storage, Churn::change_storage),
    (1, Theme::Storage, Churn::stop_controllers),
    (14, Theme::Groups, Churn::change_groups),
];

/// A generator of random actions.
pub(crate) struct Churn {
    rng: Rng,
    emphasis: Emphasis,
    /// CPUs of the node of each number. They only grow, so earlier decisions stay valid.
    cpus: [usize; NODE_NAMES],
    /// Maximum number of pods on the node of each number. It only grows, too.
    most_pods: [usize; NODE_NAMES],
    /// Attach limit of the node of each number. It only grows, too.
    attachable: [i64; NODE_NAMES],
    /// Share of created pods, in tenths, that mainly request volumes.
    claimants: u32,
    /// The templates of most pods, if they repeat.
    templates: Vec<Value>,
    /// Whether another scheduler takes the room of preemptors again and again.
    has_rival: bool,
    /// Generation of the last pool of devices.
    generation: u64,
    /// The PodGroups that were made.
    groups: Groups,
    /// The sources of plugins, if there are some.
    sources: Option<Sources>,
}

impl Churn {
    /// Creates a generator from a seed.
    pub(crate) fn new(mut rng: Rng, emphasis: Emphasis) -> Self {
        let claimants = match emphasis.has(Theme::Storage) {
            true => one_of(&mut rng, [1, 3, 9]),
            false => 0,
        };
        let attachable = [1, 2, 1, 1, 2, 1, 0, 1];
        let has_rival = emphasis.happens(Theme::Foreign, &mut rng, 250);
        let cpus = std::array::from_fn(|number| 2 + number % 3);
        Self {
            rng,
            emphasis,
            cpus,
            most_pods: [6; NODE_NAMES],
            attachable,
            claimants,
            templates: Vec::new(),
            has_rival,
            generation: 0,
            groups: Groups::new(),
            sources: None,
        }
    }

    /// Whether there are devices.
    pub(crate) const fn has_devices(&self) -> bool {
        self.emphasis.has(Theme::Devices)
    }

    /// Adds sources of plugins.
    pub(crate) fn add_sources(&mut self, seed: u64) {
        self.sources = Some(Sources::new(seed));
    }

    /// Whether there are sources of plugins.
    pub(crate) const fn has_sources(&self) -> bool {
        self.sources.is_some()
    }

    /// Whether there are PodGroups.
    pub(crate) const fn has_groups(&self) -> bool {
        self.emphasis.has(Theme::Groups)
    }

    /// Returns the time until the next action.
    pub(crate) fn pause(&mut self) -> Duration {
        let [shortest, longer, longest] = self.emphasis.pauses;
        Duration::from_millis(match self.rng.u32(..10) {
            0..6 => self.rng.u64(..shortest),
            6..9 => self.rng.u64(..longer),
            _ => self.rng.u64(..longest),
        })
    }

    /// Creates the initial objects.
    pub(crate) fn begin(&mut self, server: &mut Server, now: Time) {
        preemption::create_classes(server, now);
        let nodes = match self.emphasis.is_tiny() {
            true => 4 * self.emphasis.nodes.len(),
            false => self.rng.usize(1..6) + self.claimants as usize,
        };
        for _ in 0..nodes {
            self.create_node(server, now);
        }
        for _ in 0..self.rng.u32(..6) {
            self.change_namespace(server, now);
            self.change_service(server, now);
            self.change_controller(server, now);
            self.change_budget(server, now);
        }
        self.begin_storage(server, now);
        if self.has_devices() {
            self.begin_devices(server, now);
        }
        if self.has_groups() {
            self.begin_groups(server, now);
        }
        if let Some(sources) = &mut self.sources {
            sources.begin(server, now);
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
        if self.has_devices() {
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
        if self.has_groups() {
            self.create_last_group(server, now);
        }
    }

    /// Carries out one action, and describes it.
    pub(crate) fn step(&mut self, server: &mut Server, now: Time) -> String {
        if self.has_devices() && self.happens(Theme::Devices, 125) {
            return self.change_devices(server, now);
        }
        if let Some(sources) = &mut self.sources
            && sources.is_next()
        {
            return sources.change(server, now);
        }
        if self.has_rival && once_in(&mut self.rng, 4) {
            return self.squat(server, now);
        }
        let weight =
            |(weight, theme, _): &(u32, Theme, Action)| self.emphasis.weight(*theme, *weight);
        let all: u32 = ACTIONS.iter().map(weight).sum();
        let mut chosen = self.rng.u32(..all);
        let action = ACTIONS.iter().find(|action| match chosen.checked_sub(weight(action)) {
            None => true,
            Some(rest) => {
                chosen = rest;
                false
            }
        });
        action.map_or_else(String::new, |(_, _, act)| act(self, server, now))
    }

    /// Decides whether something happens that usually does at this rate, in thousandths.
    fn happens(&mut self, theme: Theme, usual: u32) -> bool {
        self.emphasis.happens(theme, &mut self.rng, usual)
    }

    /// Returns the number of a node.
    fn node_number(&mut self) -> usize {
        self.emphasis.nodes[self.rng.usize(..self.emphasis.nodes.len())]
    }

    /// Expires the history.
    fn compact(&mut self, server: &mut Server, _: Time) -> String {
        server.compact();
        server.fired.push(Fault::HistoryCompacted);
        "history is compacted".to_owned()
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
        let name = format!("p{}", self.rng.u32(..self.emphasis.pod_names));
        let pod = self.pod(server, namespace, &name);
        self.create_claims_of(&pod, server, now);
        let target = related::collection(PODS, namespace);
        match server.request("POST", &target, &pod, now) {
            201 => format!("create {pod}"),
            409 if self.emphasis.is_tiny() => {
                // Few names are taken soon.
                let old = format!("{target}/{name}?gracePeriodSeconds=0");
                let gone = server.request("DELETE", &old, &Value::Null, now);
                let come = server.request("POST", &target, &pod, now);
                format!("create {pod} in place of another one: {gone}, {come}")
            }
            status => format!("create {namespace}/{name}: {status}"),
        }
    }

    fn pod(&mut self, server: &Server, namespace: &str, name: &str) -> Value {
        let mut pod = self.template();
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
                pod["spec"]["nodeName"] = json!(format!("n{}", self.node_number()));
            }
        } else if once_in(&mut self.rng, 6) {
            pod["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
        }
        pod
    }

    /// Returns labels and spec of a pod. Where templates repeat, few pods are the only ones of
    /// theirs.
    fn template(&mut self) -> Value {
        let known = self.templates.len();
        if Some(known) == self.emphasis.templates && !once_in(&mut self.rng, 8) {
            return self.templates[self.rng.usize(..known)].clone();
        }
        let wants_devices = self.has_devices() && self.rng.u32(..5) < 3;
        let mut pod = match self.rng.u32(..10) < self.claimants {
            _ if wants_devices && !once_in(&mut self.rng, 4) => devices::template(&mut self.rng),
            true => pods::claimant(&mut self.rng),
            false => pods::template(&mut self.rng),
        };
        if wants_devices {
            devices::request_devices(&mut self.rng, &mut pod);
        }
        if self.emphasis.is_on(Theme::UnderWay) && self.rng.bool() {
            pod["metadata"]["labels"][patience::LABEL] =
                json!(one_of(&mut self.rng, patience::VALUES));
        }
        if self.emphasis.templates.is_some_and(|most| known < most) {
            self.templates.push(pod.clone());
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
        // In a tiny cluster room is given back soon.
        let is_soon = self.emphasis.is_tiny() && self.rng.bool();
        let has_node = |pod: &&Value| !is_soon || !pod["spec"]["nodeName"].is_null();
        let pods = server.store.objects(PODS).map(AsRef::as_ref).filter(has_node);
        let Some(pod) = self.rng.choice(pods.collect::<Vec<_>>()).map(path_of) else {
            return "no pod to delete".to_owned();
        };
        let pod = if is_soon { format!("{pod}?gracePeriodSeconds=0") } else { pod };
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
