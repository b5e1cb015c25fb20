//! Node selectors and node affinity.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::selector::{
    LabelSelector, OperatorKind, Requirement, SelectorError, invalid, json_list, not_supported,
};
use crate::api;

/// The only field of a node that selectors support.
const NAME_FIELD: &str = "metadata.name";

const LABEL_OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
const FIELD_OPERATORS: [&str; 2] = ["In", "NotIn"];

/// The fields of a node that a node selector reads.
pub trait NodeFields {
    /// Returns the name of the node. If it is empty, requirements on fields are ignored.
    fn name(&self) -> &str;
    /// Returns the value of the label `key`.
    fn label(&self, key: &str) -> Option<&str>;
}

/// The operator of a requirement on a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FieldOperator {
    /// The field equals the value.
    In,
    /// The field differs from the value.
    NotIn,
}

/// A requirement on one field of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FieldRequirement {
    /// Path of the field; every path other than `metadata.name` reads as empty.
    pub key: Arc<str>,
    /// The operator.
    pub operator: FieldOperator,
    /// The value; there is exactly one.
    pub value: Arc<str>,
}

impl FieldRequirement {
    fn compile(raw: &api::SelectorRequirement, path: &str) -> Result<Self, String> {
        let operator = match raw.operator.as_str() {
            "In" => FieldOperator::In,
            "NotIn" => FieldOperator::NotIn,
            other => {
                return Err(not_supported(&format!("{path}.operator"), other, &FIELD_OPERATORS));
            }
        };
        match &raw.values[..] {
            [value] => {
                Ok(Self { key: raw.key.as_str().into(), operator, value: value.as_str().into() })
            }
            values => {
                let path = format!("{path}.values");
                Err(invalid(&path, &json_list(values), "must have one element"))
            }
        }
    }

    /// Returns whether a node with this (non-empty) name meets the requirement.
    pub fn matches(&self, name: &str) -> bool {
        let field = if &*self.key == NAME_FIELD { name } else { "" };
        match self.operator {
            FieldOperator::In => *self.value == *field,
            FieldOperator::NotIn => *self.value != *field,
        }
    }
}

/// One alternative of a node selector; a node must meet all its requirements.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeSelectorTerm {
    /// Requirements on labels.
    pub expressions: Box<[Requirement]>,
    /// Requirements on fields.
    pub fields: Box<[FieldRequirement]>,
}

impl NodeSelectorTerm {
    fn compile(raw: &api::NodeSelectorTerm, path: &str) -> Result<Self, SelectorError> {
        let mut messages = Vec::new();
        let mut expressions = Vec::with_capacity(raw.match_expressions.len());
        for (index, requirement) in raw.match_expressions.iter().enumerate() {
            match compile_expression(requirement, &format!("{path}.matchExpressions[{index}]")) {
                Ok(compiled) => expressions.push(compiled),
                Err(found) => messages.extend(found),
            }
        }
        let mut fields = Vec::with_capacity(raw.match_fields.len());
        for (index, requirement) in raw.match_fields.iter().enumerate() {
            let path = format!("{path}.matchFields[{index}]");
            match FieldRequirement::compile(requirement, &path) {
                Ok(compiled) => fields.push(compiled),
                Err(message) => messages.push(message),
            }
        }
        match SelectorError::of(messages) {
            Some(error) => Err(error),
            None => Ok(Self { expressions: expressions.into(), fields: fields.into() }),
        }
    }

    /// Returns whether the node meets every requirement of the term.
    pub fn matches(&self, node: &impl NodeFields) -> bool {
        self.expressions.iter().all(|own| own.matches(node.label(own.key())))
            && (node.name().is_empty() || self.fields.iter().all(|own| own.matches(node.name())))
    }
}

fn compile_expression(
    raw: &api::SelectorRequirement,
    path: &str,
) -> Result<Requirement, Vec<String>> {
    let kind = match raw.operator.as_str() {
        "In" => OperatorKind::In,
        "NotIn" => OperatorKind::NotIn,
        "Exists" => OperatorKind::Exists,
        "DoesNotExist" => OperatorKind::DoesNotExist,
        "Gt" => OperatorKind::Gt,
        "Lt" => OperatorKind::Lt,
        other => {
            return Err(vec![not_supported(&format!("{path}.operator"), other, &LABEL_OPERATORS)]);
        }
    };
    Requirement::validated(&raw.key, kind, &raw.values, path)
        .map_err(|error| error.messages().to_vec())
}

/// Returns whether the term has no requirements. Such a term never matches, scores or causes an
/// error.
fn is_empty(term: &api::NodeSelectorTerm) -> bool {
    term.match_expressions.is_empty() && term.match_fields.is_empty()
}

/// The node names that a selector allows by its requirements on `metadata.name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NodeNameRestriction {
    /// At least one alternative allows any name.
    Unrestricted,
    /// Only these names, sorted; never empty.
    Names(Box<[Arc<str>]>),
    /// No name: every alternative contradicts itself.
    Conflict,
}

impl NodeNameRestriction {
    /// Returns the union of the names that the `metadata.name In` requirements of the uncompiled
    /// terms allow. Empty and invalid terms count, and so do requirements with any number of
    /// values.
    fn of(terms: &[api::NodeSelectorTerm]) -> Self {
        let mut names = BTreeSet::new();
        for term in terms {
            match names_of(term) {
                Some(own) => names.extend(own),
                None => return Self::Unrestricted,
            }
        }
        if terms.is_empty() {
            Self::Unrestricted
        } else if names.is_empty() {
            Self::Conflict
        } else {
            Self::Names(names.into_iter().map(Arc::from).collect())
        }
    }
}

/// Returns the names that satisfy all `metadata.name In` requirements of the term; `None` without
/// such requirements.
fn names_of(term: &api::NodeSelectorTerm) -> Option<BTreeSet<&str>> {
    term.match_fields
        .iter()
        .filter(|raw| raw.key == NAME_FIELD && raw.operator == "In")
        .map(|raw| raw.values.iter().map(String::as_str).collect::<BTreeSet<_>>())
        .reduce(|all, own| all.intersection(&own).copied().collect())
}

/// A node selector: alternatives, one of which must match.
///
/// Invalid terms are kept as errors. They match no node, and are reported only if no valid term
/// matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeSelector {
    terms: Box<[Result<NodeSelectorTerm, SelectorError>]>,
    names: NodeNameRestriction,
}

impl NodeSelector {
    /// Compiles a selector; invalid terms are kept as errors.
    pub fn compile(selector: &api::NodeSelector) -> Self {
        Self::compile_at(selector, "")
    }

    /// Compiles a selector without invalid terms, as `addedAffinity` requires. `path` is the path
    /// of the selector in the configuration, empty at the root.
    ///
    /// # Errors
    /// All errors of all terms.
    pub fn compile_strict(selector: &api::NodeSelector, path: &str) -> Result<Self, SelectorError> {
        let compiled = Self::compile_at(selector, path);
        match compiled.error() {
            Some(error) => Err(error),
            None => Ok(compiled),
        }
    }

    fn compile_at(selector: &api::NodeSelector, path: &str) -> Self {
        let dot = if path.is_empty() { "" } else { "." };
        let raw = &selector.node_selector_terms;
        let terms =
            raw.iter().enumerate().filter(|(_, term)| !is_empty(term)).map(|(index, term)| {
                NodeSelectorTerm::compile(term, &format!("{path}{dot}nodeSelectorTerms[{index}]"))
            });
        Self { terms: terms.collect(), names: NodeNameRestriction::of(raw) }
    }

    /// Returns the non-empty alternatives, in order.
    pub fn terms(&self) -> &[Result<NodeSelectorTerm, SelectorError>] {
        &self.terms
    }

    /// Returns the node names that the selector allows, as the PreFilter of NodeAffinity reads
    /// them.
    pub fn node_names(&self) -> &NodeNameRestriction {
        &self.names
    }

    /// Returns whether a term matches the node.
    ///
    /// # Errors
    /// The errors of the invalid terms, if there are any and no term matches.
    pub fn matches(&self, node: &impl NodeFields) -> Result<bool, SelectorError> {
        if self.terms.iter().flatten().any(|term| term.matches(node)) {
            return Ok(true);
        }
        match self.error() {
            Some(error) => Err(error),
            None => Ok(false),
        }
    }

    /// Returns the errors of the invalid terms.
    pub fn error(&self) -> Option<SelectorError> {
        let invalid = self.terms.iter().filter_map(|term| term.as_ref().err());
        SelectorError::of(invalid.flat_map(SelectorError::messages).cloned().collect())
    }
}

/// The required node affinity of a pod: `nodeSelector` and required terms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequiredNodeAffinity {
    labels: Option<LabelSelector>,
    selector: Option<NodeSelector>,
}

impl RequiredNodeAffinity {
    /// Returns the required node affinity of a pod with this spec.
    pub fn of(spec: &api::PodSpec) -> Self {
        let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let required = affinity.and_then(|affinity| affinity.required.as_ref());
        Self {
            labels: spec.node_selector.as_ref().map(LabelSelector::from_set),
            selector: required.map(NodeSelector::compile),
        }
    }

    /// Returns the compiled `nodeSelector`, if the pod has one, even an empty one.
    pub fn labels(&self) -> Option<&LabelSelector> {
        self.labels.as_ref()
    }

    /// Returns the compiled required node affinity, if the pod has one.
    pub fn selector(&self) -> Option<&NodeSelector> {
        self.selector.as_ref()
    }

    /// Returns whether the pod may run on the node. Filters treat an error as `false`.
    ///
    /// # Errors
    /// The errors of [`NodeSelector::matches`], if `nodeSelector` matches.
    pub fn matches(&self, node: &impl NodeFields) -> Result<bool, SelectorError> {
        if self.labels.as_ref().is_some_and(|own| !own.matches_by(|key| node.label(key))) {
            return Ok(false);
        }
        self.selector.as_ref().map_or(Ok(true), |own| own.matches(node))
    }
}

/// A term and its weight.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WeightedNodeSelectorTerm {
    /// Weight, added to the score of matching nodes; not 0.
    pub weight: i32,
    /// The term.
    pub term: NodeSelectorTerm,
}

/// Weighted preferences for nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PreferredSchedulingTerms(Box<[WeightedNodeSelectorTerm]>);

impl PreferredSchedulingTerms {
    /// Compiles preferences. Terms of weight 0 and terms without requirements are skipped without
    /// validation. `path` is the path of the list in its object, empty at the root.
    ///
    /// # Errors
    /// All errors of all other terms: one invalid term makes the whole list invalid.
    pub fn compile(
        terms: &[api::PreferredSchedulingTerm],
        path: &str,
    ) -> Result<Self, SelectorError> {
        let mut compiled = Vec::with_capacity(terms.len());
        let mut messages = Vec::new();
        for (index, raw) in terms.iter().enumerate() {
            if raw.weight == 0 || is_empty(&raw.preference) {
                continue;
            }
            match NodeSelectorTerm::compile(&raw.preference, &format!("{path}[{index}]")) {
                Ok(term) => compiled.push(WeightedNodeSelectorTerm { weight: raw.weight, term }),
                Err(error) => messages.extend_from_slice(error.messages()),
            }
        }
        match SelectorError::of(messages) {
            Some(error) => Err(error),
            None => Ok(Self(compiled.into())),
        }
    }

    /// Returns the preferences that are not skipped.
    pub fn terms(&self) -> &[WeightedNodeSelectorTerm] {
        &self.0
    }

    /// Returns the sum of the weights of the terms that match the node.
    pub fn score(&self, node: &impl NodeFields) -> i64 {
        let matching = self.0.iter().filter(|own| own.term.matches(node));
        matching.map(|own| i64::from(own.weight)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Labels;

    struct Fake(&'static str, Labels);

    impl NodeFields for Fake {
        fn name(&self) -> &str {
            self.0
        }

        fn label(&self, key: &str) -> Option<&str> {
            self.1.get(key)
        }
    }

    fn node() -> Fake {
        Fake("n1", Labels::from_iter([("zone", "a"), ("gen", "5")]))
    }

    fn requirement(key: &str, operator: &str, values: &[&str]) -> api::SelectorRequirement {
        let values = values.iter().map(|&value| value.to_owned()).collect();
        api::SelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
    }

    fn on_label(key: &str, operator: &str, values: &[&str]) -> api::NodeSelectorTerm {
        let match_expressions = vec![requirement(key, operator, values)];
        api::NodeSelectorTerm { match_expressions, match_fields: Vec::new() }
    }

    fn on_field(key: &str, operator: &str, values: &[&str]) -> api::NodeSelectorTerm {
        let match_fields = vec![requirement(key, operator, values)];
        api::NodeSelectorTerm { match_expressions: Vec::new(), match_fields }
    }

    fn raw(terms: &[api::NodeSelectorTerm]) -> api::NodeSelector {
        api::NodeSelector { node_selector_terms: terms.to_vec() }
    }

    #[test]
    fn each_operator_matches_as_specified() {
        for (term, expected) in [
            (on_label("zone", "In", &["a", "b"]), true),
            (on_label("zone", "NotIn", &["a"]), false),
            (on_label("disk", "NotIn", &["a"]), true),
            (on_label("disk", "DoesNotExist", &[]), true),
            (on_label("gen", "Gt", &["4"]), true),
            (on_label("gen", "Gt", &["5"]), false),
            (on_label("gen", "Lt", &["6"]), true),
            (on_label("zone", "Lt", &["6"]), false),
            (on_label("disk", "Gt", &["0"]), false),
            (on_field("metadata.name", "In", &["n1"]), true),
            (on_field("metadata.name", "NotIn", &["n1"]), false),
            (on_field("spec.podCIDR", "In", &["x"]), false),
            (on_field("spec.podCIDR", "NotIn", &["x"]), true),
        ] {
            let selector = NodeSelector::compile_strict(&raw(std::slice::from_ref(&term)), "");
            assert_eq!(selector.unwrap().matches(&node()), Ok(expected), "{term:?}");
        }
    }

    #[test]
    fn errors_are_returned_only_if_no_term_matches() {
        let bad = on_label("gen", "Gt", &["-1"]);
        let good = on_label("zone", "In", &["a"]);
        let both = NodeSelector::compile(&raw(&[bad.clone(), good.clone()]));
        assert_eq!(both.matches(&node()), Ok(true));
        let nowhere = Fake("n2", Labels::default());
        let error = both.matches(&nowhere).unwrap_err().to_string();
        assert!(error.starts_with("nodeSelectorTerms[0].matchExpressions[0].values[0][gen]: "));
        let error = NodeSelector::compile_strict(&raw(&[bad, good]), "added").unwrap_err();
        assert!(error.to_string().starts_with("added.nodeSelectorTerms[0]."));
    }

    #[test]
    fn empty_terms_and_selectors_match_no_node() {
        for terms in [&[][..], &[api::NodeSelectorTerm::default()]] {
            assert_eq!(NodeSelector::compile(&raw(terms)).matches(&node()), Ok(false));
        }
    }

    #[test]
    fn fields_of_a_node_without_name_are_ignored() {
        let selector = NodeSelector::compile(&raw(&[on_field("metadata.name", "In", &["n1"])]));
        assert_eq!(selector.matches(&Fake("", Labels::default())), Ok(true));
    }

    #[test]
    fn names_are_restricted_by_uncompiled_terms() {
        let names = |values: &[&str]| on_field("metadata.name", "In", values);
        let mut contradiction = names(&["n1"]);
        contradiction.match_fields.push(requirement("metadata.name", "In", &["n2"]));
        let restriction = |terms: &[_]| NodeSelector::compile(&raw(terms)).node_names().clone();
        assert_eq!(restriction(&[]), NodeNameRestriction::Unrestricted);
        assert_eq!(
            restriction(&[names(&["n3", "n1"]), contradiction.clone(), names(&["n1"])]),
            NodeNameRestriction::Names(["n1".into(), "n3".into()].into())
        );
        assert_eq!(restriction(&[contradiction]), NodeNameRestriction::Conflict);
        for open in [api::NodeSelectorTerm::default(), on_label("zone", "Exists", &[])] {
            assert_eq!(restriction(&[names(&["n1"]), open]), NodeNameRestriction::Unrestricted);
        }
    }

    #[test]
    fn required_affinity_combines_node_selector_and_terms() {
        let spec = |selector: &[(&str, &str)], terms: &[api::NodeSelectorTerm]| {
            let pairs = selector.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
            let node_affinity = api::NodeAffinity { required: Some(raw(terms)), preferred: None };
            let affinity =
                api::Affinity { node_affinity: Some(node_affinity), ..Default::default() };
            let node_selector = Some(pairs.collect());
            let affinity = Some(affinity);
            RequiredNodeAffinity::of(&api::PodSpec {
                node_selector,
                affinity,
                ..Default::default()
            })
        };
        let in_a = on_label("zone", "In", &["a"]);
        assert_eq!(spec(&[("gen", "5")], std::slice::from_ref(&in_a)).matches(&node()), Ok(true));
        assert_eq!(spec(&[("gen", "6")], &[in_a]).matches(&node()), Ok(false));
        assert_eq!(spec(&[], &[]).matches(&node()), Ok(false));
        assert_eq!(RequiredNodeAffinity::default().matches(&node()), Ok(true));
    }

    #[test]
    fn preferences_add_up_and_one_invalid_term_is_an_error() {
        let term = |weight, preference| api::PreferredSchedulingTerm { weight, preference };
        let zone = |value| on_label("zone", "In", &[value]);
        let bad = || on_label("zone", "Bogus", &[]);
        let terms = [
            term(7, zone("a")),
            term(5, zone("b")),
            term(3, on_label("gen", "Exists", &[])),
            term(50, api::NodeSelectorTerm::default()),
            term(0, bad()),
        ];
        let compiled = PreferredSchedulingTerms::compile(&terms, "").unwrap();
        assert_eq!(compiled.score(&node()), 10);
        let error = PreferredSchedulingTerms::compile(&[term(1, bad())], "").unwrap_err();
        assert!(error.to_string().starts_with("[0].matchExpressions[0].operator: Unsupported"));
    }
}
