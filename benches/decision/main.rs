//! The cost of one decision: `cargo bench --bench decision [-- NODES... SHAPES...]`.
//!
//! The default profile; nodes of ten kinds, 60 % full. A decision is everything from the queue to
//! the emitted Binding. Each row is measured within one run: the set form, the one-node form, its
//! reference, and rankings.
//!
//! * `plain` has pods of eight templates without spread or affinity.
//! * `rejected` has a template that fits nowhere.
//! * `tentative` has groups of pods that are placed for a while, until a savepoint ends.
//! * The others are those of [`Shape`], measured with few and with many applications, and with a
//!   growing number of pods per node. `add` and `remove` are the cost of an added or deleted placed
//!   pod, while all counts are kept up to date.

#[path = "../support/measure.rs"]
mod measure;
mod rejected;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/templates.rs"]
mod templates;
mod tentative;
#[path = "../support/text.rs"]
mod text;
mod workload;

use std::time::Duration;

use engine::EngineConfig;
use engine::cycle::Form;
use framework::Pod;

use measure::{changes, decision};
use text::text;
use workload::{Shape, Workload};

/// Number of decisions after which each of the eight templates has a ranking.
const WARM_UP: usize = 16;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let sizes: Vec<usize> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    let or = |default: &[usize]| if sizes.is_empty() { default.to_vec() } else { sizes.clone() };
    let shapes = ["plain", "rejected", "tentative", "spread", "affinity", "mixed"];
    let named: Vec<&str> =
        shapes.into_iter().filter(|name| args.iter().any(|a| a == name)).collect();
    let wanted = |name: &str| named.is_empty() || named.contains(&name);
    if wanted("plain") {
        print_plain(&or(&[100, 1_000, 5_000, 20_000, 100_000]));
    }
    if wanted("rejected") {
        rejected::print(&or(&[1_000, 5_000, 20_000, 100_000]));
    }
    if wanted("tentative") {
        tentative::print(&or(&[1_000, 20_000, 100_000]));
    }
    for shape in Shape::ALL.into_iter().filter(|shape| wanted(shape.name())) {
        print_shape(shape, &or(&[1_000, 5_000]));
    }
}

fn print_plain(sizes: &[usize]) {
    println!(
        "{:>8} {:>9} {:>12} {:>12} {:>9} {:>12} {:>9} {:>7}",
        "nodes", "pods", "ranked", "set form", "per node", "one-node", "per node", "ratio"
    );
    for nodes in sizes.iter().copied() {
        let measure = |form| {
            let (mut engine, pods) = templates::engine(config(form), nodes);
            (decision(&mut engine, WARM_UP, |number| templates::pod(pods + number)), pods)
        };
        let ((set, pods), (one_node, _)) = (measure(Form::Set), measure(Form::OneNode));
        let (ranked, _) = measure(Form::Ranked);
        println!(
            "{nodes:>8} {pods:>9} {:>12} {:>12} {:>9} {:>12} {:>9} {:>6.1}x",
            text(ranked),
            text(set),
            per_node(set, nodes),
            text(one_node),
            per_node(one_node, nodes),
            one_node.as_secs_f64() / set.as_secs_f64(),
        );
    }
}

fn print_shape(shape: Shape, sizes: &[usize]) {
    println!(
        "\n{:>8} {:>6} {:>8} {:>9} {:>12} {:>12} {:>7} {:>9} {:>9}",
        shape.name(),
        "nodes",
        "apps",
        "pods",
        "set form",
        "one-node",
        "ratio",
        "add",
        "remove"
    );
    for nodes in sizes.iter().copied() {
        for applications in [10, 1_000] {
            for pods_per_node in [0, 20, 30] {
                print_workload(&Workload { shape, applications, nodes, pods_per_node });
            }
        }
    }
}

fn print_workload(workload: &Workload) {
    let measure = |form| {
        let mut engine = workload.engine(config(form));
        let warm_up = workload.applications;
        (decision(&mut engine, warm_up, |number| workload.pod(number)), engine)
    };
    let (set, mut engine) = measure(Form::Set);
    let (add, remove) = changes(&mut engine, |number| {
        let node = support::node_name(number * 7919 % workload.nodes);
        Pod { node_name: Some(node.into()), ..workload.pod(number) }
    });
    let (one_node, _) = measure(Form::OneNode);
    println!(
        "{:>8} {:>6} {:>8} {:>9} {:>12} {:>12} {:>6.1}x {:>9} {:>9}",
        "",
        workload.nodes,
        workload.applications,
        workload.pods(),
        text(set),
        text(one_node),
        one_node.as_secs_f64() / set.as_secs_f64(),
        text(add),
        text(remove),
    );
}

fn config(form: Form) -> EngineConfig {
    let config = support::config(&support::default_plugins(), &plugins::registry());
    EngineConfig { form, ..config }
}

fn per_node(decision: Duration, nodes: usize) -> String {
    format!("{:.1} ns", decision.as_secs_f64() * 1e9 / nodes as f64)
}
