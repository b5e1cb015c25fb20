//! The four kinds of patch, as functions of JSON.

pub mod apply;
mod fields;
mod json;
mod schema;
mod strategic;

use framework::merge_patch;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::status::Status;

/// Returns an object after a merge patch, a strategic merge patch or a JSON patch. Server-side
/// apply is [`apply::apply`].
///
/// # Errors
/// 415 for another content type, 400 for a patch that does not decode, 422 for a JSON patch that
/// does not apply.
pub fn apply_patch(current: Value, content_type: &str, patch: &[u8]) -> Result<Value, Status> {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let mut patched = current;
    match media_type {
        "application/merge-patch+json" => {
            merge_patch(&mut patched, &Value::Object(decode::<Map<_, _>>(patch)?));
        }
        "application/strategic-merge-patch+json" => {
            let patch: Map<_, _> = decode(patch)?;
            if let Value::Object(patched) = &mut patched {
                strategic::merge(patched, &patch)
                    .map_err(|error| Status::bad_request(error.to_string()))?;
            }
        }
        "application/json-patch+json" => json::apply(&mut patched, patch)?,
        _ => return Err(Status::unsupported_media_type()),
    }
    Ok(patched)
}

fn decode<T: DeserializeOwned>(patch: &[u8]) -> Result<T, Status> {
    serde_json::from_slice(patch)
        .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))
}

#[cfg(test)]
mod testing {
    //! JSON values for property tests.

    use proptest::prelude::*;
    use serde_json::Value;

    /// Returns any small value.
    pub(super) fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..5i64).prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                fields(inner),
            ]
        })
    }

    fn fields(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
        let fields = proptest::collection::btree_map("[a-c]", value, 0..4);
        fields.prop_map(|fields| Value::Object(fields.into_iter().collect()))
    }
}
