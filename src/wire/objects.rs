//! From documents to objects: lists are flattened, and every object has its place, version and
//! kind.

use std::path::PathBuf;

use serde_json::Value;

use super::{Fault, Faults, Location, documents, source};

/// An object of the input.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Its place in the input.
    pub(crate) at: Location,
    /// Its `apiVersion`; also in the value, even if only the list had it.
    pub api_version: String,
    /// Its `kind`; also in the value.
    pub kind: String,
    /// The whole object.
    pub value: Value,
}

/// Reads all objects of the paths: files, folders, or `-` for standard input.
///
/// # Errors
/// All errors, not only the first.
pub fn read_objects(paths: &[PathBuf]) -> Result<Vec<Object>, Faults> {
    let (mut objects, mut faults) = (Vec::new(), Vec::new());
    for_each_object(paths, |object| match object {
        Ok(object) => objects.push(object),
        Err(fault) => faults.push(fault),
    })?;
    if faults.is_empty() { Ok(objects) } else { Err(Faults(faults)) }
}

/// Passes on all objects of the paths, and every error.
///
/// # Errors
/// A path that does not exist.
pub(super) fn for_each_object(
    paths: &[PathBuf],
    mut each: impl FnMut(Result<Object, Fault>),
) -> Result<(), Fault> {
    for path in source::files(paths)? {
        match source::read(&path).and_then(|source| documents::of(&source)) {
            Ok(documents) => {
                documents.into_iter().for_each(|(at, value)| unroll(&at, value, None, &mut each))
            }
            Err(fault) => each(Err(fault)),
        }
    }
    Ok(())
}

/// Passes on the object in a value, or each object of a list. `inherited` is version and kind of
/// items without their own, as in a `PodList`.
fn unroll(
    at: &Location,
    mut value: Value,
    inherited: Option<&(String, String)>,
    each: &mut dyn FnMut(Result<Object, Fault>),
) {
    if let (Some(object), Some((version, kind))) = (value.as_object_mut(), inherited) {
        object.entry("apiVersion").or_insert_with(|| version.as_str().into());
        object.entry("kind").or_insert_with(|| kind.as_str().into());
    }
    let (api_version, kind) = match version_and_kind(&value) {
        Ok(type_) => type_,
        Err(message) => return each(Err(Fault::new(at.clone(), message))),
    };
    match kind.strip_suffix("List") {
        Some(item) if value.get("items").is_some() => {
            let inherited = (!item.is_empty()).then(|| (api_version, item.to_owned()));
            unroll_items(at, &kind, value["items"].take(), inherited.as_ref(), each);
        }
        _ => each(Ok(Object { at: at.clone(), api_version, kind, value })),
    }
}

fn unroll_items(
    at: &Location,
    kind: &str,
    items: Value,
    inherited: Option<&(String, String)>,
    each: &mut dyn FnMut(Result<Object, Fault>),
) {
    match items {
        Value::Null => {}
        Value::Array(items) => {
            for (index, item) in items.into_iter().enumerate() {
                unroll(&at.item(index), item, inherited, each);
            }
        }
        other => {
            let message = format!("{kind}: items: expected a list, found {}", sort_of(&other));
            each(Err(Fault::new(at.clone(), message)));
        }
    }
}

fn version_and_kind(value: &Value) -> Result<(String, String), String> {
    if !value.is_object() {
        return Err(format!("is no Kubernetes object: found {}", sort_of(value)));
    }
    let field = |name: &str| match value.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(other) => Err(format!(
            "is no Kubernetes object: {name}: expected a name, found {}",
            sort_of(other)
        )),
        None => Err(format!("is no Kubernetes object: {name} is missing")),
    };
    Ok((field("apiVersion")?, field("kind")?))
}

/// Describes the type of a value.
fn sort_of(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) if text.chars().count() <= 40 => format!("{text:?}"),
        Value::String(_) => "a text".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Returns the objects of a value, as if it came from standard input.
#[cfg(test)]
pub(crate) fn unrolled(value: Value) -> Vec<Result<Object, Fault>> {
    let mut found = Vec::new();
    unroll(&Location::named("-"), value, None, &mut |object| found.push(object));
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_are_flattened_and_items_inherit_the_kind() {
        let pods = json!({"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {}}]});
        let empty = json!({"apiVersion": "v1", "kind": "NodeList", "items": null});
        let found = unrolled(json!({"apiVersion": "v1", "kind": "List", "items": [pods, empty]}));
        let [Ok(pod)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((pod.api_version.as_str(), pod.kind.as_str()), ("v1", "Pod"));
        assert_eq!(pod.value["kind"], "Pod", "it can be written back");
        assert_eq!(pod.at.to_string(), "-: items[0]: items[0]");
    }

    #[test]
    fn error_names_the_index_in_the_list() {
        let object = json!({"apiVersion": "v1", "kind": "Node"});
        let found = unrolled(json!({"apiVersion": "v1", "kind": "List", "items": [object, 3]}));
        let [Ok(_), Err(fault)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(fault.to_string(), "-: items[1]: is no Kubernetes object: found 3");
    }

    #[test]
    fn an_object_may_be_called_list() {
        let found = unrolled(json!({"apiVersion": "example.com/v1", "kind": "PriceList"}));
        let [Ok(object)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(object.kind, "PriceList");
    }
}
