//! `metadata` of any object.

use crate::resources::Resource;

use super::field::{Faults, Field};
use super::names;

/// Maximum length of all annotations, keys and values together, in bytes.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Checks the metadata of a new object.
pub(super) fn create(resource: &Resource, metadata: &Field<'_>, faults: &mut Faults) {
    let (name, namespace) = (metadata.child("name"), metadata.child("namespace"));
    if name.is_empty() {
        faults.required(&name, "name or generateName is required");
    } else {
        object_name(resource, &name, faults);
    }
    if resource.namespaced {
        if faults.require(&namespace) {
            names::dns_label(&namespace, faults);
        }
    } else if !namespace.is_empty() {
        faults.forbidden(&namespace, "not allowed on this type");
    }
    content(metadata, faults);
}

/// Checks the metadata of a changed object.
pub(super) fn update(old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    let fixed = ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"];
    for field in fixed {
        if new.child(field).is_set() {
            faults.immutable(&old.child(field), &new.child(field));
        }
    }
    content(new, faults);
}

fn object_name(resource: &Resource, name: &Field<'_>, faults: &mut Faults) {
    match (resource.group, resource.plural) {
        ("", "namespaces") => names::dns_label(name, faults),
        ("", "services") => names::service_name(name, faults),
        ("rbac.authorization.k8s.io", _) => names::path_segment(name, faults),
        _ => names::subdomain(name, faults),
    }
}

fn content(metadata: &Field<'_>, faults: &mut Faults) {
    names::labels(&metadata.child("labels"), faults);
    annotations(&metadata.child("annotations"), faults);
    for finalizer in metadata.child("finalizers").items() {
        names::qualified_name(&finalizer, faults);
    }
    owner_references(&metadata.child("ownerReferences"), faults);
}

fn annotations(annotations: &Field<'_>, faults: &mut Faults) {
    let mut length = 0;
    for (key, value) in annotations.entries() {
        names::label_key(annotations, &key.to_lowercase(), faults);
        length += key.len() + value.text().len();
    }
    if length > ANNOTATIONS_MAX {
        faults.too_long(annotations, ANNOTATIONS_MAX);
    }
}

fn owner_references(owners: &Field<'_>, faults: &mut Faults) {
    let mut controllers = Vec::new();
    for owner in owners.items() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            let field = owner.child(field);
            if field.is_empty() {
                faults.invalid(&field, "must not be empty");
            }
        }
        if *owner.child("controller").value() == true {
            controllers.push(format!(
                "{}/{}",
                owner.child("kind").text(),
                owner.child("name").text()
            ));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for \
             {first} and {second}"
        );
        faults.invalid(owners, &why);
    }
}
