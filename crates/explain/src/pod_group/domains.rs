//! The domains of the topology of a PodGroup.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::{Cluster, NodeIx, Pod, PodGroupKey};

use super::trial::{Domain, Trials, Tried};
use crate::answer::{PodGroupAnswer, PodGroupDomain, PodGroupShare, PodGroupTopology};
use crate::nodes::amounts;
use crate::quantity;

/// Number of other PodGroups that a domain names.
const SHARES: usize = 10;

/// Returns the topology of a PodGroup with what was found out about its domains; `None` if its pods
/// may be anywhere.
pub(super) fn of(
    cluster: &Cluster,
    group: &PodGroupKey,
    trials: &Trials,
    pending: &[Arc<Pod>],
) -> Option<PodGroupTopology> {
    let domains = match trials {
        Trials::Anywhere(_) => return None,
        Trials::InDomains(domains) => &domains[..],
        Trials::Nowhere(_) => &[],
    };
    let key = topology_of(cluster, group)?;
    let requested = requested_by(pending);
    let domains = domains.iter().map(|domain| row(cluster, group, domain, &requested)).collect();
    Some(PodGroupTopology { key, domains })
}

/// Returns the keys of the topology that a PodGroup or its pods ask for.
pub(crate) fn topology_of(cluster: &Cluster, group: &PodGroupKey) -> Option<String> {
    let levels = cluster.topology_of_group(group).ok()?;
    let keys: Vec<&str> = levels.iter().map(|level| &*level.key).collect();
    (!keys.is_empty()).then(|| keys.join("/"))
}

/// Returns the names of the resources that pods request.
fn requested_by(pods: &[Arc<Pod>]) -> BTreeSet<String> {
    pods.iter().flat_map(|pod| crate::node::requests(pod).into_keys()).collect()
}

fn row(
    cluster: &Cluster,
    group: &PodGroupKey,
    domain: &Domain,
    requested: &BTreeSet<String>,
) -> PodGroupDomain {
    let mut pods: BTreeMap<PodGroupKey, usize> = BTreeMap::new();
    let placed = domain.nodes.iter().flat_map(|node| cluster.node(*node).pods());
    for other in placed.filter_map(|pod| pod.pod_group()) {
        *pods.entry(other).or_default() += 1;
    }
    let placed = pods.remove(group).unwrap_or_default();
    let mut held_by: Vec<PodGroupShare> = pods
        .into_iter()
        .map(|(group, pods)| PodGroupShare { group: group.to_string(), pods })
        .collect();
    held_by.sort_by_key(|own| Reverse(own.pods));
    held_by.truncate(SHARES);
    let first_reason = |own: &Tried| own.outcome.as_ref().err().cloned();
    PodGroupDomain {
        name: domain.name.to_string(),
        nodes: domain.nodes.len(),
        placed,
        fit: domain.fit,
        is_bound: domain.tried.is_none(),
        resources: free(cluster, &domain.nodes, requested),
        held_by,
        missing: domain.tried.iter().flatten().find_map(first_reason),
    }
}

/// Returns the free and the allocatable amounts of nodes together. Only nodes that are not cordoned
/// have free amounts.
fn free(
    cluster: &Cluster,
    nodes: &[NodeIx],
    resources: &BTreeSet<String>,
) -> BTreeMap<String, (String, String)> {
    let mut sums: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for node in nodes {
        let is_open = !cluster.node(*node).is_unschedulable();
        for (name, (requested, allocatable)) in amounts(cluster, *node) {
            if resources.contains(&name) {
                let (free, all) = sums.entry(name).or_default();
                let own = (allocatable - requested).max(0);
                *free = free.saturating_add(if is_open { own } else { 0 });
                *all = all.saturating_add(allocatable);
            }
        }
    }
    let texts = sums.into_iter().map(|(name, (free, all))| {
        let texts = (quantity::text(&name, free), quantity::text(&name, all));
        (name, texts)
    });
    texts.collect()
}

/// Says in which domain the most pods fit, for a sentence about a group that does not fit.
pub(super) fn closest_place(answer: &PodGroupAnswer) -> String {
    let Some(topology) = &answer.topology else { return String::new() };
    let PodGroupTopology { key, domains } = topology;
    match &domains[..] {
        [] => String::new(),
        [only] => format!(" in {}, the only domain of {key} that it may have", only.name),
        [first, ..] => {
            format!(" in {}, the closest of {} domains of {key}", first.name, domains.len())
        }
    }
}

/// Says which domains take all pods that are needed.
pub(super) fn place_that_takes_all(answer: &PodGroupAnswer, needed: usize) -> String {
    let Some(topology) = &answer.topology else { return String::new() };
    let PodGroupTopology { key, domains } = topology;
    let takes_all = |own: &&PodGroupDomain| !own.is_bound && answer.placed + own.fit >= needed;
    match (domains.iter().filter(takes_all).count(), domains.first()) {
        (_, None) => String::new(),
        (1, Some(first)) => format!(" in {} of {key}", first.name),
        (2, Some(first)) => format!(" in {} and one other domain of {key}", first.name),
        (count, Some(first)) => {
            format!(" in {} and {} other domains of {key}", first.name, count - 1)
        }
    }
}
