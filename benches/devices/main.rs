//! The cost of one decision for pods with claims of devices:
//! `cargo bench --bench devices [-- NODES... SHAPES...]`.
//!
//! The default profile, nodes of ten kinds, 60 % full, each with a slice of eight devices, of which
//! a share is allocated. A decision is everything from the queue to the first request: a Binding,
//! or the write of an allocation. Then the allocation is carried out, the pod is bound and removed,
//! and its claim deleted. So the devices of one node differ from the last decision. The shapes are
//! those of [`Shape`]. Without names of shapes, the time to evaluate selectors follows.

#[path = "../support/object.rs"]
mod object;
mod selectors;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/templates.rs"]
mod templates;
#[path = "../support/text.rs"]
mod text;
mod workload;

use std::time::{Duration, Instant};

use engine::ports::Ports;
use engine::{Change, EffectKind, Engine, EngineConfig, Input, Outcome};
use framework::{Answer, EventResource, ObjectKey, Pod, Time};
use serde_json::Value;

use text::text;
use workload::{Shape, Workload};

/// Minimum duration of the measurement of a row.
const MEASURED: Duration = Duration::from_millis(300);
/// Time of the engine between decisions.
const PAUSE: Duration = Duration::from_secs(1);
/// Number of decisions before the measurement.
const WARM_UP: usize = 10;
/// The shares of allocated devices, in percent.
const ALLOCATED: [usize; 3] = [10, 50, 95];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let sizes: Vec<usize> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![5_000] } else { sizes };
    let named = |shape: &Shape| args.iter().any(|arg| arg == shape.name);
    let any_named = Shape::ALL.iter().any(named);
    println!(
        "{:>16} {:>6} {:>9} {:>11} {:>11} {:>11} {:>11}",
        "shape", "nodes", "allocated", "decision", "first", "longest", "change"
    );
    for nodes in sizes {
        for shape in Shape::ALL.into_iter().filter(|shape| !any_named || named(shape)) {
            for allocated in ALLOCATED {
                print_row(&Workload { shape, nodes, allocated });
            }
        }
    }
    if !any_named {
        selectors::print();
    }
}

fn print_row(workload: &Workload) {
    let mut engine = workload.engine(config(workload.shape));
    let mut numbers = 0..;
    for number in numbers.by_ref().take(workload.shape.in_flight) {
        let (pod, claim) = workload.pod(number);
        decision(&mut engine, pod, claim.as_ref(), Time::ZERO);
        engine.take_effects();
    }
    let (mut decisions, mut changes) = (Vec::new(), Vec::new());
    let mut spent = Duration::ZERO;
    let mut first = None;
    let mut now = Time::ZERO;
    for (measured, number) in numbers.enumerate() {
        let (pod, claim) = workload.pod(number);
        now = now + PAUSE;
        let took = decision(&mut engine, pod.clone(), claim.as_ref(), now);
        let change = carry_out(&mut engine, &pod, claim);
        first.get_or_insert(took);
        if measured >= WARM_UP {
            decisions.push(took);
            changes.push(change);
            spent += took;
        }
        if spent >= MEASURED {
            break;
        }
    }
    let longest = decisions.iter().max().copied().unwrap_or_default();
    println!(
        "{:>16} {:>6} {:>7} % {:>11} {:>11} {:>11} {:>11}",
        workload.shape.name,
        workload.nodes,
        workload.allocated,
        text(median(decisions)),
        text(first.unwrap_or_default()),
        text(longest),
        text(median(changes)),
    );
}

fn config(shape: Shape) -> EngineConfig {
    let mut plugins = support::default_plugins();
    if !shape.has_plugin {
        plugins.retain(|plugin| *plugin.name != *plugins::dynamic_resources::NAME);
    }
    support::config(&plugins, &plugins::registry())
}

fn median(mut durations: Vec<Duration>) -> Duration {
    durations.sort_unstable();
    durations[durations.len() / 2]
}

/// Returns the time of the decision for a pod.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn decision(engine: &mut Engine, pod: Pod, claim: Option<&Value>, now: Time) -> Duration {
    if let Some(claim) = claim {
        support::apply(engine, change(claim));
    }
    support::apply(engine, Change::Pod(Box::new(pod)));
    let start = Instant::now();
    let mut ports = Ports { extenders: &mut (), probe: &mut () };
    let attempt = engine.step(Input::Schedule, now, &mut ports).attempt().expect("a pod is ready");
    let took = start.elapsed();
    match attempt.outcome {
        Outcome::Assumed(_) => {}
        // The searches took too many steps.
        Outcome::Error(text) if text.contains("timed out") => {}
        other => panic!("{other:?}"),
    }
    took
}

/// Carries out the allocation and the binding, then removes pod and claim. Returns the time to take
/// in the allocated claim.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn carry_out(engine: &mut Engine, pod: &Pod, mut claim: Option<Value>) -> Duration {
    let mut took = Duration::ZERO;
    loop {
        let effects = engine.take_effects();
        if effects.is_empty() {
            break;
        }
        for effect in effects {
            let answer = match (&effect.kind, &mut claim) {
                (EffectKind::Write(write), Some(claim)) => {
                    claim["status"] = write.body()["status"].clone();
                    let version: u64 = version(claim).parse().expect("a number");
                    claim["metadata"]["resourceVersion"] = (version + 1).to_string().into();
                    let start = Instant::now();
                    support::apply(engine, change(claim));
                    took = start.elapsed();
                    Answer::Ok(Some(claim.clone()))
                }
                _ => Answer::ok(),
            };
            let mut ports = Ports { extenders: &mut (), probe: &mut () };
            engine.step(
                Input::Answer { effect: effect.id, answer: answer.clone() },
                Time::ZERO,
                &mut ports,
            );
        }
    }
    let (key, uid) = (pod.key.clone(), pod.uid.clone());
    support::apply(engine, Change::PodDeleted { key, uid });
    if let Some(claim) = claim {
        support::apply(engine, Change::ObjectDeleted(key_of(&claim)));
    }
    engine.take_effects();
    took
}

fn version(claim: &Value) -> &str {
    claim["metadata"]["resourceVersion"].as_str().expect("a version")
}

/// Returns the claim as the watch shows it.
fn change(claim: &Value) -> Change {
    Change::decode(key_of(claim), Some(claim.clone())).expect("the claim decodes")
}

fn key_of(claim: &Value) -> ObjectKey {
    let text = |field: &str| claim["metadata"][field].as_str().expect("a text").into();
    ObjectKey::namespaced(EventResource::ResourceClaim, text("namespace"), text("name"))
}
