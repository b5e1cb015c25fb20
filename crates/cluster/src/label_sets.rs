//! Placed pods by namespace and labels.
//!
//! The pods of one template form one label set, so anything that depends only on labels is
//! computed once per set. Labels that are unique per pod form sets of one pod; a selector finds
//! them through the labels they share.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::HashMap;
use smallvec::SmallVec;

use super::PodIx;
use super::budgets::BudgetIx;
use super::queries::QueryIx;
use super::slab::Slab;
use crate::PodQuery;
use api::{LabelSelector, Labels, Operator};

/// The dense id of a label set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LabelSetIx(u32);

/// The position of a pod in its label set.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Membership {
    pub(super) set: LabelSetIx,
    pub(super) place: u32,
}

/// The placed pods of a namespace that have the same labels.
#[derive(Debug, Clone)]
pub(super) struct LabelSet {
    key: LabelSetKey,
    pub(super) pods: SmallVec<[PodIx; 4]>,
    /// The standing queries that match these pods.
    pub(super) queries: SmallVec<[QueryIx; 4]>,
    /// The PodDisruptionBudgets that select these pods.
    pub(super) budgets: SmallVec<[BudgetIx; 2]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LabelSetKey {
    namespace: Arc<str>,
    labels: Arc<Labels>,
}

/// All label sets.
#[derive(Debug, Clone, Default)]
pub(super) struct LabelSets {
    table: Slab<LabelSet>,
    ids: HashMap<LabelSetKey, LabelSetIx>,
    by_label: HashMap<Arc<str>, HashMap<Arc<str>, WithLabel>>,
}

/// The label sets that have one label, in ascending order. Most labels have one set, without an
/// allocation.
#[derive(Debug, Clone)]
enum WithLabel {
    One(LabelSetIx),
    Many(BTreeSet<LabelSetIx>),
}

impl WithLabel {
    fn insert(&mut self, set: LabelSetIx) {
        match self {
            Self::One(other) => *self = Self::Many([*other, set].into()),
            Self::Many(sets) => drop(sets.insert(set)),
        }
    }

    /// Removes a set; returns whether none is left.
    fn remove(&mut self, set: LabelSetIx) -> bool {
        match self {
            Self::One(_) => true,
            Self::Many(sets) => {
                sets.remove(&set);
                sets.is_empty()
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(sets) => sets.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = LabelSetIx> {
        let (one, many) = match self {
            Self::One(set) => (Some(*set), None),
            Self::Many(sets) => (None, Some(sets)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }
}

impl LabelSet {
    pub(super) fn namespace(&self) -> &str {
        &self.key.namespace
    }

    pub(super) fn labels(&self) -> &Labels {
        &self.key.labels
    }

    /// Returns whether `query` matches the pods of the set.
    pub(super) fn is_matched_by(&self, query: &PodQuery) -> bool {
        query.namespaces.contains(self.namespace()) && query.selector.matches(self.labels())
    }
}

impl LabelSets {
    pub(super) fn get(&self, set: LabelSetIx) -> &LabelSet {
        self.table.get(set.0)
    }

    pub(super) fn get_mut(&mut self, set: LabelSetIx) -> &mut LabelSet {
        self.table.get_mut(set.0)
    }

    /// Returns the label set of these labels, and whether it is new.
    pub(super) fn intern(
        &mut self,
        namespace: &Arc<str>,
        labels: &Arc<Labels>,
    ) -> (LabelSetIx, bool) {
        let key = LabelSetKey { namespace: namespace.clone(), labels: labels.clone() };
        if let Some(set) = self.ids.get(&key) {
            return (*set, false);
        }
        let set = LabelSet {
            key: key.clone(),
            pods: SmallVec::new(),
            queries: SmallVec::new(),
            budgets: SmallVec::new(),
        };
        let set = LabelSetIx(self.table.insert(set));
        for (key, value) in labels.pairs() {
            let values = match self.by_label.get_mut(key) {
                Some(values) => values,
                None => self.by_label.entry(key.clone()).or_default(),
            };
            match values.get_mut(value) {
                Some(sets) => sets.insert(set),
                None => drop(values.insert(value.clone(), WithLabel::One(set))),
            }
        }
        self.ids.insert(key, set);
        (set, true)
    }

    /// Adds a pod to a set; returns its position.
    pub(super) fn add(&mut self, set: LabelSetIx, pod: PodIx) -> Membership {
        let pods = &mut self.get_mut(set).pods;
        pods.push(pod);
        let place = u32::try_from(pods.len() - 1).expect("fewer than 2^32 pods");
        Membership { set, place }
    }

    /// Removes a pod from its set, and removes the set with its last pod. Returns the pod that
    /// has moved to the freed position.
    pub(super) fn remove(&mut self, from: Membership) -> Option<PodIx> {
        let pods = &mut self.get_mut(from.set).pods;
        pods.swap_remove(from.place as usize);
        let moved = pods.get(from.place as usize).copied();
        if pods.is_empty() {
            self.drop_set(from.set);
        }
        moved
    }

    fn drop_set(&mut self, set: LabelSetIx) {
        let dropped = self.table.remove(set.0);
        for (key, value) in dropped.key.labels.iter() {
            let Some(values) = self.by_label.get_mut(key) else { continue };
            let Some(sets) = values.get_mut(value) else { continue };
            if sets.remove(set) {
                values.remove(value);
            }
            if values.is_empty() {
                self.by_label.remove(key);
            }
        }
        self.ids.remove(&dropped.key);
    }

    /// Removes from every set the queries for which `standing` returns false.
    pub(super) fn retain_queries(&mut self, standing: impl Fn(QueryIx) -> bool) {
        self.table.values_mut().for_each(|set| set.queries.retain(|query| standing(*query)));
    }

    /// Returns the sets whose pods `query` matches.
    pub(super) fn matched_by(&self, query: &PodQuery) -> Vec<LabelSetIx> {
        let candidates: Box<dyn Iterator<Item = LabelSetIx>> = match self.narrowest(&query.selector)
        {
            None => Box::new(self.table.iter().map(|(id, _)| LabelSetIx(id))),
            Some(by_value) => Box::new(by_value.into_iter().flat_map(WithLabel::iter)),
        };
        candidates.filter(|set| self.get(*set).is_matched_by(query)).collect()
    }

    /// Returns the sets that have one of the values of a requirement of `selector`: the requirement
    /// with the fewest sets. Returns `None` if no requirement lists values.
    fn narrowest(&self, selector: &LabelSelector) -> Option<Vec<&WithLabel>> {
        let Some(requirements) = selector.requirements() else { return Some(Vec::new()) };
        requirements
            .iter()
            .filter(|own| matches!(own.operator(), Operator::Equals | Operator::In))
            .map(|own| {
                let mut values: Vec<&Arc<str>> = own.values().iter().collect();
                values.dedup();
                let known = self.by_label.get(own.key());
                values.into_iter().filter_map(|value| known?.get(value)).collect::<Vec<_>>()
            })
            .min_by_key(|by_value| by_value.iter().map(|sets| sets.len()).sum::<usize>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod;
    use crate::{Cluster, Namespaces};

    fn query(pairs: &[(&str, &str)]) -> PodQuery {
        let set = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let selector = LabelSelector::from_set(&set.collect());
        PodQuery { namespaces: Namespaces::All, selector }
    }

    #[test]
    fn unique_labels_are_found_by_index() {
        let mut cluster = Cluster::default();
        for number in 0..100 {
            let pod = pod("p").label("app", "web").label("pod", &number.to_string());
            cluster.place_pod(Arc::new(pod.build()), "n0");
        }
        let label_sets = &cluster.label_sets;
        let looked_at = |pairs: &[(&str, &str)]| {
            let by_value = label_sets.narrowest(&query(pairs).selector);
            by_value.map(|sets| sets.iter().map(|sets| sets.len()).sum::<usize>())
        };
        assert_eq!(looked_at(&[("app", "web"), ("pod", "7")]), Some(1));
        assert_eq!(looked_at(&[("app", "web")]), Some(100));
        assert_eq!(looked_at(&[("app", "web"), ("pod", "no such")]), Some(0));
        assert_eq!(looked_at(&[]), None);
        assert_eq!(label_sets.matched_by(&query(&[("app", "web"), ("pod", "7")])).len(), 1);
    }

    #[test]
    fn label_set_is_removed_with_its_last_pod() {
        let mut cluster = Cluster::default();
        let web = || Arc::new(pod("p").label("app", "web").build());
        let elsewhere = Arc::new(pod("p").namespace("other").label("app", "web").build());
        let placed = [web(), web(), elsewhere].map(|pod| cluster.place_pod(pod, "no such node"));
        let number =
            |cluster: &Cluster| cluster.label_sets.matched_by(&query(&[("app", "web")])).len();
        assert_eq!(number(&cluster), 2);
        cluster.remove_pod(placed[0]);
        assert_eq!(number(&cluster), 2);
        cluster.remove_pod(placed[1]);
        assert_eq!(number(&cluster), 1);
        cluster.remove_pod(placed[2]);
        let left = &cluster.label_sets;
        assert!(left.table.len() == 0 && left.ids.is_empty() && left.by_label.is_empty());
    }
}
