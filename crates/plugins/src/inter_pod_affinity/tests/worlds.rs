//! Random clusters of pods with affinity terms, as API objects and as compact clusters.

use std::sync::Arc;

use framework::{Cluster, EventResource, Node, Pod, api};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};
use testkit::{SetJson, node, pod};

use super::oracle::{LabelMap, Objects};
use super::{HOST, ZONE, affinity_of, anti_affinity_of, weighted};
use crate::arbitrary::World;

const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const RACK: &str = "rack";

/// Generates a few nodes, namespaces and pods. Some pods are on unknown nodes.
pub(super) fn objects() -> impl Strategy<Value = Objects> {
    let nodes = prop::collection::vec(some_node(), 1..6);
    let namespaces = prop::collection::vec(prop::option::weighted(0.8, namespace_labels()), 3);
    (nodes, namespaces, 0_usize..8).prop_flat_map(|(nodes, namespaces, pods)| {
        let numbered = nodes.into_iter().enumerate();
        let nodes: Vec<api::Node> = numbered.map(|(number, node)| called(node, number)).collect();
        let known = NAMESPACES.iter().zip(namespaces);
        let namespaces =
            known.filter_map(|(name, labels)| Some(((*name).to_owned(), labels?))).collect();
        let objects = Objects {
            nodes: nodes.iter().map(|node| (node.metadata.name.clone(), node.clone())).collect(),
            namespaces,
            pods: Vec::new(),
        };
        let pods = prop::collection::vec(placed_pod(nodes.len() + 1), pods);
        (Just(objects), pods).prop_map(|(objects, pods)| {
            let numbered = pods.into_iter().enumerate();
            let pods = numbered.map(|(number, pod)| identified(pod, number)).collect();
            Objects { pods, ..objects }
        })
    })
}

/// Generates a node with some of its labels.
pub(super) fn some_node() -> impl Strategy<Value = api::Node> {
    let zone = prop::option::weighted(0.8, select(vec!["x", "y"]));
    let rack = prop::option::weighted(0.4, select(vec!["1", "2"]));
    let host = prop::bool::weighted(0.9);
    (zone, rack, host).prop_map(|(zone, rack, host)| {
        let mut node = node("n").api();
        node.metadata.labels.clear();
        let host = host.then_some("n");
        for (key, value) in [(ZONE, zone), (RACK, rack), (HOST, host)] {
            let Some(value) = value else { continue };
            node.metadata.labels.insert(key.to_owned(), value.to_owned());
        }
        node
    })
}

/// Numbers the node. If it has a hostname label, its value becomes the name.
pub(super) fn called(mut node: api::Node, number: usize) -> api::Node {
    let name = crate::arbitrary::node_name(number);
    if let Some(host) = node.metadata.labels.get_mut(HOST) {
        host.clone_from(&name);
    }
    node.metadata.name = name;
    node
}

pub(super) fn namespace_labels() -> impl Strategy<Value = LabelMap> {
    let env = prop::option::weighted(0.8, select(vec!["prod", "dev"]));
    env.prop_map(|env| env.map(|env| ("env".to_owned(), env.to_owned())).into_iter().collect())
}

/// Generates a pod on one of `nodes` nodes.
pub(super) fn placed_pod(nodes: usize) -> impl Strategy<Value = api::Pod> {
    (some_pod(0.05), 0..nodes).prop_map(|(mut pod, number)| {
        pod.spec.node_name = crate::arbitrary::node_name(number);
        pod
    })
}

/// Gives the pod a name and UID from its number.
pub(super) fn identified(mut pod: api::Pod, number: usize) -> api::Pod {
    pod.metadata.name = format!("placed-{number}");
    pod.metadata.uid = format!("uid-placed-{number}");
    pod
}

pub(super) fn pod_labels() -> impl Strategy<Value = LabelMap> {
    let key = select(vec!["app", "tier"]).prop_map(str::to_owned);
    let value = select(vec!["web", "db"]).prop_map(str::to_owned);
    prop::collection::btree_map(key, value, 0..3)
}

/// Generates a pod with terms, each malformed with probability `malformed`.
pub(super) fn some_pod(malformed: f64) -> impl Strategy<Value = api::Pod> {
    let required = move || prop::collection::vec(some_term(malformed), 0..3);
    let preferred = move || {
        let own = (1..=100_i32, some_term(malformed));
        prop::collection::vec(own.prop_map(|(weight, term)| weighted(weight, term)), 0..2)
    };
    let terms = (required(), required(), preferred(), preferred());
    (select(NAMESPACES.to_vec()), pod_labels(), terms, any::<bool>()).prop_map(
        |(namespace, labels, (near, apart, rather_near, rather_apart), terminating)| {
            let mut pod = pod("p").namespace(namespace).api();
            pod.metadata.labels = labels;
            if terminating {
                pod.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
            }
            affinity_of(&mut pod).required = near;
            affinity_of(&mut pod).preferred = rather_near;
            anti_affinity_of(&mut pod).required = apart;
            anti_affinity_of(&mut pod).preferred = rather_apart;
            pod
        },
    )
}

fn some_term(malformed: f64) -> impl Strategy<Value = api::PodAffinityTerm> {
    let selector = select(vec![
        Value::Null,
        json!({}),
        json!({"matchLabels": {"app": "web"}}),
        json!({"matchLabels": {"app": "web"}}),
        json!({"matchLabels": {"app": "db", "tier": "db"}}),
        json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]}),
        json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}]}),
        json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
    ]);
    let namespaces =
        prop_oneof![2 => Just(Vec::new()), 1 => subsequence(NAMESPACES.to_vec(), 1..3)];
    let namespace_selector = prop_oneof![
        2 => Just(Value::Null),
        1 => select(vec![
            json!({}),
            json!({"matchLabels": {"env": "prod"}}),
            json!({"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]}),
            json!({"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]}),
            json!({"matchExpressions": [{"key": "env", "operator": "Exists"}]}),
        ]),
    ];
    let key = select(vec![ZONE, ZONE, HOST, HOST, RACK, "missing"]);
    let broken = prop::bool::weighted(malformed);
    (selector, namespaces, namespace_selector, key, broken).prop_map(
        |(selector, namespaces, namespace_selector, key, broken)| {
            let mut term = json!({"namespaces": namespaces, "topologyKey": key});
            let broken = broken.then(|| json!({"matchExpressions": [{"operator": "Odd"}]}));
            let given = [
                ("labelSelector", broken.unwrap_or(selector)),
                ("namespaceSelector", namespace_selector),
            ];
            for (field, value) in given.into_iter().filter(|(_, value)| !value.is_null()) {
                term[field] = value;
            }
            serde_json::from_value(term).unwrap()
        },
    )
}

impl Objects {
    /// Builds the cluster of these objects.
    pub(super) fn world(&self) -> World {
        let mut world = World::default();
        world.nodes.clone_from(&self.nodes);
        for node in self.nodes.values() {
            world.cluster.set_node(&Node::from_api(node).0);
        }
        for (name, labels) in &self.namespaces {
            set_namespace(&mut world.cluster, name, Some(labels));
        }
        for pod in &self.pods {
            let compact = Arc::new(Pod::from_api(pod));
            let ix = world.cluster.place_pod(compact, &pod.spec.node_name);
            world.pods.push((ix, pod.clone()));
        }
        world
    }
}

/// Returns the Namespace object of this name.
pub(super) fn namespace(name: &str, labels: &LabelMap) -> Value {
    json!({"metadata": {"name": name, "labels": labels}})
}

/// Adds, replaces or removes a namespace.
pub(super) fn set_namespace(cluster: &mut Cluster, name: &str, labels: Option<&LabelMap>) {
    let object = labels.map(|labels| Arc::new(namespace(name, labels)));
    cluster.set_json(&EventResource::Namespace, "", name, object);
}

/// A change to a cluster. Nodes and namespaces are identified by number; pods by number modulo
/// their count.
#[derive(Debug, Clone)]
pub(super) enum Change {
    PlacePod(Box<api::Pod>),
    DeletePod(usize),
    RelabelPod(usize, LabelMap),
    SetNode(usize, Box<api::Node>),
    DeleteNode(usize),
    SetNamespace(usize, Option<LabelMap>),
}

pub(super) fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        placed_pod(6).prop_map(|pod| Change::PlacePod(Box::new(pod))),
        (0_usize..100).prop_map(Change::DeletePod),
        ((0_usize..100), pod_labels()).prop_map(|(pod, labels)| Change::RelabelPod(pod, labels)),
        (0_usize..6, some_node()).prop_map(|(number, node)| Change::SetNode(number, node.into())),
        (0_usize..6).prop_map(Change::DeleteNode),
        (0..NAMESPACES.len(), prop::option::weighted(0.8, namespace_labels()))
            .prop_map(|(number, labels)| Change::SetNamespace(number, labels)),
    ]
}

/// The event of a change: an object before and after.
#[derive(Debug, Clone)]
pub(super) enum Event {
    Pod(Option<Box<api::Pod>>, Option<Box<api::Pod>>),
    Node(Option<Box<api::Node>>, Option<Box<api::Node>>),
    Namespace(Option<Value>, Option<Value>),
}

impl Objects {
    /// Applies a change and returns its event; `None` if the change has no effect.
    pub(super) fn apply(&mut self, change: Change) -> Option<Event> {
        match change {
            Change::PlacePod(pod) => {
                let pod = identified(*pod, self.pods.len() + 100);
                self.pods.push(pod.clone());
                Some(Event::Pod(None, Some(pod.into())))
            }
            Change::DeletePod(number) => {
                let number = number.checked_rem(self.pods.len())?;
                Some(Event::Pod(Some(self.pods.remove(number).into()), None))
            }
            Change::RelabelPod(number, labels) => {
                let number = number.checked_rem(self.pods.len())?;
                let pod = &mut self.pods[number];
                let old = pod.clone();
                pod.metadata.labels = labels;
                (old != *pod).then(|| Event::Pod(Some(old.into()), Some(pod.clone().into())))
            }
            Change::SetNode(number, node) => {
                let node = called(*node, number);
                let old = self.nodes.insert(node.metadata.name.clone(), node.clone());
                let differs = old.as_ref() != Some(&node);
                differs.then(|| Event::Node(old.map(Box::new), Some(node.into())))
            }
            Change::DeleteNode(number) => {
                let old = self.nodes.remove(&crate::arbitrary::node_name(number))?;
                Some(Event::Node(Some(old.into()), None))
            }
            Change::SetNamespace(number, labels) => self.set_namespace(NAMESPACES[number], labels),
        }
    }

    fn set_namespace(&mut self, name: &str, labels: Option<LabelMap>) -> Option<Event> {
        let old = match &labels {
            Some(labels) => self.namespaces.insert(name.to_owned(), labels.clone()),
            None => self.namespaces.remove(name),
        };
        let object = |labels: &LabelMap| namespace(name, labels);
        let event = Event::Namespace(old.as_ref().map(object), labels.as_ref().map(object));
        (old != labels).then_some(event)
    }
}
