use crate::{NodeFields, NodeSelector, SelectorError, api};

/// A node selector of a slice, device or allocation. One invalid term makes the whole selector
/// invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRestriction {
    /// The selector as written.
    pub raw: api::NodeSelector,
    /// The compiled selector.
    pub compiled: Result<NodeSelector, SelectorError>,
}

impl NodeRestriction {
    /// Compiles the selector.
    pub fn from_api(raw: &api::NodeSelector) -> Self {
        Self { raw: raw.clone(), compiled: NodeSelector::compile_strict(raw, "") }
    }

    /// Returns whether the node matches.
    ///
    /// # Errors
    /// The errors of the terms that cannot be compiled.
    pub fn matches(&self, node: &impl NodeFields) -> Result<bool, SelectorError> {
        self.compiled.as_ref().map_err(Clone::clone)?.matches(node)
    }

    /// Returns a selector of the node with this name.
    pub fn of_node(name: &str) -> Self {
        let field = api::SelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: vec![name.to_owned()],
        };
        Self::from_api(&api::NodeSelector {
            node_selector_terms: vec![api::NodeSelectorTerm {
                match_expressions: Vec::new(),
                match_fields: vec![field],
            }],
        })
    }
}
