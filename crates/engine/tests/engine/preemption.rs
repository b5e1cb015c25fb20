//! Evictions: the chain of effects, who is held back meanwhile, and what becomes of failures.

use std::time::Duration;

use engine::counters::PREEMPTION_PAUSES;
use engine::{EffectKind, Event, ObjectRef, Outcome};
use framework::*;
use testkit::{PodBuilder, node, pod};

use crate::harness::*;

fn setup(more: impl IntoIterator<Item = Fake>) -> Setup {
    Setup::new([fit()].into_iter().chain(more)).plugin(preempting())
}

fn small(name: &str) -> testkit::NodeBuilder {
    node(name).allocatable("cpu", "4")
}

fn important(cpu: &str) -> PodBuilder {
    pod("p").cpu(cpu).priority(100)
}

/// A node `n` of 4 CPUs full of pods `v1` … `v4`, and the attempt with a pod that wants `cpu` of
/// it.
fn preempted(cpu: &str) -> World {
    let mut world = setup([]).build();
    world.node(small("n"));
    for (name, priority) in [("v1", 1), ("v2", 2), ("v3", 3), ("v4", 4)] {
        world.pod(pod(name).cpu("1").priority(priority).on("n"));
    }
    let outcome = world.schedule(important(cpu));
    assert!(matches!(outcome, Outcome::Unschedulable(_)), "{outcome:?}");
    world
}

fn preempted_events(world: &World) -> Vec<Event> {
    let events = world.history.iter().filter_map(|effect| match &effect.kind {
        EffectKind::Event(event) if event.reason == "Preempted" => Some(event.clone()),
        _ => None,
    });
    events.collect()
}

#[test]
fn condition_of_a_preemptor_names_the_node_that_was_found_from_1_37_on() {
    let found = " found a potential placement for pod on node n, preempting 2 victims";
    for (level, expected) in [(Level::V1_36, ""), (Level::V1_37, found)] {
        let mut world = setup([]).level(level).build();
        world.node(small("n"));
        for (name, priority) in [("v1", 1), ("v2", 2), ("v3", 3), ("v4", 4)] {
            world.pod(pod(name).cpu("1").priority(priority).on("n"));
        }
        world.schedule(important("2"));
        let message = world.condition("p").expect("the condition was written");
        let fit_error = "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.";
        assert_eq!(message, format!("{fit_error}{expected}"), "{level}");
    }
}

#[test]
fn preemptor_is_nominated_and_binds_when_the_room_is_free() {
    let mut world = preempted("2");
    assert_eq!(world.patches("p")[0].nominated_node_name.as_deref(), Some("n"));
    assert_eq!(world.place("p"), "unschedulable");
    world.run_for(2);
    assert_eq!(world.node_of("p").as_deref(), Some("n"));
    assert_eq!((world.place("v3"), world.place("v4")), ("placed", "placed"));
    assert_eq!((world.place("v1"), world.place("v2")), ("nowhere", "nowhere"));
}

#[test]
fn last_victim_is_evicted_after_the_others() {
    let mut world = preempted("3");
    assert_eq!(world.open_evictions(), ["v3", "v2"]);
    for name in ["v2", "v3"] {
        let (effect, eviction) = world.take_eviction(name);
        let message = "default-scheduler: preempting to accommodate a higher priority pod";
        assert_eq!(eviction.condition_message.as_deref(), Some(message));
        assert_eq!(world.open_evictions().len(), usize::from(name == "v2"));
        world.answer(effect, &Answer::ok());
    }
    assert_eq!(world.open_evictions(), ["v1"]);
}

#[test]
fn victim_gets_an_event_that_names_the_preemptor() {
    let mut world = preempted("1");
    let (effect, _) = world.take_eviction("v1");
    world.answer(effect, &Answer::ok());
    let [event] = &preempted_events(&world)[..] else { panic!("one event") };
    assert_eq!((event.regarding.clone(), &*event.action), (key("v1"), "Preempting"));
    assert_eq!(event.note, "Preempted by pod uid-p on node n");
    let preemptor = ObjectRef { pod: key("p"), uid: "uid-p".into() };
    assert_eq!(event.related, Some(preemptor));
}

#[test]
fn victim_is_evicted_once_until_the_watch_shows_its_end() {
    let mut world = preempted("1");
    let (effect, _) = world.take_eviction("v1");
    world.answer(effect, &Answer::ok());
    for _ in 0..5 {
        world.pass(400);
        world.run();
    }
    assert_eq!(world.evictions(), ["v1"]);
    assert_eq!(world.probe.counted(&PREEMPTION_PAUSES), [""; 0], "nor is that in vain");
    world.delete("v1");
    world.run();
    assert_eq!(world.place("p"), "placed");
}

#[test]
fn preemptor_activated_before_its_victim_ends_evicts_no_other_pod() {
    let mut world = setup([]).build();
    world.node(small("a"));
    world.node(small("b"));
    world.pod(pod("one").cpu("3").priority(1).on("a"));
    for (name, priority) in [("of-two", 1), ("of-two-too", 0), ("vital", 1_000)] {
        world.pod(pod(name).cpu("1").priority(priority).on("b"));
    }
    world.schedule(important("3"));
    let (effect, _) = world.take_eviction("one");
    world.answer(effect, &Answer::ok());
    world.delete("vital");
    for _ in 0..5 {
        world.pass(1_000);
        world.run();
    }
    assert_eq!(world.evictions(), ["one"], "though one less important pod on b would do now");
    world.delete("one");
    world.run_for(2);
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
}

#[test]
fn priorities_at_their_limits_and_pods_without_start_are_in_order() {
    let mut world = setup([]).build();
    for (node, name, priority) in [("a", "v1", i32::MAX - 1), ("b", "v2", i32::MIN), ("c", "v3", 0)]
    {
        world.node(small(node));
        world.pod(pod(name).cpu("4").priority(priority).on(node));
    }
    for (name, priority) in [("p1", i32::MAX), ("p2", i32::MAX), ("p3", i32::MIN)] {
        world.pod(pod(name).cpu("4").priority(priority));
    }
    world.run_for(5);
    assert_eq!(world.evictions(), ["v2", "v3"]);
    assert_eq!((world.place("v1"), world.place("p3")), ("placed", "unschedulable"));
}

#[test]
fn preemptor_is_gated_until_its_last_victim_ends() {
    let mut world = preempted("3");
    world.delete("v3");
    assert_eq!(world.place("p"), "gated", "its room is not complete");
    for name in ["v3", "v2"] {
        let (effect, _) = world.take_eviction(name);
        world.answer(effect, &Answer::Gone("not found".to_owned()));
    }
    world.delete("v2");
    assert_eq!(world.place("p"), "gated", "the last victim is there");
    world.terminate("v1");
    world.delete("v1");
    assert_eq!(world.place("p"), "backoff", "also before the answer");
    assert_eq!(world.attempt(), Outcome::Assumed("n".into()));
}

/// As [`preempted`], with a pod `other` on a node `m`. The API server has evicted the last victim,
/// `v1`, and the watch shows that its removal follows.
fn preempted_without_grace_period() -> World {
    let mut world = preempted("2");
    world.node(small("m"));
    world.pod(pod("vital").cpu("3").priority(1_000).on("m"));
    world.pod(pod("other").cpu("1").priority(1_000).on("m"));
    let (effect, _) = world.take_eviction("v2");
    world.answer(effect, &Answer::ok());
    world.delete("v2");
    let (effect, _) = world.take_eviction("v1");
    world.update("v1", |pod| {
        pod.metadata.deletion_timestamp = Some("2025-06-01T12:00:00Z".to_owned());
        pod.metadata.deletion_grace_period_seconds = Some(0);
    });
    world.answer(effect, &Answer::ok());
    world
}

#[test]
fn preemptor_is_not_tried_right_before_the_removal_of_its_last_victim() {
    let mut world = preempted_without_grace_period();
    world.delete("other");
    assert_eq!((world.place("p"), world.try_attempt()), ("gated", None));
    world.delete("v1");
    assert_eq!(world.attempt(), Outcome::Assumed("n".into()));
    assert_eq!(world.probe.attempts, ["unschedulable default-scheduler"]);
}

#[test]
fn preemptor_does_not_wait_for_a_removal_that_does_not_follow() {
    let mut world = preempted_without_grace_period();
    world.pass_for(Duration::from_millis(999));
    world.delete("other");
    assert_eq!(world.place("p"), "gated");
    world.pass_for(Duration::from_millis(1));
    world.delete("vital");
    world.run_for(2);
    assert_eq!(world.node_of("p").as_deref(), Some("m"));
}

#[test]
fn eviction_of_a_deleted_victim_neither_fails_nor_is_reported() {
    let mut world = preempted("2");
    for name in ["v2", "v1"] {
        let (effect, _) = world.take_eviction(name);
        world.answer(effect, &Answer::Gone("not found".to_owned()));
    }
    assert!(preempted_events(&world).is_empty());
    assert_eq!(world.place("p"), "unschedulable", "the watch will tell");
}

#[test]
fn failed_eviction_sends_the_preemptor_to_error_backoff() {
    let failures: [Answer; 4] = [
        Answer::Forbidden("no".to_owned()),
        Answer::Error("boom".to_owned()),
        Answer::Throttled("later".to_owned()),
        Answer::Unknown("lost".to_owned()),
    ];
    for failure in failures {
        let mut world = preempted("3");
        let (first, _) = world.take_eviction("v3");
        let (second, _) = world.take_eviction("v2");
        world.answer(first, &failure);
        assert_eq!(world.place("p"), "unschedulable", "the others are waited for");
        world.answer(second, &Answer::ok());
        assert_eq!(world.open_evictions(), [""; 0], "the last victim is spared");
        assert_eq!(world.place("p"), "error backoff", "{failure:?}");
        world.pass(2);
        assert!(matches!(world.attempt(), Outcome::Unschedulable(_)));
        assert_eq!(world.open_evictions(), ["v3"], "and tries again; v2 is on its way out");
    }
}

#[test]
fn failures_in_a_row_make_the_pauses_longer() {
    let mut world = preempted("1");
    let mut pauses = Vec::new();
    for _ in 0..6 {
        let (effect, _) = world.take_eviction("v1");
        world.answer(effect, &Answer::Forbidden("no".to_owned()));
        let (_, queued) = world.engine.queue().get(&key("p")).unwrap();
        pauses.push(queued.history.backoff_expiration.unwrap().since(world.now).as_secs());
        world.pass(12);
        world.attempt();
    }
    assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
}

#[test]
fn gated_preemptor_is_requeued_after_a_failed_eviction() {
    let mut world = preempted("2");
    world.delete("v4");
    assert_eq!(world.place("p"), "gated");
    let (effect, _) = world.take_eviction("v2");
    world.answer(effect, &Answer::Error("boom".to_owned()));
    assert_eq!(world.place("p"), "error backoff");
}

#[test]
fn victims_that_are_ending_are_waited_for_and_not_evicted_again() {
    let mut world = preempted("1");
    let (effect, _) = world.take_eviction("v1");
    world.update("v1", |pod| {
        pod.metadata.deletion_timestamp = Some("2025-06-01T12:00:00Z".to_owned());
        pod.status.conditions.push(api::PodCondition {
            type_: DISRUPTION_TARGET.to_owned(),
            status: "True".to_owned(),
            reason: PREEMPTION_BY_SCHEDULER.to_owned(),
            message: String::new(),
        });
    });
    world.answer(effect, &Answer::ok());
    world.update("p", |pod| pod.status.nominated_node_name = "n".to_owned());
    world.pass(400);
    let outcome = world.attempt();
    let reason = "not eligible due to a terminating pod on the nominated node.";
    assert!(
        matches!(&outcome, Outcome::Unschedulable(text) if text.ends_with(reason)),
        "{outcome:?}"
    );
    assert_eq!(world.open_evictions(), [""; 0]);
    let nominator = world.engine.nominator();
    assert_eq!(nominator.node_of(&"uid-p".into()).map(|node| &**node), Some("n"));
}

#[test]
fn last_victim_is_not_evicted_for_a_deleted_preemptor() {
    let mut world = preempted("2");
    let (effect, _) = world.take_eviction("v2");
    world.delete("p");
    world.answer(effect, &Answer::ok());
    assert_eq!(world.open_evictions(), [""; 0]);
}

/// A pod that clears the nomination of a less important one, whose object still shows it, and keeps
/// that of a more important one.
fn cleared_nomination() -> World {
    let [held, _] = held();
    let mut world = setup([held]).build();
    world.node(small("n"));
    world.pod(pod("v").cpu("4").on("n"));
    for (name, priority) in [("lower", 50), ("higher", 150)] {
        let guest = pod(name).priority(priority).nominated("n").label("held", "yes");
        world.pod(guest.with(|pod| pod.spec.preemption_policy = Some("Never".to_owned())));
        world.attempt();
    }
    world.schedule(important("4"));
    world
}

#[test]
fn lower_nominations_to_the_node_end() {
    let world = cleared_nomination();
    let cleared = |name: &str| {
        let patches = world.patches(name);
        patches.iter().any(|patch| patch.nominated_node_name.as_deref() == Some(""))
    };
    assert_eq!((cleared("lower"), cleared("higher")), (true, false));
    let nominator = world.engine.nominator();
    assert_eq!(nominator.node_of(&"uid-lower".into()), None);
    assert!(nominator.node_of(&"uid-higher".into()).is_some());
}

#[test]
fn cleared_nomination_does_not_come_back_while_the_watch_lags() {
    let mut world = cleared_nomination();
    let node_of = |world: &World| {
        world.engine.nominator().node_of(&"uid-lower".into()).map(ToString::to_string)
    };
    world.update("lower", |pod| pod.spec.priority = Some(60));
    assert_eq!(node_of(&world), None, "the patch is not carried out");
    world.update("lower", |pod| pod.status.nominated_node_name.clear());
    world.update("lower", |pod| pod.status.nominated_node_name = "n".to_owned());
    assert_eq!(node_of(&world).as_deref(), Some("n"), "others have nominated it again");
}

#[test]
fn two_preemptors_never_count_the_same_room() {
    let mut world = setup([]).build();
    world.node(small("n"));
    for name in ["v1", "v2"] {
        world.pod(pod(name).cpu("2").on("n"));
    }
    world.schedule(pod("p").cpu("2").priority(100));
    world.schedule(pod("q").cpu("2").priority(100));
    let mut evicted = world.open_evictions();
    evicted.sort_unstable();
    assert_eq!(evicted, ["v1", "v2"], "the second one makes room beside the first");
    world.run_for(3);
    assert_eq!((world.place("p"), world.place("q")), ("placed", "placed"));
}

#[test]
fn victim_being_evicted_is_not_evicted_for_another_pod() {
    let mut world = preempted("1");
    world.schedule(pod("q").cpu("1").priority(100));
    assert_eq!(world.open_evictions(), ["v1", "v2"], "q needs both gone");
    world.run_for(3);
    assert_eq!((world.place("p"), world.place("q")), ("placed", "placed"));
    assert_eq!(world.evictions(), ["v1", "v2"]);
}

#[test]
fn all_preemptors_that_count_on_a_victim_try_again_if_it_stays() {
    let mut world = preempted("1");
    world.pod(pod("q").cpu("1").priority(101));
    assert!(matches!(world.attempt(), Outcome::Unschedulable(_)));
    assert_eq!(world.open_evictions(), ["v1"], "it will do for q, whom p gives way to");
    let (effect, _) = world.take_eviction("v1");
    world.delete("p");
    world.answer(effect, &Answer::Error("boom".to_owned()));
    assert_eq!(world.place("q"), "error backoff");
    world.run_for(3);
    assert_eq!(world.place("q"), "placed");
}

#[test]
fn preemptor_whose_nomination_was_cleared_tries_again_if_its_victim_stays() {
    let mut world = preempted("1");
    world.schedule(pod("q").cpu("1").priority(101));
    world.schedule(pod("r").cpu("2").priority(102));
    assert_eq!(world.open_evictions(), ["v1", "v2"], "q counts on the eviction of v1 for p");
    assert_eq!(world.engine.nominator().node_of(&"uid-q".into()), None);
    assert_eq!(world.place("q"), "unschedulable");
    let (effect, _) = world.take_eviction("v1");
    world.answer(effect, &Answer::Forbidden("no".to_owned()));
    assert_eq!(world.place("q"), "error backoff");
}

#[test]
fn preemptors_that_count_on_a_victim_on_another_node_try_again_if_it_stays() {
    let mut world = setup([]).build();
    world.node(small("a"));
    world.schedule(pod("v").cpu("4"));
    world.schedule(important("4"));
    let (bind, _) = world.take_bind("v");
    world.answer(bind, &Answer::Error("boom".to_owned()));
    world.delete("p");
    world.delete_node("a");
    world.node(small("b"));
    world.pass(2);
    assert_eq!(world.attempt(), Outcome::Assumed("b".into()));
    world.schedule(pod("q").cpu("4").priority(100));
    assert_eq!(world.place("q"), "unschedulable");
    let (eviction, _) = world.take_eviction("v");
    assert_eq!(world.open_evictions(), [""; 0], "v is evicted once, wherever it is");
    world.answer(eviction, &Answer::Error("boom".to_owned()));
    assert_eq!(world.place("q"), "error backoff");
}

#[test]
fn room_of_a_deleted_preemptor_is_offered_even_if_its_status_never_named_the_node() {
    let mut world = setup([]).build();
    world.node(small("n"));
    world.pod(pod("v").cpu("1").on("n"));
    world.schedule(important("4"));
    world.schedule(pod("q").cpu("2"));
    assert_eq!(world.place("q"), "unschedulable");
    world.delete("p");
    assert_eq!(world.place("q"), "backoff");
}

/// Two nodes with a pod each of the same application, whose budget allows to evict one; and one
/// node with a pod of higher priority.
fn world_with_budget() -> World {
    let mut world = setup([]).build();
    for (node, name, priority) in [("a", "web1", 1), ("b", "web2", 1), ("c", "db", 50)] {
        world.node(small(node));
        let app = name.trim_end_matches(char::is_numeric);
        world.pod(pod(name).cpu("4").label("app", app).priority(priority).on(node));
    }
    world.budget(1);
    world
}

#[test]
fn evictions_count_against_budgets_before_their_status_shows_it() {
    let mut world = world_with_budget();
    world.schedule(pod("p").cpu("4").priority(100));
    world.schedule(pod("q").cpu("4").priority(100));
    assert_eq!(world.open_evictions(), ["web1", "db"], "no budget is violated twice");
}

#[test]
fn eviction_shown_by_a_budget_counts_once() {
    let mut world = world_with_budget();
    world.schedule(pod("p").cpu("4").priority(100));
    world.terminate("web1");
    world.budget(1);
    world.schedule(pod("q").cpu("4").priority(100));
    assert_eq!(world.open_evictions(), ["web1", "web2"], "one more may go");
}

#[test]
fn failed_eviction_does_not_count_against_the_budget() {
    let mut world = world_with_budget();
    world.schedule(pod("p").cpu("4").priority(100));
    let (effect, _) = world.take_eviction("web1");
    world.answer(effect, &Answer::Forbidden("no".to_owned()));
    world.schedule(pod("q").cpu("4").priority(101));
    assert_eq!(world.open_evictions(), ["web1"]);
}

#[test]
fn victim_that_waits_in_permit_is_rejected_without_eviction() {
    let wait = fake("Wait").permit(|pod, _| match pod.labels.get("waits") {
        Some(_) => PermitVerdict::Wait { timeout: Duration::from_mins(1), reason: String::new() },
        None => PermitVerdict::Allow,
    });
    let mut world = setup([wait]).build();
    world.node(small("n"));
    world.schedule(pod("v").cpu("4").label("waits", "yes"));
    assert_eq!(world.place("v"), "assumed");
    world.schedule(important("4"));
    assert_eq!(world.open_evictions(), [""; 0]);
    let text = "SchedulerError: waiting on permit for pod: preempted";
    assert_eq!(world.condition("v").as_deref(), Some(text));
    assert_eq!(world.place("v"), "error backoff");
    let [event] = &preempted_events(&world)[..] else { panic!("one event") };
    assert_eq!(event.note, "Preempted by pod uid-p on node n (in kube-scheduler memory).");
    assert_eq!(world.attempt(), Outcome::Assumed("n".into()), "the preemptor goes next");
    assert_eq!(world.place("p"), "assumed");
}

#[test]
fn victim_in_pre_bind_is_cancelled_and_victim_being_bound_is_evicted() {
    let slow = fake("Slow")
        .pre_flight(|pod| match pod.labels.get("slow") {
            Some(_) => PreBindPreFlight::Run { allow_parallel: false },
            None => PreBindPreFlight::Skip { allow_parallel: true },
        })
        .pre_bind(|_, _| PreBindStep::Wait { timeout: Duration::from_mins(1), objects: vec![] });
    let mut world = setup([slow]).build();
    world.node(small("n"));
    world.schedule(pod("v1").cpu("2").label("slow", "yes").priority(2));
    world.schedule(pod("v2").cpu("2").priority(1));
    world.schedule(important("4"));
    assert_eq!(world.place("v1"), "error backoff");
    let text = "SchedulerError: preempted by Preempting";
    assert_eq!(world.condition("v1").as_deref(), Some(text));
    assert_eq!(world.open_evictions(), ["v2"], "its Bind may have worked");
}

#[test]
fn panic_in_a_dry_run_is_counted_and_fails_only_the_node() {
    let careless = fake("Careless").filter(|pod, node| {
        assert!(pod.priority() == 0 || node.pod_count() > 0, "no pod is there");
        yes()
    });
    let mut world = setup([careless]).nodes(&[]);
    world.node(small("n"));
    world.pod(pod("v").cpu("4").on("n"));
    let outcome = world.schedule(important("4"));
    assert!(
        matches!(&outcome, Outcome::Unschedulable(text) if text.contains("no pod is there")),
        "{outcome:?}"
    );
    assert_eq!(world.probe.panics, ["Careless"]);
}

#[test]
fn nothing_of_the_cluster_changes_in_a_dry_run() {
    let mut world = setup([]).build();
    world.node(small("n"));
    world.pod(pod("v").cpu("4").on("n"));
    let cluster = world.engine.cluster();
    let ix = cluster.node_named("n").unwrap();
    let before = (cluster.node(ix).generation(), cluster.requested().get(ix), cluster.pod_count());
    world.schedule(important("4"));
    let cluster = world.engine.cluster();
    let after = (cluster.node(ix).generation(), cluster.requested().get(ix), cluster.pod_count());
    assert_eq!(before, after);
}
