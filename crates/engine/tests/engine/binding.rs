//! The binding cycle: PreBindPreFlight, PreBind, Bind and its answers, PostBind, Unreserve.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use engine::{EffectKind, Outcome};
use framework::{
    Answer, BindStep, Binding, Code, EventResource, ObjectKey, Pod, PreBindInput, PreBindPreFlight,
    PreBindStep, Status, Uid, Write, WriteAction,
};
use testkit::{node, pod};

use crate::harness::*;

const SKIP: PreBindPreFlight = PreBindPreFlight::Skip { allow_parallel: false };
const SKIP_PARALLEL: PreBindPreFlight = PreBindPreFlight::Skip { allow_parallel: true };
const RUN: PreBindPreFlight = PreBindPreFlight::Run { allow_parallel: false };
const RUN_PARALLEL: PreBindPreFlight = PreBindPreFlight::Run { allow_parallel: true };

fn write() -> PreBindStep {
    PreBindStep::Write(Write {
        api_version: "v1".into(),
        resource: "persistentvolumeclaims".into(),
        namespace: "default".into(),
        name: "data".into(),
        subresource: None,
        flow: "".into(),
        action: WriteAction::MergePatch(serde_json::Value::Null),
    })
}

/// Writes something before the pod is bound.
fn writer(name: &'static str, pre_flight: PreBindPreFlight) -> Fake {
    fake(name).pre_flight(move |_| pre_flight.clone()).pre_bind(|_, input| match input {
        PreBindInput::Start => write(),
        PreBindInput::Answer(answer) => match answer {
            Answer::Ok(_) => PreBindStep::Done(yes()),
            Answer::Conflict(text) => PreBindStep::Done(Status::unschedulable(text.clone())),
            other => {
                let text = other.failure().unwrap_or_default().to_owned();
                PreBindStep::Done(Status::error(text))
            }
        },
        _ => write(),
    })
}

fn ledger() -> Fake {
    fake("Ledger").reserve(|_, _| yes())
}

/// A pod `p` whose Bind to `a` was requested, and a pod `q` that waits for its room.
pub(crate) fn world_with_bind() -> World {
    let mut world = Setup::new([fit(), ledger()]).nodes(&["a"]);
    assert_eq!(world.schedule(pod("p").cpu("8")), Outcome::Assumed("a".into()));
    world.schedule(pod("q").cpu("8"));
    assert_eq!(world.place("q"), "unschedulable");
    world.log.take();
    world
}

pub(crate) fn scheduled(world: &World) -> usize {
    let text = "Normal Scheduled Binding: Successfully assigned default/p to a";
    world.events().iter().filter(|event| **event == text).count()
}

#[track_caller]
fn check_undone(world: &mut World, condition: &str) {
    assert_eq!(world.condition("p").as_deref(), Some(condition));
    assert_eq!((world.place("p"), world.node_of("p")), ("error backoff", None));
    assert_eq!(world.rejectors("p"), [""; 0]);
    assert!(world.log.take().contains(&"Unreserve Ledger p on a".to_owned()));
    assert_eq!((world.engine.binding_count(), scheduled(world)), (0, 0));
}

#[test]
fn plugin_that_skips_pre_flight_does_not_run() {
    let mut world = world([writer("A", SKIP), writer("B", SKIP_PARALLEL)]);
    world.schedule(pod("p"));
    assert_eq!(world.log.take(), ["PreFlight A p", "PreFlight B p"]);
    assert_eq!(world.patches("p"), [], "it is bound at once and needs no nomination");
    world.run();
    assert_eq!(world.place("p"), "placed");
}

#[test]
fn pod_with_pre_bind_work_is_nominated() {
    // Nomination of the pod, number of patches.
    for (nominated, patches) in [("", 1), ("b", 1), ("a", 0)] {
        let only_a =
            fake("OnlyA").filter(|_, node| if **node.name() == *"a" { yes() } else { no("") });
        let mut world = world([only_a, writer("A", RUN)]);
        world.schedule(pod("p").nominated(nominated));
        let sent = world.patches("p");
        assert_eq!(sent.len(), patches, "nominated to {nominated:?}");
        assert!(sent.iter().all(|patch| patch.condition.is_none()));
        assert!(sent.iter().all(|patch| patch.nominated_node_name.as_deref() == Some("a")));
    }
}

#[test]
fn failed_pre_flight_unreserves_the_pod() {
    let unsupported = |code: &str| {
        format!(
            "SchedulerError: PreBindPreFlight A returned \"{code}\", which is unsupported. It is \
             supposed to return Success, Skip, or Error status"
        )
    };
    let rows = [
        (Code::Error, "SchedulerError: running PreBindPreFlight \"A\": x".to_owned()),
        (Code::Unschedulable, unsupported("Unschedulable")),
        (Code::Wait, unsupported("Wait")),
    ];
    for (code, condition) in rows {
        let fail = PreBindPreFlight::Fail(status(code, "x"));
        let mut world = world([ledger(), writer("A", fail), writer("B", RUN)]);
        world.schedule(pod("p"));
        check_undone(&mut world, &condition);
        assert!(world.patches("p").iter().all(|patch| patch.nominated_node_name.is_none()));
    }
}

#[test]
fn neighbours_that_allow_it_run_in_parallel() {
    type Row = ([PreBindPreFlight; 3], &'static [&'static str]);
    // Preflights of A, B and C, and the groups that run after each other.
    let rows: [Row; 7] = [
        ([RUN_PARALLEL, RUN_PARALLEL, RUN_PARALLEL], &["ABC"]),
        ([RUN_PARALLEL, RUN_PARALLEL, RUN], &["AB", "C"]),
        ([RUN, RUN_PARALLEL, RUN_PARALLEL], &["A", "BC"]),
        ([RUN_PARALLEL, RUN, RUN_PARALLEL], &["A", "B", "C"]),
        ([RUN_PARALLEL, SKIP_PARALLEL, RUN_PARALLEL], &["AC"]),
        ([RUN_PARALLEL, SKIP, RUN_PARALLEL], &["A", "C"]),
        ([SKIP_PARALLEL, RUN_PARALLEL, RUN_PARALLEL], &["BC"]),
    ];
    for (pre_flights, groups) in rows {
        let [a, b, c] = pre_flights.clone();
        let mut world = world([writer("A", a), writer("B", b), writer("C", c)]);
        world.schedule(pod("p"));
        for group in groups {
            let started: String = world
                .log
                .take_of(&["PreBind"])
                .iter()
                .filter_map(|line| line.strip_suffix(" p Start")?.strip_prefix("PreBind "))
                .collect();
            assert_eq!(started, **group, "{pre_flights:?}");
            for _ in group.chars() {
                let write = world.take_write();
                world.answer(write, &Answer::ok());
            }
        }
        world.take_bind("p");
    }
}

#[test]
fn answer_to_a_write_resumes_pre_bind() {
    let failed = "SchedulerError: running PreBind plugin \"A\": x";
    let rows = [
        (Answer::Conflict("x".to_owned()), "Unschedulable: x"),
        (Answer::Error("x".to_owned()), failed),
        (Answer::Gone("x".to_owned()), failed),
        (Answer::Unknown("x".to_owned()), failed),
    ];
    for (answer, condition) in rows {
        let mut world = world([ledger(), writer("A", RUN_PARALLEL), writer("B", RUN_PARALLEL)]);
        world.schedule(pod("p"));
        let late = world.take_write();
        let write = world.take_write();
        world.answer(write, &answer);
        check_undone(&mut world, condition);
        world.answer(late, &Answer::ok());
        assert_eq!(world.log.take(), [""; 0], "no plugin waits for the answer to the neighbour");
    }
}

/// A PreBind plugin that waits 10 seconds at a time for a change, and is done after the third one.
fn patient() -> Fake {
    let changes = std::sync::atomic::AtomicUsize::new(0);
    fake("Patient").pre_bind(move |pod, input| match input {
        PreBindInput::Deadline => PreBindStep::Done(Status::error("it took too long")),
        PreBindInput::Changed
            if pod.labels.get("hopeless").is_none()
                && changes.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 2 =>
        {
            PreBindStep::Done(yes())
        }
        _ => PreBindStep::Wait { timeout: Duration::from_secs(10), objects: vec![] },
    })
}

#[test]
fn pre_bind_waits_for_a_change() {
    let mut world = world([patient()]);
    world.schedule(pod("p"));
    for change in ["x", "y"] {
        world.node(node(change));
        assert!(world.open.iter().all(|effect| !matches!(effect.kind, EffectKind::Bind { .. })));
    }
    world.node(node("z"));
    world.take_bind("p");
    world.node(node("later"));
    assert_eq!(world.log.take_of(&["PreBind"]).len(), 4, "and is not asked again");
}

#[test]
fn pre_bind_resumes_only_for_objects_it_waits_for() {
    let waits = || {
        fake("Patient").pre_bind(|_, input| match input {
            PreBindInput::Changed => PreBindStep::Done(yes()),
            _ => {
                let node = ObjectKey::cluster_scoped(EventResource::Node, "y".into());
                let timeout = Duration::from_secs(10);
                PreBindStep::Wait { timeout, objects: vec![ObjectKey::pod(&key("q")), node] }
            }
        })
    };
    for change in ["the node", "the pod"] {
        let mut world = world([waits()]);
        world.schedule(pod("p"));
        world.node(node("x"));
        world.pod(pod("r").on("x"));
        assert_eq!(world.log.take_of(&["PreBind"]).len(), 1, "nothing of that concerns it");
        match change {
            "the node" => world.node(node("y")),
            _ => world.pod(pod("q").on("x")),
        }
        world.take_bind("p");
    }
}

#[test]
fn repeated_changes_do_not_postpone_the_pre_bind_deadline() {
    let mut world = world([ledger(), patient()]);
    world.schedule(pod("p").label("hopeless", "yes"));
    for second in 0..9 {
        world.pass(1);
        world.node(node("beat").label("second", &second.to_string()));
        assert_eq!(world.place("p"), "assumed");
    }
    world.pass(1);
    check_undone(
        &mut world,
        "SchedulerError: running PreBind plugin \"Patient\": it took too long",
    );
}

#[test]
fn bound_pod_is_reported_and_stays_assumed_until_the_watch_shows_it() {
    let mut world = Setup::new([fit(), fake("After").post_bind(|_, _| ())]).nodes(&["a"]);
    world.schedule(pod("p"));
    let (bind, binding) = world.take_bind("p");
    let expected = Binding { pod: key("p"), uid: Uid::from("uid-p"), node: "a".into() };
    assert_eq!(binding, expected);
    assert_eq!((scheduled(&world), world.log.take_of(&["PostBind"]).len()), (0, 0));
    world.bind_on_server(&binding);
    world.answer(bind, &Answer::ok());
    assert_eq!(scheduled(&world), 1);
    assert_eq!(world.log.take_of(&["PostBind"]), ["PostBind After p to a"]);
    assert_eq!(world.place("p"), "assumed");
    world.see("p");
    assert_eq!((world.place("p"), world.node_of("p").as_deref()), ("placed", Some("a")));
    world.answer(bind, &Answer::Error("twice".to_owned()));
    assert_eq!(world.place("p"), "placed", "the second answer to an effect is passed over");
    assert_eq!(world.engine.pending().count(), 0);
}

#[test]
fn definite_bind_failure_forgets_the_pod() {
    let answers: [fn(String) -> Answer; 5] =
        [Answer::Conflict, Answer::Gone, Answer::Forbidden, Answer::Throttled, Answer::Error];
    for answer in answers {
        let mut world = world_with_bind();
        let (bind, _) = world.take_bind("p");
        world.answer(bind, &answer("no such luck".to_owned()));
        let condition = "SchedulerError: running Bind plugin \"DefaultBinder\": no such luck";
        check_undone(&mut world, condition);
        assert_ne!(world.place("q"), "unschedulable", "its room is free");
    }
}

#[test]
fn bind_of_unknown_outcome_stays_assumed_until_the_pod_is_read() {
    // Event on the server before the read, condition, place.
    type Row = (fn(&mut World, &Binding), Option<&'static str>, &'static str);
    let text = "SchedulerError: running Bind plugin \"DefaultBinder\": ";
    let rows: [Row; 3] = [
        (|world, binding| drop(world.bind_on_server(binding)), None, "assumed"),
        (
            |world, _| world.change("p", |pod| pod.spec.node_name = "z".to_owned()),
            Some("the pod is bound to node z"),
            "error backoff",
        ),
        (
            |world, _| world.change("p", |pod| pod.metadata.uid = "new".to_owned()),
            Some("the pod was replaced by another of its name"),
            "error backoff",
        ),
    ];
    for (meanwhile, error, place) in rows {
        let mut world = world_with_bind();
        let (bind, binding) = world.take_bind("p");
        meanwhile(&mut world, &binding);
        world.answer(bind, &Answer::Unknown("timeout".to_owned()));
        assert_eq!((world.place("q"), world.node_of("p").is_some()), ("unschedulable", true));
        let read = world.take_read();
        let answer = world.read_on_server(&key("p"));
        world.answer(read, &answer);
        assert_eq!((world.place("p"), scheduled(&world)), (place, usize::from(error.is_none())));
        let condition = error.map(|error| format!("{text}{error}"));
        assert_eq!(world.condition("p"), condition);
        assert_eq!(world.node_of("p").is_some(), error.is_none());
    }
}

fn outdated() -> Answer {
    Answer::Outdated("Precondition failed: ResourceVersion in precondition: 1".to_owned())
}

/// Answers the open read of the pod with the pod on the server.
pub(crate) fn answer_read(world: &mut World) {
    let read = world.take_read();
    let answer = world.read_on_server(&key("p"));
    world.answer(read, &answer);
}

#[test]
fn bind_names_the_newest_version_of_the_specification_it_was_decided_on() {
    for resized in [false, true] {
        let mut world = world([ledger(), writer("Writer", RUN)]);
        world.schedule(pod("p"));
        let write = world.take_write();
        let decided = world.version_of("p");
        world.update("p", |pod| {
            pod.metadata.labels.insert("app".into(), "web".into());
            pod.metadata.generation += i64::from(resized);
        });
        world.answer(write, &Answer::ok());
        let (_, version) = world.take_bind_at("p");
        assert_eq!(version, if resized { decided } else { world.version_of("p") });
    }
}

#[test]
fn pod_that_changed_is_read_and_bound_again_without_a_failure() {
    let mut world = world_with_bind();
    for _ in 0..3 {
        let (bind, version) = world.take_bind_at("p");
        assert!(version > 0 && version == world.version_of("p"));
        world.change("p", |pod| {
            pod.metadata.annotations.insert("x".into(), "y".into());
        });
        world.answer(bind, &outdated());
        answer_read(&mut world);
        assert_eq!(world.place("p"), "assumed");
    }
    let (bind, binding) = world.take_bind("p");
    world.bind_on_server(&binding);
    world.answer(bind, &Answer::ok());
    world.see("p");
    assert_eq!((world.place("p"), scheduled(&world), world.condition("p")), ("placed", 1, None));
}

#[test]
fn pod_with_a_new_specification_is_decided_again_at_once() {
    let mut world = world_with_bind();
    let (bind, _) = world.take_bind("p");
    world.change("p", |pod| pod.metadata.generation += 1);
    world.answer(bind, &outdated());
    answer_read(&mut world);
    assert_eq!((world.place("p"), world.condition("p")), ("active", None));
    assert_ne!(world.place("q"), "unschedulable", "its room is free");
    assert_eq!(world.log.take_of(&["Unreserve"]), ["Unreserve Ledger p on a"]);
    let (_, queued) = world.engine.queue().get(&key("p")).unwrap();
    assert_eq!((queued.history.consecutive_errors, queued.history.unschedulable_count), (0, 0));
    world.see("p");
    world.run();
    assert_eq!((world.place("p"), scheduled(&world)), ("placed", 1));
}

#[test]
fn bind_that_always_finds_the_pod_changed_fails_with_a_reason() {
    let mut world = world_with_bind();
    let mut binds = 0;
    while world.place("p") == "assumed" {
        let (bind, _) = world.take_bind("p");
        binds += 1;
        world.change("p", |pod| {
            pod.metadata.annotations.insert("bind".into(), "seen".into());
        });
        world.answer(bind, &outdated());
        if world.place("p") == "assumed" {
            answer_read(&mut world);
        }
    }
    assert_eq!(binds, 9);
    assert_eq!(world.place("p"), "error backoff");
    assert!(world.condition("p").unwrap().contains("Precondition failed: ResourceVersion"));
}

#[test]
fn pod_read_terminating_is_not_bound_again() {
    let mut world = world_with_bind();
    let (bind, _) = world.take_bind("p");
    world.answer(bind, &Answer::Unknown("timeout".to_owned()));
    world.change("p", |pod| pod.metadata.deletion_timestamp = Some("2026-11-21T00:00:00Z".into()));
    let read = world.take_read();
    let answer = world.read_on_server(&key("p"));
    world.answer(read, &answer);
    assert_eq!(world.node_of("p"), None);
}

#[test]
fn pod_read_bound_and_terminating_keeps_its_room() {
    let mut world = world_with_bind();
    let (bind, binding) = world.take_bind("p");
    world.bind_on_server(&binding);
    world.change("p", |pod| pod.metadata.deletion_timestamp = Some("2026-11-21T00:00:00Z".into()));
    world.answer(bind, &Answer::Unknown("timeout".to_owned()));
    let read = world.take_read();
    let answer = world.read_on_server(&key("p"));
    world.answer(read, &answer);
    assert_eq!((world.node_of("p").as_deref(), scheduled(&world)), (Some("a"), 1));
}

#[test]
fn pod_that_no_longer_exists_when_read_frees_its_room() {
    let mut world = world_with_bind();
    let (bind, _) = world.take_bind("p");
    world.answer(bind, &Answer::Unknown("timeout".to_owned()));
    let read = world.take_read();
    world.answer(read, &Answer::Gone("pods \"p\" not found".to_owned()));
    assert_eq!(world.node_of("p"), None);
    assert_ne!(world.place("q"), "unschedulable");
    world.delete("p");
    world.run_for(15);
    assert_eq!((world.place("p"), world.place("q")), ("nowhere", "placed"));
}

#[test]
fn failed_read_is_repeated() {
    let mut world = world_with_bind();
    let (bind, _) = world.take_bind("p");
    world.answer(bind, &Answer::Unknown("timeout".to_owned()));
    let failures = [
        Answer::Unknown("timeout".to_owned()),
        Answer::Throttled("later".to_owned()),
        Answer::Ok(None),
        Answer::Ok(Some(serde_json::json!({"spec": 7}))),
    ];
    for failure in failures {
        let read = world.take_read();
        world.answer(read, &failure);
        assert_eq!((world.place("p"), world.place("q")), ("assumed", "unschedulable"));
    }
    world.take_read();
}

#[test]
fn watch_settles_a_bind_whose_answer_was_lost() {
    // Whether the watch shows the pod before the answer is lost.
    for first in [true, false] {
        let mut world = world_with_bind();
        let (bind, binding) = world.take_bind("p");
        world.bind_on_server(&binding);
        if first {
            world.see("p");
        }
        world.answer(bind, &Answer::Unknown("timeout".to_owned()));
        if first {
            assert!(world.open.iter().all(|e| !matches!(e.kind, EffectKind::ReadPod { .. })));
        } else {
            let read = world.take_read();
            world.see("p");
            world.answer(read, &Answer::Gone("a lie".to_owned()));
        }
        assert_eq!((world.place("p"), scheduled(&world)), ("placed", 1));
        assert_eq!(world.condition("p"), None);
    }
}

#[test]
fn confirmed_pod_may_be_deleted_before_its_answer_is_lost() {
    let mut world = world_with_bind();
    let (bind, binding) = world.take_bind("p");
    world.bind_on_server(&binding);
    world.see("p");
    world.answer(bind, &Answer::Unknown("timeout".to_owned()));
    world.delete("p");
    world.run_for(12);
    assert_eq!((world.place("q"), world.engine.binding_count()), ("placed", 0));
    assert_eq!(world.events().iter().filter(|e| e.contains("FailedScheduling")).count(), 1);
}

#[test]
fn pod_bound_elsewhere_stays_there() {
    let mut world = world_with_bind();
    let (bind, _) = world.take_bind("p");
    world.update("p", |pod| pod.spec.node_name = "b".to_owned());
    assert_eq!(world.node_of("p").as_deref(), Some("b"));
    assert_ne!(world.place("q"), "unschedulable", "the room on the first node is free");
    world.answer(bind, &Answer::Conflict("already assigned".to_owned()));
    assert_eq!((world.place("p"), world.node_of("p").as_deref()), ("placed", Some("b")));
    assert_eq!(world.engine.queue().counts().in_flight, 0);
    world.run_for(3);
    assert_eq!(world.node_of("q").as_deref(), Some("a"));
}

#[test]
fn bind_of_a_replaced_pod_does_not_affect_its_successor() {
    let mut world = world_with_bind();
    let (old, binding) = world.take_bind("p");
    world.pod(pod("p").uid("new").cpu("8"));
    assert_eq!((world.place("p"), world.node_of("p")), ("active", None));
    world.try_attempt();
    let uids = |world: &World| -> Vec<Uid> {
        let pods = world.engine.cluster().pods();
        pods.map(|placed| placed.pod.uid.clone()).collect()
    };
    let [one] = uids(&world).try_into().unwrap();
    let answer = world.bind_on_server(&binding);
    assert!(matches!(answer, Answer::Conflict(_)), "the server knows better");
    world.answer(old, &answer);
    assert_eq!(uids(&world), [one], "the room in use is left alone");
    assert_eq!(world.patches("p").len(), 0);
    world.run_for(15);
    assert_eq!(world.engine.queue().counts().in_flight, 0);
    assert_eq!(uids(&world).len(), 1);
}

#[test]
fn deleted_pod_in_binding_frees_its_room_at_once() {
    for gone in [true, false] {
        let mut world = world_with_bind();
        let (bind, binding) = world.take_bind("p");
        if gone {
            world.delete("p")
        } else {
            world.terminate("p")
        }
        assert_eq!(world.node_of("p"), None);
        assert_ne!(world.place("q"), "unschedulable");
        assert_eq!(world.log.take_of(&["Unreserve"]), [""; 0], "its binding cycle goes on");
        let answer = world.bind_on_server(&binding);
        world.answer(bind, &answer);
        assert_eq!(world.log.take_of(&["Unreserve"]), ["Unreserve Ledger p on a"]);
        world.run_for(15);
        assert_eq!((world.place("p"), world.place("q")), ("nowhere", "placed"));
        let skipped = "Warning FailedScheduling Scheduling: skip schedule deleting pod: default/p";
        assert_eq!(world.events().contains(&skipped.to_owned()), !gone);
    }
}

/// A plugin with one token, which a pod holds from Reserve to Unreserve.
fn token() -> Fake {
    let taken = Arc::new(AtomicBool::new(false));
    let (reserved, freed) = (taken.clone(), taken.clone());
    fake("Token")
        .on(pod_event(framework::ActionType::DELETE))
        .filter(move |_, _| if taken.load(Relaxed) { no("token taken") } else { yes() })
        .reserve(move |_, _| {
            reserved.store(true, Relaxed);
            yes()
        })
        .unreserve(move |_, _| freed.store(false, Relaxed))
}

#[test]
fn unreserve_of_a_deleted_pod_requeues_others() {
    let deleted: fn(&mut World) = |world| world.delete("p");
    let bound_elsewhere: fn(&mut World) =
        |world| world.update("p", |pod| pod.spec.node_name = "b".to_owned());
    let refused = [
        Answer::Gone("pods \"p\" not found".to_owned()),
        Answer::Error("x".to_owned()),
        Answer::Conflict("x".to_owned()),
    ];
    for goes in [deleted, bound_elsewhere] {
        for refused in &refused {
            let mut world = world([token(), writer("Writer", RUN)]);
            world.schedule(pod("p"));
            let effect = world.take_write();
            world.schedule(pod("q"));
            goes(&mut world);
            world.run_for(5);
            assert_eq!(world.place("q"), "unschedulable", "the token is still taken");
            world.answer(effect, refused);
            world.run_for(15);
            assert_eq!(world.place("q"), "placed");
        }
    }
}

#[test]
fn recreated_pod_with_an_open_bind_is_not_bound_twice() {
    let mut world = Setup::new([fit()]).nodes(&["a", "b"]);
    world.schedule(pod("p"));
    let known = world.server[&key("p")].clone();
    world.delete("p");
    let restored = world.store(known);
    world.see(&restored.name);
    world.try_attempt();
    let binds =
        world.history.iter().filter(|effect| matches!(effect.kind, EffectKind::Bind { .. }));
    assert_eq!(binds.count(), 1);
    let (bind, _) = world.take_bind("p");
    world.answer(bind, &Answer::Error("refused".to_owned()));
    world.run_for(15);
    assert_eq!(world.place("p"), "placed", "and it is not lost");
}

/// Binds pods that carry its name as label.
fn binder(name: &'static str, step: fn(&Pod, &str) -> BindStep) -> Fake {
    fake(name).bind(move |pod, node| match pod.labels.get("binder") {
        Some(label) if label == name => step(pod, node),
        _ => BindStep::Skip,
    })
}

fn post(pod: &Pod, node: &str) -> BindStep {
    BindStep::Bind(Binding { pod: pod.key.clone(), uid: pod.uid.clone(), node: node.into() })
}

#[test]
fn first_bind_plugin_that_does_not_skip_decides() {
    let plugins = || [binder("One", post), binder("Two", post)];
    let mut world = world(plugins());
    world.schedule(pod("p").label("binder", "Two"));
    assert_eq!(world.log.take_of(&["Bind"]), ["Bind One p to a", "Bind Two p to a"]);
    let (bind, _) = world.take_bind("p");
    world.answer(bind, &Answer::Forbidden("not yours".to_owned()));
    let condition = "SchedulerError: running Bind plugin \"Two\": not yours";
    assert_eq!(world.condition("p").as_deref(), Some(condition));
}

#[test]
fn bind_plugin_may_bind_the_pod_itself() {
    let mut world = world([
        binder("Self", |_, _| BindStep::Done(Status::success())),
        binder("Bad", |_, _| BindStep::Done(Status::error("x"))),
        binder("Full", |_, _| BindStep::Done(Status::unschedulable("x"))),
    ]);
    world.schedule(pod("p").label("binder", "Self"));
    assert_eq!((scheduled(&world), world.place("p")), (1, "assumed"));
    world.schedule(pod("q").label("binder", "Bad"));
    let condition = "SchedulerError: running Bind plugin \"Bad\": x";
    assert_eq!(world.condition("q").as_deref(), Some(condition));
    world.schedule(pod("r").label("binder", "Full"));
    assert_eq!(world.condition("r").as_deref(), Some("Unschedulable: x"));
    assert_eq!(world.place("r"), "error backoff");
}

#[test]
fn pod_that_all_bind_plugins_skip_is_requeued_without_report() {
    let mut world = world([binder("One", post)]);
    world.schedule(pod("p"));
    assert_eq!((world.place("p"), world.node_of("p")), ("error backoff", None));
    assert_eq!((world.events(), world.patches("p")), (vec![], vec![]));
}
