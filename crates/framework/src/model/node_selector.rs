//! Node selectors and node affinity.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::selector::{
    LabelSelector, OperatorKind, Requirement, SelectorError, invalid, json_list, not_supported,
};
use crate::api;

/// The only field of a node that selectors can read.
const NAME_FIELD: &str = "metadata.name";

const LABEL_OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
const FIELD_OPERATORS: [&str; 2] = ["In", "NotIn"];

/// What a node selector reads of a node.
pub trait NodeFields {
    /// Name of the node; with an empty one, requirements on fields are ignored.
    fn name(&self) -> &str;
    /// The value of the label `key`.
    fn label(&self, key: &str) -> Option<&str>;
}

/// What a requirement asks of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldOperator {
    /// The field has the value.
    In,
    /// The field has another value.
    NotIn,
}

/// A requirement on one field of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldRequirement {
    /// Path of the field; any but `metadata.name` reads as empty.
    pub key: Arc<str>,
    /// What is asked of the field.
    pub operator: FieldOperator,
    /// The one value.
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

    /// Whether a node of this (non-empty) name meets the requirement.
    pub fn matches(&self, name: &str) -> bool {
        let field = if &*self.key == NAME_FIELD { name } else { "" };
        match self.operator {
            FieldOperator::In => *self.value == *field,
            FieldOperator::NotIn => *self.value != *field,
        }
    }
}

/// One alternative of a node selector: all of its requirements must hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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

    /// Whether the node meets every requirement of the term.
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

/// A term without requirements takes no part: it never matches, never scores, is never wrong.
fn is_empty(term: &api::NodeSelectorTerm) -> bool {
    term.match_expressions.is_empty() && term.match_fields.is_empty()
}

/// The nodes a selector can match going by the names in its fields alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NodeNameRestriction {
    /// Some alternative is open to any name.
    Unrestricted,
    /// Nodes of these names only, sorted; never empty.
    Names(Box<[Arc<str>]>),
    /// Every alternative contradicts itself.
    Conflict,
}

impl NodeNameRestriction {
    /// The union, over the terms as written, of what their `metadata.name In` requirements allow.
    /// Empty and invalid terms count, and so do requirements with any number of values.
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

/// The names all `metadata.name In` requirements of the term agree on; `None` if it has none.
fn names_of(term: &api::NodeSelectorTerm) -> Option<BTreeSet<&str>> {
    term.match_fields
        .iter()
        .filter(|raw| raw.key == NAME_FIELD && raw.operator == "In")
        .map(|raw| raw.values.iter().map(String::as_str).collect::<BTreeSet<_>>())
        .reduce(|all, own| all.intersection(&own).copied().collect())
}

/// A node selector: alternatives, one of which must match.
///
/// Invalid terms are kept as errors: they match no node, and come to light only where no valid term
/// matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeSelector {
    terms: Box<[Result<NodeSelectorTerm, SelectorError>]>,
    names: NodeNameRestriction,
}

impl NodeSelector {
    /// Compiles a selector; invalid terms are kept as errors.
    pub fn compile(selector: &api::NodeSelector) -> Self {
        Self::compile_at(selector, "")
    }

    /// Compiles a selector that must not have an invalid term, as `addedAffinity` demands.
    ///
    /// # Errors
    ///
    /// All faults of all terms. `path` is the path of the selector in what was configured, empty at
    /// the root.
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

    /// The alternatives that are not empty, in order.
    pub fn terms(&self) -> &[Result<NodeSelectorTerm, SelectorError>] {
        &self.terms
    }

    /// The node names the selector is restricted to, as NodeAffinity's PreFilter reads it.
    pub fn node_names(&self) -> &NodeNameRestriction {
        &self.names
    }

    /// Whether some term matches the node.
    ///
    /// # Errors
    ///
    /// If none does and there are invalid terms: what is wrong with them.
    pub fn matches(&self, node: &impl NodeFields) -> Result<bool, SelectorError> {
        if self.terms.iter().flatten().any(|term| term.matches(node)) {
            return Ok(true);
        }
        match self.error() {
            Some(error) => Err(error),
            None => Ok(false),
        }
    }

    /// What is wrong with the invalid terms.
    pub fn error(&self) -> Option<SelectorError> {
        let invalid = self.terms.iter().filter_map(|term| term.as_ref().err());
        SelectorError::of(invalid.flat_map(SelectorError::messages).cloned().collect())
    }
}

/// What a pod demands of its node: `nodeSelector` and required node affinity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct RequiredNodeAffinity {
    labels: Option<LabelSelector>,
    selector: Option<NodeSelector>,
}

impl RequiredNodeAffinity {
    /// The demands of a pod with this spec.
    pub fn of(spec: &api::PodSpec) -> Self {
        let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let required = affinity.and_then(|affinity| affinity.required.as_ref());
        Self {
            labels: spec.node_selector.as_ref().map(LabelSelector::from_set),
            selector: required.map(NodeSelector::compile),
        }
    }

    /// The compiled `nodeSelector`, if the pod has one, even an empty one.
    pub fn labels(&self) -> Option<&LabelSelector> {
        self.labels.as_ref()
    }

    /// The compiled required node affinity, if the pod has one.
    pub fn selector(&self) -> Option<&NodeSelector> {
        self.selector.as_ref()
    }

    /// Whether the pod may run on the node.
    ///
    /// # Errors
    ///
    /// As [`NodeSelector::matches`], if `nodeSelector` matches; whoever filters takes it for false.
    pub fn matches(&self, node: &impl NodeFields) -> Result<bool, SelectorError> {
        if self.labels.as_ref().is_some_and(|own| !own.matches_by(|key| node.label(key))) {
            return Ok(false);
        }
        self.selector.as_ref().map_or(Ok(true), |own| own.matches(node))
    }
}

/// A term and what it is worth.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WeightedNodeSelectorTerm {
    /// Added to the score of the nodes that match; not 0.
    pub weight: i32,
    /// The term.
    pub term: NodeSelectorTerm,
}

/// Weighted preferences for nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PreferredSchedulingTerms(Box<[WeightedNodeSelectorTerm]>);

impl PreferredSchedulingTerms {
    /// Compiles preferences; those of weight 0 and those without requirements are left out, unread.
    ///
    /// # Errors
    ///
    /// All faults of all other terms: one invalid term spoils the list. `path` is the path of the
    /// list in its object, empty at the root.
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

    /// The preferences that count.
    pub fn terms(&self) -> &[WeightedNodeSelectorTerm] {
        &self.0
    }

    /// The sum of the weights of the terms that match the node.
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
    fn single_requirements() {
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
    fn errors_surface_only_where_nothing_matches() {
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
    fn restricts_names_by_the_terms_as_written() {
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
    fn required_affinity_is_node_selector_and_affinity() {
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
    fn preferences_add_up_and_one_bad_term_spoils_them() {
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
