//! Namespaces: admission of objects, and deletion with all content.

use std::sync::Arc;

use framework::Time;
use serde_json::{Value, json};

use super::collection::ChangeKind;
use super::{DeleteOptions, Store};
use crate::metadata::{self, fields_mut, metadata_mut, name, namespace};
use crate::object::{is_terminating, timestamp};
use crate::resources::{NAMESPACES, Resource};
use crate::status::{Cause, Details, Status};

impl Store {
    /// Checks that the namespace of a new object exists and is not terminating.
    ///
    /// # Errors
    /// 404 without such a namespace, 403 if it is terminating.
    pub(super) fn admit_to_namespace(
        &self,
        resource: &'static Resource,
        object: &Value,
    ) -> Result<(), Status> {
        if !resource.namespaced {
            return Ok(());
        }
        let namespace = namespace(object);
        let home = self.get(NAMESPACES, "", namespace);
        let home = home.ok_or_else(|| Status::not_found(NAMESPACES, namespace))?;
        if is_terminating(home) {
            return Err(being_terminated(resource, name(object), namespace));
        }
        Ok(())
    }

    /// Marks a namespace as terminating and deletes its content. The namespace is removed with its
    /// last object, which may be a pod in its grace period.
    pub(super) fn delete_namespace(&mut self, current: &Value, now: Time) -> Arc<Value> {
        let name = name(current).to_owned();
        let mut terminating = current.clone();
        metadata::set(&mut terminating, "deletionTimestamp", timestamp(now));
        fields_mut(&mut terminating).insert("status".into(), json!({"phase": "Terminating"}));
        let terminating = self.record(NAMESPACES, ChangeKind::Modified, terminating);
        self.terminating.insert(name.clone());
        self.delete_content(&name, now);
        self.finish_namespace(&name);
        terminating
    }

    fn delete_content(&mut self, namespace: &str, now: Time) {
        let resources = self.stored_resources();
        for resource in resources.into_iter().filter(|resource| resource.namespaced) {
            let Some(collection) = self.collection(resource) else { continue };
            let names: Vec<String> = collection
                .range(namespace, "")
                .map(|(_, stored)| name(&stored.object).to_owned())
                .collect();
            for name in names {
                // An object with finalizers is marked and stays until they are removed.
                let _ = self.delete(resource, namespace, &name, &DeleteOptions::default(), now);
            }
        }
    }

    /// Removes a terminating namespace if it is empty.
    pub(super) fn finish_namespace(&mut self, namespace: &str) {
        if !self.terminating.contains(namespace) || !self.is_empty(namespace) {
            return;
        }
        self.terminating.remove(namespace);
        if let Some(current) = self.get(NAMESPACES, "", namespace) {
            let mut last = Value::clone(current);
            if let Some(spec) = last.get_mut("spec") {
                fields_mut(spec).remove("finalizers");
            }
            self.record(NAMESPACES, ChangeKind::Deleted, last);
        }
    }

    fn is_empty(&self, namespace: &str) -> bool {
        let mut collections = self.collections.values();
        collections.all(|collection| collection.range(namespace, "").next().is_none())
    }
}

/// Sets the fields that the API server writes into every new namespace.
pub(super) fn complete(namespace: &mut Value) {
    let name = name(namespace).to_owned();
    let labels = metadata_mut(namespace).entry("labels").or_insert(Value::Null);
    fields_mut(labels).insert("kubernetes.io/metadata.name".to_owned(), name.into());
    let fields = fields_mut(namespace);
    fields.insert("spec".to_owned(), json!({"finalizers": ["kubernetes"]}));
    fields.insert("status".to_owned(), json!({"phase": "Active"}));
}

fn being_terminated(resource: &Resource, name: &str, namespace: &str) -> Status {
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let cause = Cause {
        reason: "NamespaceTerminating",
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".to_owned(),
    };
    let details = Details {
        name: name.to_owned(),
        group: resource.group.to_owned(),
        kind: resource.plural.to_owned(),
        causes: vec![cause],
        ..Details::default()
    };
    Status::forbidden(resource, name, &why).with_details(details)
}
