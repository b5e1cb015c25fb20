//! Encoding of JSON to the messages of Kubernetes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use framework::Time;
use framework::protobuf::MAGIC;
use serde_json::{Map, Value};

use super::schema::{Field, Message, Place, SCHEMA, Type};
use crate::resources::Resource;

/// Returns the message of an object, without its envelope.
pub(crate) fn message(resource: &Resource, object: &Value) -> Bytes {
    let mut bytes = Vec::with_capacity(1024);
    if let Some(message) = SCHEMA.kind(&resource.api_version(), resource.kind) {
        write_object(&mut bytes, message, object);
    }
    bytes.into()
}

/// Returns a message of this kind with its envelope.
pub(crate) fn object(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.len() + 64);
    bytes.extend_from_slice(MAGIC);
    delimited(&mut bytes, 1, |type_meta| {
        text(type_meta, 1, api_version);
        text(type_meta, 2, kind);
    });
    content(&mut bytes, 2, message);
    // The encodings of the content are empty.
    text(&mut bytes, 3, "");
    text(&mut bytes, 4, "");
    bytes
}

/// Returns a `Status` with its envelope.
pub(crate) fn status(status: &Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    if let Some(message) = SCHEMA.kind("v1", "Status") {
        write_object(&mut bytes, message, status);
    }
    object("v1", "Status", &bytes)
}

/// Returns a list of messages, with its envelope.
pub(crate) fn list<'a>(
    resource: &Resource,
    metadata: &Value,
    items: impl Iterator<Item = &'a [u8]>,
) -> Bytes {
    let mut bytes = Vec::new();
    if let Some(message) = SCHEMA.kind("meta/v1", "ListMeta") {
        delimited(&mut bytes, 1, |bytes| write_object(bytes, message, metadata));
    }
    items.for_each(|item| content(&mut bytes, 2, item));
    object(&resource.api_version(), &resource.list_kind(), &bytes).into()
}

/// Returns the frame of a watch event: its length, and the event around an object with its
/// envelope.
pub(crate) fn frame(event: &str, object: &[u8]) -> Bytes {
    let mut bytes = vec![0; 4];
    text(&mut bytes, 1, event);
    delimited(&mut bytes, 2, |raw_extension| content(raw_extension, 1, object));
    let length = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes.into()
}

pub(super) fn write_object(to: &mut Vec<u8>, message: &Message, object: &Value) {
    let Value::Object(fields) = object else { return };
    for (name, value) in fields {
        if let Some((number, field)) = message.named(name) {
            write_field(to, number, field, value);
        }
    }
    for (number, field) in message.inline() {
        write_value(to, number, field.holds, object);
    }
}

fn write_field(to: &mut Vec<u8>, number: u64, field: &Field, value: &Value) {
    match (field.place, value) {
        (Place::List(_), Value::Array(items)) => {
            items.iter().for_each(|item| write_value(to, number, field.holds, item));
        }
        (Place::Map(_), Value::Object(entries)) => write_map(to, number, field.holds, entries),
        (Place::Named { .. }, value) => write_value(to, number, field.holds, value),
        _ => {}
    }
}

/// Writes a map: each entry is a message of key (1) and value (2).
fn write_map(to: &mut Vec<u8>, number: u64, holds: Type, entries: &Map<String, Value>) {
    for (key, value) in entries {
        delimited(to, number, |entry| {
            text(entry, 1, key);
            write_value(entry, 2, holds, value);
        });
    }
}

/// Writes a field. A value that does not have the type of the field, such as `null`, is left out.
fn write_value(to: &mut Vec<u8>, number: u64, holds: Type, value: &Value) {
    match (holds, value) {
        (_, Value::Null) => {}
        (Type::Bool, Value::Bool(value)) => integer(to, number, i64::from(*value)),
        (Type::Int, value) => {
            value.as_i64().into_iter().for_each(|value| integer(to, number, value))
        }
        (Type::String, Value::String(value)) => text(to, number, value),
        (Type::Bytes, Value::String(value)) => {
            content(to, number, &STANDARD.decode(value).unwrap_or_default());
        }
        (Type::Quantity, Value::String(value)) => delimited(to, number, |own| text(own, 1, value)),
        (Type::Quantity, value) => delimited(to, number, |own| text(own, 1, &value.to_string())),
        (Type::IntOrString, value) => delimited(to, number, |own| {
            integer(own, 1, i64::from(value.is_string()));
            integer(own, 2, value.as_i64().unwrap_or_default());
            text(own, 3, value.as_str().unwrap_or_default());
        }),
        (Type::Time | Type::MicroTime, Value::String(value)) => write_time(to, number, value),
        (Type::Raw, value) => delimited(to, number, |own| text(own, 1, &value.to_string())),
        (Type::Strings, Value::Array(items)) => delimited(to, number, |own| {
            items.iter().filter_map(Value::as_str).for_each(|item| text(own, 1, item));
        }),
        (Type::Message(place), value) => {
            delimited(to, number, |own| write_object(own, SCHEMA.message(place), value));
        }
        _ => {}
    }
}

/// Writes seconds (1) and nanoseconds (2) since the epoch.
fn write_time(to: &mut Vec<u8>, number: u64, value: &str) {
    const SECOND: i64 = 1_000_000_000;
    let Ok(time) = Time::parse_rfc3339(value) else { return };
    delimited(to, number, |own| {
        integer(own, 1, time.as_nanos().div_euclid(SECOND));
        integer(own, 2, time.as_nanos().rem_euclid(SECOND));
    });
}

fn varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    to.push(number.to_le_bytes()[0]);
}

pub(super) fn integer(to: &mut Vec<u8>, number: u64, value: i64) {
    varint(to, number << 3);
    varint(to, value.cast_unsigned());
}

fn text(to: &mut Vec<u8>, number: u64, value: &str) {
    content(to, number, value.as_bytes());
}

pub(super) fn content(to: &mut Vec<u8>, number: u64, value: &[u8]) {
    varint(to, number << 3 | 2);
    varint(to, value.len() as u64);
    to.extend_from_slice(value);
}

/// Writes a field whose content `write` appends, and whose length is known only after that.
fn delimited(to: &mut Vec<u8>, number: u64, write: impl FnOnce(&mut Vec<u8>)) {
    varint(to, number << 3 | 2);
    let start = to.len();
    // Most messages take one byte for their length.
    to.push(0);
    write(to);
    let mut length = Vec::with_capacity(2);
    varint(&mut length, (to.len() - start - 1) as u64);
    to.splice(start..=start, length);
}
