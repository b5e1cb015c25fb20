use framework::testing::{PodBuilder, pod};
use serde_json::json;

use super::*;

fn web() -> PodBuilder {
    pod("web").label("app", "web").on("n")
}

/// Sets the status of the budget `b`, which selects pods labelled `app=web`.
fn status(cache: &mut Cache, disruptions_allowed: i32) {
    let selector = json!({ "matchLabels": { "app": "web" } });
    let status = json!({ "disruptionsAllowed": disruptions_allowed });
    let budget = json!({ "spec": { "selector": selector }, "status": status });
    let kind = EventResource::PodDisruptionBudget;
    cache.set_object(&kind, "default", "b", Some(Arc::new(budget)));
}

fn show(cache: &mut Cache, pod: PodBuilder) {
    cache.apply(Arc::new(pod.build()), &"n".into());
}

/// A cache in which the pod is being evicted.
fn evicting() -> Cache {
    let mut cache = Cache::default();
    status(&mut cache, 1);
    show(&mut cache, web());
    cache.begin_eviction(&web().build());
    cache
}

fn counted(cache: &Cache) -> usize {
    cache.cluster().evicting("default", "b").count()
}

#[test]
fn eviction_counts_while_the_pod_runs() {
    let mut cache = evicting();
    show(&mut cache, web().label("changed", "yes"));
    status(&mut cache, 1);
    assert_eq!(counted(&cache), 1);
}

#[test]
fn eviction_of_terminating_pod_counts_until_the_next_budget_status() {
    let mut cache = evicting();
    let ending = Some("2026-01-01T00:00:00Z".to_owned());
    show(&mut cache, web().with(|pod| pod.metadata.deletion_timestamp = ending));
    assert_eq!(counted(&cache), 1);
    status(&mut cache, 0);
    assert_eq!(counted(&cache), 0);
}

#[test]
fn eviction_of_deleted_pod_does_not_count() {
    let mut cache = evicting();
    cache.remove(&web().build().uid);
    assert_eq!(counted(&cache), 0, "no further status may come");
    let mut cache = evicting();
    let relabelled = web().label("app", "other").build();
    cache.apply(Arc::new(relabelled), &"n".into());
    cache.remove(&web().build().uid);
    assert_eq!(counted(&cache), 0, "whatever labels it has by then");
}
