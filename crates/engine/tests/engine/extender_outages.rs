//! Extenders that hang: they cost the pods that need them, and no others.

use std::time::Duration;

use engine::cycle::Extender;
use engine::ports::Filtered;
use engine::{Input, Outcome};
use framework::{Time, WallOffset};
use testkit::{PodBuilder, pod};

use crate::harness::*;

const TIMEOUT: Duration = Duration::from_secs(5);

fn for_gpus() -> Extender {
    let managed_resources = ["example.com/gpu".to_owned()].into();
    Extender { name: "http://gpus".into(), filter: true, managed_resources, ..Extender::default() }
}

fn gpu_pod(name: &str) -> PodBuilder {
    pod(name).request("example.com/gpu", "1")
}

fn world(extender: Extender) -> World {
    let mut setup = Setup::new([]);
    setup.extenders = vec![extender];
    let mut world = setup.nodes(&["a", "b"]);
    world.extenders.filter = Box::new(|_| accept("b"));
    world.extenders.prioritize = Box::new(|_| Ok(vec![("b".to_owned(), 10)]));
    world
}

fn accept(node: &str) -> Result<Filtered, String> {
    Ok(Filtered { nodes: vec![node.to_owned()], ..Filtered::default() })
}

fn hanging(extender: Extender) -> World {
    let mut world = world(extender);
    world.extenders.hanging = Some(TIMEOUT);
    world
}

fn probed(world: &mut World, outcome: Result<(), &str>) {
    let outcome = outcome.map_err(str::to_owned);
    world.on(|engine, now, ports| {
        engine.step(Input::ExtenderProbed { extender: 0, outcome }, now, ports)
    });
}

#[track_caller]
fn error(outcome: Outcome) -> String {
    match outcome {
        Outcome::Error(message) => message,
        outcome => panic!("{outcome:?}"),
    }
}

#[test]
fn pods_of_an_extender_that_does_not_answer_fail_at_once_and_say_why() {
    let mut world = hanging(for_gpus());
    assert_eq!(error(world.schedule(gpu_pod("p"))), "deadline exceeded");
    assert_eq!(world.extenders.outages, ["0: deadline exceeded"]);
    world.now = world.now + TIMEOUT;
    let message = "extender \"http://gpus\" has not answered since 1970-01-01T00:16:40Z and is not \
                   called until it does; it is tried again at 1970-01-01T00:16:50Z: deadline exceeded";
    assert_eq!(error(world.schedule(gpu_pod("q"))), message);
    assert_eq!(world.place("q"), "error backoff");
    assert_eq!(world.condition("q"), Some(format!("SchedulerError: {message}")));
    assert_eq!(world.schedule(pod("other")), Outcome::Assumed("a".into()));
    assert_eq!((world.extenders.calls.len(), world.extenders.probes.len()), (1, 0));
}

#[test]
fn next_pod_after_a_pause_tries_the_extender_again_without_waiting() {
    let mut world = hanging(for_gpus());
    world.schedule(gpu_pod("p"));
    let wall = Time::parse_rfc3339("2026-01-01T00:00:00Z").unwrap();
    let offset = WallOffset::between(world.now, wall);
    world.on(|engine, now, ports| engine.step(Input::WallOffset(offset), now, ports));
    world.now = world.now + TIMEOUT * 2;
    let message = error(world.schedule(gpu_pod("q")));
    assert!(message.contains("tried again at 2026-01-01T00:00:20Z"), "{message}");
    assert_eq!(world.extenders.probes, ["filter 0 a,b"]);
    error(world.schedule(gpu_pod("r")));
    assert_eq!(world.extenders.probes.len(), 1, "one call in a pause");

    probed(&mut world, Err("connection refused"));
    let message = error(world.schedule(gpu_pod("s")));
    assert!(message.ends_with("2026-01-01T00:00:20Z: connection refused"), "{message}");
    world.now = world.now + TIMEOUT * 2;
    error(world.schedule(gpu_pod("t")));
    assert_eq!(world.extenders.probes.len(), 2);

    world.extenders.hanging = None;
    probed(&mut world, Ok(()));
    assert_eq!(world.extenders.outages.last().unwrap(), "0: up");
    assert_eq!(world.schedule(gpu_pod("u")), Outcome::Assumed("b".into()));
    assert_eq!(world.extenders.calls.len(), 2);
    probed(&mut world, Err("late".to_owned().as_str()));
    assert_eq!(world.schedule(gpu_pod("v")), Outcome::Assumed("b".into()));
    world.run_for(20);
    for name in ["p", "q", "r", "s", "t", "u", "v"] {
        assert_eq!(world.place(name), "placed", "{name}");
    }
}

#[test]
fn errors_that_are_answers_are_no_outage() {
    let mut world = world(for_gpus());
    world.extenders.latency = TIMEOUT;
    world.extenders.filter = Box::new(|_| Err("no licence".to_owned()));
    for name in ["p", "q"] {
        assert_eq!(error(world.schedule(gpu_pod(name))), "no licence");
    }
    assert_eq!((world.extenders.calls.len(), world.extenders.outages.len()), (2, 0));
}

#[test]
fn ignorable_extender_that_does_not_answer_is_skipped() {
    let mut world = hanging(Extender { ignorable: true, ..for_gpus() });
    for name in ["p", "q"] {
        assert_eq!(world.schedule(gpu_pod(name)), Outcome::Assumed("a".into()));
    }
    assert_eq!((world.extenders.calls.len(), world.extenders.skipped.len()), (1, 2));
    world.now = world.now + TIMEOUT * 2;
    assert_eq!(world.schedule(gpu_pod("r")), Outcome::Assumed("a".into()));
    assert_eq!(world.extenders.probes, ["filter 0 a,b"]);
}

#[test]
fn extender_without_scores_is_not_waited_for() {
    let prioritizes = Extender { filter: false, prioritize: true, weight: 1, ..for_gpus() };
    let mut world = hanging(prioritizes);
    for name in ["p", "q"] {
        assert_eq!(world.schedule(gpu_pod(name)), Outcome::Assumed("a".into()));
    }
    assert_eq!(world.extenders.calls.len(), 1);
    world.now = world.now + TIMEOUT * 2;
    assert_eq!(world.schedule(gpu_pod("r")), Outcome::Assumed("a".into()));
    assert_eq!(world.extenders.probes, ["prioritize 0 a,b"]);
    world.extenders.hanging = None;
    probed(&mut world, Ok(()));
    assert_eq!(world.schedule(gpu_pod("s")), Outcome::Assumed("b".into()));
}

/// Lets one pod come every ten seconds for two hours beside twenty pods that need the extender.
/// Returns how long the calls of the extender held up all pods, and the longest that a pod of the
/// others took.
fn two_hours(answers_probes: bool) -> (Duration, Duration) {
    let mut world = hanging(for_gpus());
    (0..20).for_each(|number| world.pod(gpu_pod(&format!("gpu-{number}"))));
    let (end, mut longest) = (world.now + Duration::from_hours(2), Duration::ZERO);
    for number in 0_u32.. {
        let came = world.now;
        if end <= came {
            break;
        }
        let name = format!("p-{number}");
        world.pod(pod(&name));
        world.tick();
        let probes = world.extenders.probes.len();
        loop {
            let before = world.extenders.waited;
            if world.try_attempt().is_none() {
                break;
            }
            world.now = world.now + (world.extenders.waited - before);
            while let Some(effect) = world.open.pop_front() {
                world.carry_out(effect);
            }
            if world.server.contains_key(&key(&name)) && world.place(&name) == "placed" {
                longest = longest.max(world.now.since(came));
                world.delete(&name);
            }
        }
        assert!(!world.server.contains_key(&key(&name)), "{name} was bound");
        if answers_probes && world.extenders.probes.len() > probes {
            probed(&mut world, Ok(()));
        }
        world.pass(10);
    }
    (world.extenders.waited, longest)
}

#[test]
fn extender_that_hangs_for_hours_leaves_the_other_pods_at_full_speed() {
    assert_eq!(two_hours(false), (TIMEOUT, TIMEOUT), "one call of {TIMEOUT:?}, and no other");
    let (waited, longest) = two_hours(true);
    assert!(waited < Duration::from_hours(2) / 10, "{waited:?} beside one that answers probes");
    assert_eq!(longest, TIMEOUT);
}
