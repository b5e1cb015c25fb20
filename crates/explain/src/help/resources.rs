//! Help for pods that lack resources, pod slots or host ports.

use std::sync::Arc;

use framework::{Cluster, ControllerKind, NodeIx, Pod, PodRequests, Resources};

use super::{Proposal, are_siblings, size, with_node};
use crate::lab::Lab;
use crate::now::Findings;
use crate::quantity;

const FIT: &str = "NodeResourcesFit";
const PORTS: &str = "NodePorts";
/// Largest part of its own size by which a node is enlarged rather than replaced by another one.
const MOST_GROWTH: f64 = 1.0;
/// Number of nodes whose pods are looked at.
const NODES: usize = 64;

/// An amount that a node lacks.
struct Shortage<'a> {
    resource: &'a str,
    /// The amount that is missing.
    missing: i64,
    /// The amount that the pod requests.
    requested: i64,
    allocatable: i64,
    /// The amount that the pods of the node request.
    used: i64,
}

/// The resources that a node lacks, if nothing else keeps the pod from it.
struct Lack<'a> {
    node: NodeIx,
    shortages: Vec<Shortage<'a>>,
    /// Number of pods that are too many there, with the pod.
    pods: i64,
}

pub(super) fn proposals(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let cluster = lab.cluster();
    let requests = &findings.pod.requests.fit;
    let lack = |node: NodeIx| {
        let view = cluster.node(node);
        let pods = (view.pod_count() + 1 - view.allowed_pods()).max(0);
        Lack { node, shortages: of_node(cluster, node, requests), pods }
    };
    let mut lacks: Vec<Lack<'_>> =
        findings.rejected_only_by(&[FIT], cluster).iter().map(lack).collect();
    let mut proposals = Vec::new();
    lacks.sort_by(|a, b| a.share_of_requests().total_cmp(&b.share_of_requests()));
    let with_slots = lacks.iter().filter(|lack| lack.pods == 0);
    proposals.extend(with_slots.take(2).filter_map(|lack| less(findings, lack)));
    lacks.sort_by(|a, b| a.growth().total_cmp(&b.growth()));
    let with_slots = lacks.iter().filter(|lack| lack.pods == 0);
    proposals.extend(with_slots.take(2).map(|lack| more(lab, lack)));
    let full = lacks.iter().filter(|lack| lack.pods > 0 && lack.shortages.is_empty());
    proposals.extend(full.take(2).map(|lack| slots(lab, lack)));
    proposals.extend(fewer(lab, &findings.pod, &lacks));
    proposals.extend(ports(lab, findings));
    proposals
}

impl Lack<'_> {
    /// Returns the part of the requests that is missing.
    fn share_of_requests(&self) -> f64 {
        self.shortages.iter().map(|own| ratio(own.missing, own.requested)).sum()
    }

    /// Returns the part of its own size by which the node is too small. Devices can be added to a
    /// node: one without any comes after those that have some.
    fn growth(&self) -> f64 {
        let of = |own: &Shortage<'_>| match (own.resource, own.allocatable) {
            ("cpu" | "memory" | "ephemeral-storage", allocatable) => {
                ratio(own.missing, allocatable)
            }
            (_, 0) => 0.9,
            (_, allocatable) => 0.8 * ratio(own.missing, allocatable).min(1.0),
        };
        self.shortages.iter().map(of).sum::<f64>()
            + 0.1 * self.shortages.len().saturating_sub(1) as f64
    }
}

#[expect(clippy::cast_precision_loss, reason = "the ratio sorts suggestions")]
fn ratio(part: i64, whole: i64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Returns the amounts that a node lacks for these requests.
fn of_node<'a>(cluster: &Cluster, node: NodeIx, requests: &'a Resources) -> Vec<Shortage<'a>> {
    let view = cluster.node(node);
    let (allocatable, requested) = (view.allocatable(), view.requested());
    let shortage = |resource: &'a str, amount: i64, allocatable: i64, used: i64| {
        let missing = amount - (allocatable - used).max(0);
        let own = Shortage { resource, missing, requested: amount, allocatable, used };
        (amount > 0 && missing > 0).then_some(own)
    };
    let rows = [
        ("cpu", requests.milli_cpu, allocatable.milli_cpu, requested.milli_cpu),
        ("memory", requests.memory, allocatable.memory, requested.memory),
        (
            "ephemeral-storage",
            requests.ephemeral_storage,
            allocatable.ephemeral_storage,
            requested.ephemeral_storage,
        ),
    ];
    let rows =
        rows.into_iter().filter_map(|(name, amount, all, used)| shortage(name, amount, all, used));
    let scalars = requests.scalars.iter().filter_map(|(name, amount)| {
        let own = view.scalar(name);
        shortage(name, *amount, own.allocatable, own.requested)
    });
    rows.chain(scalars).collect()
}

/// Smaller requests.
fn less(findings: &Findings, lack: &Lack<'_>) -> Option<Proposal> {
    let mut requests = PodRequests::clone(&findings.pod.requests);
    let mut texts = Vec::new();
    for Shortage { resource, missing, requested, .. } in &lack.shortages {
        let left = requested - missing;
        // A pod that requests almost nothing of what it asked for does not do its work.
        if left <= 0 || ratio(*missing, *requested) > 0.5 {
            return None;
        }
        requests = reduced(&requests, resource, *missing);
        texts.push(format!(
            "{} less {resource} ({} instead of {})",
            quantity::at_least(resource, *missing),
            quantity::at_most(resource, left),
            quantity::at_least(resource, *requested),
        ));
    }
    let pod = Pod { requests: Arc::new(requests), ..Pod::clone(&findings.pod) };
    let text = format!("request {}", texts.join(" and "));
    // The pod cannot become much smaller, so that this is always a smaller change than that of a
    // node.
    let extent = (lack.share_of_requests() / 2.0).min(0.6);
    Some(Proposal::of_pod("request", extent, text, pod))
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
fn more(lab: &Lab<'_>, lack: &Lack<'_>) -> Proposal {
    let changed = with_node(lab, lack.node, |node| {
        for Shortage { resource, missing, .. } in &lack.shortages {
            change(&mut node.allocatable, resource, *missing);
        }
    });
    let amounts = lack.shortages.iter().map(|Shortage { resource, missing, .. }| {
        format!("{} more {resource}", quantity::at_least(resource, *missing))
    });
    let amounts: Vec<String> = amounts.collect();
    let text = format!("{} on node {}", amounts.join(" and "), changed.name);
    let mut proposal = Proposal::of_node("capacity", lack.growth() / 4.0, text, changed);
    if lack.growth() > MOST_GROWTH {
        proposal.size = size::NEW_NODE + 1.5;
    }
    proposal
}

/// One pod fewer that uses enough of everything that its node lacks: the pod of the lowest
/// priority, and of those the one that uses the least of the first resource.
fn fewer(lab: &Lab<'_>, pending: &Pod, lacks: &[Lack<'_>]) -> Option<Proposal> {
    let cluster = lab.cluster();
    // Most nodes without any such pod need no look at their pods.
    let may_help = |lack: &&Lack<'_>| {
        lack.pods <= 1 && lack.shortages.iter().all(|own| own.missing <= own.used)
    };
    let least = lacks.iter().filter(may_help).take(NODES).filter_map(|lack| {
        let pods = cluster.node(lack.node).pods();
        let enough = |pod: &&Arc<Pod>| {
            // The kubelet and the DaemonSet make their pods again at once.
            let kind = pod.controller.as_ref().map(|controller| controller.kind);
            let is_of_node = matches!(kind, Some(ControllerKind::DaemonSet | ControllerKind::Node));
            !is_of_node
                && !are_siblings(pending, pod)
                && lack.shortages.iter().all(|own| used(pod, own.resource) >= own.missing)
        };
        let rank = |pod: &Arc<Pod>| {
            let amount = lack.shortages.first().map_or(0, |own| used(pod, own.resource));
            (pod.priority(), amount)
        };
        let pod = pods
            .filter(enough)
            .min_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.key.cmp(&b.key)))?;
        Some((rank(pod), pod, lack))
    });
    // Of equal ones, that on the node that lacks the least.
    let (_, pod, lack) = least.min_by_key(|(rank, ..)| *rank)?;
    let amounts = lack.shortages.iter().map(|own| {
        format!("{} of {}", quantity::at_most(own.resource, used(pod, own.resource)), own.resource)
    });
    let amounts: Vec<String> = amounts.collect();
    let (key, node) = (&pod.key, cluster.node_name(lack.node));
    let text = match amounts.is_empty() {
        true => format!("one pod fewer on node {node}, for example {key}"),
        false => {
            format!("one pod fewer on node {node}: {key} requests {}", amounts.join(" and "))
        }
    };
    Some(Proposal::without("pod", text, pod))
}

/// Returns the amount of a resource that a pod uses on its node.
fn used(pod: &Pod, resource: &str) -> i64 {
    let placed = &pod.requests.placed;
    match resource {
        "cpu" => placed.milli_cpu,
        "memory" => placed.memory,
        "ephemeral-storage" => placed.ephemeral_storage,
        name => placed.scalar(name),
    }
}

/// Room for one more pod on a node that is full of pods.
fn slots(lab: &Lab<'_>, lack: &Lack<'_>) -> Proposal {
    let allowed = lab.cluster().node(lack.node).allowed_pods();
    let changed = with_node(lab, lack.node, |node| node.allowed_pods += lack.pods);
    let pods = if lack.pods == 1 { "pod" } else { "pods" };
    let text = format!(
        "room for {} more {pods} on node {}, which allows {allowed}",
        lack.pods, changed.name
    );
    Proposal::of_node("slot", (ratio(lack.pods, allowed) / 4.0).min(0.7), text, changed)
}

/// The pod that uses the wanted host ports of a node, if it is only one.
fn ports(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let cluster = lab.cluster();
    let wanted = &findings.pod.spec.host_ports;
    let mut proposals = Vec::new();
    for node in findings.rejected_only_by(&[PORTS], cluster).iter() {
        let view = cluster.node(node);
        let conflict = |pod: &Arc<Pod>| {
            let mut ports = pod.spec.host_ports.iter();
            let port = ports.find(|port| wanted.iter().any(|own| own.conflicts_with(port)))?;
            Some((pod.clone(), port.port))
        };
        let mut users = view.pods().filter_map(conflict);
        if let (Some((pod, port)), None) = (users.next(), users.next()) {
            let node = view.name();
            let text =
                format!("one pod fewer on node {node}: {} uses the host port {port}", pod.key);
            let mut proposal = Proposal::without("port", text, &pod);
            proposal.size += f64::from(pod.priority().clamp(0, 1_000_000)) / 1e7;
            proposals.push(proposal);
        }
    }
    proposals
}
