//! Which nodes the required terms leave, those of the pod and those of the placed pods.

use std::sync::Arc;

use framework::{
    AffinityTermKind, CarriedTerm, Cluster, CycleState, Filter, NodeBits, NodeView, Pod, PodQuery,
    PreFilter, PreFilterExtensions, PreFilterResult, StandingQueries, Status, Verdicts,
};

use super::InterPodAffinity;
use super::terms::{Terms, all_mean, means, query, query_of_all};
use super::topology::{TopologyCounts, TopologySums, domain_of};
use crate::node_sets::retain_union;

const REASON_AFFINITY: &str = "node(s) didn't match pod affinity rules";
const REASON_ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
const REASON_EXISTING_ANTI_AFFINITY: &str =
    "node(s) didn't satisfy existing pods anti-affinity rules";

/// The pods that matter to the pod of this cycle, by where they are.
#[derive(Debug, Clone)]
struct PreFilterState {
    /// Pods that all required affinity terms mean, under the key of each term.
    affinity: TopologyCounts,
    /// Pods that a required anti-affinity term means, under its key.
    anti_affinity: TopologyCounts,
    /// Pods with a required anti-affinity term that means the pod, under its key.
    existing_anti_affinity: TopologyCounts,
    /// Whether the pod is one of those it must be near: it may then be the first of them.
    means_itself: bool,
}

/// The required anti-affinity terms of placed pods that mean `pod`.
pub(super) fn opposing_terms<'a>(
    pod: &Pod,
    cluster: &'a Cluster,
) -> impl Iterator<Item = &'a CarriedTerm> {
    let terms = cluster.terms_meaning(pod).into_iter();
    terms.filter(|carried| carried.kind == AffinityTermKind::RequiredAntiAffinity)
}

/// Preparing, and what-ifs.
impl PreFilterState {
    fn new(pod: &Pod, terms: Terms<'_>, cluster: &Cluster) -> Self {
        Self {
            affinity: count_affinity(terms, cluster).into(),
            anti_affinity: count_anti_affinity(terms, cluster).into(),
            existing_anti_affinity: count_existing_anti_affinity(pod, cluster).into(),
            means_itself: all_mean(terms.required_affinity, pod, cluster),
        }
    }

    fn of_cycle(state: &CycleState) -> Result<&Self, Status> {
        state.read().ok_or_else(no_data)
    }

    /// `amount` more pods like `other` are on `node`.
    fn change(&mut self, pod: &Pod, other: &Pod, node: &NodeView<'_>, amount: i64) {
        let (terms, cluster) = (Terms::of(pod), node.cluster());
        if all_mean(terms.required_affinity, other, cluster) {
            for term in terms.required_affinity {
                self.affinity.change(node, &term.topology_key, amount);
            }
        }
        let meaning = |term: &&_| means(term, other, cluster);
        for term in terms.required_anti_affinity.iter().filter(meaning) {
            self.anti_affinity.change(node, &term.topology_key, amount);
        }
        let labels = cluster.namespace_labels(&pod.key.namespace);
        let theirs = Terms::of(other).required_anti_affinity.iter();
        for term in theirs.filter(|term| term.matches(pod, labels)) {
            self.existing_anti_affinity.change(node, &term.topology_key, amount);
        }
    }
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
    for carried in opposing_terms(pod, cluster) {
        let carriers = carried.carriers.iter().map(|(node, count)| (node, count.into()));
        sums.add(cluster, &carried.term.topology_key, carriers);
    }
    sums
}

/// The rules on one node.
impl PreFilterState {
    /// With a pod in each of the node's domains that all terms mean. Different pods may do for
    /// different terms. The first of pods that must be near one another needs only the domains.
    fn satisfies_affinity(&self, pod: &Pod, node: &NodeView<'_>) -> bool {
        let mut near = true;
        for term in Terms::of(pod).required_affinity {
            let Some(domain) = domain_of(node, &term.topology_key) else { return false };
            near &= self.affinity.count(&term.topology_key, domain) > 0;
        }
        near || self.may_be_first()
    }

    const fn may_be_first(&self) -> bool {
        self.means_itself && self.affinity.is_empty()
    }

    fn satisfies_anti_affinity(&self, pod: &Pod, node: &NodeView<'_>) -> bool {
        let mut keys = Terms::of(pod).required_anti_affinity.iter().map(|term| &term.topology_key);
        !keys.any(|key| is_occupied(&self.anti_affinity, node, key))
    }

    fn satisfies_existing_anti_affinity(&self, node: &NodeView<'_>) -> bool {
        let existing = &self.existing_anti_affinity;
        !existing.keys().any(|key| is_occupied(existing, node, key))
    }
}

fn is_occupied(counts: &TopologyCounts, node: &NodeView<'_>, key: &str) -> bool {
    domain_of(node, key).is_some_and(|domain| counts.count(key, domain) > 0)
}

/// Keeps the nodes that satisfy a rule.
type Rule<'a> = &'a dyn Fn(&mut NodeBits);

/// The same rules on sets of nodes.
impl PreFilterState {
    fn retain_affinity(&self, pod: &Pod, cluster: &Cluster, nodes: &mut NodeBits) {
        for term in Terms::of(pod).required_affinity {
            if self.may_be_first() {
                retain_union(cluster.with_label_key(&term.topology_key), cluster, nodes);
            } else {
                nodes.intersect(&self.affinity.occupied(cluster, &term.topology_key));
            }
        }
    }

    fn retain_anti_affinity(&self, pod: &Pod, cluster: &Cluster, nodes: &mut NodeBits) {
        for term in Terms::of(pod).required_anti_affinity {
            nodes.subtract(&self.anti_affinity.occupied(cluster, &term.topology_key));
        }
    }

    fn retain_existing_anti_affinity(&self, cluster: &Cluster, nodes: &mut NodeBits) {
        for key in self.existing_anti_affinity.keys() {
            nodes.subtract(&self.existing_anti_affinity.occupied(cluster, key));
        }
    }
}

impl StandingQueries for InterPodAffinity {
    fn queries(&self, pod: &Pod, cluster: &Cluster) -> Vec<PodQuery> {
        let terms = Terms::of(pod);
        let anti_affinity = terms.required_anti_affinity.iter();
        let each = anti_affinity.chain(terms.preferred().map(|(term, _)| term));
        let each = each.map(|term| query(term, cluster));
        query_of_all(terms.required_affinity, cluster).into_iter().chain(each).collect()
    }
}

impl PreFilter for InterPodAffinity {
    fn pre_filter(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        cluster: &Cluster,
    ) -> Result<PreFilterResult, Status> {
        let terms = Terms::parse(pod).map_err(Status::unresolvable)?;
        let counts = PreFilterState::new(pod, terms, cluster);
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
    match state.read_mut::<PreFilterState>() {
        Some(counts) => {
            counts.change(pod, other, node, amount);
            Status::success()
        }
        None => no_data(),
    }
}

impl Filter for InterPodAffinity {
    fn filter(&self, state: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Status {
        let counts = match PreFilterState::of_cycle(state) {
            Ok(counts) => counts,
            Err(status) => return status,
        };
        if !counts.satisfies_affinity(pod, node) {
            return Status::unresolvable(REASON_AFFINITY);
        }
        if !counts.satisfies_anti_affinity(pod, node) {
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
        cluster: &Cluster,
        nodes: &mut NodeBits,
    ) -> Result<(), Status> {
        let counts = PreFilterState::of_cycle(state)?;
        counts.retain_affinity(pod, cluster, nodes);
        counts.retain_anti_affinity(pod, cluster, nodes);
        counts.retain_existing_anti_affinity(cluster, nodes);
        Ok(())
    }

    fn explain_set(
        &self,
        state: &CycleState,
        pod: &Pod,
        cluster: &Cluster,
        rejected: &NodeBits,
        verdicts: &mut Verdicts,
    ) {
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
                &|nodes| counts.retain_anti_affinity(pod, cluster, nodes),
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
