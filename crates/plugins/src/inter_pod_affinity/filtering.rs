//! The Filter of InterPodAffinity: required terms of the pod and of placed pods.

use std::sync::Arc;

use framework::{
    AffinityTermKind, Attempt, AttemptMut, CarriedTerm, Cluster, CycleState, Dependence, Filter,
    FilterScope, Handle, NodeBits, NodeView, PerNode, Pod, PodAffinityTerm, PodQuery, PreFilter,
    PreFilterExtensions, PreFilterResult, StandingQueries, Status, Verdicts,
};

use super::InterPodAffinity;
use super::terms::{Terms, all_match, matches, query, query_of_all};
use super::topology::{Source, TopologyCounts, TopologySums};
use crate::node_sets::retain_union;
use crate::packed_keys::PackedKeys;

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
    /// its series.
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

/// The counts of the pods of a template, from one attempt to the next.
struct Kept {
    affinity: Arc<TopologySums>,
    anti_affinity: Arc<TopologySums>,
    existing_anti_affinity: Arc<TopologySums>,
}

impl Kept {
    fn all(&self) -> [&Arc<TopologySums>; 3] {
        [&self.affinity, &self.anti_affinity, &self.existing_anti_affinity]
    }
}

/// The pods to count for a pod.
struct Sources<'a> {
    affinity: Vec<Source<'a>>,
    anti_affinity: Vec<Source<'a>>,
    existing_anti_affinity: Vec<Source<'a>>,
}

impl<'a> Sources<'a> {
    fn of(pod: &Pod, terms: Terms<'a>, cluster: &'a Cluster) -> Self {
        let near = query_of_all(terms.required_affinity, cluster);
        let near = terms.required_affinity.iter().zip(near.iter().cycle());
        let near = near.map(|(term, query)| (term, query.clone()));
        let far = terms.required_anti_affinity.iter().map(|term| (term, query(term, cluster)));
        let source = |(term, query): (&'a PodAffinityTerm, PodQuery)| {
            Source::matching(&term.topology_key, 1, query, cluster)
        };
        let existing = existing_anti_affinity_against(pod, cluster);
        Self {
            affinity: near.map(source).collect(),
            anti_affinity: far.map(source).collect(),
            existing_anti_affinity: existing.map(|carried| Source::carrying(1, carried)).collect(),
        }
    }

    fn all(&self) -> [&[Source<'a>]; 3] {
        [&self.affinity, &self.anti_affinity, &self.existing_anti_affinity]
    }

    fn count(&self, cluster: &Cluster, follows: bool) -> Kept {
        let [affinity, anti_affinity, existing_anti_affinity] =
            self.all().map(|sources| Arc::new(TopologySums::of(sources, cluster, follows)));
        Kept { affinity, anti_affinity, existing_anti_affinity }
    }
}

/// Counts the pods of `sources`, or repairs the counts of the last attempt.
fn count(state: &mut CycleState, sources: &Sources<'_>, cluster: &Cluster) -> Kept {
    let kept = state.take_kept::<Kept>().filter(|(kept, _)| {
        kept.all().into_iter().zip(sources.all()).all(|(sums, sources)| sums.are_of(sources))
    });
    let counted = match kept {
        Some((mut kept, changed)) => {
            let sums =
                [&mut kept.affinity, &mut kept.anti_affinity, &mut kept.existing_anti_affinity];
            for (sums, sources) in sums.into_iter().zip(sources.all()) {
                if Arc::make_mut(sums).repair(sources, cluster, &changed) {
                    state.rekey();
                }
            }
            kept
        }
        None => {
            state.rekey();
            sources.count(cluster, state.keeps())
        }
    };
    if state.keeps() {
        let size = counted.all().map(|sums| sums.size()).into_iter().sum();
        let [affinity, anti_affinity, existing_anti_affinity] = counted.all().map(Arc::clone);
        state.keep(Kept { affinity, anti_affinity, existing_anti_affinity }, size);
    }
    counted
}

/// Construction and what-if changes.
impl PreFilterState {
    fn new(pod: &Pod, terms: Terms<'_>, counted: Kept, cluster: &Cluster) -> Self {
        Self {
            affinity: counted.affinity.into(),
            anti_affinity: counted.anti_affinity.into(),
            existing_anti_affinity: counted.existing_anti_affinity.into(),
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

/// The rules for one node.
impl PreFilterState {
    /// Whether every affinity term has a matching pod in its domain of the node. Different pods may
    /// match different terms. For the first pod of a series, the node needs only the topology
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
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        let AttemptMut { state, pod, handle, .. } = attempt;
        let terms = Terms::parse(pod).map_err(Status::unresolvable)?;
        let cluster = handle.cluster;
        let sources = Sources::of(pod, terms, cluster);
        if sources.all().iter().all(|sources| sources.is_empty()) {
            return Err(Status::skip());
        }
        let counted = count(state, &sources, cluster);
        let counts = PreFilterState::new(pod, terms, counted, cluster);
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
    fn add_pod(&self, attempt: AttemptMut<'_>, other: &Pod, node: &NodeView<'_>) -> Status {
        change(attempt.state, attempt.pod, other, node, 1)
    }

    fn remove_pod(&self, attempt: AttemptMut<'_>, other: &Pod, node: &NodeView<'_>) -> Status {
        change(attempt.state, attempt.pod, other, node, -1)
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
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let counts = match PreFilterState::of_cycle(attempt.state) {
            Ok(counts) => counts,
            Err(status) => return status,
        };
        if !counts.satisfies_affinity(attempt.pod, node) {
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

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        let cluster = attempt.handle.cluster;
        let counts = PreFilterState::of_cycle(attempt.state)?;
        counts.retain_affinity(attempt.pod, cluster, nodes);
        counts.retain_anti_affinity(cluster, nodes);
        counts.retain_existing_anti_affinity(cluster, nodes);
        Ok(())
    }

    fn dependence(&self, attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        let scope = match PreFilterState::of_cycle(attempt.state) {
            Ok(_) => FilterScope::Tier,
            Err(_) => FilterScope::Cluster,
        };
        Some(Dependence::on(scope))
    }

    /// The key has for each topology key the domain of the node, or whether pods are on the node if
    /// each domain is a single node.
    fn key_set(&self, attempt: &Attempt<'_>, keys: PerNode<'_>) -> Result<(), Status> {
        let PerNode { nodes, values: keys, .. } = keys;
        let (counts, cluster) = (PreFilterState::of_cycle(attempt.state)?, attempt.handle.cluster);
        let [near, far, existing] =
            [&counts.affinity, &counts.anti_affinity, &counts.existing_anti_affinity]
                .map(|counts| counts.counted().topologies(cluster).collect::<Vec<_>>());
        let all: Vec<_> = [near, far, existing].into_iter().flatten().collect();
        let mut packed = PackedKeys::of(all.len(), nodes, keys);
        for own in &all {
            own.push_to(&mut packed, |pods| 1 + i64::from(pods > 0));
        }
        packed.finish()
    }

    fn explain_set(&self, attempt: &Attempt<'_>, rejected: &NodeBits, verdicts: &mut Verdicts) {
        let cluster = attempt.handle.cluster;
        let counts = match PreFilterState::of_cycle(attempt.state) {
            Ok(counts) => counts,
            Err(status) => return verdicts.record_all(rejected, status),
        };
        let rules: [(Rule<'_>, Status); 3] = [
            (
                &|nodes| counts.retain_affinity(attempt.pod, cluster, nodes),
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
