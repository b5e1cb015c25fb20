use serde_json::json;
use testkit::{PodBuilder, pod};

use super::*;
use crate::queue::QueueConfig;
use crate::queue::tests::profiles;

fn web() -> PodBuilder {
    pod("web").label("app", "web").on("n")
}

/// Sets the status of the budget `b`, which selects pods labelled `app=web`.
fn status(world: &mut World, disruptions_allowed: i32) {
    let selector = json!({ "matchLabels": { "app": "web" } });
    let status = json!({ "disruptionsAllowed": disruptions_allowed });
    let budget = json!({ "spec": { "selector": selector }, "status": status });
    let kind = EventResource::PodDisruptionBudget;
    let key = ObjectKey::namespaced(kind, "default".into(), "b".into());
    world.set_object(Object::decode(key, budget).unwrap());
}

fn show(world: &mut World, pod: PodBuilder) {
    world.place_shown(Arc::new(pod.build()), &"n".into());
}

/// A world in which the pod is being evicted.
fn evicting() -> World {
    let mut world = World::new(profiles(), QueueConfig::default());
    status(&mut world, 1);
    show(&mut world, web());
    world.begin_eviction(&web().build());
    world
}

fn counted(world: &World) -> usize {
    world.cluster().evicting("default", "b").count()
}

#[test]
fn eviction_counts_while_the_pod_runs() {
    let mut world = evicting();
    show(&mut world, web().label("changed", "yes"));
    status(&mut world, 1);
    assert_eq!(counted(&world), 1);
}

#[test]
fn eviction_of_terminating_pod_counts_until_the_next_budget_status() {
    let mut world = evicting();
    let ending = Some("2026-01-01T00:00:00Z".to_owned());
    show(&mut world, web().with(|pod| pod.metadata.deletion_timestamp = ending));
    assert_eq!(counted(&world), 1);
    status(&mut world, 0);
    assert_eq!(counted(&world), 0);
}

#[test]
fn eviction_of_deleted_pod_does_not_count() {
    let mut world = evicting();
    world.remove_placed(&web().build().uid);
    assert_eq!(counted(&world), 0, "no further status may come");
    let mut world = evicting();
    let relabelled = web().label("app", "other").build();
    world.place_shown(Arc::new(relabelled), &"n".into());
    world.remove_placed(&web().build().uid);
    assert_eq!(counted(&world), 0, "whatever labels it has by then");
}
