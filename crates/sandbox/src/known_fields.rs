//! Unknown and duplicate fields of objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::resources::{EVENTS_V1, Resource};

/// The fields of a type with the types of their values; an empty type allows anything.
type Fields = BTreeMap<&'static str, &'static str>;

static TYPES: LazyLock<BTreeMap<&str, Fields>> = LazyLock::new(|| {
    let lines = include_str!("known_fields.txt").lines();
    lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, line)| (name, fields(line)))
        .collect()
});

fn fields(line: &'static str) -> Fields {
    line.split(' ').map(|field| field.split_once('=').unwrap_or((field, ""))).collect()
}

/// Removes unknown fields of the object and returns their paths. Kinds without a table keep all
/// fields.
pub(crate) fn remove_unknown(resource: &Resource, object: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(definition) = resource.custom {
        if let (Some(known), Some(metadata)) = (TYPES.get("ObjectMeta"), object.get_mut("metadata"))
        {
            prune(known, metadata, &Path::Field(&Path::Root, "metadata"), &mut unknown);
        }
        unknown.extend(definition.prune(object));
        return unknown;
    }
    if let (Some(known), true) = (TYPES.get(resource.kind), resource != EVENTS_V1) {
        prune(known, object, &Path::Root, &mut unknown);
    }
    unknown
}

fn prune(known: &Fields, value: &mut Value, path: &Path<'_>, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                let path = Path::Field(path, name);
                match known.get(name.as_str()) {
                    None => unknown.push(path.to_string()),
                    Some(type_name) => {
                        if let Some(known) = TYPES.get(type_name) {
                            prune(known, value, &path, unknown);
                        }
                    }
                }
            }
            fields.retain(|name, _| known.contains_key(name.as_str()));
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune(known, item, &Path::Item(path, index), unknown);
            }
        }
        _ => {}
    }
}

/// The path of a value, formatted only for a fault.
pub(crate) enum Path<'a> {
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
pub(crate) fn duplicates(json: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let search = Search { path: &Path::Root, found: &mut found };
    // The decoder of the body reports syntax errors.
    let _ = search.deserialize(&mut serde_json::Deserializer::from_slice(json));
    found
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
        let mut seen = BTreeSet::new();
        while let Some(name) = map.next_key::<String>()? {
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
    use crate::resources::{CONFIGMAPS, CSINODES, INGRESSES, PODS, RESOURCECLAIMS};

    #[test]
    fn unknown_fields_are_removed_and_reported() {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"any": "x"}},
            "bogus": 1,
            "spec": {"containers": [{"name": "c", "imag": "x"}], "nodeSelector": {"any": "x"}},
        });
        assert_eq!(remove_unknown(PODS, &mut pod), ["bogus", "spec.containers[0].imag"]);
        assert_eq!(pod["spec"]["containers"], json!([{"name": "c"}]));
        assert_eq!(pod["metadata"]["labels"]["any"], "x");
        assert!(remove_unknown(PODS, &mut pod).is_empty());
    }

    #[test]
    fn kinds_without_a_table_keep_all_fields() {
        let mut ingress = json!({"spec": {"whatever": 1}});
        assert!(remove_unknown(INGRESSES, &mut ingress).is_empty());
        assert_eq!(ingress["spec"]["whatever"], 1);
    }

    #[test]
    fn claims_for_devices_differ_from_the_claims_that_a_container_names() {
        let mut claim =
            json!({"metadata": {"name": "c"}, "name": "c", "spec": {"devices": {"request": []}}});
        assert_eq!(remove_unknown(RESOURCECLAIMS, &mut claim), ["name", "spec.devices.request"]);
        assert_eq!(claim, json!({"metadata": {"name": "c"}, "spec": {"devices": {}}}));
        let containers = json!([{"resources": {"claims": [{"name": "gpu", "spec": 1}]}}]);
        let mut pod = json!({"spec": {"containers": containers}});
        let unknown = remove_unknown(PODS, &mut pod);
        assert_eq!(unknown, ["spec.containers[0].resources.claims[0].spec"]);
    }

    #[test]
    fn every_referenced_type_is_in_the_table() {
        for (name, fields) in TYPES.iter() {
            for value in fields.values().filter(|value| !value.is_empty()) {
                assert!(TYPES.contains_key(value), "{value} of {name}");
            }
        }
        assert!(TYPES.contains_key(CONFIGMAPS.kind) && TYPES.contains_key(CSINODES.kind));
    }

    #[test]
    fn duplicate_fields_are_found_at_every_depth() {
        let text =
            br#"{"a": {"b": 1, "b": 2.5}, "c": [{"d": null}, {"d": "x", "d": true}], "a": -1}"#;
        assert_eq!(duplicates(text), ["a.b", "c[1].d", "a"]);
        assert!(duplicates(b"{\"a\": 1, ").is_empty());
    }
}
