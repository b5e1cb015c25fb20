//! What one decision costs: `cargo bench --bench decision [-- NODES...]`.
//!
//! The default profile as far as it is built, plain pods, nodes 60 % full of ten kinds. A decision is
//! everything from the queue to the emitted Binding. Each row is measured within one run: the set form,
//! which decides, beside the one-node form, which is its reference.

mod support;

use std::time::{Duration, Instant};

use engine::cycle::Form;
use engine::ports::Ports;
use engine::{Attempt, Change, Engine, EngineConfig, Outcome};
use framework::{Answer, Time};

/// How long each form is measured for, at least.
const MEASURED: Duration = Duration::from_millis(300);

fn main() {
    let sizes: Vec<usize> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![100, 1_000, 5_000, 20_000, 100_000] } else { sizes };
    println!(
        "{:>8} {:>9} {:>12} {:>9} {:>12} {:>9} {:>7}",
        "nodes", "pods", "set form", "per node", "one-node", "per node", "ratio"
    );
    for nodes in sizes {
        let (set, pods) = measure(nodes, Form::Set);
        let (one_node, _) = measure(nodes, Form::OneNode);
        println!(
            "{nodes:>8} {pods:>9} {:>12} {:>9} {:>12} {:>9} {:>6.1}x",
            text(set),
            per_node(set, nodes),
            text(one_node),
            per_node(one_node, nodes),
            one_node.as_secs_f64() / set.as_secs_f64(),
        );
    }
}

fn per_node(decision: Duration, nodes: usize) -> String {
    format!("{:.1} ns", decision.as_secs_f64() * 1e9 / nodes as f64)
}

/// Mean time of a decision, and the number of pods there were. Each pod is taken off again before the
/// next one, so the cluster stays as full as it was.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn measure(nodes: usize, form: Form) -> (Duration, usize) {
    let config = support::config(&support::default_plugins(), &plugins::registry());
    let (mut engine, pods) = support::engine(EngineConfig { form, ..config }, nodes);
    let mut spent = Duration::ZERO;
    let mut decisions = 0;
    while spent < MEASURED {
        let pod = support::pod(pods + decisions as usize);
        support::apply(&mut engine, Change::Pod(Box::new(pod)));
        let start = Instant::now();
        let attempt = schedule(&mut engine);
        spent += start.elapsed();
        decisions += 1;
        take_off(&mut engine, &attempt);
    }
    (spent / decisions, pods)
}

fn schedule(engine: &mut Engine) -> Attempt {
    let mut ports = Ports { outside: &mut (), probe: &mut () };
    let attempt = engine.schedule_one(Time::ZERO, &mut ports).expect("a pod is ready");
    assert!(matches!(attempt.outcome, Outcome::Assumed(_)), "{:?}", attempt.outcome);
    attempt
}

fn take_off(engine: &mut Engine, attempt: &Attempt) {
    for effect in engine.take_effects() {
        let mut ports = Ports { outside: &mut (), probe: &mut () };
        engine.answer(effect.id, &Answer::ok(), Time::ZERO, &mut ports);
    }
    let (key, uid) = (attempt.pod.key.clone(), attempt.pod.uid.clone());
    support::apply(engine, Change::PodDeleted { key, uid });
}

/// A duration as text, in the unit that fits.
fn text(duration: Duration) -> String {
    match duration.as_nanos() {
        nanos if nanos < 10_000 => format!("{nanos} ns"),
        nanos if nanos < 10_000_000 => format!("{:.1} us", duration.as_secs_f64() * 1e6),
        _ => format!("{:.1} ms", duration.as_secs_f64() * 1e3),
    }
}
