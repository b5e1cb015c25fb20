//! What must hold of decisions, on the cluster as the engine knows it.

use engine::queue::Place;
use engine::{Attempt, Engine, Outcome};
use framework::{NodeView, Pod, Resources, Time};

use super::rules::{Checked, rule};

/// The highest priority of the pods that are ready for an attempt.
pub(crate) fn highest_priority(engine: &Engine) -> Option<i32> {
    let ready = engine.queue().iter().filter(|(place, _)| *place == Place::Active);
    ready.map(|(_, queued)| queued.pod.priority()).max()
}

/// A decision respects what the engine knew when it was taken. `highest` is the
/// [priority](highest_priority) of those whose turn it might have been.
pub(crate) fn after_decision(engine: &Engine, attempt: &Attempt, highest: Option<i32>) -> Checked {
    let Attempt { pod, outcome } = attempt;
    rule(Some(pod.priority()) >= highest, || format!("{} is tried out of turn", pod.key))?;
    match outcome {
        Outcome::Assumed(node) => may_be_at(engine, pod, node),
        Outcome::Unschedulable(text) => {
            let count = engine.cache().cluster().node_count();
            let counted = match count {
                0 => text.starts_with("no nodes available"),
                _ => text.starts_with(&format!("0/{count} nodes are available")),
            };
            rule(counted, || format!("of {count} nodes, {} is told {text:?}", pod.key))
        }
        Outcome::Error(_) | Outcome::Skipped => Ok(()),
    }
}

fn may_be_at(engine: &Engine, pod: &Pod, node: &str) -> Checked {
    let cluster = engine.cache().cluster();
    let at = cluster.node_named(node).ok_or_else(|| format!("{} goes nowhere", pod.key))?;
    let view = cluster.node(at);
    let room = has_room(&view, &Resources::default(), 0);
    rule(room, || format!("{} is put on {node}, where there is no room", pod.key))?;
    rule(admits(&view, pod), || format!("{} is put on {node}, which does not take it", pod.key))?;
    let is_open = pod.spec.scheduling_gates.is_empty() && !pod.terminating;
    rule(is_open, || format!("{} is gated or being deleted, and put on {node}", pod.key))
}

/// A pod that waits for an event fits nowhere: it was woken by whatever made room for it. Only room
/// that was kept for a nominated pod may become free without an event: what was parked before
/// `unnominated`, the last time at which there was one, does not count.
pub(crate) fn parked_pods_fit_nowhere(engine: &Engine, unnominated: Time) -> Checked {
    let cluster = engine.cache().cluster();
    let parked = engine.queue().iter().filter(|(place, _)| *place == Place::Unschedulable);
    let parked = parked.filter(|(_, queued)| queued.timestamp > unnominated);
    for pod in parked.map(|(_, queued)| &queued.pod).filter(|pod| !pod.terminating) {
        let mut nodes = cluster.nodes().iter().map(|node| cluster.node(node));
        let taker = nodes.find(|view| {
            has_room(view, &pod.requests.placed, 1)
                && admits(view, pod)
                && !pod.spec.host_ports.iter().any(|port| view.has_port_conflict(port))
        });
        rule(taker.is_none(), || {
            format!("{} waits, and {:?} takes it", pod.key, taker.map(|view| view.name().clone()))
        })?;
    }
    Ok(())
}

/// Whether the pods that are there fit on the node beside so many `more`.
fn has_room(view: &NodeView<'_>, more: &Resources, pods: i64) -> bool {
    let (has, asked) = (view.allocatable(), view.requested());
    asked.milli_cpu + more.milli_cpu <= has.milli_cpu
        && asked.memory + more.memory <= has.memory
        && view.pod_count() + pods <= view.allowed_pods()
}

/// Whether nothing but a lack of room keeps the pod off the node.
fn admits(view: &NodeView<'_>, pod: &Pod) -> bool {
    let tolerations = &pod.spec.tolerations;
    let is_tolerated = |taint| tolerations.iter().any(|toleration| toleration.tolerates(taint));
    !view.is_unschedulable()
        && view.taints().iter().all(is_tolerated)
        && pod.spec.required_node_affinity.matches(view).is_ok_and(|matches| matches)
}
