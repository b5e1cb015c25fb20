//! Commands of plugins outside PreBind: writes, and changes that the watch has not shown yet.

use engine::EffectKind;
use framework::{
    ActionType, Answer, ClusterEvent, Command, EventResource, ObjectUpdate, Pod, PostFilterResult,
    Write, WriteAction,
};
use serde_json::json;
use testkit::pod;

use crate::harness::*;

fn deletion() -> Write {
    Write {
        api_version: "v1".into(),
        resource: "configmaps".into(),
        namespace: "default".into(),
        name: "x".into(),
        subresource: None,
        flow: "".into(),
        action: WriteAction::Delete("uid-x".into()),
    }
}

fn command(pod: &Pod) -> Command {
    Command::Write { pod: pod.key.clone(), uid: pod.uid.clone(), write: deletion() }
}

/// A world with an unschedulable pod whose PostFilter has asked for a deletion.
fn after_post_filter() -> World {
    let full = fake("Full").no_events().filter(|_, _| no("full"));
    let helps = fake("Helps").post_filter(|pod, _, handle| {
        handle.command(command(pod));
        PostFilterResult::from(no("deletes x"))
    });
    let mut world = world([full, helps]);
    world.schedule(pod("p"));
    assert_eq!(world.place("p"), "unschedulable");
    world
}

#[test]
fn write_of_post_filter_is_an_effect_and_its_success_moves_nothing() {
    let mut world = after_post_filter();
    let effect = world.take_open(|kind| matches!(kind, EffectKind::Write(_)));
    assert_eq!(effect.kind, EffectKind::Write(deletion()));
    world.answer(effect.id, &Answer::ok());
    assert_eq!(world.place("p"), "unschedulable");
}

#[test]
fn failed_write_puts_the_pod_on_error_backoff() {
    let rows = [
        (Answer::Gone("not found".to_owned()), "unschedulable"),
        (Answer::Conflict("another version".to_owned()), "error backoff"),
        (Answer::Forbidden("no permission".to_owned()), "error backoff"),
        (Answer::Error("invalid".to_owned()), "error backoff"),
    ];
    for (answer, place) in rows {
        let mut world = after_post_filter();
        let write = world.take_write();
        world.answer(write, &answer);
        assert_eq!(world.place("p"), place, "{answer:?}");
    }
}

#[test]
fn write_with_a_lost_answer_is_repeated_three_times() {
    let mut world = after_post_filter();
    for _ in 0..3 {
        let write = world.take_write();
        world.answer(write, &Answer::Unknown("lost".to_owned()));
        assert_eq!(world.place("p"), "unschedulable");
    }
    let write = world.take_write();
    world.answer(write, &Answer::Unknown("lost".to_owned()));
    assert_eq!(world.place("p"), "error backoff");
}

#[test]
fn change_reported_by_a_plugin_moves_pods_that_wait_for_it() {
    let claims = ClusterEvent::new(EventResource::ResourceClaim, ActionType::UPDATE);
    let waits = fake("Waits").on(claims).filter(|pod, _| match &*pod.key.name {
        "waiting" => no("no device"),
        _ => yes(),
    });
    let reports = fake("Reports").post_filter(|_, _, _| PostFilterResult::from(no("no help")));
    let reserve = fake("Reserves").permit(|_, handle| {
        let claim = |version: u64| {
            Some(testkit::object(EventResource::ResourceClaim, json!({ "v": version })))
        };
        let update = ObjectUpdate { old: claim(1), new: claim(2) };
        handle.command(Command::ObjectChanged(Box::new(update)));
        framework::PermitVerdict::Allow
    });
    let mut world = world([waits, reports, reserve]);
    world.schedule(pod("waiting"));
    assert_eq!(world.place("waiting"), "unschedulable");
    world.schedule(pod("other"));
    assert_ne!(world.place("waiting"), "unschedulable");
}
