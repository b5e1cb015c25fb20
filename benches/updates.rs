//! The cost of taking in changes of a large cluster: `cargo bench --bench updates`.
//!
//! 100,000 nodes in one zone with one pod each, and then 100,000 pods that fit nowhere. Objects are
//! decoded before the clock starts; each figure is the mean time of one change.

mod support;
#[path = "support/templates.rs"]
mod templates;

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::ports::Ports;
use engine::{Change, Engine, Input};
use framework::{Answer, Node, NodeImage, Pod, Time, api};

const NODES: usize = 100_000;
/// Changes of each kind.
const CHANGES: usize = 2_000;
/// Changes that concern every waiting pod.
const FEW: usize = 20;
const ZONE: &str = "topology.kubernetes.io/zone";
const POOL: &str = "example.com/pool";
const GPU: &str = "example.com/gpu";

fn main() {
    changes_of_objects();
    events_for_waiting_pods();
}

fn changes_of_objects() {
    let mut engine = new_engine();
    for number in 0..NODES {
        support::apply(&mut engine, Change::Node(node(number)));
        support::apply(&mut engine, placed(number, 1));
    }
    println!("{NODES} nodes in one zone, one pod each, time of one change:");
    let run = &mut |what: &str, changes: Vec<Change>| report(&mut engine, what, changes);
    let numbers = || (0..CHANGES).map(|number| number * (NODES / CHANGES));
    let nodes = |change: &dyn Fn(&mut Node, usize)| {
        let changed = |number| {
            let mut node = node(number);
            change(&mut node, number);
            Change::Node(node)
        };
        numbers().map(changed).collect::<Vec<_>>()
    };
    run("heartbeat of a node", nodes(&|_, _| ()));
    run("status of a placed pod", numbers().map(|number| placed(number, 2)).collect());
    let resize = |node: &mut Node, number| {
        node.images = node.images.iter().map(|image| resized(image, number)).collect();
    };
    run("other sizes of known images", nodes(&resize));
    run("label of a node, another value", nodes(&|node, _| set_label(node, POOL, "pool-x")));
    run("label of a node, the first value", nodes(&|_, _| ()));
    let unique = |node: &mut Node, number| set_label(node, &format!("job/{number}"), "");
    run("label of a node, a new key", nodes(&unique));
    run("label of a node, a key less", nodes(&|_, _| ()));
    let names = || numbers().map(|number| support::node_name(number).into());
    run("node removed", names().map(Change::NodeDeleted).collect());
    run("node added", nodes(&|_, _| ()));
    let every_fifth = (0..NODES).step_by(5).map(|number| with_gpus(number, 1)).collect();
    run("scalar of every fifth node, a first value", every_fifth);
    let others = |amount| numbers().map(move |number| with_gpus(number + 1, amount)).collect();
    run("scalar of a node, a value more", others(1));
    run("scalar of a node, a value less", others(0));
    run("pod deleted", numbers().map(|number| deleted(&pod(number))).collect());
}

fn events_for_waiting_pods() {
    let mut engine = new_engine();
    support::apply(&mut engine, Change::Node(node(0)));
    for number in 0..2 * CHANGES {
        support::apply(&mut engine, placed(number, 1));
    }
    let holder = Pod { node_name: Some(support::node_name(0).into()), ..with_port("holder") };
    support::apply(&mut engine, Change::Pod(Box::new(holder)));
    // One of the first pods is overdue at each of the times below, the others later.
    let parked_at = |number: usize| seconds(30 * number.min(FEW));
    for number in 0..NODES {
        park(&mut engine, without_node(number), parked_at(number));
    }
    println!("{NODES} unschedulable pods, time of one event:");
    let freed = |from| (from..from + CHANGES).map(|number| deleted(&pod(number))).collect();
    report(&mut engine, "pod deleted, no pod listens", freed(0));
    park(&mut engine, with_port("waiting"), parked_at(FEW));
    report(&mut engine, "pod deleted, one pod listens", freed(CHANGES));
    let relabelled = |number| {
        let mut node = node(0);
        set_label(&mut node, POOL, &format!("pool-{number}"));
        Change::Node(node)
    };
    let relabelled = (0..FEW).map(relabelled).collect();
    report(&mut engine, "label of a node, all pods listen, none is helped", relabelled);
    assert_eq!(engine.queue().counts().unschedulable, NODES + 1, "no event helps");
    let overdue = |number| parked_at(number) + Duration::from_secs(330);
    tick(&mut engine, overdue(FEW / 2));
    let times: Vec<Time> = (FEW / 2 + 1..FEW).map(overdue).collect();
    let mean = mean(times.len(), || times.iter().for_each(|now| tick(&mut engine, *now)));
    println!("  {:<50} {:>12}", "one pod overdue", text(mean));
    assert_eq!(engine.queue().counts().active, FEW, "one pod a time");
}

fn new_engine() -> Engine {
    let config = support::config(&support::default_plugins(), &plugins::registry());
    templates::engine(config, 0).0
}

/// The node of this number, in the only zone.
fn node(number: usize) -> Node {
    let mut node = support::node(number);
    set_label(&mut node, ZONE, "zone");
    node
}

fn set_label(node: &mut Node, key: &str, value: &str) {
    let old = node.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    node.labels = old.chain([(key.to_owned(), value.to_owned())]).collect();
}

fn resized(image: &NodeImage, number: usize) -> NodeImage {
    let more = i64::try_from(number).unwrap_or(0);
    NodeImage { size: image.size + 1 + more, names: image.names.clone() }
}

fn with_gpus(number: usize, amount: i64) -> Change {
    let mut node = node(number);
    node.allocatable.scalars = [(Arc::from(GPU), amount)].into();
    Change::Node(node)
}

fn pod(number: usize) -> Pod {
    templates::pod(number)
}

/// A pod on the node of its number.
fn placed(number: usize, version: u64) -> Change {
    let node_name = Some(support::node_name(number).into());
    Change::Pod(Box::new(Pod { node_name, resource_version: version, ..pod(number) }))
}

/// A pod for which no node has the label.
fn without_node(number: usize) -> Pod {
    unassigned(&format!("waiting-{number}"), |spec| {
        spec.node_selector = Some([("disk".to_owned(), "none".to_owned())].into());
    })
}

/// A pod with a host port.
fn with_port(name: &str) -> Pod {
    unassigned(name, |spec| {
        let port = api::ContainerPort { host_port: 80, ..api::ContainerPort::default() };
        spec.containers.push(api::Container { ports: vec![port], ..api::Container::default() });
    })
}

fn unassigned(name: &str, change: impl FnOnce(&mut api::PodSpec)) -> Pod {
    let mut pod = api::Pod::default();
    pod.metadata.name = name.to_owned();
    pod.metadata.namespace = "team".to_owned();
    pod.metadata.uid = name.to_owned();
    pod.spec.scheduler_name = "default-scheduler".to_owned();
    change(&mut pod.spec);
    Pod::from_api(&pod)
}

fn seconds(number: usize) -> Time {
    Time::from_secs(i64::try_from(number).unwrap_or(0))
}

fn deleted(pod: &Pod) -> Change {
    Change::PodDeleted { key: pod.key.clone(), uid: pod.uid.clone() }
}

/// Has a pod rejected at a time.
fn park(engine: &mut Engine, pod: Pod, now: Time) {
    let mut ports = Ports { extenders: &mut (), probe: &mut () };
    engine.step(Input::Change(Change::Pod(Box::new(pod))), now, &mut ports);
    engine.step(Input::Schedule, now, &mut ports).attempt().expect("a pod is ready");
    for effect in engine.take_effects() {
        engine.step(Input::Answer { effect: effect.id, answer: Answer::ok() }, now, &mut ports);
    }
}

fn tick(engine: &mut Engine, now: Time) {
    engine.step(Input::Tick, now, &mut Ports { extenders: &mut (), probe: &mut () });
}

fn report(engine: &mut Engine, what: &str, changes: Vec<Change>) {
    let count = changes.len();
    let mean =
        mean(count, || changes.into_iter().for_each(|change| support::apply(engine, change)));
    engine.take_effects();
    println!("  {what:<50} {:>12}", text(mean));
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn mean(count: usize, run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed() / u32::try_from(count).unwrap_or(u32::MAX)
}

fn text(duration: Duration) -> String {
    match duration.as_nanos() {
        nanos if nanos < 10_000 => format!("{nanos} ns"),
        nanos if nanos < 10_000_000 => format!("{:.1} us", duration.as_secs_f64() * 1e6),
        _ => format!("{:.1} ms", duration.as_secs_f64() * 1e3),
    }
}
