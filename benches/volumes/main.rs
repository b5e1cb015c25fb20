//! The cost of one decision for pods with volumes: `cargo bench --bench volumes [-- NODES...
//! SHAPES...]`.
//!
//! The default profile, nodes of ten kinds, 60 % full, and 20,000 persistent volumes. A decision is
//! everything from the queue to the first request, which is a Binding or a write to a volume or
//! claim. The set form, which decides, is compared with the one-node form, its reference, and with
//! the decision for a pod without volumes in a cluster without storage objects. The shapes are
//! those of [`Shape`].

#[path = "../support/measure.rs"]
mod measure;
#[path = "../support/object.rs"]
mod object;
#[path = "../support/storage.rs"]
mod storage;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/templates.rs"]
mod templates;
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

/// Number of decisions before the measurement.
const WARM_UP: usize = 20;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let sizes: Vec<usize> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![5_000] } else { sizes };
    let named = |shape: &Shape| args.iter().any(|arg| arg == shape.name);
    let any_named = Shape::ALL.iter().any(named);
    println!(
        "{:>16} {:>6} {:>12} {:>11} {:>12} {:>7} {:>9} {:>9}",
        "shape", "nodes", "set form", "of nothing", "one-node", "ratio", "add", "remove"
    );
    for nodes in sizes {
        let nothing = print_row(&Workload { shape: Shape::NOTHING, nodes }, None);
        for shape in Shape::ALL.into_iter().filter(|shape| !any_named || named(shape)) {
            print_row(&Workload { shape, nodes }, Some(nothing));
        }
    }
}

/// Returns the time of a decision; `nothing` is the time without volumes.
fn print_row(workload: &Workload, nothing: Option<Duration>) -> Duration {
    let measure = |form| {
        let mut engine = workload.engine(config(form));
        (decision(&mut engine, WARM_UP, |number| workload.pod(number)), engine)
    };
    let (set, mut engine) = measure(Form::Set);
    let (add, remove) = changes(&mut engine, |number| {
        let node = support::node_name(number * 7919 % workload.nodes);
        Pod { node_name: Some(node.into()), ..workload.pod(number) }
    });
    let (one_node, _) = measure(Form::OneNode);
    println!(
        "{:>16} {:>6} {:>12} {:>10.2}x {:>12} {:>6.1}x {:>9} {:>9}",
        workload.shape.name,
        workload.nodes,
        text(set),
        set.as_secs_f64() / nothing.unwrap_or(set).as_secs_f64(),
        text(one_node),
        one_node.as_secs_f64() / set.as_secs_f64(),
        text(add),
        text(remove),
    );
    set
}

fn config(form: Form) -> EngineConfig {
    let config = support::config(&support::default_plugins(), &plugins::registry());
    EngineConfig { form, ..config }
}
