use framework::{Attempt, AttemptMut, CycleState, EventObjects, Metric, Node};
use serde_json::{Value, json};
use testkit::{Harness, NodeBuilder, node, pod};

use super::*;

fn made() -> Plugin {
    plugin(&PluginArgs::default()).unwrap()
}

fn window(name: &str, state: &str, nodes: &[&str]) -> Value {
    json!({"metadata": {"name": name}, "spec": {"state": state, "nodes": nodes}})
}

fn rack_window(name: &str, state: &str, rack: &str) -> Value {
    let label = json!({"key": "rack", "value": rack});
    json!({"metadata": {"name": name}, "spec": {"state": state, "nodeLabel": label}})
}

fn racked(name: &str, rack: &str) -> NodeBuilder {
    node(name).label("rack", rack)
}

/// Nodes `a` and `b` of rack 1, `c` of rack 2, and these windows.
fn harness<'w>(windows: impl IntoIterator<Item = &'w Value>) -> Harness {
    let nodes = [racked("a", "1"), racked("b", "1"), racked("c", "2")];
    let empty = nodes.into_iter().fold(Harness::new(made()), |h, node| h.node(node.build()));
    windows.into_iter().fold(empty, |harness, window| harness.object(KIND, window.clone()))
}

#[test]
fn open_windows_reject_their_nodes() {
    let harness = harness(&[
        window("one", "Open", &["a", "gone"]),
        window("later", "Closed", &["b"]),
        rack_window("rack", "Open", "2"),
    ]);
    let run = harness.run(&pod("p").build());
    assert_eq!(run.feasible(), ["b"]);
    let expected = Status::unresolvable("node(s) in maintenance window one");
    assert_eq!(run.verdicts["a"], expected);
    assert_eq!(run.verdicts["c"].message(), "node(s) in maintenance window rack");
}

#[test]
fn pre_filter_skips_without_an_open_window() {
    let state = &mut CycleState::new();
    let closed = harness(&[window("one", "Closed", &["a"])]);
    let status = made().pre_filter.unwrap().pre_filter(AttemptMut::new(
        state,
        &pod("p").build(),
        &closed.handle(),
    ));
    assert_eq!(status, Err(Status::skip()));
    assert_eq!(closed.run(&pod("p").build()).feasible(), ["a", "b", "c"]);
}

#[test]
fn invalid_window_is_ignored_and_counted() {
    let plugin = made();
    let Metric::Gauge(unreadable) = plugin.metrics[0].clone() else { panic!("it is a gauge") };
    let harness = Harness::new(plugin)
        .node(node("a").build())
        .object(KIND, window("odd", "Ajar", &["a"]))
        .object(KIND, json!({"metadata": {"name": "empty"}}));
    assert_eq!(harness.run(&pod("p").build()).feasible(), ["a"]);
    assert_eq!(unreadable.get(), 2);
}

#[test]
fn filter_without_pre_filter_is_an_error() {
    let harness = harness([]);
    let view = harness.cluster().node(harness.cluster().node_named("a").unwrap());
    let status = made()
        .filter
        .unwrap()
        .filter(&Attempt::new(&CycleState::new(), &pod("p").build(), &harness.handle()), &view);
    assert_eq!(status.message(), "PreFilter of MaintenanceWindow did not run");
}

/// Returns the hint for a change of one of several windows.
fn window_hint(old: Option<&Value>, new: Option<&Value>, others: &[Value]) -> QueueingHint {
    let action = match (old, new) {
        (None, _) => ActionType::ADD,
        (_, None) => ActionType::DELETE,
        _ => ActionType::UPDATE,
    };
    let event = ClusterEvent::new(EventResource::Custom(KIND.into()), action);
    let harness = harness(new.into_iter().chain(others));
    let decoded = |json: &Value| testkit::object(EventResource::Custom(KIND.into()), json.clone());
    let (old, new) = (old.map(decoded), new.map(decoded));
    let objects = EventObjects::Other { old: old.as_ref(), new: new.as_ref() };
    let hint = harness.hint(&pod("p").build(), &event, objects);
    hint.unwrap_or(QueueingHint::Skip)
}

#[test]
fn pod_requeues_when_a_node_leaves_all_windows() {
    use QueueingHint::{Queue, Skip};
    let (open, closed) = (window("w", "Open", &["a"]), window("w", "Closed", &["a"]));
    let wider = window("w", "Open", &["a", "b"]);
    let (rack, odd) = (rack_window("w", "Open", "1"), window("w", "Ajar", &["a"]));
    let stranger = window("w", "Open", &["elsewhere"]);
    for (old, new, expected) in [
        (Some(&open), None, Queue),
        (Some(&open), Some(&closed), Queue),
        (Some(&wider), Some(&open), Queue),
        (Some(&rack), Some(&open), Queue),
        (Some(&open), Some(&odd), Queue),
        (Some(&open), Some(&wider), Skip),
        (Some(&open), Some(&rack), Skip),
        (Some(&closed), Some(&open), Skip),
        (Some(&closed), None, Skip),
        (Some(&stranger), None, Skip),
        (Some(&odd), Some(&closed), Skip),
        (None, Some(&open), Skip),
    ] {
        assert_eq!(window_hint(old, new, &[]), expected, "{old:?} to {new:?}");
    }
    let other = rack_window("other", "Open", "1");
    assert_eq!(window_hint(Some(&open), None, &[other]), Skip, "the rack is still worked on");
}

#[test]
fn pod_requeues_for_a_node_outside_all_windows() {
    let harness = harness(&[rack_window("w", "Open", "1")]);
    let hint = |old: Option<&Node>, new: &Node| {
        let action = if old.is_none() { ActionType::ADD } else { ActionType::UPDATE_NODE_LABEL };
        let event = ClusterEvent::new(EventResource::Node, action);
        let objects = EventObjects::Node { old, new: Some(new) };
        harness.hint(&pod("p").build(), &event, objects).unwrap()
    };
    let (held, free) = (racked("a", "1").build(), racked("a", "2").build());
    assert_eq!(hint(None, &free), QueueingHint::Queue);
    assert_eq!(hint(None, &held), QueueingHint::Skip);
    assert_eq!(hint(Some(&held), &free), QueueingHint::Queue);
    assert_eq!(hint(Some(&free), &free), QueueingHint::Skip);
    assert_eq!(hint(Some(&free), &held), QueueingHint::Skip);
}

#[test]
fn kind_is_watched_and_arguments_are_rejected() {
    let plugin = made();
    assert_eq!(plugin.watched_kinds, [KIND.into()].into());
    let error = super::plugin(&PluginArgs::new(json!({"state": "Open"}))).unwrap_err();
    assert!(error.starts_with("unknown field `state`"), "{error}");
}
