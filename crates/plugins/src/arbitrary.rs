//! Random clusters and pods for the property tests of all plugins.
//!
//! Objects are generated as API objects, so that an oracle needs no compact forms. [`history`]
//! generates the changes that lead to a cluster; [`History::replay`] applies them.

pub(crate) mod storage;

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{Cluster, Node, NodeBits, NodeIx, Pod, PodIx, api};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use self::storage::{StorageChange, StorageObjects, storage_changes};

/// A change to a cluster. Nodes and pods are identified by number.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Adds or replaces a node.
    SetNode(usize, Box<api::Node>),
    /// Removes a node if it exists. Its pods stay.
    RemoveNode(usize),
    /// Places a pod on a node, which may be unknown.
    PlacePod(usize, Box<api::Pod>),
    /// Removes a placed pod, by its number modulo the number of placed pods.
    RemovePod(usize),
    /// Changes a storage object.
    Storage(StorageChange),
}

/// The changes that lead to a cluster.
#[derive(Debug, Clone)]
pub(crate) struct History(Vec<Change>);

/// A cluster and the API objects it was built from.
#[derive(Default)]
pub(crate) struct World {
    /// The cluster under test.
    pub(crate) cluster: Cluster,
    /// The nodes of the cluster, by name.
    pub(crate) nodes: BTreeMap<String, api::Node>,
    /// The pods of the cluster. `spec.nodeName` names a node that may be unknown.
    pub(crate) pods: Vec<(PodIx, api::Pod)>,
    /// The storage objects of the cluster.
    pub(crate) storage: StorageObjects,
    placements: usize,
}

impl History {
    /// Applies the changes to an empty cluster.
    pub(crate) fn replay(&self) -> World {
        self.replay_after(&StorageObjects::default())
    }

    /// Applies the changes to a cluster with these storage objects.
    pub(crate) fn replay_after(&self, objects: &StorageObjects) -> World {
        let mut world = World::default();
        objects.put_into(&mut world.cluster);
        self.0.iter().for_each(|change| world.apply(change));
        world
    }
}

impl World {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::SetNode(number, node) => self.set_node(*number, (**node).clone()),
            Change::RemoveNode(number) => {
                let name = node_name(*number);
                let known = self.nodes.remove(&name).is_some();
                assert_eq!(self.cluster.remove_node(&name), known);
            }
            Change::PlacePod(number, pod) => self.place_pod(*number, (**pod).clone()),
            Change::RemovePod(number) if !self.pods.is_empty() => {
                let (ix, _) = self.pods.swap_remove(number % self.pods.len());
                self.cluster.remove_pod(ix);
            }
            Change::RemovePod(_) => {}
            Change::Storage(change) => self.storage.change(change, &mut self.cluster),
        }
    }

    fn set_node(&mut self, number: usize, mut node: api::Node) {
        let name = node_name(number);
        node.metadata.labels.insert("kubernetes.io/hostname".to_owned(), name.clone());
        node.metadata.name.clone_from(&name);
        self.cluster.set_node(&Node::from_api(&node).0);
        self.nodes.insert(name, node);
    }

    fn place_pod(&mut self, number: usize, mut pod: api::Pod) {
        self.placements += 1;
        pod.metadata.name = format!("placed-{}", self.placements);
        pod.metadata.uid = format!("uid-placed-{}", self.placements);
        pod.spec.node_name = node_name(number);
        let compact = Arc::new(Pod::from_api(&pod));
        let ix = self.cluster.place_pod(compact, &pod.spec.node_name);
        self.pods.push((ix, pod));
    }

    /// Removes [some nodes](Self::some_nodes) and adds them again.
    pub(crate) fn renew(&mut self, choice: u64) {
        let nodes = self.some_nodes(choice);
        let nodes: Vec<_> = nodes.iter().map(|node| self.node(node).clone()).collect();
        nodes.iter().for_each(|node| assert!(self.cluster.remove_node(&node.metadata.name)));
        for node in nodes {
            self.cluster.set_node(&Node::from_api(&node).0);
        }
    }

    /// Returns the pods on the node called `name`.
    pub(crate) fn pods_on<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a api::Pod> {
        self.pods.iter().map(|(_, pod)| pod).filter(move |pod| pod.spec.node_name == name)
    }

    /// Returns the API object of a node of the cluster.
    pub(crate) fn node(&self, node: NodeIx) -> &api::Node {
        &self.nodes[&**self.cluster.node_name(node)]
    }

    /// Selects the nodes whose number, modulo 64, has its bit set in `choice`.
    pub(crate) fn some_nodes(&self, choice: u64) -> NodeBits {
        self.cluster.nodes().iter().filter(|node| choice >> (node.index() % 64) & 1 == 1).collect()
    }
}

/// Returns the name of a node by number.
pub(crate) fn node_name(number: usize) -> String {
    format!("n{number}")
}

/// Generates a cluster of a few, about 64 or about 128 nodes, with nodes and pods that came and
/// went.
pub(crate) fn history() -> impl Strategy<Value = History> {
    prop_oneof![4 => 0_usize..7, 1 => 62_usize..67, 1 => 126_usize..131].prop_flat_map(|nodes| {
        let first = prop::collection::vec(node(), nodes);
        let pods = prop::collection::vec((0..nodes + 2, pod()), 0..12);
        let later = prop::collection::vec(change(nodes + 2), 0..12);
        (first, pods, later).prop_map(|(first, pods, later)| {
            let first = first.into_iter().enumerate().map(|(n, node)| set_node(n, node));
            let pods = pods.into_iter().map(|(n, pod)| place_pod(n, pod));
            History(first.chain(pods).chain(later).collect())
        })
    })
}

/// Generates a cluster with storage objects, some of them for `nodes` nodes, in any order.
pub(crate) fn history_with_storage(nodes: usize) -> impl Strategy<Value = History> {
    let changes = (history(), storage_changes(nodes)).prop_map(|(history, storage)| {
        let storage = storage.into_iter().map(Change::Storage);
        history.0.into_iter().chain(storage).collect::<Vec<_>>()
    });
    changes.prop_shuffle().prop_map(History)
}

fn set_node(number: usize, node: api::Node) -> Change {
    Change::SetNode(number, Box::new(node))
}

fn place_pod(number: usize, pod: api::Pod) -> Change {
    Change::PlacePod(number, Box::new(pod))
}

fn change(nodes: usize) -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..nodes, node()).prop_map(|(number, node)| set_node(number, node)),
        (0..nodes).prop_map(Change::RemoveNode),
        (0..nodes, pod()).prop_map(|(number, pod)| place_pod(number, pod)),
        (0_usize..100).prop_map(Change::RemovePod),
    ]
}

/// Generates a node without a name.
pub(crate) fn node() -> impl Strategy<Value = api::Node> {
    let spec = (prop::bool::weighted(0.2), taints())
        .prop_map(|(unschedulable, taints)| api::NodeSpec { unschedulable, taints });
    let status = (allocatable(), images(), features()).prop_map(
        |(allocatable, images, declared_features)| api::NodeStatus {
            allocatable,
            images,
            declared_features,
            ..api::NodeStatus::default()
        },
    );
    (node_labels(), spec, status).prop_map(|(labels, spec, status)| api::Node {
        metadata: api::ObjectMeta { labels, ..api::ObjectMeta::default() },
        spec,
        status,
    })
}

fn pairs(
    pairs: impl IntoIterator<Item = (&'static str, Option<&'static str>)>,
) -> api::ResourceList {
    let given = pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    given.map(|(key, value)| (key, api::QuantityText(value.to_owned()))).collect()
}

fn allocatable() -> impl Strategy<Value = api::ResourceList> {
    let cpu = select(vec!["0", "500m", "2", "3500m", "64"]);
    let memory = select(vec!["0", "1Gi", "3000000000", "256Gi"]);
    let disk = prop::option::of(select(vec!["1Gi", "100Gi"]));
    let gpus = prop::option::weighted(0.3, select(vec!["0", "1", "8"]));
    let huge = prop::option::weighted(0.2, select(vec!["2Mi", "1Gi"]));
    let pods = select(vec!["0", "1", "3", "110"]);
    (cpu, memory, disk, gpus, huge, pods).prop_map(|(cpu, memory, disk, gpus, huge, pods)| {
        pairs([
            ("cpu", Some(cpu)),
            ("memory", Some(memory)),
            ("ephemeral-storage", disk),
            ("example.com/gpu", gpus),
            ("hugepages-2Mi", huge),
            ("pods", Some(pods)),
        ])
    })
}

fn node_labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    let zone = prop::option::weighted(0.8, select(vec!["a", "b", "c"]));
    let generation = prop::option::weighted(0.6, select(vec!["1", "5", "07", "-3", "x", ""]));
    let disk = prop::option::weighted(0.5, select(vec!["ssd", "hdd"]));
    let places = prop::collection::vec(prop::option::weighted(0.4, select(vec!["a", "b"])), 4);
    (zone, generation, disk, places).prop_map(|(zone, generation, disk, places)| {
        [("zone", zone), ("generation", generation), ("disk", disk)]
            .into_iter()
            .chain(storage::ZONE_LABELS.into_iter().zip(places))
            .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
            .collect()
    })
}

/// Generates distinct taints: the API server rejects duplicates.
fn taints() -> impl Strategy<Value = Vec<api::Taint>> {
    let effect =
        select(vec!["NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute", "Odd"]);
    let taint = (select(vec!["k1", "k2", "k3"]), select(vec!["", "v1", "v2"]), effect);
    let some = prop::collection::vec(taint, 0..4);
    prop_oneof![Just(Vec::new()), some].prop_map(|mut taints| {
        taints.sort_unstable();
        taints.dedup();
        let taint = |(key, value, effect): (&str, &str, &str)| api::Taint {
            key: key.to_owned(),
            value: value.to_owned(),
            effect: effect.to_owned(),
        };
        taints.into_iter().map(taint).collect()
    })
}

const IMAGES: [&str; 5] = ["app:v1", "db:latest", "web:latest", "reg:5000/x:latest", "y@sha256:00"];

fn images() -> impl Strategy<Value = Vec<api::ContainerImage>> {
    let sizes = select(vec![0, 1 << 20, 30 << 20, 700 << 20, 40_i64 << 30]);
    (subsequence(IMAGES.to_vec(), 0..=IMAGES.len()), sizes, any::<bool>()).prop_map(
        |(names, size, together)| {
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            let per_image = if together { names.len().max(1) } else { 1 };
            let image = |(place, names): (usize, &[String])| api::ContainerImage {
                names: names.to_vec(),
                size_bytes: size + i64::try_from(place).unwrap(),
            };
            names.chunks(per_image).enumerate().map(image).collect()
        },
    )
}

fn features() -> impl Strategy<Value = Vec<String>> {
    let known = vec![
        "ExtendWebSocketsToKubelet",
        "RestartAllContainersOnContainerExits",
        "Unheard",
        "UserNamespacesHostNetworkSupport",
    ];
    subsequence(known, 0..=4).prop_map(|some| some.into_iter().map(str::to_owned).collect())
}

/// Generates a pod in namespace `default` that is not placed.
pub(crate) fn pod() -> impl Strategy<Value = api::Pod> {
    let labels = prop::collection::btree_map(
        select(vec!["app", "tier"]).prop_map(str::to_owned),
        select(vec!["web", "db"]).prop_map(str::to_owned),
        0..2,
    );
    (labels, pod_spec()).prop_map(|(labels, spec)| api::Pod {
        metadata: api::ObjectMeta {
            name: "pod".to_owned(),
            namespace: "default".to_owned(),
            uid: "uid-pod".to_owned(),
            labels,
            ..api::ObjectMeta::default()
        },
        spec,
        ..api::Pod::default()
    })
}

fn pod_spec() -> impl Strategy<Value = api::PodSpec> {
    let containers = (
        prop::collection::vec(container(), 1..3),
        prop::collection::vec((container(), any::<bool>()), 0..2),
    );
    let placement = (
        prop::collection::vec(toleration(), 0..4),
        prop::option::weighted(0.3, node_selector_map()),
        prop::option::weighted(0.5, node_affinity()),
    );
    let flags = (prop::bool::weighted(0.3), prop::option::of(any::<bool>()));
    let images = prop::collection::vec(select(IMAGES.to_vec()), 0..2);
    let volumes = (images, storage::pod_volumes());
    (containers, placement, flags, overhead(), volumes).prop_map(
        |((containers, init), (tolerations, node_selector, affinity), flags, overhead, volumes)| {
            let (images, volumes) = volumes;
            api::PodSpec {
                containers,
                init_containers: init
                    .into_iter()
                    .map(|(container, sidecar)| sidecar_if(container, sidecar))
                    .collect(),
                tolerations,
                node_selector,
                affinity: affinity.map(|node| api::Affinity {
                    node_affinity: Some(node),
                    ..api::Affinity::default()
                }),
                host_network: flags.0,
                host_users: flags.1,
                overhead,
                volumes: images.into_iter().map(image_volume).chain(volumes).collect(),
                ..api::PodSpec::default()
            }
        },
    )
}

fn sidecar_if(mut container: api::Container, sidecar: bool) -> api::Container {
    container.restart_policy = sidecar.then(|| "Always".to_owned());
    container
}

fn image_volume(reference: &str) -> api::Volume {
    let image = api::ImageVolumeSource { reference: reference.to_owned() };
    api::Volume { image: Some(image), ..api::Volume::default() }
}

fn overhead() -> impl Strategy<Value = api::ResourceList> {
    prop::option::weighted(0.2, select(vec!["10m", "1"])).prop_map(|cpu| pairs([("cpu", cpu)]))
}

fn container() -> impl Strategy<Value = api::Container> {
    let image = select(vec!["app:v1", "db", "web", "reg:5000/x", "y@sha256:00", "unknown", ""]);
    let rules = prop::option::weighted(0.15, select(vec!["Restart", "RestartAllContainers"]));
    (image, requests(), prop::collection::vec(port(), 0..2), rules).prop_map(
        |(image, requests, ports, rules)| api::Container {
            image: image.to_owned(),
            resources: api::ResourceRequirements { requests, ..Default::default() },
            ports,
            restart_policy_rules: rules
                .map(|action| api::ContainerRestartRule { action: action.to_owned() })
                .into_iter()
                .collect(),
            ..api::Container::default()
        },
    )
}

fn requests() -> impl Strategy<Value = api::ResourceList> {
    let cpu = prop::option::of(select(vec!["0", "100m", "1", "2500m"]));
    let memory = prop::option::of(select(vec!["0", "64Mi", "1Gi", "3000000000"]));
    let disk = prop::option::weighted(0.2, select(vec!["1Gi", "20Gi"]));
    let gpus = prop::option::weighted(0.2, select(vec!["0", "1", "4"]));
    let huge = prop::option::weighted(0.1, select(vec!["0", "2Mi"]));
    (cpu, memory, disk, gpus, huge).prop_map(|(cpu, memory, disk, gpus, huge)| {
        pairs([
            ("cpu", cpu),
            ("memory", memory),
            ("ephemeral-storage", disk),
            ("example.com/gpu", gpus),
            ("hugepages-2Mi", huge),
        ])
    })
}

fn port() -> impl Strategy<Value = api::ContainerPort> {
    let ip = select(vec!["", "0.0.0.0", "127.0.0.1", "127.0.0.2", "::"]);
    let protocol = select(vec!["", "TCP", "UDP", "SCTP", "QUIC"]);
    (select(vec![0, 0, 80, 443, 8080]), ip, protocol).prop_map(|(host_port, ip, protocol)| {
        api::ContainerPort {
            container_port: 80,
            host_port,
            host_ip: ip.to_owned(),
            protocol: protocol.to_owned(),
        }
    })
}

fn toleration() -> impl Strategy<Value = api::Toleration> {
    let key = select(vec!["", "k1", "k2", "k3", "node.kubernetes.io/unschedulable"]);
    let operator = select(vec!["", "Equal", "Exists", "Exists", "Lt", "Gt", "Odd"]);
    let value = select(vec!["", "v1", "v2"]);
    let effect = select(vec!["", "", "NoSchedule", "PreferNoSchedule", "NoExecute"]);
    (key, operator, value, effect).prop_map(|(key, operator, value, effect)| api::Toleration {
        key: key.to_owned(),
        operator: operator.to_owned(),
        value: value.to_owned(),
        effect: effect.to_owned(),
    })
}

fn node_selector_map() -> impl Strategy<Value = BTreeMap<String, String>> {
    let key = select(vec!["zone", "disk", "missing"]).prop_map(str::to_owned);
    let value = select(vec!["a", "b", "ssd"]).prop_map(str::to_owned);
    prop::collection::btree_map(key, value, 0..2)
}

/// Generates node affinity, sometimes with terms that do not parse.
pub(crate) fn node_affinity() -> impl Strategy<Value = api::NodeAffinity> {
    let required = prop::collection::vec(node_selector_term(), 0..4)
        .prop_map(|node_selector_terms| api::NodeSelector { node_selector_terms });
    let weighted = (0..100_i32, node_selector_term())
        .prop_map(|(weight, preference)| api::PreferredSchedulingTerm { weight, preference });
    let preferred = prop::collection::vec(weighted, 0..4);
    (prop::option::weighted(0.7, required), prop::option::weighted(0.7, preferred))
        .prop_map(|(required, preferred)| api::NodeAffinity { required, preferred })
}

fn node_selector_term() -> impl Strategy<Value = api::NodeSelectorTerm> {
    let fields = prop::collection::vec(field_requirement(), 0..2);
    let fields = prop_oneof![2 => Just(Vec::new()), 1 => fields];
    (prop::collection::vec(label_requirement(), 0..3), fields).prop_map(
        |(match_expressions, match_fields)| api::NodeSelectorTerm {
            match_expressions,
            match_fields,
        },
    )
}

fn label_requirement() -> impl Strategy<Value = api::SelectorRequirement> {
    let key = select(vec!["zone", "zone", "generation", "generation", "disk", "missing"]);
    let text = select(vec!["a", "b", "ssd", "", "5"]);
    let listed = (select(vec!["In", "NotIn"]), prop::collection::vec(text, 1..3));
    let bare = (select(vec!["Exists", "DoesNotExist"]), Just(Vec::new()));
    let bound = (select(vec!["Gt", "Lt"]), prop::collection::vec(select(vec!["0", "4", "6"]), 1));
    let odd_operator = select(vec!["In", "Exists", "Gt", "Odd"]);
    let odd_value = select(vec!["not a value", "-5", "x"]);
    let odd = (odd_operator, prop::collection::vec(odd_value, 0..3));
    (key, prop_oneof![5 => listed, 3 => bare, 3 => bound, 1 => odd])
        .prop_map(|(key, (operator, values))| requirement(key, operator, values))
}

fn field_requirement() -> impl Strategy<Value = api::SelectorRequirement> {
    let key = select(vec!["metadata.name", "metadata.name", "metadata.name", "spec.podCIDR"]);
    let operator = select(vec!["In", "In", "In", "NotIn", "NotIn", "Exists"]);
    let value = select(vec!["n0", "n1", "n2", "n64", "elsewhere", ""]);
    let values = prop_oneof![
        5 => prop::collection::vec(value.clone(), 1),
        1 => prop::collection::vec(value, 0..3),
    ];
    (key, operator, values).prop_map(|(key, operator, values)| requirement(key, operator, values))
}

fn requirement(key: &str, operator: &str, values: Vec<&str>) -> api::SelectorRequirement {
    api::SelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.into_iter().map(str::to_owned).collect(),
    }
}
