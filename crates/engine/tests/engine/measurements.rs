//! Reports about work that takes several calls into the engine: binding cycles and evictions.

use std::time::Duration;

use engine::counters::BINDS_OF_UNKNOWN_OUTCOME;
use engine::{BindingPhases, EffectKind};
use framework::{Answer, Code, PermitVerdict, PreBindInput, PreBindPreFlight, PreBindStep, Status};
use testkit::{node, pod};

use crate::harness::*;

/// A PreBind plugin that waits for a change, and fails when the wait times out.
fn slow() -> Fake {
    fake("Slow")
        .pre_flight(|pod| match pod.labels.get("slow") {
            Some(_) => PreBindPreFlight::Run { allow_parallel: false },
            None => PreBindPreFlight::Skip { allow_parallel: true },
        })
        .pre_bind(|_, input| match input {
            PreBindInput::Deadline => PreBindStep::Done(Status::error("too slow")),
            PreBindInput::Changed => PreBindStep::Done(yes()),
            _ => PreBindStep::Wait { timeout: Duration::from_secs(10), objects: vec![] },
        })
}

fn gate() -> Fake {
    fake("Gate").permit(|pod, _| match pod.labels.get("waits") {
        Some(_) => PermitVerdict::Wait { timeout: Duration::from_secs(60), reason: "".to_owned() },
        None => PermitVerdict::Allow,
    })
}

fn unknown() -> Answer {
    Answer::Unknown("timeout".to_owned())
}

#[test]
fn pods_are_counted_by_phase_of_the_binding_cycle() {
    let mut world = world([gate(), slow()]);
    world.schedule(pod("a").label("waits", "yes"));
    for name in ["c", "d", "e"] {
        world.schedule(pod(name));
    }
    for name in ["d", "e"] {
        let (bind, _) = world.take_bind(name);
        world.answer(bind, &unknown());
    }
    world.schedule(pod("b").label("slow", "yes"));
    // `d` is read and found unbound, which still leaves its outcome unknown.
    let is_read =
        |kind: &EffectKind| matches!(kind, EffectKind::ReadPod { pod, .. } if *pod.name == *"d");
    let read = world.take_open(is_read).id;
    let answer = world.read_on_server(&key("d"));
    world.answer(read, &answer);
    let phases = BindingPhases { permit: 1, pre_bind: 1, bind: 1, unknown: 2, pre_bind_plugins: 1 };
    assert_eq!(world.engine.binding_phases(), phases);
    assert_eq!(world.probe.counted(&BINDS_OF_UNKNOWN_OUTCOME).len(), 2);
}

#[test]
fn pre_bind_is_measured_until_its_last_plugin_is_done() {
    let mut world = world([slow()]);
    world.schedule(pod("p").label("slow", "yes"));
    world.pass(3);
    world.node(node("new"));
    assert!(world.probe.ended.contains(&"PreBind Success 3s".to_owned()));
}

#[test]
fn failed_binding_cycle_counts_its_time_and_its_namespace() {
    let mut world = world([slow()]);
    world.schedule(pod("p").label("slow", "yes"));
    world.pass(10);
    assert!(world.probe.ended.contains(&"PreBind Error 10s".to_owned()));
    assert_eq!(world.probe.failed_bindings, ["error 10s"]);
    assert_eq!(world.probe.binding_errors, ["default"]);

    world.schedule(pod("q"));
    let (bind, _) = world.take_bind("q");
    world.pass(1);
    world.answer(bind, &Answer::Forbidden("no".to_owned()));
    assert_eq!(world.probe.failed_bindings[1..], ["error 1s"]);
    assert_eq!(world.probe.binding_errors, ["default"; 2]);
}

#[test]
fn rejection_by_permit_is_no_binding_error() {
    let mut world = world([gate()]);
    world.schedule(pod("p").label("waits", "yes"));
    world.pass(60);
    assert_eq!(world.probe.failed_bindings, ["unschedulable 60s"]);
    assert_eq!(world.probe.binding_errors, [""; 0]);
}

#[test]
fn evictions_are_measured_until_the_last_answer() {
    for (answer, code) in
        [(Answer::ok(), Code::Success), (Answer::Forbidden("no".to_owned()), Code::Error)]
    {
        let mut world = Setup::new([fit()]).plugin(preempting()).build();
        world.node(node("n").allocatable("cpu", "2"));
        for name in ["v1", "v2"] {
            world.pod(pod(name).cpu("1").on("n"));
        }
        world.schedule(pod("p").cpu("2").priority(100));
        let first = world.take_open(|kind| matches!(kind, EffectKind::Evict(_))).id;
        world.pass(1);
        world.answer(first, &Answer::ok());
        assert_eq!(world.probe.evicted, [""; 0], "the last victim is left");
        let last = world.take_open(|kind| matches!(kind, EffectKind::Evict(_))).id;
        world.pass(1);
        world.answer(last, &answer);
        assert_eq!(world.probe.evicted, [format!("{code} 2s")]);
    }
}
