//! The fields of the kinds of Kubernetes: unknown and duplicate fields of objects.
//!
//! The API server finds them with `fieldValidation`, kubectl with `--validate`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

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
                let path = Path::Field(path, name);
                match known.get(name.as_str()) {
                    None => unknown.push(path.to_string()),
                    Some(name) => {
                        if let Some(known) = TYPES.get(name) {
                            find(known, value, &path, unknown);
                        }
                    }
                }
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

/// Returns the paths of fields that occur more than once in a JSON text; none if it does not parse.
pub fn duplicates(json: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let search = Search { path: &Path::Root, found: &mut found };
    // The decoder of the body reports syntax errors.
    let _ = search.deserialize(&mut serde_json::Deserializer::from_slice(json));
    found
}

/// The name of a field, borrowed from the text if it has no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Maximum number of names that are compared one by one.
const FEW: usize = 16;

/// The names of the fields of an object.
#[derive(Default)]
struct Seen<'a> {
    first: Vec<Cow<'a, str>>,
    others: BTreeSet<Cow<'a, str>>,
}

impl<'a> Seen<'a> {
    fn contains(&self, name: &str) -> bool {
        self.first.iter().any(|seen| *seen == name) || self.others.contains(name)
    }

    fn insert(&mut self, name: Cow<'a, str>) {
        match self.first.len() < FEW {
            true => self.first.push(name),
            false => drop(self.others.insert(name)),
        }
    }
}

/// A search for duplicate fields below a path.
struct Search<'a> {
    path: &'a Path<'a>,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Search<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Search<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = Seen::default();
        while let Some(Name(name)) = map.next_key::<Name<'_>>()? {
            let path = Path::Field(self.path, &name);
            if seen.contains(&name) {
                self.found.push(path.to_string());
            }
            map.next_value_seed(Search { path: &path, found: self.found })?;
            seen.insert(name);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for index in 0.. {
            let path = Path::Item(self.path, index);
            if items.next_element_seed(Search { path: &path, found: self.found })?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
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
    fn every_referenced_type_is_in_the_table() {
        let referenced = TYPES.values().flat_map(|fields| fields.values());
        let missing: Vec<_> = referenced.filter(|name| !name.is_empty() && !has(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(has("ConfigMap") && has("CSINode") && !has("Ingress"));
    }

    #[test]
    fn duplicate_fields_are_found_at_every_depth() {
        let text =
            br#"{"a": {"b": 1, "b": 2.5}, "c": [{"d": null}, {"d": "x", "d": true}], "a": -1}"#;
        assert_eq!(duplicates(text), ["a.b", "c[1].d", "a"]);
        assert!(duplicates(b"{\"a\": 1, ").is_empty());
    }
}
