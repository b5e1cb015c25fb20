//! What the scheduler reports about groups: conditions, which are repeated until the watch shows
//! them, and events.

use engine::{Change, EffectId, EffectKind, EventSubject};
use framework::{Answer, EventResource, ObjectKey};
use serde_json::json;
use testkit::node;

use crate::harness::*;
use crate::pod_groups::{conditions, member, members, places, pod_group, single_pod_nodes};

const REJECTED: &str = "b False Unschedulable: pod group is unschedulable, 1 of 2 fit";

/// A gang of two for which one of its nodes is missing.
fn rejected_gang() -> World {
    let mut world = single_pod_nodes([], 1);
    pod_group(&mut world, "b", 2);
    members(&mut world, "b", 2);
    world.attempt();
    world
}

/// Takes the write of a condition that is not answered.
fn take_write(world: &mut World) -> EffectId {
    let is_condition = |kind: &EffectKind| matches!(kind, EffectKind::Write(_));
    world.take_open(is_condition).id
}

/// The watch shows a condition of the gang `b`.
fn show(world: &mut World, status: &str, reason: &str, message: &str) {
    let condition = json!({
        "type": "PodGroupInitiallyScheduled", "status": status, "reason": reason,
        "message": message,
    });
    let object = json!({
        "metadata": {"namespace": "default", "name": "b", "uid": "uid-b"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        "status": {"conditions": [condition]},
    });
    world.apply(Change::Object(Box::new(testkit::object(EventResource::PodGroup, object))));
}

/// The events about PodGroups, as `reason: note`.
fn group_events(world: &World) -> Vec<String> {
    let events = world.history.iter().filter_map(|effect| match &effect.kind {
        EffectKind::Event(event) if event.subject != EventSubject::Pod => Some(event),
        _ => None,
    });
    events.map(|event| format!("{} {}: {}", event.regarding, event.reason, event.note)).collect()
}

#[test]
fn refused_condition_is_repeated_with_growing_pauses_until_it_is_shown() {
    let mut world = rejected_gang();
    let mut pauses = Vec::new();
    let mut last = world.now;
    for _ in 0..10 {
        let write = take_write(&mut world);
        world.answer(write, &Answer::Error("refused".to_owned()));
        let before = conditions(&world).len();
        while conditions(&world).len() == before {
            world.pass(1);
            world.try_attempt();
        }
        pauses.push(world.now.since(last).as_secs());
        last = world.now;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 120, 120, 120]);
    assert_eq!(conditions(&world), vec![REJECTED; 11]);
    let write = take_write(&mut world);
    show(&mut world, "False", "Unschedulable", "pod group is unschedulable, 1 of 2 fit");
    world.answer(write, &Answer::Error("refused".to_owned()));
    world.pass(600);
    world.try_attempt();
    assert_eq!(conditions(&world).len(), 11, "the watch shows it");
    assert_eq!(group_events(&world).len(), 1, "the event is recorded once");
}

#[test]
fn condition_that_was_stored_and_is_not_shown_is_repeated() {
    let mut world = rejected_gang();
    for answer in [Answer::Unknown("timeout".to_owned()), Answer::ok()] {
        let write = take_write(&mut world);
        world.answer(write, &answer);
        world.pass(119);
        world.try_attempt();
    }
    assert_eq!(conditions(&world).len(), 2, "the lost one is repeated at once");
    world.pass(1);
    world.try_attempt();
    assert_eq!(conditions(&world), vec![REJECTED; 3]);
}

#[test]
fn report_ends_with_its_pod_group() {
    let mut world = rejected_gang();
    let write = take_write(&mut world);
    let key = ObjectKey::namespaced(EventResource::PodGroup, "default".into(), "b".into());
    world.apply(Change::ObjectDeleted(key));
    world.answer(write, &Answer::Conflict("another UID".to_owned()));
    world.pass(600);
    world.try_attempt();
    assert_eq!(conditions(&world).len(), 1);
}

#[test]
fn group_has_an_event_for_each_change_of_its_state() {
    let mut world = single_pod_nodes([], 1);
    pod_group(&mut world, "b", 2);
    members(&mut world, "b", 2);
    world.run();
    world.node(node("other").allocatable("pods", "1").label("x", "y"));
    world.run_for(30);
    assert_eq!(places(&world, "b", 2), ["placed"; 2]);
    let expected = [
        "default/b FailedScheduling: pod group is unschedulable, 1 of 2 fit",
        "default/b Scheduled: Enough pods of the group have a node",
    ];
    assert_eq!(group_events(&world), expected);
}

#[test]
fn group_of_bound_members_is_reported_after_a_restart() {
    let mut world = single_pod_nodes([], 2);
    for number in 0..2 {
        world.pod(member("b", number).on(&format!("n{number}")));
    }
    show(&mut world, "False", "Unschedulable", "too few");
    world.run();
    assert_eq!(conditions(&world), ["b True Scheduled: "]);
    show(&mut world, "True", "Scheduled", "");
    world.run_for(300);
    assert_eq!(conditions(&world).len(), 1);
}

#[test]
fn members_that_wait_for_others_say_so_after_ten_seconds() {
    let mut world = single_pod_nodes([], 3);
    pod_group(&mut world, "b", 20_000);
    members(&mut world, "b", 2);
    world.pod(member("a", 0));
    world.run_for(9);
    assert_eq!(conditions(&world), Vec::<String>::new());
    assert_eq!(world.condition("b0"), None);
    world.run_for(60);
    for name in ["b0", "b1"] {
        assert_eq!(world.condition(name).as_deref(), Some("SchedulingGated: no quorum"));
    }
    assert_eq!(world.condition("a0").as_deref(), Some("SchedulingGated: no PodGroup"));
    let text = "waiting for pods: minCount is 20000, and 2 exist";
    assert_eq!(conditions(&world), [format!("b False Unschedulable: {text}")]);
    assert_eq!(group_events(&world), [format!("default/b FailedScheduling: {text}")]);
    let of_pods = world.events().into_iter().filter(|event| event.contains("Scheduling: no"));
    assert_eq!(of_pods.count(), 3, "one event for each member");
}

/// Each attempt of a group that breaks a rule fails, at most every ten seconds.
#[test]
fn group_that_breaks_a_rule_is_reported_once() {
    let mut world = single_pod_nodes([], 3);
    pod_group(&mut world, "b", 2);
    world.pod(member("b", 0));
    world.pod(member("b", 1).priority(7));
    world.run_for(110);
    let text = "all pods in a single pod group should have the same priority as the pod group's \
                priority, got 7 and 0";
    assert_eq!(conditions(&world), [format!("b False SchedulerError: {text}")]);
    assert_eq!(group_events(&world), [format!("default/b FailedScheduling: {text}")]);
    let of_members = world.events().into_iter().filter(|event| event.contains(text)).count();
    assert!((20..=32).contains(&of_members), "{of_members} events of two members and their group");
    for name in ["b0", "b1"] {
        assert_eq!(world.condition(name), Some(format!("SchedulerError: {text}")));
        assert_eq!(world.patches(name).len(), 1, "the condition is written once");
    }
}
