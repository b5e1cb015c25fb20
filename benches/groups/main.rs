//! The cost of PodGroups: `cargo bench --bench groups [-- ROWS...]`.
//!
//! The default profile with the gates of groups; nodes of ten kinds. Each row is measured within
//! one run.
//!
//! * `gang` decides about equal pods one by one and as a gang, without constraint, and with
//!   anti-affinity by host.
//! * `rack` decides about a gang that has to be in one rack, by one level of a topology or three.
//! * `waiting` decides about plain pods while gangs wait that fit nowhere.
//! * `preemption` decides about a gang that needs the room of others.

#[path = "../support/object.rs"]
mod object;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/templates.rs"]
mod templates;
#[path = "../support/text.rs"]
mod text;
mod workload;

use std::time::{Duration, Instant};

use engine::ports::Ports;
use engine::{Change, Engine, Input, Outcome};
use framework::{Answer, Node, Pod, Time};

use text::text;
use workload::{Gang, full_engine, gang_config};

/// Number of gangs that are decided one after the other for a row, after the first.
const GANGS: usize = 9;
/// Number of pods that are decided one by one for a row, and of those before the measurement.
const PODS: usize = 2_000;
const WARM_UP: usize = 16;
const NODES_PER_RACK: usize = 50;
const THREE_LEVELS: &str =
    "example.com/row required, example.com/block preferred, example.com/rack preferred";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rows = [
        ("gang", print_gangs as fn()),
        ("rack", print_racks),
        ("waiting", print_waiting),
        ("preemption", print_preemption),
    ];
    let any_named = rows.iter().any(|(name, _)| args.iter().any(|arg| arg == name));
    for (name, print) in rows {
        if !any_named || args.iter().any(|arg| arg == name) {
            print();
        }
    }
}

fn print_gangs() {
    let (nodes, members) = (5_000, 1_000);
    println!(
        "{:>12} {:>8} {:>8} {:>12} {:>12} {:>7}",
        "gang", "nodes", "members", "one by one", "a member", "ratio"
    );
    for (name, apart) in [("plain", false), ("anti-affine", true)] {
        let gang = Gang { members, apart, ..Gang::default() };
        let (mut engine, _) = templates::engine(gang_config(), nodes);
        let together = cycle(&mut engine, gang) / members as u32;
        let (mut engine, _) = templates::engine(gang_config(), nodes);
        let alone = one_by_one(&mut engine, |number| gang.lone_pod(number));
        println!(
            "{name:>12} {nodes:>8} {members:>8} {:>12} {:>12} {:>6.2}x",
            text(alone),
            text(together),
            together.as_secs_f64() / alone.as_secs_f64(),
        );
    }
}

fn print_racks() {
    println!(
        "\n{:>12} {:>8} {:>8} {:>8} {:>12} {:>12}",
        "rack", "nodes", "racks", "members", "a gang", "three levels"
    );
    for racks in [200, 2_000] {
        let nodes = racks * NODES_PER_RACK;
        let (mut engine, _) = templates::engine(gang_config(), nodes);
        (0..nodes).for_each(|number| support::apply(&mut engine, Change::Node(racked(number))));
        let took = ["example.com/rack required", THREE_LEVELS]
            .map(|levels| cycle(&mut engine, Gang { members: 64, levels, ..Gang::default() }));
        let [one, three] = took.map(text);
        println!("{:>12} {nodes:>8} {racks:>8} {:>8} {one:>12} {three:>12}", "", 64);
    }
}

/// Returns the node with this number, with the labels of three levels.
fn racked(number: usize) -> Node {
    let mut node = support::node(number);
    let own = node.labels.iter().filter(|(key, _)| *key != "example.com/rack");
    let own = own.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let racks = [("row", 100), ("block", 10), ("rack", 1)].map(|(level, racks)| {
        let value = format!("{level}-{}", number / (racks * NODES_PER_RACK));
        (format!("example.com/{level}"), value)
    });
    node.labels = own.chain(racks).collect();
    node
}

fn print_waiting() {
    let (nodes, waiting) = (5_000, 1_000);
    println!("\n{:>12} {:>8} {:>8} {:>12}", "waiting", "nodes", "gangs", "a plain pod");
    for waiting in [0, waiting] {
        let (mut engine, pods) = templates::engine(gang_config(), nodes);
        let gang = Gang { members: 8, milli_cpu: 1_000_000, ..Gang::default() };
        for number in 0..waiting {
            gang.create(&mut engine, number);
            schedule(&mut engine);
            answer_all(&mut engine);
        }
        let took = one_by_one(&mut engine, |number| templates::pod(pods + number));
        println!("{:>12} {nodes:>8} {waiting:>8} {:>12}", "", text(took));
    }
}

fn print_preemption() {
    println!("\n{:>12} {:>8} {:>8} {:>12}", "preemption", "nodes", "members", "a gang");
    for nodes in [500, 5_000] {
        let gang = Gang { members: 16, milli_cpu: 1_600, priority: 10, ..Gang::default() };
        let mut engine = full_engine(nodes);
        let took = cycle(&mut engine, gang);
        println!("{:>12} {nodes:>8} {:>8} {:>12}", "", gang.members, text(took));
    }
}

/// Returns the median time of a decision about a pod. Each pod is removed before the next one.
fn one_by_one(engine: &mut Engine, pod: impl Fn(usize) -> Pod) -> Duration {
    let decisions = (0..WARM_UP + PODS).map(|number| {
        let pod = pod(number);
        let gone = gone(&pod);
        support::apply(engine, Change::Pod(Box::new(pod)));
        let took = schedule(engine);
        answer_all(engine);
        support::apply(engine, gone);
        answer_all(engine);
        took
    });
    median(decisions.skip(WARM_UP).collect())
}

fn median(mut decisions: Vec<Duration>) -> Duration {
    decisions.sort_unstable();
    decisions[decisions.len() / 2]
}

/// Returns the median time of a decision about a gang, without the first. Each gang is removed
/// before the next one.
fn cycle(engine: &mut Engine, gang: Gang) -> Duration {
    let decisions = (0..=GANGS)
        .map(|number| {
            gang.create(engine, number);
            let took = schedule(engine);
            answer_all(engine);
            gang.delete(engine, number);
            answer_all(engine);
            took
        })
        .skip(1)
        .collect();
    median(decisions)
}

/// Runs an attempt, and returns its time.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn schedule(engine: &mut Engine) -> Duration {
    let mut ports = Ports { extenders: &mut (), probe: &mut () };
    let start = Instant::now();
    let step = engine.step(Input::Schedule, Time::ZERO, &mut ports);
    let took = start.elapsed();
    let attempt = step.attempt().expect("a gang is ready");
    assert!(!matches!(attempt.outcome, Outcome::Skipped), "{:?}", attempt.outcome);
    took
}

/// Answers all requests of the engine.
fn answer_all(engine: &mut Engine) {
    for effect in engine.take_effects() {
        let mut ports = Ports { extenders: &mut (), probe: &mut () };
        let input = Input::Answer { effect: effect.id, answer: Answer::ok() };
        engine.step(input, Time::ZERO, &mut ports);
    }
    engine.take_effects();
}

fn gone(pod: &Pod) -> Change {
    Change::PodDeleted { key: pod.key.clone(), uid: pod.uid.clone() }
}
