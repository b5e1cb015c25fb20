//! An implementation of the rules on API objects that counts every pod for each question.

use std::collections::{BTreeMap, BTreeSet};

use framework::{LabelSelector, Node, Pod, Status, api, find_untolerated};

use crate::arbitrary::World;

/// The constraints of one kind that apply to a pod in a world.
pub(super) struct Oracle<'a> {
    world: &'a World,
    pod: &'a api::Pod,
    compact: Pod,
    constraints: Vec<api::TopologySpreadConstraint>,
}

/// Returns the constraints of a pod with this action. `matchLabelKeys` are merged into the
/// selector.
pub(super) fn own_constraints(pod: &api::Pod, action: &str) -> Vec<api::TopologySpreadConstraint> {
    let own = pod.spec.topology_spread_constraints.iter();
    own.filter(|own| own.when_unsatisfiable == action).map(|own| with_values(own, pod)).collect()
}

fn with_values(
    constraint: &api::TopologySpreadConstraint,
    pod: &api::Pod,
) -> api::TopologySpreadConstraint {
    let mut constraint = constraint.clone();
    if let Some(selector) = &mut constraint.label_selector {
        for key in &constraint.match_label_keys {
            if let Some(value) = pod.metadata.labels.get(key) {
                selector.match_expressions.push(api::SelectorRequirement {
                    key: key.clone(),
                    operator: "In".to_owned(),
                    values: vec![value.clone()],
                });
            }
        }
    }
    constraint
}

fn selects(constraint: &api::TopologySpreadConstraint, pod: &api::Pod) -> bool {
    let selector = LabelSelector::compile(constraint.label_selector.as_ref()).unwrap();
    selector.matches(&(&pod.metadata.labels).into())
}

fn label<'n>(node: &'n api::Node, key: &str) -> Option<&'n str> {
    node.metadata.labels.get(key).map(String::as_str)
}

impl<'a> Oracle<'a> {
    pub(super) fn new(
        world: &'a World,
        pod: &'a api::Pod,
        constraints: Vec<api::TopologySpreadConstraint>,
    ) -> Self {
        Self { world, pod, compact: Pod::from_api(pod), constraints }
    }

    fn has_all_keys(&self, node: &api::Node) -> bool {
        self.constraints.iter().all(|own| label(node, &own.topology_key).is_some())
    }

    fn includes(&self, constraint: &api::TopologySpreadConstraint, node: &api::Node) -> bool {
        let (spec, node) = (&self.compact.spec, Node::from_api(node).0);
        let affinity = constraint.node_affinity_policy.as_deref() == Some("Ignore")
            || spec.required_node_affinity.matches(&node).unwrap_or(false);
        let forbids = |taint: &framework::Taint| taint.effect.forbids_scheduling();
        let untolerated = find_untolerated(&node.taints, &spec.tolerations, forbids);
        let taints =
            constraint.node_taints_policy.as_deref() != Some("Honor") || untolerated.is_none();
        affinity && taints
    }

    fn pods_on(&self, constraint: &api::TopologySpreadConstraint, name: &str) -> i64 {
        let counts = |other: &&api::Pod| {
            other.metadata.namespace == self.pod.metadata.namespace
                && other.metadata.deletion_timestamp.is_none()
                && selects(constraint, other)
        };
        self.world.pods_on(name).filter(counts).count().try_into().unwrap()
    }

    /// Counts matching pods by label value, `""` if the label is absent, on those of these nodes
    /// that the constraint includes.
    fn domains<'n>(
        &self,
        constraint: &api::TopologySpreadConstraint,
        nodes: impl Iterator<Item = &'n api::Node>,
    ) -> BTreeMap<&'n str, i64> {
        let mut domains = BTreeMap::new();
        for node in nodes.filter(|node| self.includes(constraint, node)) {
            let domain = label(node, &constraint.topology_key).unwrap_or("");
            *domains.entry(domain).or_default() += self.pods_on(constraint, &node.metadata.name);
        }
        domains
    }

    /// Returns the verdict of hard constraints as a function of the node.
    pub(super) fn verdict(&self) -> impl Fn(&api::Node) -> Status {
        let text = "node(s) didn't match pod topology spread constraints";
        let nodes = || self.world.nodes.values().filter(|node| self.has_all_keys(node));
        let counted = self.constraints.iter().map(|own| (own, self.domains(own, nodes())));
        let counted: Vec<_> = counted.collect();
        move |node| {
            for (constraint, domains) in &counted {
                let Some(domain) = label(node, &constraint.topology_key) else {
                    return Status::unresolvable(format!("{text} (missing required label)"));
                };
                let too_few = (domains.len() as i32) < constraint.min_domains.unwrap_or(1);
                let min = if too_few { 0 } else { *domains.values().min().unwrap() };
                let own = i64::from(selects(constraint, self.pod));
                let count = domains.get(domain).copied().unwrap_or(0);
                if count + own - min > i64::from(constraint.max_skew) {
                    return Status::unschedulable(text);
                }
            }
            Status::success()
        }
    }

    /// Returns the score of soft constraints among `candidates`, before normalization, as a
    /// function of the node.
    pub(super) fn score(
        &self,
        candidates: &[&api::Node],
        requires_all_keys: bool,
    ) -> impl Fn(&api::Node) -> i64 {
        let takes_part = move |node: &api::Node| !requires_all_keys || self.has_all_keys(node);
        let compared: Vec<_> = candidates.iter().filter(|node| takes_part(node)).collect();
        let counted = self.constraints.iter().map(|own| {
            let nodes = self.world.nodes.values().filter(|node| takes_part(node));
            let pods = self.domains(own, nodes);
            let value =
                |node: &&&api::Node| label(node, &own.topology_key).unwrap_or("").to_owned();
            let values = compared.iter().copied().map(|node| value(&node));
            let size = match own.topology_key.as_str() {
                "kubernetes.io/hostname" => compared.len(),
                _ => values.collect::<BTreeSet<String>>().len(),
            };
            (own, pods, ((size + 2) as f64).ln())
        });
        let counted: Vec<_> = counted.collect();
        move |node| {
            let mut score = 0.0;
            for (constraint, domains, weight) in counted.iter().filter(|_| takes_part(node)) {
                let Some(domain) = label(node, &constraint.topology_key) else { continue };
                let pods = match constraint.topology_key.as_str() {
                    "kubernetes.io/hostname" => self.pods_on(constraint, &node.metadata.name),
                    _ => domains.get(domain).copied().unwrap_or(0),
                };
                score += pods as f64 * weight + f64::from(constraint.max_skew - 1);
            }
            score.round() as i64
        }
    }
}
