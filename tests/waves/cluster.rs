//! The initial cluster, and the waves.

use sandbox::resources::{NODES, PODDISRUPTIONBUDGETS, PRIORITYCLASSES, REPLICASETS, Resource};
use serde_json::{Value, json};

/// An object to be created.
pub(crate) type Object = (&'static Resource, Value);

/// Requests of a pod: milli-CPU, memory in MiB.
type Size = (i64, i64);

/// The pods of a node; together they fill it.
const FILLING: [Size; 4] = [(500, 4096), (500, 1024), (1000, 1024), (2000, 2048)];
/// Number of groups of nodes. Each group has its own ReplicaSets, one for each of [`FILLING`].
const GROUPS: usize = 10;

/// Pods that arrive at once, all more important than the earlier ones.
pub(crate) struct Wave {
    /// Name of its pods and its PriorityClass.
    name: &'static str,
    priority: i32,
    /// Requests of the pods of its ReplicaSets.
    sizes: &'static [Size],
    /// Number of pods of a ReplicaSet that may be missing; without one there is no budget.
    max_unavailable: Option<usize>,
}

/// The waves in order.
pub(crate) const WAVES: [Wave; 3] = [
    Wave {
        name: "first",
        priority: 100,
        sizes: &[(1000, 1024), (2000, 1024)],
        max_unavailable: None,
    },
    Wave {
        name: "second",
        priority: 1000,
        sizes: &[(500, 3072), (3000, 4096)],
        max_unavailable: Some(1),
    },
    Wave {
        name: "third",
        priority: 10_000,
        sizes: &[(4000, 2048), (1500, 512)],
        max_unavailable: None,
    },
];

/// Returns nodes, the ReplicaSets that fill them, and their budgets. The pods of one ReplicaSet
/// have none.
pub(crate) fn full(nodes: usize) -> Vec<Object> {
    let mut objects: Vec<Object> = (0..nodes).map(|number| (NODES, node(number))).collect();
    for group in 0..GROUPS {
        for (slot, size) in FILLING.iter().enumerate() {
            let name = format!("filling-{group}-{slot}");
            if (group, slot) != (0, FILLING.len() - 1) {
                objects.push((PODDISRUPTIONBUDGETS, budget(&name, 1)));
            }
            objects.push((REPLICASETS, replica_set(&name, nodes / GROUPS, *size, "")));
        }
    }
    objects
}

/// Returns the node of the next pod of a ReplicaSet of [`full`], after `before` placed pods.
pub(crate) fn node_of(replica_set: &str, before: usize) -> String {
    let group = replica_set.split('-').nth(1).and_then(|group| group.parse::<usize>().ok());
    node_name(group.unwrap() + GROUPS * before)
}

/// Returns the objects of a wave with this number of pods of each size.
pub(crate) fn wave(wave: &Wave, replicas: usize) -> Vec<Object> {
    let Wave { name, priority, sizes, max_unavailable } = wave;
    let class = json!({"metadata": {"name": name}, "value": priority});
    let mut objects = vec![(PRIORITYCLASSES, class)];
    for (number, size) in sizes.iter().enumerate() {
        let app = format!("{name}-{number}");
        objects.extend(max_unavailable.map(|count| (PODDISRUPTIONBUDGETS, budget(&app, count))));
        objects.push((REPLICASETS, replica_set(&app, replicas, *size, name)));
    }
    objects
}

fn node_name(number: usize) -> String {
    format!("node-{number:04}")
}

fn node(number: usize) -> Value {
    let name = node_name(number);
    let room = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room},
    })
}

fn replica_set(app: &str, replicas: usize, size: Size, class: &str) -> Value {
    let (cpu, memory) = size;
    let amounts = json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
    let spec = json!({
        "priorityClassName": class,
        "containers": [{
            "name": "main",
            "image": "example.com/app:1",
            "resources": {"requests": amounts},
        }],
    });
    json!({
        "metadata": {"name": app},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}}, "spec": spec},
        },
    })
}

fn budget(app: &str, max_unavailable: usize) -> Value {
    let selector = json!({"matchLabels": {"app": app}});
    json!({
        "metadata": {"name": app},
        "spec": {"maxUnavailable": max_unavailable, "selector": selector},
    })
}
