//! Applications with spread or affinity, and clusters full of their pods.

use engine::{Change, Engine, EngineConfig};
use framework::{EventResource, ObjectKey, Pod, api};
use serde_json::{Value, json};

use crate::support;

/// Constraints of the pods of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// None: the default constraints of the scheduler apply.
    Nothing,
    /// Hard spread over zones and soft spread over nodes.
    Spread,
    /// Anti-affinity by hostname, and preferred affinity by zone, to the own application.
    Affinity,
}

/// The mix of applications.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// All with spread constraints.
    Spread,
    /// All with affinity.
    Affinity,
    /// A third of each, and a third without constraints.
    Mixed,
}

impl Shape {
    pub(crate) const ALL: [Self; 3] = [Self::Spread, Self::Affinity, Self::Mixed];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Affinity => "affinity",
            Self::Mixed => "mixed",
        }
    }

    const fn ask(self, application: usize) -> Ask {
        match (self, application % 3) {
            (Self::Spread, _) | (Self::Mixed, 0) => Ask::Spread,
            (Self::Affinity, _) | (Self::Mixed, 1) => Ask::Affinity,
            (Self::Mixed, _) => Ask::Nothing,
        }
    }
}

/// Share of the resources of each node that its pods request together, in percent.
const FILL_PERCENT: usize = 60;

/// A cluster with pods of some applications.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) shape: Shape,
    pub(crate) applications: usize,
    pub(crate) nodes: usize,
    pub(crate) pods_per_node: usize,
}

impl Workload {
    /// Number of initial pods.
    pub(crate) const fn pods(&self) -> usize {
        self.nodes * self.pods_per_node
    }

    /// Creates an engine with the cluster.
    pub(crate) fn engine(&self, config: EngineConfig) -> Engine {
        let mut engine = Engine::new(config);
        for application in 0..self.applications {
            for ask in [self.shape.ask(application), Ask::Nothing] {
                let application = Application { number: application, ask };
                application.objects().for_each(|object| support::apply(&mut engine, object));
            }
        }
        for node in 0..self.nodes {
            support::apply(&mut engine, Change::Node(support::node(node)));
            for slot in 0..self.pods_per_node {
                let pod = Box::new(self.placed_pod(node, slot));
                support::apply(&mut engine, Change::Pod(pod));
            }
        }
        engine
    }

    /// Returns an initial pod. Each application with affinity has one such pod, on every other
    /// node; the rest are plain.
    fn placed_pod(&self, node: usize, slot: usize) -> Pod {
        let number = node * self.pods_per_node + slot;
        let application = number % self.applications;
        let ask = match self.shape.ask(application) {
            Ask::Affinity if node % 2 == 1 || slot >= self.applications => Ask::Nothing,
            ask => ask,
        };
        let parts = 100 * self.pods_per_node / FILL_PERCENT;
        let (cpu, memory, _) = support::capacity(node);
        let (cpu, memory) = (cpu as usize / parts, memory as usize * 1024 / parts);
        let pod = Application { number: application, ask }.pod(number, cpu, memory);
        Pod { node_name: Some(support::node_name(node).into()), ..pod }
    }

    /// Returns pending pods, of each application in turn.
    pub(crate) fn pod(&self, number: usize) -> Pod {
        let application = number % self.applications;
        let ask = self.shape.ask(application);
        Application { number: application, ask }.pod(self.pods() + number, 100, 128)
    }
}

/// An application.
struct Application {
    number: usize,
    ask: Ask,
}

impl Application {
    fn name(&self) -> String {
        format!("{:?}-{}", self.ask, self.number).to_lowercase()
    }

    fn namespace(&self) -> String {
        format!("team-{}", self.number % 4)
    }

    /// Most applications are ReplicaSets with a Service.
    const fn is_replicated(&self) -> bool {
        self.number % 10 != 9
    }

    fn objects(&self) -> impl Iterator<Item = Change> {
        let name = self.name();
        let labels = json!({ "app": name, "pod-template-hash": "5d9c7b" });
        let objects = [
            (EventResource::Service, json!({ "app": name })),
            (EventResource::ReplicaSet, json!({ "matchLabels": labels })),
        ];
        let objects = objects.into_iter().filter(|_| self.is_replicated());
        objects.map(move |(kind, selector)| {
            let key = ObjectKey::namespaced(kind, self.namespace().into(), name.as_str().into());
            let object = json!({ "spec": { "selector": selector } });
            Change::decode(key, Some(object)).expect("the object decodes")
        })
    }

    /// Returns a pod that requests this much milli-CPU and MiB of memory.
    fn pod(&self, number: usize, cpu: usize, memory: usize) -> Pod {
        let name = self.name();
        let kind = if self.is_replicated() { "ReplicaSet" } else { "DaemonSet" };
        let pod = json!({
            "metadata": {
                "name": format!("{name}-{number:08x}"),
                "namespace": self.namespace(),
                "uid": format!("{number:08x}-0000-4000-8000-000000000000"),
                "labels": { "app": name, "pod-template-hash": "5d9c7b" },
                "ownerReferences": [
                    { "apiVersion": "apps/v1", "kind": kind, "name": name, "controller": true },
                ],
            },
            "spec": {
                "schedulerName": "default-scheduler",
                "containers": [{
                    "name": "main",
                    "image": format!("registry.example.com/app-{}:v1", self.number % 200),
                    "resources": {
                        "requests": { "cpu": format!("{cpu}m"), "memory": format!("{memory}Mi") },
                    },
                }],
                "topologySpreadConstraints": self.spread_constraints(),
                "affinity": self.affinity(),
            },
        });
        let pod: api::Pod = serde_json::from_value(pod).expect("the object is a pod");
        Pod::from_api(&pod)
    }

    fn selector(&self) -> Value {
        json!({ "matchLabels": { "app": self.name() } })
    }

    fn spread_constraints(&self) -> Value {
        if self.ask != Ask::Spread {
            return json!([]);
        }
        let constraint = |key, max_skew, otherwise| {
            json!({
                "topologyKey": key,
                "maxSkew": max_skew,
                "whenUnsatisfiable": otherwise,
                "labelSelector": self.selector(),
            })
        };
        json!([
            constraint("topology.kubernetes.io/zone", 5, "DoNotSchedule"),
            constraint("kubernetes.io/hostname", 1, "ScheduleAnyway"),
        ])
    }

    fn affinity(&self) -> Value {
        if self.ask != Ask::Affinity {
            return json!({});
        }
        let term = |key| json!({ "topologyKey": key, "labelSelector": self.selector() });
        let zone = term("topology.kubernetes.io/zone");
        json!({
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [term("kubernetes.io/hostname")],
            },
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    { "weight": 50, "podAffinityTerm": zone },
                ],
            },
        })
    }
}
