//! What a rejected group lacks: nodes, or room in its quota.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use framework::quota::{Amounts, Reading, Refusal, Request, Sums};
use framework::{Cluster, Code, MissingNodes, NodeIx, Pod, Resources, quantity_of};

use crate::cycle::FitError;

/// The plugin that rejects nodes without room.
const FIT: &str = "NodeResourcesFit";

/// Returns the nodes that a group lacks of which so many pods have no room, as this pod. They are
/// like the node of the cluster that has room for the most of them when it is empty.
pub(crate) fn missing_nodes(
    fit: &FitError,
    pod: &Pod,
    pods: usize,
    cluster: &Cluster,
) -> Option<MissingNodes> {
    let verdicts = &fit.diagnosis.verdicts;
    let is_full = |node: &NodeIx, code: Code| {
        let status = verdicts.get(*node);
        status.plugin().is_some_and(|plugin| **plugin == *FIT) && status.code() == code
    };
    let nodes = || cluster.nodes().iter();
    let full = nodes().filter(|node| is_full(node, Code::Unschedulable));
    let rooms = full.map(|node| (pods_in(node, pod, cluster), Reverse(node)));
    if let Some((room, Reverse(node))) = rooms.filter(|(room, _)| *room > 0).max() {
        return Some(MissingNodes {
            count: pods.div_ceil(room),
            shape: shape_of(node, pod, cluster),
            like: Some(cluster.node_name(node).clone()),
        });
    }
    let is_small = nodes().any(|node| is_full(&node, Code::UnschedulableAndUnresolvable));
    let shape = || text_of(named(&pod.requests.fit));
    is_small.then(|| MissingNodes { count: pods, shape: shape(), like: None })
}

/// Number of pods for which a node has room when it is empty.
fn pods_in(node: NodeIx, pod: &Pod, cluster: &Cluster) -> usize {
    let asked = named(&pod.requests.fit);
    let rooms = asked.map(|(name, asked)| amount_of(node, name, cluster) / asked);
    let room = rooms.fold(cluster.allowed_pods()[node.index()], i64::min);
    usize::try_from(room).unwrap_or_default()
}

/// Returns what a node has of the resources that a pod asks for.
fn shape_of(node: NodeIx, pod: &Pod, cluster: &Cluster) -> String {
    let asked = named(&pod.requests.fit).map(|(name, _)| (name, amount_of(node, name, cluster)));
    match text_of(asked) {
        empty if empty.is_empty() => format!("pods {}", cluster.allowed_pods()[node.index()]),
        text => text,
    }
}

fn amount_of(node: NodeIx, resource: &str, cluster: &Cluster) -> i64 {
    let has = cluster.node(node);
    match resource {
        "cpu" => has.allocatable().milli_cpu,
        "memory" => has.allocatable().memory,
        "ephemeral-storage" => has.allocatable().ephemeral_storage,
        name => has.scalar(name).allocatable,
    }
}

fn text_of<'a>(amounts: impl Iterator<Item = (&'a str, i64)>) -> String {
    let texts = amounts.map(|(name, amount)| format!("{name} {}", quantity_of(name, amount)));
    texts.collect::<Vec<_>>().join(", ")
}

/// Returns the amounts above 0 with the names of their resources.
fn named(resources: &Resources) -> impl Iterator<Item = (&str, i64)> {
    let Resources { milli_cpu, memory, ephemeral_storage, scalars } = resources;
    let basic = [("cpu", milli_cpu), ("memory", memory), ("ephemeral-storage", ephemeral_storage)];
    let scalars = scalars.iter().map(|(name, amount)| (&**name, amount));
    let all = basic.into_iter().chain(scalars).map(|(name, amount)| (name, *amount));
    all.filter(|(_, amount)| *amount > 0)
}

/// Returns why no choice of so many of these pods fits into their quota, however many nodes there
/// are. Pods of several quotas, or with claims that they may share, are not looked at.
pub(crate) fn over_quota(
    pods: &[&Pod],
    needed: usize,
    cluster: &Cluster,
    reading: Reading,
) -> Option<String> {
    let books = cluster.quotas();
    let quota = books.quota_of(pods.first()?)?;
    let is_plain = |pod: &&Pod| {
        pod.spec.resource_claims.is_empty()
            && books.quota_of(pod).is_some_and(|own| own.ix() == quota.ix())
    };
    if !pods.iter().all(is_plain) {
        return None;
    }
    let mut by_resource: BTreeMap<_, Vec<i128>> = BTreeMap::new();
    for pod in pods {
        for (resource, amount) in books.request_of(pod).iter() {
            by_resource.entry(resource).or_default().push(amount);
        }
    }
    // A pod that does not ask for a resource is among those that ask for the least.
    let least: Amounts = by_resource
        .into_iter()
        .map(|(resource, mut amounts)| {
            amounts.sort_unstable();
            let asking = needed.saturating_sub(pods.len() - amounts.len());
            (resource, amounts.iter().take(asking).sum())
        })
        .collect();
    let request = Request { own: least, beside: Sums::default() };
    let refusal = books.admit(quota.ix(), &request, &Sums::default(), reading).err()?;
    let (limit, resource) = match refusal {
        Refusal::Max { quota, resource } => {
            (format!("ElasticQuota {} may use", books.view(quota).key()), resource)
        }
        Refusal::Total { resource } => ("all ElasticQuotas together may use".to_owned(), resource),
    };
    let resource = books.resource_name(resource);
    Some(format!("{needed} pods ask for more {resource} than {limit}"))
}
