//! What metrics show of API calls.

use super::super::{CallState, CallType, FinishedCall};
use super::*;
use crate::request::Tried;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn calls_are_counted_by_kind_and_state() {
    let mut harness = with(Limits { max_in_flight: 1, ..Limits::default() });
    harness.add(read("a"));
    let request = harness.request();
    harness.reply(&request, not_sent());
    harness.add(patch("b"));
    harness.add(bind("b"));
    harness.add(bind("c"));
    let counts = harness.dispatcher.call_counts();
    let expected = [
        ((CallType::PodBinding, CallState::Waiting), 2),
        ((CallType::PodRead, CallState::BackingOff), 1),
        ((CallType::PodStatusPatch, CallState::InFlight), 1),
    ];
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn finished_call_is_measured_from_its_first_request_to_its_last_reply() {
    let mut harness = harness();
    let binding = Binding { pod: PodKey::new("ns", "a"), uid: UID.into(), node: "n".into() };
    let decided = harness.now;
    harness.add(EffectKind::Bind { binding, decided, generation: 1, resource_version: 0 });
    let request = harness.request();
    harness.now = harness.now + SECOND;
    harness.reply(&request, throttled(2));
    assert_eq!(harness.dispatcher.take_finished_calls(), [], "it is retried");
    harness.wait_for_deadline();
    harness.exchange(ok());
    let finished = FinishedCall {
        call_type: CallType::PodBinding,
        succeeded: true,
        took: 3 * SECOND,
        decision_age: Some(Duration::ZERO),
    };
    assert_eq!(harness.dispatcher.take_finished_calls(), [finished]);
    harness.add(patch("b"));
    harness.exchange(rejected(403, "no"));
    let finished = FinishedCall {
        call_type: CallType::PodStatusPatch,
        succeeded: false,
        took: Duration::ZERO,
        decision_age: None,
    };
    assert_eq!(harness.dispatcher.take_finished_calls(), [finished]);
}

#[test]
fn decision_ages_until_the_bind_is_sent() {
    let mut harness = with(Limits { qps: Some(1.0), burst: 1, ..Limits::default() });
    let decided = harness.now;
    harness.now = harness.now + SECOND;
    for pod in ["a", "b"] {
        let binding = Binding { pod: PodKey::new("ns", pod), uid: UID.into(), node: "n".into() };
        harness.add(EffectKind::Bind { binding, decided, generation: 1, resource_version: 0 });
    }
    harness.exchange(ok());
    harness.wait_for_deadline();
    let request = harness.request();
    assert_eq!(request.waited, SECOND);
    harness.now = harness.now + 5 * SECOND;
    harness.reply(&request, ok());
    let calls = harness.dispatcher.take_finished_calls();
    let ages: Vec<_> = calls.iter().map(|call| call.decision_age).collect();
    assert_eq!(ages, [Some(SECOND), Some(2 * SECOND)]);
}

#[test]
fn delay_that_ends_behind_another_call_is_no_wait_for_the_limits() {
    let mut harness = harness();
    harness.add(read("a"));
    harness.exchange(ok());
    harness.add(bind("a"));
    let first = harness.request();
    harness.add(read("a"));
    harness.now = harness.now + 50 * SECOND;
    harness.reply(&first, ok());
    assert_eq!(harness.request().waited, Duration::ZERO);
}

#[test]
fn retry_names_the_status_of_the_try_before() {
    let mut harness = harness();
    harness.add(bind("a"));
    let request = harness.request();
    assert_eq!((request.retry_of, request.waited), (None, Duration::ZERO));
    harness.reply(&request, throttled(1));
    harness.wait_for_deadline();
    let request = harness.request();
    assert_eq!(request.retry_of, Some(Tried { status: Some(429) }));
    harness.reply(&request, not_sent());
    harness.wait_for_deadline();
    assert_eq!(harness.request().retry_of, Some(Tried { status: None }));
}
