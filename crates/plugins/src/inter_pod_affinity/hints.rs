//! What changes may help a pod that the required terms kept off its nodes.
//!
//! A change helps in one of three ways: a pod to be near appears where there was none, a pod to be
//! away from leaves a domain, or the last of the pods to be near goes and the pod may be the first
//! of them again. kube-scheduler 1.36 sees only part of it and leaves pods asleep that fit; the
//! differences are the entries `inter-pod-affinity-*` of docs/differences.toml.

use std::collections::BTreeMap;

use framework::{
    Cluster, EventObjects, Handle, Labels, Node, Pod, PodAffinityTerm, QueueingHint, Topology,
};
use serde::Deserialize;
use serde_json::Value;

use super::InterPodAffinity;
use super::filtering::opposing_terms;
use super::terms::{Terms, all_mean, covers, means, query_of_all};
use crate::hint;

impl InterPodAffinity {
    /// Pods that run nowhere and are nominated to no node have no say, but the pod itself has.
    pub(super) fn after_pod_change(
        &self,
        pod: &Pod,
        objects: &EventObjects<'_>,
        handle: &Handle<'_>,
    ) -> Result<QueueingHint, String> {
        if hint::update_of(pod, objects)?.is_some() {
            return Ok(QueueingHint::Queue);
        }
        let (old, new) = hint::pods(objects)?;
        let is_idle =
            |other: &Pod| other.node_name.is_none() && other.nominated_node_name.is_none();
        if old.is_some_and(is_idle) || new.is_some_and(is_idle) {
            return Ok(QueueingHint::Skip);
        }
        Ok(hint::queue_if(Waiting::new(pod, handle.cluster)?.is_helped_by_pod(old, new)))
    }

    pub(super) fn after_node_change(
        &self,
        pod: &Pod,
        objects: &EventObjects<'_>,
        handle: &Handle<'_>,
    ) -> Result<QueueingHint, String> {
        let waiting = Waiting::new(pod, handle.cluster)?;
        Ok(hint::queue_if(match hint::nodes(objects)? {
            (None, Some(new)) => waiting.is_helped_by_added(new),
            (Some(old), Some(new)) => waiting.is_helped_by_relabelled(old, new),
            (Some(old), None) => waiting.is_helped_by_deleted(old),
            (None, None) => false,
        }))
    }

    /// A namespace may begin or cease to be one of those a term is about. Which of the terms of
    /// placed pods meant the pod while its namespace had other labels is not known any more.
    pub(super) fn after_namespace_change(
        &self,
        pod: &Pod,
        objects: &EventObjects<'_>,
        handle: &Handle<'_>,
    ) -> Result<QueueingHint, String> {
        let (old, new) = objects.others()?;
        let name = new.or(old).and_then(|object| object["metadata"]["name"].as_str());
        let name = name.ok_or("the namespace has no name")?;
        let (before, after) = (labels_of(old), labels_of(new));
        let own = *pod.key.namespace == *name && before != after;
        let waiting = Waiting::new(pod, handle.cluster)?;
        Ok(hint::queue_if(own || waiting.is_helped_by_namespace(name, &before, &after)))
    }
}

/// The labels of a namespace; one that does not exist has none.
fn labels_of(namespace: Option<&Value>) -> Labels {
    let labels = namespace.map(|object| &object["metadata"]["labels"]);
    let labels = labels.and_then(|labels| BTreeMap::deserialize(labels).ok());
    Labels::from(&labels.unwrap_or_default())
}

/// A pod that waits, and the cluster after the change; when the hint is asked late, after further
/// changes, each of which is judged as well.
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
        let (was_wanted, is_wanted) =
            (old.is_some_and(|old| self.wants(old)), new.is_some_and(|new| self.wants(new)));
        let comes_near = is_wanted && !was_wanted;
        let last_leaves = was_wanted && !is_wanted && self.may_be_first(None);
        comes_near || last_leaves || self.is_freed_by_pod(old, new)
    }

    /// Whether a term no longer means the pod of an event, or a term of that pod is gone with it.
    fn is_freed_by_pod(&self, old: Option<&Pod>, new: Option<&Pod>) -> bool {
        let Some(old) = old else { return false };
        let is_meant = |term, other| means(term, other, self.cluster);
        let released = self
            .anti_affinity
            .iter()
            .any(|term| is_meant(term, old) && !new.is_some_and(|new| is_meant(term, new)));
        released || (new.is_none() && self.is_opposed_by(old, |_| true))
    }

    /// A node that is new to a pod without terms helps unless a placed pod keeps it off there too.
    fn is_helped_by_added(&self, node: &Node) -> bool {
        if self.affinity.is_empty() && self.anti_affinity.is_empty() {
            return !self.is_opposed_on(node);
        }
        let mut keys = self.affinity.iter().map(|term| &term.topology_key);
        !self.anti_affinity.is_empty() || keys.any(|key| node.labels.contains_key(key))
    }

    fn is_helped_by_relabelled(&self, old: &Node, new: &Node) -> bool {
        let comes = |term: &PodAffinityTerm| enters(new, old, &term.topology_key);
        let goes = |term: &PodAffinityTerm| enters(old, new, &term.topology_key);
        self.affinity.iter().any(comes)
            || self.anti_affinity.iter().any(goes)
            || opposing_terms(self.pod, self.cluster).any(|carried| goes(&carried.term))
            || (self.affinity.iter().any(goes)
                && self.may_have_wanted_on(old)
                && self.may_be_first(None))
    }

    /// The pods of a node that is gone do not count any more.
    fn is_helped_by_deleted(&self, node: &Node) -> bool {
        let frees_others = |term: &PodAffinityTerm| self.shares_domain(node, &term.topology_key);
        let is_released_by = |other: &Pod| {
            let mut terms = self.anti_affinity.iter();
            terms.any(|term| frees_others(term) && means(term, other, self.cluster))
        };
        let frees = |other: &Pod| is_released_by(other) || self.is_opposed_by(other, frees_others);
        self.may_have_on(node, frees)
            || (self.may_have_wanted_on(node) && self.may_be_first(Some(node)))
    }

    fn is_helped_by_namespace(&self, name: &str, before: &Labels, after: &Labels) -> bool {
        let begins = |term| !covers(term, name, before) && covers(term, name, after);
        let ceases = |term| covers(term, name, before) && !covers(term, name, after);
        self.affinity.iter().any(begins)
            || self.anti_affinity.iter().any(ceases)
            || (self.affinity.iter().any(ceases) && self.may_be_first(None))
    }

    /// Whether the pod must be near `other`.
    fn wants(&self, other: &Pod) -> bool {
        all_mean(self.affinity, other, self.cluster)
    }

    /// Whether `other` must not be near the pod, by one of these of its terms.
    ///
    /// kube-scheduler takes no notice of the labels of the pod's namespace, so a pod that is meant
    /// without them is woken too.
    fn is_opposed_by(&self, other: &Pod, considered: impl Fn(&PodAffinityTerm) -> bool) -> bool {
        let labels = self.cluster.namespace_labels(&self.pod.key.namespace);
        Terms::of(other).required_anti_affinity.iter().any(|term| {
            let means = |labels| term.matches(self.pod, labels);
            considered(term) && (means(labels) || means(&Labels::default()))
        })
    }

    /// Whether a placed pod keeps the pod off `node`.
    fn is_opposed_on(&self, node: &Node) -> bool {
        opposing_terms(self.pod, self.cluster).any(|carried| {
            let key = &carried.term.topology_key;
            let Some(topology) = self.cluster.topology(key) else { return false };
            let own = node.labels.get(key).and_then(|value| topology.domain_named(value));
            let mut carriers = carried.carriers.iter();
            own.is_some() && carriers.any(|(node, _)| topology.domain_of(node) == own)
        })
    }

    /// Whether the pod is one of those it must be near, and none of them is in any domain; what ran
    /// on `gone` does not count.
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

    fn may_have_wanted_on(&self, node: &Node) -> bool {
        self.may_have_on(node, |other| self.wants(other))
    }

    /// Whether some pod on `node` is of this kind. What ran on a node that is not known any more
    /// may have been.
    fn may_have_on(&self, node: &Node, is_such: impl Fn(&Pod) -> bool) -> bool {
        let known = self.cluster.node_named(&node.name);
        known.is_none_or(|node| self.cluster.node(node).pods().any(|pod| is_such(pod)))
    }

    /// Whether another node is in the domain of `node`.
    fn shares_domain(&self, node: &Node, key: &str) -> bool {
        let value = node.labels.get(key);
        let same = value.and_then(|value| self.cluster.with_label(key, value));
        let is_other = |other| **self.cluster.node_name(other) != *node.name;
        same.is_some_and(|same| same.iter().any(is_other))
    }
}

/// Whether `node` is in a domain of `key` that the `other` state of it is not in.
fn enters(node: &Node, other: &Node, key: &str) -> bool {
    let value = node.labels.get(key);
    value.is_some() && value != other.labels.get(key)
}
