//! Objects in the API server, and actions on them.

use sandbox::api::Request;
use sandbox::resources::{self, PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, Resource};
use serde_json::{Value, json};

/// An object as in a manifest.
#[derive(Debug, Clone)]
pub(crate) struct Object(Value);

/// An action on the API server.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Creates an object, and writes its status if the manifest has one.
    Create(Object),
    /// Changes an object or a subresource of it.
    Patch(&'static str, Value),
    /// Deletes an object.
    Delete(String),
}

/// An object of this kind, in the namespace `default` if the kind is namespaced.
pub(crate) fn object(api_version: &str, kind: &str, name: &str) -> Object {
    Object(json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}))
}

/// A Node of 4 CPUs and 8Gi, labelled with its hostname.
pub(crate) fn node(name: &str) -> Object {
    let size = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    let node = object("v1", "Node", name).label("kubernetes.io/hostname", name);
    node.status(json!({"capacity": size.clone(), "allocatable": size}))
}

/// A Pod without requests.
pub(crate) fn pod(name: &str) -> Object {
    let containers = json!([{"name": "c", "image": "example.com/app:1"}]);
    object("v1", "Pod", name).spec(json!({ "containers": containers }))
}

/// A PriorityClass.
pub(crate) fn priority_class(name: &str, value: i32) -> Object {
    let class = object("scheduling.k8s.io/v1", "PriorityClass", name);
    class.fields(json!({ "value": value }))
}

impl Object {
    /// Merges fields into the metadata.
    pub(crate) fn metadata(self, fields: Value) -> Self {
        self.with("metadata", fields)
    }

    /// Sets a label.
    pub(crate) fn label(self, key: &str, value: &str) -> Self {
        self.metadata(json!({"labels": {key: value}}))
    }

    /// Sets the namespace.
    pub(crate) fn in_namespace(self, namespace: &str) -> Self {
        self.metadata(json!({ "namespace": namespace }))
    }

    /// Merges fields into the spec.
    pub(crate) fn spec(self, fields: Value) -> Self {
        self.with("spec", fields)
    }

    /// Merges fields into the status.
    pub(crate) fn status(self, fields: Value) -> Self {
        self.with("status", fields)
    }

    /// Sets the node of a Pod.
    pub(crate) fn on(self, node: &str) -> Self {
        self.spec(json!({ "nodeName": node }))
    }

    /// Sets a field of the only container of a Pod.
    pub(crate) fn container(mut self, field: &str, value: Value) -> Self {
        self.0["spec"]["containers"][0][field] = value;
        self
    }

    /// Sets request and limit of a Pod for a resource.
    pub(crate) fn requests(mut self, resource: &str, amount: &str) -> Self {
        let amounts = json!({resource: amount});
        let container = &mut self.0["spec"]["containers"][0];
        merge(container, json!({"resources": {"requests": amounts, "limits": amounts}}));
        self
    }

    /// Merges top-level fields.
    pub(crate) fn fields(mut self, fields: Value) -> Self {
        merge(&mut self.0, fields);
        self
    }

    /// Merges fields into a section.
    pub(crate) fn with(mut self, section: &str, fields: Value) -> Self {
        merge(&mut self.0[section], fields);
        self
    }

    fn resource(&self) -> &'static Resource {
        let text = |field: &str| self.0[field].as_str().unwrap();
        resources::of_kind(text("apiVersion"), text("kind")).unwrap()
    }
}

/// Merges `fields` into a value.
fn merge(value: &mut Value, fields: Value) {
    match fields {
        Value::Object(fields) if value.is_object() || value.is_null() => {
            fields.into_iter().for_each(|(field, new)| merge(&mut value[field], new));
        }
        fields => *value = fields,
    }
}

/// Creates an object.
pub(crate) fn create(object: Object) -> Step {
    Step::Create(object)
}

/// Changes the object `<plural>/<name>`, or a subresource of it: by a merge patch, or by a JSON
/// patch if the patch is a list.
pub(crate) fn patch(target: &'static str, patch: Value) -> Step {
    Step::Patch(target, patch)
}

/// Labels the object `<plural>/<name>`.
pub(crate) fn label(target: &'static str, key: &str, value: &str) -> Step {
    patch(target, json!({"metadata": {"labels": {key: value}}}))
}

/// Adds a toleration to the Pod.
pub(crate) fn tolerate(target: &'static str, key: &str) -> Step {
    let toleration = json!({"key": key, "operator": "Exists"});
    patch(target, json!([{"op": "add", "path": "/spec/tolerations/-", "value": toleration}]))
}

/// Taints the Node, which had no taints.
pub(crate) fn taint(target: &'static str, key: &str) -> Step {
    patch(target, json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}))
}

/// Deletes the object `<plural>/<name>`, a Pod without grace period.
pub(crate) fn delete(target: &str) -> Step {
    Step::Delete(format!("{target}?gracePeriodSeconds=0"))
}

/// Deletes a Pod with its grace period.
pub(crate) fn terminate(target: &str) -> Step {
    Step::Delete(target.to_owned())
}

impl Step {
    /// Returns the requests of the action.
    pub(crate) fn requests(&self) -> Vec<Request> {
        match self {
            Self::Create(object) => created(object),
            Self::Patch(target, patch) => vec![patched(&path(target), patch)],
            Self::Delete(target) => vec![Request::new("DELETE", &path(target), "")],
        }
    }
}

fn created(object: &Object) -> Vec<Request> {
    let (resource, Object(value)) = (object.resource(), object);
    let namespace = value["metadata"]["namespace"].as_str().unwrap_or("default");
    let collection = collection(resource, namespace);
    let name = value["metadata"]["name"].as_str().unwrap();
    let mut requests = vec![Request::new("POST", &collection, value.to_string())];
    if [PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES].contains(&resource) {
        // No controller runs that would remove the finalizers.
        let free = json!({"metadata": {"finalizers": null}});
        requests.push(patched(&format!("{collection}/{name}"), &free));
    }
    if resource.has_status() && !value["status"].is_null() {
        let status = json!({"status": value["status"]});
        requests.push(patched(&format!("{collection}/{name}/status"), &status));
    }
    requests
}

fn patched(path: &str, patch: &Value) -> Request {
    let form = if patch.is_array() { "json-patch" } else { "merge-patch" };
    let mut request = Request::new("PATCH", path, patch.to_string());
    request.content_type = format!("application/{form}+json");
    request
}

/// Returns the path of `<plural>/<name>`, with an optional subresource.
fn path(target: &str) -> String {
    let (plural, rest) = target.split_once('/').unwrap();
    let resource = resources::ALL.iter().find(|resource| resource.plural == plural).unwrap();
    format!("{}/{rest}", collection(resource, "default"))
}

fn collection(resource: &Resource, namespace: &str) -> String {
    let Resource { group, version, plural, namespaced, .. } = resource;
    let api = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
    match namespaced {
        true => format!("{api}/{version}/namespaces/{namespace}/{plural}"),
        false => format!("{api}/{version}/{plural}"),
    }
}
