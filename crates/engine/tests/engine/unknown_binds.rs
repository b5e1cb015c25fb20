//! Binds whose answer is lost: the pod keeps its room until the request can no longer be carried
//! out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use engine::counters::BINDS_OF_UNKNOWN_OUTCOME;
use engine::cycle::Extender;
use engine::{EffectId, EffectKind};
use framework::{Answer, Binding};
use testkit::pod;

use crate::binding::{answer_read, scheduled, world_with_bind};
use crate::harness::*;

fn lost() -> Answer {
    Answer::Unknown("timeout".to_owned())
}

/// Loses the answer to the open bind, which does not arrive yet, and lets the pod be read. Returns
/// the version that the bind named.
#[track_caller]
fn lose_bind(world: &mut World) -> u64 {
    let (bind, version) = world.take_bind_at("p");
    world.answer(bind, &lost());
    answer_read(world);
    version
}

/// Lets the API server carry out the fence.
#[track_caller]
fn carry_out_fence(world: &mut World) {
    let fence = world.take_fence();
    let answer = world.fence_on_server(&fence.kind);
    world.answer(fence.id, &answer);
}

#[track_caller]
fn keeps_its_room(world: &World) {
    assert_eq!((world.place("p"), world.place("q")), ("assumed", "unschedulable"));
}

#[track_caller]
fn has_given_up(world: &World, reason: &str) {
    assert_eq!((world.place("p"), world.node_of("p")), ("error backoff", None));
    assert_ne!(world.place("q"), "unschedulable", "its room is free");
    let text = format!(
        "SchedulerError: running Bind plugin \"DefaultBinder\": gave up binding the pod to node \"a\" \
         ({reason}): the outcome was unknown: timeout"
    );
    assert_eq!(world.condition("p"), Some(text));
}

#[test]
fn unbound_pod_is_fenced_and_bound_to_the_same_node_again() {
    let mut world = world_with_bind();
    let (bind, first) = world.take_bind("p");
    world.answer(bind, &lost());
    answer_read(&mut world);
    let read = world.version_of("p");
    carry_out_fence(&mut world);
    let condition = &world.server[&key("p")].status.conditions[0];
    let text = "the outcome of binding the pod to node \"a\" is unknown (try 1 of 5): timeout";
    assert_eq!((&*condition.reason, &*condition.message), ("SchedulerError", text));
    keeps_its_room(&world);

    let (_, version) = world.take_bind_at("p");
    assert!(version > read && version == world.version_of("p"), "the first bind is too old");
    let binds = world.history.iter().filter_map(|effect| match &effect.kind {
        EffectKind::Bind { binding, .. } => Some(binding),
        _ => None,
    });
    assert!(binds.eq([&first, &first]), "only this node may ever get the pod");
}

#[test]
fn failure_of_a_repeated_bind_is_final() {
    let mut world = world_with_bind();
    lose_bind(&mut world);
    carry_out_fence(&mut world);
    let (bind, _) = world.take_bind("p");
    world.answer(bind, &Answer::Error("the webhook is down".to_owned()));
    let condition = "SchedulerError: running Bind plugin \"DefaultBinder\": the webhook is down";
    assert_eq!(world.condition("p").as_deref(), Some(condition));
    assert_eq!((world.place("p"), world.node_of("p")), ("error backoff", None));
}

#[test]
fn bind_that_arrives_before_the_fence_is_found() {
    let mut world = world_with_bind();
    let (bind, binding) = world.take_bind("p");
    world.answer(bind, &lost());
    answer_read(&mut world);
    world.bind_on_server(&binding);
    let fence = world.take_fence();
    let answer = world.fence_on_server(&fence.kind);
    assert!(matches!(answer, Answer::Conflict(_)), "{answer:?}");
    world.answer(fence.id, &answer);
    keeps_its_room(&world);
    answer_read(&mut world);
    assert_eq!((world.place("p"), scheduled(&world)), ("assumed", 1));
}

#[test]
fn watch_that_shows_the_pod_bound_ends_the_fence() {
    let mut world = world_with_bind();
    let (bind, binding) = world.take_bind("p");
    world.answer(bind, &lost());
    answer_read(&mut world);
    world.bind_on_server(&binding);
    world.see("p");
    assert_eq!((world.place("p"), scheduled(&world)), ("placed", 1));
}

#[test]
fn pod_is_given_up_after_five_binds_and_reports_once() {
    let mut world = world_with_bind();
    for _ in 0..5 {
        keeps_its_room(&world);
        lose_bind(&mut world);
        carry_out_fence(&mut world);
    }
    has_given_up(&world, "5 tries");
    let reports = |text: &str| world.events().iter().filter(|event| event.contains(text)).count();
    assert_eq!((reports("is unknown (try"), reports("gave up")), (1, 1));
    assert_eq!(world.probe.counted(&BINDS_OF_UNKNOWN_OUTCOME).len(), 5);
}

#[test]
fn pod_is_not_bound_again_to_a_node_that_is_gone() {
    let mut world = world_with_bind();
    lose_bind(&mut world);
    world.delete_node("a");
    carry_out_fence(&mut world);
    let condition = world.condition("p").unwrap();
    assert!(
        condition.contains("gave up binding the pod to node \"a\" (the node is gone)"),
        "{condition}"
    );
    assert_eq!(world.place("p"), "error backoff");
}

#[test]
fn pod_is_not_bound_again_to_a_node_that_rejects_it() {
    let cordoned = Arc::new(AtomicBool::new(false));
    let flag = cordoned.clone();
    let cordon = fake("Cordon").ignores_pods().filter(move |_, _| match flag.load(Relaxed) {
        true => no("node(s) were unschedulable"),
        false => yes(),
    });
    let mut world = Setup::new([fit(), cordon]).nodes(&["a"]);
    world.schedule(pod("p").cpu("8"));
    world.schedule(pod("q").cpu("8"));
    lose_bind(&mut world);
    cordoned.store(true, Relaxed);
    carry_out_fence(&mut world);
    has_given_up(&world, "node(s) were unschedulable");
}

#[test]
fn pod_keeps_its_room_while_it_is_neither_read_nor_fenced() {
    let mut world = world_with_bind();
    lose_bind(&mut world);
    let refusals = [lost(), Answer::Throttled("later".to_owned()), Answer::Ok(None)];
    for refusal in refusals {
        let fence = world.take_fence();
        world.answer(fence.id, &refusal);
        keeps_its_room(&world);
        let read = world.take_read();
        world.answer(read, &lost());
        keeps_its_room(&world);
        answer_read(&mut world);
    }
    carry_out_fence(&mut world);
    world.take_bind("p");
}

/// Lets the API server refuse the fence, and the pod be read.
#[track_caller]
fn refuse_fence(world: &mut World) {
    let fence = world.take_fence();
    world.answer(fence.id, &Answer::Error("the webhook is down".to_owned()));
    answer_read(world);
}

#[test]
fn pod_whose_fence_is_refused_is_bound_to_the_same_node_again() {
    let mut world = world_with_bind();
    let version = lose_bind(&mut world);
    refuse_fence(&mut world);
    keeps_its_room(&world);
    let (bind, binding) = world.take_bind("p");
    assert_eq!((&*binding.node, version), ("a", world.version_of("p")));
    world.bind_on_server(&binding);
    world.answer(bind, &Answer::ok());
    assert_eq!((world.place("p"), scheduled(&world)), ("assumed", 1));
}

#[test]
fn pod_whose_fence_is_refused_is_given_up_when_no_bind_can_arrive() {
    let mut world = world_with_bind();
    lose_bind(&mut world);
    refuse_fence(&mut world);
    for _ in 0..4 {
        lose_bind(&mut world);
        keeps_its_room(&world);
    }
    refuse_fence(&mut world);
    world.pass(599);
    refuse_fence(&mut world);
    assert_eq!(world.place("p"), "assumed");
    world.pass(1);
    refuse_fence(&mut world);
    has_given_up(&world, "5 tries");
}

#[test]
fn pod_whose_fence_was_refused_is_given_up_when_one_is_carried_out() {
    let mut world = world_with_bind();
    lose_bind(&mut world);
    refuse_fence(&mut world);
    for _ in 0..4 {
        lose_bind(&mut world);
    }
    refuse_fence(&mut world);
    keeps_its_room(&world);
    carry_out_fence(&mut world);
    has_given_up(&world, "5 tries");
}

#[test]
fn pod_whose_fence_is_refused_and_that_has_changed_is_decided_again() {
    let mut world = world_with_bind();
    lose_bind(&mut world);
    world.change("p", |pod| pod.metadata.generation += 1);
    refuse_fence(&mut world);
    assert_eq!((world.place("p"), world.node_of("p")), ("active", None));
}

#[test]
fn pod_that_changes_during_a_repeated_bind_is_decided_again() {
    let mut world = world_with_bind();
    lose_bind(&mut world);
    refuse_fence(&mut world);
    let (bind, _) = world.take_bind("p");
    world.change("p", |pod| pod.metadata.generation += 1);
    world.answer(bind, &Answer::Outdated("Precondition failed".to_owned()));
    answer_read(&mut world);
    assert_eq!((world.place("p"), world.node_of("p")), ("active", None));
}

#[test]
fn pod_that_may_not_be_read_is_fenced_as_the_watch_shows_it() {
    let mut world = world_with_bind();
    let (bind, _) = world.take_bind("p");
    world.answer(bind, &lost());
    let read = world.take_read();
    world.answer(read, &Answer::Forbidden("pods \"p\" is forbidden".to_owned()));
    keeps_its_room(&world);
    carry_out_fence(&mut world);
    let (_, version) = world.take_bind_at("p");
    assert_eq!(version, world.version_of("p"));
}

#[test]
fn pod_that_changed_and_may_not_be_read_fails() {
    let mut world = world_with_bind();
    let (bind, _) = world.take_bind("p");
    world.answer(bind, &Answer::Outdated("Precondition failed".to_owned()));
    let read = world.take_read();
    world.answer(read, &Answer::Forbidden("pods \"p\" is forbidden".to_owned()));
    let text = "SchedulerError: running Bind plugin \"DefaultBinder\": pods \"p\" is forbidden";
    assert_eq!(world.condition("p").as_deref(), Some(text));
    assert_eq!((world.place("p"), world.node_of("p")), ("error backoff", None));
}

#[test]
fn fence_that_changed_nothing_is_no_proof() {
    let mut world = world_with_bind();
    lose_bind(&mut world);
    let fence = world.take_fence();
    let unchanged = world.read_on_server(&key("p"));
    world.answer(fence.id, &unchanged);
    keeps_its_room(&world);
    answer_read(&mut world);
    carry_out_fence(&mut world);
    world.take_bind("p");
}

#[test]
fn pod_with_a_new_specification_is_decided_again_after_the_fence() {
    let mut world = world_with_bind();
    lose_bind(&mut world);
    world.change("p", |pod| pod.metadata.generation += 1);
    let fence = world.take_fence();
    let answer = world.fence_on_server(&fence.kind);
    world.answer(fence.id, &answer);
    answer_read(&mut world);
    carry_out_fence(&mut world);
    assert_eq!((world.place("p"), world.node_of("p")), ("active", None));
}

#[test]
fn fence_is_about_the_specification_of_the_decision() {
    let mut world = world_with_bind();
    let decided = world.server[&key("p")].metadata.generation;
    let (bind, _) = world.take_bind("p");
    world.change("p", |pod| pod.metadata.generation += 1);
    world.answer(bind, &lost());
    answer_read(&mut world);
    let fence = world.take_fence();
    let EffectKind::Fence { observed_generation, .. } = fence.kind else { unreachable!() };
    assert_eq!(Some(observed_generation), decided.into());
}

#[test]
fn pod_deleted_meanwhile_frees_its_room() {
    let mut world = world_with_bind();
    lose_bind(&mut world);
    let fence = world.take_fence();
    world.answer(fence.id, &Answer::Gone("pods \"p\" not found".to_owned()));
    assert_eq!(world.node_of("p"), None);
}

fn take_extender_bind(world: &mut World) -> (EffectId, Binding) {
    let effect = world.take_open(|kind| matches!(kind, EffectKind::ExtenderBind { .. }));
    let EffectKind::ExtenderBind { binding, .. } = effect.kind else { unreachable!() };
    (effect.id, binding)
}

/// An extender that refuses to bind says nothing about its earlier call, which may still be under
/// way.
#[test]
fn bind_by_an_extender_that_then_refuses_keeps_its_room_for_a_while() {
    let refusal = Answer::Error("no".to_owned());
    extender_gives_up(&[lost(), refusal.clone(), refusal.clone(), refusal.clone(), refusal], "no");
}

#[test]
fn bind_by_an_extender_is_given_up_after_a_while() {
    extender_gives_up(&[lost(), lost(), lost(), lost(), lost()], "timeout");
}

/// Lets an extender answer its calls to bind, and checks that the pod keeps its room for 90 seconds
/// after the last one.
#[track_caller]
fn extender_gives_up(answers: &[Answer], error: &str) {
    let mut setup = Setup::new([fit()]);
    setup.extenders = vec![Extender { name: "binds".into(), bind: true, ..Extender::default() }];
    let mut world = setup.nodes(&["a"]);
    world.schedule(pod("p").cpu("8"));
    world.schedule(pod("q").cpu("8"));
    for answer in answers {
        let (bind, _) = take_extender_bind(&mut world);
        world.answer(bind, answer);
        answer_read(&mut world);
        keeps_its_room(&world);
    }
    world.pass(89);
    answer_read(&mut world);
    keeps_its_room(&world);
    world.pass(1);
    answer_read(&mut world);
    let condition = format!(
        "SchedulerError: gave up binding the pod to node \"a\" (5 tries): the outcome was unknown: {error}"
    );
    assert_eq!(world.condition("p"), Some(condition));
    assert_eq!((world.place("p"), world.node_of("p")), ("error backoff", None));
}
