//! The Filter of PodTopologySpread: rejects nodes on which the pod would exceed the maximum skew of
//! a hard constraint.

use std::sync::Arc;

use framework::{
    Attempt, AttemptMut, ChangedNodes, Cluster, CycleState, Dependence, DomainIx, Filter,
    FilterScope, LabelKeyIx, NodeBits, NodeIx, NodeView, PerNode, Pod, PreFilter,
    PreFilterExtensions, PreFilterResult, Status, Topology, Verdicts,
};

use super::PodTopologySpread;
use super::constraint::{Constraint, has_all_keys, retain_with_all_keys};
use super::domain_counts::{Changes, DomainCounts};
use crate::domain_tally::{DomainTally, Share, add_with_value};
use crate::packed_keys::PackedKeys;

const REASON: &str = "node(s) didn't match pod topology spread constraints";
const REASON_LABEL: &str =
    "node(s) didn't match pod topology spread constraints (missing required label)";

/// A hard constraint and the counts of its pods.
#[derive(Debug, Clone)]
struct Counted {
    constraint: Constraint,
    /// Its topology key; `None` if no node has the label.
    topology: Option<LabelKeyIx>,
    /// Whether each domain is a single node.
    is_per_node: bool,
    /// 1 if the constraint selects the pod itself, otherwise 0.
    own: i64,
    counts: DomainCounts,
}

impl Counted {
    fn domain_of(&self, node: &NodeView<'_>) -> Option<DomainIx> {
        node.cluster().topology_at(self.topology?).domain_of(node.ix())
    }

    /// Returns the pods of the smallest domain after `changes`. With fewer domains than
    /// `minDomains` the minimum is 0.
    fn min(&self, changes: &Changes) -> i64 {
        let wanted = usize::try_from(self.constraint.min_domains).unwrap_or(0);
        match self.counts.min(changes) {
            Some(min) if self.counts.known() >= wanted => min,
            _ => 0,
        }
    }
}

/// The hard constraints of the pods of a template, from one attempt to the next.
struct Kept(Arc<[Counted]>);

/// Counts for each constraint the pods on the nodes that have the keys of all constraints and that
/// the constraint includes.
fn count(
    state: &mut CycleState,
    constraints: Vec<Constraint>,
    pod: &Pod,
    cluster: &Cluster,
) -> Arc<[Counted]> {
    let kept = state.take_kept::<Kept>();
    let repaired = kept.and_then(|(Kept(mut counted), changed)| {
        let of_these = counted.iter().map(|counted| &counted.constraint).eq(&constraints);
        let repaired =
            of_these.then(|| repair(Arc::make_mut(&mut counted), pod, cluster, &changed));
        Some((counted, repaired??))
    });
    let (counted, Rekeys(rekeys)) = repaired
        .unwrap_or_else(|| (count_all(constraints, pod, cluster, state.keeps()), Rekeys(true)));
    if rekeys {
        state.rekey();
    }
    if state.keeps() {
        let size = counted.iter().map(|counted| counted.counts.size()).sum();
        state.keep(Kept(counted.clone()), size);
    }
    counted
}

/// Counts the pods on all nodes; `follows` says whether nodes are going to change.
fn count_all(
    constraints: Vec<Constraint>,
    pod: &Pod,
    cluster: &Cluster,
    follows: bool,
) -> Arc<[Counted]> {
    let mut with_keys = cluster.nodes().clone();
    retain_with_all_keys(&constraints, cluster, &mut with_keys);
    let counted = constraints.into_iter().map(|constraint| {
        let mut eligible = with_keys.clone();
        constraint.inclusion.retain(pod, cluster, &mut eligible);
        let topology = cluster.topology(&constraint.topology_key);
        let pods = constraint.pods_by_node(cluster);
        let domain_of = |node| topology.and_then(|topology| topology.domain_of(node));
        let pods = pods.iter().filter(|(node, _)| eligible.contains(*node));
        let labelled = topology.map_or(0, |topology| topology.present().len());
        let counts = if eligible.count() == labelled {
            let mut tally = DomainTally::new(follows);
            for (node, pods) in pods.filter(|(_, pods)| pods.live > 0) {
                tally.insert(node, domain_of(node), pods.live.into());
            }
            DomainCounts::of_all(tally, topology.map_or(0, |topology| topology.domain_count()))
        } else {
            let nodes = eligible.iter().map(|node| (node, domain_of(node)));
            let mut tally = DomainTally::of(nodes, follows);
            pods.for_each(|(node, pods)| tally.add(node, domain_of(node), pods.live.into()));
            tally.into()
        };
        let is_per_node = topology.is_some_and(|topology| topology.is_per_node());
        let topology = topology.map(|topology| topology.ix());
        let own = i64::from(constraint.selects(pod));
        Counted { own, topology, is_per_node, constraint, counts }
    });
    counted.collect()
}

/// Whether keys of nodes that have not changed are others than before.
struct Rekeys(bool);

/// Counts the pods on `changed` nodes again. Returns `None` if all pods have to be counted, because
/// a node with the topology key is no longer eligible where all were.
fn repair(
    counted: &mut [Counted],
    pod: &Pod,
    cluster: &Cluster,
    changed: &ChangedNodes,
) -> Option<Rekeys> {
    let mut rekeys = false;
    for own in &mut *counted {
        let topology = cluster.topology(&own.constraint.topology_key);
        own.topology = topology.map(|topology| topology.ix());
        own.counts.follow_domains(topology.map_or(0, |topology| topology.domain_count()));
        let is_per_node = topology.is_some_and(|topology| topology.is_per_node());
        rekeys |= std::mem::replace(&mut own.is_per_node, is_per_node) != is_per_node;
    }
    let pods: Vec<_> = counted.iter().map(|own| own.constraint.pods_by_node(cluster)).collect();
    // The other nodes are as eligible as before, and had and have no selected pods.
    let mut nodes = changed.objects.clone();
    for (own, pods) in counted.iter().zip(&pods) {
        own.counts.add_counted(&changed.nodes, &mut nodes);
        add_with_value(&changed.nodes, pods, &mut nodes);
    }
    nodes.sort_unstable();
    nodes.dedup();
    for node in &nodes {
        let view = cluster.nodes().contains(*node).then(|| cluster.node(*node));
        let keys = counted.iter().map(|counted| &counted.constraint);
        let has_all_keys = view.as_ref().is_some_and(|view| has_all_keys(keys, view));
        for (own, pods) in counted.iter_mut().zip(&pods) {
            let constraint = &own.constraint;
            let domain = view.as_ref().and_then(|view| own.domain_of(view));
            let includes = |view: &NodeView<'_>| {
                has_all_keys && constraint.inclusion.includes(pod, view, view.taints())
            };
            let is_eligible = view.as_ref().is_some_and(includes);
            if domain.is_some() && !is_eligible && own.counts.has_all() {
                return None;
            }
            let share = domain
                .filter(|_| is_eligible)
                .map(|_| Share { domain, amount: pods.get(*node).live.into() });
            own.counts.replace(*node, share);
        }
    }
    Some(Rekeys(rekeys))
}

/// The cycle state of PreFilter: the counts and their what-if changes.
#[derive(Debug, Clone)]
struct PreFiltered {
    counted: Arc<[Counted]>,
    /// The changes, one entry per constraint.
    changes: Box<[Changes]>,
}

impl PreFiltered {
    fn of_cycle(state: &CycleState) -> Result<&Self, Status> {
        state.read().ok_or_else(|| Status::error("PodTopologySpread has no data from PreFilter"))
    }

    fn iter(&self) -> impl Iterator<Item = (&Counted, &Changes)> {
        self.counted.iter().zip(&self.changes)
    }

    /// Returns the limit of each constraint for the set form.
    fn limits<'a>(&'a self, cluster: &'a Cluster) -> impl Iterator<Item = Limit<'a>> {
        self.iter().map(|(counted, changes)| Limit {
            topology: counted.topology.map(|key| cluster.topology_at(key)),
            counts: &counted.counts,
            changes,
            most: i64::from(counted.constraint.max_skew) + counted.min(changes) - counted.own,
        })
    }

    /// Counts `pods` more pods like `other` on `node`, or fewer if negative.
    ///
    /// As in kube-scheduler, terminating pods count here, while PreFilter ignores them.
    fn change(&mut self, pod: &Pod, other: &Pod, node: &NodeView<'_>, pods: i64) {
        if self.counted.iter().any(|counted| counted.domain_of(node).is_none()) {
            return;
        }
        for (counted, changes) in self.counted.iter().zip(&mut self.changes) {
            let constraint = &counted.constraint;
            if !constraint.selects(other)
                || !constraint.inclusion.includes(pod, node, node.taints())
            {
                continue;
            }
            if let Some(domain) = counted.domain_of(node) {
                changes.add(domain, pods);
            }
        }
    }

    /// Whether some constraint selects `other`.
    fn selects(&self, other: &Pod) -> bool {
        self.counted.iter().any(|counted| counted.constraint.selects(other))
    }
}

impl PreFilter for PodTopologySpread {
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        let AttemptMut { state, pod, handle, .. } = attempt;
        let constraints = self.hard_constraints(pod, handle.cluster).map_err(|error| {
            Status::error(format!(
                "get constraints from pod: obtaining pod's hard topology spread constraints: \
                 {error}"
            ))
        })?;
        if constraints.is_empty() {
            return Err(Status::skip());
        }
        let changes = vec![Changes::default(); constraints.len()].into();
        let counted = count(state, constraints, pod, handle.cluster);
        state.write_for_search(PreFiltered { counted, changes });
        Ok(PreFilterResult::default())
    }
}

impl PreFilterExtensions for PodTopologySpread {
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
    pods: i64,
) -> Status {
    let is_selected = match PreFiltered::of_cycle(state) {
        Ok(pre_filtered) => pre_filtered.selects(other),
        Err(status) => return status,
    };
    if is_selected && let Some(pre_filtered) = state.read_mut::<PreFiltered>() {
        pre_filtered.change(pod, other, node, pods);
    }
    Status::success()
}

/// The limit of a constraint, for any node.
struct Limit<'a> {
    topology: Option<Topology<'a>>,
    counts: &'a DomainCounts,
    changes: &'a Changes,
    /// Maximum number of pods in a domain that the pod can join.
    most: i64,
}

/// The verdict of a constraint on a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Fits,
    LacksLabel,
    TooSkewed,
}

impl Limit<'_> {
    #[inline]
    fn verdict(&self, node: NodeIx) -> Verdict {
        match self.topology.and_then(|topology| topology.domain_of(node)) {
            None => Verdict::LacksLabel,
            Some(domain) if self.counts.get(domain, self.changes) > self.most => Verdict::TooSkewed,
            Some(_) => Verdict::Fits,
        }
    }
}

impl Filter for PodTopologySpread {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let pre_filtered = match PreFiltered::of_cycle(attempt.state) {
            Ok(pre_filtered) => pre_filtered,
            Err(status) => return status,
        };
        for (counted, changes) in pre_filtered.iter() {
            let Some(domain) = counted.domain_of(node) else {
                return Status::unresolvable(REASON_LABEL);
            };
            let count = counted.counts.get(domain, changes);
            let skew = count + counted.own - counted.min(changes);
            if skew > i64::from(counted.constraint.max_skew) {
                return Status::unschedulable(REASON);
            }
        }
        Status::success()
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        for limit in PreFiltered::of_cycle(attempt.state)?.limits(attempt.handle.cluster) {
            nodes.retain(|node| limit.verdict(node) == Verdict::Fits);
        }
        Ok(())
    }

    fn dependence(&self, attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        let scope = match PreFiltered::of_cycle(attempt.state) {
            Ok(_) => FilterScope::Tier,
            Err(_) => FilterScope::Cluster,
        };
        Some(Dependence::on(scope))
    }

    /// The key has for each constraint the domain of the node, or its number of pods if each domain
    /// is a single node.
    fn key_set(&self, attempt: &Attempt<'_>, keys: PerNode<'_>) -> Result<(), Status> {
        let PerNode { nodes, values: keys, .. } = keys;
        let Attempt { state, handle, .. } = *attempt;
        let counted = &PreFiltered::of_cycle(state)?.counted;
        let mut packed = PackedKeys::of(counted.len(), nodes, keys);
        for own in &**counted {
            let topology = own.topology.map(|key| handle.cluster.topology_at(key));
            match own.counts.by_node().filter(|_| own.is_per_node) {
                Some(pods) => packed.push_values(topology, pods, |pods| pods + 1),
                None => packed.push_domains(topology),
            }
        }
        packed.finish()
    }

    /// The first constraint that fails determines the reason: a skew hides a missing label of the
    /// next constraint.
    fn explain_set(&self, attempt: &Attempt<'_>, rejected: &NodeBits, verdicts: &mut Verdicts) {
        let limits: Vec<_> = match PreFiltered::of_cycle(attempt.state) {
            Ok(pre_filtered) => pre_filtered.limits(attempt.handle.cluster).collect(),
            Err(status) => return verdicts.record_all(rejected, status),
        };
        let lacks_label = verdicts.intern(Status::unresolvable(REASON_LABEL));
        let too_skewed = verdicts.intern(Status::unschedulable(REASON));
        for node in rejected.iter() {
            let mut failing = limits.iter().map(|limit| limit.verdict(node));
            match failing.find(|verdict| *verdict != Verdict::Fits) {
                Some(Verdict::LacksLabel) => verdicts.set(node, lacks_label),
                _ => verdicts.set(node, too_skewed),
            }
        }
    }
}
