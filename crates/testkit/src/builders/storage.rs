use std::sync::Arc;

use serde_json::{Value, json};

use api::EventResource;
use api::storage::BIND_COMPLETED;
use cluster::{Cluster, Object};

use super::object::{SetJson, object};

/// A storage object as the API server gives it.
#[derive(Debug, Clone)]
pub struct StorageObject {
    kind: EventResource,
    object: Value,
}

/// A claim called `name` in namespace `default`, with this `spec`.
pub fn claim(name: &str, spec: Value) -> StorageObject {
    StorageObject::new(EventResource::PersistentVolumeClaim, name, json!({ "spec": spec }))
        .set("/metadata/namespace", json!("default"))
        .set("/metadata/uid", json!(format!("uid-{name}")))
}

/// A claim called `name` in namespace `default` that is bound to `volume`.
pub fn bound_claim(name: &str, volume: &str) -> StorageObject {
    claim(name, json!({ "volumeName": volume })).annotation(BIND_COMPLETED, "yes")
}

/// A volume called `name`, with this `spec`, that is free to be bound.
pub fn volume(name: &str, spec: Value) -> StorageObject {
    StorageObject::new(EventResource::PersistentVolume, name, json!({ "spec": spec }))
        .set("/metadata/uid", json!(format!("uid-{name}")))
        .set("/status", json!({ "phase": "Available" }))
}

/// A class called `name`, whose claims get their volumes from `provisioner`, in this mode.
pub fn storage_class(name: &str, provisioner: &str, mode: &str) -> StorageObject {
    let fields = json!({ "provisioner": provisioner, "volumeBindingMode": mode });
    StorageObject::new(EventResource::StorageClass, name, fields)
}

/// The CSINode of this name: the drivers on the node, each with the number of
/// volumes it can attach.
pub fn csi_node(name: &str, limits: &[(&str, Option<i32>)]) -> StorageObject {
    let driver = |&(name, count): &(&str, Option<i32>)| match count {
        Some(count) => json!({ "name": name, "allocatable": { "count": count } }),
        None => json!({ "name": name }),
    };
    let drivers: Vec<_> = limits.iter().map(driver).collect();
    StorageObject::new(EventResource::CsiNode, name, json!({ "spec": { "drivers": drivers } }))
}

/// An attachment of this volume by a CSI driver to a node.
pub fn volume_attachment(driver: &str, volume: &str, node: &str) -> StorageObject {
    let source = json!({ "persistentVolumeName": volume });
    let spec = json!({ "attacher": driver, "nodeName": node, "source": source });
    let name = format!("{driver}-{volume}-{node}");
    StorageObject::new(EventResource::VolumeAttachment, &name, json!({ "spec": spec }))
}

impl StorageObject {
    /// An object of this kind and name with these fields beside its metadata.
    ///
    /// # Panics
    /// `fields` is not an object.
    pub fn new(kind: EventResource, name: &str, mut fields: Value) -> Self {
        let object = fields.as_object_mut().expect("the fields of an object");
        object.insert("metadata".to_owned(), json!({ "name": name }));
        Self { kind, object: fields }
    }

    /// Sets the field at a JSON pointer whose parent is an object.
    ///
    /// # Panics
    /// The parent is something else.
    #[must_use]
    pub fn set(mut self, pointer: &str, value: Value) -> Self {
        let (parent, field) = pointer.rsplit_once('/').expect("a JSON pointer");
        let parent = self.object.pointer_mut(parent).expect("the parent of the field");
        parent.as_object_mut().expect("an object").insert(field.to_owned(), value);
        self
    }

    /// Adds or replaces an annotation.
    #[must_use]
    pub fn annotation(self, key: &str, value: &str) -> Self {
        self.entry("annotations", key, value)
    }

    /// Adds or replaces a label.
    #[must_use]
    pub fn label(self, key: &str, value: &str) -> Self {
        self.entry("labels", key, value)
    }

    /// Moves the object to another namespace.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.set("/metadata/namespace", json!(namespace))
    }

    fn entry(mut self, map: &str, key: &str, value: &str) -> Self {
        self.object["metadata"][map][key] = json!(value);
        self
    }

    /// The object.
    pub fn json(&self) -> &Value {
        &self.object
    }

    /// The object, decoded.
    ///
    /// # Panics
    /// The object does not decode.
    pub fn decoded(&self) -> Object {
        object(self.kind.clone(), self.object.clone())
    }

    /// Puts the object into a cluster.
    pub fn put(self, cluster: &mut Cluster) {
        let text = |field| self.object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        cluster.set_json(&self.kind, &namespace, &name, Some(Arc::new(self.object)));
    }
}
