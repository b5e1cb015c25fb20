//! Pods from templates, names, and the fields of workloads.

use serde_json::{Map, Value, json};

/// Characters of generated names: no vowels, to avoid words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Maximum length of a generated name without its suffix.
const LONGEST_BASE: usize = 58;

/// Length of the suffix of a generated name.
const SUFFIX: usize = 5;

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    match text(object, "/metadata/namespace") {
        "" => "default",
        namespace => namespace,
    }
}

pub(crate) fn is_terminating(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// Returns a number of pods; negative numbers count as 0.
pub(crate) fn count(object: &Value, pointer: &str) -> Option<usize> {
    let number = object.pointer(pointer)?.as_i64()?;
    Some(usize::try_from(number).unwrap_or(0))
}

/// Returns a number of pods; `None` if it is absent or null.
///
/// # Errors
/// The field has something that the API server refuses; with its path.
pub(super) fn checked_count(object: &Value, pointer: &str) -> Result<Option<usize>, String> {
    let Some(value) = object.pointer(pointer).filter(|own| !own.is_null()) else { return Ok(None) };
    let number = value.as_u64().and_then(|own| usize::try_from(own).ok());
    number.map(Some).ok_or_else(|| {
        let field = pointer.trim_start_matches('/').replace('/', ".");
        format!("{field}: {value} is no number of pods")
    })
}

/// Returns the controller in `ownerReferences`, if it is of this kind.
pub(crate) fn controller<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let mut owners = owners.into_iter().flatten();
    owners.find(|owner| owner["controller"] == true).filter(|owner| owner["kind"] == kind)
}

/// Returns kind, namespace and name of the controller in `ownerReferences`.
pub(super) fn controller_of(object: &Value) -> Option<(String, String, String)> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let [kind, name] = ["/kind", "/name"].map(|field| text(owner, field).to_owned());
    Some((kind, namespace(object).to_owned(), name))
}

/// Returns the UID of an object. That of a manifest is made up, the same in every run.
pub(super) fn uid(object: &Value) -> String {
    match text(object, "/metadata/uid") {
        "" => format!("{}/{}/{}", text(object, "/kind"), namespace(object), name(object)),
        uid => uid.to_owned(),
    }
}

pub(super) fn controller_reference(owner: &Value) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": uid(owner), "controller": true, "blockOwnerDeletion": true})
}

/// Returns the metadata of objects that are made from a template.
pub(super) fn metadata_of(template: &Value) -> Map<String, Value> {
    let fields = ["annotations", "finalizers", "labels"].into_iter();
    let given = fields
        .filter_map(|field| Some((field.to_owned(), template["metadata"].get(field)?.clone())));
    given.filter(|(_, value)| !value.is_null()).collect()
}

/// Returns a pod from the template of its controller, without a name; `None` without a template.
pub(super) fn pod_of(owner: &Value) -> Option<Value> {
    let template = owner.pointer("/spec/template").filter(|template| template.is_object())?;
    Some(pod_of_template(owner, template))
}

/// Returns a pod from a template of its controller, without a name.
pub(super) fn pod_of_template(owner: &Value, template: &Value) -> Value {
    let mut metadata = metadata_of(template);
    metadata.insert("namespace".to_owned(), namespace(owner).into());
    metadata.insert("ownerReferences".to_owned(), json!([controller_reference(owner)]));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

/// Sets a value in an object, and makes the objects around it.
pub(crate) fn put(object: &mut Value, path: &[&str], value: Value) {
    let mut place = object;
    for field in path {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[*field];
    }
    *place = value;
}

/// Returns the hash of a template, as names and labels have it. Kubernetes hashes the memory of the
/// Go object, so its hashes differ.
pub(super) fn hash(template: &Value) -> String {
    letters(fnv(&template.to_string()), 10)
}

/// Returns the name that a `generateName` of `base` and a hyphen gives the object of this number.
pub(crate) fn generated_name(base: &str, number: u64) -> String {
    name_after(&format!("{base}-"), number)
}

/// Returns the name that a `generateName` gives the object of this number, the same in every run.
pub fn name_after(prefix: &str, number: u64) -> String {
    let base = prefix.strip_suffix('-').unwrap_or(prefix);
    let suffix = letters(fnv(&format!("{base}/{number}")), SUFFIX);
    let end = base.char_indices().nth(LONGEST_BASE - 1).map_or(base.len(), |(end, _)| end);
    format!("{}{}{suffix}", &base[..end], &prefix[base.len()..])
}

/// FNV-1a.
fn fnv(text: &str) -> u64 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, fold)
}

fn letters(mut hash: u64, length: usize) -> String {
    let mut letters = String::with_capacity(length);
    for _ in 0..length {
        letters.push(char::from(ALPHABET[(hash % 27) as usize]));
        hash /= 27;
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_are_distinct_and_not_too_long() {
        let names: std::collections::BTreeSet<String> =
            (0..1000).map(|number| generated_name("web-5d", number)).collect();
        assert!(names.len() > 990, "{}", names.len());
        assert!(names.iter().all(|name| name.len() == "web-5d-".len() + SUFFIX));
        assert_eq!(generated_name(&"x".repeat(200), 1).len(), 63);
        assert_eq!(generated_name("web", 3), generated_name("web", 3));
    }
}
