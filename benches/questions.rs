//! Questions to a scheduler that goes on deciding: `cargo bench --bench questions [-- NODES]`.
//!
//! One thread decides without a pause, as the scheduling loop under load, and copies the cluster in
//! slices between decisions. Another one asks: why a pod that fits nowhere waits and what would
//! help, with a new engine and with one that is kept, and what a list of 1,000 pods and a drain
//! would do. The cluster is 60 % full.
//!
//! Times are CPU times of the thread at work, so that other work of the machine counts little.
//! Slices are too short for that and are measured by the clock; the time of a copy is that of its
//! middle slice times their number. A slice in which the thread lost its core measures the machine
//! and is counted apart. A what-if runs the cluster without the change on a second thread, whose
//! time is not counted.

mod support;
#[path = "support/templates.rs"]
mod templates;
#[path = "support/text.rs"]
mod text;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use engine::ports::Ports;
use engine::{Change, EffectKind, Engine, Input};
use explain::{ClusterCopy, CopiedNodes, Follower, Lab, PodFacts, explain_pod, facts};
use framework::{Answer, Controller, ControllerKind, Pod, PodKey, Time};
use loadmaster::config::{self, Gates};
use loadmaster::what_if::{Options, Trial};
use serde_json::json;
use text::text;

const NODES: usize = 5_000;
/// Number of pods in a change.
const PODS: usize = 1_000;
/// Number of questions to the kept engine.
const QUESTIONS: usize = 20;
/// Pods of a batch of decisions, which end when the next one is over.
const BATCH: usize = 256;

/// What the deciding thread answers.
struct Copied {
    cluster: ClusterCopy,
    facts: PodFacts,
    /// Sum of its slices.
    took: Duration,
    /// Each slice.
    slices: Vec<Slice>,
}

/// The time of a slice, and whether the thread kept its core all the time.
type Slice = (Duration, bool);

#[expect(clippy::disallowed_methods, reason = "a benchmark has a thread that decides")]
fn main() {
    let nodes = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(NODES);
    let (mut engine, pods) = templates::engine(engine_config(), nodes);
    let waiting = Pod { key: key(), uid: "waits".into(), ..sized("waits", "400") };
    support::apply(&mut engine, Change::Pod(Box::new(waiting)));
    let drained = (PODS * nodes / pods.max(1)).max(1);
    (0..drained).for_each(|number| give_controllers(&mut engine, number));
    println!("{nodes} nodes, {pods} pods");
    let (ask, asked) = channel();
    let deciding = thread::spawn(move || decide(engine, pods, &asked));
    question(&ask, drained);
    drop(ask);
    let rates = deciding.join().expect("the deciding thread ends");
    println!(
        "decisions a second: {:.0} while nobody asks, {:.0} while somebody does",
        rates.alone, rates.asked
    );
}

/// Decisions a second, while questions are worked on and otherwise.
struct Rates {
    alone: f64,
    asked: f64,
}

/// A question to the deciding thread: for a copy, or about the rate until now.
enum Request {
    Copy(Option<Arc<CopiedNodes>>, Sender<Copied>),
    /// A phase begins, with questions or without.
    Phase(bool),
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn decide(mut engine: Engine, pods: usize, asked: &Receiver<Request>) -> Rates {
    let mut counts = [(0_usize, Duration::ZERO); 2];
    let (mut phase, mut since) = (0, Instant::now());
    let mut copy: Option<(ClusterCopy, Vec<Slice>, Sender<Copied>)> = None;
    let mut placed: Vec<Arc<Pod>> = Vec::new();
    for number in pods.. {
        match asked.try_recv() {
            Ok(Request::Copy(base, receiver)) => {
                let started = base.map_or_else(ClusterCopy::default, ClusterCopy::since);
                copy = Some((started, Vec::new(), receiver));
            }
            Ok(Request::Phase(is_asked)) => {
                counts[phase].1 += since.elapsed();
                (phase, since) = (usize::from(is_asked), Instant::now());
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => break,
        }
        support::apply(&mut engine, Change::Pod(Box::new(templates::pod(number))));
        placed.extend(bound(&mut engine));
        counts[phase].0 += 1;
        if placed.len() == BATCH {
            for pod in placed.drain(..BATCH / 2) {
                let (key, uid) = (pod.key.clone(), pod.uid.clone());
                support::apply(&mut engine, Change::PodDeleted { key, uid });
            }
        }
        let Some((cluster, slices, _)) = &mut copy else { continue };
        let before = switches();
        let start = Instant::now();
        let is_complete = cluster.advance(&engine, Time::ZERO);
        let took = start.elapsed();
        slices.push((took, switches() == before));
        if is_complete && let Some((cluster, slices, receiver)) = copy.take() {
            let facts = facts(&engine, &key(), Time::ZERO).expect("the pod waits");
            let took = total(&mut slices.clone());
            let _ = receiver.send(Copied { cluster, facts, took, slices });
        }
    }
    let rate = |(count, time): (usize, Duration)| count as f64 / time.as_secs_f64().max(1e-9);
    counts[phase].1 += since.elapsed();
    Rates { alone: rate(counts[0]), asked: rate(counts[1]) }
}

/// Returns the time of all slices, if all were like the middle one.
fn total(slices: &mut [Slice]) -> Duration {
    slices.sort_unstable();
    slices[slices.len() / 2].0 * slices.len() as u32
}

/// Returns how often this thread has lost its core to another one.
fn switches() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Decides about a pod, and shows it bound.
fn bound(engine: &mut Engine) -> Option<Arc<Pod>> {
    let ports = &mut Ports { extenders: &mut (), probe: &mut () };
    while engine.step(Input::Schedule, Time::ZERO, ports).attempt().is_some() {
        let mut found = None;
        for effect in engine.take_effects() {
            if let EffectKind::Bind { binding, .. } = &effect.kind {
                found = engine.world().placed(&binding.uid).map(|placed| placed.pod.clone());
            }
            engine.step(
                Input::Answer { effect: effect.id, answer: Answer::ok() },
                Time::ZERO,
                ports,
            );
        }
        if let Some(pod) = found {
            engine.step(Input::Change(Change::Pod(Box::new(Pod::clone(&pod)))), Time::ZERO, ports);
            engine.take_effects();
            return Some(pod);
        }
    }
    None
}

#[expect(clippy::disallowed_methods, reason = "a benchmark waits")]
fn question(ask: &Sender<Request>, drained: usize) {
    thread::sleep(Duration::from_secs(3));
    let _ = ask.send(Request::Phase(true));
    let copied = |base: Option<Arc<CopiedNodes>>| -> Copied {
        let (sender, receiver) = channel();
        let _ = ask.send(Request::Copy(base, sender));
        receiver.recv().expect("a copy")
    };
    let before = resident_bytes();
    let mut follower = Follower::new(engine_config());
    let mut rows = Vec::new();
    let mut slices = Vec::new();
    for number in 0..=QUESTIONS {
        let copy = copied((number > 0).then(|| follower.known().clone()));
        slices.extend(copy.slices);
        let start = cpu_time();
        let changed = follower.follow(copy.cluster, Time::ZERO).expect("its own copy");
        let followed = cpu_time() - start;
        let start = cpu_time();
        let mut lab = Lab::new(follower.engine(), Time::ZERO, &|| false);
        let answer = explain_pod(&mut lab, copy.facts, None).expect("the pod waits");
        assert!(!answer.help.is_empty(), "something helps");
        rows.push((copy.took, changed, followed, cpu_time() - start));
    }
    println!(
        "\n{:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "explain", "copy", "changed", "engine", "answer", "all"
    );
    let warm = &mut rows[1..];
    warm.sort_unstable_by_key(|(copy, _, follow, answer)| *copy + *follow + *answer);
    let (middle, last) = (warm[warm.len() / 2], warm[warm.len() - 1]);
    for (name, (copy, changed, follow, answer)) in
        [("new", rows[0]), ("kept", middle), ("slowest", last)]
    {
        println!(
            "{name:>10} {:>10} {changed:>10} {:>10} {:>10} {:>10}",
            text(copy),
            text(follow),
            text(answer),
            text(copy + follow + answer)
        );
    }
    let kept = (resident_bytes() - before) / 1_000_000;
    println!("kept engine: {kept} MB");
    drop(follower);
    println!("\n{:>10} {:>10} {:>10} {:>10}", "what if", "copy", "answer", "all");
    for (name, change) in [("pods", list_of_pods()), ("drain", drain(drained))] {
        let copy = copied(None);
        let start = cpu_time();
        let change = Trial::read(change).expect("the change is in order");
        let options = Options::default();
        let answer = trial().answer(copy.cluster, &change, options).expect("an answer");
        let took = cpu_time() - start;
        assert!(answer.summary.placed + answer.summary.moved > 0, "{:?}", answer.summary);
        println!(
            "{name:>10} {:>10} {:>10} {:>10}   {} placed, {} moved",
            text(copy.took),
            text(took),
            text(copy.took + took),
            answer.summary.placed,
            answer.summary.moved
        );
        slices.extend(copy.slices);
    }
    for (name, kept) in [("undisturbed", true), ("interrupted", false)] {
        let mut own: Vec<_> =
            slices.iter().filter(|slice| slice.1 == kept).map(|own| own.0).collect();
        own.sort_unstable();
        let at = |share: f64| own.get((own.len().saturating_sub(1) as f64 * share) as usize);
        let at = |share: f64| at(share).map_or_else(String::new, |time| text(*time));
        let (middle, high, longest) = (at(0.5), at(0.999), at(1.0));
        println!("{} {name} slices: median {middle}, 99.9 % {high}, longest {longest}", own.len());
    }
    let _ = ask.send(Request::Phase(false));
}

fn key() -> PodKey {
    PodKey::new("default", "waits")
}

/// Returns a pod that requests this many cores.
fn sized(name: &str, cpu: &str) -> Pod {
    Pod::from_api(&serde_json::from_value(pod_object(name, cpu)).expect("a pod"))
}

fn pod_object(name: &str, cpu: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "new"}},
        "spec": {"schedulerName": "default-scheduler", "containers": [{
            "name": "main", "image": "registry.example.com/new:v1",
            "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}},
        }]},
    })
}

fn list_of_pods() -> String {
    let items: Vec<_> =
        (0..PODS).map(|number| pod_object(&format!("new-{number}"), "500m")).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// Returns a change that drains the first nodes.
fn drain(nodes: usize) -> String {
    let names: Vec<_> = (0..nodes).map(support::node_name).collect();
    json!({"apiVersion": "whatif.loadmaster.io/v1", "kind": "Changes", "drain": names}).to_string()
}

/// Gives the pods of a node a controller, which makes them again.
fn give_controllers(engine: &mut Engine, number: usize) {
    let cluster = engine.cluster();
    let node = cluster.node_named(&support::node_name(number)).expect("the node exists");
    let pods: Vec<Arc<Pod>> = cluster.node(node).pods().cloned().collect();
    let controller = Arc::new(Controller { kind: ControllerKind::ReplicaSet, name: "set".into() });
    for pod in pods {
        let owned = Pod { controller: Some(controller.clone()), ..Pod::clone(&pod) };
        support::apply(engine, Change::Pod(Box::new(owned)));
    }
}

fn trial() -> Trial {
    Trial {
        config: config::defaults(&Gates::default()),
        registry: Arc::new(plugins::registry()),
        gates: Gates::default(),
        adaptive_sampling: false,
        every_scheduler: false,
    }
}

fn engine_config() -> engine::EngineConfig {
    support::config(&support::default_plugins(), &plugins::registry())
}

/// Returns the size of the resident set of this process.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    resident.unwrap_or(0) * 4096
}
