//! An implementation of the rules on API objects that scans every pod.

use std::collections::{BTreeMap, BTreeSet};

use framework::{Status, api};

/// Labels of an object.
pub(super) type LabelMap = BTreeMap<String, String>;

/// A cluster as API objects.
#[derive(Debug, Clone, Default)]
pub(super) struct Objects {
    pub(super) nodes: BTreeMap<String, api::Node>,
    pub(super) namespaces: BTreeMap<String, LabelMap>,
    /// The pods. `spec.nodeName` names a node that may be unknown.
    pub(super) pods: Vec<api::Pod>,
}

/// Topology key and value.
type Domain = (String, String);
type Counts = BTreeMap<Domain, i64>;

/// The terms of a pod by category; `None` where one is malformed.
struct Terms {
    affinity: Option<Vec<api::PodAffinityTerm>>,
    anti_affinity: Option<Vec<api::PodAffinityTerm>>,
    preferred: Option<Vec<(i64, api::PodAffinityTerm)>>,
    preferred_anti: Option<Vec<(i64, api::PodAffinityTerm)>>,
}

fn terms_of(pod: &api::Pod) -> Terms {
    let affinity = pod.spec.affinity.clone().unwrap_or_default();
    let near = affinity.pod_affinity.unwrap_or_default();
    let far = affinity.pod_anti_affinity.unwrap_or_default();
    let required = |terms: Vec<api::PodAffinityTerm>| terms.iter().all(parses).then_some(terms);
    let preferred = |terms: Vec<api::WeightedPodAffinityTerm>| {
        terms.iter().all(|own| parses(&own.pod_affinity_term)).then(|| {
            terms.into_iter().map(|own| (i64::from(own.weight), own.pod_affinity_term)).collect()
        })
    };
    Terms {
        affinity: required(near.required),
        anti_affinity: required(far.required),
        preferred: preferred(near.preferred),
        preferred_anti: preferred(far.preferred),
    }
}

fn parses(term: &api::PodAffinityTerm) -> bool {
    let nothing = LabelMap::new();
    let selectors = [&term.label_selector, &term.namespace_selector].into_iter().flatten();
    selectors.into_iter().all(|selector| selects(selector, &nothing).is_some())
}

/// Whether the selector matches the labels; `None` if it is malformed.
fn selects(selector: &api::LabelSelector, labels: &LabelMap) -> Option<bool> {
    let mut all = selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value));
    for own in &selector.match_expressions {
        let value = labels.get(&own.key);
        let listed = value.is_some_and(|value| own.values.contains(value));
        all &= match (own.operator.as_str(), own.values.is_empty()) {
            ("In", false) => listed,
            ("NotIn", false) => !listed,
            ("Exists", true) => value.is_some(),
            ("DoesNotExist", true) => value.is_none(),
            _ => return None,
        };
    }
    Some(all)
}

fn matches(selector: &Option<api::LabelSelector>, labels: &LabelMap) -> bool {
    selector.as_ref().is_some_and(|selector| selects(selector, labels) == Some(true))
}

/// Whether a term matches, given its set of namespaces and the labels of the other pod's namespace,
/// as in kube-scheduler.
pub(super) fn term_matches(
    term: &api::PodAffinityTerm,
    namespaces: &BTreeSet<String>,
    pod: &api::Pod,
    namespace_labels: &LabelMap,
) -> bool {
    let namespace = namespaces.contains(&pod.metadata.namespace)
        || matches(&term.namespace_selector, namespace_labels);
    namespace && matches(&term.label_selector, &pod.metadata.labels)
}

/// Returns the namespaces that a term of `owner` lists.
pub(super) fn listed(term: &api::PodAffinityTerm, owner: &api::Pod) -> BTreeSet<String> {
    match term.namespaces.is_empty() && term.namespace_selector.is_none() {
        true => [owner.metadata.namespace.clone()].into(),
        false => term.namespaces.iter().cloned().collect(),
    }
}

impl Objects {
    fn namespace_labels(&self, name: &str) -> LabelMap {
        self.namespaces.get(name).cloned().unwrap_or_default()
    }

    /// Returns the pods on known nodes, with their nodes.
    fn placed(&self) -> impl Iterator<Item = (&api::Pod, &api::Node)> {
        self.pods.iter().filter_map(|pod| Some((pod, self.nodes.get(&pod.spec.node_name)?)))
    }

    /// Whether a term of `pod`, the pod to schedule, matches `other`.
    fn term_matches(&self, term: &api::PodAffinityTerm, pod: &api::Pod, other: &api::Pod) -> bool {
        let labels = self.namespace_labels(&other.metadata.namespace);
        term_matches(term, &listed(term, pod), other, &labels)
    }

    /// Whether a term of the placed pod `owner` matches `pod`.
    fn matched_by_existing(
        &self,
        term: &api::PodAffinityTerm,
        owner: &api::Pod,
        pod: &api::Pod,
    ) -> bool {
        let labels = self.namespace_labels(&pod.metadata.namespace);
        term_matches(term, &listed(term, owner), pod, &labels)
    }

    /// Whether PreFilter rejects the pod because a term is malformed.
    pub(super) fn is_malformed(pod: &api::Pod) -> bool {
        let terms = terms_of(pod);
        terms.affinity.is_none()
            || terms.anti_affinity.is_none()
            || terms.preferred.is_none()
            || terms.preferred_anti.is_none()
    }

    /// Returns the verdict of the filter.
    pub(super) fn verdict(&self, pod: &api::Pod, node: &api::Node) -> Status {
        let terms = terms_of(pod);
        let (Some(affinity), Some(anti_affinity)) = (terms.affinity, terms.anti_affinity) else {
            return Status::unresolvable("malformed");
        };
        if Self::is_malformed(pod) {
            return Status::unresolvable("malformed");
        }
        if !self.is_near(pod, &affinity, node) {
            return Status::unresolvable("node(s) didn't match pod affinity rules");
        }
        let apart = |counts: Counts| !labels(node).any(|domain| counts.contains_key(&domain));
        if !apart(self.count_any(pod, &anti_affinity)) {
            return Status::unschedulable("node(s) didn't match pod anti-affinity rules");
        }
        if !apart(self.count_existing(pod)) {
            let reason = "node(s) didn't satisfy existing pods anti-affinity rules";
            return Status::unschedulable(reason);
        }
        Status::success()
    }

    fn is_near(&self, pod: &api::Pod, terms: &[api::PodAffinityTerm], node: &api::Node) -> bool {
        let mut counts = Counts::new();
        for (other, at) in self.placed() {
            if terms.iter().all(|term| self.term_matches(term, pod, other)) {
                terms.iter().for_each(|term| count(&mut counts, at, &term.topology_key, 1));
            }
        }
        let domains = terms.iter().map(|term| domain(node, &term.topology_key));
        let Some(domains) = domains.collect::<Option<Vec<_>>>() else { return false };
        let first = counts.is_empty() && terms.iter().all(|term| self.term_matches(term, pod, pod));
        first || domains.iter().all(|domain| counts.contains_key(domain))
    }

    fn count_any(&self, pod: &api::Pod, terms: &[api::PodAffinityTerm]) -> Counts {
        let mut counts = Counts::new();
        for (other, at) in self.placed() {
            for term in terms.iter().filter(|term| self.term_matches(term, pod, other)) {
                count(&mut counts, at, &term.topology_key, 1);
            }
        }
        counts
    }

    fn count_existing(&self, pod: &api::Pod) -> Counts {
        let mut counts = Counts::new();
        for (other, at) in self.placed() {
            for term in terms_of(other).anti_affinity.iter().flatten() {
                if self.matched_by_existing(term, other, pod) {
                    count(&mut counts, at, &term.topology_key, 1);
                }
            }
        }
        counts
    }

    /// Returns the raw score of a node.
    pub(super) fn score(
        &self,
        pod: &api::Pod,
        node: &api::Node,
        hard_weight: i64,
        ignore_existing: bool,
    ) -> i64 {
        let own = terms_of(pod);
        let (near, far) =
            (own.preferred.unwrap_or_default(), own.preferred_anti.unwrap_or_default());
        if ignore_existing && near.is_empty() && far.is_empty() {
            return 0;
        }
        let mut sums = Counts::new();
        for (other, at) in self.placed() {
            let mut add = |applies: bool, term: &api::PodAffinityTerm, weight: i64| {
                if applies {
                    count(&mut sums, at, &term.topology_key, weight);
                }
            };
            for (weight, term) in &near {
                add(self.term_matches(term, pod, other), term, *weight);
            }
            for (weight, term) in &far {
                add(self.term_matches(term, pod, other), term, -weight);
            }
            let theirs = terms_of(other);
            let matches = |term| self.matched_by_existing(term, other, pod);
            for term in theirs.affinity.iter().flatten() {
                add(matches(term), term, hard_weight);
            }
            for (weight, term) in theirs.preferred.iter().flatten() {
                add(matches(term), term, *weight);
            }
            for (weight, term) in theirs.preferred_anti.iter().flatten() {
                add(matches(term), term, -weight);
            }
        }
        labels(node).filter_map(|domain| sums.get(&domain)).sum()
    }
}

fn labels(node: &api::Node) -> impl Iterator<Item = Domain> {
    node.metadata.labels.iter().map(|(key, value)| (key.clone(), value.clone()))
}

fn domain(node: &api::Node, key: &str) -> Option<Domain> {
    Some((key.to_owned(), node.metadata.labels.get(key)?.clone()))
}

fn count(counts: &mut Counts, node: &api::Node, key: &str, amount: i64) {
    if let Some(domain) = domain(node, key) {
        *counts.entry(domain).or_default() += amount;
    }
}

/// The hints of kube-scheduler 1.36, for pods with well-formed terms.
pub(super) mod hint {
    use super::{LabelMap, Terms, listed, term_matches, terms_of};
    use framework::api;

    /// Whether all terms of `owner` match, with empty namespace labels.
    fn all_match(terms: &[api::PodAffinityTerm], owner: &api::Pod, pod: &api::Pod) -> bool {
        let matches = |term| term_matches(term, &listed(term, owner), pod, &LabelMap::new());
        !terms.is_empty() && terms.iter().all(matches)
    }

    fn required(pod: &api::Pod) -> (Vec<api::PodAffinityTerm>, Vec<api::PodAffinityTerm>) {
        let Terms { affinity, anti_affinity, .. } = terms_of(pod);
        (affinity.unwrap_or_default(), anti_affinity.unwrap_or_default())
    }

    /// Whether the event of a placed pod requeues `pod`.
    pub(in super::super) fn of_pod(
        pod: &api::Pod,
        old: Option<&api::Pod>,
        new: Option<&api::Pod>,
    ) -> bool {
        let (near, apart) = required(pod);
        let wanted = |other| all_match(&near, pod, other);
        let unwanted = |other| all_match(&apart, pod, other);
        match (old, new) {
            (Some(old), Some(new)) => {
                (!wanted(old) && wanted(new)) || (unwanted(old) && !unwanted(new))
            }
            (None, Some(new)) => wanted(new),
            (Some(old), None) => unwanted(old) || all_match(&required(old).1, old, pod),
            (None, None) => false,
        }
    }

    /// Whether the event of a node requeues `pod`. Node deletions are not registered.
    pub(in super::super) fn of_node(
        pod: &api::Pod,
        old: Option<&api::Node>,
        new: &api::Node,
    ) -> bool {
        let value = |node: &api::Node, key: &str| node.metadata.labels.get(key).cloned();
        let (near, apart) = required(pod);
        let enters = |term: &api::PodAffinityTerm| {
            let key = &term.topology_key;
            value(new, key).is_some() && old.is_none_or(|old| value(old, key) != value(new, key))
        };
        let leaves = |term: &api::PodAffinityTerm| {
            let key = &term.topology_key;
            old.is_none_or(|old| value(old, key).is_some() && value(old, key) != value(new, key))
        };
        near.iter().any(enters) || apart.iter().any(leaves)
    }
}
