//! Questions about placed pods that are asked again and again: which of them, on which nodes.

use std::sync::Arc;

use crate::{LabelSelector, Pod};

/// The namespaces a query means.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespaces {
    /// Every namespace.
    All,
    /// These: sorted, each once.
    These(Box<[Arc<str>]>),
}

impl Namespaces {
    /// Just one.
    pub fn one(namespace: &Arc<str>) -> Self {
        Self::These([namespace.clone()].into())
    }

    /// These, in any order and however often each.
    pub fn these(namespaces: impl IntoIterator<Item = Arc<str>>) -> Self {
        let mut namespaces: Vec<_> = namespaces.into_iter().collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        Self::These(namespaces.into())
    }

    /// Whether `namespace` is among them.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(these) => these.binary_search_by(|own| (**own).cmp(namespace)).is_ok(),
        }
    }

    /// Those in both.
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

/// Placed pods, by namespace and labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodQuery {
    /// Namespaces meant.
    pub namespaces: Namespaces,
    /// Labels meant.
    pub selector: LabelSelector,
}

impl PodQuery {
    /// Whether the query means `pod`.
    pub fn matches(&self, pod: &Pod) -> bool {
        self.selector.matches(&pod.labels) && self.namespaces.contains(&pod.key.namespace)
    }

    /// The pods that both mean.
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
    fn namespaces_are_sets() {
        assert_eq!(these(&["b", "a", "b"]), these(&["a", "b"]));
        assert!(these(&["a", "b"]).contains("b") && !these(&["a"]).contains("b"));
        assert!(Namespaces::All.contains("any"));
        let both = these(&["a", "b"]).intersect(&these(&["b", "c"]));
        assert_eq!(both, these(&["b"]));
        assert_eq!(Namespaces::All.intersect(&these(&["a"])), these(&["a"]));
        assert_eq!(these(&["a"]).intersect(&Namespaces::All), these(&["a"]));
    }
}
