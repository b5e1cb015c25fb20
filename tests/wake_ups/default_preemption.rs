//! DefaultPreemption: preemptors that evict pods and wait for their room.

use std::time::Duration;

use engine::queue::Place;
use framework::ActionType as A;
use framework::EventResource as R;

use super::objects::{Object, Step, create, delete, node, pod, priority_class, terminate};
use super::scenario::{Expected, Scenario, event};
use super::world::{Deletions, World};
use Expected::{Bound, Left};

const CLUSTER_CRITICAL: &str = "system-cluster-critical";
const NODE_CRITICAL: &str = "system-node-critical";

/// A pod of this PriorityClass that requests this much CPU.
fn classed(name: &str, class: &str, cpu: &str) -> Object {
    pod(name).requests("cpu", cpu).spec(serde_json::json!({ "priorityClassName": class }))
}

fn preemptor(cpu: &str) -> Object {
    classed("p", CLUSTER_CRITICAL, cpu)
}

fn victim(name: &str, cpu: &str) -> Object {
    pod(name).requests("cpu", cpu).on("n")
}

/// The preemptor is rejected for lack of resources, and gated in PreEnqueue.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let given = [
        node("n"),
        victim("v", "2"),
        classed("rock", NODE_CRITICAL, "500m").on("n"),
        classed("pebble", NODE_CRITICAL, "500m").on("n"),
    ];
    vec![
        Scenario::new("DefaultPreemption", preemptor("2500m"), given)
            .beside(&["NodeResourcesFit"])
            .deaf_to_deletions()
            .after(delete("pods/pebble"))
            .on(event(R::AssignedPod, A::DELETE), "the victim goes", delete("pods/v"), Bound)
            .on(event(R::AssignedPod, A::DELETE), "another pod goes", delete("pods/rock"), Left)
            .passes_over("a node comes", create(node("m"))),
    ]
}

#[test]
fn preemptor_is_gated_until_its_victims_are_evicted() {
    scenarios().iter().for_each(Scenario::check);
}

/// Creates a node full of `v` and `w`, of 2 CPUs each, and the given objects.
fn full_node(more: impl IntoIterator<Item = Object>) -> Vec<Step> {
    let given = [node("n"), victim("v", "2"), victim("w", "2")];
    given.into_iter().chain(more).map(create).collect()
}

/// Returns the evicted one of `v` and `w`, and the other.
fn victim_and_spared(world: &World) -> (&'static str, &'static str) {
    match (world.is_leaving("v"), world.is_leaving("w")) {
        (true, false) => ("v", "w"),
        (false, true) => ("w", "v"),
        both => panic!("one of them should be leaving: {both:?}"),
    }
}

#[test]
fn preemptor_is_bound_when_its_victim_is_gone() {
    let mut world = World::new("", &full_node([preemptor("2")]));
    let (victim, spared) = victim_and_spared(&world);
    assert_eq!((world.nomination("p"), world.attempts("p")), (Some("n"), 1));
    world.happens(&delete(&format!("pods/{victim}")));
    world.settle();
    assert!(world.is_bound("p") && !world.is_leaving(spared));
    assert_eq!(world.attempts("p"), 2);
}

#[test]
fn preemptor_uses_other_room_while_its_victim_terminates() {
    let mut world = World::new("", &full_node([preemptor("2")]));
    world.happens(&create(node("m")));
    world.settle();
    assert!(world.is_bound("p"));
}

#[test]
fn preemptor_retries_after_a_failed_eviction() {
    let given = full_node([preemptor("2")]);
    let mut world = World::with_deletions(Deletions::Forbidden, "", &given);
    assert_eq!(world.place("p"), Some(Place::ErrorBackoff));
    world.pass(Duration::from_secs(60));
    assert!(world.attempts("p") < 12, "{} attempts in a minute", world.attempts("p"));
    world.serve_deletions();
    world.pass(Duration::from_secs(11));
    let (victim, _) = victim_and_spared(&world);
    world.happens(&delete(&format!("pods/{victim}")));
    world.settle();
    assert!(world.is_bound("p"));
}

#[test]
fn preemptor_preempts_elsewhere_when_its_node_is_deleted() {
    let other = [node("m"), classed("x", NODE_CRITICAL, "2").on("m")];
    let y = pod("y").requests("cpu", "2").on("m");
    let mut world = World::new("", &full_node(other.into_iter().chain([y, preemptor("2")])));
    let (node, victims, elsewhere) = match world.nomination("p") {
        Some("n") => ("nodes/n", vec!["pods/v", "pods/w"], "m"),
        _ => ("nodes/m", vec!["pods/x", "pods/y"], "n"),
    };
    world.happens(&delete(node));
    world.settle();
    for pod in victims {
        world.happens(&delete(pod));
        world.settle();
    }
    assert_eq!(world.nomination("p"), Some(elsewhere));
}

#[test]
fn pod_without_its_cleared_nomination_is_tried_again() {
    let classes = [priority_class("high", 200), priority_class("low", 100)];
    let mut world =
        World::new("", &full_node(classes.into_iter().chain([classed("p", "low", "2")])));
    assert_eq!(world.nomination("p"), Some("n"));
    world.happens(&create(classed("q", "high", "4")));
    world.settle();
    assert_eq!((world.nomination("p"), world.nomination("q")), (None, Some("n")));
    for pod in ["pods/v", "pods/w"] {
        world.happens(&delete(pod));
        world.settle();
    }
    assert!(world.is_bound("q") && !world.is_bound("p"));
    world.happens(&create(node("m")));
    world.settle();
    assert!(world.is_bound("p"));
}

#[test]
fn deleted_victim_does_not_requeue_a_preemptor_that_needs_more() {
    let mut world = World::new("", &full_node([preemptor("4")]));
    assert!(world.is_leaving("v") && world.is_leaving("w"));
    world.happens(&delete("pods/v"));
    world.settle();
    assert!(!world.is_bound("p"));
    world.happens(&terminate("pods/w"));
    world.settle();
    world.happens(&delete("pods/w"));
    world.settle();
    assert!(world.is_bound("p"));
}
