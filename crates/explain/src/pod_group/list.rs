//! The list of PodGroups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::{NodeIx, Pod, PodGroupKey};

use super::domains::topology_of;
use super::{Assessed, UNSCHEDULABLE, assess};
use crate::answer::{PodGroupRow, PodGroupsAnswer};
use crate::group::waiting;
use crate::lab::Lab;
use crate::list::Filter;
use crate::now::NOW;

/// The pods of a group.
#[derive(Default)]
struct Members {
    waiting: Vec<Arc<Pod>>,
    /// The nodes of the others.
    nodes: Vec<NodeIx>,
}

/// Lists PodGroups: those that fit or lack something first, then the others, by name. The pods of a
/// group that waits are tried while there is time.
pub fn list_pod_groups(lab: &mut Lab<'_>, filter: &Filter) -> PodGroupsAnswer {
    let groups = members_by_group(lab);
    let mut answer = PodGroupsAnswer {
        as_of: NOW.to_owned(),
        total: groups.len(),
        ..PodGroupsAnswer::default()
    };
    let needed = |key: &PodGroupKey| {
        let min_count = lab.cluster().pod_group(key).map(|known| known.min_count());
        min_count.map(|count| usize::try_from(count).unwrap_or(usize::MAX))
    };
    let runs = |key: &PodGroupKey, members: &Members| {
        needed(key).is_some_and(|needed| members.nodes.len() >= needed)
    };
    let mut selected: Vec<_> = groups
        .into_iter()
        .filter(|(key, _)| filter.selects(&[&key.namespace, &key.name]))
        .map(|(key, members)| (runs(&key, &members), key, members))
        .filter(|(runs, _, members)| !filter.pending || !runs || !members.waiting.is_empty())
        .collect();
    answer.matching = selected.len();
    selected.sort_by_key(|(runs, ..)| *runs);
    for (runs, key, members) in selected.into_iter().take(filter.limit) {
        let row = row(lab, &key, members, runs);
        answer.is_incomplete |= row.state == WAITS;
        answer.pod_groups.push(row);
    }
    answer
}

/// The state of a group whose pods were not tried.
const WAITS: &str = "waits";

/// Returns the members of each group, and the PodGroups without a pod.
fn members_by_group(lab: &Lab<'_>) -> BTreeMap<PodGroupKey, Members> {
    let mut groups: BTreeMap<PodGroupKey, Members> = BTreeMap::new();
    for (key, _) in lab.cluster().pod_groups() {
        groups.entry(key.clone()).or_default();
    }
    for pod in waiting(lab) {
        if let Some(key) = pod.pod_group() {
            groups.entry(key).or_default().waiting.push(pod);
        }
    }
    for placed in lab.cluster().pods() {
        if let Some(key) = placed.pod.pod_group() {
            groups.entry(key).or_default().nodes.push(placed.node);
        }
    }
    groups
}

fn row(lab: &mut Lab<'_>, key: &PodGroupKey, members: Members, runs: bool) -> PodGroupRow {
    let Members { waiting, nodes } = members;
    let cluster = lab.cluster();
    let known = cluster.pod_group(key);
    let mut row = PodGroupRow {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        pods: waiting.len() + nodes.len(),
        placed: nodes.len(),
        min_count: known.map_or(0, |known| known.min_count()),
        topology: topology_of(cluster, key),
        ..PodGroupRow::default()
    };
    let levels = cluster.topology_of_group(key).unwrap_or_default();
    let topologies = levels.iter().map(|level| cluster.topology(&level.key));
    let topologies: Option<Vec<_>> = topologies.collect();
    let topologies = topologies.filter(|topologies| !topologies.is_empty());
    let domain = |node: &NodeIx| {
        let values = topologies.as_ref()?.iter();
        let values = values.map(|own| Some(&**own.value(own.domain_of(*node)?)));
        Some(values.collect::<Option<Vec<&str>>>()?.join("/"))
    };
    let domains: BTreeSet<String> = nodes.iter().filter_map(domain).collect();
    row.domains = domains.into_iter().collect();
    if runs {
        "running".clone_into(&mut row.state);
        row.shortfall = Some(0);
        return row;
    }
    row.pending_seconds = lab.seconds_of_wait(key);
    if (lab.is_over())() {
        WAITS.clone_into(&mut row.state);
        return row;
    }
    let Some(Assessed { answer, .. }) = assess(lab, key, waiting) else { return row };
    row.state = answer.state;
    if row.state == UNSCHEDULABLE || row.state == "fits" {
        (row.fit, row.shortfall) = (Some(answer.fit), Some(answer.shortfall));
    }
    if row.domains.is_empty() {
        let of_level = answer.levels.into_iter().next_back().map(|level| level.domains);
        let domains = answer.topology.map(|topology| topology.domains).or(of_level);
        let first = domains.and_then(|domains| domains.into_iter().next());
        row.domains = first.map(|first| first.name).into_iter().collect();
    }
    row
}
