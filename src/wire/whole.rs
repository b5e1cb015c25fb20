//! Objects as the API server has them.

use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};

/// Which objects are kept as the API server has them, beside what the engine takes of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Whole {
    /// Nodes.
    pub nodes: bool,
    /// Pods without a node.
    pub pending_pods: bool,
    /// Pods with a node.
    pub placed_pods: bool,
}

impl Whole {
    /// None at all.
    pub const NONE: Self = Self { nodes: false, pending_pods: false, placed_pods: false };
}

type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// The object as kube-scheduler has it in memory: without its kind, and without `managedFields`, which
/// is often the larger part.
///
/// # Errors
/// It is no object.
pub(super) fn whole(raw: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
    let mut object: Fields<'_> = serde_json::from_str(raw.get())?;
    object.remove("kind");
    object.remove("apiVersion");
    let metadata = match object.get("metadata") {
        Some(metadata) => {
            let mut fields: Fields<'_> = serde_json::from_str(metadata.get())?;
            fields.remove("managedFields");
            to_raw_value(&fields)?
        }
        None => return to_raw_value(&object),
    };
    object.insert("metadata".to_owned(), &metadata);
    to_raw_value(&object)
}
