//! Events that occur during an attempt.
//!
//! An attempt of the engine takes no time, so a plugin delays the pod of these tests: it waits in
//! Permit, in flight, until the plugin's timeout rejects it.

use std::time::Duration;

use framework::{
    ActionType, AttemptMut, ClusterEvent, EventForPod, EventResource, HintResult, Permit,
    PermitVerdict, Plugin, PluginArgs, Pod, QueueingHint,
};
use serde_json::json;

use super::objects::{Step, create, delete, label, node, patch, pod, taint};
use super::world::World;

/// Plugin name.
pub(crate) const NAME: &str = "Turnstile";

const ENABLED: &str = "profiles: [{plugins: {multiPoint: {enabled: [{name: Turnstile}]}}}]";
const PATIENCE: Duration = Duration::from_secs(5);

/// Delays the pod `p` in Permit, and rejects it after a timeout. Registered events: new nodes,
/// deleted pods with a coin, and a coin of the pod itself.
struct Turnstile;

/// Creates the plugin.
///
/// # Errors
/// None.
pub(crate) fn plugin(_: &PluginArgs) -> Result<Plugin, String> {
    let pod_gone = ClusterEvent::new(EventResource::Pod, ActionType::DELETE);
    let pod_labelled = ClusterEvent::new(EventResource::Pod, ActionType::UPDATE_POD_LABEL);
    Ok(Plugin::new(NAME, Turnstile)
        .permit()
        .on(ClusterEvent::new(EventResource::Node, ActionType::ADD))
        .on_with_hint(pod_gone, Turnstile::after_pod_deletion)
        .on_with_hint(pod_labelled, Turnstile::after_label_change)
        .build())
}

impl Turnstile {
    fn after_pod_deletion(&self, event: EventForPod<'_>) -> HintResult {
        let (old, _) = event.objects.pods()?;
        Ok(QueueingHint::queue_if(old.is_some_and(has_coin)))
    }

    fn after_label_change(&self, event: EventForPod<'_>) -> HintResult {
        let (_, new) = event.objects.pods()?;
        Ok(QueueingHint::queue_if(new.is_some_and(|new| new.uid == event.pod.uid && has_coin(new))))
    }
}

fn has_coin(pod: &Pod) -> bool {
    pod.labels.contains_key("coin")
}

impl Permit for Turnstile {
    fn permit(&self, attempt: AttemptMut<'_>, _: &str) -> PermitVerdict {
        match &*attempt.pod.key.name {
            "p" => PermitVerdict::Wait { timeout: PATIENCE, reason: "waits".to_owned() },
            _ => PermitVerdict::Allow,
        }
    }
}

#[test]
fn events_during_an_attempt_requeue_the_rejected_pod() {
    let given = [
        create(node("n")),
        create(pod("coin").label("coin", "1").on("n")),
        create(pod("other").on("n")),
        create(pod("p")),
    ];
    let cordon = patch("nodes/n", json!({"spec": {"unschedulable": true}}));
    let rows: [(&str, Step, bool); 10] = [
        ("a node comes", create(node("m")), true),
        ("a pod with a coin goes", delete("pods/coin"), true),
        ("another pod goes", delete("pods/other"), false),
        ("a node is tainted", taint("nodes/n", "k"), true),
        ("a node is labelled", label("nodes/n", "k", "v"), false),
        ("the node is cordoned", cordon, false),
        ("a pod comes", create(pod("q").on("n")), false),
        ("it gets a coin", label("pods/p", "coin", "1"), true),
        ("it gets something else", label("pods/p", "k", "v"), false),
        ("another pod gets a coin", label("pods/other", "coin", "1"), false),
    ];
    for (what, step, retried) in rows {
        let mut world = World::new(ENABLED, &given);
        assert_eq!(world.attempts("p"), 1, "{what}");
        world.pass(PATIENCE / 2);
        world.happens(&step);
        world.settle();
        assert_eq!(world.attempts("p"), 1, "{what}: it is in flight");
        world.pass(PATIENCE);
        assert_eq!(world.attempts("p"), if retried { 2 } else { 1 }, "{what}");
    }
}
