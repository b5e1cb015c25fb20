//! The nodes: five sizes in six zones and four pools; the pool `gpu` is tainted.

use framework::api;

/// Number of zones.
pub(crate) const ZONES: u32 = 6;
/// The pool whose nodes are full of pods that may be evicted.
pub(crate) const SCARCE: &str = "scarce";
/// Key of the label that names the pool.
pub(crate) const POOL: &str = "example.com/pool";
/// The taint of the pool `gpu`.
pub(crate) const DEDICATED: &str = "example.com/dedicated";

/// Milli-CPU, memory in MiB, and maximum number of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) cpu: i64,
    pub(crate) memory: i64,
    pub(crate) pods: i64,
}

const SIZES: [Size; 5] = [
    Size { cpu: 8_000, memory: 32 << 10, pods: 58 },
    Size { cpu: 16_000, memory: 64 << 10, pods: 110 },
    Size { cpu: 32_000, memory: 128 << 10, pods: 110 },
    Size { cpu: 64_000, memory: 256 << 10, pods: 250 },
    Size { cpu: 96_000, memory: 384 << 10, pods: 250 },
];

/// Returns the size of the node with this number.
pub(crate) const fn size(number: u32) -> Size {
    SIZES[number as usize % SIZES.len()]
}

/// Returns the number of the zone of a node.
pub(crate) const fn zone(number: u32) -> u32 {
    number / 5 % ZONES
}

/// Returns the pool of a node.
pub(crate) const fn pool(number: u32) -> &'static str {
    match number % 100 {
        0..5 => SCARCE,
        5..10 => "gpu",
        10..40 => "memory",
        _ => "general",
    }
}

/// Returns the name of a node.
pub(crate) fn name(number: u32) -> String {
    format!("node-{number:07}")
}

/// Returns the number of the node of this name.
pub(crate) fn number(name: &str) -> u32 {
    name.trim_start_matches("node-").parse().expect("it is the name of a node")
}

/// Returns the node with this number.
pub(crate) fn node(number: u32, unschedulable: bool) -> api::Node {
    let mut node = api::Node::default();
    node.metadata.name = name(number);
    node.metadata.resource_version = "1".to_owned();
    let labels = [
        ("kubernetes.io/hostname", name(number)),
        ("kubernetes.io/arch", if number % 10 == 3 { "arm64" } else { "amd64" }.to_owned()),
        ("kubernetes.io/os", "linux".to_owned()),
        ("topology.kubernetes.io/region", "eu-1".to_owned()),
        ("topology.kubernetes.io/zone", format!("eu-1-{}", zone(number))),
        (POOL, pool(number).to_owned()),
    ];
    node.metadata.labels = labels.map(|(key, value)| (key.to_owned(), value)).into();
    let Size { cpu, memory, pods } = size(number);
    let allocatable =
        [("cpu", format!("{cpu}m")), ("memory", format!("{memory}Mi")), ("pods", pods.to_string())];
    node.status.allocatable =
        allocatable.map(|(name, amount)| (name.to_owned(), api::QuantityText(amount))).into();
    let taint = |effect: &str| api::Taint {
        key: DEDICATED.to_owned(),
        value: "gpu".to_owned(),
        effect: effect.to_owned(),
    };
    match pool(number) {
        "gpu" => node.spec.taints.push(taint("NoSchedule")),
        _ if number % 50 == 11 => node.spec.taints.push(taint("PreferNoSchedule")),
        _ => {}
    }
    node.spec.unschedulable = unschedulable;
    node.status.images = (0..5).map(|image| image_of(number % 32 * 5 + image)).collect();
    node
}

/// Returns the name of the image with this number.
pub(crate) fn image(number: u32) -> String {
    format!("registry.example.com/app-{number}:v1")
}

fn image_of(number: u32) -> api::ContainerImage {
    api::ContainerImage {
        names: vec![image(number)],
        size_bytes: 50_000_000 + i64::from(number) * 5_000_000,
    }
}
