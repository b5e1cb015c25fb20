//! Objects as JSON, as the API server has them.

use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};

/// The objects that are kept as JSON, in addition to the compact form of the engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Whole {
    /// Nodes.
    pub nodes: bool,
    /// Pods without a node.
    pub pending_pods: bool,
    /// Pods with a node.
    pub placed_pods: bool,
    /// Pods with this label.
    pub labelled: Option<&'static str>,
    /// Whether they are returned as the API server has sent them, to a caller that reads them at
    /// once.
    pub as_sent: bool,
}

impl Whole {
    /// None.
    pub const NONE: Self = Self {
        nodes: false,
        pending_pods: false,
        placed_pods: false,
        labelled: None,
        as_sent: false,
    };

    /// Adds the nodes and pods of `other`.
    pub fn extend(&mut self, other: Self) {
        self.nodes |= other.nodes;
        self.pending_pods |= other.pending_pods;
        self.placed_pods |= other.placed_pods;
    }
}

/// The field that is left out. An object without it is not taken apart.
const MANAGED: &[u8] = b"managedFields";

type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// Returns the object as kube-scheduler holds it in memory: without kind, and without
/// `managedFields`, which is often the larger part.
///
/// # Errors
/// The value is not an object.
pub(super) fn whole(raw: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
    let mut object: Fields<'_> = serde_json::from_str(raw.get())?;
    object.remove("kind");
    object.remove("apiVersion");
    let metadata = match object.get("metadata") {
        Some(metadata) if memchr::memmem::find(metadata.get().as_bytes(), MANAGED).is_some() => {
            let mut fields: Fields<'_> = serde_json::from_str(metadata.get())?;
            fields.remove("managedFields");
            to_raw_value(&fields)?
        }
        _ => return to_raw_value(&object),
    };
    object.insert("metadata".to_owned(), &metadata);
    to_raw_value(&object)
}
