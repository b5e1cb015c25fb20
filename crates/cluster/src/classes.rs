//! Placed pods by namespace and labels.
//!
//! The pods of one template form one class, so anything that depends only on labels is computed
//! once per class. Labels that are unique per pod form classes of one pod; a selector finds them
//! through the labels they share.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use smallvec::SmallVec;

use super::PodIx;
use super::budgets::BudgetIx;
use super::queries::QueryIx;
use super::slab::Slab;
use crate::PodQuery;
use api::{LabelSelector, Labels, Operator};

/// The dense id of a class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ClassIx(u32);

/// The position of a pod in its class.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Membership {
    pub(super) class: ClassIx,
    pub(super) place: u32,
}

/// The placed pods of a namespace that have the same labels.
#[derive(Debug, Clone)]
pub(super) struct Class {
    key: ClassKey,
    pub(super) pods: SmallVec<[PodIx; 4]>,
    /// The standing queries that match these pods.
    pub(super) queries: SmallVec<[QueryIx; 4]>,
    /// The PodDisruptionBudgets that select these pods.
    pub(super) budgets: SmallVec<[BudgetIx; 2]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ClassKey {
    namespace: Arc<str>,
    labels: Arc<Labels>,
}

/// All classes.
#[derive(Debug, Clone, Default)]
pub(super) struct Classes {
    table: Slab<Class>,
    ids: HashMap<ClassKey, ClassIx>,
    by_label: HashMap<Arc<str>, HashMap<Arc<str>, ClassSet>>,
}

/// Classes that share a label, in ascending order. Most sets hold one class, without an allocation.
#[derive(Debug, Clone)]
enum ClassSet {
    One(ClassIx),
    Many(BTreeSet<ClassIx>),
}

impl ClassSet {
    fn insert(&mut self, class: ClassIx) {
        match self {
            Self::One(other) => *self = Self::Many([*other, class].into()),
            Self::Many(classes) => drop(classes.insert(class)),
        }
    }

    /// Removes a class; returns whether the set is then empty.
    fn remove(&mut self, class: ClassIx) -> bool {
        match self {
            Self::One(_) => true,
            Self::Many(classes) => {
                classes.remove(&class);
                classes.is_empty()
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(classes) => classes.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = ClassIx> {
        let (one, many) = match self {
            Self::One(class) => (Some(*class), None),
            Self::Many(classes) => (None, Some(classes)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }
}

impl Class {
    pub(super) fn namespace(&self) -> &str {
        &self.key.namespace
    }

    pub(super) fn labels(&self) -> &Labels {
        &self.key.labels
    }

    /// Returns whether `query` matches the pods of the class.
    pub(super) fn is_matched_by(&self, query: &PodQuery) -> bool {
        query.namespaces.contains(self.namespace()) && query.selector.matches(self.labels())
    }
}

impl Classes {
    pub(super) fn get(&self, class: ClassIx) -> &Class {
        self.table.get(class.0)
    }

    pub(super) fn get_mut(&mut self, class: ClassIx) -> &mut Class {
        self.table.get_mut(class.0)
    }

    /// Returns the class of these labels, and whether it is new.
    pub(super) fn intern(&mut self, namespace: &Arc<str>, labels: &Arc<Labels>) -> (ClassIx, bool) {
        let key = ClassKey { namespace: namespace.clone(), labels: labels.clone() };
        if let Some(class) = self.ids.get(&key) {
            return (*class, false);
        }
        let class = Class {
            key: key.clone(),
            pods: SmallVec::new(),
            queries: SmallVec::new(),
            budgets: SmallVec::new(),
        };
        let class = ClassIx(self.table.insert(class));
        for (key, value) in labels.pairs() {
            let values = match self.by_label.get_mut(key) {
                Some(values) => values,
                None => self.by_label.entry(key.clone()).or_default(),
            };
            match values.get_mut(value) {
                Some(classes) => classes.insert(class),
                None => drop(values.insert(value.clone(), ClassSet::One(class))),
            }
        }
        self.ids.insert(key, class);
        (class, true)
    }

    /// Adds a pod to a class; returns its position.
    pub(super) fn add(&mut self, class: ClassIx, pod: PodIx) -> Membership {
        let pods = &mut self.get_mut(class).pods;
        pods.push(pod);
        let place = u32::try_from(pods.len() - 1).expect("fewer than 2^32 pods");
        Membership { class, place }
    }

    /// Removes a pod from its class, and removes the class with its last pod. Returns the pod that
    /// has moved to the freed position.
    pub(super) fn remove(&mut self, from: Membership) -> Option<PodIx> {
        let pods = &mut self.get_mut(from.class).pods;
        pods.swap_remove(from.place as usize);
        let moved = pods.get(from.place as usize).copied();
        if pods.is_empty() {
            self.drop_class(from.class);
        }
        moved
    }

    fn drop_class(&mut self, class: ClassIx) {
        let dropped = self.table.remove(class.0);
        for (key, value) in dropped.key.labels.iter() {
            let Some(values) = self.by_label.get_mut(key) else { continue };
            let Some(classes) = values.get_mut(value) else { continue };
            if classes.remove(class) {
                values.remove(value);
            }
            if values.is_empty() {
                self.by_label.remove(key);
            }
        }
        self.ids.remove(&dropped.key);
    }

    /// Removes from every class the queries for which `standing` returns false.
    pub(super) fn retain_queries(&mut self, standing: impl Fn(QueryIx) -> bool) {
        self.table.values_mut().for_each(|class| class.queries.retain(|query| standing(*query)));
    }

    /// Returns the classes whose pods `query` matches.
    pub(super) fn matched_by(&self, query: &PodQuery) -> Vec<ClassIx> {
        let candidates: Box<dyn Iterator<Item = ClassIx>> = match self.narrowest(&query.selector) {
            None => Box::new(self.table.iter().map(|(id, _)| ClassIx(id))),
            Some(sets) => Box::new(sets.into_iter().flat_map(ClassSet::iter)),
        };
        candidates.filter(|class| self.get(*class).is_matched_by(query)).collect()
    }

    /// Returns the class sets for the values of one requirement of `selector`: the requirement with
    /// the fewest classes. Returns `None` if no requirement lists values.
    fn narrowest(&self, selector: &LabelSelector) -> Option<Vec<&ClassSet>> {
        let Some(requirements) = selector.requirements() else { return Some(Vec::new()) };
        requirements
            .iter()
            .filter(|own| matches!(own.operator(), Operator::Equals | Operator::In))
            .map(|own| {
                let mut values: Vec<&Arc<str>> = own.values().iter().collect();
                values.dedup();
                let classes = self.by_label.get(own.key());
                values.into_iter().filter_map(|value| classes?.get(value)).collect::<Vec<_>>()
            })
            .min_by_key(|sets| sets.iter().map(|set| set.len()).sum::<usize>())
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
        let classes = &cluster.classes;
        let looked_at = |pairs: &[(&str, &str)]| {
            let sets = classes.narrowest(&query(pairs).selector);
            sets.map(|sets| sets.iter().map(|set| set.len()).sum::<usize>())
        };
        assert_eq!(looked_at(&[("app", "web"), ("pod", "7")]), Some(1));
        assert_eq!(looked_at(&[("app", "web")]), Some(100));
        assert_eq!(looked_at(&[("app", "web"), ("pod", "no such")]), Some(0));
        assert_eq!(looked_at(&[]), None);
        assert_eq!(classes.matched_by(&query(&[("app", "web"), ("pod", "7")])).len(), 1);
    }

    #[test]
    fn class_is_removed_with_its_last_pod() {
        let mut cluster = Cluster::default();
        let web = || Arc::new(pod("p").label("app", "web").build());
        let elsewhere = Arc::new(pod("p").namespace("other").label("app", "web").build());
        let placed = [web(), web(), elsewhere].map(|pod| cluster.place_pod(pod, "no such node"));
        let number =
            |cluster: &Cluster| cluster.classes.matched_by(&query(&[("app", "web")])).len();
        assert_eq!(number(&cluster), 2);
        cluster.remove_pod(placed[0]);
        assert_eq!(number(&cluster), 2);
        cluster.remove_pod(placed[1]);
        assert_eq!(number(&cluster), 1);
        cluster.remove_pod(placed[2]);
        let left = &cluster.classes;
        assert!(left.table.len() == 0 && left.ids.is_empty() && left.by_label.is_empty());
    }
}
