//! What a node and a pod take in the engine: `cargo bench --bench memory`.
//!
//! The resident set of this process before and after adding them. Nodes carry 8 labels and 20 images
//! with two names each; pods are of 8 templates and carry a UUID and a name of their own.

mod support;
#[path = "support/templates.rs"]
mod templates;

use engine::Change;
use framework::Pod;

const NODES: usize = 100_000;
const PODS: usize = 1_000_000;

fn main() {
    let config = support::config(&support::default_plugins(), &plugins::registry());
    let (mut engine, _) = templates::engine(config, 0);
    let before = resident_bytes();
    for number in 0..NODES {
        support::apply(&mut engine, Change::Node(support::node(number)));
    }
    let with_nodes = resident_bytes();
    for number in 0..PODS {
        let name = support::node_name(number % NODES);
        let pod = Pod { node_name: Some(name.into()), ..templates::pod(number) };
        support::apply(&mut engine, Change::Pod(Box::new(pod)));
    }
    let with_pods = resident_bytes();
    println!("{NODES} nodes: {} bytes a node", (with_nodes - before) / NODES);
    println!("{PODS} pods:  {} bytes a pod", (with_pods - with_nodes) / PODS);
}

/// The resident set as Linux tells it.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS is listed");
    let kib: usize = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    kib * 1024
}
