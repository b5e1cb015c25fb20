//! Recordings that have lost their first files.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use engine::ports::Ports;
use engine::{Change, EffectKind, Engine, Input};
use framework::{Answer, Level, Pod};
use testkit::{node, pod};

use super::*;
use crate::config::{self, Gates};
use crate::metrics::Metrics;
use crate::recorder::{self, RecordedSetup, RecordingOptions};

const NODES: usize = 20;
/// Pods that exist at a time.
const LIVE: usize = 60;
/// Binds that the watch does not show yet.
const LATE: usize = 15;

fn setup() -> RecordedSetup {
    RecordedSetup {
        minor: Level::default().minor(),
        min_compatibility: None,
        started: "2026-03-01T02:00:00Z".to_owned(),
        host: "host".to_owned(),
        configuration: RecordedSetup::recorded_configuration(&config::defaults(&Gates::default())),
        feature_gates: Vec::new(),
        group_members_alone: false,
        adaptive_sampling: false,
        rankings: true,
        longest_preemption_pause: Duration::ZERO,
        unschedulable_timeout: Duration::from_mins(5),
    }
}

/// Records so many pods that the first files are removed. Returns the engine at the end.
fn record(directory: &std::path::Path, pods: usize) -> Engine {
    let options = RecordingOptions {
        directory: directory.to_owned(),
        limit: 100 << 10,
        feature_gates: Vec::new(),
    };
    let metrics = Arc::new(Metrics::new());
    let (mut recorder, writer) = recorder::begin(&options, &setup(), 1, &metrics).unwrap();
    let mut engine = setup().engine(&plugins::registry(), 1).unwrap();
    let mut encoder = options.encoder();
    let ports = &mut Ports { extenders: &mut (), probe: &mut () };
    let mut now = Time::from_secs(1);
    for number in 0..NODES {
        let node = node(&format!("n{number}")).allocatable("cpu", "4").allocatable("pods", "9");
        encoder.step(&mut engine, Input::Change(Change::Node(node.build())), now, ports);
    }
    let huge = pod("huge").cpu("9").build();
    encoder.step(&mut engine, Input::Change(Change::Pod(Box::new(huge))), now, ports);
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut live, mut bound) = (Vec::new(), VecDeque::new());
    for _ in 0..pods {
        now = now + Duration::from_millis(20);
        let new = pod(&format!("{:x}", rng.u128(..))).cpu(["100m", "1"][rng.usize(..2)]).build();
        encoder.step(&mut engine, Input::Change(Change::Pod(Box::new(new))), now, ports);
        encoder.step(&mut engine, Input::Tick, now, ports);
        while encoder.step(&mut engine, Input::Schedule, now, ports).attempt().is_some() {}
        for effect in encoder.take_effects(&mut engine) {
            if let EffectKind::Bind { binding, .. } = &effect.kind {
                let placed = engine.world().placed(&binding.uid).unwrap().pod.clone();
                let placed = Pod::clone(&placed);
                encoder.step(
                    &mut engine,
                    Input::Answer { effect: effect.id, answer: Answer::ok() },
                    now,
                    ports,
                );
                bound.push_back(placed);
            }
        }
        // The watch shows binds late.
        if bound.len() > LATE
            && let Some(placed) = bound.pop_front()
        {
            encoder.step(
                &mut engine,
                Input::Change(Change::Pod(Box::new(placed.clone()))),
                now,
                ports,
            );
            live.push(placed);
        }
        if live.len() > LIVE {
            let Pod { key, uid, .. } = live.remove(rng.usize(..live.len()));
            encoder.step(&mut engine, Input::Change(Change::PodDeleted { key, uid }), now, ports);
        }
        assert!(recorder.advance(&engine, &mut encoder, now));
    }
    recorder.finish(&mut encoder);
    writer.run();
    engine
}

/// Returns the nodes, the placed pods with their nodes, and the pending pods.
fn state(engine: &Engine) -> BTreeSet<String> {
    let cluster = engine.cluster();
    let placed = cluster.nodes().iter().flat_map(|node| {
        let name = cluster.node_name(node).to_string();
        let pods = cluster.node(node).pods().map(|pod| format!("{} on {name}", pod.key));
        pods.chain([name.clone()]).collect::<Vec<_>>()
    });
    let handle = engine.handle(Time::ZERO);
    // A pod whose bind is under way is pending, too.
    let waits = |pod: &&Arc<Pod>| engine.world().placed(&pod.uid).is_none();
    let pending = handle.pending.values().filter(waits);
    placed.chain(pending.map(|pod| pod.key.to_string())).collect()
}

fn opened(directory: &std::path::Path) -> Run {
    let mut runs = Runs::find(directory).unwrap().0;
    Run::open(runs.remove(0)).unwrap()
}

#[test]
fn run_without_its_first_files_is_rebuilt_from_its_oldest_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let engine = record(directory.path(), 6000);
    let run = opened(directory.path());
    assert!(!run.has_beginning());
    let outcome = replay(&run, None, &plugins::registry()).unwrap();
    assert_eq!(state(outcome.replayed.engine()), state(&engine));
    let agreement = outcome.replayed.agreement().unwrap();
    assert!(agreement.same > 500, "{agreement:?}");
    assert_eq!((agreement.different, agreement.fitting), (0, 0), "{agreement:?}");
    let text = outcome.text(&run);
    println!("{text}");
    assert!(text.contains("has removed the beginning") && text.contains("0 are others"), "{text}");
    // A pod that the files show only in their checkpoint is known, and its wait began before them.
    let answer = dump_of(&run, outcome.replayed, &plugins::registry()).unwrap();
    let answer = { answer }.pod(&pod_key("huge"), None).unwrap();
    assert!(answer.notes.iter().any(|note| note.contains("no history")), "{:?}", answer.notes);
}

#[test]
fn run_with_its_first_file_replays_past_checkpoints() {
    let directory = tempfile::tempdir().unwrap();
    let engine = record(directory.path(), 900);
    let run = opened(directory.path());
    assert!(run.has_beginning());
    let outcome = replay(&run, None, &plugins::registry()).unwrap();
    assert_eq!(outcome.difference, None);
    assert_eq!(state(outcome.replayed.engine()), state(&engine));
    assert_eq!(outcome.replayed.agreement(), None);
}
