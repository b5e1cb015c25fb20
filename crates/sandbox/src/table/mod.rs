//! `meta.k8s.io/v1` Tables: what `kubectl get` prints.

mod age;
mod columns;
mod descriptions;
mod device;
mod node;
mod pod;
mod storage;
mod workloads;

use framework::Time;
use serde_json::{Value, json};

pub(crate) use age::since;
pub(crate) use descriptions::AGE as AGE_DESCRIPTION;

use crate::resources::Resource;

/// The part of an object that its row contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The metadata.
    Metadata,
    /// The whole object.
    Object,
}

/// The parts of a table that depend on the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The part of each object in its row.
    pub include: IncludeObject,
    /// Whether the table has column definitions; in a watch only the first one has.
    pub with_headers: bool,
}

/// Returns a table of the objects with the columns of their kind and `list_metadata` as metadata.
pub fn table(
    resource: &Resource,
    objects: &[&Value],
    list_metadata: Value,
    now: Time,
    layout: Layout,
) -> Value {
    let row = |object: &&Value| {
        let cells = columns::cells(resource, object, now);
        match carried(object, layout.include) {
            Some(carried) => json!({"cells": cells, "object": carried}),
            None => json!({"cells": cells}),
        }
    };
    let headers = layout.with_headers.then(|| columns::definitions(resource));
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata,
        "columnDefinitions": headers,
        "rows": objects.iter().map(row).collect::<Vec<_>>(),
    })
}

fn carried(object: &Value, include: IncludeObject) -> Option<Value> {
    match include {
        IncludeObject::None => None,
        IncludeObject::Metadata => Some(json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": object["metadata"],
        })),
        IncludeObject::Object => Some(object.clone()),
    }
}

#[cfg(test)]
mod tests;
