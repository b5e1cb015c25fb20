//! Topology selectors: the topologies in which a storage class allows volumes.

use serde::{Deserialize, Serialize};

use super::labels::Labels;
use super::selector::{OperatorKind, Requirement};

/// A `TopologySelectorTerm` as written; a node must meet all its requirements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySelectorTerm {
    /// Requirements on labels of the node.
    pub match_label_expressions: Vec<TopologySelectorLabelRequirement>,
}

/// A label and the values it may have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct TopologySelectorLabelRequirement {
    /// Label key.
    pub key: String,
    /// Allowed values.
    pub values: Vec<String>,
}

/// Compiled topology selector terms, one of which must match.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopologySelector {
    unrestricted: bool,
    terms: Box<[Box<[Requirement]>]>,
}

impl TopologySelector {
    /// Compiles terms. An empty list matches every node; empty and invalid terms match no node.
    pub fn compile(terms: &[TopologySelectorTerm]) -> Self {
        let compiled = terms
            .iter()
            .filter(|term| !term.match_label_expressions.is_empty())
            .filter_map(|term| term.match_label_expressions.iter().map(requirement).collect());
        Self { unrestricted: terms.is_empty(), terms: compiled.collect() }
    }

    /// Returns the valid terms; `None` if every node is allowed.
    pub fn terms(&self) -> Option<&[Box<[Requirement]>]> {
        (!self.unrestricted).then_some(&self.terms)
    }

    /// Returns whether a node with these labels is in an allowed topology.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_by(|key| labels.get(key))
    }

    /// Returns whether a node whose labels `value_of` looks up is in an allowed topology.
    pub fn matches_by<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        let holds = |own: &Requirement| own.matches(value_of(own.key()));
        self.unrestricted || self.terms.iter().any(|term| term.iter().all(holds))
    }
}

fn requirement(raw: &TopologySelectorLabelRequirement) -> Option<Requirement> {
    Requirement::validated(&raw.key, OperatorKind::In, &raw.values, "").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(requirements: &[(&str, &[&str])]) -> TopologySelectorTerm {
        let requirement = |&(key, values): &(&str, &[&str])| TopologySelectorLabelRequirement {
            key: key.to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        };
        TopologySelectorTerm {
            match_label_expressions: requirements.iter().map(requirement).collect(),
        }
    }

    #[test]
    fn one_term_must_match_completely() {
        let labels = Labels::from_iter([("zone", "a"), ("rack", "1")]);
        for (terms, expected) in [
            (&[][..], true),
            (&[term(&[])], false),
            (&[term(&[("zone", &["b", "a"])])], true),
            (&[term(&[("zone", &["a"]), ("rack", &["2"])])], false),
            (&[term(&[("zone", &["b"])]), term(&[("rack", &["1"])])], true),
            (&[term(&[("zone", &[])])], false),
        ] {
            assert_eq!(TopologySelector::compile(terms).matches(&labels), expected, "{terms:?}");
        }
    }
}
