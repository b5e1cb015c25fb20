//! A document before decoding: the common form of YAML and JSON.

use std::convert::Infallible;
use std::fmt;

use serde::de::{DeserializeSeed, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde::{Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

/// A value with the fields of objects in their order, including repeated ones.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Tree {
    /// The kind of value, in the terms of Go's JSON decoder.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::List(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// The last field called `name`, if the tree is an object and has one.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        let Self::Object(fields) = self else { return None };
        fields.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// Converts to a JSON value; of repeated fields the last one counts.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(value) => Value::Number(value.clone()),
            Self::Text(value) => Value::String(value.clone()),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| (name.clone(), value.to_value()));
                Value::Object(fields.collect())
            }
        }
    }

    /// A number that is a float in its text; Go prints integral floats as integers.
    fn float(value: f64) -> Option<Self> {
        // Up to 2^53 every integral float is exact.
        let integral = value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0;
        let number = match integral {
            #[expect(clippy::cast_possible_truncation, reason = "integral and in range")]
            true => Some(Number::from(value as i64)),
            false => Number::from_f64(value),
        };
        number.map(Self::Number)
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

/// The rules of a format.
pub(super) trait Format<'de>: Copy {
    /// Converts a text that appears verbatim in the document.
    fn borrowed(self, text: &'de str) -> Tree {
        Tree::Text(text.to_owned())
    }

    /// Called for a repeated field of an object; `true` ends parsing with an error at its value.
    fn repeated(self, _name: &str) -> bool {
        false
    }

    /// Called for each value, with a size of 1, and for each text, with its length; `false` ends parsing, because
    /// the values of the document take too much.
    fn takes(self, _size: usize) -> bool {
        true
    }

    /// Orders the fields of an object.
    fn object(self, fields: Vec<(String, Tree)>) -> Tree {
        Tree::Object(fields)
    }
}

/// Parses a value of a format.
#[derive(Clone, Copy)]
pub(super) struct Reader<F>(pub(super) F);

impl<'de, F: Format<'de>> DeserializeSeed<'de> for Reader<F> {
    type Value = Tree;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        self.charge(1)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: Format<'de>> Reader<F> {
    fn charge<E: Error>(self, size: usize) -> Result<(), E> {
        match self.0.takes(size) {
            true => Ok(()),
            false => Err(E::custom("document contains excessive aliasing")),
        }
    }
}

impl<'de, F: Format<'de>> Visitor<'de> for Reader<F> {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree, E> {
        Tree::float(value).ok_or_else(|| E::custom(format!("json: unsupported value: {value}")))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Tree, E> {
        self.charge(value.len())?;
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Tree, E> {
        self.charge(value.len())?;
        Ok(self.0.borrowed(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut fields = Vec::new();
        while let Some(Name(name)) = entries.next_key_seed(Key)? {
            self.charge(name.len())?;
            if fields.iter().any(|(own, _)| *own == name) && self.0.repeated(&name) {
                match entries.next_value_seed(Refusal)? {}
            }
            fields.push((name, entries.next_value_seed(self)?));
        }
        Ok(self.0.object(fields))
    }

    /// A value with a tag; the tag is ignored.
    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Tree, A::Error> {
        let (_, value) = tagged.variant_seed(Key)?;
        value.newtype_variant_seed(self)
    }
}

/// The name of a field; YAML allows other keys than texts.
struct Name(String);

/// Parses the name of a field.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Name;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Name, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Name, E> {
        Ok(Name(name.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Name, E> {
        Ok(Name("null".to_owned()))
    }

    fn visit_bool<E>(self, name: bool) -> Result<Name, E> {
        Ok(Name(name.to_string()))
    }

    fn visit_i64<E>(self, name: i64) -> Result<Name, E> {
        Ok(Name(name.to_string()))
    }

    fn visit_u64<E>(self, name: u64) -> Result<Name, E> {
        Ok(Name(name.to_string()))
    }

    fn visit_f64<E>(self, name: f64) -> Result<Name, E> {
        Ok(Name(name.to_string()))
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
