//! From documents to objects: lists are flattened, and every object has its place, version and
//! kind.

use std::fmt;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde_json::Value;
use yaml::Parsed;

use super::collect::decode;
use super::documents::{self, Text};
use super::{Fault, Faults, Location, Origin, source};

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
    /// The paths of fields that are given twice.
    pub(crate) repeated: Vec<String>,
}

impl Object {
    /// Decodes the object.
    ///
    /// # Errors
    /// A field is unknown, is given twice, or has another type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        if let Some(path) = self.repeated.first() {
            return Err(self.fault(&format!("duplicate field {path:?}")));
        }
        decode(&self.value, &self.kind).map_err(|message| Fault::new(self.at.clone(), message))
    }

    /// Returns an error about the object.
    pub fn fault(&self, message: &str) -> Fault {
        Fault::new(self.at.clone(), format!("{}: {message}", self.kind))
    }
}

/// The objects of files.
#[derive(Debug, Default)]
pub struct ReadObjects {
    /// The objects, in the order of the input.
    pub objects: Vec<Object>,
    /// Files of folders that hold no objects of Kubernetes, or parts of them.
    pub strays: Vec<Stray>,
}

/// A part of the input.
#[derive(Debug)]
pub(super) enum Found {
    Object(Object),
    Fault(Fault),
    Stray(Stray),
}

/// A file of a folder, or a document in it, that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// The reason.
    pub(super) fault: Fault,
    /// Whether the text does not parse, so that it may hold anything.
    pub(super) is_unreadable: bool,
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; it is left out", self.fault)
    }
}

/// Reads all objects of the paths: files, folders, or `-` for standard input.
///
/// # Errors
/// All errors, not only the first.
pub fn read_objects(paths: &[PathBuf]) -> Result<ReadObjects, Faults> {
    let (mut read, mut faults) = (ReadObjects::default(), Vec::new());
    for_each_object(&Origin::of_paths(paths), |found| match found {
        Found::Object(object) => read.objects.push(object),
        Found::Fault(fault) => faults.push(fault),
        Found::Stray(stray) => read.strays.push(stray),
    })?;
    if faults.is_empty() { Ok(read) } else { Err(Faults(faults)) }
}

/// Reads all objects of a text with this name.
///
/// # Errors
/// All errors, not only the first.
pub fn objects_of(name: &str, text: String) -> Result<Vec<Object>, Faults> {
    let source = source::Source { name: name.into(), text };
    let (mut objects, mut faults) = (Vec::new(), Vec::new());
    for (at, text) in documents::of(&source)? {
        read(&at, text, None, &mut |object| match object {
            Ok(object) => objects.push(object),
            Err(fault) => faults.push(fault),
        });
    }
    if faults.is_empty() { Ok(objects) } else { Err(Faults(faults)) }
}

/// Passes on all objects of the origins, and every error. A document in a file of a folder that is
/// not an object is a stray.
///
/// # Errors
/// A path that does not exist.
pub(super) fn for_each_object(
    origins: &[Origin],
    mut each: impl FnMut(Found),
) -> Result<(), Fault> {
    for file in source::files(origins)? {
        let mut pass = |read: Result<Object, Fault>| each(found(read, file.is_of_folder));
        let source = match file.origin.read() {
            Ok(source) => source,
            Err(fault) => {
                pass(Err(fault));
                continue;
            }
        };
        match documents::of(&source) {
            Ok(documents) => {
                documents.into_iter().for_each(|(at, text)| read(&at, text, None, &mut pass));
            }
            Err(fault) => pass(Err(fault)),
        }
    }
    Ok(())
}

fn found(read: Result<Object, Fault>, is_of_folder: bool) -> Found {
    match read {
        Ok(object) => Found::Object(object),
        // An item of a list is meant to be an object.
        Err(fault) if is_of_folder && fault.at.items.is_empty() => {
            let is_unreadable = !fault.message.starts_with(NO_OBJECT);
            Found::Stray(Stray { fault, is_unreadable })
        }
        Err(fault) => Found::Fault(fault),
    }
}

/// Parses a text, item by item if it is a list, and passes on its objects.
fn read(
    at: &Location,
    text: Text<'_>,
    inherited: Option<&TypeMeta>,
    each: &mut dyn FnMut(Result<Object, Fault>),
) {
    if let Some(list) = text.list() {
        let inherited = of_items(list.version, &list.kind);
        for (index, item) in list.items.into_iter().enumerate() {
            read(&at.item(index), item, inherited.as_ref(), each);
        }
        return;
    }
    match text.parse() {
        // As for kubectl, a document that says null is none.
        Ok(parsed) if parsed.value.is_null() && at.items.is_empty() => {}
        Ok(parsed) => unroll(at, parsed, inherited, each),
        Err(message) => each(Err(Fault::new(at.clone(), message))),
    }
}

/// The type of an object.
struct TypeMeta {
    api_version: String,
    kind: String,
}

/// Returns the type of the items of a list without their own; `None` for a list of any
/// kind.
fn of_items(api_version: String, kind: &str) -> Option<TypeMeta> {
    let item = kind.strip_suffix("List").filter(|item| !item.is_empty())?;
    Some(TypeMeta { api_version, kind: item.to_owned() })
}

/// Passes on the object in a value, or each object of a list. `inherited` is the type of items
/// without their own, as in a `PodList`.
fn unroll(
    at: &Location,
    Parsed { mut value, repeated }: Parsed,
    inherited: Option<&TypeMeta>,
    each: &mut dyn FnMut(Result<Object, Fault>),
) {
    if let (Some(object), Some(own)) = (value.as_object_mut(), inherited) {
        object.entry("apiVersion").or_insert_with(|| own.api_version.as_str().into());
        object.entry("kind").or_insert_with(|| own.kind.as_str().into());
    }
    let TypeMeta { api_version, kind } = match type_of(&value) {
        Ok(own) => own,
        Err(message) => return each(Err(Fault::new(at.clone(), message))),
    };
    if kind == "List" || (kind.ends_with("List") && value.get("items").is_some()) {
        let inherited = of_items(api_version, &kind);
        let items = Parsed { value: value["items"].take(), repeated };
        return unroll_items(at, &kind, items, inherited.as_ref(), each);
    }
    each(Ok(Object { at: at.clone(), api_version, kind, value, repeated }));
}

fn unroll_items(
    at: &Location,
    kind: &str,
    items: Parsed,
    inherited: Option<&TypeMeta>,
    each: &mut dyn FnMut(Result<Object, Fault>),
) {
    match items.value {
        Value::Null => {}
        Value::Array(values) => {
            for (index, value) in values.into_iter().enumerate() {
                let prefix = format!("items[{index}].");
                let repeated = items.repeated.iter().filter_map(|path| path.strip_prefix(&prefix));
                let repeated = repeated.map(str::to_owned).collect();
                unroll(&at.item(index), Parsed { value, repeated }, inherited, each);
            }
        }
        other => {
            let message = format!("{kind}: items: expected a list, found {}", sort_of(&other));
            each(Err(Fault::new(at.clone(), message)));
        }
    }
}

const NO_OBJECT: &str = "is no Kubernetes object";

fn type_of(value: &Value) -> Result<TypeMeta, String> {
    if !value.is_object() {
        return Err(format!("{NO_OBJECT}: found {}", sort_of(value)));
    }
    let field = |name: &str| match value.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(other) => {
            Err(format!("{NO_OBJECT}: {name}: expected a name, found {}", sort_of(other)))
        }
        None => Err(format!("{NO_OBJECT}: {name} is missing")),
    };
    Ok(TypeMeta { api_version: field("apiVersion")?, kind: field("kind")? })
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
    let parsed = Parsed { value, repeated: Vec::new() };
    unroll(&Location::named("-"), parsed, None, &mut |object| found.push(object));
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
    fn lists_without_items_and_documents_without_content_hold_nothing() {
        assert!(unrolled(json!({"apiVersion": "v1", "kind": "List"})).is_empty());
        let text = "null\n---\n~\n---\n# nothing\n---\n{apiVersion: v1, kind: Node}\n";
        let found = objects_of("-", text.to_owned()).unwrap();
        let [node] = &found[..] else { panic!("{found:?}") };
        assert_eq!(node.at.to_string(), "-: document 3 (line 6)");
        let refused = objects_of("-", "{apiVersion: v1, kind: List, items: [null]}".to_owned());
        assert!(refused.unwrap_err().to_string().contains("found nothing"));
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
