//! Small random clusters without room for the preemptor.

use std::sync::Arc;

use engine::Change;
use fastrand::Rng;
use framework::{EventResource, Node, Pod, api};
use serde_json::json;
use testkit::{NodeBuilder, PodBuilder, node, pod};

/// Priority of the preemptor.
const PRIORITY: i32 = 3;

/// The objects of a cluster.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    /// Placed pods. A PodDisruptionBudget selects the pods labelled `app: web`.
    pub(crate) placed: Vec<Pod>,
    /// Nominated pods that wait for room on other nodes.
    pub(crate) nominated: Vec<Pod>,
    /// Number of disruptions that the budget allows.
    pub(crate) disruptions_allowed: i32,
    /// The preemptor.
    pub(crate) preemptor: Arc<Pod>,
}

impl Cluster {
    /// Generates a cluster of up to three nodes.
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let names = &["a", "b", "c"][..rng.usize(1..=3)];
        let mut placed = Vec::new();
        for name in names {
            for number in 0..rng.usize(1..=5) {
                let wanted = random_pod(&format!("{name}{number}"), rng);
                placed.push(wanted.priority(rng.i32(0..=PRIORITY)).on(name).build());
            }
        }
        let nominated = (0..rng.usize(0..=1)).map(|number| {
            let guest = pod(&format!("guest{number}")).cpu("1").nominated(names[0]);
            guest.priority(rng.i32(PRIORITY - 1..=PRIORITY)).build()
        });
        Self {
            nominated: nominated.collect(),
            nodes: names.iter().map(|name| random_node(name, rng).build()).collect(),
            placed,
            disruptions_allowed: i32::from(rng.u8(0..4) == 0),
            preemptor: Arc::new(random_pod("preemptor", rng).priority(PRIORITY).build()),
        }
    }

    /// Returns the PodDisruptionBudget as a change.
    pub(crate) fn budget(&self) -> Change {
        let budget = json!({
            "metadata": {"namespace": "default", "name": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": self.disruptions_allowed},
        });
        Change::Object(Box::new(testkit::object(EventResource::PodDisruptionBudget, budget)))
    }

    /// Returns the pods on a node that the preemptor may evict.
    pub(crate) fn evictable(&self, node: &str) -> Vec<&Pod> {
        let on_node = |pod: &&Pod| pod.node_name.as_deref() == Some(node);
        let evictable = |pod: &&Pod| pod.priority() < self.preemptor.priority();
        self.placed.iter().filter(on_node).filter(evictable).collect()
    }

    /// Whether the budget allows no disruption, and selects this pod.
    pub(crate) fn is_protected(&self, pod: &Pod) -> bool {
        self.disruptions_allowed == 0 && pod.labels.get("app") == Some("web")
    }
}

fn random_node(name: &str, rng: &mut Rng) -> NodeBuilder {
    let amounts = [("cpu", 3..=6), ("memory", 3..=6), ("pods", 2..=6)];
    let node = node(name).label("kubernetes.io/hostname", name);
    amounts.into_iter().fold(node, |node, (resource, amount)| {
        node.allocatable(resource, &rng.i32(amount).to_string())
    })
}

/// Generates a pod that requests scarce resources, host ports, or anti-affinity to its application.
fn random_pod(name: &str, rng: &mut Rng) -> PodBuilder {
    let pod = pod(name).cpu(&rng.i32(0..=3).to_string()).memory(&rng.i32(0..=3).to_string());
    let pod = if rng.bool() { pod.started(rng.i64(1..=9)) } else { pod };
    let pod = if rng.u8(..) < 60 { pod.host_port(rng.i32(80..=81)) } else { pod };
    match rng.u8(0..8) {
        0..=3 => pod.label("app", "web"),
        4 => pod.label("app", "db"),
        5 => pod.label("app", "db").with(avoid_databases),
        _ => pod,
    }
}

fn avoid_databases(pod: &mut api::Pod) {
    let term = json!({
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "db"}},
    });
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    let affinity = json!({"podAntiAffinity": required});
    pod.spec.affinity = serde_json::from_value(affinity).unwrap();
}
