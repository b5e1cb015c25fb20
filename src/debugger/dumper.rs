//! The texts of a dump, in the format of kube-scheduler.
//!
//! The compact pods have no phase, so the phase is written only for pods without a node, which are
//! `Pending`.

use std::fmt::Write;
use std::sync::Arc;

use engine::queue::{GroupCount, PendingPodCounts};
use framework::{Pod, Resources};

use crate::scheduling_loop::{NodeSnapshot, Snapshot};

/// Number of nodes per log record.
const NODES: usize = 100;
/// Number of pending pods per log record.
const PODS: usize = 1000;

/// Describes the nodes and their pods, sorted by name, a hundred nodes per text.
pub(super) fn nodes(snapshot: &Snapshot) -> Vec<String> {
    let mut nodes: Vec<&NodeSnapshot> = snapshot.nodes.iter().collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    let texts =
        |nodes: &[&NodeSnapshot]| nodes.iter().map(|node| node_info(node)).collect::<Vec<_>>();
    nodes.chunks(NODES).map(|nodes| texts(nodes).join("\n\n")).collect()
}

/// Counts the entities in the queue, at level 1.36 the pods. No member waits for the end of the
/// attempt of its group. A group without a PodGroup is an entity; its pods are counted apart, too.
pub(super) fn summary(snapshot: &Snapshot) -> String {
    let PendingPodCounts { active, backoff, unschedulable, gated, groups, .. } = snapshot.queue;
    if !snapshot.behaviours.dump_counts_entities {
        let waiting = unschedulable + gated;
        return format!("activeQ:{active}; backoffQ:{backoff}; unschedulablePods:{waiting}");
    }
    let entities = |pods: usize, own: GroupCount| pods - own.pods + own.groups;
    let (active, backoff) = (entities(active, groups.active), entities(backoff, groups.backoff));
    let waiting = entities(unschedulable, groups.unschedulable) + entities(gated, groups.gated);
    let incomplete = snapshot.incomplete_members;
    format!(
        "activeQ:{active}; backoffQ:{backoff}; unschedulableEntities:{waiting}; \
         pendingPodGroupMemberPods:0; incompletePodGroupPods:{incomplete}"
    )
}

/// Describes the pods without a node, a thousand per text; at least one text.
pub(super) fn pending_pods(snapshot: &Snapshot) -> Vec<String> {
    match snapshot.pending.is_empty() {
        true => vec![String::new()],
        false => snapshot.pending.chunks(PODS).map(pods).collect(),
    }
}

fn node_info(node: &NodeSnapshot) -> String {
    let requested = resources(&node.requested, 0);
    let allocatable = resources(&node.allocatable, node.allowed_pods);
    let mut text = format!(
        "Node name: {}\nDeleted: {}\nRequested Resources: {requested}\n\
         Allocatable Resources:{allocatable}\nScheduled Pods(number: {}):\n{}",
        node.name,
        !node.exists,
        node.pods.len(),
        pods(&node.pods),
    );
    if !node.nominated.is_empty() {
        let (count, nominated) = (node.nominated.len(), pods(&node.nominated));
        text.push_str(&format!("Nominated Pods(number: {count}):\n{nominated}"));
    }
    text
}

/// Prints amounts like `%+v` of Go.
fn resources(amounts: &Resources, pods: i64) -> String {
    let Resources { milli_cpu, memory, ephemeral_storage, scalars } = amounts;
    let scalars: Vec<_> = scalars.iter().map(|(name, amount)| format!("{name}:{amount}")).collect();
    let scalars = scalars.join(" ");
    format!(
        "&{{MilliCPU:{milli_cpu} Memory:{memory} EphemeralStorage:{ephemeral_storage} \
         AllowedPodNumber:{pods} ScalarResources:map[{scalars}]}}"
    )
}

fn pods(pods: &[Arc<Pod>]) -> String {
    let mut text = String::new();
    for pod in pods {
        let (namespace, name) = (&pod.key.namespace, &pod.key.name);
        let phase = if pod.node_name.is_none() { "phase: Pending, " } else { "" };
        let nominated = pod.nominated_node_name().map_or("", |node| node);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "name: {name}, namespace: {namespace}, uid: {}, {phase}nominated node: {nominated}",
            pod.uid
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use framework::{Behaviours, Level};
    use testkit::pod;

    use super::*;

    fn node(name: &str) -> NodeSnapshot {
        NodeSnapshot {
            name: name.into(),
            exists: true,
            requested: Resources { milli_cpu: 100, ..Resources::default() },
            allocatable: Resources {
                milli_cpu: 4000,
                memory: 1024,
                scalars: [("example.com/gpu".into(), 2)].into(),
                ..Resources::default()
            },
            allowed_pods: 110,
            pods: Vec::new(),
            nominated: Vec::new(),
        }
    }

    #[test]
    fn dump_has_the_texts_of_kube_scheduler() {
        let mut busy = node("busy");
        busy.pods = vec![Arc::new(pod("web").on("busy").build())];
        busy.nominated = vec![Arc::new(pod("urgent").nominated("busy").build())];
        let gone = NodeSnapshot { exists: false, ..node("gone") };
        let queue =
            PendingPodCounts { active: 1, unschedulable: 2, gated: 3, ..Default::default() };
        let pending = busy.nominated.clone();
        let snapshot = Snapshot { nodes: vec![gone, busy], pending, queue, ..Snapshot::default() };
        let texts = nodes(&snapshot);
        let allocatable = "Allocatable Resources:&{MilliCPU:4000 Memory:1024 EphemeralStorage:0 \
                           AllowedPodNumber:110 ScalarResources:map[example.com/gpu:2]}";
        let requested = "Requested Resources: &{MilliCPU:100 Memory:0 EphemeralStorage:0 \
                         AllowedPodNumber:0 ScalarResources:map[]}";
        let urgent = "name: urgent, namespace: default, uid: uid-urgent, phase: Pending, nominated node: busy\n";
        let expected = format!(
            "Node name: busy\nDeleted: false\n{requested}\n{allocatable}\n\
             Scheduled Pods(number: 1):\n\
             name: web, namespace: default, uid: uid-web, nominated node: \n\
             Nominated Pods(number: 1):\n{urgent}\n\n\
             Node name: gone\nDeleted: true\n{requested}\n{allocatable}\n\
             Scheduled Pods(number: 0):\n"
        );
        assert_eq!(texts, [expected]);
        let at_1_37 = "activeQ:1; backoffQ:0; unschedulableEntities:5; pendingPodGroupMemberPods:0; \
                       incompletePodGroupPods:0";
        assert_eq!(summary(&snapshot), at_1_37);
        let behaviours = Behaviours::of(Level::V1_36);
        let snapshot = Snapshot { behaviours, ..snapshot };
        assert_eq!(summary(&snapshot), "activeQ:1; backoffQ:0; unschedulablePods:5");
        let gated = GroupCount { groups: 1, pods: 3 };
        let mut snapshot = Snapshot { behaviours: Behaviours::of(Level::V1_37), ..snapshot };
        snapshot.queue.groups.gated = gated;
        snapshot.incomplete_members = 3;
        let with_group = "activeQ:1; backoffQ:0; unschedulableEntities:3; \
                          pendingPodGroupMemberPods:0; incompletePodGroupPods:3";
        assert_eq!(summary(&snapshot), with_group);
        assert_eq!(pending_pods(&snapshot), [urgent]);
    }

    #[test]
    fn large_dumps_are_split() {
        let all = (0..250).map(|number| node(&format!("n{number:03}"))).collect();
        let pending = std::iter::repeat_n(Arc::new(pod("p").build()), 1001).collect();
        let snapshot = Snapshot { nodes: all, pending, ..Snapshot::default() };
        assert_eq!(nodes(&snapshot).len(), 3);
        assert_eq!(pending_pods(&snapshot).len(), 2);
        assert_eq!(pending_pods(&Snapshot::default()), [""]);
    }
}
