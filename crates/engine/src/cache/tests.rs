use framework::testing::{PodBuilder, pod};
use serde_json::json;

use super::*;

fn web() -> PodBuilder {
    pod("web").label("app", "web").on("n")
}

/// A new status of the budget `b`, which means pods labelled `app=web`.
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
fn an_eviction_counts_while_the_pod_runs_whatever_is_seen_of_it_and_its_budget() {
    let mut cache = evicting();
    show(&mut cache, web().label("changed", "yes"));
    status(&mut cache, 1);
    assert_eq!(counted(&cache), 1);
}

#[test]
fn an_eviction_counts_until_a_status_that_is_newer_than_the_beginning_of_the_end() {
    let mut cache = evicting();
    let ending = Some("2026-01-01T00:00:00Z".to_owned());
    show(&mut cache, web().with(|pod| pod.metadata.deletion_timestamp = ending));
    assert_eq!(counted(&cache), 1);
    status(&mut cache, 0);
    assert_eq!(counted(&cache), 0);
}

#[test]
fn an_eviction_of_a_pod_that_is_gone_counts_no_more() {
    let mut cache = evicting();
    cache.remove(&web().build().uid);
    assert_eq!(counted(&cache), 0, "no further status may come");
    let mut cache = evicting();
    let relabelled = web().label("app", "other").build();
    cache.apply(Arc::new(relabelled), &"n".into());
    cache.remove(&web().build().uid);
    assert_eq!(counted(&cache), 0, "whatever labels it has by then");
}
