//! Where pods fit, computed from plain lists: every rule visits every pod.

mod affinity;
mod budgets;
mod candidates;
mod devices;
mod groups;
mod preemption;
mod related;
mod spread;
mod storage;
mod volumes;

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::Engine;
use framework::{Node, NominatedPods, Pod, TaintEffect, Uid, api};
use serde::Deserialize;

pub(crate) use budgets::Budgets;
use devices::Devices;
pub(crate) use devices::{fault_of, links_suffice, needs_devices};
pub(crate) use related::Related;

use super::server::Server;

/// The state that decides where pods fit.
pub(crate) struct Oracle<'a> {
    places: Vec<Place>,
    /// Nominated pods, with their nodes.
    nominated: Vec<(Arc<str>, Arc<Pod>)>,
    /// All pods with a node, also if the node does not exist.
    placed: Vec<Arc<Pod>>,
    related: &'a Related,
    /// Whether the scheduler [assumes volumes](gives_volumes).
    gives_volumes: bool,
    /// Devices; `None` if the scheduler may have allocated some that only it knows of.
    devices: Option<Devices>,
}

/// A node and the pods on it.
struct Place {
    node: Node,
    pods: Vec<Arc<Pod>>,
}

/// Whether volumes may be assumed that only the scheduler knows of.
pub(crate) fn gives_volumes(engine: &Engine) -> bool {
    let pods = engine.cluster().pods().map(|placed| &placed.pod);
    let without = pods.filter(|pod| engine.is_binding(&pod.uid) && pod.spec.volumes.is_empty());
    engine.binding_count() > without.count()
}

static NOBODY: BTreeSet<Uid> = BTreeSet::new();

/// A node with additional pods and without some of its pods.
struct Question<'a> {
    oracle: &'a Oracle<'a>,
    pod: &'a Pod,
    place: &'a Place,
    /// Pods nominated to the node, treated as placed.
    guests: Vec<&'a Arc<Pod>>,
    /// Pods treated as deleted.
    gone: &'a BTreeSet<Uid>,
}

impl<'a> Oracle<'a> {
    /// Returns the state of the engine; namespaces, Services and controllers are those that were
    /// reported.
    pub(crate) fn of_engine(engine: &Engine, related: &'a Related) -> Self {
        let cluster = engine.cluster();
        let nodes = cluster.nodes().iter();
        let places = nodes.map(|node| Place {
            node: cluster.to_node(node),
            pods: cluster.node(node).pods().cloned().collect(),
        });
        let nominator = engine.nominator();
        let nominated = nominator.nodes().flat_map(|node| {
            nominator.nominated_to(node).into_iter().map(move |pod| (Arc::from(node), pod))
        });
        Self {
            places: places.collect(),
            nominated: nominated.collect(),
            placed: cluster.pods().map(|placed| placed.pod.clone()).collect(),
            related,
            gives_volumes: gives_volumes(engine),
            devices: None,
        }
    }

    /// Returns the stored state.
    pub(crate) fn of_server(server: &Server, related: &'a Related) -> Self {
        let pods: Vec<Arc<Pod>> = server.live_pods().map(|pod| Arc::new(read_pod(pod))).collect();
        let on = |pod: &Arc<Pod>, node: &Node| pod.node_name.as_ref() == Some(&node.name);
        let places = server.nodes().map(|node| {
            let node = read_node(node);
            let pods = pods.iter().filter(|pod| on(pod, &node)).cloned().collect();
            Place { node, pods }
        });
        let waiting = pods.iter().filter(|pod| pod.node_name.is_none());
        let nominated =
            waiting.filter_map(|pod| Some((pod.nominated_node_name().cloned()?, pod.clone())));
        let (places, nominated) = (places.collect(), nominated.collect());
        let placed = pods.iter().filter(|pod| pod.node_name.is_some()).cloned().collect();
        let devices = Some(Devices::of_server(server));
        Self { places, nominated, placed, related, gives_volumes: false, devices }
    }

    /// Whether the answer for the pod is certain: none of its volumes and devices may be assumed by
    /// another pod. The scheduler never places a pod that fits nowhere.
    pub(crate) fn is_sure_of(&self, pod: &Pod) -> bool {
        let knows_volumes = !self.gives_volumes || !self.related.storage.has_unbound(pod);
        knows_volumes && (self.devices.is_some() || !needs_devices(pod))
    }

    /// Returns the nodes where the pod fits, wherever it is now.
    pub(crate) fn takers(&self, pod: &Pod) -> impl Iterator<Item = &Arc<str>> {
        let takes = move |place: &&Place| self.takes_at(place, pod, &NOBODY);
        self.places.iter().filter(takes).map(|place| &place.node.name)
    }

    /// Whether the pod fits on this node.
    pub(crate) fn takes(&self, node: &str, pod: &Pod) -> bool {
        self.takers(pod).any(|taker| **taker == *node)
    }

    /// A pod must fit with the nominated pods, and without them.
    fn takes_at(&self, place: &Place, pod: &Pod, gone: &BTreeSet<Uid>) -> bool {
        let alone = Question { oracle: self, pod, place, guests: Vec::new(), gone };
        let kept = self.nominated.iter().filter(|(node, other)| {
            *node == place.node.name && other.priority() >= pod.priority() && other.uid != pod.uid
        });
        let guests: Vec<_> = kept.map(|(_, other)| other).collect();
        alone.is_yes() && (guests.is_empty() || Question { guests, ..alone }.is_yes())
    }
}

impl Question<'_> {
    fn is_yes(&self) -> bool {
        self.has_room()
            && self.has_free_ports()
            && self.is_let_in()
            && self.is_spread()
            && self.is_near_and_far_enough()
            && self.has_its_volumes()
            && self.has_its_devices()
    }

    fn has_its_devices(&self) -> bool {
        let (devices, node) = (&self.oracle.devices, &self.place.node.name);
        let suffice = |devices: &Devices| devices.suffice(node, self.pod);
        !needs_devices(self.pod) || devices.as_ref().is_none_or(suffice)
    }

    /// Returns the other pods on a node.
    fn others_at<'b>(&'b self, place: &'b Place) -> impl Iterator<Item = &'b Arc<Pod>> {
        let is_there = |other: &&Arc<Pod>| other.uid != self.pod.uid && !self.is_gone(other);
        place.pods.iter().filter(is_there).chain(self.guests_at(place))
    }

    fn guests_at<'b>(&'b self, place: &'b Place) -> impl Iterator<Item = &'b Arc<Pod>> {
        let is_here = place.node.name == self.place.node.name;
        self.guests.iter().copied().filter(move |_| is_here)
    }

    fn is_gone(&self, pod: &Pod) -> bool {
        self.gone.contains(&pod.uid)
    }

    fn has_room(&self) -> bool {
        let has = &self.place.node.allocatable;
        let (mut milli_cpu, mut memory, mut pods) = (0, 0, 0);
        for pod in self.others_at(self.place).map(|pod| &**pod).chain([self.pod]) {
            milli_cpu += pod.requests.placed.milli_cpu;
            memory += pod.requests.placed.memory;
            pods += 1;
        }
        milli_cpu <= has.milli_cpu && memory <= has.memory && pods <= self.place.node.allowed_pods
    }

    fn has_free_ports(&self) -> bool {
        let taken = || self.others_at(self.place).flat_map(|pod| &pod.spec.host_ports);
        self.pod.spec.host_ports.iter().all(|own| !taken().any(|port| port.conflicts_with(own)))
    }

    /// Checks cordon, taints and node affinity.
    fn is_let_in(&self) -> bool {
        let node = &self.place.node;
        !node.unschedulable && self.tolerates(node) && self.selects(node)
    }

    fn tolerates(&self, node: &Node) -> bool {
        let keeps_out = |effect: &TaintEffect| *effect != TaintEffect::PreferNoSchedule;
        node.taints.iter().filter(|taint| keeps_out(&taint.effect)).all(|taint| {
            self.pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(taint))
        })
    }

    fn selects(&self, node: &Node) -> bool {
        self.pod.spec.required_node_affinity.matches(node).is_ok_and(|matches| matches)
    }
}

/// Decodes a stored pod.
pub(crate) fn read_pod(pod: &serde_json::Value) -> Pod {
    Pod::from_api(&api::Pod::deserialize(pod).expect("the store holds pods only"))
}

/// Decodes a stored node.
pub(crate) fn read_node(node: &serde_json::Value) -> Node {
    Node::from_api(&api::Node::deserialize(node).expect("the store holds nodes only")).0
}
