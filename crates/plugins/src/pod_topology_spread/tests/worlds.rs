//! Random clusters and pods with topology spread constraints.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{Node, Pod, api};
use proptest::prelude::*;
use proptest::sample::select;

use crate::arbitrary::{self, History, World, history, node_name};

/// A placed pod, reduced to the fields that constraints read.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) node: usize,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) other_namespace: bool,
    pub(super) terminating: bool,
}

impl Placed {
    /// Returns the API object with name `name`.
    pub(super) fn api(&self, name: &str) -> api::Pod {
        let mut pod = api::Pod::default();
        pod.metadata.name = name.to_owned();
        pod.metadata.uid = format!("uid-{name}");
        pod.metadata.namespace = if self.other_namespace { "other" } else { "default" }.to_owned();
        pod.metadata.labels.clone_from(&self.labels);
        pod.metadata.deletion_timestamp = self.terminating.then(|| "2026-01-01T00:00:00Z".into());
        pod.spec.node_name = node_name(self.node);
        pod
    }
}

/// Places a pod on a node that may be unknown.
pub(super) fn place(world: &mut World, pod: api::Pod) {
    let ix = world.cluster.place_pod(Arc::new(Pod::from_api(&pod)), &pod.spec.node_name);
    world.pods.push((ix, pod));
}

/// Adds or replaces a node.
pub(super) fn set_node(world: &mut World, node: api::Node) {
    world.cluster.set_node(&Node::from_api(&node).0);
    world.nodes.insert(node.metadata.name.clone(), node);
}

/// The setup of a cluster in which constraints count many pods.
#[derive(Debug)]
pub(super) struct Setup {
    history: History,
    pub(super) pods: Vec<Placed>,
    /// Numbers of the nodes without a hostname label.
    nameless: Vec<usize>,
}

impl Setup {
    /// Builds the cluster.
    pub(super) fn world(&self) -> World {
        let mut world = self.history.replay();
        for (number, pod) in self.pods.iter().enumerate() {
            place(&mut world, pod.api(&format!("more-{number}")));
        }
        for name in self.nameless.iter().copied().map(node_name) {
            if let Some(mut node) = world.nodes.get(&name).cloned() {
                node.metadata.labels.remove("kubernetes.io/hostname");
                set_node(&mut world, node);
            }
        }
        world
    }
}

pub(super) fn setup() -> impl Strategy<Value = Setup> {
    let pods = prop::collection::vec(placed(), 0..40);
    let nameless = prop::collection::vec(0..7_usize, 0..2);
    (history(), pods, nameless).prop_map(|(history, pods, nameless)| Setup {
        history,
        pods,
        nameless,
    })
}

pub(super) fn placed() -> impl Strategy<Value = Placed> {
    let flags = (prop::bool::weighted(0.1), prop::bool::weighted(0.15));
    (0..8_usize, labels(), flags).prop_map(|(node, labels, (other_namespace, terminating))| {
        Placed { node, labels, other_namespace, terminating }
    })
}

pub(super) fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    let key = select(vec!["app", "app", "tier"]).prop_map(str::to_owned);
    let value = select(vec!["web", "web", "db"]).prop_map(str::to_owned);
    prop::collection::btree_map(key, value, 0..3)
}

/// Generates a pod with constraints that is not placed.
pub(super) fn spread_pod() -> impl Strategy<Value = api::Pod> {
    let constraints = prop::collection::vec(constraint(), 1..4);
    (arbitrary::pod(), labels(), constraints).prop_map(|(mut pod, labels, constraints)| {
        pod.metadata.labels = labels;
        pod.spec.topology_spread_constraints = constraints;
        pod
    })
}

fn constraint() -> impl Strategy<Value = api::TopologySpreadConstraint> {
    let key = select(vec![
        "zone",
        "zone",
        "zone",
        "kubernetes.io/hostname",
        "kubernetes.io/hostname",
        "disk",
        "generation",
        "missing",
    ]);
    let action = select(vec!["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway", "Sometimes"]);
    let policy = || prop::option::of(select(vec!["Honor", "Ignore"]));
    let policies = (policy(), policy());
    let min_domains = prop::option::weighted(0.3, 1..5);
    let keys = prop::collection::vec(select(vec!["tier", "absent"]).prop_map(str::to_owned), 0..2);
    (key, 1..4, action, prop::option::weighted(0.9, selector()), policies, min_domains, keys)
        .prop_map(|(key, max_skew, action, label_selector, policies, min_domains, keys)| {
            api::TopologySpreadConstraint {
                max_skew,
                topology_key: key.to_owned(),
                when_unsatisfiable: action.to_owned(),
                label_selector,
                min_domains,
                node_affinity_policy: policies.0.map(str::to_owned),
                node_taints_policy: policies.1.map(str::to_owned),
                match_label_keys: keys,
            }
        })
}

fn selector() -> impl Strategy<Value = api::LabelSelector> {
    let operator = select(vec!["In", "NotIn", "Exists"]);
    let requirement = (select(vec!["app", "tier"]), operator).prop_map(|(key, operator)| {
        let values = if operator == "Exists" { vec![] } else { vec!["web".to_owned()] };
        api::SelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
    });
    let requirements = prop::collection::vec(requirement, 0..2);
    requirements.prop_map(|match_expressions| api::LabelSelector {
        match_expressions,
        ..api::LabelSelector::default()
    })
}
