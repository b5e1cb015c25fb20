//! The CustomResourceDefinition itself: its defaults, its rules and its status, and the resources
//! it declares.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use framework::Time;
use serde::Deserialize;
use serde_json::{Value, json};

use super::schema::Schema;
use super::{Definition, columns};
use crate::metadata::name;
use crate::object::{entries, put, set_condition, text};
use crate::resources::{self, Resource, Subresource};
use crate::status::Cause;

/// Returns the resources of a definition: one for each served version.
pub(super) fn resources(definition: &Value) -> Vec<&'static Resource> {
    let served = entries(definition, "/spec/versions").filter(|version| version["served"] == true);
    served.map(|version| resource(&definition["spec"], version)).collect()
}

/// Returns the resource of one version.
///
/// Collections, watches and informers refer to their resource for as long as they live, so it is
/// `'static` like the built-in ones: each distinct version that the process meets is leaked once.
fn resource(spec: &Value, version: &Value) -> &'static Resource {
    static KNOWN: Mutex<BTreeMap<String, &'static Resource>> = Mutex::new(BTreeMap::new());
    let key = json!([spec["group"], spec["scope"], spec["names"], version]).to_string();
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(key).or_insert_with(|| Box::leak(Box::new(leaked_resource(spec, version))))
}

fn leaked_resource(spec: &Value, version: &Value) -> Resource {
    let names = |pointer: &str| -> &'static [&'static str] {
        let names = entries(spec, pointer).map(leaked);
        names.collect::<Vec<_>>().leak()
    };
    let status = version.pointer("/subresources/status").is_some_and(Value::is_object);
    let subresources: &[Subresource] = if status { &[resources::STATUS] } else { &[] };
    let definition = Definition {
        list_kind: text(spec, "/names/listKind").to_owned(),
        schema: Schema::deserialize(&version["schema"]["openAPIV3Schema"]).unwrap_or_default(),
        columns: columns::of(version),
    };
    Resource {
        short_names: names("/names/shortNames"),
        categories: names("/names/categories"),
        namespaced: spec["scope"] == "Namespaced",
        subresources,
        generation: true,
        custom: Some(Box::leak(Box::new(definition))),
        ..Resource::new(
            leaked(&spec["group"]),
            leaked(&version["name"]),
            leaked(&spec["names"]["plural"]),
            leaked(&spec["names"]["singular"]),
            leaked(&spec["names"]["kind"]),
        )
    }
}

fn leaked(text: &Value) -> &'static str {
    text.as_str().unwrap_or_default().to_owned().leak()
}

/// Sets the defaults of a definition.
pub(crate) fn add_defaults(definition: &mut Value) {
    if !definition["spec"].is_object() {
        return;
    }
    let kind = text(definition, "/spec/names/kind").to_owned();
    let defaults = [
        (["spec", "names", "singular"].as_slice(), json!(kind.to_lowercase())),
        (&["spec", "names", "listKind"], json!(format!("{kind}List"))),
        (&["spec", "conversion"], json!({"strategy": "None"})),
    ];
    for (path, default) in defaults {
        let absent = path.iter().fold(&*definition, |value, field| &value[field]).is_null();
        if absent {
            put(definition, path, default);
        }
    }
}

/// Returns the status of a definition that has just been created: its kind is not served yet.
pub(crate) fn initial_status(definition: &Value) -> Value {
    json!({
        "conditions": null,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": storage_versions(definition).collect::<Vec<_>>(),
    })
}

/// Accepts the names of a definition and establishes it, so that its kind is served.
pub(crate) fn establish(definition: &mut Value, now: Time) {
    let names = definition["spec"]["names"].clone();
    put(definition, &["status", "acceptedNames"], names);
    let conditions = [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ];
    for (of_type, reason, message) in conditions {
        let condition =
            json!({"type": of_type, "status": "True", "reason": reason, "message": message});
        set_condition(definition, condition, now);
    }
}

fn storage_versions(definition: &Value) -> impl Iterator<Item = &str> {
    let versions = entries(definition, "/spec/versions");
    versions.filter(|version| version["storage"] == true).map(|version| text(version, "/name"))
}

/// Returns the faults of a definition, without a look at other objects.
pub(crate) fn check(definition: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &definition["spec"];
    let required = ["/group", "/scope", "/names/plural", "/names/kind"];
    for pointer in required.into_iter().filter(|pointer| text(spec, pointer).is_empty()) {
        causes.push(Cause::required(format!("spec{}", pointer.replace('/', ".")), ""));
    }
    let (group, plural) = (text(spec, "/group"), text(spec, "/names/plural"));
    if name(definition) != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &name(definition).into(), why));
    }
    let scopes = ["Cluster", "Namespaced"];
    if !text(spec, "/scope").is_empty() && !scopes.contains(&text(spec, "/scope")) {
        causes.push(Cause::not_supported("spec.scope", &spec["scope"], &scopes));
    }
    if resources::resource(group, plural).is_some() {
        let why = "is a built-in resource, which a definition cannot replace";
        causes.push(Cause::invalid("spec.names.plural", &plural.into(), why));
    }
    check_versions(definition, &mut causes);
    causes
}

fn check_versions(definition: &Value, causes: &mut Vec<Cause>) {
    if storage_versions(definition).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &definition["spec"]["versions"], why));
    }
    for (index, version) in entries(definition, "/spec/versions").enumerate() {
        let path = |field: &str| format!("spec.versions[{index}]{field}");
        if text(version, "/name").is_empty() {
            causes.push(Cause::required(path(".name"), ""));
        }
        let schema = &version["schema"]["openAPIV3Schema"];
        if !schema.is_object() {
            let why = "schemas are required";
            causes.push(Cause::required(path(".schema.openAPIV3Schema"), why));
        } else if text(schema, "/type").is_empty() {
            let why = "must not be empty at the root";
            causes.push(Cause::required(path(".schema.openAPIV3Schema.type"), why));
        } else if let Err(error) = Schema::deserialize(schema) {
            let why = format!("cannot be read: {error}");
            causes.push(Cause::invalid(path(".schema.openAPIV3Schema"), schema, &why));
        }
    }
}

/// Returns what is wrong with a change of a definition: its group and its scope stay.
pub(crate) fn check_change(old: &Value, new: &Value) -> Vec<Cause> {
    let changed =
        ["group", "scope"].into_iter().filter(|field| old["spec"][field] != new["spec"][field]);
    let cause = |field: &str| {
        Cause::invalid(format!("spec.{field}"), &new["spec"][field], "field is immutable")
    };
    changed.map(cause).collect()
}
