//! Required affinity and anti-affinity between pods.

use std::sync::Arc;

use framework::{Labels, Pod, PodAffinity, PodAffinityTerm};

use super::{Oracle, Place, Question};

impl Question<'_> {
    /// Whether required affinity is satisfied and no required anti-affinity is violated.
    pub(super) fn is_near_and_far_enough(&self) -> bool {
        let spec = &self.pod.spec;
        let (Some(near), Some(far)) = (terms(&spec.pod_affinity), terms(&spec.pod_anti_affinity))
        else {
            return false;
        };
        if near.is_empty() && far.is_empty() && !self.is_opposed() {
            return true;
        }
        self.is_near_enough(near)
            && far.iter().all(|term| self.is_far_from(term, |pod| self.means(term, pod)))
            && self.is_let_in_by_others()
    }

    /// Whether pods that all terms select are in the domain of each term; or there are none
    /// anywhere, and the pod matches its own terms.
    fn is_near_enough(&self, near: &[PodAffinityTerm]) -> bool {
        let has_all_keys = near.iter().all(|term| self.domain(term).is_some());
        let is_meant = |pod: &Pod| near.iter().all(|term| self.means(term, pod));
        has_all_keys
            && (near.iter().all(|term| !self.is_far_from(term, is_meant))
                || self.is_first_of_its_sort(near, is_meant))
    }

    /// Pods on nodes without any of the keys do not count.
    fn is_first_of_its_sort(
        &self,
        near: &[PodAffinityTerm],
        is_meant: impl Fn(&Pod) -> bool,
    ) -> bool {
        let has_some_key = |place: &&Place| {
            near.iter().any(|term| place.node.labels.contains_key(&term.topology_key))
        };
        let mut places = self.oracle.places.iter().filter(has_some_key);
        is_meant(self.pod)
            && !places.any(|place| self.others_at(place).any(|other| is_meant(other)))
    }

    /// Whether no term selects another pod in the domain of this node; a node without the key
    /// belongs to no domain.
    fn is_far_from(&self, term: &PodAffinityTerm, is_meant: impl Fn(&Pod) -> bool) -> bool {
        let Some(domain) = self.domain(term) else { return true };
        let mut places = self
            .oracle
            .places
            .iter()
            .filter(|place| place.node.labels.get(&term.topology_key) == Some(domain));
        !places.any(|place| self.others_at(place).any(|other| is_meant(other)))
    }

    /// Whether a placed pod has required anti-affinity to this one anywhere. If there is none and
    /// the pod has no terms, Kubernetes does not check nominated pods.
    fn is_opposed(&self) -> bool {
        let namespace = &self.oracle.related.namespace_labels(&self.pod.key.namespace);
        self.oracle.places.iter().any(|place| {
            let others = place.pods.iter().filter(|other| other.uid != self.pod.uid);
            let far = others.filter_map(|other| terms(&other.spec.pod_anti_affinity)).flatten();
            let mut far = far.filter(|term| place.node.labels.contains_key(&term.topology_key));
            far.any(|term| term.matches(self.pod, namespace))
        })
    }

    /// Whether no pod in a domain of this node has required anti-affinity to this one.
    fn is_let_in_by_others(&self) -> bool {
        let namespace = &self.oracle.related.namespace_labels(&self.pod.key.namespace);
        let mut others = self
            .oracle
            .places
            .iter()
            .flat_map(|place| self.others_at(place).map(move |other| (place, other)));
        others.all(|(place, other)| self.is_let_in_by(place, other, namespace))
    }

    fn is_let_in_by(&self, place: &Place, other: &Arc<Pod>, namespace: &Labels) -> bool {
        let far = terms(&other.spec.pod_anti_affinity).unwrap_or_default();
        far.iter().all(|term| {
            let theirs = place.node.labels.get(&term.topology_key);
            theirs.is_none() || theirs != self.domain(term) || !term.matches(self.pod, namespace)
        })
    }

    fn domain(&self, term: &PodAffinityTerm) -> Option<&str> {
        self.place.node.labels.get(&term.topology_key)
    }

    /// Whether a term selects a pod. A namespace that does not exist has no labels.
    fn means(&self, term: &PodAffinityTerm, other: &Pod) -> bool {
        term.matches(other, &self.oracle.related.namespace_labels(&other.key.namespace))
    }
}

impl Oracle<'_> {
    /// Whether a pod that is nominated to the node has required anti-affinity to this one.
    /// Kubernetes looks at it as long as a placed pod has some, too, on whatever node. The deletion
    /// of that node lets the pod in, and no event says so.
    pub(crate) fn is_opposed_by_nominated(&self, node: &str, pod: &Pod) -> bool {
        let namespace = &self.related.namespace_labels(&pod.key.namespace);
        let nominated = self.nominated.iter().filter(|(place, _)| **place == *node);
        let mut far =
            nominated.filter_map(|(_, other)| terms(&other.spec.pod_anti_affinity)).flatten();
        far.any(|term| term.matches(pod, namespace))
    }
}

/// Returns the required terms; `None` if a term of the pod is malformed.
fn terms(affinity: &Option<PodAffinity>) -> Option<&[PodAffinityTerm]> {
    affinity.as_ref().map_or(Some(&[]), |affinity| affinity.required.as_deref().ok())
}
