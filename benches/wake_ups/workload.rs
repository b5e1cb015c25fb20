//! Blockers deleted one by one under pods that six plugins reject: the shape of scheduler_perf's
//! EventHandlingPodDelete, in virtual time.
//!
//! Every node holds ten pods of each of two groups of blockers. Together they take the room, the
//! host ports, the attachable volumes, the spread and the affinity that the waiting pods need, and
//! the claims that may be used by one pod at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::ports::Ports;
use engine::profile::{PluginRef, Profiles, SchedulerProfile};
use engine::{Change, EffectKind, Engine, EngineConfig, Input, Outcome};
use framework::{Answer, EventResource, Node, Pod, PodKey, Registry, Time, Uid, api};
use serde_json::{Value, json};

const DRIVER: &str = "ebs.csi.aws.com";
const HOSTNAME: &str = "kubernetes.io/hostname";
/// Blockers of each group on a node.
const BLOCKERS: usize = 10;
/// Time between two deletions, unless it is changed.
const INTERVAL: Duration = Duration::from_millis(5);

/// The plugin that rejects a waiting pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rejector {
    PodTopologySpread,
    VolumeRestrictions,
    NodePorts,
    NodeResourcesFit,
    NodeVolumeLimits,
    InterPodAffinity,
}

impl Rejector {
    /// All of them, in the order in which their pods are created.
    pub(super) const ALL: [Self; 6] = [
        Self::PodTopologySpread,
        Self::VolumeRestrictions,
        Self::NodePorts,
        Self::NodeResourcesFit,
        Self::NodeVolumeLimits,
        Self::InterPodAffinity,
    ];

    fn of(pod: &PodKey) -> Option<Self> {
        let name = |rejector: &Self| pod.name.starts_with(&format!("{rejector:?}"));
        Self::ALL.into_iter().find(name)
    }
}

/// Whether waiting pods share the answer of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// The pods of one template do, as the plugins declare it.
    Shared,
    /// No two pods are of one template: each has a label of its own.
    Labelled,
    /// The pods of one template do not.
    Own,
}

impl Answers {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Shared, Self::Labelled, Self::Own];
}

/// A scheduler, its cluster, and the record of its attempts.
pub(super) struct Replay {
    engine: Engine,
    now: Time,
    nodes: usize,
    answers: Answers,
    /// Time between two deletions.
    pub(super) interval: Duration,
    /// Pods that wait or are placed.
    pods: BTreeMap<PodKey, Arc<Value>>,
    /// Number of attempts that found no node.
    pub(super) failed: usize,
    /// Number of attempts that found no node, of the pod that had most.
    pub(super) most_of_one_pod: usize,
    /// Number of attempts that do not count.
    pub(super) looks: usize,
    failed_of: BTreeMap<Uid, usize>,
    /// Number of bound pods by rejector, after each deletion.
    pub(super) bound: Vec<BTreeMap<Rejector, usize>>,
    now_bound: BTreeMap<Rejector, usize>,
}

impl Replay {
    /// Creates the nodes, the blockers and the waiting pods, and tries each waiting pod.
    pub(super) fn new(nodes: usize, answers: Answers) -> Self {
        let mut replay = Self {
            engine: Engine::new(config(answers)),
            now: Time::from_secs(1_000),
            nodes,
            answers,
            interval: INTERVAL,
            pods: BTreeMap::new(),
            failed: 0,
            most_of_one_pod: 0,
            looks: 0,
            failed_of: BTreeMap::new(),
            bound: Vec::new(),
            now_bound: BTreeMap::new(),
        };
        for number in 0..nodes {
            replay.add_node(number);
        }
        for number in 0..nodes * BLOCKERS {
            replay.add_blocker("resources", number);
            replay.add_blocker("affinity", number);
        }
        for rejector in Rejector::ALL {
            for number in 0..nodes * BLOCKERS {
                replay.add_waiting(rejector, number);
            }
        }
        replay.run_until(replay.now + Duration::from_secs(1));
        (replay.failed, replay.looks) = (0, 0);
        replay.failed_of.clear();
        replay
    }

    /// Deletes all blockers, and runs until every pod is bound. Returns the time that took.
    pub(super) fn run(&mut self) -> Duration {
        let start = self.now;
        for number in 0..self.nodes * BLOCKERS {
            for group in ["resources", "affinity"] {
                let key = blocker(group, number);
                self.pods.remove(&key);
                let uid = Uid::from(&*key.to_string());
                self.apply(Change::PodDeleted { key, uid });
                self.run_until(self.now + self.interval);
                self.bound.push(self.now_bound.clone());
            }
        }
        while self.engine.pending().next().is_some() {
            let next = self.engine.next_deadline().expect("a pod that waits has a deadline");
            self.run_until(next.max(self.now + self.interval));
        }
        self.most_of_one_pod = self.failed_of.values().copied().max().unwrap_or(0);
        self.now.since(start)
    }

    /// Tries pods until `end`, and lets the time pass from deadline to deadline.
    fn run_until(&mut self, end: Time) {
        loop {
            let ports = &mut Ports { extenders: &mut (), probe: &mut () };
            self.engine.step(Input::Tick, self.now, ports);
            while let Some(attempt) = self.engine.step(Input::Schedule, self.now, ports).attempt() {
                match attempt.outcome {
                    Outcome::Assumed(_) => {}
                    Outcome::Repeated(_) => self.looks += 1,
                    _ => {
                        self.failed += 1;
                        *self.failed_of.entry(attempt.pod.uid.clone()).or_default() += 1;
                    }
                }
            }
            self.carry_out_effects();
            match self.engine.next_deadline() {
                Some(next) if next < end => self.now = next.max(self.now),
                _ => break,
            }
        }
        self.now = end;
    }

    /// Carries out all binds and status patches, and shows them.
    fn carry_out_effects(&mut self) {
        for effect in self.engine.take_effects() {
            match effect.kind {
                EffectKind::Bind { binding, .. } => {
                    let ports = &mut Ports { extenders: &mut (), probe: &mut () };
                    let answer = Input::Answer { effect: effect.id, answer: Answer::ok() };
                    self.engine.step(answer, self.now, ports);
                    if let Some(rejector) = Rejector::of(&binding.pod) {
                        *self.now_bound.entry(rejector).or_default() += 1;
                    }
                    let mut pod = (*self.pods[&binding.pod]).clone();
                    pod["spec"]["nodeName"] = json!(&*binding.node);
                    self.add_pod(pod);
                }
                EffectKind::PatchPodStatus { pod, patch, .. } => {
                    let Some(condition) = patch.condition else { continue };
                    let mut pod = (*self.pods[&pod]).clone();
                    pod["status"]["conditions"] = json!([{
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": &*condition.reason,
                        "message": &*condition.message,
                    }]);
                    self.add_pod(pod);
                }
                _ => {}
            }
        }
    }

    fn apply(&mut self, change: Change) {
        self.engine.step(
            Input::Change(change),
            self.now,
            &mut Ports { extenders: &mut (), probe: &mut () },
        );
    }

    fn add_pod(&mut self, pod: Value) {
        let decoded: api::Pod = serde_json::from_value(pod.clone()).expect("a pod");
        let decoded = Pod::from_api(&decoded);
        self.pods.insert(decoded.key.clone(), Arc::new(pod));
        self.apply(Change::Pod(Box::new(decoded)));
    }

    fn add_object(&mut self, kind: EventResource, object: Value) {
        self.apply(Change::Object(Box::new(testkit::object(kind, object))));
    }

    fn add_node(&mut self, number: usize) {
        let name = format!("node-{number:03}");
        let node = json!({
            "metadata": { "name": name, "labels": { HOSTNAME: name } },
            "status": { "allocatable": { "cpu": "4", "memory": "32Gi", "pods": "1000" } },
        });
        let node: api::Node = serde_json::from_value(node).expect("a node");
        self.apply(Change::Node(Node::from_api(&node).0));
        let driver = json!({
            "name": DRIVER, "nodeID": name, "allocatable": { "count": 2 * BLOCKERS },
        });
        let csi_node = json!({ "metadata": { "name": name }, "spec": { "drivers": [driver] } });
        self.add_object(EventResource::CsiNode, csi_node);
    }

    /// Adds a bound claim with its volume.
    fn add_claim(&mut self, namespace: &str, name: &str, access_mode: &str) {
        let volume = format!("{namespace}-{name}");
        let claim_ref = json!({ "namespace": namespace, "name": name });
        let volume_spec = json!({
            "accessModes": [access_mode],
            "capacity": { "storage": "1Gi" },
            "csi": { "driver": DRIVER, "volumeHandle": volume },
            "claimRef": claim_ref,
        });
        let metadata = json!({ "name": volume });
        let object = json!({
            "metadata": metadata, "spec": volume_spec, "status": { "phase": "Bound" },
        });
        self.add_object(EventResource::PersistentVolume, object);
        let claim = json!({
            "metadata": {
                "namespace": namespace,
                "name": name,
                "annotations": { "pv.kubernetes.io/bind-completed": "true" },
            },
            "spec": { "accessModes": [access_mode], "volumeName": volume },
            "status": { "phase": "Bound" },
        });
        self.add_object(EventResource::PersistentVolumeClaim, claim);
    }

    fn add_blocker(&mut self, group: &'static str, number: usize) {
        let key = blocker(group, number);
        let (namespace, claim) = (&*key.namespace, format!("claim-{number:04}"));
        let mut pod = manifest(namespace, &key.name);
        if group == "resources" {
            self.add_claim(namespace, &claim, "ReadOnlyMany");
            pod["metadata"]["labels"] = json!({ "topology": "blue" });
            pod["spec"]["containers"][0]["ports"] = json!([port(number / self.nodes)]);
            let requests = json!({ "cpu": "0.39", "memory": "3.1Gi" });
            pod["spec"]["containers"][0]["resources"]["requests"] = requests;
        } else {
            self.add_claim(namespace, &claim, "ReadWriteOncePod");
            pod["metadata"]["labels"] = json!({ "color": "green" });
        }
        pod["spec"]["volumes"] = volumes(&claim);
        pod["spec"]["nodeName"] = json!(format!("node-{:03}", number % self.nodes));
        self.add_pod(pod);
    }

    fn add_waiting(&mut self, rejector: Rejector, number: usize) {
        let name = format!("{rejector:?}-{number:04}");
        let claim = format!("claim-{number:04}");
        let mut pod = manifest("default", &name);
        let container = &mut pod["spec"]["containers"][0];
        match rejector {
            Rejector::PodTopologySpread => {
                pod["metadata"]["namespace"] = json!("resources");
                pod["metadata"]["labels"] = json!({ "topology": "blue" });
                pod["spec"]["topologySpreadConstraints"] = json!([{
                    "maxSkew": BLOCKERS,
                    "minDomains": 10_000,
                    "topologyKey": HOSTNAME,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": { "matchLabels": { "topology": "blue" } },
                }]);
            }
            Rejector::VolumeRestrictions => {
                pod["metadata"]["namespace"] = json!("affinity");
                pod["spec"]["volumes"] = volumes(&claim);
            }
            Rejector::NodePorts => container["ports"] = json!([port(number % BLOCKERS)]),
            Rejector::NodeResourcesFit => {
                container["resources"]["requests"] = json!({ "cpu": "0.2", "memory": "1Gi" });
            }
            Rejector::NodeVolumeLimits => {
                self.add_claim("default", &claim, "ReadOnlyMany");
                pod["spec"]["volumes"] = volumes(&claim);
            }
            Rejector::InterPodAffinity => {
                pod["spec"]["affinity"]["podAntiAffinity"] = json!({
                    "requiredDuringSchedulingIgnoredDuringExecution": [{
                        "labelSelector": { "matchLabels": { "color": "green" } },
                        "topologyKey": HOSTNAME,
                        "namespaces": ["affinity"],
                    }],
                });
            }
        }
        if self.answers == Answers::Labelled {
            pod["metadata"]["labels"]["pod"] = json!(name);
        }
        self.add_pod(pod);
    }
}

fn blocker(group: &str, number: usize) -> PodKey {
    PodKey::new(group, &format!("blocker-{number:04}"))
}

fn manifest(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": { "namespace": namespace, "name": name, "uid": format!("{namespace}/{name}") },
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{ "name": "pause", "image": "registry.k8s.io/pause:3.10.1" }],
        },
    })
}

fn port(number: usize) -> Value {
    json!({ "hostPort": 8_000 + number, "containerPort": 8_000 + number })
}

fn volumes(claim: &str) -> Value {
    json!([{ "name": "vol", "persistentVolumeClaim": { "claimName": claim } }])
}

/// An engine with the default plugins.
fn config(answers: Answers) -> EngineConfig {
    let (all, mut registry) = (plugins::registry(), Registry::new());
    let mut defaults = Vec::new();
    for entry in plugins::catalogue::defaults() {
        defaults.push(PluginRef::new(entry.name, entry.default_weight));
        let factory = all.get(entry.name).expect("the registry has the defaults");
        let made = move |args: &_| {
            let mut plugin = factory(args)?;
            plugin.decides_by_template &= answers != Answers::Own;
            Ok(plugin)
        };
        registry.register(entry.name, made).expect("names are unique");
    }
    let profile = SchedulerProfile {
        scheduler_name: "default-scheduler".to_owned(),
        ..SchedulerProfile::default()
    };
    let profiles = Profiles::build(&[profile], &defaults, &registry, false);
    EngineConfig::new(profiles.expect("the profile builds"))
}
