//! Queries that select placed pods by namespace and labels.

use std::sync::Arc;

use crate::{LabelSelector, Pod};

/// The namespaces that a query selects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespaces {
    /// Every namespace.
    All,
    /// These namespaces: sorted, without duplicates.
    These(Box<[Arc<str>]>),
}

impl Namespaces {
    /// Returns the set of one namespace.
    pub fn one(namespace: &Arc<str>) -> Self {
        Self::These([namespace.clone()].into())
    }

    /// Returns the set of these namespaces, given in any order and with duplicates.
    pub fn these(namespaces: impl IntoIterator<Item = Arc<str>>) -> Self {
        let mut namespaces: Vec<_> = namespaces.into_iter().collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        Self::These(namespaces.into())
    }

    /// Returns whether the set contains `namespace`.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(these) => these.binary_search_by(|own| (**own).cmp(namespace)).is_ok(),
        }
    }

    /// Returns the namespaces in both sets.
    #[must_use]
    pub fn intersect(self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, other) => other.clone(),
            (these, Self::All) => these,
            (Self::These(these), other) => {
                Self::These(these.into_iter().filter(|own| other.contains(own)).collect())
            }
        }
    }
}

/// A query for placed pods, by namespace and labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodQuery {
    /// The namespaces of the pods.
    pub namespaces: Namespaces,
    /// The selector on the labels of the pods.
    pub selector: LabelSelector,
}

impl PodQuery {
    /// Returns whether the query matches `pod`.
    pub fn matches(&self, pod: &Pod) -> bool {
        self.selector.matches(&pod.labels) && self.namespaces.contains(&pod.key.namespace)
    }

    /// Returns the query for the pods that both queries match.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        Self {
            namespaces: self.namespaces.intersect(&other.namespaces),
            selector: self.selector.and(&other.selector),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn these(names: &[&str]) -> Namespaces {
        Namespaces::these(names.iter().map(|name| Arc::from(*name)))
    }

    #[test]
    fn namespaces_intersect_as_sets() {
        assert_eq!(these(&["b", "a", "b"]), these(&["a", "b"]));
        assert!(these(&["a", "b"]).contains("b") && !these(&["a"]).contains("b"));
        assert!(Namespaces::All.contains("any"));
        let both = these(&["a", "b"]).intersect(&these(&["b", "c"]));
        assert_eq!(both, these(&["b"]));
        assert_eq!(Namespaces::All.intersect(&these(&["a"])), these(&["a"]));
        assert_eq!(these(&["a"]).intersect(&Namespaces::All), these(&["a"]));
    }
}
