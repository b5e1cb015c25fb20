//! Clusters full of pods of low priority, and preemptors.

use engine::{Change, Engine, EngineConfig};
use framework::{EventResource, Pod, PodVolume, api};
use serde_json::{Value, json};

use crate::storage::{NAMESPACE, claim, csi, csi_node, volume};
use crate::support;

/// The shape of a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    /// Number of allowed disruptions per application, if each has a PodDisruptionBudget.
    disruptions_allowed: Option<i32>,
    /// Placed pods have anti-affinity to their application. A preemptor has anti-affinity to its
    /// tier by hostname, of which each node has one pod, and to the leader by zone.
    affinity: bool,
    /// A preemptor spreads its tier over zones and nodes.
    spread: bool,
    /// Every pod has a volume, and no node can attach another one.
    volumes: bool,
}

const RESOURCES: Shape = Shape {
    name: "resources",
    disruptions_allowed: None,
    affinity: false,
    spread: false,
    volumes: false,
};

impl Shape {
    pub(crate) const ALL: [Self; 7] = [
        RESOURCES,
        Self { name: "budgets", disruptions_allowed: Some(1), ..RESOURCES },
        Self { name: "affinity", affinity: true, ..RESOURCES },
        Self { name: "spread", spread: true, ..RESOURCES },
        Self {
            name: "all",
            disruptions_allowed: Some(1),
            affinity: true,
            spread: true,
            ..RESOURCES
        },
        Self { name: "volumes", volumes: true, ..RESOURCES },
        // Every candidate violates a budget, so no candidate ends the search.
        Self { name: "spent", disruptions_allowed: Some(0), ..RESOURCES },
    ];
}

const PODS_PER_NODE: usize = 10;
/// Number of pods per application.
const REPLICAS: usize = 100;
/// Number of the placed pod whose zone preemptors with affinity avoid.
const LEADER: usize = 0;

/// A cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) shape: Shape,
    pub(crate) nodes: usize,
}

impl Workload {
    /// Number of placed pods.
    pub(crate) const fn pods(&self) -> usize {
        self.nodes * PODS_PER_NODE
    }

    const fn applications(&self) -> usize {
        self.pods().div_ceil(REPLICAS)
    }

    /// Creates an engine with the cluster.
    pub(crate) fn engine(&self, config: EngineConfig) -> Engine {
        let mut engine = Engine::new(config);
        let budgets = (0..self.applications()).filter_map(|number| self.budget(&app(number)));
        budgets.for_each(|budget| support::apply(&mut engine, budget));
        for node in 0..self.nodes {
            support::apply(&mut engine, Change::Node(support::node(node)));
            if self.shape.volumes {
                support::apply(&mut engine, csi_node(node, PODS_PER_NODE));
            }
            for slot in 0..PODS_PER_NODE {
                let pod = self.placed_pod(node, slot);
                self.equip(&pod, &mut engine);
                support::apply(&mut engine, Change::Pod(Box::new(pod)));
            }
        }
        engine
    }

    /// Creates the claims of the pod and their volumes.
    pub(crate) fn equip(&self, pod: &Pod, engine: &mut Engine) {
        for name in pod.spec.volumes.iter().filter_map(PodVolume::named_claim) {
            let volume = volume(name, json!({ "csi": csi(name) }));
            let claim = claim(name, json!({ "volumeName": name }));
            [volume, claim].into_iter().for_each(|object| support::apply(engine, object));
        }
    }

    /// Returns the volumes of the pod with this number.
    fn volumes(&self, kind: &str, number: usize) -> Value {
        let claim = format!("{kind}-{number}");
        match self.shape.volumes {
            true => json!([{ "name": "disk", "persistentVolumeClaim": { "claimName": claim } }]),
            false => json!([]),
        }
    }

    /// Returns the PodDisruptionBudget of the application of `pod`, if it has one.
    pub(crate) fn budget_of(&self, pod: &Pod) -> Option<Change> {
        self.budget(pod.labels.get("app")?)
    }

    fn budget(&self, app: &str) -> Option<Change> {
        let allowed = self.shape.disruptions_allowed?;
        let object = json!({
            "metadata": { "namespace": NAMESPACE, "name": app },
            "spec": { "selector": { "matchLabels": { "app": app } } },
            "status": { "disruptionsAllowed": allowed },
        });
        let budget = testkit::object(EventResource::PodDisruptionBudget, object);
        Some(Change::Object(Box::new(budget)))
    }

    /// Returns a tenth of the capacity of the node.
    fn placed_pod(&self, node: usize, slot: usize) -> Pod {
        let number = node * PODS_PER_NODE + slot;
        let (cpu, memory, _) = support::capacity(node);
        let app = app(number % self.applications());
        let role = if number == LEADER { "leader" } else { "member" };
        let own_app = json!({ "matchLabels": { "app": app } });
        built(json!({
            "metadata": {
                "name": format!("pod-{number:06}"),
                "labels": { "app": app, "tier": format!("tier-{slot}"), "role": role },
            },
            "spec": {
                "nodeName": support::node_name(node),
                "priority": 0,
                "containers": [container(
                    cpu as usize / PODS_PER_NODE,
                    memory as usize * 1024 / PODS_PER_NODE,
                )],
                "affinity": self.keep_away(&[("kubernetes.io/hostname", own_app)]),
                "volumes": self.volumes("placed", number),
            },
            "status": { "startTime": format!("2026-01-01T{slot:02}:{:02}:00Z", node % 60) },
        }))
    }

    /// Returns a pod that needs the room of one other.
    pub(crate) fn preemptor(&self, number: usize) -> Pod {
        let tier = || json!({ "matchLabels": { "tier": "tier-0" } });
        let leader = json!({ "matchLabels": { "role": "leader" } });
        let spread = |key| {
            json!({
                "topologyKey": key,
                "maxSkew": 5,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": tier(),
            })
        };
        let spread = ["topology.kubernetes.io/zone", "kubernetes.io/hostname"].map(spread);
        built(json!({
            "metadata": {
                "name": format!("important-{number:06}"),
                "labels": { "app": app(number % self.applications()), "tier": "tier-0" },
            },
            "spec": {
                "priority": 1000,
                "containers": [container(300, 512)],
                "affinity": self.keep_away(&[
                    ("kubernetes.io/hostname", tier()),
                    ("topology.kubernetes.io/zone", leader),
                ]),
                "volumes": self.volumes("important", number),
                "topologySpreadConstraints": if self.shape.spread { &spread[..] } else { &[] },
            },
        }))
    }

    /// Returns required anti-affinity to the pods that selectors match, by topology key.
    fn keep_away(&self, from: &[(&str, Value)]) -> Value {
        if !self.shape.affinity {
            return json!({});
        }
        let terms = from
            .iter()
            .map(|(key, selector)| json!({ "topologyKey": key, "labelSelector": selector }));
        let terms: Vec<Value> = terms.collect();
        json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } })
    }
}

fn app(number: usize) -> String {
    format!("app-{number}")
}

/// Returns a container that requests this much milli-CPU and MiB of memory.
fn container(cpu: usize, memory: usize) -> Value {
    let requests = json!({ "cpu": format!("{cpu}m"), "memory": format!("{memory}Mi") });
    json!({ "name": "main", "resources": { "requests": requests } })
}

/// Completes the object of a pod with the fields of all pods.
fn built(mut pod: Value) -> Pod {
    pod["metadata"]["uid"] = json!(format!("uid-{}", pod["metadata"]["name"]));
    pod["metadata"]["namespace"] = json!(NAMESPACE);
    pod["spec"]["schedulerName"] = json!("default-scheduler");
    let pod: api::Pod = serde_json::from_value(pod).expect("the object is a pod");
    Pod::from_api(&pod)
}
