//! The domains of the topology of a PodGroup.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::{Cluster, LevelWish, NodeIx, Pod, PodGroupKey};

use super::pods;
use super::trial::{Domain, Level, Trials, Tried};
use crate::answer::{
    PodGroupAnswer, PodGroupDomain, PodGroupLevel, PodGroupShare, PodGroupTopology,
};
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
        Trials::Anywhere(_) | Trials::ByLevels { .. } => return None,
        Trials::InDomains(domains) => &domains[..],
        Trials::Nowhere(_) => &[],
    };
    let key = topology_of(cluster, group)?;
    let requested = requested_by(pending);
    let domains = domains.iter().map(|domain| row(cluster, group, domain, &requested)).collect();
    Some(PodGroupTopology { key, domains })
}

/// Returns the levels of a PodGroup with what was found out about their domains; none if its pods
/// are in one domain or may be anywhere.
pub(super) fn levels(
    cluster: &Cluster,
    group: &PodGroupKey,
    trials: &Trials,
    sought: Sought<'_>,
) -> Vec<PodGroupLevel> {
    let Trials::ByLevels { levels, .. } = trials else { return Vec::new() };
    let requested = requested_by(sought.pending);
    let wishes = cluster.topology_of_group(group).unwrap_or_default();
    let wish_of = |own: &Level| wishes.iter().find(|wish| wish.key == own.key);
    let is_required =
        |own: &Level| wish_of(own).is_some_and(|wish| wish.wish == LevelWish::Required);
    let level = |(place, own): (usize, &Level)| {
        let wish = wish_of(own)?;
        let domains = own.domains.iter().map(|domain| row(cluster, group, domain, &requested));
        let domains: Vec<PodGroupDomain> = domains.collect();
        let text = wish.to_string();
        let text = text.strip_prefix(&*own.key).unwrap_or_default().trim();
        let wider: Vec<bool> = levels[..place].iter().map(is_required).collect();
        let summary = match wish.wish {
            LevelWish::Required | LevelWish::Preferred => in_one(&domains, sought),
            LevelWish::Blocks(size) => best_of(by_wider(&domains, &wider), |wider, domains| {
                in_blocks(size, wider, domains, sought)
            }),
            LevelWish::Over(wanted) => {
                best_of(by_wider(&domains, &wider), |wider, own| over(wanted, wider, own))
            }
        };
        let (key, wish) = (own.key.to_string(), text.to_owned());
        Some(PodGroupLevel { key, wish, summary, domains })
    };
    levels.iter().enumerate().filter_map(level).collect()
}

const NO_DOMAIN: &str = "there is no domain";

/// The pods of a group for which room is sought.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a> {
    pub(super) pending: &'a [Arc<Pod>],
    /// Number of them that have to fit.
    pub(super) needed: usize,
}

/// What the domains of a level take within a domain of the wider levels.
struct Taken {
    fit: usize,
    text: String,
}

/// Returns the domains by the values of those wider levels that are required. Names of domains are
/// the values of all levels, and no value has a slash.
fn by_wider<'d>(
    domains: &'d [PodGroupDomain],
    is_required: &[bool],
) -> BTreeMap<String, Vec<&'d PodGroupDomain>> {
    let mut within: BTreeMap<String, Vec<&PodGroupDomain>> = BTreeMap::new();
    for domain in domains {
        let values = domain.name.split('/').zip(is_required);
        let wider: Vec<&str> = values.filter(|(_, own)| **own).map(|(value, _)| value).collect();
        within.entry(wider.join("/")).or_default().push(domain);
    }
    within
}

/// Returns what is said of the wider domain in which most fits.
fn best_of(
    within: BTreeMap<String, Vec<&PodGroupDomain>>,
    taken: impl Fn(&str, &[&PodGroupDomain]) -> Taken,
) -> String {
    let all = within.iter().map(|(wider, domains)| taken(wider, domains));
    let best = all.min_by_key(|own| Reverse(own.fit));
    best.map_or_else(|| NO_DOMAIN.to_owned(), |own| own.text)
}

/// Says which domain comes closest to all pods, and what it lacks.
fn in_one(domains: &[PodGroupDomain], sought: Sought<'_>) -> String {
    let (needed, all) = (sought.needed, sought.pending.len());
    let Some(PodGroupDomain { name, fit, .. }) = domains.first() else {
        return NO_DOMAIN.to_owned();
    };
    match needed.saturating_sub(*fit) {
        0 => format!("{fit} of {all} pods fit in {name}"),
        lack => format!(
            "{fit} of {needed} pods fit in {name}, the closest of {} domains: room for {lack} is \
             missing",
            domains.len()
        ),
    }
}

/// Says how many blocks fit, and which domain lacks the least for one more.
fn in_blocks(size: u32, wider: &str, domains: &[&PodGroupDomain], sought: Sought<'_>) -> Taken {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let wanted = sought.needed.div_ceil(size);
    let rest = sought.needed % size;
    let whole: usize = domains.iter().map(|own| own.fit / size).sum();
    let has_rest = rest > 0 && domains.iter().any(|own| own.fit % size >= rest);
    let fit = (whole + usize::from(has_rest)).min(wanted);
    let mut text = format!("{fit} of {wanted} blocks of {size} fit{}", within(wider));
    let closest = domains.iter().max_by_key(|own| own.fit % size);
    if let Some(closest) = closest.filter(|_| fit < wanted) {
        let lack = pods(size - closest.fit % size);
        text = format!("{text}; {} lacks room for {lack} for one more", closest.name);
    }
    Taken { fit, text }
}

/// Says how many domains take a pod.
fn over(wanted: u32, wider: &str, domains: &[&PodGroupDomain]) -> Taken {
    let fit = domains.iter().filter(|own| own.fit + own.placed > 0).count();
    let (all, within) = (domains.len(), within(wider));
    let text = format!("{fit} of {all} domains{within} take a pod, and {wanted} are asked for");
    Taken { fit, text }
}

fn within(wider: &str) -> String {
    if wider.is_empty() { String::new() } else { format!(" in {wider}") }
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
    if !answer.levels.is_empty() {
        return " by the levels of its topology".to_owned();
    }
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
