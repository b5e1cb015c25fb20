//! What is counted.

use std::hint::black_box;

use engine::ports::Ports;
use engine::{Change, Engine, EngineConfig, Input};
use framework::{Pod, Time};

use crate::support;
use crate::support::apply;
use crate::templates;
use crate::workload::{Shape, Workload};

/// Number of nodes of each cluster.
const NODES: usize = 400;
/// Number of templates of [`templates::pod`].
const TEMPLATES: usize = 8;
/// Pods of a template before its later pods are counted.
const WARM_UP: usize = 3;

/// Makes so many decisions about pods that are ready. Callgrind counts only inside this function.
#[inline(never)]
pub(crate) fn counted(engine: &mut Engine, decisions: usize) {
    let mut ports = Ports { extenders: &mut (), probe: &mut () };
    for _ in 0..decisions {
        black_box(engine.step(Input::Schedule, Time::ZERO, &mut ports).attempt());
    }
    end();
}

/// Callgrind writes a part of its output when this is called.
#[inline(never)]
fn end() {
    black_box(());
}

/// Runs the scenarios. Prints a line for each, in the order in which they are counted: the number
/// of decisions and the name.
pub(crate) fn run() {
    basic();
    rejected();
    for shape in Shape::ALL {
        shaped(shape);
    }
}

fn config() -> EngineConfig {
    support::config(&support::default_plugins(), &plugins::registry())
}

/// Decides about pods, and counts the instructions of that.
fn count(name: &str, engine: &mut Engine, pods: impl IntoIterator<Item = Pod>) {
    let decisions = decide(engine, pods, counted);
    println!("{decisions} {name}");
}

/// Decides about pods without counting.
fn warm_up(engine: &mut Engine, pods: impl IntoIterator<Item = Pod>) {
    decide(engine, pods, |engine, decisions| {
        let mut ports = Ports { extenders: &mut (), probe: &mut () };
        for _ in 0..decisions {
            engine.step(Input::Schedule, Time::ZERO, &mut ports).attempt().expect("a pod is ready");
        }
    });
}

fn decide(
    engine: &mut Engine,
    pods: impl IntoIterator<Item = Pod>,
    decide: impl FnOnce(&mut Engine, usize),
) -> usize {
    let mut decisions = 0;
    for pod in pods {
        apply(engine, Change::Pod(Box::new(pod)));
        decisions += 1;
    }
    decide(engine, decisions);
    engine.take_effects();
    decisions
}

/// Eight templates without constraints, interleaved.
fn basic() {
    let (mut engine, pods) = templates::engine(config(), NODES);
    let mut next = pods.next_multiple_of(TEMPLATES);
    let mut pods = |number: usize| {
        let first = next;
        next += number;
        (first..next).map(templates::pod)
    };
    count("basic, first pods of classes", &mut engine, pods(TEMPLATES));
    warm_up(&mut engine, pods((WARM_UP - 1) * TEMPLATES));
    count("basic, later pods", &mut engine, pods(16 * TEMPLATES));
    let added = pods(100).enumerate().map(|(number, pod)| {
        let node = support::node_name(number * 7 % NODES);
        Pod { node_name: Some(node.into()), ..pod }
    });
    let added: Vec<Pod> = added.collect();
    added.into_iter().for_each(|pod| apply(&mut engine, Change::Pod(Box::new(pod))));
    count("basic, later pods after changes of 100 nodes", &mut engine, pods(TEMPLATES));
}

/// Pods that fit nowhere: one of each template, then those of the first one.
fn rejected() {
    let (mut engine, pods) = templates::engine(config(), NODES);
    let huge = |number: usize| {
        let pod = templates::pod(pods + number);
        let mut requests = (*pod.requests).clone();
        requests.fit.milli_cpu = 1_000_000;
        Pod { requests: requests.into(), ..pod }
    };
    let firsts: Vec<Pod> = (0..TEMPLATES).map(huge).collect();
    // Numbers of one template.
    let mut numbers = (TEMPLATES..).step_by(TEMPLATES);
    let mut some = |count: usize| numbers.by_ref().take(count).map(huge).collect::<Vec<Pod>>();
    count("rejected, first pods of classes", &mut engine, firsts);
    warm_up(&mut engine, some(WARM_UP));
    count("rejected, later pods", &mut engine, some(16));
    for node in 0..10 {
        let number = pods + 1_000_000 + node;
        let node_name = Some(support::node_name(node * 37).into());
        apply(&mut engine, Change::Pod(Box::new(Pod { node_name, ..templates::pod(number) })));
    }
    count("rejected, later pod after changes of 10 nodes", &mut engine, some(1));
}

/// Applications with constraints, interleaved.
fn shaped(shape: Shape) {
    let workload = Workload { shape, applications: 12, nodes: NODES, pods_per_node: 4 };
    let (mut engine, name) = (workload.engine(config()), shape.name());
    let pods = |from: usize, to: usize| {
        (from * workload.applications..to * workload.applications).map(|n| workload.pod(n))
    };
    count(&format!("{name}, first pods of classes"), &mut engine, pods(0, 1));
    warm_up(&mut engine, pods(1, WARM_UP));
    count(&format!("{name}, later pods"), &mut engine, pods(WARM_UP, WARM_UP + 4));
}
