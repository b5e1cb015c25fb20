//! Help for pods that lack resources, pod slots or host ports.

use std::sync::Arc;

use framework::{Cluster, NodeIx, Pod, PodRequests, Resources};

use super::{Proposal, with_node};
use crate::lab::Lab;
use crate::now::Findings;
use crate::quantity;

const FIT: &str = "NodeResourcesFit";
const PORTS: &str = "NodePorts";

/// An amount that a node lacks.
struct Shortage {
    node: NodeIx,
    resource: Arc<str>,
    /// The amount that is missing.
    missing: i64,
    /// The amount that the pod requests.
    requested: i64,
    allocatable: i64,
}

pub(super) fn proposals(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let cluster = lab.cluster();
    let mut proposals = Vec::new();
    let mut shortages = Vec::new();
    for node in findings.rejected_only_by(&[FIT], cluster).iter() {
        let view = cluster.node(node);
        let own = of_node(cluster, node, &findings.pod.requests.fit);
        let slots_left = view.allowed_pods() - view.pod_count();
        match (own.len(), slots_left) {
            (0, ..=0) => proposals.extend(slot(lab, node)),
            (1, 1..) => shortages.extend(own),
            _ => {}
        }
    }
    proposals.sort_by(|a, b| a.size.total_cmp(&b.size));
    shortages
        .sort_by(|a, b| ratio(a.missing, a.requested).total_cmp(&ratio(b.missing, b.requested)));
    proposals.extend(shortages.iter().take(2).filter_map(|shortage| less(findings, shortage)));
    shortages.sort_by(|a, b| growth(a).total_cmp(&growth(b)));
    proposals.extend(shortages.iter().take(2).map(|shortage| more(lab, shortage)));
    proposals.extend(shortages.iter().take(2).filter_map(|shortage| fewer(lab, shortage)));
    proposals.extend(ports(lab, findings));
    proposals
}

#[expect(clippy::cast_precision_loss, reason = "the ratio sorts suggestions")]
fn ratio(part: i64, whole: i64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn growth(shortage: &Shortage) -> f64 {
    ratio(shortage.missing, shortage.allocatable)
}

/// Returns the amounts that a node lacks for these requests.
fn of_node(cluster: &Cluster, node: NodeIx, requests: &Resources) -> Vec<Shortage> {
    let view = cluster.node(node);
    let (allocatable, requested) = (view.allocatable(), view.requested());
    let scalar = |(name, amount): &(Arc<str>, i64)| {
        let own = view.scalar(name);
        (name.clone(), *amount, own.allocatable, own.requested)
    };
    let rows = [
        ("cpu".into(), requests.milli_cpu, allocatable.milli_cpu, requested.milli_cpu),
        ("memory".into(), requests.memory, allocatable.memory, requested.memory),
        (
            "ephemeral-storage".into(),
            requests.ephemeral_storage,
            allocatable.ephemeral_storage,
            requested.ephemeral_storage,
        ),
    ];
    let rows = rows.into_iter().chain(requests.scalars.iter().map(scalar));
    let shortage = |(resource, amount, allocatable, requested): (Arc<str>, i64, i64, i64)| {
        let missing = amount - (allocatable - requested).max(0);
        (amount > 0 && missing > 0).then_some(Shortage {
            node,
            resource,
            missing,
            requested: amount,
            allocatable,
        })
    };
    rows.filter_map(shortage).collect()
}

/// A smaller request.
fn less(findings: &Findings, shortage: &Shortage) -> Option<Proposal> {
    let Shortage { resource, missing, requested, .. } = shortage;
    let left = requested - missing;
    // A pod that requests almost nothing of what it asked for does not do its work.
    if left <= 0 || ratio(*missing, *requested) > 0.5 {
        return None;
    }
    let pod = Pod {
        requests: Arc::new(reduced(&findings.pod.requests, resource, *missing)),
        ..Pod::clone(&findings.pod)
    };
    let text = format!(
        "request {} less {resource} ({} instead of {})",
        quantity::text(resource, *missing),
        quantity::text(resource, left),
        quantity::text(resource, *requested),
    );
    Some(Proposal::of_pod("request", ratio(*missing, *requested), text, pod))
}

fn reduced(requests: &PodRequests, resource: &str, by: i64) -> PodRequests {
    let mut reduced = requests.clone();
    for resources in [&mut reduced.fit, &mut reduced.score, &mut reduced.placed] {
        change(resources, resource, -by);
    }
    match resource {
        "cpu" => reduced.placed_non_zero.milli_cpu -= by,
        "memory" => reduced.placed_non_zero.memory -= by,
        _ => {}
    }
    reduced
}

/// Changes one amount.
pub(super) fn change(resources: &mut Resources, resource: &str, by: i64) {
    match resource {
        "cpu" => resources.milli_cpu += by,
        "memory" => resources.memory += by,
        "ephemeral-storage" => resources.ephemeral_storage += by,
        name => {
            let mut scalars = resources.scalars.to_vec();
            match scalars.iter_mut().find(|(own, _)| **own == *name) {
                Some((_, amount)) => *amount += by,
                None if by > 0 => {
                    scalars.push((name.into(), by));
                    scalars.sort_unstable();
                }
                None => {}
            }
            resources.scalars = scalars.into();
        }
    }
}

/// A larger node.
fn more(lab: &Lab<'_>, shortage: &Shortage) -> Proposal {
    let Shortage { node, resource, missing, .. } = shortage;
    let changed = with_node(lab, *node, |node| change(&mut node.allocatable, resource, *missing));
    let amount = quantity::text(resource, *missing);
    let text = format!("{amount} more {resource} on node {}", changed.name);
    Proposal::of_node("capacity", growth(shortage), text, changed)
}

/// One pod fewer that uses enough of the resource: the one of the lowest priority, and the smallest of those.
fn fewer(lab: &Lab<'_>, shortage: &Shortage) -> Option<Proposal> {
    let view = lab.cluster().node(shortage.node);
    let uses = |pod: &Pod| {
        let placed = &pod.requests.placed;
        match &*shortage.resource {
            "cpu" => placed.milli_cpu,
            "memory" => placed.memory,
            "ephemeral-storage" => placed.ephemeral_storage,
            name => placed.scalar(name),
        }
    };
    let enough = view.pods().filter(|pod| uses(pod) >= shortage.missing);
    let pod = enough.min_by_key(|pod| (pod.priority(), uses(pod), pod.key.clone()))?;
    let amount = quantity::text(&shortage.resource, uses(pod));
    let (key, node, resource) = (&pod.key, view.name(), &shortage.resource);
    let text = format!("one pod fewer on node {node}: {key} requests {amount} of {resource}");
    Some(Proposal::without("pod", text, pod))
}

/// Room for one more pod on a node that is full of pods.
fn slot(lab: &Lab<'_>, node: NodeIx) -> Vec<Proposal> {
    let view = lab.cluster().node(node);
    let missing = view.pod_count() + 1 - view.allowed_pods();
    let changed = with_node(lab, node, |node| node.allowed_pods += missing);
    let name = view.name();
    let text =
        format!("{missing} more pods allowed on node {name} (it allows {})", view.allowed_pods());
    let mut proposals =
        vec![Proposal::of_node("slot", ratio(missing, view.allowed_pods()), text, changed)];
    if missing == 1 {
        let pod = view.pods().min_by_key(|pod| (pod.priority(), pod.key.clone()));
        proposals.extend(pod.map(|pod| {
            Proposal::without(
                "pod",
                format!("one pod fewer on node {name}, for example {}", pod.key),
                pod,
            )
        }));
    }
    proposals
}

/// The pod that uses the wanted host ports of a node, if it is only one.
fn ports(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let cluster = lab.cluster();
    let wanted = &findings.pod.spec.host_ports;
    let mut proposals = Vec::new();
    for node in findings.rejected_only_by(&[PORTS], cluster).iter() {
        let view = cluster.node(node);
        let conflicts = |pod: &Pod| {
            let mut ports = pod.spec.host_ports.iter();
            ports.any(|port| wanted.iter().any(|wanted| wanted.conflicts_with(port)))
        };
        let mut users = view.pods().filter(|pod| conflicts(pod));
        if let (Some(pod), None) = (users.next(), users.next()) {
            let text =
                format!("one pod fewer on node {}: {} uses the host port", view.name(), pod.key);
            let mut proposal = Proposal::without("port", text, pod);
            proposal.size += f64::from(pod.priority().clamp(0, 1_000_000)) / 1e7;
            proposals.push(proposal);
        }
    }
    proposals
}
