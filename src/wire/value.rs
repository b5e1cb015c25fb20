//! JSON values from any format, with the fields that a document gives twice.

use std::cell::{Cell, RefCell};
use std::fmt;

use known_fields::Path;
use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

/// A value of the input.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Parsed {
    /// The value. Of a field that is given twice it has the last one.
    pub(crate) value: Value,
    /// The paths of fields that are given twice.
    pub(crate) repeated: Vec<String>,
}

/// Reads a value of at most this size: a value costs one, and a text its length.
///
/// # Errors
/// The value cannot be read, or is too large.
pub(super) fn read<'de, D: Deserializer<'de>>(
    deserializer: D,
    most: usize,
) -> Result<Parsed, D::Error> {
    let (left, repeated) = (Cell::new(most), RefCell::default());
    let value = Bounded { left: &left, repeated: &repeated, path: &Path::Root };
    let value = value.deserialize(deserializer)?;
    Ok(Parsed { value, repeated: repeated.into_inner() })
}

/// Reads a value, as long as its document has not used up what is left. Aliases of aliases would grow without a bound.
#[derive(Clone, Copy)]
struct Bounded<'a> {
    left: &'a Cell<usize>,
    repeated: &'a RefCell<Vec<String>>,
    path: &'a Path<'a>,
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.charge(1)?;
        deserializer.deserialize_any(self)
    }
}

impl Bounded<'_> {
    fn charge<E: Error>(self, size: usize) -> Result<(), E> {
        let left = self.left.get().checked_sub(size);
        self.left.set(left.ok_or_else(|| E::custom("document contains excessive aliasing"))?);
        Ok(())
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
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

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        Value::deserialize(value.into_deserializer())
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        Value::deserialize(value.into_deserializer())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.charge(value.len())?;
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        loop {
            let path = Path::Item(self.path, values.len());
            match items.next_element_seed(Bounded { path: &path, ..self })? {
                Some(value) => values.push(value),
                None => return Ok(values.into()),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            self.charge(key.len())?;
            let path = Path::Field(self.path, &key);
            let value = fields.next_value_seed(Bounded { path: &path, ..self })?;
            if values.contains_key(&key) {
                self.repeated.borrow_mut().push(path.to_string());
            }
            values.insert(key, value);
        }
        Ok(values.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_are_given_twice_are_found_at_every_depth() {
        let text = r#"{"a": {"b": 1, "b": 2}, "c": [{"d": null}, {"d": 1, "d": true}], "a": 3}"#;
        let found = read(&mut serde_json::Deserializer::from_str(text), usize::MAX).unwrap();
        assert_eq!(found.repeated, ["a.b", "c[1].d", "a"]);
        assert_eq!(found.value, json!({"a": 3, "c": [{"d": null}, {"d": true}]}));
    }
}
