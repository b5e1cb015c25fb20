//! Gangs, and clusters full of pods of low priority.

use engine::profile::PluginRef;
use engine::{Change, Engine, EngineConfig};
use framework::{EventResource, ObjectKey, PluginGates, Pod, TOPOLOGY_ANNOTATION, api};
use serde_json::{Value, json};

use crate::gone;
use crate::object::object;
use crate::support::{apply, capacity, config, default_plugins, node};

const NAMESPACE: &str = "jobs";
/// Number of pods on each node of a full cluster.
const PODS_PER_NODE: u32 = 10;

/// A gang of equal pods.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gang {
    pub(crate) members: usize,
    /// CPU that each requests.
    pub(crate) milli_cpu: u32,
    /// No two of them share a node.
    pub(crate) apart: bool,
    /// The levels of a topology that they ask for; empty for none.
    pub(crate) levels: &'static str,
    pub(crate) priority: i32,
}

impl Default for Gang {
    fn default() -> Self {
        Self { members: 1, milli_cpu: 500, apart: false, levels: "", priority: 0 }
    }
}

impl Gang {
    /// Creates the gang with this number, the PodGroup first.
    pub(crate) fn create(self, engine: &mut Engine, number: usize) {
        let spec = json!({
            "schedulingPolicy": {"gang": {"minCount": self.members}},
            "priority": self.priority,
        });
        let mut group = json!({ "spec": spec });
        if !self.levels.is_empty() {
            group["metadata"] = json!({"annotations": {TOPOLOGY_ANNOTATION: self.levels}});
        }
        apply(engine, object(EventResource::PodGroup, NAMESPACE, &name(number), group));
        for member in 0..self.members {
            apply(engine, Change::Pod(Box::new(self.member(number, member))));
        }
    }

    /// Deletes the gang with this number.
    pub(crate) fn delete(self, engine: &mut Engine, number: usize) {
        for member in 0..self.members {
            apply(engine, gone(&self.member(number, member)));
        }
        let key = ObjectKey::namespaced(
            EventResource::PodGroup,
            NAMESPACE.into(),
            name(number).as_str().into(),
        );
        apply(engine, Change::decode(key, None::<Value>).expect("a deletion decodes"));
    }

    /// Returns a pod like the members that belongs to no group.
    pub(crate) fn lone_pod(self, number: usize) -> Pod {
        self.pod(&format!("lone-{number}"), None)
    }

    fn member(self, number: usize, member: usize) -> Pod {
        let group = name(number);
        self.pod(&format!("{group}-{member:05}"), Some(&group))
    }

    fn pod(self, name: &str, group: Option<&str>) -> Pod {
        let app = json!({"matchLabels": {"app": "gang"}});
        let term = json!({"labelSelector": app, "topologyKey": "kubernetes.io/hostname"});
        let apart = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        let mut pod = pod(name, self.milli_cpu, self.priority);
        if self.apart {
            pod["spec"]["affinity"] = json!({"podAntiAffinity": apart});
        }
        if let Some(group) = group {
            pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
        }
        decoded(pod)
    }
}

fn name(number: usize) -> String {
    format!("gang-{number}")
}

fn pod(name: &str, milli_cpu: u32, priority: i32) -> Value {
    let requests = json!({"cpu": format!("{milli_cpu}m"), "memory": "256Mi"});
    json!({
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("uid-{name}"),
            "labels": {"app": "gang"},
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "priority": priority,
            "containers": [{"name": "main", "image": "job:v1", "resources": {"requests": requests}}],
        },
    })
}

fn decoded(pod: Value) -> Pod {
    Pod::from_api(&serde_json::from_value::<api::Pod>(pod).expect("the pod decodes"))
}

/// Returns a configuration with the gates of groups.
pub(crate) fn gang_config() -> EngineConfig {
    let gates = PluginGates {
        generic_workload: true,
        workload_aware_preemption: true,
        ..PluginGates::default()
    };
    let of_groups = ["GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"];
    let mut plugins = default_plugins();
    plugins.extend(of_groups.map(|name| PluginRef::new(name, 1)));
    config(&plugins, &plugins::registry().with_gates(gates))
}

/// Creates an engine with nodes that are full of pods of low priority.
pub(crate) fn full_engine(nodes: usize) -> Engine {
    let mut engine = Engine::new(gang_config());
    for number in 0..nodes {
        let node = node(number);
        let name = node.name.clone();
        apply(&mut engine, Change::Node(node));
        for place in 0..PODS_PER_NODE {
            let share = capacity(number).0 / PODS_PER_NODE;
            let low = decoded(pod(&format!("low-{number}-{place}"), share, -10));
            let low = Pod { node_name: Some(name.clone()), ..low };
            apply(&mut engine, Change::Pod(Box::new(low)));
        }
    }
    engine
}
