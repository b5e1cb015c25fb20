//! The fields of the kinds of Kubernetes: unknown and duplicate fields of objects.
//!
//! The API server finds them with `fieldValidation`, kubectl with `--validate`.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

/// The fields of a type with the types of their values; an empty type allows anything.
type Fields = FxHashMap<&'static str, &'static str>;

static TYPES: LazyLock<FxHashMap<&str, Fields>> = LazyLock::new(|| {
    let lines = include_str!("kinds.txt").lines();
    lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, line)| (name, fields(line)))
        .collect()
});

fn fields(line: &'static str) -> Fields {
    line.split(' ').map(|field| field.split_once('=').unwrap_or((field, ""))).collect()
}

/// Whether the fields of this kind or type are known.
pub fn has(name: &str) -> bool {
    TYPES.contains_key(name)
}

/// Returns the paths of unknown fields of an object of this kind; none of a kind without a table.
pub fn unknown(kind: &str, object: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(known) = TYPES.get(kind) {
        find(known, object, &Path::Root, &mut unknown);
    }
    unknown
}

/// Removes the unknown fields of an object of this kind and returns their paths.
pub fn remove_unknown(kind: &str, object: &mut Value) -> Vec<String> {
    remove_unknown_at(kind, object, &Path::Root)
}

/// Does the same for an object that was made from `stored`, which has no unknown fields. A part
/// that is the same in both is not looked at.
pub fn remove_unknown_of_change(kind: &str, stored: &Value, object: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    let (Some(known), Value::Object(fields)) = (TYPES.get(kind), &*object) else {
        return remove_unknown(kind, object);
    };
    for (name, value) in fields.iter().filter(|(name, value)| stored.get(name) != Some(value)) {
        find_field(known, name, value, &Path::Root, &mut unknown);
    }
    if !unknown.is_empty() {
        prune(known, object);
    }
    unknown
}

/// The same for a value of this type at a path.
pub fn remove_unknown_at(name: &str, value: &mut Value, path: &Path<'_>) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(known) = TYPES.get(name) {
        find(known, value, path, &mut unknown);
        if !unknown.is_empty() {
            prune(known, value);
        }
    }
    unknown
}

fn find(known: &Fields, value: &Value, path: &Path<'_>, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                find_field(known, name, value, path, unknown);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find(known, item, &Path::Item(path, index), unknown);
            }
        }
        _ => {}
    }
}

fn find_field(
    known: &Fields,
    name: &str,
    value: &Value,
    path: &Path<'_>,
    unknown: &mut Vec<String>,
) {
    let path = Path::Field(path, name);
    match known.get(name) {
        None => unknown.push(path.to_string()),
        Some(name) => {
            if let Some(known) = TYPES.get(name) {
                find(known, value, &path, unknown);
            }
        }
    }
}

fn prune(known: &Fields, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| known.contains_key(name.as_str()));
            for (name, value) in fields {
                let known = known.get(name.as_str()).and_then(|name| TYPES.get(name));
                if let Some(known) = known {
                    prune(known, value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| prune(known, item)),
        _ => {}
    }
}

/// The path of a value, formatted only for a fault.
#[derive(Debug)]
pub enum Path<'a> {
    /// The object itself.
    Root,
    /// A field of an object.
    Field(&'a Path<'a>, &'a str),
    /// An item of a list.
    Item(&'a Path<'a>, usize),
}

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Decodes a JSON text, and returns the paths of fields that occur more than once with it. The last
/// one counts.
///
/// # Errors
/// The text does not parse.
pub fn decode(json: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let decoding = Decoding { path: &Path::Root, duplicates: &mut duplicates };
    let value = decoding.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, duplicates))
}

/// The decoding of the value at a path.
struct Decoding<'a> {
    path: &'a Path<'a>,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Decoding<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Decoding<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let path = Path::Field(self.path, &name);
            let decoding = Decoding { path: &path, duplicates: self.duplicates };
            let value = map.next_value_seed(decoding)?;
            match fields.entry(name) {
                Entry::Vacant(field) => drop(field.insert(value)),
                Entry::Occupied(mut field) => {
                    self.duplicates.push(Path::Field(self.path, field.key()).to_string());
                    field.insert(value);
                }
            }
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        loop {
            let path = Path::Item(self.path, values.len());
            let decoding = Decoding { path: &path, duplicates: self.duplicates };
            match items.next_element_seed(decoding)? {
                Some(value) => values.push(value),
                None => return Ok(Value::Array(values)),
            }
        }
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_found_and_removed() {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"any": "x"}},
            "bogus": 1,
            "spec": {"containers": [{"name": "c", "imag": "x"}], "nodeSelector": {"any": "x"}},
        });
        let expected = ["bogus", "spec.containers[0].imag"];
        assert_eq!(unknown("Pod", &pod), expected);
        assert_eq!(remove_unknown("Pod", &mut pod), expected);
        assert_eq!(pod["spec"]["containers"], json!([{"name": "c"}]));
        assert_eq!((&pod["metadata"]["labels"]["any"], pod.get("bogus")), (&json!("x"), None));
        assert!(remove_unknown("Pod", &mut pod).is_empty());
    }

    #[test]
    fn unknown_fields_of_a_change_are_found_and_removed() {
        let stored = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}});
        let mut same = stored.clone();
        assert!(remove_unknown_of_change("Pod", &stored, &mut same).is_empty());
        let mut changed = stored.clone();
        changed["spec"]["containers"][0]["imag"] = json!("x");
        changed["bogus"] = json!(1);
        let unknown = remove_unknown_of_change("Pod", &stored, &mut changed);
        assert_eq!(unknown, ["bogus", "spec.containers[0].imag"]);
        assert_eq!(changed, stored);
        let mut other = json!({"bogus": 1});
        assert_eq!(remove_unknown_of_change("Pod", &json!(null), &mut other), ["bogus"]);
    }

    #[test]
    fn every_referenced_type_is_in_the_table() {
        let referenced = TYPES.values().flat_map(|fields| fields.values());
        let missing: Vec<_> = referenced.filter(|name| !name.is_empty() && !has(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(has("ConfigMap") && has("CSINode") && !has("Ingress"));
    }

    #[test]
    fn duplicate_fields_are_found_at_every_depth() {
        let text =
            r#"{"a": {"b": 1, "b": 2.5}, "c": [{"d": null}, {"d": "x", "d": true}], "a": -1}"#;
        let (value, duplicates) = decode(text.as_bytes()).unwrap();
        assert_eq!(duplicates, ["a.b", "c[1].d", "a"]);
        assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn texts_that_do_not_parse_have_the_errors_of_serde_json() {
        for text in [r#"{"a": 1, "#, r#"{"a": 1} 2"#, "", "[1", r#"{1: 2}"#, r#"["\ud800"]"#] {
            let expected = serde_json::from_str::<Value>(text).unwrap_err().to_string();
            assert_eq!(decode(text.as_bytes()).unwrap_err().to_string(), expected, "{text}");
        }
    }
}
