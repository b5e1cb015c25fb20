//! Hard topology spread constraints.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{
    LabelSelector, Node, Pod, Requirement, TopologySpreadConstraint, WhenUnsatisfiable,
};

use super::super::churn::nodes::ZONE;
use super::super::replica::DEFAULT_MAX_SKEW;
use super::super::server::SPREADING;
use super::{Place, Question};

impl Question<'_> {
    /// Whether no hard constraint is violated if the pod is placed here.
    pub(super) fn is_spread(&self) -> bool {
        let constraints = self.hard_constraints();
        constraints.iter().all(|constraint| self.satisfies(constraint, &constraints))
    }

    /// Returns the constraints of the pod, hard or soft; otherwise those of its profile.
    fn hard_constraints(&self) -> Vec<TopologySpreadConstraint> {
        let own = &self.pod.spec.topology_spread_constraints;
        if own.is_empty() && *self.pod.spec.scheduler_name == *SPREADING {
            return self.default_constraint().into_iter().collect();
        }
        let hard = own
            .iter()
            .filter(|constraint| constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule);
        hard.map(|constraint| with_match_label_keys(constraint, self.pod)).collect()
    }

    /// Without a Service or a controller, default constraints do not apply.
    fn default_constraint(&self) -> Option<TopologySpreadConstraint> {
        let selector = self.oracle.related.selector_of_mates(self.pod);
        (!selector.is_everything()).then(|| TopologySpreadConstraint {
            max_skew: DEFAULT_MAX_SKEW,
            topology_key: ZONE.into(),
            when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
            selector: Ok(selector),
            min_domains: 1,
            honors_node_affinity: true,
            honors_node_taints: false,
            match_label_keys: Box::default(),
        })
    }

    fn satisfies(
        &self,
        constraint: &TopologySpreadConstraint,
        all: &[TopologySpreadConstraint],
    ) -> bool {
        let Ok(selector) = &constraint.selector else { return false };
        let Some(here) = self.place.node.labels.get(&constraint.topology_key) else { return false };
        let mut domains: BTreeMap<&str, i32> = BTreeMap::new();
        for place in &self.oracle.places {
            let domain = place.node.labels.get(&constraint.topology_key);
            if let Some(domain) = domain.filter(|_| self.includes(&place.node, constraint, all)) {
                *domains.entry(domain).or_default() += self.count(place, selector);
            }
        }
        let fewest = domains.values().min().copied().unwrap_or(0);
        let known = i32::try_from(domains.len()).expect("there are few nodes");
        let fewest = if known < constraint.min_domains { 0 } else { fewest };
        let count = domains.get(here).copied().unwrap_or(0);
        let own = i32::from(selector.matches(&self.pod.labels));
        count + own - fewest <= constraint.max_skew
    }

    /// Whether a node counts: it has the keys of all constraints, and the policies include it.
    fn includes(
        &self,
        node: &Node,
        constraint: &TopologySpreadConstraint,
        all: &[TopologySpreadConstraint],
    ) -> bool {
        all.iter().all(|other| node.labels.contains_key(&other.topology_key))
            && (!constraint.honors_node_affinity || self.selects(node))
            && (!constraint.honors_node_taints || self.tolerates(node))
    }

    /// Terminating pods do not count. But nominated pods are always added, and pods treated as
    /// deleted are always subtracted.
    fn count(&self, place: &Place, selector: &LabelSelector) -> i32 {
        let is_meant = |pod: &&Arc<Pod>| {
            let is_other = pod.uid != self.pod.uid && pod.key.namespace == self.pod.key.namespace;
            is_other && selector.matches(&pod.labels)
        };
        let number = |count: usize| i32::try_from(count).expect("there are few pods");
        let meant = || place.pods.iter().filter(is_meant);
        let counted = meant().filter(|pod| !pod.terminating).count();
        let gone = meant().filter(|pod| self.is_gone(pod)).count();
        let guests = self.guests_at(place).filter(is_meant).count();
        number(counted) + number(guests) - number(gone)
    }
}

fn with_match_label_keys(
    constraint: &TopologySpreadConstraint,
    pod: &Pod,
) -> TopologySpreadConstraint {
    let mut constraint = constraint.clone();
    let values = constraint.match_label_keys.iter();
    let values = values.filter_map(|key| Some(Requirement::equals(key, pod.labels.get(key)?)));
    constraint.selector =
        constraint.selector.map(|selector| values.fold(selector, LabelSelector::require));
    constraint
}
