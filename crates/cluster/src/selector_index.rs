//! An index of selectors that finds the candidates for an object without trying every selector.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::api::{LabelSelector, Labels, Operator};
use foldhash::HashMap;

/// Ids of selectors, by the namespaces they select.
#[derive(Debug, Clone)]
pub(super) struct SelectorIndex<Id> {
    within: HashMap<Arc<str>, ByLabel<Id>>,
    everywhere: ByLabel<Id>,
}

/// Selectors, each indexed under one requirement that every matching object meets.
#[derive(Debug, Clone)]
struct ByLabel<Id> {
    keys: HashMap<Arc<str>, ByValue<Id>>,
    /// Selectors that require no label to be present.
    others: BTreeSet<Id>,
}

#[derive(Debug, Clone)]
struct ByValue<Id> {
    values: HashMap<Arc<str>, BTreeSet<Id>>,
    /// Selectors that accept any value.
    any: BTreeSet<Id>,
}

impl<Id> Default for SelectorIndex<Id> {
    fn default() -> Self {
        Self { within: HashMap::default(), everywhere: ByLabel::default() }
    }
}

impl<Id> Default for ByLabel<Id> {
    fn default() -> Self {
        Self { keys: HashMap::default(), others: BTreeSet::new() }
    }
}

impl<Id> Default for ByValue<Id> {
    fn default() -> Self {
        Self { values: HashMap::default(), any: BTreeSet::new() }
    }
}

impl<Id: Clone + Ord> SelectorIndex<Id> {
    /// Adds `selector` for these namespaces or (with `None`) for all.
    pub(super) fn insert(
        &mut self,
        namespaces: Option<&[Arc<str>]>,
        selector: &LabelSelector,
        id: Id,
    ) {
        match namespaces {
            None => self.everywhere.insert(selector, id),
            Some(namespaces) => namespaces.iter().for_each(|namespace| {
                let index = self.within.entry(namespace.clone()).or_default();
                index.insert(selector, id.clone());
            }),
        }
    }

    /// Removes a selector that was inserted with the same arguments.
    pub(super) fn remove(
        &mut self,
        namespaces: Option<&[Arc<str>]>,
        selector: &LabelSelector,
        id: Id,
    ) {
        let Some(namespaces) = namespaces else { return self.everywhere.remove(selector, &id) };
        for namespace in namespaces {
            if let Some(index) = self.within.get_mut(namespace) {
                index.remove(selector, &id);
                if index.is_empty() {
                    self.within.remove(namespace);
                }
            }
        }
    }

    /// Returns every selector that matches such an object, and possibly others; each once.
    pub(super) fn candidates(&self, namespace: &str, labels: &Labels) -> impl Iterator<Item = Id> {
        let within = self.within.get(namespace).into_iter();
        within.chain([&self.everywhere]).flat_map(|index| index.candidates(labels))
    }
}

impl<Id: Clone + Ord> ByLabel<Id> {
    fn insert(&mut self, selector: &LabelSelector, id: Id) {
        let Some(requirements) = selector.requirements() else { return };
        let with_values = requirements
            .iter()
            .filter(|own| matches!(own.operator(), Operator::Equals | Operator::In))
            .min_by_key(|own| {
                let filed = self.keys.get(own.key());
                let sizes = own.values().iter().filter_map(|value| filed?.values.get(value));
                sizes.map(BTreeSet::len).sum::<usize>()
            });
        if let Some(requirement) = with_values {
            let filed = self.keys.entry(requirement.key().clone()).or_default();
            for value in requirement.values() {
                filed.values.entry(value.clone()).or_default().insert(id.clone());
            }
            return;
        }
        match requirements.iter().find(|own| own.operator() == Operator::Exists) {
            Some(own) => self.keys.entry(own.key().clone()).or_default().any.insert(id),
            None => self.others.insert(id),
        };
    }

    /// Removes a selector. It tries every requirement, because the index does not store which one
    /// was used.
    fn remove(&mut self, selector: &LabelSelector, id: &Id) {
        self.others.remove(id);
        for requirement in selector.requirements().unwrap_or_default() {
            let Some(filed) = self.keys.get_mut(requirement.key()) else { continue };
            filed.any.remove(id);
            for value in requirement.values() {
                if let Some(ids) = filed.values.get_mut(value) {
                    ids.remove(id);
                    if ids.is_empty() {
                        filed.values.remove(value);
                    }
                }
            }
            if filed.any.is_empty() && filed.values.is_empty() {
                self.keys.remove(requirement.key());
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.others.is_empty()
    }

    fn candidates(&self, labels: &Labels) -> impl Iterator<Item = Id> {
        let by_key = labels.iter().filter_map(|(key, value)| Some((self.keys.get(key)?, value)));
        let by_value = by_key.flat_map(|(filed, value)| {
            filed.values.get(value).into_iter().chain([&filed.any]).flatten()
        });
        by_value.chain(&self.others).cloned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use ::api::api;

    fn labels() -> impl Strategy<Value = Labels> {
        let pair = (select(vec!["a", "b", "c"]), select(vec!["x", "y", "z"]));
        prop::collection::vec(pair, 0..4).prop_map(|pairs| pairs.into_iter().collect())
    }

    fn selector() -> impl Strategy<Value = LabelSelector> {
        let operator = select(vec!["In", "NotIn", "Exists", "DoesNotExist"]);
        let values = prop::collection::vec(select(vec!["x", "y", "z"]), 1..3);
        let expression =
            (select(vec!["a", "b", "c"]), operator, values).prop_map(|(key, operator, values)| {
                let values = if operator.ends_with("In") { values } else { Vec::new() };
                api::SelectorRequirement {
                    key: key.to_owned(),
                    operator: operator.to_owned(),
                    values: values.into_iter().map(str::to_owned).collect(),
                }
            });
        let all = prop::collection::vec(expression, 0..4).prop_map(|match_expressions| {
            let selector = api::LabelSelector { match_expressions, ..Default::default() };
            LabelSelector::compile(Some(&selector)).unwrap()
        });
        prop_oneof![9 => all, 1 => Just(LabelSelector::NOTHING)]
    }

    fn namespaces() -> impl Strategy<Value = Option<Vec<Arc<str>>>> {
        let name = select(vec!["n", "m"]).prop_map(Arc::from);
        prop::option::of(
            prop::collection::btree_set(name, 0..3).prop_map(|s| s.into_iter().collect()),
        )
    }

    proptest! {
        #[test]
        fn candidates_include_every_matching_selector(
            filed in prop::collection::vec((namespaces(), selector(), any::<bool>()), 0..40),
            namespace in select(vec!["n", "m", "o"]),
            labels in labels(),
        ) {
            let mut index = SelectorIndex::default();
            for (id, (namespaces, selector, _)) in filed.iter().enumerate() {
                index.insert(namespaces.as_deref(), selector, id);
            }
            for (id, (namespaces, selector, stays)) in filed.iter().enumerate() {
                if !stays {
                    index.remove(namespaces.as_deref(), selector, id);
                }
            }
            let found: Vec<usize> = index.candidates(namespace, &labels).collect();
            let distinct: BTreeSet<usize> = found.iter().copied().collect();
            prop_assert_eq!(distinct.len(), found.len(), "an id came twice");
            for (id, (namespaces, selector, stays)) in filed.iter().enumerate() {
                let means = namespaces.as_ref().is_none_or(|own| own.iter().any(|n| **n == *namespace))
                    && selector.matches(&labels);
                prop_assert!(*stays || !distinct.contains(&id), "{} was taken out", id);
                prop_assert!(!(means && *stays) || distinct.contains(&id), "{} is missing", id);
            }
            for (id, (namespaces, selector, _)) in filed.iter().enumerate() {
                index.remove(namespaces.as_deref(), selector, id);
            }
            prop_assert!(index.within.is_empty() && index.everywhere.is_empty(), "something is left");
        }
    }
}
