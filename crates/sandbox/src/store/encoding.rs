//! Encoding of objects as JSON.

use bytes::Bytes;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use crate::events;
use crate::resources::Resource;

/// Encodes an object without `kind` and `apiVersion`, which lists leave out and other answers
/// prepend.
pub(super) fn body(object: &Value) -> Bytes {
    renamed(object, |field| field)
}

/// Encodes an Event in the same way, in the form of `events.k8s.io/v1`.
pub(super) fn body_of_event(event: &Value) -> Bytes {
    renamed(event, events::name_from_core)
}

fn renamed(object: &Value, name: impl Fn(&str) -> &str) -> Bytes {
    let mut bytes = Vec::with_capacity(1024);
    let mut serializer = serde_json::Serializer::new(&mut bytes);
    write_body(object, name, &mut serializer).expect("a value is always written to memory");
    bytes.into()
}

fn write_body<S: Serializer>(
    object: &Value,
    name: impl Fn(&str) -> &str,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for (key, value) in object.as_object().into_iter().flatten() {
        if key != "kind" && key != "apiVersion" {
            map.serialize_entry(name(key), value)?;
        }
    }
    map.end()
}

/// Appends an object: kind, apiVersion, and the fields that [`body`] encoded.
pub(super) fn write_object(to: &mut Vec<u8>, resource: &Resource, body: &[u8]) {
    let api_version = resource.api_version();
    let head = format!(r#"{{"kind":"{}","apiVersion":"{api_version}""#, resource.kind);
    to.extend_from_slice(head.as_bytes());
    let rest = body.strip_prefix(b"{").unwrap_or(body);
    if rest != b"}" {
        to.push(b',');
    }
    to.extend_from_slice(rest);
}

/// Encodes a watch event with an encoded object.
pub(super) fn frame(event: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(format!(r#"{{"type":"{event}","object":"#).as_bytes());
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}
