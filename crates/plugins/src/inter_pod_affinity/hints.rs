//! Queueing hints of InterPodAffinity for pods that its required terms rejected.
//!
//! A change helps in one of three ways. A pod that matches an affinity term appears in a domain
//! that had none. A pod that matches an anti-affinity term leaves a domain. The last pod of an
//! affinity series goes, and the rejected pod may be the first of the series. kube-scheduler 1.36
//! misses some of these changes and leaves pods that fit in the queue. The rules
//! `inter-pod-affinity-*` of docs/differences.toml list them.

use framework::{
    Cluster, EventForPod, HintResult, Labels, Namespace, Node, Object, Pod, PodAffinityTerm,
    QueueingHint, Topology,
};

use super::InterPodAffinity;
use super::filtering::existing_anti_affinity_against;
use super::terms::{Terms, all_match, covers, matches, query_of_all};
use crate::hint;

impl InterPodAffinity {
    /// Ignores changes of other pods that are neither placed nor nominated.
    pub(super) fn after_pod_change(&self, event: EventForPod<'_>) -> HintResult {
        if hint::own_update(event)?.is_some() {
            return Ok(QueueingHint::Queue);
        }
        let (old, new) = event.objects.pods()?;
        let is_idle =
            |other: &Pod| other.node_name.is_none() && other.nominated_node_name().is_none();
        if old.is_some_and(is_idle) || new.is_some_and(is_idle) {
            return Ok(QueueingHint::Skip);
        }
        Ok(hint::queue_if(
            Waiting::new(event.pod, event.handle.cluster)?.is_helped_by_pod(old, new),
        ))
    }

    pub(super) fn after_node_change(&self, event: EventForPod<'_>) -> HintResult {
        let waiting = Waiting::new(event.pod, event.handle.cluster)?;
        Ok(hint::queue_if(match event.objects.nodes()? {
            (None, Some(new)) => waiting.is_helped_by_added(new),
            (Some(old), Some(new)) => waiting.is_helped_by_relabelled(old, new),
            (Some(old), None) => waiting.is_helped_by_deleted(old),
            (None, None) => false,
        }))
    }

    /// A namespace may start or stop to match a term. The hint cannot know which terms of placed
    /// pods matched the pod under the old labels of its namespace.
    pub(super) fn after_namespace_change(&self, event: EventForPod<'_>) -> HintResult {
        let (old, new) = event.objects.others()?;
        let name = new.or(old).map(Object::name).ok_or("the event has no namespace")?;
        let none = Labels::default();
        let (old, new) = event.objects.typed::<Namespace>()?;
        let [before, after] = [old, new].map(|own| own.map_or(&none, |own| &own.labels));
        let own = event.pod.key.namespace == *name && before != after;
        let waiting = Waiting::new(event.pod, event.handle.cluster)?;
        Ok(hint::queue_if(own || waiting.is_helped_by_namespace(name, before, after)))
    }
}

/// A waiting pod, and the cluster after the change. The cluster may already include later changes,
/// each of which gets its own hint.
struct Waiting<'a> {
    pod: &'a Pod,
    affinity: &'a [PodAffinityTerm],
    anti_affinity: &'a [PodAffinityTerm],
    cluster: &'a Cluster,
}

impl<'a> Waiting<'a> {
    fn new(pod: &'a Pod, cluster: &'a Cluster) -> Result<Self, String> {
        let terms = Terms::parse_required(pod)?;
        let (affinity, anti_affinity) = (terms.required_affinity, terms.required_anti_affinity);
        Ok(Self { pod, affinity, anti_affinity, cluster })
    }

    fn is_helped_by_pod(&self, old: Option<&Pod>, new: Option<&Pod>) -> bool {
        let exactly = |term: &PodAffinityTerm, other: &Pod| matches(term, other, self.cluster);
        // The hint of 1.36 knows no labels of namespaces. This one answers Queue wherever that one
        // does.
        let without_labels =
            |term: &PodAffinityTerm, other: &Pod| term.matches(other, &Labels::default());
        let is_gone = || old.filter(|_| new.is_none());
        self.is_helped_under(exactly, old, new)
            || self.is_helped_under(without_labels, old, new)
            || is_gone().is_some_and(|old| self.is_rejected_by(old, |_| true))
    }

    /// Whether a changed pod starts to match all affinity terms, is the last one that did, or stops
    /// to match an anti-affinity term.
    fn is_helped_under(
        &self,
        matches: impl Fn(&PodAffinityTerm, &Pod) -> bool,
        old: Option<&Pod>,
        new: Option<&Pod>,
    ) -> bool {
        let all = |other: &Pod| {
            !self.affinity.is_empty() && self.affinity.iter().all(|term| matches(term, other))
        };
        let (matched, matches_now) = (old.is_some_and(all), new.is_some_and(all));
        let is_released = |term: &PodAffinityTerm| {
            old.is_some_and(|old| matches(term, old)) && !new.is_some_and(|new| matches(term, new))
        };
        (matches_now && !matched)
            || (matched && !matches_now && self.may_be_first(None))
            || self.anti_affinity.iter().any(is_released)
    }

    /// Whether the added node helps. For a pod without terms, it helps unless a placed pod there
    /// rejects the pod.
    fn is_helped_by_added(&self, node: &Node) -> bool {
        if self.affinity.is_empty() && self.anti_affinity.is_empty() {
            return !self.is_rejected_on(node);
        }
        let mut keys = self.affinity.iter().map(|term| &term.topology_key);
        !self.anti_affinity.is_empty() || keys.any(|key| node.labels.contains_key(key))
    }

    fn is_helped_by_relabelled(&self, old: &Node, new: &Node) -> bool {
        let comes = |term: &PodAffinityTerm| enters(new, old, &term.topology_key);
        let goes = |term: &PodAffinityTerm| enters(old, new, &term.topology_key);
        self.affinity.iter().any(comes)
            || self.anti_affinity.iter().any(goes)
            || existing_anti_affinity_against(self.pod, self.cluster)
                .any(|carried| goes(&carried.term))
            || (self.affinity.iter().any(goes)
                && self.may_have_matching_on(old)
                && self.may_be_first(None))
    }

    /// Whether the deletion of the node helps, because its pods no longer count.
    fn is_helped_by_deleted(&self, node: &Node) -> bool {
        let frees_others = |term: &PodAffinityTerm| self.shares_domain(node, &term.topology_key);
        let is_released_by = |other: &Pod| {
            let mut terms = self.anti_affinity.iter();
            terms.any(|term| frees_others(term) && matches(term, other, self.cluster))
        };
        let frees = |other: &Pod| is_released_by(other) || self.is_rejected_by(other, frees_others);
        self.may_have_pod_on(node, frees)
            || (self.may_have_matching_on(node) && self.may_be_first(Some(node)))
    }

    fn is_helped_by_namespace(&self, name: &str, before: &Labels, after: &Labels) -> bool {
        let begins = |term| !covers(term, name, before) && covers(term, name, after);
        let ceases = |term| covers(term, name, before) && !covers(term, name, after);
        self.affinity.iter().any(begins)
            || self.anti_affinity.iter().any(ceases)
            || (self.affinity.iter().any(ceases) && self.may_be_first(None))
    }

    /// Whether all required affinity terms of the pod match `other`.
    fn matches_affinity(&self, other: &Pod) -> bool {
        all_match(self.affinity, other, self.cluster)
    }

    /// Whether one of the `considered` anti-affinity terms of `other` matches the pod.
    ///
    /// kube-scheduler ignores the labels of the pod's namespace. The hint therefore also requeues a
    /// pod whose terms match without them.
    fn is_rejected_by(&self, other: &Pod, considered: impl Fn(&PodAffinityTerm) -> bool) -> bool {
        let labels = self.cluster.namespace_labels(&self.pod.key.namespace);
        Terms::of(other).required_anti_affinity.iter().any(|term| {
            let matches = |labels| term.matches(self.pod, labels);
            considered(term) && (matches(labels) || matches(&Labels::default()))
        })
    }

    /// Whether a required anti-affinity term of a placed pod rejects the pod on `node`.
    fn is_rejected_on(&self, node: &Node) -> bool {
        existing_anti_affinity_against(self.pod, self.cluster).any(|carried| {
            let key = &carried.term.topology_key;
            let Some(topology) = self.cluster.topology(key) else { return false };
            let own = node.labels.get(key).and_then(|value| topology.domain_named(value));
            let mut carriers = carried.carriers.iter();
            own.is_some() && carriers.any(|(node, _)| topology.domain_of(node) == own)
        })
    }

    /// Whether the pod matches its own affinity terms and no other matching pod is in any domain.
    /// Pods on `gone` do not count.
    fn may_be_first(&self, gone: Option<&Node>) -> bool {
        let Some(query) = query_of_all(self.affinity, self.cluster) else { return false };
        if !query.matches(self.pod) {
            return false;
        }
        let gone = gone.and_then(|node| self.cluster.node_named(&node.name));
        let keys = self.affinity.iter().map(|term| &term.topology_key);
        let topologies: Vec<Topology<'_>> =
            keys.filter_map(|key| self.cluster.topology(key)).collect();
        let pods = self.cluster.matching_pods(&query);
        !pods
            .iter()
            .filter(|(node, _)| Some(*node) != gone)
            .any(|(node, _)| topologies.iter().any(|topology| topology.domain_of(node).is_some()))
    }

    fn may_have_matching_on(&self, node: &Node) -> bool {
        self.may_have_pod_on(node, |other| self.matches_affinity(other))
    }

    /// Whether a pod on `node` satisfies `predicate`. Returns true for an unknown node, because its
    /// former pods are not known.
    fn may_have_pod_on(&self, node: &Node, predicate: impl Fn(&Pod) -> bool) -> bool {
        let known = self.cluster.node_named(&node.name);
        known.is_none_or(|node| self.cluster.node(node).pods().any(|pod| predicate(pod)))
    }

    /// Whether another node is in the domain of `node`.
    fn shares_domain(&self, node: &Node, key: &str) -> bool {
        let value = node.labels.get(key);
        let same = value.and_then(|value| self.cluster.with_label(key, value));
        let is_other = |other| **self.cluster.node_name(other) != *node.name;
        same.is_some_and(|same| same.iter().any(is_other))
    }
}

/// Whether `node` is in a domain of `key` and its `other` state is not.
fn enters(node: &Node, other: &Node, key: &str) -> bool {
    let value = node.labels.get(key);
    value.is_some() && value != other.labels.get(key)
}
