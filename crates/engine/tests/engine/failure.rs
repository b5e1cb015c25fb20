//! What becomes of a failed attempt: event, condition, nomination, and where the pod goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use engine::counters::REPEATED_REJECTIONS;
use engine::{EffectKind, Outcome};
use framework::{ActionType, Command, Status, api};
use testkit::{PodBuilder, node, pod};

use crate::harness::*;

/// Turns pods down by their label `turn`.
fn turner() -> Fake {
    fake("Turner").no_events().filter(|pod, _| match pod.labels.get("turn") {
        Some("down") => no("full"),
        Some("over") => Status::error("broken"),
        _ => yes(),
    })
}

fn condition(reason: &str, message: &str) -> api::PodCondition {
    api::PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

const FULL: &str = "0/3 nodes are available: 3 full.";

#[test]
fn failure_is_reported_as_event_and_condition() {
    let rows = [
        ("down", "Unschedulable", FULL, "unschedulable default-scheduler"),
        (
            "over",
            "SchedulerError",
            "running \"Turner\" filter plugin: broken",
            "error default-scheduler",
        ),
    ];
    for (turn, reason, message, counted) in rows {
        let mut world = world([turner()]);
        world.schedule(pod("p").label("turn", turn).with(|pod| pod.metadata.generation = 7));
        let event = format!("Warning FailedScheduling Scheduling: {message}");
        assert_eq!(world.events(), [event]);
        assert_eq!(world.condition("p"), Some(format!("{reason}: {message}")));
        let is_patch = |kind: &EffectKind| {
            matches!(kind, EffectKind::PatchPodStatus { observed_generation: 7, .. })
        };
        assert!(world.history.iter().any(|effect| is_patch(&effect.kind)));
        assert_eq!(world.probe.attempts, [counted]);
    }
}

#[test]
fn unchanged_condition_is_not_written_again() {
    // Condition the pod has, patches.
    let rows = [
        (condition("Unschedulable", FULL), 0),
        (condition("SchedulerError", FULL), 1),
        (condition("Unschedulable", "0/2 nodes are available: 2 full."), 1),
        (api::PodCondition { status: "True".to_owned(), ..condition("Unschedulable", FULL) }, 1),
        (api::PodCondition { type_: "Ready".to_owned(), ..condition("Unschedulable", FULL) }, 1),
    ];
    for (known, patches) in rows {
        let mut world = world([turner()]);
        let with = |pod: &mut api::Pod| pod.status.conditions.push(known.clone());
        world.schedule(pod("p").label("turn", "down").with(with));
        assert_eq!(world.patches("p").len(), patches, "{known:?}");
        assert_eq!(world.events().len(), 1, "the event is recorded each time");
    }
}

#[test]
fn condition_is_written_again_if_another_one_was_written_that_the_watch_has_not_shown() {
    let is_broken = Arc::new(AtomicBool::new(true));
    let switch = is_broken.clone();
    let turner = fake("Turner").no_events().filter(move |_, _| match switch.load(Relaxed) {
        true => Status::error("broken"),
        false => no("full"),
    });
    let broken = "running \"Turner\" filter plugin: broken";
    let mut world = world([turner]);
    let known = condition("SchedulerError", broken);
    world.schedule(pod("p").with(|pod| pod.status.conditions.push(known)));
    assert_eq!(world.patches("p").len(), 0);
    for (breaks, expected) in
        [(false, format!("Unschedulable: {FULL}")), (true, format!("SchedulerError: {broken}"))]
    {
        is_broken.store(breaks, Relaxed);
        world.pass(600);
        world.attempt();
        assert_eq!(world.condition("p"), Some(expected));
    }
}

#[test]
fn long_message_is_cut_in_the_event_only() {
    let long = fake("Long").pre_filter(|_| Err(Status::unschedulable("é".repeat(2000))));
    let mut world = world([long]);
    world.schedule(pod("p"));
    let EffectKind::Event(event) = &world.history[0].kind else { panic!("an event comes first") };
    assert!(event.note.len() <= 1024 && event.note.ends_with(" ..."));
    assert!(world.condition("p").unwrap().len() > 4000);
}

/// A world in which pods fail at the place their label `fails` names, with a node `a`.
fn failing_world() -> World {
    let fails = |pod: &framework::Pod, at: &str| pod.labels.get("fails") == Some(at);
    let plugin = fake("Fragile")
        .no_events()
        .pre_filter(move |pod| match fails(pod, "prefilter") {
            true => Err(Status::error("x")),
            false => Ok(framework::PreFilterResult::default()),
        })
        .filter(move |pod, _| if fails(pod, "filter") { no("x") } else { yes() })
        .score(move |pod, _| if fails(pod, "score") { Ok(-1) } else { Ok(0) })
        .reserve(move |pod, _| if fails(pod, "reserve") { no("x") } else { yes() })
        .permit(move |pod, _| match fails(pod, "permit") {
            true => framework::PermitVerdict::Reject(no("x")),
            false => framework::PermitVerdict::Allow,
        })
        .pre_flight(|_| framework::PreBindPreFlight::Run { allow_parallel: false })
        .pre_bind(move |pod, _| {
            framework::PreBindStep::Done(if fails(pod, "prebind") { no("x") } else { yes() })
        })
        .post_filter(|pod, _, _| framework::PostFilterResult {
            status: no("no help"),
            nominating: match pod.labels.get("nominate") {
                Some(node) => framework::NominatingInfo::Override(node.into()),
                None => framework::NominatingInfo::Noop,
            },
            ..framework::PostFilterResult::default()
        });
    Setup::new([plugin]).nodes(&["a", "b"])
}

#[test]
fn the_nomination_is_cleared_kept_or_set_by_where_the_attempt_failed() {
    type Row = (fn(PodBuilder) -> PodBuilder, &'static str, Option<&'static str>);
    // The pod (nominated to `x`, which does not exist), what is written.
    let rows: [Row; 9] = [
        (|pod| pod.label("fails", "prebind").nominated("a"), "before the bind", Some("")),
        (|pod| pod.label("fails", "prefilter"), "error", Some("")),
        (|pod| pod.label("fails", "score"), "error", Some("")),
        (|pod| pod.label("fails", "filter"), "no fit, nothing nominated", None),
        (|pod| pod.label("fails", "filter").label("nominate", "a"), "no fit", Some("a")),
        (|pod| pod.label("fails", "filter").label("nominate", "x"), "no fit, the same", None),
        (|pod| pod.label("fails", "filter").label("nominate", ""), "no fit, taken away", Some("")),
        (|pod| pod.label("fails", "reserve"), "reserve", Some("")),
        (|pod| pod.label("fails", "permit"), "permit", Some("")),
    ];
    for (change, what, written) in rows {
        let mut world = failing_world();
        world.schedule(change(pod("p").nominated("x")));
        let patches = world.patches("p");
        let [patch] = patches.as_slice() else { panic!("{what}: one patch, not {patches:?}") };
        assert_eq!(patch.nominated_node_name.as_deref(), written, "{what}");
        assert!(patch.condition.is_some(), "{what}: in one go with the condition");
    }
}

#[test]
fn failed_binding_cycle_clears_the_nomination() {
    // Whether the watch shows the nomination before the bind fails.
    for seen in [true, false] {
        let mut world = failing_world();
        world.schedule(pod("p"));
        let (bind, _) = world.take_bind("p");
        if seen {
            world.update("p", |pod| pod.status.nominated_node_name = "a".to_owned());
        }
        world.answer(bind, &refused());
        let patches = world.patches("p");
        let nominations = patches.iter().map(|patch| patch.nominated_node_name.as_deref());
        assert_eq!(nominations.collect::<Vec<_>>(), [Some("a"), Some("")], "seen: {seen}");
    }
}

/// A pod whose Bind to `a` is open.
fn bound_soon() -> (World, engine::EffectId) {
    let mut world = world([fit()]);
    world.schedule(pod("p"));
    let (bind, _) = world.take_bind("p");
    (world, bind)
}

fn refused() -> framework::Answer {
    framework::Answer::Error("refused".to_owned())
}

#[test]
fn failure_of_a_deleted_pod_is_reported_without_requeueing() {
    let (mut world, bind) = bound_soon();
    world.delete("p");
    world.answer(bind, &refused());
    assert_eq!((world.place("p"), world.engine.queue().counts()), ("nowhere", Default::default()));
    assert_eq!((world.events().len(), world.patches("p").len()), (1, 1));
}

#[test]
fn failure_of_a_bound_pod_is_reported_without_requeueing() {
    let (mut world, bind) = bound_soon();
    world.update("p", |pod| pod.spec.node_name = "b".to_owned());
    world.answer(bind, &refused());
    assert_eq!((world.place("p"), world.engine.queue().counts()), ("placed", Default::default()));
    assert_eq!(world.events().len(), 1);
}

#[test]
fn failure_of_a_replaced_pod_is_not_reported() {
    let (mut world, bind) = bound_soon();
    world.pod(pod("p").uid("new").gate("hold"));
    let before = world.engine.queue().counts();
    world.answer(bind, &refused());
    assert_eq!(world.engine.queue().counts(), before);
    assert_eq!((world.events(), world.patches("p")), (vec![], vec![]));
}

#[test]
fn failed_pod_is_requeued_with_its_latest_object() {
    let (mut world, bind) = bound_soon();
    world.update("p", |pod| drop(pod.metadata.labels.insert("new".into(), "yes".into())));
    world.answer(bind, &refused());
    let (_, queued) = world.engine.queue().get(&key("p")).unwrap();
    assert_eq!(queued.pod.labels.get("new"), Some("yes"));
    assert_eq!((queued.history.attempts, queued.history.consecutive_errors), (1, 1));
}

#[test]
fn pods_that_make_no_sense_to_try_are_skipped() {
    let mut world = world([turner()]);
    world.pod(pod("p"));
    world.terminate("p");
    assert_eq!(world.attempt(), Outcome::Skipped);
    let text = "Warning FailedScheduling Scheduling: skip schedule deleting pod: default/p";
    assert_eq!((world.events(), world.patches("p")), (vec![text.to_owned()], vec![]));
    assert_eq!((world.place("p"), world.engine.queue().counts().in_flight), ("nowhere", 0));
}

/// A world in which `p` was rejected and backs off, and the watch shows its condition. A label of a
/// node wakes it.
fn backing_off(plugin: Fake, p: PodBuilder) -> World {
    let mut world = world([plugin.on(node_event(ActionType::UPDATE_NODE_LABEL))]);
    world.pod(p.label("turn", "down"));
    world.run();
    assert_eq!((world.place("p"), world.events().len()), ("unschedulable", 1));
    world
}

/// Wakes `p` without a change of what its attempt finds.
fn wake(world: &mut World, value: &str) {
    world.node(node("a").label("woken", value));
    assert!(matches!(world.place("p"), "backoff" | "active"));
}

#[test]
fn rejection_that_is_repeated_during_the_backoff_does_not_count() {
    let mut world = backing_off(turner(), pod("p"));
    let effects = world.history.len();
    for round in 0..3 {
        wake(&mut world, &round.to_string());
        assert_eq!(world.attempt(), Outcome::Repeated(FULL.to_owned()));
        assert_eq!((world.place("p"), world.history.len()), ("unschedulable", effects));
    }
    let (_, queued) = world.engine.queue().get(&key("p")).unwrap();
    assert_eq!((queued.history.attempts, queued.history.unschedulable_count), (1, 1));
    assert_eq!(
        (world.probe.attempts.len(), world.probe.counted(&REPEATED_REJECTIONS).len()),
        (1, 3)
    );
    let uid = queued.pod.uid.clone();
    assert_eq!(world.engine.records().of_pod(&uid).len(), 1);

    world.node(node("d").label("woken", "yes"));
    wake(&mut world, "again");
    let text = FULL.replace('3', "4");
    assert_eq!(world.attempt(), Outcome::Unschedulable(text), "the text has changed");
    world.run();
    assert_eq!((world.events().len(), world.patches("p").len()), (2, 2));
    wake(&mut world, "and again");
    assert!(matches!(world.attempt(), Outcome::Repeated(_)));
    world.pass(5);
    wake(&mut world, "later");
    assert!(matches!(world.attempt(), Outcome::Unschedulable(_)), "the backoff is over");
    let (_, queued) = world.engine.queue().get(&key("p")).unwrap();
    assert_eq!((queued.history.attempts, queued.history.unschedulable_count), (3, 3));
}

#[test]
fn rejection_counts_while_the_watch_does_not_show_its_condition() {
    let mut world = world([turner().on(node_event(ActionType::UPDATE_NODE_LABEL))]);
    world.schedule(pod("p").label("turn", "down"));
    for (round, events) in [(0, 2), (1, 3)] {
        wake(&mut world, &round.to_string());
        assert!(matches!(world.attempt(), Outcome::Unschedulable(_)));
        assert_eq!((world.events().len(), world.patches("p").len()), (events, events));
    }
    world.run();
    wake(&mut world, "shown");
    assert!(matches!(world.attempt(), Outcome::Repeated(_)));
    // Another writer.
    world.update("p", |pod| pod.status.conditions[0].message = "another".to_owned());
    wake(&mut world, "overwritten");
    assert!(matches!(world.attempt(), Outcome::Unschedulable(_)));
}

#[test]
fn rejection_counts_if_a_plugin_gives_a_command_or_the_pod_is_nominated() {
    let helper = turner().post_filter(|_, _, handle| {
        let at = handle.now + Duration::from_mins(1);
        handle.command(Command::SetTimer { plugin: "Turner".into(), at, token: 1 });
        no("no help").into()
    });
    let keeper = turner().post_filter(|_, _, _| no("no help").into());
    for (plugin, p) in [(helper, pod("p")), (keeper, pod("p").nominated("a"))] {
        let mut world = backing_off(plugin, p);
        wake(&mut world, "yes");
        assert!(matches!(world.attempt(), Outcome::Unschedulable(_)));
        assert_eq!(world.probe.counted(&REPEATED_REJECTIONS).len(), 0);
    }
}
