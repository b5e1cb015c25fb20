//! Queries that select placed pods by namespace and labels.

use std::sync::Arc;

use api::{LabelSelector, Pod};

/// The namespaces that a query selects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespaces {
    /// Every namespace.
    All,
    /// These namespaces: sorted, without duplicates.
    These(Box<[Arc<str>]>),
    /// Every namespace other than these: sorted, without duplicates.
    AllBut(Box<[Arc<str>]>),
}

impl Namespaces {
    /// Returns the set of one namespace.
    pub fn one(namespace: &Arc<str>) -> Self {
        Self::These([namespace.clone()].into())
    }

    /// Returns the set of these namespaces, given in any order and with duplicates.
    pub fn these(namespaces: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self::These(sorted(namespaces))
    }

    /// Returns the set of all namespaces but these, given in any order and with duplicates.
    pub fn all_but(namespaces: impl IntoIterator<Item = Arc<str>>) -> Self {
        let namespaces = sorted(namespaces);
        if namespaces.is_empty() { Self::All } else { Self::AllBut(namespaces) }
    }

    /// Returns whether the set contains `namespace`.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(these) => has(these, namespace),
            Self::AllBut(these) => !has(these, namespace),
        }
    }

    /// Returns the namespaces in both sets.
    #[must_use]
    pub fn intersect(self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, other) => other.clone(),
            (these, Self::All) => these,
            (Self::AllBut(these), Self::AllBut(others)) => {
                Self::all_but(these.into_iter().chain(others.iter().cloned()))
            }
            (Self::AllBut(these), Self::These(others)) => {
                let is_left = |own: &&Arc<str>| !has(&these, own);
                Self::These(others.iter().filter(is_left).cloned().collect())
            }
            (Self::These(these), other) => {
                Self::These(these.into_iter().filter(|own| other.contains(own)).collect())
            }
        }
    }
}

fn sorted(namespaces: impl IntoIterator<Item = Arc<str>>) -> Box<[Arc<str>]> {
    let mut namespaces: Vec<_> = namespaces.into_iter().collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    namespaces.into()
}

/// Whether a sorted list has `namespace`.
fn has(sorted: &[Arc<str>], namespace: &str) -> bool {
    sorted.binary_search_by(|own| (**own).cmp(namespace)).is_ok()
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

    #[test]
    fn namespaces_other_than_some_intersect_as_sets() {
        let all_but =
            |names: &[&str]| Namespaces::all_but(names.iter().map(|name| Arc::from(*name)));
        assert_eq!(all_but(&[]), Namespaces::All);
        assert!(all_but(&["b", "a"]).contains("c") && !all_but(&["b", "a"]).contains("a"));
        assert_eq!(all_but(&["a"]).intersect(&all_but(&["b", "a"])), all_but(&["a", "b"]));
        assert_eq!(all_but(&["a"]).intersect(&these(&["a", "b"])), these(&["b"]));
        assert_eq!(these(&["a", "b"]).intersect(&all_but(&["a"])), these(&["b"]));
        assert_eq!(all_but(&["a"]).intersect(&Namespaces::All), all_but(&["a"]));
    }
}
