//! The distinct affinity terms of placed pods.

use std::sync::Arc;

use foldhash::HashMap;

use super::selector_index::SelectorIndex;
use super::slab::Slab;
use super::{Cluster, NodeColumn, NodeIx};
use ::api::{Pod, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm};

/// How an affinity term relates to the pod that carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AffinityTermKind {
    /// The pod must run near the pods that the term selects.
    RequiredAffinity,
    /// The pod must not run near them.
    RequiredAntiAffinity,
    /// The pod prefers to run near them.
    PreferredAffinity {
        /// Weight, 1 to 100.
        weight: i32,
    },
    /// The pod prefers not to run near them.
    PreferredAntiAffinity {
        /// Weight, 1 to 100.
        weight: i32,
    },
}

/// A distinct affinity term of placed pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarriedTerm {
    /// How the term relates to the pods that carry it.
    pub kind: AffinityTermKind,
    /// The term.
    pub term: Arc<PodAffinityTerm>,
    /// Number of occurrences of the term on the pods of each node.
    pub carriers: NodeColumn<u32>,
    pods: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TermIx(u32);

/// All distinct terms.
#[derive(Debug, Clone, Default)]
pub(super) struct Terms {
    table: Slab<CarriedTerm>,
    ids: HashMap<AffinityTermKind, HashMap<Arc<PodAffinityTerm>, TermIx>>,
    index: SelectorIndex<TermIx>,
}

/// Returns the namespaces of a term; `None` if they depend on namespace labels.
fn scope(term: &PodAffinityTerm) -> Option<&[Arc<str>]> {
    term.namespace_selector.is_nothing().then_some(&term.namespaces)
}

impl Terms {
    /// Adds the terms of `pod`, placed on `node`.
    pub(super) fn add(&mut self, pod: &Pod, node: NodeIx) {
        for (kind, term) in terms_of(pod) {
            let id = self.intern(kind, term);
            let carried = self.table.get_mut(id.0);
            carried.pods += 1;
            carried.carriers.change(node, |count| *count += 1);
        }
    }

    /// Removes the terms of `pod`, which was placed on `node`.
    pub(super) fn remove(&mut self, pod: &Pod, node: NodeIx) {
        for (kind, term) in terms_of(pod) {
            let Some(terms) = self.ids.get_mut(&kind) else { continue };
            let Some(id) = terms.get(term).copied() else { continue };
            let carried = self.table.get_mut(id.0);
            carried.pods -= 1;
            carried.carriers.change(node, |count| *count -= 1);
            if carried.pods == 0 {
                terms.remove(term);
                self.index.remove(scope(term), &term.selector, id);
                self.table.remove(id.0);
            }
        }
    }

    fn intern(&mut self, kind: AffinityTermKind, term: &PodAffinityTerm) -> TermIx {
        let terms = self.ids.entry(kind).or_default();
        if let Some(id) = terms.get(term) {
            return *id;
        }
        let carried = Arc::new(term.clone());
        let (term, carriers) = (carried.clone(), NodeColumn::default());
        let id = TermIx(self.table.insert(CarriedTerm { kind, term, carriers, pods: 0 }));
        self.index.insert(scope(&carried), &carried.selector, id);
        terms.insert(carried, id);
        id
    }
}

impl Cluster {
    /// Returns the distinct terms of placed pods that match `pod`, including terms of pods on
    /// ghosts. A category with a malformed term has no terms.
    pub fn terms_matching(&self, pod: &Pod) -> Vec<&CarriedTerm> {
        let labels = self.namespace_labels(&pod.key.namespace);
        let mut ids: Vec<TermIx> =
            self.terms.index.candidates(&pod.key.namespace, &pod.labels).collect();
        ids.sort_unstable();
        let candidates = ids.into_iter().map(|id| self.terms.table.get(id.0));
        candidates.filter(|carried| carried.term.matches(pod, labels)).collect()
    }
}

/// Returns the terms of a pod by category. A category with a malformed term has no terms.
fn terms_of(pod: &Pod) -> impl Iterator<Item = (AffinityTermKind, &PodAffinityTerm)> {
    use AffinityTermKind as Kind;
    let (near, far) = (pod.spec.pod_affinity.iter(), pod.spec.pod_anti_affinity.iter());
    let must = near.clone().flat_map(required).map(|term| (Kind::RequiredAffinity, term));
    let must_not = far.clone().flat_map(required).map(|term| (Kind::RequiredAntiAffinity, term));
    let should = near
        .flat_map(preferred)
        .map(|own| (Kind::PreferredAffinity { weight: own.weight }, &own.term));
    let should_not = far
        .flat_map(preferred)
        .map(|own| (Kind::PreferredAntiAffinity { weight: own.weight }, &own.term));
    must.chain(must_not).chain(should).chain(should_not)
}

fn required(affinity: &PodAffinity) -> &[PodAffinityTerm] {
    affinity.required.as_deref().unwrap_or_default()
}

fn preferred(affinity: &PodAffinity) -> &[WeightedPodAffinityTerm] {
    affinity.preferred.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{PodBuilder, SetJson, pod};
    use ::api::{EventResource, api};

    fn term(term: serde_json::Value) -> api::PodAffinityTerm {
        serde_json::from_value(term).unwrap()
    }

    fn away_from_web() -> api::PodAffinityTerm {
        let selector = json!({ "matchLabels": { "app": "web" } });
        term(json!({ "topologyKey": "zone", "labelSelector": selector }))
    }

    fn must_not(builder: PodBuilder, term: api::PodAffinityTerm) -> PodBuilder {
        builder.with(|pod| {
            let affinity = pod.spec.affinity.get_or_insert_default();
            affinity.pod_anti_affinity.get_or_insert_default().required.push(term);
        })
    }

    fn should(builder: PodBuilder, weight: i32, term: api::PodAffinityTerm) -> PodBuilder {
        builder.with(|pod| {
            let affinity = pod.spec.affinity.get_or_insert_default();
            let term = api::WeightedPodAffinityTerm { weight, pod_affinity_term: term };
            affinity.pod_affinity.get_or_insert_default().preferred.push(term);
        })
    }

    /// Returns each matching term: its kind, and its number of occurrences on each node.
    fn matching_terms(
        cluster: &Cluster,
        pod: PodBuilder,
    ) -> Vec<(AffinityTermKind, Vec<(usize, u32)>)> {
        let carriers = |term: &CarriedTerm| {
            term.carriers.iter().map(|(node, count)| (node.index(), count)).collect()
        };
        let terms = cluster.terms_matching(&pod.build());
        terms.into_iter().map(|term| (term.kind, carriers(term))).collect()
    }

    #[test]
    fn shared_term_is_removed_with_its_last_pod() {
        let mut cluster = Cluster::default();
        let carrier = |name| Arc::new(must_not(pod(name), away_from_web()).build());
        let placed = [("a", "n0"), ("b", "n1"), ("c", "n1")]
            .map(|(name, node)| cluster.place_pod(carrier(name), node));
        let web = || pod("w").label("app", "web");
        let kind = AffinityTermKind::RequiredAntiAffinity;
        assert_eq!(matching_terms(&cluster, web()), [(kind, vec![(0, 1), (1, 2)])]);
        assert_eq!(matching_terms(&cluster, web().namespace("other")), []);
        assert_eq!(matching_terms(&cluster, pod("d").label("app", "db")), []);
        cluster.remove_pod(placed[1]);
        assert_eq!(matching_terms(&cluster, web()), [(kind, vec![(0, 1), (1, 1)])]);
        placed[..1].iter().chain(&placed[2..]).for_each(|pod| drop(cluster.remove_pod(*pod)));
        assert_eq!(matching_terms(&cluster, web()), []);
        assert_eq!(cluster.terms.table.len(), 0);
    }

    #[test]
    fn terms_differ_by_weight_and_may_repeat_in_a_pod() {
        let mut cluster = Cluster::default();
        let pod_of = |name, weight| should(pod(name), weight, away_from_web());
        cluster.place_pod(Arc::new(should(pod_of("a", 10), 10, away_from_web()).build()), "n0");
        cluster.place_pod(Arc::new(pod_of("b", 20).build()), "n0");
        let kind = |weight| AffinityTermKind::PreferredAffinity { weight };
        let expected = [(kind(10), vec![(0, 2)]), (kind(20), vec![(0, 1)])];
        assert_eq!(matching_terms(&cluster, pod("w").label("app", "web")), expected);
    }

    #[test]
    fn malformed_term_empties_only_its_category() {
        let mut cluster = Cluster::default();
        let selector = json!({ "matchLabels": { "app": "x".repeat(64) } });
        let malformed = term(json!({ "topologyKey": "zone", "labelSelector": selector }));
        let builder = should(must_not(pod("a"), away_from_web()), 10, away_from_web());
        let placed = cluster.place_pod(Arc::new(must_not(builder, malformed).build()), "n0");
        let kind = AffinityTermKind::PreferredAffinity { weight: 10 };
        let web = || pod("w").label("app", "web");
        assert_eq!(matching_terms(&cluster, web()), [(kind, vec![(0, 1)])]);
        cluster.remove_pod(placed);
        assert_eq!(matching_terms(&cluster, web()), []);
    }

    #[test]
    fn duplicate_namespace_counts_once() {
        let mut cluster = Cluster::default();
        let labels = json!({ "app": "web", "tier": "front" });
        let twice = term(json!({
            "topologyKey": "zone",
            "namespaces": ["blue", "red", "blue"],
            "labelSelector": { "matchLabels": labels },
        }));
        cluster.place_pod(Arc::new(must_not(pod("a"), twice).build()), "n0");
        let blue = pod("w").namespace("blue").label("app", "web").label("tier", "front");
        assert_eq!(matching_terms(&cluster, blue).len(), 1);
    }

    #[test]
    fn namespace_selectors_use_the_current_labels() {
        let mut cluster = Cluster::default();
        let everywhere = |selector| {
            term(json!({
                "topologyKey": "zone", "labelSelector": {}, "namespaceSelector": selector,
            }))
        };
        let team = everywhere(json!({ "matchLabels": { "team": "a" } }));
        let not_old = everywhere(json!({
            "matchExpressions": [{ "key": "old", "operator": "DoesNotExist" }],
        }));
        cluster.place_pod(Arc::new(must_not(must_not(pod("a"), team), not_old).build()), "n0");
        let count = |cluster: &Cluster| matching_terms(cluster, pod("w").namespace("blue")).len();
        let mut set = |labels: Option<serde_json::Value>| {
            let object = labels.map(|labels| Arc::new(json!({ "metadata": { "labels": labels } })));
            cluster.set_json(&EventResource::Namespace, "", "blue", object);
            count(&cluster)
        };
        assert_eq!(set(None), 1, "of an unknown namespace no label is known");
        assert_eq!(set(Some(json!({ "team": "a" }))), 2);
        assert_eq!(set(Some(json!({ "team": "a", "old": "" }))), 1);
        assert_eq!(set(Some(json!({ "team": "b", "old": "" }))), 0);
        assert_eq!(set(Some(json!(["not", "labels"]))), 0, "the last readable version stays");
        assert_eq!(set(None), 1);
    }
}
