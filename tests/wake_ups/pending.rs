//! A pod that a plugin keeps Pending is requeued without backoff.

use engine::queue::Place;
use framework::{
    ActionType, Attempt, ClusterEvent, Code, EventForPod, EventResource, Filter, HintResult,
    NodeView, Plugin, PluginArgs, QueueingHint, Status,
};
use serde_json::json;

use super::objects::{Step, create, label, node, patch, pod};
use super::world::World;

/// Plugin name.
pub(crate) const NAME: &str = "Appointment";

const ENABLED: &str = "profiles: [{plugins: {multiPoint: {enabled: [{name: Appointment}]}}}]";

/// Keeps pods Pending until there is a ready node.
struct Appointment;

/// Creates the plugin.
///
/// # Errors
/// None.
pub(crate) fn plugin(_: &PluginArgs) -> Result<Plugin, String> {
    let nodes = ActionType::ADD | ActionType::UPDATE_NODE_LABEL | ActionType::UPDATE_NODE_TAINT;
    let nodes = ClusterEvent::new(EventResource::Node, nodes);
    let plugin = Plugin::new(NAME, Appointment).filter();
    Ok(plugin.on_with_hint(nodes, Appointment::after_node_change).build())
}

impl Appointment {
    fn after_node_change(&self, event: EventForPod<'_>) -> HintResult {
        let (_, new) = event.objects.nodes()?;
        Ok(QueueingHint::queue_if(new.is_some_and(|new| new.labels.contains_key("ready"))))
    }
}

impl Filter for Appointment {
    fn filter(&self, _: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        match node.label("ready") {
            Some(_) => Status::success(),
            None => Status::new(Code::Pending, "node(s) not ready for it"),
        }
    }
}

#[test]
fn event_of_a_pending_plugin_skips_the_backoff() {
    let cordoned = |name| node(name).spec(json!({"unschedulable": true}));
    let given = [create(node("n")), create(cordoned("c").label("ready", "")), create(pod("p"))];
    let uncordon = patch("nodes/c", json!({"spec": {"unschedulable": null}}));
    let rows: [(&str, Step, Place); 5] = [
        ("a node is ready", label("nodes/n", "ready", ""), Place::Active),
        ("a node comes that is ready", create(node("m").label("ready", "")), Place::Active),
        ("a node comes that is not", create(node("m")), Place::Backoff),
        ("the node that is ready is uncordoned", uncordon, Place::Active),
        ("a node is labelled", label("nodes/n", "k", "v"), Place::Unschedulable),
    ];
    for (what, step, place) in rows {
        let mut world = World::new(ENABLED, &given);
        assert_eq!(world.place("p"), Some(Place::Unschedulable), "{what}");
        world.happens(&step);
        assert_eq!(world.place("p"), Some(place), "{what}");
    }
}

#[test]
fn event_of_another_plugin_keeps_the_backoff() {
    let cordoned = node("n").spec(json!({"unschedulable": true}));
    let mut world = World::new("", &[create(cordoned), create(pod("p"))]);
    world.happens(&create(node("m")));
    assert_eq!(world.place("p"), Some(Place::Backoff));
}
