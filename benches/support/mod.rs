//! Nodes of ten kinds and an engine with the default plugins, for the benchmarks.

use engine::ports::Ports;
use engine::profile::{PluginRef, Profiles, SchedulerProfile};
use engine::{Change, Engine, EngineConfig, Input};
use framework::{Node, Registry, Time, api};

/// A kind of node: milli-CPU, memory in GiB, pods.
const KINDS: [(u32, u32, u32); 10] = [
    (4_000, 16, 58),
    (8_000, 32, 58),
    (16_000, 64, 110),
    (32_000, 128, 234),
    (64_000, 256, 250),
    (8_000, 16, 58),
    (16_000, 32, 110),
    (8_000, 64, 58),
    (16_000, 128, 110),
    (96_000, 384, 250),
];

/// Returns the capacity of the node with this number: milli-CPU, memory in GiB, pods.
pub(crate) const fn capacity(number: usize) -> (u32, u32, u32) {
    KINDS[number % KINDS.len()]
}

/// Number of nodes per rack.
pub(crate) const NODES_PER_RACK: usize = 40;

/// Returns the zone of the node with this number.
pub(crate) fn zone(number: usize) -> String {
    format!("eu-1{}", ["a", "b", "c"][number % 3])
}

/// Returns the name of the node with this number.
pub(crate) fn node_name(number: usize) -> String {
    format!("node-{number:06}")
}

/// Returns the node with this number.
pub(crate) fn node(number: usize) -> Node {
    let kind = number % KINDS.len();
    let (cpu, memory, pods) = capacity(number);
    let mut node = api::Node::default();
    node.metadata.name = node_name(number);
    let labels = [
        ("kubernetes.io/hostname", node.metadata.name.clone()),
        ("kubernetes.io/arch", "amd64".to_owned()),
        ("kubernetes.io/os", "linux".to_owned()),
        ("node.kubernetes.io/instance-type", format!("kind-{kind}")),
        ("topology.kubernetes.io/region", "eu-1".to_owned()),
        ("topology.kubernetes.io/zone", zone(number)),
        ("example.com/pool", format!("pool-{}", number % 7)),
        ("example.com/rack", format!("rack-{}", number / NODES_PER_RACK)),
    ];
    node.metadata.labels = labels.map(|(key, value)| (key.to_owned(), value)).into();
    let allocatable = [
        ("cpu", format!("{cpu}m")),
        ("memory", format!("{memory}Gi")),
        ("pods", pods.to_string()),
        ("ephemeral-storage", "200Gi".to_owned()),
    ];
    node.status.allocatable =
        allocatable.map(|(name, amount)| (name.to_owned(), api::QuantityText(amount))).into();
    if number % 50 == 7 {
        node.spec.taints.push(api::Taint {
            key: "dedicated".to_owned(),
            value: "batch".to_owned(),
            effect: if number % 100 == 7 { "NoSchedule" } else { "PreferNoSchedule" }.to_owned(),
        });
    }
    node.status.images = (0..20).map(|image| image_of(number * 3 + image * 7)).collect();
    Node::from_api(&node).0
}

fn image_of(number: usize) -> api::ContainerImage {
    let number = number % 200;
    let name = format!("registry.example.com/app-{number}:v1");
    let digest = format!("registry.example.com/app-{number}@sha256:{:064x}", number * 7919);
    let size_bytes = 20_000_000 + i64::try_from(number).unwrap_or(0) * 3_000_000;
    api::ContainerImage { names: vec![name, digest], size_bytes }
}

/// The default plugins with their weights.
pub(crate) fn default_plugins() -> Vec<PluginRef> {
    plugins::catalogue::defaults()
        .map(|entry| PluginRef::new(entry.name, entry.default_weight))
        .collect()
}

/// An engine configuration with one profile of these plugins.
pub(crate) fn config(plugins: &[PluginRef], registry: &Registry) -> EngineConfig {
    let profile = SchedulerProfile {
        scheduler_name: "default-scheduler".to_owned(),
        ..SchedulerProfile::default()
    };
    let profiles = Profiles::build(&[profile], plugins, registry, false);
    EngineConfig::new(profiles.expect("the profile builds"))
}

/// Applies a change at the epoch, without ports.
pub(crate) fn apply(engine: &mut Engine, change: Change) {
    engine.step(
        Input::Change(change),
        Time::ZERO,
        &mut Ports { extenders: &mut (), probe: &mut () },
    );
}
