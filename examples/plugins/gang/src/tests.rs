use framework::{Code, PodKey};
use serde_json::json;
use testkit::{Commit, Harness, PodBuilder, node, pod};

use super::*;

fn made() -> Plugin {
    plugin(&PluginArgs::default()).unwrap()
}

fn harness() -> Harness {
    Harness::new(made()).node(node("n").build())
}

/// Returns a member of a gang of three.
fn member(name: &str) -> PodBuilder {
    pod(name).label(NAME_LABEL, "g").label(MIN_AVAILABLE, "3")
}

fn uid(name: &str) -> Uid {
    pod(name).build().uid
}

fn commit(harness: &Harness, pod: PodBuilder) -> Commit {
    harness.commit(&pod.build(), "n")
}

fn waits(placed: usize) -> PermitVerdict {
    let reason = format!("{placed} of 3 members of gang g have a node");
    PermitVerdict::Wait { timeout: Duration::from_secs(60), reason }
}

fn lacks(existing: usize) -> PermitVerdict {
    PermitVerdict::Reject(Status::unschedulable(format!("gang g has {existing} of 3 members")))
}

#[test]
fn pod_outside_any_gang_passes() {
    let commit = commit(&harness(), pod("p"));
    assert_eq!((commit.permit, commit.commands), (PermitVerdict::Allow, vec![]));
    let run = harness().run(&pod("p").label(MIN_AVAILABLE, "3").build());
    assert!(run.pre_filter.is_success(), "the number alone makes no gang");
}

#[test]
fn invalid_labels_reject_the_pod() {
    for (min, shown) in [(None, ""), (Some("0"), "0"), (Some("three"), "three"), (Some("-1"), "-1")]
    {
        let named = pod("p").label(NAME_LABEL, "g");
        let pod = min.into_iter().fold(named, |pod, min| pod.label(MIN_AVAILABLE, min));
        let status = harness().run(&pod.build()).pre_filter;
        let text = format!("label {MIN_AVAILABLE} must be a number above 0, got {shown:?}");
        assert_eq!((status.code(), status.message()), (Code::UnschedulableAndUnresolvable, text));
    }
}

#[test]
fn first_member_waits_and_activates_the_others() {
    let harness = ["a", "b", "c"].map(|name| member(name).build());
    let harness = harness.into_iter().fold(super::tests::harness(), Harness::pending);
    let commit = commit(&harness, member("a"));
    assert_eq!(commit.permit, waits(1));
    let others = ["b", "c"].map(|name| PodKey::new("default", name));
    assert_eq!(commit.commands, [Command::Activate(others.into())]);
}

#[test]
fn gang_without_enough_members_is_rejected() {
    let harness = harness()
        .pending(member("a").build())
        .pending(member("b").build())
        .pending(member("held").gate("example.com/hold").build())
        .pending(member("elsewhere").namespace("other").build())
        .pending(member("stranger").label(NAME_LABEL, "h").build())
        .pending(Pod { terminating: true, ..member("leaving").build() });
    let commit = commit(&harness, member("a"));
    assert_eq!((commit.permit, commit.commands), (lacks(2), vec![]));
}

#[test]
fn next_member_waits_without_activating_again() {
    let harness = harness().waiting(member("a").on("n").build());
    let commit = commit(&harness, member("b"));
    // One of three members does not exist, but a waiting member counts as existing.
    assert_eq!((commit.permit, commit.commands), (waits(2), vec![]));
}

#[test]
fn last_member_allows_the_whole_gang() {
    let stranger = member("x").label(NAME_LABEL, "h").on("n").build();
    let harness = harness()
        .waiting(member("a").on("n").build())
        .waiting(stranger)
        .waiting(member("b").on("n").build());
    let commit = commit(&harness, member("c"));
    assert_eq!(commit.permit, PermitVerdict::Allow);
    assert_eq!(commit.commands, ["a", "b"].map(|name| allow(uid(name))));
}

#[test]
fn bound_members_count_and_extra_members_pass() {
    let leaving = Pod { terminating: true, ..member("x").on("n").build() };
    let one_bound = || harness().pod(member("a").on("n").build());
    let two_exist = commit(&one_bound().pod(leaving), member("b"));
    assert_eq!(two_exist.permit, lacks(2));
    let last = commit(&one_bound().waiting(member("b").on("n").build()), member("c"));
    assert_eq!((last.permit, last.commands), (PermitVerdict::Allow, vec![allow(uid("b"))]));
    let two_bound = one_bound().pod(member("b").on("n").build());
    let further = commit(&two_bound, member("c"));
    assert_eq!((further.permit, further.commands), (PermitVerdict::Allow, vec![]));
}

#[test]
fn failed_member_rejects_the_waiting_members() {
    let harness = || {
        let waiting = harness().waiting(member("a").on("n").build());
        waiting.waiting(member("x").label(NAME_LABEL, "h").on("n").build())
    };
    let undo = |pod: PodBuilder, at: Time| {
        let harness = harness();
        let commit = commit(&harness, pod.clone());
        harness.at(at).undo(&pod.build(), "n", commit)
    };
    let later = Time::from_secs(60);
    let expected = [reject(uid("a"), "gang g is incomplete: member default/b failed".to_owned())];
    assert_eq!(undo(member("b"), later), expected);
    assert_eq!(undo(member("b"), Time::ZERO), [], "another plugin rejected it at once");
    assert_eq!(undo(member("b").label(MIN_AVAILABLE, "2"), later), [], "it did not wait");
    assert_eq!(undo(pod("p"), later), []);
}

#[test]
fn own_labels_and_placed_members_requeue() {
    let hint = |waiting: &PodBuilder, new: PodBuilder| {
        let new = new.build();
        let event = ClusterEvent::new(EventResource::AssignedPod, ActionType::ADD);
        let objects = EventObjects::Pod { old: None, new: Some(&new) };
        harness().hint(&waiting.clone().build(), &event, &objects).unwrap()
    };
    let waiting = member("a");
    assert_eq!(hint(&waiting, member("b").on("n")), QueueingHint::Queue);
    assert_eq!(hint(&waiting, member("b")), QueueingHint::Skip);
    assert_eq!(hint(&waiting, member("b").namespace("other").on("n")), QueueingHint::Skip);
    assert_eq!(hint(&waiting, pod("b").on("n")), QueueingHint::Skip);
    assert_eq!(hint(&waiting, member("a").label(MIN_AVAILABLE, "1")), QueueingHint::Queue);
    let malformed = pod("a").label(NAME_LABEL, "g");
    assert_eq!(hint(&malformed, member("b").on("n")), QueueingHint::Skip);
    assert_eq!(hint(&malformed, member("a")), QueueingHint::Queue);
}

#[test]
fn arguments_have_a_default_and_a_range() {
    assert_eq!(made().args, Some(json!({"permitWaitingTimeSeconds": 60})));
    let error = |seconds| {
        let args = json!({"permitWaitingTimeSeconds": seconds});
        plugin(&PluginArgs::new(args)).map(|_| ()).unwrap_err()
    };
    assert_eq!(error(0), "permitWaitingTimeSeconds: must be from 1 to 900, got 0");
    assert_eq!(error(901), "permitWaitingTimeSeconds: must be from 1 to 900, got 901");
    let unknown = plugin(&PluginArgs::new(json!({"timeout": 3}))).unwrap_err();
    assert!(unknown.starts_with("unknown field `timeout`"), "{unknown}");
}
