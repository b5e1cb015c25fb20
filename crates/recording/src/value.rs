//! JSON values as tokens. Unlike text they keep every number exactly, and keys are written once.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::record::PartNumber;

/// Maximum depth of a value, as in serde_json.
const DEPTH_MAX: usize = 128;

#[derive(Debug, Serialize, Deserialize)]
enum Token<'a> {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(Cow<'a, str>),
    /// The items follow.
    Array(u64),
    /// The fields follow, each a [`Token::Key`] and a value.
    Object(u64),
    Key(PartNumber),
}

/// The annotation in which kubectl keeps the whole object as it was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields to leave out of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// All but the fields that no plugin reads.
    All,
    /// Of a pod that was read or written: its metadata and its node.
    PodState,
    /// Of a Secret: its metadata.
    Metadata,
}

impl Keep {
    /// Whether the field at this place is written. `depth` counts from the object.
    fn keeps(self, path: &[&str], key: &str) -> bool {
        match (path, key) {
            (["metadata"], "managedFields") | (["metadata", "annotations"], LAST_APPLIED) => false,
            ([], "metadata" | "kind" | "apiVersion") => true,
            ([], "spec") => self != Self::Metadata,
            ([], _) => self == Self::All,
            (["spec"], key) => self != Self::PodState || key == "nodeName",
            (["metadata"], "annotations" | "labels" | "ownerReferences") => self == Self::All,
            _ => true,
        }
    }
}

/// Appends the tokens of `value`. `number` returns the number of a key.
pub(crate) fn write_value(
    value: &Value,
    keep: Keep,
    number: &mut impl FnMut(&str) -> PartNumber,
) -> Vec<u8> {
    let mut out = Vec::new();
    write_into(&mut out, value, keep, &mut Vec::new(), number);
    out
}

fn write_into<'a>(
    out: &mut Vec<u8>,
    value: &'a Value,
    keep: Keep,
    path: &mut Vec<&'a str>,
    number: &mut impl FnMut(&str) -> PartNumber,
) {
    match value {
        Value::Null => put(out, &Token::Null),
        Value::Bool(value) => put(out, &Token::Bool(*value)),
        Value::Number(value) => put(out, &token_of(value)),
        Value::String(text) => put(out, &Token::Text(text.into())),
        Value::Array(items) => {
            put(out, &Token::Array(items.len() as u64));
            path.push("[]");
            items.iter().for_each(|item| write_into(out, item, keep, path, number));
            path.pop();
        }
        Value::Object(fields) => {
            let kept = || fields.iter().filter(|(key, _)| keep.keeps(path, key));
            let kept: Vec<_> = kept().collect();
            put(out, &Token::Object(kept.len() as u64));
            for (key, value) in kept {
                put(out, &Token::Key(number(key)));
                path.push(key);
                write_into(out, value, keep, path, number);
                path.pop();
            }
        }
    }
}

fn token_of(number: &Number) -> Token<'static> {
    if let Some(value) = number.as_u64() {
        Token::Unsigned(value)
    } else if let Some(value) = number.as_i64() {
        Token::Signed(value)
    } else {
        Token::Float(number.as_f64().unwrap_or_default())
    }
}

/// Appends a value. Writing to memory does not fail.
pub(crate) fn put(out: &mut Vec<u8>, value: &impl Serialize) {
    let bytes = std::mem::take(out);
    *out = postcard::to_extend(value, bytes).unwrap_or_default();
}

/// Reads tokens. `text` returns the key of a number. Returns `None` if the tokens are not those of
/// one value.
pub(crate) fn read_value<'a>(
    mut bytes: &[u8],
    text: &impl Fn(PartNumber) -> Option<&'a str>,
) -> Option<Value> {
    let value = read_from(&mut bytes, text, DEPTH_MAX)?;
    bytes.is_empty().then_some(value)
}

fn read_from<'a>(
    bytes: &mut &[u8],
    text: &impl Fn(PartNumber) -> Option<&'a str>,
    depth: usize,
) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    Some(match next(bytes)? {
        Token::Null => Value::Null,
        Token::Bool(value) => value.into(),
        Token::Unsigned(value) => value.into(),
        Token::Signed(value) => value.into(),
        Token::Float(value) => Value::Number(Number::from_f64(value)?),
        Token::Text(text) => text.into_owned().into(),
        Token::Array(count) => {
            let items = (0..count).map(|_| read_from(bytes, text, depth));
            Value::Array(items.collect::<Option<_>>()?)
        }
        Token::Object(count) => {
            let mut fields = Map::new();
            for _ in 0..count {
                let Token::Key(key) = next(bytes)? else { return None };
                fields.insert(text(key)?.to_owned(), read_from(bytes, text, depth)?);
            }
            Value::Object(fields)
        }
        Token::Key(_) => return None,
    })
}

fn next<'a>(bytes: &mut &'a [u8]) -> Option<Token<'a>> {
    let (token, rest) = postcard::take_from_bytes(bytes).ok()?;
    *bytes = rest;
    Some(token)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn round_trip(value: &Value, keep: Keep) -> Option<Value> {
        let mut keys = Vec::<String>::new();
        let bytes = write_value(value, keep, &mut |key| {
            let known = keys.iter().position(|known| known == key);
            let place = known.unwrap_or_else(|| {
                keys.push(key.to_owned());
                keys.len() - 1
            });
            u32::try_from(place).unwrap()
        });
        read_value(&bytes, &|number| keys.get(number as usize).map(String::as_str))
    }

    #[test]
    fn values_are_read_as_written() {
        let value =
            json!({"a": [1, -2, 0.1, 1e300, u64::MAX, null, true], "b": {"a": "", "c": {}}});
        assert_eq!(round_trip(&value, Keep::All), Some(value));
    }

    #[test]
    fn unneeded_fields_and_secrets_are_left_out() {
        let metadata = json!({"name": "a", "labels": {"b": "c"}, "managedFields": [1],
            "annotations": {LAST_APPLIED: "{}", "d": "e"}});
        let object = json!({"kind": "K", "metadata": metadata, "spec": {"nodeName": "n", "x": 1},
            "data": {"password": "f"}});
        let kept = json!({"kind": "K", "metadata": {"name": "a", "labels": {"b": "c"},
            "annotations": {"d": "e"}}, "spec": {"nodeName": "n", "x": 1}, "data": {"password": "f"}});
        assert_eq!(round_trip(&object, Keep::All), Some(kept));
        let state = json!({"kind": "K", "metadata": {"name": "a"}, "spec": {"nodeName": "n"}});
        assert_eq!(round_trip(&object, Keep::PodState), Some(state));
        let metadata = json!({"kind": "K", "metadata": {"name": "a"}});
        assert_eq!(round_trip(&object, Keep::Metadata), Some(metadata));
    }

    #[test]
    fn nested_tokens_are_bounded() {
        let bytes: Vec<u8> = [6, 1].repeat(100_000);
        assert_eq!(read_value(&bytes, &|_| None), None);
        assert_eq!(read_value(&[6, 255, 255, 255, 255, 15], &|_| None), None);
    }
}
