//! What happens to a pod, step by step.

use std::sync::Arc;
use std::time::Duration;

use framework::testing::{node, pod};
use framework::{ActionType, PluginName, Time};

use super::kit::{World, claim_event, key, node_event, plain, pod_deleted};
use crate::queue::{PendingPods, Place, QueueConfig};

fn name(queued: &framework::QueuedPod) -> &str {
    &queued.pod.key.name
}

#[test]
fn a_rejected_pod_waits_for_an_event_that_may_help() {
    let mut world = World::new();
    world.add(&plain("p"));
    assert_eq!(world.place("p"), Some(Place::Active));

    let queued = world.pop();
    assert_eq!((queued.attempts, queued.initial_attempt), (1, Some(world.now)));
    assert_eq!(world.place("p"), None);
    assert_eq!(world.queue.counts(), PendingPods { in_flight: 1, ..PendingPods::default() });

    world.fail(queued, &["Fit"]);
    assert_eq!(world.place("p"), Some(Place::Unschedulable));
    assert_eq!(world.queue.counts(), PendingPods { unschedulable: 1, ..PendingPods::default() });
    world.happens(&node_event(ActionType::DELETE));
    world.happens(&pod_deleted(false));
    assert_eq!(world.place("p"), Some(Place::Unschedulable));
    world.happens(&pod_deleted(true));
    assert_eq!(world.place("p"), Some(Place::Backoff));

    let queued = world.pop();
    assert_eq!(queued.attempts, 2, "nothing else was left to do");
    world.queue.done(&queued.pod.uid);
    assert_eq!(world.queue.counts(), PendingPods::default());
    assert!(world.try_pop().is_none());
    let expected = [
        "active UnschedulablePodAdd",
        "unschedulable ScheduleAttemptFailure",
        "backoff AssignedPodDelete",
        "active PopFromBackoffQ",
    ];
    assert_eq!(world.log.incoming, expected);
}

#[test]
fn active_pods_leave_by_priority_and_time() {
    let mut world = World::new();
    for (name, priority) in [("b", 0), ("c", 0), ("top", 7), ("a", 0), ("low", -1)] {
        world.add(&Arc::new(pod(name).priority(priority).build()));
    }
    world.now = Time::ZERO;
    world.add(&plain("earliest"));
    let order: Vec<_> = std::iter::from_fn(|| world.try_pop()).collect();
    let names: Vec<_> = order.iter().map(name).collect();
    assert_eq!(names, ["top", "earliest", "b", "c", "a", "low"]);
}

#[test]
fn after_an_error_a_pod_waits_until_its_backoff_is_over() {
    let mut world = World::new();
    world.add(&plain("p"));
    let queued = world.pop();
    world.fail(queued, &[]);
    assert_eq!(world.place("p"), Some(Place::ErrorBackoff));
    assert!(!world.queue.has_ready() && world.try_pop().is_none());

    // Failed at 1000.4 s, backs off for 1 s: through the second in which that ends.
    assert_eq!(world.queue.next_deadline(), Some(Time::from_secs(1002)));
    world.wait(1599);
    assert_eq!(world.place("p"), Some(Place::ErrorBackoff));
    world.wait(1);
    assert_eq!(world.place("p"), Some(Place::Active));
    assert_eq!(world.log.incoming.last().unwrap(), "active BackoffComplete");
    assert_eq!(world.queue.next_deadline(), None);

    let queued = world.pop();
    assert_eq!(queued.consecutive_errors, 1);
    world.fail(queued, &["Fit"]);
    let (_, queued) = world.queue.get(&key("p")).unwrap();
    assert_eq!((queued.consecutive_errors, queued.unschedulable_count), (0, 1));
    assert_eq!(queued.timestamp, world.now);
}

#[test]
fn with_backoff_off_pods_come_back_at_once() {
    let mut world = World::new();
    let config = QueueConfig { max_backoff: Duration::ZERO, ..QueueConfig::default() };
    world.queue = crate::queue::Queue::new(config);
    world.add(&plain("p"));
    let queued = world.pop();
    world.fail(queued, &[]);
    assert_eq!(world.place("p"), Some(Place::Active));
}

#[test]
fn what_happens_during_an_attempt_is_not_missed() {
    type Happening = fn(&mut World);
    let rows: [(&[&str], &[Happening], Place); 12] = [
        (&["Fit"], &[], Place::Unschedulable),
        (&["Fit"], &[|w| w.happens(&node_event(ActionType::ADD))], Place::Backoff),
        (&["Fit"], &[|w| w.happens(&node_event(ActionType::UPDATE_NODE_TAINT))], Place::Backoff),
        (&["Fit"], &[|w| w.happens(&claim_event())], Place::Unschedulable),
        (
            &["Fit"],
            &[|w| w.happens(&pod_deleted(false)), |w| w.happens(&pod_deleted(true))],
            Place::Backoff,
        ),
        (&["Deaf"], &[|w| w.happens(&node_event(ActionType::ADD))], Place::Unschedulable),
        (&["~Claims"], &[|w| w.happens(&claim_event())], Place::Active),
        (&["Fit", "~Claims"], &[|w| w.happens(&node_event(ActionType::ADD))], Place::Backoff),
        (
            &["Fit", "~Claims"],
            &[|w| w.happens(&node_event(ActionType::ADD)), |w| w.happens(&claim_event())],
            Place::Active,
        ),
        (&["Deaf"], &[|w| w.on(|q, cx| q.activate(&[key("p")], cx))], Place::Backoff),
        (&["Deaf"], &[|w| w.on(|q, cx| q.activate(&[key("x")], cx))], Place::Unschedulable),
        (&[], &[], Place::ErrorBackoff),
    ];
    for (row, (rejectors, happenings, expected)) in rows.into_iter().enumerate() {
        let mut world = World::new();
        world.add(&plain("p"));
        let queued = world.pop();
        for happening in happenings {
            happening(&mut world);
        }
        world.fail(queued, rejectors);
        assert_eq!(world.place("p"), Some(expected), "row {row}");
        assert_eq!(world.queue.in_flight_events().len(), 0, "row {row}");
    }
}

#[test]
fn a_pod_that_is_not_in_flight_any_more_backs_off() {
    let mut world = World::new();
    world.add(&plain("p"));
    let queued = world.pop();
    world.queue.done(&queued.pod.uid);
    world.fail(queued, &["Deaf"]);
    assert_eq!(world.place("p"), Some(Place::Backoff));
}

#[test]
fn a_gated_pod_hears_only_of_what_opens_its_gate() {
    let mut world = World::new();
    let old = Arc::new(pod("p").gate("example.com/hold").nominated("n").build());
    world.add(&old);
    assert_eq!(world.place("p"), Some(Place::Gated));
    world.happens(&node_event(ActionType::ADD));
    world.on(|queue, cx| queue.activate(&[key("p")], cx));
    world.wait(600_000);
    assert_eq!(world.place("p"), Some(Place::Gated));
    assert_eq!(world.queue.next_deadline(), None, "time does not open a gate");
    let touched = Arc::new(pod("p").gate("example.com/hold").label("a", "b").build());
    world.update(&old, &touched);
    assert_eq!(world.place("p"), Some(Place::Gated));

    world.update(&touched, &plain("p"));
    assert_eq!(world.place("p"), Some(Place::Active));
    let expected = "active UnschedulablePodUpdatePodSchedulingGatesEliminated";
    assert_eq!(world.log.incoming.last().unwrap(), expected);
    let queued = world.pop();
    assert_eq!(queued.gating_plugin, None);
    assert_eq!(
        queued.unschedulable_plugins,
        ["Gates".into()].into(),
        "kept until the next failure"
    );
}

#[test]
fn the_gate_is_looked_at_again_on_its_event_and_before_backoff() {
    let mut world = World::new();
    let wanting = Arc::new(pod("p").label("quota", "wanted").build());
    world.add(&wanting);
    world.happens(&node_event(ActionType::ADD));
    assert_eq!(world.place("p"), Some(Place::Gated), "the node was not the bank");
    world.cluster.set_node(&node("bank").build());
    world.happens(&node_event(ActionType::ADD));
    assert_eq!(world.place("p"), Some(Place::Active));

    let queued = world.pop();
    world.cluster.remove_node("bank");
    world.fail(queued, &["Claims"]);
    assert_eq!(world.place("p"), Some(Place::Unschedulable));
    world.happens(&claim_event());
    assert_eq!(world.place("p"), Some(Place::Gated), "on the way to backoff");
    let (_, queued) = world.queue.get(&key("p")).unwrap();
    let rejectors: Vec<&str> = queued.unschedulable_plugins.iter().map(|name| &**name).collect();
    assert_eq!(rejectors, ["Claims", "Quota"]);
    world.happens(&claim_event());
    assert_eq!(world.place("p"), Some(Place::Gated));
    world.cluster.set_node(&node("bank").build());
    world.happens(&node_event(ActionType::ADD));
    assert_eq!(world.place("p"), Some(Place::Backoff));
}

#[test]
fn an_update_of_the_pod_itself_may_help() {
    let mut world = World::new();
    let old = plain("p");
    world.add(&old);
    let relabelled = Arc::new(pod("p").label("app", "web").build());
    world.update(&old, &relabelled);
    let (_, queued) = world.queue.get(&key("p")).unwrap();
    assert_eq!((&queued.pod, world.log.incoming.len()), (&relabelled, 1), "replaced in place");

    let queued = world.pop();
    world.fail(queued, &["Gates"]);
    world.update(&relabelled, &old);
    assert_eq!(world.place("p"), Some(Place::Unschedulable), "labels are not what Gates looks at");
    let gated = Arc::new(pod("p").gate("example.com/hold").build());
    world.update(&gated, &relabelled);
    assert_eq!(world.place("p"), Some(Place::Backoff));
    assert_eq!(world.queue.get(&key("p")).unwrap().1.pod, relabelled);

    let stranger = plain("stranger");
    world.update(&stranger, &stranger);
    assert_eq!(world.place("stranger"), Some(Place::Active));
    assert_eq!(world.log.incoming.last().unwrap(), "active UnschedulablePodUpdate");
}

#[test]
fn an_update_in_flight_is_kept_for_the_return() {
    let mut world = World::new();
    world.add(&plain("p"));
    let queued = world.pop();
    let gated = Arc::new(pod("p").gate("example.com/hold").build());
    world.update(&gated, &plain("p"));
    assert_eq!(world.place("p"), None);
    world.fail(queued, &["Gates"]);
    assert_eq!(world.place("p"), Some(Place::Backoff));
}

#[test]
fn a_pod_of_another_uid_is_another_pod() {
    let mut world = World::new();
    let [first, second] = ["1", "2"].map(|uid| Arc::new(pod("p").uid(uid).build()));
    world.add(&first);
    let queued = world.pop();
    world.fail(queued, &["Deaf"]);
    world.update(&first, &second);
    let (place, queued) = world.queue.get(&key("p")).unwrap();
    assert_eq!((place, queued.attempts), (Place::Active, 0));
    world.on(|queue, cx| queue.delete(&first, cx));
    assert_eq!(world.place("p"), Some(Place::Active), "the deletion is not about this one");
    world.on(|queue, cx| queue.delete(&second, cx));
    assert_eq!(world.place("p"), None);
}

#[test]
fn the_record_of_a_replaced_pod_is_dropped_on_return() {
    let mut world = World::new();
    let [first, second] = ["1", "2"].map(|uid| Arc::new(pod("p").uid(uid).build()));
    world.add(&first);
    let queued = world.pop();
    world.add(&second);
    world.fail(queued, &["Deaf"]);
    let (place, queued) = world.queue.get(&key("p")).unwrap();
    assert_eq!((place, &queued.pod), (Place::Active, &second));
    assert!(!world.queue.is_in_flight(&first.uid));
}

#[test]
fn a_pod_in_flight_is_not_popped_a_second_time() {
    let mut world = World::new();
    world.add(&plain("p"));
    let queued = world.pop();
    world.add(&plain("p"));
    world.add(&plain("q"));
    assert_eq!(name(&world.pop()), "q");
    world.fail(queued, &["Fit"]);
    assert_eq!(world.place("p"), Some(Place::Unschedulable));
}

#[test]
fn an_unschedulable_pod_is_tried_again_after_five_minutes() {
    let mut world = World::new();
    world.add(&plain("p"));
    let queued = world.pop();
    world.fail(queued, &["Deaf"]);
    // Rejected at 1000.4 s; 1300.4 s are up at the next multiple of 30 s.
    assert_eq!(world.queue.next_deadline(), Some(Time::from_secs(1320)));
    world.wait(319_599);
    assert_eq!(world.place("p"), Some(Place::Unschedulable));
    world.add(&plain("bystander"));
    let in_flight = world.pop();
    world.wait(1);
    assert_eq!(world.place("p"), Some(Place::Active));
    assert_eq!(world.log.incoming.last().unwrap(), "active UnschedulableTimeout");
    world.on(crate::queue::Queue::tick);
    assert_eq!(world.queue.in_flight_events().len(), 1, "a second tick changes nothing");

    world.fail(in_flight, &["Deaf"]);
    assert_eq!(world.place("bystander"), Some(Place::Backoff), "whoever is in flight hears of it");
}

#[test]
fn activation_spares_the_wait_but_not_the_gate() {
    let mut world = World::new();
    for name in ["rejected", "failed", "backing-off"] {
        world.add(&plain(name));
    }
    let popped: Vec<_> = std::iter::from_fn(|| world.try_pop()).collect();
    for (queued, rejectors) in popped.into_iter().zip([&["Deaf"][..], &[], &["Fit"]]) {
        world.fail(queued, rejectors);
    }
    world.happens(&node_event(ActionType::ADD));
    let gated = Arc::new(pod("gated").gate("example.com/hold").build());
    world.add(&gated);
    let all = ["rejected", "failed", "backing-off", "gated", "unknown"].map(key);
    world.on(|queue, cx| queue.activate(&all, cx));
    let expected = PendingPods { active: 3, gated: 1, ..PendingPods::default() };
    assert_eq!(world.queue.counts(), expected);
    let forced = world.log.incoming.iter().filter(|line| *line == "active ForceActivate");
    assert_eq!(forced.count(), 3);
}

#[test]
fn what_a_pending_plugin_waited_for_ends_the_backoff() {
    let mut world = World::new();
    world.add(&plain("p"));
    let queued = world.pop();
    world.fail(queued, &["~Claims", "Fit"]);
    world.happens(&claim_event());
    assert_eq!(world.place("p"), Some(Place::Active));
}

#[test]
fn a_hint_that_fails_or_panics_says_yes() {
    for (action, panics) in
        [(ActionType::UPDATE_NODE_LABEL, 0), (ActionType::UPDATE_NODE_CONDITION, 1)]
    {
        let mut world = World::new();
        world.add(&plain("p"));
        let queued = world.pop();
        world.fail(queued, &["Careless"]);
        world.happens(&node_event(action));
        assert_eq!(world.place("p"), Some(Place::Backoff));
        assert_eq!(world.log.panics, vec!["Careless"; panics]);
    }
}

#[test]
fn a_panic_in_pre_enqueue_gates_and_one_in_queue_sort_costs_nothing() {
    let mut world = World::new();
    world.add(&Arc::new(pod("p").label("quota", "trap").build()));
    assert_eq!(world.place("p"), Some(Place::Gated));
    assert_eq!(world.log.panics, ["Quota"]);

    let trap =
        |name, priority| Arc::new(pod(name).priority(priority).label("sort", "trap").build());
    world.add(&trap("low", 1));
    world.add(&trap("high", 2));
    assert_eq!(name(&world.pop()), "high");
    assert_eq!(name(&world.pop()), "low");
    assert!(world.log.panics.contains(&"Sort".to_owned()));
}

#[test]
fn an_event_is_put_only_to_pods_it_is_registered_for() {
    let mut world = World::new();
    for place in 0..20 {
        world.add(&plain(&format!("deaf-{place}")));
        let queued = world.pop();
        world.fail(queued, &["Deaf"]);
    }
    world.add(&plain("fit"));
    let queued = world.pop();
    world.fail(queued, &["Fit", "Deaf"]);
    world.happens(&pod_deleted(false));
    assert_eq!(world.log.hints, 1);

    world.add(&plain("in-flight"));
    world.pop();
    world.happens(&node_event(ActionType::DELETE));
    assert_eq!(world.queue.in_flight_events().len(), 0, "nobody registered it");
    world.on(|queue, cx| queue.move_all(&pod_deleted(true), &|pod| &*pod.key.name != "fit", cx));
    assert_eq!(world.place("fit"), Some(Place::Unschedulable), "excluded up front");
    assert_eq!(world.queue.in_flight_events().len(), 1, "attempts hear of it all the same");
}

#[test]
fn the_last_gate_is_asked_first() {
    let mut world = World::new();
    let both = || pod("p").label("quota", "wanted");
    let old = Arc::new(both().gate("example.com/hold").build());
    world.add(&old);
    let gate = |world: &World| world.queue.get(&key("p")).unwrap().1.gating_plugin.clone();
    assert_eq!(gate(&world), Some(PluginName::from("Gates")));
    let ungated = Arc::new(both().build());
    world.update(&old, &ungated);
    assert_eq!(gate(&world), Some(PluginName::from("Quota")));
    world.update(&ungated, &old);
    world.happens(&node_event(ActionType::ADD));
    assert_eq!(gate(&world), Some(PluginName::from("Quota")), "both hold it, Quota did last");
}
