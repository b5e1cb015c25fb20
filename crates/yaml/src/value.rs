//! JSON values from any format, with the fields that a document gives twice.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde_json::{Map, Value};

use super::{Parsed, plain};
use crate::known_fields::Path;

/// The key whose value is merged into the enclosing object.
const MERGE: &str = "<<";

/// What is kept while a document is read.
#[derive(Debug)]
pub(super) struct Document<'a> {
    /// The text of a YAML document; `None` for JSON.
    text: Option<&'a str>,
    /// What may still be read: a value costs one, and a text its length. Aliases of aliases would
    /// grow without a bound.
    left: Cell<usize>,
    repeated: RefCell<Vec<String>>,
    /// The index of the repeated field at which reading stops.
    stop_at: Option<usize>,
    /// The name of that field, once it was reached.
    stopped: RefCell<Option<String>>,
}

impl<'a> Document<'a> {
    pub(super) fn json() -> Self {
        Self {
            text: None,
            left: Cell::new(usize::MAX),
            repeated: RefCell::default(),
            stop_at: None,
            stopped: RefCell::default(),
        }
    }

    pub(super) fn yaml(text: &'a str) -> Self {
        // Without aliases each value takes a byte at least.
        let most = 1000 + 16 * text.len();
        Self { text: Some(text), left: Cell::new(most), ..Self::json() }
    }

    pub(super) fn that_stops_at(self, index: usize) -> Self {
        Self { stop_at: Some(index), ..self }
    }

    /// Returns the name of the field at which reading stopped.
    pub(super) fn stopped(&self) -> Option<String> {
        self.stopped.take()
    }

    fn charge<E: Error>(&self, size: usize) -> Result<(), E> {
        let left = self.left.get().checked_sub(size);
        self.left.set(left.ok_or_else(|| E::custom("document contains excessive aliasing"))?);
        Ok(())
    }

    /// Notes a repeated field. Returns whether reading stops at it.
    fn repeat(&self, path: String, name: &str) -> bool {
        let mut repeated = self.repeated.borrow_mut();
        let stops = self.stop_at == Some(repeated.len());
        repeated.push(path);
        if stops {
            *self.stopped.borrow_mut() = Some(name.to_owned());
        }
        stops
    }

    fn is_plain(&self, scalar: &str) -> bool {
        self.text.is_some_and(|text| plain::is_plain(scalar, text))
    }

    /// Returns what a part of the text means as the value of a field.
    fn meaning(&self, scalar: &str, field: Option<&str>) -> Value {
        let value = self.text.and_then(|_| plain::value_of(scalar, field));
        value.filter(|_| self.is_plain(scalar)).unwrap_or_else(|| scalar.into())
    }
}

/// Reads a value.
///
/// # Errors
/// The value cannot be read, or is too large.
pub(super) fn read<'de, D: Deserializer<'de>>(
    deserializer: D,
    document: &Document<'_>,
) -> Result<Parsed, D::Error> {
    let value = Reader { document, path: &Path::Root }.deserialize(deserializer)?;
    Ok(Parsed { value, repeated: document.repeated.take() })
}

/// Reads the value at a path.
#[derive(Clone, Copy)]
struct Reader<'a> {
    document: &'a Document<'a>,
    path: &'a Path<'a>,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.document.charge(1)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    #[expect(clippy::cast_precision_loss, reason = "as in Go, such a number is a float")]
    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        self.visit_f64(value as f64)
    }

    #[expect(clippy::cast_precision_loss, reason = "as in Go, such a number is a float")]
    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        if self.document.text.is_none() {
            return Ok(value.into());
        }
        let number = plain::number_of(value);
        number
            .map(Value::Number)
            .ok_or_else(|| E::custom(format!("json: unsupported value: {value}")))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.document.charge(value.len())?;
        Ok(value.into())
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Value, E> {
        self.document.charge(value.len())?;
        let field = match self.path {
            Path::Field(_, name) => Some(*name),
            _ => None,
        };
        Ok(self.document.meaning(value, field))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        loop {
            let path = Path::Item(self.path, values.len());
            match items.next_element_seed(Reader { path: &path, ..self })? {
                Some(value) => values.push(value),
                None => return Ok(values.into()),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        // The fields that came by a merge. They may be given again.
        let mut merged = Map::new();
        while let Some(Key { name, is_merge }) = fields.next_key_seed(KeyReader(self.document))? {
            self.document.charge(name.len())?;
            let path = Path::Field(self.path, &name);
            let is_repeated = values.contains_key(&name) && !merged.contains_key(&name);
            if is_repeated && !is_merge && self.document.repeat(path.to_string(), &name) {
                match fields.next_value_seed(Refusal)? {}
            }
            let value = fields.next_value_seed(Reader { path: &path, ..self })?;
            if is_merge {
                merge(value, &mut merged).map_err(A::Error::custom)?;
                values.extend(merged.clone());
            } else {
                merged.remove(&name);
                values.insert(name, value);
            }
        }
        Ok(values.into())
    }

    /// A value with a tag; the tag is ignored.
    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Value, A::Error> {
        let (_, value) = tagged.variant_seed(KeyReader(self.document))?;
        value.newtype_variant_seed(self)
    }
}

/// Merges an object, or a list of objects of which the first takes precedence.
fn merge(value: Value, into: &mut Map<String, Value>) -> Result<(), &'static str> {
    match value {
        Value::Object(fields) => into.extend(fields),
        Value::Array(objects) => {
            for object in objects.into_iter().rev() {
                let Value::Object(fields) = object else { return Err(NO_MAP) };
                into.extend(fields);
            }
        }
        _ => return Err(NO_MAP),
    }
    Ok(())
}

const NO_MAP: &str = "map merge requires map or sequence of maps as the value";

/// The name of a field; YAML allows other keys than texts.
struct Key {
    name: String,
    is_merge: bool,
}

impl Key {
    fn named(name: impl ToString) -> Self {
        Self { name: name.to_string(), is_merge: false }
    }
}

/// Reads the name of a field.
struct KeyReader<'a>(&'a Document<'a>);

impl<'de> DeserializeSeed<'de> for KeyReader<'_> {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeyReader<'_> {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Key, E> {
        Ok(Key::named(name))
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Key, E> {
        let is_merge = name == MERGE && self.0.is_plain(name);
        let name: Cow<'_, str> = match self.0.meaning(name, None) {
            Value::String(_) => name.into(),
            other => other.to_string().into(),
        };
        Ok(Key { name: name.into_owned(), is_merge })
    }

    fn visit_unit<E>(self) -> Result<Key, E> {
        Ok(Key::named("null"))
    }

    fn visit_bool<E>(self, name: bool) -> Result<Key, E> {
        Ok(Key::named(name))
    }

    fn visit_i64<E>(self, name: i64) -> Result<Key, E> {
        Ok(Key::named(name))
    }

    fn visit_u64<E>(self, name: u64) -> Result<Key, E> {
        Ok(Key::named(name))
    }

    fn visit_f64<E>(self, name: f64) -> Result<Key, E> {
        Ok(Key::named(name))
    }
}

/// Accepts no value: the error reports the position of the value.
struct Refusal;

impl<'de> DeserializeSeed<'de> for Refusal {
    type Value = Infallible;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Infallible, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Refusal {
    type Value = Infallible;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing")
    }
}
