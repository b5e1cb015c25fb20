//! Objects of the input other than nodes and pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{EventResource, ObjectKey, Pod, PodAffinity, PodAffinityTerm};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::defaults::{DEFAULT_NAMESPACE, complete_storage};
use super::reduced::reduced;
use super::substitute::substitute;

/// The label of every namespace with its name.
pub(super) const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// An object of a kind that a plugin reads.
#[derive(Debug, Clone)]
pub struct WatchedObject {
    /// Its kind.
    pub kind: EventResource,
    /// Its namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The fields that are kept. As text they take a fraction of the memory.
    pub object: Arc<RawValue>,
}

impl WatchedObject {
    /// Decodes an object of a file.
    ///
    /// # Errors
    /// The object has no name, or a field that the scheduler reads has another shape.
    pub(super) fn read(kind: &EventResource, object: Value) -> Result<Self, Unreadable> {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (mut namespace, name) = (text("namespace"), text("name"));
        if name.is_empty() {
            return Err("metadata.name: is missing".to_owned().into());
        }
        if namespace.is_empty() && is_namespaced(kind) {
            DEFAULT_NAMESPACE.clone_into(&mut namespace);
        }
        let mut object = reduced(kind, object);
        complete_storage(kind, &namespace, &mut object);
        let own = |object: &Value| {
            Ok::<_, String>(Self {
                kind: kind.clone(),
                namespace: namespace.as_str().into(),
                name: name.as_str().into(),
                object: to_raw(object)?,
            })
        };
        let key =
            ObjectKey::namespaced(kind.clone(), namespace.as_str().into(), name.as_str().into());
        let Err(error) = framework::Object::check(&key, &object) else {
            if *kind == EventResource::Namespace {
                // The API server adds this label.
                object["metadata"]["labels"][NAME_LABEL] = name.as_str().into();
            }
            return Ok(own(&object)?);
        };
        let message = match namespace.as_str() {
            "" => format!("{name}: {error}"),
            namespace => format!("{namespace}/{name}: {error}"),
        };
        let substitute = substitute(kind, &object, &error);
        Err(Unreadable { message, substitute: substitute.and_then(|object| own(&object).ok()) })
    }

    /// Whether both are versions of one object.
    pub(super) fn is_version_of(&self, other: &Self) -> bool {
        self.kind == other.kind && self.namespace == other.namespace && self.name == other.name
    }

    /// Returns the fields that are kept.
    pub(super) fn value(&self) -> Value {
        serde_json::from_str(self.object.get()).unwrap_or_default()
    }

    /// Returns a namespace of which only the name is known.
    pub(super) fn namespace(name: Arc<str>) -> Option<Self> {
        let object = json!({"metadata": {"name": &*name, "labels": {NAME_LABEL: &*name}}});
        let kind = EventResource::Namespace;
        Some(Self { kind, namespace: "".into(), name, object: to_raw(&object).ok()? })
    }
}

/// Whether a kind is known to have namespaces; a custom kind may be one of the table.
fn is_namespaced(kind: &EventResource) -> bool {
    let known = match kind {
        EventResource::Custom(name) => {
            kinds::ALL.iter().copied().find(|own| own.versioned_resource == &**name)
        }
        kind => kind.kind(),
    };
    known.is_some_and(|kind| kind.namespaced)
}

/// An object of a file that does not decode.
#[derive(Debug, Clone)]
pub(super) struct Unreadable {
    /// Its name, and the field with the reason.
    pub(super) message: String,
    /// The object that stands in for it.
    pub(super) substitute: Option<WatchedObject>,
}

impl From<String> for Unreadable {
    fn from(message: String) -> Self {
        Self { message, substitute: None }
    }
}

fn to_raw(object: &Value) -> Result<Arc<RawValue>, String> {
    to_raw_value(object).map(Arc::from).map_err(|error| error.to_string())
}

/// Returns the namespaces of pods that are absent from the objects.
pub(super) fn unseen_namespaces<'a>(
    pods: impl Iterator<Item = &'a Pod>,
    objects: &[WatchedObject],
) -> BTreeSet<Arc<str>> {
    let namespaces = objects.iter().filter(|object| object.kind == EventResource::Namespace);
    let seen: BTreeSet<&Arc<str>> = namespaces.map(|object| &object.name).collect();
    pods.map(|pod| &pod.key.namespace).filter(|name| !seen.contains(name)).cloned().collect()
}

/// Whether the pod selects others by the labels of their namespaces.
pub(super) fn selects_namespaces(pod: &Pod) -> bool {
    let both = [&pod.spec.pod_affinity, &pod.spec.pod_anti_affinity];
    both.into_iter().flatten().flat_map(terms).any(|term| {
        let selector = &term.namespace_selector;
        !selector.is_nothing() && !selector.is_everything()
    })
}

fn terms(affinity: &PodAffinity) -> impl Iterator<Item = &PodAffinityTerm> {
    let preferred = affinity.preferred.iter().flatten().map(|weighted| &weighted.term);
    affinity.required.iter().flatten().chain(preferred)
}
