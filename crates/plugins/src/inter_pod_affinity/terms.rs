//! The affinity terms of the pod to schedule, and how they match other pods.

use framework::{
    Cluster, Labels, Namespaces, Pod, PodAffinity, PodAffinityTerm, PodQuery, SelectorError,
    WeightedPodAffinityTerm,
};

/// The affinity terms of a pod, by category.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms<'a> {
    pub(super) required_affinity: &'a [PodAffinityTerm],
    pub(super) required_anti_affinity: &'a [PodAffinityTerm],
    pub(super) preferred_affinity: &'a [WeightedPodAffinityTerm],
    pub(super) preferred_anti_affinity: &'a [WeightedPodAffinityTerm],
}

impl<'a> Terms<'a> {
    /// Returns the terms of a pod. A category with a malformed term is empty.
    pub(super) fn of(pod: &'a Pod) -> Self {
        let (affinity, anti_affinity) = (&pod.spec.pod_affinity, &pod.spec.pod_anti_affinity);
        Self {
            required_affinity: required(affinity).unwrap_or_default(),
            required_anti_affinity: required(anti_affinity).unwrap_or_default(),
            preferred_affinity: preferred(affinity).unwrap_or_default(),
            preferred_anti_affinity: preferred(anti_affinity).unwrap_or_default(),
        }
    }

    /// Parses the terms of a pod.
    ///
    /// # Errors
    /// Returns the first malformed term of each category.
    pub(super) fn parse(pod: &'a Pod) -> Result<Self, String> {
        let (affinity, anti_affinity) = (&pod.spec.pod_affinity, &pod.spec.pod_anti_affinity);
        let faults = [
            ("requiredAffinityTerms", required(affinity).err()),
            ("requiredAntiAffinityTerms", required(anti_affinity).err()),
            ("preferredAffinityTerms", preferred(affinity).err()),
            ("preferredAntiAffinityTerms", preferred(anti_affinity).err()),
        ];
        let faults = faults.into_iter().filter_map(|(category, fault)| Some((category, fault?)));
        let texts: Vec<String> =
            faults.map(|(category, fault)| format!("{category}: {fault}")).collect();
        match &texts[..] {
            [] => Ok(Self::of(pod)),
            [one] => Err(format!("parsing pod: {one}")),
            several => Err(format!("parsing pod: [{}]", several.join(", "))),
        }
    }

    /// Parses the required terms of a pod. Malformed preferred terms are ignored.
    ///
    /// # Errors
    /// Returns the first malformed term.
    pub(super) fn parse_required(pod: &'a Pod) -> Result<Self, String> {
        let (affinity, anti_affinity) = (&pod.spec.pod_affinity, &pod.spec.pod_anti_affinity);
        required(affinity).and(required(anti_affinity)).map_err(ToString::to_string)?;
        Ok(Self::of(pod))
    }

    /// Returns the preferred terms. Anti-affinity terms have negative weights.
    pub(super) fn preferred(self) -> impl Iterator<Item = (&'a PodAffinityTerm, i64)> {
        let near = self.preferred_affinity.iter().map(|own| (&own.term, i64::from(own.weight)));
        let far = self.preferred_anti_affinity.iter();
        near.chain(far.map(|own| (&own.term, -i64::from(own.weight))))
    }
}

fn required(affinity: &Option<PodAffinity>) -> Result<&[PodAffinityTerm], &SelectorError> {
    affinity.as_ref().map_or(Ok(&[]), |affinity| affinity.required.as_deref())
}

fn preferred(affinity: &Option<PodAffinity>) -> Result<&[WeightedPodAffinityTerm], &SelectorError> {
    affinity.as_ref().map_or(Ok(&[]), |affinity| affinity.preferred.as_deref())
}

/// Whether a term of the pod to schedule selects the namespace `namespace` with `labels`.
///
/// Rule inter-pod-affinity-negative-namespace-selector of docs/differences.toml: 1.36 also
/// evaluates the selector without labels.
pub(super) fn covers(term: &PodAffinityTerm, namespace: &str, labels: &Labels) -> bool {
    term.namespaces.iter().any(|own| **own == *namespace) || term.namespace_selector.matches(labels)
}

/// Whether a term of the pod to schedule matches `other`.
pub(super) fn matches(term: &PodAffinityTerm, other: &Pod, cluster: &Cluster) -> bool {
    let namespace = &other.key.namespace;
    term.selector.matches(&other.labels)
        && covers(term, namespace, cluster.namespace_labels(namespace))
}

/// Whether there are terms and all of them match `other`.
pub(super) fn all_match(terms: &[PodAffinityTerm], other: &Pod, cluster: &Cluster) -> bool {
    !terms.is_empty() && terms.iter().all(|term| matches(term, other, cluster))
}

/// Returns the query for the pods that a term of the pod to schedule [matches](matches()).
pub(super) fn query(term: &PodAffinityTerm, cluster: &Cluster) -> PodQuery {
    PodQuery { namespaces: namespaces(term, cluster), selector: term.selector.clone() }
}

fn namespaces(term: &PodAffinityTerm, cluster: &Cluster) -> Namespaces {
    let listed = term.namespaces.iter();
    if term.namespace_selector.is_nothing() {
        return Namespaces::these(listed.cloned());
    }
    let known = |is_covered: bool| {
        let known = cluster.namespaces();
        let known = known.filter(move |(name, labels)| covers(term, name, labels) == is_covered);
        known.map(|(name, _)| name.clone())
    };
    // A namespace that is not known has no labels.
    if term.namespace_selector.matches(&Labels::default()) {
        return Namespaces::all_but(known(false));
    }
    Namespaces::these(known(true).chain(listed.cloned()))
}

/// Returns the query for the pods that [all terms match](all_match); `None` if there are no terms.
pub(super) fn query_of_all(terms: &[PodAffinityTerm], cluster: &Cluster) -> Option<PodQuery> {
    let queries = terms.iter().map(|term| query(term, cluster));
    queries.reduce(|all, next| all.and(&next))
}
