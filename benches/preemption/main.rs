//! The cost of one preemption: `cargo bench --bench preemption [-- NODES... SHAPES...]`.
//!
//! The default profile; nodes of ten kinds, each full with ten pods of low priority; preemptors
//! that each need the room of one pod. An attempt is everything from the queue to the emitted
//! eviction: the Filter pass that finds no node, the dry runs, the choice. The share of PostFilter
//! is reported separately. The shapes are those of [`Shape`]. After each attempt the preemptor
//! takes the room of its victim, and then the initial state is restored, so that all attempts see
//! the same cluster.

#[path = "../support/object.rs"]
mod object;
#[path = "../support/storage.rs"]
mod storage;
#[path = "../support/mod.rs"]
mod support;
mod workload;

use std::time::{Duration, Instant};

use engine::ports::{Point, Ports, Probe, Span};
use engine::{Change, EffectKind, Engine, Eviction, Input, Outcome};
use framework::{Answer, Code, ExtensionPoint, Pod, Time};

use workload::{Shape, Workload};

/// Minimum duration of the measurement of a row.
const MEASURED: Duration = Duration::from_millis(500);
/// Number of attempts before the measurement.
const WARM_UP: usize = 5;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let sizes: Vec<usize> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![500, 5_000, 20_000] } else { sizes };
    let named = |shape: &Shape| args.iter().any(|arg| arg == shape.name);
    let any_named = Shape::ALL.iter().any(named);
    println!(
        "{:>10} {:>7} {:>8} {:>9} {:>12} {:>12}",
        "shape", "nodes", "pods", "attempts", "attempt", "PostFilter"
    );
    for shape in Shape::ALL.into_iter().filter(|shape| !any_named || named(shape)) {
        for nodes in sizes.iter().copied() {
            print_row(&Workload { shape, nodes });
        }
    }
}

fn print_row(workload: &Workload) {
    let config = support::config(&support::default_plugins(), &plugins::registry());
    let mut engine = workload.engine(config);
    let mut measured: Vec<Cost> = Vec::new();
    let mut spent = Duration::ZERO;
    for number in 0.. {
        let cost = preemption(&mut engine, workload, number);
        if number >= WARM_UP {
            spent += cost.attempt;
            measured.push(cost);
        }
        if spent >= MEASURED {
            break;
        }
    }
    println!(
        "{:>10} {:>7} {:>8} {:>9} {:>9.1} us {:>9.1} us",
        workload.shape.name,
        workload.nodes,
        workload.pods(),
        measured.len(),
        median_micros(measured.iter().map(|cost| cost.attempt)),
        median_micros(measured.iter().map(|cost| cost.post_filter)),
    );
}

fn median_micros(durations: impl Iterator<Item = Duration>) -> f64 {
    let mut durations: Vec<Duration> = durations.collect();
    durations.sort_unstable();
    durations[durations.len() / 2].as_secs_f64() * 1e6
}

/// Durations of an attempt.
struct Cost {
    attempt: Duration,
    /// The share of PostFilter.
    post_filter: Duration,
}

/// Runs an attempt that ends in a preemption, and restores the cluster. In between the preemptor is
/// bound: preemptions that lead to no binding would be paused.
fn preemption(engine: &mut Engine, workload: &Workload, number: usize) -> Cost {
    let preemptor = workload.preemptor(number);
    workload.equip(&preemptor, engine);
    support::apply(engine, Change::Pod(Box::new(preemptor.clone())));
    let cost = attempt(engine);
    let victim = carry_out_eviction(engine);
    support::apply(engine, gone(&victim));
    let bound = Pod { node_name: victim.node_name.clone(), ..preemptor };
    support::apply(engine, Change::Pod(Box::new(bound.clone())));
    support::apply(engine, gone(&bound));
    workload.budget_of(&victim).into_iter().for_each(|budget| support::apply(engine, budget));
    support::apply(engine, Change::Pod(Box::new(victim)));
    engine.take_effects();
    cost
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn attempt(engine: &mut Engine) -> Cost {
    let mut stopwatch = Stopwatch { started: Instant::now(), post_filter: Duration::ZERO };
    let start = Instant::now();
    let mut ports = Ports { extenders: &mut (), probe: &mut stopwatch };
    let attempt =
        engine.step(Input::Schedule, Time::ZERO, &mut ports).attempt().expect("a pod is ready");
    let cost = Cost { attempt: start.elapsed(), post_filter: stopwatch.post_filter };
    assert!(matches!(attempt.outcome, Outcome::Unschedulable(_)), "{:?}", attempt.outcome);
    cost
}

/// Answers the only eviction; returns the victim.
fn carry_out_eviction(engine: &mut Engine) -> Pod {
    let effects = engine.take_effects().into_iter();
    let mut evictions = effects.filter_map(|effect| match effect.kind {
        EffectKind::Evict(Eviction { uid, .. }) => Some((effect.id, uid)),
        _ => None,
    });
    let (effect, victim) = evictions.next().expect("a pod is evicted");
    assert!(evictions.next().is_none(), "more than one pod is evicted");
    let victim = engine.world().placed(&victim).expect("the victim has a node").pod.clone();
    engine.step(
        Input::Answer { effect, answer: Answer::ok() },
        Time::ZERO,
        &mut Ports { extenders: &mut (), probe: &mut () },
    );
    Pod::clone(&victim)
}

fn gone(pod: &Pod) -> Change {
    Change::PodDeleted { key: pod.key.clone(), uid: pod.uid.clone() }
}

/// Measures PostFilter.
struct Stopwatch {
    started: Instant,
    post_filter: Duration,
}

const fn is_post_filter(span: &Span<'_>) -> bool {
    matches!(span, Span::Point(Point::Extension(ExtensionPoint::PostFilter), _))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
impl Probe for Stopwatch {
    fn start(&mut self, span: Span<'_>) {
        if is_post_filter(&span) {
            self.started = Instant::now();
        }
    }

    fn stop(&mut self, span: Span<'_>, _code: Code) {
        if is_post_filter(&span) {
            self.post_filter += self.started.elapsed();
        }
    }
}
