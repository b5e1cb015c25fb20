//! YAML text from and to JSON values. The only module of `wire` that uses the YAML library.

use std::cell::Cell;
use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::documents::Document;

/// Splits a stream into its documents. Documents without content are left out.
///
/// # Errors
/// The first document that does not parse, with the line in the stream.
pub(crate) fn documents(text: &str) -> Result<Vec<Document>, String> {
    let mut documents = Vec::new();
    for (line, part) in parts(text) {
        if has_content(part) {
            documents.push(Document { line, value: parse(part, line)? });
        }
    }
    Ok(documents)
}

/// Serializes one document.
///
/// # Errors
/// The value has maps with keys that are no texts.
pub fn to_string(value: &impl Serialize) -> Result<String, String> {
    serde_yaml::to_string(value).map_err(|error| error.to_string())
}

/// Returns the maximum number of values in a document: without aliases each value takes a byte at least.
pub(crate) const fn most_values(text: &str) -> usize {
    1000 + 16 * text.len()
}

/// Parses one document that begins at this line of its stream.
fn parse(part: &str, line: usize) -> Result<Value, String> {
    let read = |text: &str| {
        let left = Cell::new(most_values(part));
        Bounded(&left).deserialize(serde_yaml::Deserializer::from_str(text))
    };
    read(part).or_else(|_| {
        // Parses again after that many empty lines, to get the line numbers of the stream.
        let padded = "\n".repeat(line.saturating_sub(1)) + part;
        read(&padded).map_err(|error| error.to_string())
    })
}

/// Reads a value, as long as its document has not used up what is left: a value costs one, and a text its length.
/// Aliases of aliases would grow without a bound.
#[derive(Clone, Copy)]
struct Bounded<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.charge(1)?;
        deserializer.deserialize_any(self)
    }
}

impl Bounded<'_> {
    fn charge<E: Error>(self, size: usize) -> Result<(), E> {
        let left = self.0.get().checked_sub(size);
        self.0.set(left.ok_or_else(|| E::custom("document contains excessive aliasing"))?);
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
        while let Some(value) = items.next_element_seed(self)? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            self.charge(key.len())?;
            values.insert(key, fields.next_value_seed(self)?);
        }
        Ok(values.into())
    }
}

/// Returns the texts between the `---` lines, each with the number of its first line.
fn parts(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if is_separator(line) {
            parts.push((start_line, &text[start..offset]));
            // Text after the dashes on the same line belongs to the next document.
            start = offset + "---".len();
            start_line = index + 1;
        }
        offset += line.len();
    }
    parts.push((start_line, &text[start..]));
    parts
}

fn is_separator(line: &str) -> bool {
    line.strip_prefix("---")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// Whether a text has more than comments, directives and the end marker.
fn has_content(part: &str) -> bool {
    let is_idle = |line: &str| line.is_empty() || line.starts_with(['#', '%']) || line == "...";
    !part.lines().all(|line| is_idle(line.trim()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_have_line_numbers_and_empty_ones_are_left_out() {
        let text = "# a comment\n---\na: 1\n---\n---\n# nothing\n--- \nb:\n- 2\n---\n";
        let documents = documents(text).unwrap();
        let found: Vec<_> = documents.iter().map(|d| (d.line, d.value.clone())).collect();
        assert_eq!(found, [(2, json!({"a": 1})), (7, json!({"b": [2]}))]);
    }

    #[test]
    fn aliases_do_not_grow_without_a_bound() {
        let long = vec!["x"; 2000].join(", ");
        let mut text = format!("a: &a [{long}]\n");
        for (before, name) in ["a", "b", "c", "d"].into_iter().zip(["b", "c", "d", "e"]) {
            let aliases = vec![format!("*{before}"); 9].join(", ");
            text += &format!("{name}: &{name} [{aliases}]\n");
        }
        let error = documents(&text).unwrap_err();
        assert!(error.contains("document contains excessive aliasing"), "{error}");
        let some = documents("a: &a [1, 2]\nb: [*a, *a, *a]\n").unwrap();
        assert_eq!(some[0].value["b"], json!([[1, 2], [1, 2], [1, 2]]));
    }

    #[test]
    fn error_names_the_line_of_the_stream() {
        let error = documents("a: 1\n---\nb: 2\nc: [\n").unwrap_err();
        assert!(error.contains("line 5"), "{error}");
    }

    #[test]
    fn dashes_inside_a_text_do_not_separate() {
        let documents = documents("a: |\n  --- x\n  ---\nb: ---x\n").unwrap();
        assert_eq!(documents.len(), 1);
        assert_eq!(documents[0].value, json!({"a": "--- x\n---\n", "b": "---x"}));
    }

    #[test]
    fn content_may_follow_the_dashes() {
        assert_eq!(documents("--- {a: 1}\n").unwrap()[0].value, json!({"a": 1}));
    }
}
