//! The constraints that apply to a pod: its own, or default constraints with a derived selector.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{
    Cluster, ControllerKind, LabelSelector, Namespaces, NodeBits, NodeColumn, NodeFields, NodeView,
    PluginGates, Pod, PodCount, PodQuery, Requirement, SelectorError, Taint,
    TopologySpreadConstraint, WhenUnsatisfiable,
};

use super::PodTopologySpread;
use crate::node_sets::{retain_required, retain_union};
use crate::taint_toleration::{may_run, retain_tolerated};

/// A constraint as it applies to one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Constraint {
    /// Maximum difference between the numbers of pods of two domains.
    pub(super) max_skew: i32,
    /// Node label whose value identifies the domain.
    pub(super) topology_key: Arc<str>,
    /// Minimum number of domains. With fewer domains, the global minimum is 0.
    pub(super) min_domains: i32,
    /// The nodes whose pods count.
    pub(super) inclusion: NodeInclusion,
    /// The pods that count, `matchLabelKeys` included.
    pods: PodQuery,
}

impl Constraint {
    fn new(
        given: &TopologySpreadConstraint,
        selector: LabelSelector,
        pod: &Pod,
        gates: PluginGates,
    ) -> Self {
        let namespaces = Namespaces::one(&pod.key.namespace);
        Self {
            max_skew: given.max_skew,
            topology_key: given.topology_key.clone(),
            min_domains: given.min_domains,
            inclusion: NodeInclusion {
                honors_node_affinity: given.honors_node_affinity,
                honors_node_taints: given.honors_node_taints,
                gates,
            },
            pods: PodQuery { namespaces, selector },
        }
    }

    /// Whether the constraint selects `pod`, on whatever node.
    pub(super) fn selects(&self, pod: &Pod) -> bool {
        self.pods.matches(pod)
    }

    /// Returns the query to keep counting; `None` if the selector matches no pod.
    pub(super) fn standing_query(self) -> Option<PodQuery> {
        (!self.pods.selector.is_nothing()).then_some(self.pods)
    }

    /// Returns the number of selected pods on each node. Terminating pods do not count.
    pub(super) fn pods_by_node<'a>(&self, cluster: &'a Cluster) -> Cow<'a, NodeColumn<PodCount>> {
        match self.pods.selector.is_nothing() {
            true => Cow::Owned(NodeColumn::default()),
            false => cluster.matching_pods(&self.pods),
        }
    }

    /// Returns the count of [`pods_by_node`](Self::pods_by_node) for one node.
    pub(super) fn pods_on(&self, node: &NodeView<'_>) -> u32 {
        node.pods().map(|pod| u32::from(!pod.terminating && self.selects(pod))).sum()
    }
}

/// Whether a node has the topology keys of all `constraints`.
pub(super) fn has_all_keys<'a>(
    constraints: impl IntoIterator<Item = &'a Constraint>,
    node: &impl NodeFields,
) -> bool {
    constraints.into_iter().all(|own| node.label(&own.topology_key).is_some())
}

/// Retains the nodes that have the topology keys of all `constraints`.
pub(super) fn retain_with_all_keys(
    constraints: &[Constraint],
    cluster: &Cluster,
    nodes: &mut NodeBits,
) {
    for constraint in constraints {
        retain_union(cluster.with_label_key(&constraint.topology_key), cluster, nodes);
    }
}

/// The node inclusion policies of a constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeInclusion {
    /// Whether only nodes that match the node affinity of the pod count.
    pub(super) honors_node_affinity: bool,
    /// Whether only nodes count whose taints the pod tolerates.
    pub(super) honors_node_taints: bool,
    gates: PluginGates,
}

impl NodeInclusion {
    /// Whether a node with these taints counts.
    pub(super) fn includes(self, pod: &Pod, node: &impl NodeFields, taints: &[Taint]) -> bool {
        self.affinity_includes(pod, node)
            && (!self.honors_node_taints || may_run(pod, taints, self.gates))
    }

    /// Whether the affinity policy includes the node. Terms that do not parse match no node.
    pub(super) fn affinity_includes(self, pod: &Pod, node: &impl NodeFields) -> bool {
        let affinity = &pod.spec.required_node_affinity;
        !self.honors_node_affinity || affinity.matches(node).unwrap_or(false)
    }

    /// Retains the nodes that count.
    pub(super) fn retain(self, pod: &Pod, cluster: &Cluster, nodes: &mut NodeBits) {
        if self.honors_node_affinity {
            retain_required(&pod.spec.required_node_affinity, cluster, nodes);
        }
        if self.honors_node_taints {
            retain_tolerated(pod, cluster, self.gates, nodes);
        }
    }
}

impl PodTopologySpread {
    /// Returns the hard constraints that apply to `pod`.
    ///
    /// # Errors
    /// Returns an error if a selector of its own constraints is invalid.
    pub(super) fn hard_constraints(
        &self,
        pod: &Pod,
        cluster: &Cluster,
    ) -> Result<Vec<Constraint>, SelectorError> {
        self.constraints(pod, cluster, &WhenUnsatisfiable::DoNotSchedule)
    }

    /// Returns the soft constraints that apply to `pod`.
    ///
    /// # Errors
    /// Returns an error if a selector of its own constraints is invalid.
    pub(super) fn soft_constraints(
        &self,
        pod: &Pod,
        cluster: &Cluster,
    ) -> Result<Vec<Constraint>, SelectorError> {
        self.constraints(pod, cluster, &WhenUnsatisfiable::ScheduleAnyway)
    }

    /// Returns the constraints with this action. Default constraints apply only if the pod has no
    /// constraint of its own, hard or soft.
    fn constraints(
        &self,
        pod: &Pod,
        cluster: &Cluster,
        wanted: &WhenUnsatisfiable,
    ) -> Result<Vec<Constraint>, SelectorError> {
        let is_wanted = |given: &&TopologySpreadConstraint| given.when_unsatisfiable == *wanted;
        let own = &pod.spec.topology_spread_constraints;
        if !own.is_empty() {
            let own = own.iter().filter(is_wanted);
            let new = |own| Ok(Constraint::new(own, own_selector(own, pod)?, pod, self.gates));
            return own.map(new).collect();
        }
        let mut defaults = self.defaults.constraints.iter().filter(is_wanted).peekable();
        if defaults.peek().is_none() {
            return Ok(Vec::new());
        }
        let selector = default_selector(pod, cluster);
        if selector.is_everything() {
            return Ok(Vec::new());
        }
        let new = |given| Constraint::new(given, selector.clone(), pod, self.gates);
        Ok(defaults.map(new).collect())
    }
}

/// Returns the selector of a constraint of the pod, with the pod's values of the `matchLabelKeys`.
fn own_selector(
    constraint: &TopologySpreadConstraint,
    pod: &Pod,
) -> Result<LabelSelector, SelectorError> {
    let values = constraint.match_label_keys.iter().filter_map(|key| {
        let value = pod.labels.get(key)?;
        Some(Requirement::equals(key, value))
    });
    Ok(values.fold(constraint.selector.clone()?, LabelSelector::require))
}

/// Returns the selector of default constraints, derived from the Services and the controller of the
/// pod.
///
/// The selectors of Services and of a ReplicationController merge into one set of labels; later
/// values win. The selector of a ReplicaSet or StatefulSet applies in addition.
fn default_selector(pod: &Pod, cluster: &Cluster) -> LabelSelector {
    let mut sets = cluster.services_selecting(pod);
    let controller = cluster.controller_selector(pod);
    if let Some((ControllerKind::ReplicationController, set)) = controller {
        sets.push(set);
    }
    let pairs = sets.into_iter().filter_map(LabelSelector::requirements).flatten();
    let set: BTreeMap<_, _> = pairs.map(|pair| (pair.key(), pair)).collect();
    let selector = LabelSelector::from(set.into_values().cloned().collect::<Vec<_>>());
    match controller {
        Some((ControllerKind::ReplicaSet | ControllerKind::StatefulSet, own)) => selector.and(own),
        _ => selector,
    }
}
