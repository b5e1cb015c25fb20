//! The Filter of InterPodAffinity: required terms of the pod and of placed pods.

use std::sync::Arc;

use framework::{
    AffinityTermKind, CarriedTerm, Cluster, CycleState, Filter, Handle, NodeBits, NodeView, Pod,
    PodAffinityTerm, PodQuery, PreFilter, PreFilterExtensions, PreFilterResult, StandingQueries,
    Status, Verdicts,
};

use super::InterPodAffinity;
use super::terms::{Terms, all_match, matches, query, query_of_all};
use super::topology::{TopologyCounts, TopologySums};
use crate::node_sets::retain_union;

const REASON_AFFINITY: &str = "node(s) didn't match pod affinity rules";
const REASON_ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
const REASON_EXISTING_ANTI_AFFINITY: &str =
    "node(s) didn't satisfy existing pods anti-affinity rules";

/// The pods that affect the pod of this cycle, counted by topology domain.
#[derive(Debug, Clone)]
struct PreFilterState {
    /// Pods that match all required affinity terms, counted under the key of each term.
    affinity: TopologyCounts,
    /// Pods that match a required anti-affinity term, counted under its key.
    anti_affinity: TopologyCounts,
    /// Pods with a required anti-affinity term that matches the pod, counted under its key.
    existing_anti_affinity: TopologyCounts,
    /// Whether the pod matches all its own required affinity terms. It may then be the first pod of
    /// its group.
    matches_own_terms: bool,
}

/// Returns the required anti-affinity terms of placed pods that match `pod`.
pub(super) fn existing_anti_affinity_against<'a>(
    pod: &Pod,
    cluster: &'a Cluster,
) -> impl Iterator<Item = &'a CarriedTerm> {
    let terms = cluster.terms_matching(pod).into_iter();
    terms.filter(|carried| carried.kind == AffinityTermKind::RequiredAntiAffinity)
}

/// Construction and what-if changes.
impl PreFilterState {
    fn new(pod: &Pod, terms: Terms<'_>, cluster: &Cluster) -> Self {
        Self {
            affinity: count_affinity(terms, cluster).into(),
            anti_affinity: count_anti_affinity(terms, cluster).into(),
            existing_anti_affinity: count_existing_anti_affinity(pod, cluster).into(),
            matches_own_terms: all_match(terms.required_affinity, pod, cluster),
        }
    }

    fn of_cycle(state: &CycleState) -> Result<&Self, Status> {
        state.read().ok_or_else(no_data)
    }

    /// Counts `amount` more pods like `other` on `node`.
    fn change(&mut self, pod: &Pod, other: &Pod, node: &NodeView<'_>, amount: i64) {
        let (terms, cluster) = (Terms::of(pod), node.cluster());
        if all_match(terms.required_affinity, other, cluster) {
            for term in terms.required_affinity {
                self.affinity.change(node, &term.topology_key, amount);
            }
        }
        let meaning = |term: &&_| matches(term, other, cluster);
        for term in terms.required_anti_affinity.iter().filter(meaning) {
            self.anti_affinity.change(node, &term.topology_key, amount);
        }
        for term in anti_affinity_against(other, pod, cluster) {
            self.existing_anti_affinity.change(node, &term.topology_key, amount);
        }
    }
}

/// Whether `other` counts under some term of either pod.
fn is_counted(pod: &Pod, other: &Pod, cluster: &Cluster) -> bool {
    let terms = Terms::of(pod);
    terms.required_anti_affinity.iter().any(|term| matches(term, other, cluster))
        || all_match(terms.required_affinity, other, cluster)
        || anti_affinity_against(other, pod, cluster).next().is_some()
}

/// Returns the required anti-affinity terms of `other` that match `pod`.
fn anti_affinity_against<'a>(
    other: &'a Pod,
    pod: &'a Pod,
    cluster: &'a Cluster,
) -> impl Iterator<Item = &'a PodAffinityTerm> {
    let theirs = Terms::of(other).required_anti_affinity.iter();
    theirs.filter(|term| term.matches(pod, cluster.namespace_labels(&pod.key.namespace)))
}

fn no_data() -> Status {
    Status::error("InterPodAffinity has no data from PreFilter")
}

fn count_affinity(terms: Terms<'_>, cluster: &Cluster) -> TopologySums {
    let mut sums = TopologySums::default();
    if let Some(query) = query_of_all(terms.required_affinity, cluster) {
        for term in terms.required_affinity {
            add_matching(&mut sums, cluster, &term.topology_key, &query);
        }
    }
    sums
}

fn count_anti_affinity(terms: Terms<'_>, cluster: &Cluster) -> TopologySums {
    let mut sums = TopologySums::default();
    for term in terms.required_anti_affinity {
        add_matching(&mut sums, cluster, &term.topology_key, &query(term, cluster));
    }
    sums
}

fn add_matching(sums: &mut TopologySums, cluster: &Cluster, key: &Arc<str>, query: &PodQuery) {
    let pods = cluster.matching_pods(query);
    sums.add(cluster, key, pods.iter().map(|(node, count)| (node, count.total().into())));
}

fn count_existing_anti_affinity(pod: &Pod, cluster: &Cluster) -> TopologySums {
    let mut sums = TopologySums::default();
    for carried in existing_anti_affinity_against(pod, cluster) {
        let carriers = carried.carriers.iter().map(|(node, count)| (node, count.into()));
        sums.add(cluster, &carried.term.topology_key, carriers);
    }
    sums
}

/// The rules for one node.
impl PreFilterState {
    /// Whether every affinity term has a matching pod in its domain of the node. Different pods may
    /// match different terms. For the first pod of a group, the node needs only the topology
    /// labels.
    fn satisfies_affinity(&self, pod: &Pod, node: &NodeView<'_>) -> bool {
        let mut near = true;
        for term in Terms::of(pod).required_affinity {
            let topology = node.cluster().topology(&term.topology_key);
            let Some(topology) = topology.filter(|own| own.domain_of(node.ix()).is_some()) else {
                return false;
            };
            near &= self.affinity.is_occupied(topology, node);
        }
        near || self.may_be_first()
    }

    const fn may_be_first(&self) -> bool {
        self.matches_own_terms && self.affinity.is_empty()
    }

    fn satisfies_anti_affinity(&self, node: &NodeView<'_>) -> bool {
        !self.anti_affinity.is_any_occupied(node)
    }

    fn satisfies_existing_anti_affinity(&self, node: &NodeView<'_>) -> bool {
        !self.existing_anti_affinity.is_any_occupied(node)
    }
}

/// Retains the nodes that satisfy a rule.
type Rule<'a> = &'a dyn Fn(&mut NodeBits);

/// The rules for sets of nodes.
impl PreFilterState {
    fn retain_affinity(&self, pod: &Pod, cluster: &Cluster, nodes: &mut NodeBits) {
        for PodAffinityTerm { topology_key, .. } in Terms::of(pod).required_affinity {
            match cluster.topology(topology_key) {
                _ if self.may_be_first() => {
                    retain_union(cluster.with_label_key(topology_key), cluster, nodes);
                }
                Some(topology) => nodes.intersect(&self.affinity.occupied(cluster, topology)),
                None => nodes.clear(),
            }
        }
    }

    fn retain_anti_affinity(&self, cluster: &Cluster, nodes: &mut NodeBits) {
        retain_unoccupied(&self.anti_affinity, cluster, nodes);
    }

    fn retain_existing_anti_affinity(&self, cluster: &Cluster, nodes: &mut NodeBits) {
        retain_unoccupied(&self.existing_anti_affinity, cluster, nodes);
    }
}

fn retain_unoccupied(counts: &TopologyCounts, cluster: &Cluster, nodes: &mut NodeBits) {
    for topology in counts.keys(cluster) {
        nodes.subtract(&counts.occupied(cluster, topology));
    }
}

impl StandingQueries for InterPodAffinity {
    fn queries(&self, pod: &Pod, handle: &Handle<'_>) -> Vec<PodQuery> {
        let terms = Terms::of(pod);
        let anti_affinity = terms.required_anti_affinity.iter();
        let each = anti_affinity.chain(terms.preferred().map(|(term, _)| term));
        let each = each.map(|term| query(term, handle.cluster));
        query_of_all(terms.required_affinity, handle.cluster).into_iter().chain(each).collect()
    }
}

impl PreFilter for InterPodAffinity {
    fn pre_filter(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        handle: &Handle<'_>,
    ) -> Result<PreFilterResult, Status> {
        let terms = Terms::parse(pod).map_err(Status::unresolvable)?;
        let counts = PreFilterState::new(pod, terms, handle.cluster);
        if terms.required_affinity.is_empty()
            && terms.required_anti_affinity.is_empty()
            && counts.existing_anti_affinity.is_empty()
        {
            return Err(Status::skip());
        }
        state.write_for_search(counts);
        Ok(PreFilterResult::default())
    }
}

impl PreFilterExtensions for InterPodAffinity {
    fn add_pod(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        other: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        change(state, pod, other, node, 1)
    }

    fn remove_pod(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        other: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        change(state, pod, other, node, -1)
    }
}

fn change(
    state: &mut CycleState,
    pod: &Pod,
    other: &Pod,
    node: &NodeView<'_>,
    amount: i64,
) -> Status {
    if let Err(status) = PreFilterState::of_cycle(state) {
        return status;
    }
    if is_counted(pod, other, node.cluster())
        && let Some(counted) = state.read_mut::<PreFilterState>()
    {
        counted.change(pod, other, node, amount);
    }
    Status::success()
}

impl Filter for InterPodAffinity {
    fn filter(
        &self,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
        _handle: &Handle<'_>,
    ) -> Status {
        let counts = match PreFilterState::of_cycle(state) {
            Ok(counts) => counts,
            Err(status) => return status,
        };
        if !counts.satisfies_affinity(pod, node) {
            return Status::unresolvable(REASON_AFFINITY);
        }
        if !counts.satisfies_anti_affinity(node) {
            return Status::unschedulable(REASON_ANTI_AFFINITY);
        }
        if !counts.satisfies_existing_anti_affinity(node) {
            return Status::unschedulable(REASON_EXISTING_ANTI_AFFINITY);
        }
        Status::success()
    }

    fn filter_set(
        &self,
        state: &CycleState,
        pod: &Pod,
        handle: &Handle<'_>,
        nodes: &mut NodeBits,
    ) -> Result<(), Status> {
        let cluster = handle.cluster;
        let counts = PreFilterState::of_cycle(state)?;
        counts.retain_affinity(pod, cluster, nodes);
        counts.retain_anti_affinity(cluster, nodes);
        counts.retain_existing_anti_affinity(cluster, nodes);
        Ok(())
    }

    fn explain_set(
        &self,
        state: &CycleState,
        pod: &Pod,
        handle: &Handle<'_>,
        rejected: &NodeBits,
        verdicts: &mut Verdicts,
    ) {
        let cluster = handle.cluster;
        let counts = match PreFilterState::of_cycle(state) {
            Ok(counts) => counts,
            Err(status) => return verdicts.record_all(rejected, status),
        };
        let rules: [(Rule<'_>, Status); 3] = [
            (
                &|nodes| counts.retain_affinity(pod, cluster, nodes),
                Status::unresolvable(REASON_AFFINITY),
            ),
            (
                &|nodes| counts.retain_anti_affinity(cluster, nodes),
                Status::unschedulable(REASON_ANTI_AFFINITY),
            ),
            (
                &|nodes| counts.retain_existing_anti_affinity(cluster, nodes),
                Status::unschedulable(REASON_EXISTING_ANTI_AFFINITY),
            ),
        ];
        let mut left = rejected.clone();
        for (retain, status) in rules {
            let mut passed = left.clone();
            retain(&mut passed);
            left.subtract(&passed);
            verdicts.record_all(&left, status);
            left = passed;
        }
    }
}
