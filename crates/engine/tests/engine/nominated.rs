//! Nominated pods: room kept for others, and the node a pod is nominated to itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use engine::Outcome;
use framework::{
    ActionType, Attempt, AttemptMut, Filter, NodeView, NominatingInfo, Plugin, Pod,
    PostFilterResult, PreFilter, PreFilterResult, Status,
};
use testkit::{PodBuilder, node, pod};

use crate::harness::*;

/// One node, `small`, with room for one pod of 2 cpu, and a pod that is nominated to it and cannot
/// be scheduled for another reason.
fn world_with_guest(guest: PodBuilder) -> World {
    let mut world = Setup::new(held().into_iter().chain([fit()])).build();
    world.node(node("small").allocatable("cpu", "2"));
    world.pod(guest.label("held", "yes").nominated("small"));
    world.run();
    world.log.take();
    world
}

#[test]
fn room_is_kept_for_nominated_pods_of_equal_or_higher_priority() {
    // Priority of the nominated pod, of the other, what becomes of the other.
    let rows = [(0, 0, "unschedulable"), (5, 0, "unschedulable"), (0, 5, "placed")];
    for (guest, other, place) in rows {
        let mut world = world_with_guest(pod("guest").cpu("2").priority(guest));
        world.pod(pod("other").cpu("2").priority(other));
        world.run();
        assert_eq!(world.place("other"), place, "{other} beside {guest}");
    }
}

#[test]
fn room_beside_a_nominated_pod_can_be_used() {
    let mut world = world_with_guest(pod("guest").cpu("1"));
    world.pod(pod("other").cpu("1"));
    world.run();
    assert_eq!(world.place("other"), "placed");
}

#[test]
fn filters_run_with_nominated_pods_and_then_without() {
    let mut world = world_with_guest(pod("guest").cpu("1"));
    assert_eq!(world.schedule(pod("other").cpu("1")), Outcome::Assumed("small".into()));
    let asked = world.log.take();
    let about_fit = asked.iter().filter(|line| line.contains("Filter Fit")).count();
    assert_eq!(about_fit, 3, "once for the set, once with the nominated pod, once without");

    let outcome = world.schedule(pod("third").cpu("1"));
    let message = "0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(outcome, Outcome::Unschedulable(message.to_owned()));
}

/// A filter that counts nominated pods in the cycle state, and panics if it was not notified of
/// one.
struct Counting;

#[derive(Clone)]
struct Guests(usize);

impl PreFilter for Counting {
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        attempt.state.write(Guests(0));
        Ok(PreFilterResult::default())
    }
}

impl framework::PreFilterExtensions for Counting {
    fn add_pod(&self, attempt: AttemptMut<'_>, _: &Pod, _: &NodeView<'_>) -> Status {
        attempt.state.read_mut::<Guests>().unwrap().0 += 1;
        yes()
    }

    fn remove_pod(&self, _: AttemptMut<'_>, _: &Pod, _: &NodeView<'_>) -> Status {
        yes()
    }
}

impl Filter for Counting {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let guests = attempt.state.read::<Guests>().unwrap().0;
        assert_eq!(node.pod_count(), i64::try_from(guests).unwrap(), "on {}", node.name());
        if guests > 1 { no("crowded") } else { yes() }
    }
}

#[test]
fn add_pod_edits_a_copy_of_the_state_for_one_node() {
    let counting =
        Plugin::new("Counting", Counting).pre_filter().pre_filter_extensions().filter().build();
    let mut world = Setup::new(held()).plugin(counting).nodes(&["a", "b"]);
    for (guest, node) in [("g1", "a"), ("g2", "a"), ("g3", "b")] {
        world.pod(pod(guest).label("held", "yes").nominated(node));
    }
    world.run();
    assert_eq!(world.schedule(pod("p")), Outcome::Assumed("b".into()), "a would be crowded");
    assert_eq!(world.probe.panics, [""; 0]);
}

#[test]
fn skipped_plugin_is_not_notified_of_nominated_pods() {
    for (skips, told) in [(true, 0), (false, 1)] {
        let plugin = fake("A").add_pod(|_, _, _| yes()).filter(|_, _| yes());
        let plugin = plugin.pre_filter(move |_| match skips {
            true => Err(Status::skip()),
            false => Ok(PreFilterResult::default()),
        });
        let mut world = world(held().into_iter().chain([plugin]));
        world.pod(pod("guest").label("held", "yes").nominated("a"));
        world.run();
        world.log.take();
        world.schedule(pod("p"));
        assert_eq!(world.log.take_of(&["AddPod"]).len(), told);
    }
}

#[test]
fn failing_add_pod_is_an_error() {
    let plugin =
        fake("A").pre_filter(|_| Ok(PreFilterResult::default())).add_pod(|_, _, _| no("x"));
    let mut world = world(held().into_iter().chain([plugin]));
    world.pod(pod("guest").label("held", "yes").nominated("b"));
    world.run();
    let outcome = world.schedule(pod("p"));
    let text = "running AddPod on PreFilter plugin \"A\": x";
    assert_eq!(outcome, Outcome::Error(text.to_owned()));
}

/// Scores speak for `a`; `c` is full for pods labelled so, and breaks down for others.
fn own_node_plugins() -> [Fake; 3] {
    [
        fake("Narrow").pre_filter(|pod| {
            let names = pod.labels.get("narrow").map(|name| [name.into()].into());
            Ok(PreFilterResult { node_names: names })
        }),
        fake("C").filter(|pod, node| match (&**node.name(), pod.labels.get("c")) {
            ("c", Some("full")) => no("c is full"),
            ("c", Some("broken")) => Status::error("c is broken"),
            _ if pod.labels.get("all") == Some("full") => no("full"),
            _ => yes(),
        }),
        fake("Liking").score(|_, node| Ok(if &**node.name() == "a" { 100 } else { 0 })),
    ]
}

#[test]
fn nominated_node_is_tried_first_and_alone() {
    // Changes to the pod, node.
    type Row = (fn(PodBuilder) -> PodBuilder, &'static str);
    let rows: [Row; 5] = [
        (|pod| pod, "a"),
        (|pod| pod.nominated("c"), "c"),
        (|pod| pod.nominated("c").label("narrow", "b"), "c"),
        (|pod| pod.nominated("c").label("c", "full"), "a"),
        (|pod| pod.nominated("unknown"), "a"),
    ];
    for (place, (change, node)) in rows.into_iter().enumerate() {
        let mut world = world(own_node_plugins());
        assert_eq!(world.schedule(change(pod("p"))), Outcome::Assumed(node.into()), "row {place}");
        let scored = !world.log.take_of(&["Score"]).is_empty();
        assert_eq!(scored, node == "a", "the nominated node is not scored");
    }
}

#[test]
fn error_on_the_nominated_node_leads_to_a_full_search() {
    let mut world = world(own_node_plugins());
    let pod = pod("p").nominated("c").label("c", "broken").label("narrow", "b");
    assert_eq!(world.schedule(pod), Outcome::Assumed("b".into()));
}

#[test]
fn verdict_on_a_nominated_node_outside_the_search_is_reported() {
    let mut world = world(own_node_plugins());
    let pod = pod("p").nominated("c").label("c", "full").label("narrow", "b").label("all", "full");
    let outcome = world.schedule(pod);
    let text = "1 c is full, 1 full, 1 node(s) didn't satisfy plugin(s) [Narrow]";
    let message = format!("0/3 nodes are available: {text}.");
    assert_eq!(outcome, Outcome::Unschedulable(message));
}

#[test]
fn pod_that_loses_its_nomination_in_an_attempt_wakes_those_that_kept_clear_of_it() {
    let gives_up = Arc::new(AtomicBool::new(false));
    let switch = gives_up.clone();
    let guard = fake("Guard")
        .on(node_event(ActionType::UPDATE_NODE_LABEL))
        .filter(|pod, _| if pod.labels.get("held").is_some() { no("held") } else { yes() })
        .post_filter(move |_, _, _| PostFilterResult {
            status: no("no help"),
            nominating: match switch.load(Relaxed) {
                true => NominatingInfo::Override("".into()),
                false => NominatingInfo::Noop,
            },
            ..PostFilterResult::default()
        });
    let mut world = Setup::new([guard, fit()]).build();
    let small = || node("small").allocatable("cpu", "2");
    world.node(small());
    world.pod(pod("guest").cpu("2").label("held", "yes").nominated("small"));
    world.run();
    assert!(matches!(world.schedule(pod("other").cpu("2")), Outcome::Unschedulable(_)));
    gives_up.store(true, Relaxed);
    world.node(small().label("woken", "yes"));
    assert_eq!((world.place("guest"), world.place("other")), ("backoff", "unschedulable"));
    assert!(matches!(world.attempt(), Outcome::Unschedulable(_)));
    // The API server has not taken the write yet.
    assert_eq!((world.place("guest"), world.place("other")), ("unschedulable", "backoff"));
    assert_eq!(world.attempt(), Outcome::Assumed("small".into()));
}
