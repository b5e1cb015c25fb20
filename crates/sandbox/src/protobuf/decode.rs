//! Decoding of messages to the JSON that the Go types of Kubernetes write.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use framework::Time;
use framework::protobuf::{Content, Fields, varint};
use serde_json::{Map, Value};

use super::Malformed;
use super::schema::{Field, Message, Place, SCHEMA, Type};
use crate::object::{micro_timestamp, timestamp};

type Object = Map<String, Value>;

/// Decodes the fields of a message; unknown fields are skipped.
pub(super) fn object(message: &Message, bytes: &[u8]) -> Result<Object, Malformed> {
    let mut object = Object::new();
    for field in Fields::of(bytes) {
        let (number, content) = field?;
        if let Some(field) = message.field(number) {
            put(&mut object, field, content)?;
        }
    }
    Ok(object)
}

fn put(object: &mut Object, field: &Field, content: Content<'_>) -> Result<(), Malformed> {
    match field.place {
        Place::Named { name, keeps_zero } => {
            let value = value(field.holds, content)?;
            if !value.is_null() && (keeps_zero || !is_zero(field.holds, &value)) {
                object.insert(name.to_owned(), value);
            }
        }
        Place::Inline => {
            if let Value::Object(fields) = value(field.holds, content)? {
                object.extend(fields);
            }
        }
        Place::List(name) => {
            let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                append(list, field.holds, content)?;
            }
        }
        Place::Map(name) => {
            let map = object.entry(name).or_insert_with(|| Value::Object(Object::new()));
            if let Value::Object(map) = map {
                let (key, value) = entry(field.holds, content.delimited()?)?;
                map.insert(key, value);
            }
        }
    }
    Ok(())
}

/// Returns whether `omitempty` drops the value. Structs stay, even if empty.
fn is_zero(holds: Type, value: &Value) -> bool {
    match holds {
        Type::Bool => value == &Value::Bool(false),
        Type::Int => value.as_i64() == Some(0),
        Type::String | Type::Bytes => value.as_str() == Some(""),
        _ => false,
    }
}

/// Appends an item, or several packed numbers.
fn append(list: &mut Vec<Value>, item: Type, content: Content<'_>) -> Result<(), Malformed> {
    let (Type::Int, Content::Delimited(mut packed)) = (item, content) else {
        list.push(value(item, content)?);
        return Ok(());
    };
    while !packed.is_empty() {
        list.push(varint(&mut packed)?.cast_signed().into());
    }
    Ok(())
}

/// Decodes an entry of a map: a message of key (1) and value (2). An absent one is zero.
fn entry(of: Type, bytes: &[u8]) -> Result<(String, Value), Malformed> {
    let (mut key, mut found) = (String::new(), None);
    for field in Fields::of(bytes) {
        match field? {
            (1, content) => content.text()?.clone_into(&mut key),
            (2, content) => found = Some(value(of, content)?),
            _ => {}
        }
    }
    let value = match found {
        Some(found) => found,
        None => value(of, Content::Delimited(&[]))?,
    };
    Ok((key, value))
}

fn value(of: Type, content: Content<'_>) -> Result<Value, Malformed> {
    Ok(match of {
        Type::Bool => (content.varint()? != 0).into(),
        Type::Int => content.varint()?.cast_signed().into(),
        Type::String => content.text()?.into(),
        Type::Bytes => STANDARD.encode(content.delimited()?).into(),
        Type::Quantity => {
            wrapped(content)?.map(Content::text).transpose()?.unwrap_or_default().into()
        }
        Type::IntOrString => int_or_string(content.delimited()?)?,
        Type::Time => time(content.delimited()?, timestamp)?,
        Type::MicroTime => time(content.delimited()?, micro_timestamp)?,
        Type::Raw => raw(content)?,
        Type::Strings => strings(content.delimited()?)?,
        Type::Message(place) => object(SCHEMA.message(place), content.delimited()?)?.into(),
    })
}

/// Returns field 1 of a message that has no other.
fn wrapped(content: Content<'_>) -> Result<Option<Content<'_>>, Malformed> {
    let mut found = None;
    for field in Fields::of(content.delimited()?) {
        if let (1, content) = field? {
            found = Some(content);
        }
    }
    Ok(found)
}

/// Decodes an IntOrString: the type (1) selects the number (2) or, if it is 1, the text (3).
fn int_or_string(bytes: &[u8]) -> Result<Value, Malformed> {
    let (mut is_text, mut number, mut string) = (false, 0, String::new());
    for field in Fields::of(bytes) {
        match field? {
            (1, content) => is_text = content.varint()? == 1,
            (2, content) => number = content.varint()?.cast_signed(),
            (3, content) => content.text()?.clone_into(&mut string),
            _ => {}
        }
    }
    Ok(if is_text { string.into() } else { number.into() })
}

/// Decodes seconds (1) and nanoseconds (2) since the epoch; null if both are absent.
fn time(bytes: &[u8], write: fn(Time) -> String) -> Result<Value, Malformed> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    for field in Fields::of(bytes) {
        match field? {
            (1, content) => seconds = content.varint()?.cast_signed(),
            (2, content) => nanos = content.varint()?.cast_signed(),
            _ => {}
        }
    }
    let nanos = Time::from_secs(seconds).as_nanos().saturating_add(nanos);
    Ok(write(Time::from_nanos(nanos)).into())
}

fn raw(content: Content<'_>) -> Result<Value, Malformed> {
    match wrapped(content)?.map(Content::delimited).transpose()? {
        None | Some([]) => Ok(Value::Null),
        Some(json) => serde_json::from_slice(json).map_err(|_| Malformed::Json),
    }
}

fn strings(bytes: &[u8]) -> Result<Value, Malformed> {
    let mut strings = Vec::new();
    for field in Fields::of(bytes) {
        if let (1, content) = field? {
            strings.push(content.text()?.into());
        }
    }
    Ok(Value::Array(strings))
}
