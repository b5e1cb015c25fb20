//! Recordings of an engine with the default plugins.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::cycle::{Extender, Form};
use engine::ports::{CallError, ExtenderCall, ExtenderClient, Filtered, HostPriorities, Ports};
use engine::profile::{PluginRef, PluginSet, PluginSets, Profiles, SchedulerProfile};
use engine::{Change, EffectKind, Engine, EngineConfig, Input};
use framework::{Answer, EventResource, ObjectKey, PodKey, Time, WallOffset};
use serde_json::json;
use testkit::{node, pod};

use super::*;

fn engine() -> Engine {
    let enabled = plugins::catalogue::defaults()
        .map(|entry| PluginRef::new(entry.name, entry.default_weight));
    let multi_point = PluginSet { enabled: enabled.collect(), ..PluginSet::default() };
    let profile = SchedulerProfile {
        scheduler_name: "default-scheduler".to_owned(),
        plugins: PluginSets { multi_point, ..PluginSets::default() },
        ..SchedulerProfile::default()
    };
    let profiles = Profiles::build(&[profile], &[], &plugins::registry(), true).unwrap();
    let extender = Extender {
        name: "https://extender.example".into(),
        filter: true,
        prioritize: true,
        preempt: false,
        bind: false,
        weight: 1,
        ignorable: false,
        managed_resources: ["example.com/extended".into()].into_iter().collect(),
    };
    let extenders = vec![extender];
    Engine::new(EngineConfig { seed: 7, extenders, ..EngineConfig::new(profiles) })
}

/// An extender that rejects the first node and prefers the last one.
struct LastNode;

impl ExtenderClient for LastNode {
    fn filter(
        &mut self,
        call: &ExtenderCall<'_>,
        now: Time,
    ) -> (Result<Filtered, CallError>, Time) {
        let mut nodes: Vec<String> = call.nodes.iter().map(|node| (*node).to_owned()).collect();
        let failed = vec![(nodes.remove(0), "too old".to_owned())];
        (Ok(Filtered { nodes, failed, ..Filtered::default() }), now)
    }

    fn prioritize(
        &mut self,
        calls: &[ExtenderCall<'_>],
        now: Time,
    ) -> (Vec<Result<HostPriorities, CallError>>, Time) {
        let scores = |call: &ExtenderCall<'_>| {
            Ok(call.nodes.last().map(|node| ((*node).to_owned(), 10)).into_iter().collect())
        };
        (calls.iter().map(scores).collect(), now)
    }
}

/// Places pods on three nodes, answers their binds, and preempts one of them. Returns the chunks.
fn record(reset_after: usize) -> Vec<Chunk> {
    let (mut engine, mut encoder) = (engine(), Encoder::new(reset_after));
    let mut now = Time::from_secs(1_000_000);
    let mut chunks = Vec::new();
    let offset = Input::WallOffset(WallOffset::between(Time::ZERO, Time::from_secs(5)));
    encoder.step(&mut engine, offset, now, &mut Ports { extenders: &mut (), probe: &mut () });
    let extended = |name: &str| pod(name).cpu("1").request("example.com/extended", "1");
    let names = ["a", "b", "c"];
    let nodes = names.map(|name| {
        let node = node(name).zone(name).allocatable("cpu", "2").allocatable("memory", "8Gi");
        Change::Node(node.allocatable("example.com/extended", "9").allocatable("pods", "9").build())
    });
    let pods = (0..6).map(|number| pod(&format!("web-{number}")).label("app", "web").cpu("500m"));
    let pods = [extended("extended")].into_iter().chain(pods);
    let pods = pods.chain([pod("urgent").cpu("2").priority(100)]);
    let pods = pods.map(|pod| Change::Pod(Box::new(pod.build())));
    let service = json!({"metadata": {"name": "s"}, "spec": {"selector": {"app": "web"}}});
    let key = ObjectKey::namespaced(EventResource::Service, "default".into(), "s".into());
    let service = Change::decode(key, Some(service)).unwrap();
    for change in nodes.into_iter().chain([service]).chain(pods) {
        let ports = &mut Ports { extenders: &mut LastNode, probe: &mut () };
        now = now + std::time::Duration::from_millis(700);
        encoder.step(&mut engine, Input::Change(change), now, ports);
        encoder.step(&mut engine, Input::Tick, now, ports);
        encoder.step(&mut engine, Input::Schedule, now, ports);
        let mut effects = encoder.take_effects(&mut engine);
        while !effects.is_empty() {
            for effect in effects {
                if !matches!(effect.kind, EffectKind::Event(_) | EffectKind::PatchPodStatus { .. })
                {
                    encoder.step(
                        &mut engine,
                        Input::Answer { effect: effect.id, answer: Answer::ok() },
                        now,
                        ports,
                    );
                }
                if let EffectKind::Evict(eviction) = effect.kind {
                    let deleted = Change::PodDeleted { key: eviction.pod, uid: eviction.uid };
                    encoder.step(&mut engine, Input::Change(deleted), now, ports);
                }
            }
            effects = encoder.take_effects(&mut engine);
        }
        chunks.extend(encoder.take_if(0));
    }
    let ports = &mut Ports { extenders: &mut LastNode, probe: &mut () };
    let pending = Arc::new(pod("question").cpu("1").build());
    encoder.step(
        &mut engine,
        Input::Evaluate { pod: pending, form: Form::Set, start: None },
        now,
        ports,
    );
    encoder.step(&mut engine, Input::Touch(PodKey::new("default", "urgent")), now, ports);
    encoder.step(
        &mut engine,
        Input::ExtenderProbed { extender: 0, outcome: Err("no answer".to_owned()) },
        now,
        ports,
    );
    encoder.step(&mut engine, Input::Change(Change::NodeDeleted("a".into())), now, ports);
    encoder.take_effects(&mut engine);
    chunks.extend(encoder.take_if(0));
    chunks
}

fn operations(chunks: &[Chunk]) -> Vec<Operation> {
    let (mut decoder, mut all) = (Decoder::default(), Vec::new());
    for chunk in chunks {
        let taken = decoder.read(&chunk.bytes, |operation| {
            all.push(operation);
            true
        });
        assert_eq!(taken, Ok(chunk.bytes.len()));
    }
    all
}

fn replay(operations: impl IntoIterator<Item = Operation>) -> Result<(), Box<Difference>> {
    let mut replayer = Replayer::new(engine());
    operations.into_iter().try_for_each(|operation| replayer.step(operation))?;
    replayer.finish()
}

#[test]
fn replay_makes_the_same_decisions() {
    for reset_after in [usize::MAX, 1] {
        let chunks = record(reset_after);
        let starts = chunks.iter().filter(|chunk| chunk.starts).count();
        assert_eq!(starts, if reset_after == 1 { chunks.len() } else { 1 });
        let operations = operations(&chunks);
        let is =
            |wanted: fn(&Operation) -> bool| operations.iter().filter(|own| wanted(own)).count();
        assert!(is(|own| matches!(own, Operation::Called(_))) > 0, "an extender was called");
        let evicts = |effect: &EffectSummary| matches!(effect, EffectSummary::Evict(..));
        assert!(operations.iter().any(
            |own| matches!(own, Operation::Effects(taken) if taken.effects.iter().any(evicts))
        ));
        assert_eq!(replay(operations), Ok(()));
    }
}

/// An engine that makes room.
fn mover() -> Engine {
    let mut registry = plugins::registry();
    reservation::add_to(&mut registry);
    let mut enabled: Vec<_> = plugins::catalogue::defaults()
        .map(|entry| PluginRef::new(entry.name, entry.default_weight))
        .collect();
    enabled.push(PluginRef::new("MakeRoom", 0));
    let multi_point = PluginSet { enabled, ..PluginSet::default() };
    let profile = SchedulerProfile {
        scheduler_name: "default-scheduler".to_owned(),
        plugins: PluginSets { multi_point, ..PluginSets::default() },
        ..SchedulerProfile::default()
    };
    Engine::new(EngineConfig::new(Profiles::build(&[profile], &[], &registry, false).unwrap()))
}

#[test]
fn plan_of_moves_is_replayed_with_the_answer_of_the_planner() {
    let (mut engine, mut encoder) = (mover(), Encoder::new(usize::MAX));
    let ports = &mut Ports { extenders: &mut (), probe: &mut () };
    let mut now = Time::from_secs(1_000_000);
    let nodes = ["a", "b"].map(|name| {
        let node = node(name).allocatable("cpu", "4").allocatable("memory", "8Gi");
        Change::Node(node.allocatable("pods", "9").build())
    });
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true,
    }]);
    let web = pod("web").cpu("2").on("a").with(|pod| {
        pod.metadata.owner_references = serde_json::from_value(owner).unwrap();
    });
    let pods = [web, pod("other").cpu("2").on("b"), pod("large").cpu("4")];
    let pods = pods.map(|pod| Change::Pod(Box::new(pod.build())));
    for change in nodes.into_iter().chain(pods) {
        encoder.step(&mut engine, Input::Change(change), now, ports);
    }
    encoder.step(&mut engine, Input::Schedule, now, ports);
    for _ in 0..2 {
        now = now + std::time::Duration::from_secs(301);
        encoder.step(&mut engine, Input::Tick, now, ports);
        for effect in encoder.take_effects(&mut engine) {
            if let EffectKind::PlanMoves(wanted) = &effect.kind {
                let answer = make_room::find_moves(&mut engine, wanted, now);
                assert!(matches!(answer, Answer::Ok(Some(_))), "{answer:?}");
                let answered = Input::Answer { effect: effect.id, answer };
                encoder.step(&mut engine, answered, now, ports);
                encoder.step(&mut engine, Input::Tick, now, ports);
            }
        }
    }
    encoder.take_effects(&mut engine);
    let chunks: Vec<_> = encoder.take_if(0).into_iter().collect();
    let operations = operations(&chunks);
    let effects = operations.iter().filter_map(|own| match own {
        Operation::Effects(taken) => Some(&taken.effects),
        _ => None,
    });
    let texts: Vec<String> = effects.flatten().map(ToString::to_string).collect();
    for expected in ["look for moves for default/large", "request the eviction of default/web"] {
        assert!(texts.iter().any(|text| text == expected), "{texts:?}");
    }
    let mut replayer = Replayer::new(mover());
    operations.into_iter().try_for_each(|operation| replayer.step(operation)).unwrap();
    assert_eq!(replayer.finish(), Ok(()));
}

#[test]
fn missing_input_is_a_difference() {
    let all = operations(&record(usize::MAX));
    for (index, missing) in all.iter().enumerate() {
        let is_needed = match missing {
            Operation::Input { input: Input::Change(Change::Pod(_)), .. } => true,
            Operation::Input { input: Input::Schedule, .. } => {
                matches!(all.get(index + 1), Some(Operation::Attempt { .. }))
            }
            Operation::Called(_) => {
                !matches!(all[index - 1], Operation::Input { input: Input::Evaluate { .. }, .. })
            }
            _ => false,
        };
        if is_needed {
            let rest = all.iter().enumerate().filter(|(own, _)| *own != index);
            let difference = replay(rest.map(|(_, operation)| operation.clone()));
            assert!(difference.is_err(), "without {missing}, the same comes out");
        }
    }
}

#[test]
fn difference_names_the_operation_and_both_sides() {
    let mut all = operations(&record(usize::MAX));
    let first = all.iter_mut().find_map(|operation| match operation {
        Operation::Attempt { outcome, .. } => Some(outcome),
        _ => None,
    });
    *first.unwrap() = Decided::Assumed("elsewhere".into());
    let text = replay(all).unwrap_err().to_string();
    assert!(
        text.contains("attempt to schedule the next pod: recorded was an attempt for pod"),
        "{text}"
    );
    assert!(text.contains("node elsewhere, the replay has"), "{text}");
}

fn file(chunks: &[Chunk]) -> Vec<u8> {
    let setup = json!({"a": 1});
    let header = Header { loadmaster: "1.2.3".to_owned(), file: 1, seed: 7, setup };
    let (mut compressor, mut bytes) = Compressor::begin(&header);
    for chunk in chunks {
        bytes.extend(compressor.frame(&chunk.bytes));
    }
    bytes
}

fn read(bytes: &[u8]) -> Result<(Vec<Operation>, Ending), OpenError> {
    let (mut reader, header) = FileReader::open(bytes)?;
    assert_eq!((header.seed, &*header.loadmaster), (7, "1.2.3"));
    let (mut decoder, mut all) = (Decoder::default(), Vec::new());
    while let Some(frame) = reader.next_frame()? {
        let read = decoder.read(&frame, |operation| {
            all.push(operation);
            true
        });
        read.unwrap();
    }
    Ok((all, reader.ending()))
}

#[test]
fn file_is_read_up_to_its_last_whole_frame() {
    let chunks = record(usize::MAX);
    let bytes = file(&chunks);
    let (all, ending) = read(&bytes).unwrap();
    assert_eq!((all.len(), ending), (operations(&chunks).len(), Ending::Whole));
    let mut counts = BTreeMap::<usize, usize>::new();
    let mut whole = 0;
    for end in 0..bytes.len() {
        match read(&bytes[..end]) {
            Ok((part, ending)) => {
                whole += usize::from(ending == Ending::Whole);
                assert!(part.len() <= all.len() && ending != Ending::Damaged, "{end}");
                assert_eq!(replay(part.clone()), Ok(()), "cut off at {end}");
                *counts.entry(part.len()).or_default() += 1;
            }
            Err(error) => assert!(matches!(error, OpenError::Empty), "{end}: {error}"),
        }
    }
    assert!(counts.len() >= chunks.len(), "{counts:?}");
    assert_eq!(whole, chunks.len(), "a file ends whole between two frames only");
}

#[test]
fn pods_start_when_they_were_recorded_to_start() {
    let starts = [Some(100), Some(160), None, Some(40)].into_iter().enumerate();
    let pods = starts.map(|(number, start)| {
        let pod = pod(&format!("p-{number}")).on("n");
        start.map_or(pod.clone(), |start| pod.started(start)).build()
    });
    let pods: Vec<_> = pods.collect();
    let mut encoder = Encoder::new(usize::MAX);
    for pod in &pods {
        encoder.change(&Change::Pod(Box::new(pod.clone())), Time::from_secs(200));
    }
    let read = operations(&[encoder.take()]).into_iter().filter_map(|operation| match operation {
        Operation::Input { input: Input::Change(Change::Pod(pod)), .. } => {
            Some(pod.start_time.get())
        }
        _ => None,
    });
    let written: Vec<_> = pods.iter().map(|pod| pod.start_time.get()).collect();
    assert_eq!(read.collect::<Vec<_>>(), written);
}

#[test]
fn parts_without_end_are_refused() {
    let (mut decoder, mut bytes) = (Decoder::default(), Vec::new());
    value::put(&mut bytes, &record::Record::Part(vec![0; record::PARTS_MAX / 4].into()));
    let mut read = || decoder.read(&bytes, |_| true);
    for _ in 0..4 {
        assert_eq!(read(), Ok(bytes.len()));
    }
    assert_eq!(read(), Err(DecodeError::TooMuch));
}

#[test]
fn damaged_and_foreign_files_are_told_apart() {
    let bytes = file(&record(usize::MAX));
    let mut damaged = bytes.clone();
    let last = damaged.len() - 20;
    damaged[last] ^= 1;
    assert_eq!(read(&damaged).unwrap().1, Ending::Damaged);
    let newer = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let mut newer_bytes = bytes.clone();
    newer_bytes[newer - 1] += 1;
    let next = VERSION + 1;
    assert!(matches!(read(&newer_bytes), Err(OpenError::OtherFormat(version)) if version == next));
    assert!(matches!(read(b"apiVersion: v1\n"), Err(OpenError::Foreign)));
    assert!(matches!(read(b""), Err(OpenError::Empty)));
    let mut header = bytes;
    header[newer + 12] ^= 1;
    assert!(matches!(read(&header), Err(OpenError::Header)));
}

#[test]
fn frames_of_every_size_are_read_as_written() {
    let mut rng = fastrand(3);
    for size in [0, 1, 100, 4096, 5000, 70_000, 3_000_000] {
        let noise: Vec<u8> = (0..size).map(|_| rng()).collect();
        let (mut compressor, mut bytes) = Compressor::begin(&Header {
            loadmaster: String::new(),
            file: 1,
            seed: 0,
            setup: json!(null),
        });
        bytes.extend(compressor.frame(&noise));
        bytes.extend(compressor.frame(&vec![0; size]));
        let (mut reader, _) = FileReader::open(&*bytes).unwrap();
        assert_eq!(reader.next_frame().unwrap().as_deref(), Some(&*noise), "{size}");
        assert_eq!(reader.next_frame().unwrap(), Some(vec![0; size]), "{size}");
        assert_eq!(reader.next_frame().unwrap(), None);
        assert_eq!(reader.ending(), Ending::Whole);
    }
}

/// Returns a generator of bytes.
fn fastrand(seed: u64) -> impl FnMut() -> u8 {
    let mut state = seed;
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    }
}
