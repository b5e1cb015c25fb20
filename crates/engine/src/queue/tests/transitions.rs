//! Single pods on their way through the queue.

use std::sync::Arc;
use std::time::Duration;

use framework::{ActionType, PluginName, Time};
use testkit::{node, pod};

use super::harness::{Harness, claim_event, key, node_event, plain, pod_deleted};
use crate::queue::{PendingPodCounts, Place, QueueConfig};

fn name(queued: &framework::QueuedPod) -> &str {
    &queued.pod.key.name
}

#[test]
fn rejected_pod_waits_for_an_event_that_may_help() {
    let mut harness = Harness::new();
    harness.add(&plain("p"));
    assert_eq!(harness.place("p"), Some(Place::Active));

    let queued = harness.pop();
    assert_eq!((queued.history.attempts, queued.history.initial_attempt), (1, Some(harness.now)));
    assert_eq!(harness.place("p"), None);
    assert_eq!(
        harness.queue.counts(),
        PendingPodCounts { in_flight: 1, ..PendingPodCounts::default() }
    );

    harness.fail(queued, &["Fit"]);
    assert_eq!(harness.place("p"), Some(Place::Unschedulable));
    assert_eq!(
        harness.queue.counts(),
        PendingPodCounts { unschedulable: 1, ..PendingPodCounts::default() }
    );
    harness.notify(&node_event(ActionType::DELETE));
    harness.notify(&pod_deleted(false));
    assert_eq!(harness.place("p"), Some(Place::Unschedulable));
    harness.notify(&pod_deleted(true));
    assert_eq!(harness.place("p"), Some(Place::Backoff));

    let queued = harness.pop();
    assert_eq!(queued.history.attempts, 2, "popped before its backoff ended: no pod was active");
    harness.queue.done(&queued.pod.uid);
    assert_eq!(harness.queue.counts(), PendingPodCounts::default());
    assert!(harness.try_pop().is_none());
    let expected = [
        "active UnscheduledPodAdd",
        "unschedulable ScheduleAttemptFailure",
        "backoff AssignedPodDelete",
        "active PopFromBackoffQ",
    ];
    assert_eq!(harness.log.incoming, expected);
}

#[test]
fn active_pods_leave_by_priority_and_time() {
    let mut harness = Harness::new();
    for (name, priority) in [("b", 0), ("c", 0), ("top", 7), ("a", 0), ("low", -1)] {
        harness.add(&Arc::new(pod(name).priority(priority).build()));
    }
    harness.now = Time::ZERO;
    harness.add(&plain("earliest"));
    let order: Vec<_> = std::iter::from_fn(|| harness.try_pop()).collect();
    let names: Vec<_> = order.iter().map(name).collect();
    assert_eq!(names, ["top", "earliest", "b", "c", "a", "low"]);
}

#[test]
fn pod_that_failed_with_an_error_waits_out_its_backoff() {
    let mut harness = Harness::new();
    harness.add(&plain("p"));
    let queued = harness.pop();
    harness.fail(queued, &[]);
    assert_eq!(harness.place("p"), Some(Place::ErrorBackoff));
    assert!(!harness.queue.has_ready(harness.now) && harness.try_pop().is_none());

    // It failed at 1000.4 s and backs off for 1 s, to the end of that second.
    assert_eq!(harness.queue.next_deadline(), Some(Time::from_secs(1002)));
    harness.wait(1599);
    assert_eq!(harness.place("p"), Some(Place::ErrorBackoff));
    harness.wait(1);
    assert_eq!(harness.place("p"), Some(Place::Active));
    assert_eq!(harness.log.incoming.last().unwrap(), "active BackoffComplete");
    assert_eq!(harness.queue.next_deadline(), None);

    let queued = harness.pop();
    assert_eq!(queued.history.consecutive_errors, 1);
    harness.fail(queued, &["Fit"]);
    let (_, queued) = harness.queue.get(&key("p")).unwrap();
    assert_eq!((queued.history.consecutive_errors, queued.history.unschedulable_count), (0, 1));
    assert_eq!(queued.history.timestamp, harness.now);
}

#[test]
fn failed_pod_is_active_at_once_if_backoff_is_off() {
    let mut harness = Harness::new();
    let config = QueueConfig { max_backoff: Duration::ZERO, ..QueueConfig::default() };
    harness.queue = crate::queue::Queue::new(config);
    harness.add(&plain("p"));
    let queued = harness.pop();
    harness.fail(queued, &[]);
    assert_eq!(harness.place("p"), Some(Place::Active));
}

#[test]
fn events_during_an_attempt_requeue_the_pod() {
    type Event = fn(&mut Harness);
    let rows: [(&[&str], &[Event], Place); 12] = [
        (&["Fit"], &[], Place::Unschedulable),
        (&["Fit"], &[|w| w.notify(&node_event(ActionType::ADD))], Place::Backoff),
        (&["Fit"], &[|w| w.notify(&node_event(ActionType::UPDATE_NODE_TAINT))], Place::Backoff),
        (&["Fit"], &[|w| w.notify(&claim_event())], Place::Unschedulable),
        (
            &["Fit"],
            &[|w| w.notify(&pod_deleted(false)), |w| w.notify(&pod_deleted(true))],
            Place::Backoff,
        ),
        (&["Deaf"], &[|w| w.notify(&node_event(ActionType::ADD))], Place::Unschedulable),
        (&["~Claims"], &[|w| w.notify(&claim_event())], Place::Active),
        (&["Fit", "~Claims"], &[|w| w.notify(&node_event(ActionType::ADD))], Place::Backoff),
        (
            &["Fit", "~Claims"],
            &[|w| w.notify(&node_event(ActionType::ADD)), |w| w.notify(&claim_event())],
            Place::Active,
        ),
        (&["Deaf"], &[|w| w.on(|q, plugins| q.activate(&[key("p")], plugins))], Place::Backoff),
        (
            &["Deaf"],
            &[|w| w.on(|q, plugins| q.activate(&[key("x")], plugins))],
            Place::Unschedulable,
        ),
        (&[], &[], Place::ErrorBackoff),
    ];
    for (row, (rejectors, events, expected)) in rows.into_iter().enumerate() {
        let mut harness = Harness::new();
        harness.add(&plain("p"));
        let queued = harness.pop();
        for event in events {
            event(&mut harness);
        }
        harness.fail(queued, rejectors);
        assert_eq!(harness.place("p"), Some(expected), "row {row}");
        assert_eq!(harness.queue.in_flight_events().len(), 0, "row {row}");
    }
}

#[test]
fn pod_that_fails_after_done_backs_off() {
    let mut harness = Harness::new();
    harness.add(&plain("p"));
    let queued = harness.pop();
    harness.queue.done(&queued.pod.uid);
    harness.fail(queued, &["Deaf"]);
    assert_eq!(harness.place("p"), Some(Place::Backoff));
}

#[test]
fn gated_pod_waits_for_an_event_of_its_gating_plugin() {
    let mut harness = Harness::new();
    let old = Arc::new(pod("p").gate("example.com/hold").nominated("n").build());
    harness.add(&old);
    assert_eq!(harness.place("p"), Some(Place::Gated));
    harness.notify(&node_event(ActionType::ADD));
    harness.on(|queue, plugins| queue.activate(&[key("p")], plugins));
    harness.wait(100_000);
    assert_eq!(harness.place("p"), Some(Place::Gated));
    let touched = Arc::new(pod("p").gate("example.com/hold").label("a", "b").build());
    harness.update(&old, &touched);
    assert_eq!(harness.place("p"), Some(Place::Gated));

    harness.update(&touched, &plain("p"));
    assert_eq!(harness.place("p"), Some(Place::Active));
    let expected = "active TargetPodUpdatePodSchedulingGatesEliminated";
    assert_eq!(harness.log.incoming.last().unwrap(), expected);
    let queued = harness.pop();
    assert_eq!(queued.history.gating_plugin, None);
    assert_eq!(
        queued.history.unschedulable_plugins,
        ["Gates".into()].into(),
        "kept until the next failure"
    );
}

#[test]
fn pre_enqueue_runs_again_on_its_event_and_before_backoff() {
    let mut harness = Harness::new();
    let wanting = Arc::new(pod("p").label("quota", "wanted").build());
    harness.add(&wanting);
    harness.notify(&node_event(ActionType::ADD));
    assert_eq!(harness.place("p"), Some(Place::Gated), "the new node is not the bank");
    harness.cluster.set_node(&node("bank").build());
    harness.notify(&node_event(ActionType::ADD));
    assert_eq!(harness.place("p"), Some(Place::Active));

    let queued = harness.pop();
    harness.cluster.remove_node("bank");
    harness.fail(queued, &["Claims"]);
    assert_eq!(harness.place("p"), Some(Place::Unschedulable));
    harness.notify(&claim_event());
    assert_eq!(harness.place("p"), Some(Place::Gated), "gated instead of backing off");
    let (_, queued) = harness.queue.get(&key("p")).unwrap();
    let rejectors: Vec<&str> =
        queued.history.unschedulable_plugins.iter().map(|name| &**name).collect();
    assert_eq!(rejectors, ["Claims", "Quota"]);
    harness.notify(&claim_event());
    assert_eq!(harness.place("p"), Some(Place::Gated));
    harness.cluster.set_node(&node("bank").build());
    harness.notify(&node_event(ActionType::ADD));
    assert_eq!(harness.place("p"), Some(Place::Backoff));
}

#[test]
fn own_update_may_requeue_an_unschedulable_pod() {
    let mut harness = Harness::new();
    let old = plain("p");
    harness.add(&old);
    let relabelled = Arc::new(pod("p").label("app", "web").build());
    harness.update(&old, &relabelled);
    let (_, queued) = harness.queue.get(&key("p")).unwrap();
    assert_eq!((&queued.pod, harness.log.incoming.len()), (&relabelled, 1), "replaced in place");

    let queued = harness.pop();
    harness.fail(queued, &["Gates"]);
    harness.update(&relabelled, &old);
    assert_eq!(
        harness.place("p"),
        Some(Place::Unschedulable),
        "Gates did not register updates of labels"
    );
    let gated = Arc::new(pod("p").gate("example.com/hold").build());
    harness.update(&gated, &relabelled);
    assert_eq!(harness.place("p"), Some(Place::Backoff));
    assert_eq!(harness.queue.get(&key("p")).unwrap().1.pod, relabelled);

    let stranger = plain("stranger");
    harness.update(&stranger, &stranger);
    assert_eq!(harness.place("stranger"), Some(Place::Active));
    assert_eq!(harness.log.incoming.last().unwrap(), "active UnscheduledPodUpdate");
}

#[test]
fn own_update_in_flight_is_kept_until_the_attempt_fails() {
    let mut harness = Harness::new();
    harness.add(&plain("p"));
    let queued = harness.pop();
    let gated = Arc::new(pod("p").gate("example.com/hold").build());
    harness.update(&gated, &plain("p"));
    assert_eq!(harness.place("p"), None);
    harness.fail(queued, &["Gates"]);
    assert_eq!(harness.place("p"), Some(Place::Backoff));
}

#[test]
fn pod_with_another_uid_replaces_the_old_pod() {
    let mut harness = Harness::new();
    let [first, second] = ["1", "2"].map(|uid| Arc::new(pod("p").uid(uid).build()));
    harness.add(&first);
    let queued = harness.pop();
    harness.fail(queued, &["Deaf"]);
    harness.update(&first, &second);
    let (place, queued) = harness.queue.get(&key("p")).unwrap();
    assert_eq!((place, queued.history.attempts), (Place::Active, 0));
    harness.on(|queue, plugins| queue.delete(&first, plugins));
    assert_eq!(harness.place("p"), Some(Place::Active), "another pod was deleted");
    harness.on(|queue, plugins| queue.delete(&second, plugins));
    assert_eq!(harness.place("p"), None);
}

#[test]
fn failed_attempt_of_a_replaced_pod_is_dropped() {
    let mut harness = Harness::new();
    let [first, second] = ["1", "2"].map(|uid| Arc::new(pod("p").uid(uid).build()));
    harness.add(&first);
    let queued = harness.pop();
    harness.add(&second);
    harness.fail(queued, &["Deaf"]);
    let (place, queued) = harness.queue.get(&key("p")).unwrap();
    assert_eq!((place, &queued.pod), (Place::Active, &second));
    assert!(!harness.queue.is_in_flight(&first.uid));
}

/// Rule gated-pods-are-flushed.
#[test]
fn gated_pod_is_asked_again_every_five_minutes() {
    let mut harness = Harness::new();
    let gated = Arc::new(pod("p").label("quota", "wanted").build());
    harness.add(&gated);
    assert_eq!(harness.place("p"), Some(Place::Gated));
    let since = harness.get("p").history.timestamp;
    // Gated since 1000.1 s. The first flush after 1300.1 s is at 1320 s, and the next at 1650 s.
    assert_eq!(harness.queue.next_deadline(), Some(Time::from_secs(1320)));
    harness.wait(320_000);
    assert_eq!(harness.place("p"), Some(Place::Gated));
    assert_eq!(harness.log.incoming.last().unwrap(), "unschedulable UnschedulableTimeout");
    let queued = harness.get("p");
    assert_eq!(
        (queued.history.timestamp, queued.history.flushed),
        (since, false),
        "the order of pods stays"
    );
    assert_eq!(harness.queue.next_deadline(), Some(Time::from_secs(1650)));

    // The gate opens, and no event says so.
    harness.open_quota();
    harness.wait(329_000);
    assert_eq!(harness.place("p"), Some(Place::Gated));
    harness.wait(1_000);
    assert_eq!(harness.place("p"), Some(Place::Active));
}

#[test]
fn gated_preemptor_is_not_looked_at_until_its_victims_end() {
    let mut harness = Harness::new();
    let gated = Arc::new(pod("p").label("quota", "wanted").build());
    harness.add(&gated);
    harness.preemptions.begin(&gated.uid);
    let before = harness.log.incoming.clone();
    harness.notify(&node_event(ActionType::ADD));
    assert_eq!(harness.log.incoming, before);
    harness.preemptions.end(&gated.uid);
    harness.notify(&node_event(ActionType::ADD));
    assert_eq!(harness.log.incoming.last().unwrap(), "unschedulable NodeAdd");
}

#[test]
fn pod_in_flight_is_not_popped_again() {
    let mut harness = Harness::new();
    harness.add(&plain("p"));
    let queued = harness.pop();
    harness.add(&plain("p"));
    harness.add(&plain("q"));
    assert_eq!(name(&harness.pop()), "q");
    harness.fail(queued, &["Fit"]);
    assert_eq!(harness.place("p"), Some(Place::Unschedulable));
}

#[test]
fn unschedulable_pod_is_retried_after_five_minutes() {
    let mut harness = Harness::new();
    harness.add(&plain("p"));
    let queued = harness.pop();
    harness.fail(queued, &["Deaf"]);
    // Rejected at 1000.4 s. The first flush after 1300.4 s is at 1320 s.
    assert_eq!(harness.queue.next_deadline(), Some(Time::from_secs(1320)));
    harness.wait(319_599);
    assert_eq!(harness.place("p"), Some(Place::Unschedulable));
    harness.add(&plain("bystander"));
    let in_flight = harness.pop();
    harness.wait(1);
    assert_eq!(harness.place("p"), Some(Place::Active));
    assert_eq!(harness.log.incoming.last().unwrap(), "active UnschedulableTimeout");
    harness.on(crate::queue::Queue::tick);
    assert_eq!(harness.queue.in_flight_events().len(), 1, "a second tick changes nothing");

    harness.fail(in_flight, &["Deaf"]);
    assert_eq!(
        harness.place("bystander"),
        Some(Place::Backoff),
        "the timeout also concerns pods in flight"
    );
}

#[test]
fn activate_ends_waits_but_keeps_gated_pods() {
    let mut harness = Harness::new();
    for name in ["rejected", "failed", "backing-off"] {
        harness.add(&plain(name));
    }
    let popped: Vec<_> = std::iter::from_fn(|| harness.try_pop()).collect();
    for (queued, rejectors) in popped.into_iter().zip([&["Deaf"][..], &[], &["Fit"]]) {
        harness.fail(queued, rejectors);
    }
    harness.notify(&node_event(ActionType::ADD));
    let gated = Arc::new(pod("gated").gate("example.com/hold").build());
    harness.add(&gated);
    let all = ["rejected", "failed", "backing-off", "gated", "unknown"].map(key);
    harness.on(|queue, plugins| queue.activate(&all, plugins));
    let expected = PendingPodCounts { active: 3, gated: 1, ..PendingPodCounts::default() };
    assert_eq!(harness.queue.counts(), expected);
    let forced = harness.log.incoming.iter().filter(|line| *line == "active ForceActivate");
    assert_eq!(forced.count(), 3);
}

#[test]
fn event_of_a_pending_plugin_ends_the_backoff() {
    let mut harness = Harness::new();
    harness.add(&plain("p"));
    let queued = harness.pop();
    harness.fail(queued, &["~Claims", "Fit"]);
    harness.notify(&claim_event());
    assert_eq!(harness.place("p"), Some(Place::Active));
}

#[test]
fn hint_that_fails_or_panics_counts_as_queue() {
    for (action, panics) in
        [(ActionType::UPDATE_NODE_LABEL, 0), (ActionType::UPDATE_NODE_CONDITION, 1)]
    {
        let mut harness = Harness::new();
        harness.add(&plain("p"));
        let queued = harness.pop();
        harness.fail(queued, &["Careless"]);
        harness.notify(&node_event(action));
        assert_eq!(harness.place("p"), Some(Place::Backoff));
        assert_eq!(harness.log.panics, vec!["Careless"; panics]);
    }
}

#[test]
fn pre_enqueue_panic_gates_and_queue_sort_panic_falls_back() {
    let mut harness = Harness::new();
    harness.add(&Arc::new(pod("p").label("quota", "trap").build()));
    assert_eq!(harness.place("p"), Some(Place::Gated));
    assert_eq!(harness.log.panics, ["Quota"]);

    let trap =
        |name, priority| Arc::new(pod(name).priority(priority).label("sort", "trap").build());
    harness.add(&trap("low", 1));
    harness.add(&trap("high", 2));
    assert_eq!(name(&harness.pop()), "high");
    assert_eq!(name(&harness.pop()), "low");
    assert!(harness.log.panics.contains(&"Sort".to_owned()));
}

#[test]
fn hints_run_only_for_pods_whose_rejectors_registered_the_event() {
    let mut harness = Harness::new();
    for place in 0..20 {
        harness.add(&plain(&format!("deaf-{place}")));
        let queued = harness.pop();
        harness.fail(queued, &["Deaf"]);
    }
    harness.add(&plain("fit"));
    let queued = harness.pop();
    harness.fail(queued, &["Fit", "Deaf"]);
    harness.notify(&pod_deleted(false));
    assert_eq!(harness.log.hints, 1);

    harness.add(&plain("in-flight"));
    harness.pop();
    harness.notify(&node_event(ActionType::DELETE));
    assert_eq!(harness.queue.in_flight_events().len(), 0, "no plugin registered it");
    harness.on(|queue, plugins| {
        queue.move_all_to_active_or_backoff_queue(
            &pod_deleted(true),
            &|pod| &*pod.key.name != "fit",
            plugins,
        )
    });
    assert_eq!(harness.place("fit"), Some(Place::Unschedulable), "excluded up front");
    assert_eq!(
        harness.queue.in_flight_events().len(),
        1,
        "the event is kept for pods in flight all the same"
    );
}

#[test]
fn last_gating_plugin_runs_first() {
    let mut harness = Harness::new();
    let both = || pod("p").label("quota", "wanted");
    let old = Arc::new(both().gate("example.com/hold").build());
    harness.add(&old);
    let gate =
        |harness: &Harness| harness.queue.get(&key("p")).unwrap().1.history.gating_plugin.clone();
    assert_eq!(gate(&harness), Some(PluginName::from("Gates")));
    let ungated = Arc::new(both().build());
    harness.update(&old, &ungated);
    assert_eq!(gate(&harness), Some(PluginName::from("Quota")));
    harness.update(&ungated, &old);
    harness.notify(&node_event(ActionType::ADD));
    assert_eq!(
        gate(&harness),
        Some(PluginName::from("Quota")),
        "both plugins gate the pod, and Quota gated it last"
    );
}

#[test]
fn pod_in_flight_for_too_many_events_backs_off() {
    let mut harness = Harness::new();
    harness.add(&plain("waits"));
    let queued = harness.pop();
    for _ in 0..10_000 {
        harness.notify(&pod_deleted(false));
    }
    assert!(harness.queue.in_flight_events().len() < 10_000, "the events kept are bounded");
    harness.fail(queued, &["Fit"]);
    assert_eq!(harness.place("waits"), Some(Place::Backoff), "an event that is gone may help it");
}

/// Rejects the pod that is popped next until no pod may be popped early.
fn spin(harness: &mut Harness) {
    while let Some(queued) = harness.try_pop() {
        harness.fail(queued, &["Fit"]);
        harness.notify(&pod_deleted(true));
    }
}

#[test]
fn paced_pod_is_popped_early_at_once_after_it_has_changed() {
    let mut harness = Harness::new();
    let plain = plain("p");
    harness.add(&plain);
    spin(&mut harness);
    assert!(!harness.queue.has_ready(harness.now));
    let tolerant = Arc::new(pod("p").toleration("k", "Exists", "", "").build());
    harness.update(&plain, &tolerant);
    assert!(harness.queue.has_ready(harness.now));
    assert_eq!(harness.pop().pod, tolerant);
}

#[test]
fn paced_pods_of_a_kind_are_popped_in_the_order_of_their_backoffs() {
    let mut harness = Harness::new();
    let reject = |harness: &mut Harness| {
        let queued = harness.pop();
        let name = queued.pod.key.name.to_string();
        harness.fail(queued, &["Fit"]);
        harness.notify(&pod_deleted(true));
        name
    };
    // Pods with volumes are of one kind, whatever their priorities are.
    harness.add(&Arc::new(pod("late").claim("c").build()));
    spin(&mut harness);
    harness.add(&Arc::new(pod("other").cpu("2").build()));
    assert_eq!(reject(&mut harness), "other");
    harness.wait(10);
    assert_eq!(reject(&mut harness), "other", "the late pod may be popped after it");
    harness.add(&Arc::new(pod("early").claim("c").priority(1).build()));
    assert_eq!(reject(&mut harness), "early");
    assert_eq!(reject(&mut harness), "early");
    assert_eq!(reject(&mut harness), "other", "the kind is paced again");
    harness.wait(10);
    assert_eq!(reject(&mut harness), "early");
}

#[test]
fn look_before_the_end_of_the_backoff_leaves_the_backoff() {
    let mut harness = Harness::new();
    harness.add(&plain("p"));
    let queued = harness.pop();
    assert!(
        !harness.queue.may_look(&queued.pod.uid, &queued.history, harness.now),
        "the first attempt counts"
    );
    harness.fail(queued, &["Fit"]);
    harness.notify(&pod_deleted(true));
    let expiration = harness.queue.get(&key("p")).unwrap().1.history.backoff_expiration;
    assert!(expiration.is_some());
    harness.wait(500);
    let queued = harness.pop();
    assert!(harness.queue.may_look(&queued.pod.uid, &queued.history, harness.now));
    harness.notify(&pod_deleted(true));
    harness.put_back(queued);
    assert_eq!(harness.place("p"), Some(Place::Backoff), "an event during the look may help");
    harness.log.incoming.clear();
    let queued = harness.pop();
    harness.put_back(queued);
    assert_eq!(harness.log.incoming, ["active PopFromBackoffQ", "unschedulable RepeatedRejection"]);
    let (place, queued) = harness.queue.get(&key("p")).unwrap();
    assert_eq!((place, queued.history.backoff_expiration), (Place::Unschedulable, expiration));
    assert_eq!((queued.history.attempts, queued.history.unschedulable_count), (1, 1));
    harness.wait(2_000);
    harness.notify(&pod_deleted(true));
    let queued = harness.pop();
    assert!(
        !harness.queue.may_look(&queued.pod.uid, &queued.history, harness.now),
        "it did not back off"
    );
}

#[test]
fn pod_that_waits_for_long_is_not_only_looked_at() {
    let mut harness = Harness::new();
    harness.add(&plain("p"));
    let queued = harness.pop();
    harness.fail(queued, &["Fit"]);
    harness.notify(&pod_deleted(true));
    let queued = harness.pop();
    let longest = Duration::from_secs(300);
    assert!(harness.queue.may_look(
        &queued.pod.uid,
        &queued.history,
        queued.history.timestamp + longest
    ));
    let later = queued.history.timestamp + longest + Duration::from_nanos(1);
    assert!(
        !harness.queue.may_look(&queued.pod.uid, &queued.history, later),
        "an attempt counts in five minutes"
    );
}
