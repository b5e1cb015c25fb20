//! Unschedulable pods of one template that share the answer of an attempt.

use std::sync::Arc;

use framework::{ActionType, Pod};
use testkit::pod;

use super::harness::{Harness, claim_event, key, node_event, plain, pod_deleted};
use crate::queue::Place;

/// Adds these pods and rejects each of them, together with its template.
fn rejected(names: &[&str]) -> Harness {
    let mut harness = Harness::new();
    for name in names {
        harness.add(&plain(name));
        fail_next(&mut harness, "Fit");
        harness.wait(10);
    }
    harness
}

/// Pops a pod, and rejects it together with its template.
fn fail_next(harness: &mut Harness, rejector: &str) -> String {
    let mut queued = harness.pop();
    let name = queued.pod.key.name.to_string();
    queued.history.template_rejected = true;
    harness.fail(queued, &[rejector]);
    name
}

/// Returns the names of the pods that have left the unschedulable pods.
fn moved(harness: &Harness) -> Vec<String> {
    let waits = |place| place == Place::Unschedulable;
    let moved = harness.queue.iter().filter(|(place, _)| !waits(*place));
    moved.map(|(_, queued)| queued.pod.key.name.to_string()).collect()
}

fn relabelled(name: &str) -> Arc<Pod> {
    Arc::new(pod(name).label("app", "web").build())
}

fn ended(harness: &mut Harness, pod: &Arc<Pod>) {
    harness.queue.done(&pod.uid);
    harness.on(|queue, plugins| queue.attempt_ended(pod, plugins));
}

#[test]
fn event_moves_one_of_the_pods_that_share_an_answer() {
    let mut harness = rejected(&["a", "b", "c"]);
    harness.log.hints = 0;
    harness.notify(&pod_deleted(true));
    assert_eq!(moved(&harness), ["a"]);
    harness.notify(&pod_deleted(true));
    assert_eq!(moved(&harness), ["a"], "it is about to be tried");
    assert_eq!(harness.log.hints, 1);

    assert_eq!(fail_next(&mut harness, "Fit"), "a");
    assert!(moved(&harness).is_empty() && harness.try_pop().is_none());
    harness.notify(&pod_deleted(true));
    assert_eq!(moved(&harness), ["b"], "the pods take turns");
}

#[test]
fn next_pod_is_tried_when_one_finds_a_node() {
    let mut harness = rejected(&["a", "b"]);
    harness.notify(&pod_deleted(true));
    for name in ["a", "b"] {
        assert_eq!(moved(&harness), [name]);
        let queued = harness.pop();
        ended(&mut harness, &queued.pod);
    }
    assert!(harness.try_pop().is_none());
}

#[test]
fn next_pod_is_tried_if_the_tried_pod_is_deleted_changes_or_fails_alone() {
    type Leave = fn(&mut Harness, Arc<Pod>);
    let rows: [(&str, Leave); 4] = [
        ("deleted", |harness, pod| harness.on(|queue, plugins| queue.delete(&pod, plugins))),
        ("relabelled", |harness, old| {
            harness.update(&old, &relabelled("a"));
        }),
        ("an error", |harness, pod| {
            let queued = harness.pop();
            harness.fail(queued, &[]);
            harness.on(|queue, plugins| queue.attempt_ended(&pod, plugins));
        }),
        ("rejected on its own", |harness, pod| {
            let mut queued = harness.pop();
            queued.history.template_rejected = false;
            harness.fail(queued, &["Fit"]);
            harness.on(|queue, plugins| queue.attempt_ended(&pod, plugins));
        }),
    ];
    for (how, leave) in rows {
        let mut harness = rejected(&["a", "b"]);
        harness.notify(&pod_deleted(true));
        leave(&mut harness, plain("a"));
        assert_eq!(harness.place("b"), Some(Place::Backoff), "{how}");
    }
}

#[test]
fn pod_that_changes_during_the_trial_of_another_is_requeued() {
    let mut harness = rejected(&["a", "b"]);
    harness.notify(&pod_deleted(true));
    assert_eq!(moved(&harness), ["a"]);
    harness.update(&plain("b"), &relabelled("b"));
    assert_eq!(harness.place("b"), Some(Place::Backoff), "the room may be enough for it, too");
}

#[test]
fn pod_that_changes_during_its_attempt_does_not_answer_for_others() {
    let mut harness = rejected(&["a", "b"]);
    harness.notify(&pod_deleted(true));
    let mut queued = harness.pop();
    harness.update(&plain("a"), &relabelled("a"));
    (queued.pod, queued.history.template_rejected) = (relabelled("a"), true);
    harness.fail(queued, &["Claims"]);
    harness.on(|queue, plugins| queue.attempt_ended(&relabelled("a"), plugins));
    assert_eq!(harness.place("b"), Some(Place::Backoff));
}

#[test]
fn others_take_over_the_rejectors_of_the_pod_that_was_tried() {
    let mut harness = rejected(&["a", "b", "c"]);
    harness.notify(&pod_deleted(true));
    assert_eq!(fail_next(&mut harness, "Claims"), "a");
    let rejectors =
        |name| harness.queue.get(&key(name)).unwrap().1.history.unschedulable_plugins.clone();
    assert!(["a", "b", "c"].map(rejectors).iter().all(|own| own.iter().eq([&"Claims".into()])));
    harness.notify(&pod_deleted(true));
    assert!(moved(&harness).is_empty());
    harness.notify(&claim_event());
    assert_eq!(moved(&harness), ["b"]);
}

#[test]
fn pod_that_does_not_back_off_is_tried_first() {
    let mut harness = rejected(&["a", "b"]);
    for _ in 0..2 {
        harness.notify(&pod_deleted(true));
        fail_next(&mut harness, "Fit");
    }
    // Both have failed twice and back off for two seconds.
    harness.add(&plain("c"));
    fail_next(&mut harness, "Fit");
    harness.wait(2000);
    harness.notify(&pod_deleted(true));
    assert_eq!(harness.place("c"), Some(Place::Active));
    assert_eq!(moved(&harness), ["c"]);
}

#[test]
fn pods_that_differ_are_moved_each() {
    let mut harness = rejected(&["a", "b"]);
    harness.update(&plain("b"), &relabelled("b"));
    harness.add(&Arc::new(pod("c").priority(1).build()));
    fail_next(&mut harness, "Fit");
    harness.notify(&pod_deleted(true));
    assert_eq!(moved(&harness).len(), 3);
}

#[test]
fn pods_that_waited_too_long_are_moved_each() {
    let mut harness = rejected(&["a", "b", "c"]);
    harness.wait(6 * 60 * 1000);
    assert_eq!(moved(&harness).len(), 3);
}

#[test]
fn shared_answers_and_trials_end_with_their_pods() {
    let mut harness = rejected(&["a", "b", "c"]);
    harness.notify(&node_event(ActionType::ADD));
    for name in ["b", "a", "c"] {
        harness.on(|queue, plugins| queue.delete(&plain(name), plugins));
    }
    assert!(harness.queue.trials.len() == 0 && harness.queue.unschedulable.answer_count() == 0);
}

#[test]
fn looks_leave_the_turn_of_the_pods_and_are_paced() {
    let mut harness = rejected(&["a", "b", "c"]);
    harness.wait(5_000);
    let mut looks = 0;
    loop {
        harness.notify(&pod_deleted(true));
        assert_eq!((moved(&harness), harness.place("a")), (vec!["a".into()], Some(Place::Active)));
        let queued = harness.pop();
        let before = (
            queued.history.attempts - 1,
            queued.history.unschedulable_count,
            queued.history.timestamp,
        );
        if !harness.queue.may_look(&queued.pod.uid, &queued.history, harness.now) {
            assert_eq!(before.0, 1, "no look counts");
            harness.fail(queued, &["Fit"]);
            break;
        }
        harness.put_back(queued);
        let (place, queued) = harness.queue.get(&key("a")).unwrap();
        let after =
            (queued.history.attempts, queued.history.unschedulable_count, queued.history.timestamp);
        assert_eq!((place, after), (Place::Unschedulable, before));
        looks += 1;
    }
    assert_eq!(looks, 16, "further ones are attempts, after which the pods take turns");
    harness.notify(&pod_deleted(true));
    assert_eq!(moved(&harness), ["b"]);
    let queued = harness.pop();
    assert!(!harness.queue.may_look(&queued.pod.uid, &queued.history, harness.now));
    harness.fail(queued, &["Fit"]);
    harness.wait(10);
    harness.notify(&pod_deleted(true));
    let queued = harness.pop();
    assert!(
        harness.queue.may_look(&queued.pod.uid, &queued.history, harness.now),
        "a hundred a second"
    );
}
