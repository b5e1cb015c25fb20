//! The ResourceClaims of a simulated cluster, as the API server would have them.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{Answer, EventResource, Write, WriteAction, merge_patch};
use serde_json::{Value, json};

use crate::Object;

/// Plural name of claims.
pub(super) const RESOURCE: &str = "resourceclaims";

/// The claims, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<(Arc<str>, Arc<str>), Value>);

/// A claim that changed; `None` if it was deleted.
pub(super) struct Changed {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) object: Option<Arc<Value>>,
}

impl Claims {
    /// Stores the object if it is a claim. A claim of a manifest gets a UID.
    pub(super) fn keep(&mut self, object: &mut Object) {
        if object.kind != EventResource::ResourceClaim {
            return;
        }
        let key = (object.namespace.clone(), object.name.clone());
        if object.object["metadata"]["uid"].as_str().is_none_or(str::is_empty) {
            let uid = format!("{}/{}", key.0, key.1);
            let claim = Arc::make_mut(&mut object.object);
            merge_patch(claim, &json!({"metadata": {"uid": uid, "resourceVersion": "1"}}));
        }
        self.0.insert(key, Value::clone(&object.object));
    }

    /// Carries out a write of a plugin.
    pub(super) fn write(&mut self, write: &Write) -> (Answer, Option<Changed>) {
        let key = (write.namespace.clone(), write.name.clone());
        let stored = self.0.get(&key);
        let changed = match (&write.action, stored) {
            (WriteAction::Create(_), Some(_)) => {
                return (Answer::Conflict(format!("{:?} already exists", &*key.1)), None);
            }
            (WriteAction::Create(object), None) => {
                let mut object = object.clone();
                object["metadata"]["uid"] = json!(format!("{}/{}", key.0, key.1));
                Some(object)
            }
            (_, None) => return (Answer::Gone(format!("{:?} not found", &*key.1)), None),
            // No controller of the simulation waits for a finalizer.
            (WriteAction::Delete(_), Some(_)) => None,
            (WriteAction::MergePatch(patch), Some(stored)) => {
                let mut object = stored.clone();
                merge_patch(&mut object, patch);
                Some(object)
            }
            (WriteAction::StrategicMergePatch(patch), Some(stored)) => {
                Some(with_list_changes(stored, patch))
            }
        };
        let object = changed.map(|mut object| {
            let version = stored.and_then(|own| own["metadata"]["resourceVersion"].as_str());
            let version = version.and_then(|version| version.parse::<u64>().ok()).unwrap_or(0);
            object["metadata"]["resourceVersion"] = json!(version.saturating_add(1).to_string());
            object
        });
        match &object {
            Some(object) => drop(self.0.insert(key.clone(), object.clone())),
            None => drop(self.0.remove(&key)),
        }
        let (namespace, name) = key;
        let answer = Answer::Ok(object.clone());
        (answer, Some(Changed { namespace, name, object: object.map(Arc::new) }))
    }
}

/// Applies a strategic merge patch of DynamicResources, which adds or removes finalizers and removes users.
fn with_list_changes(claim: &Value, patch: &Value) -> Value {
    let mut claim = claim.clone();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut finalizers = list(&claim["metadata"]["finalizers"]);
    let removed = list(&patch["metadata"]["$deleteFromPrimitiveList/finalizers"]);
    finalizers.retain(|own| !removed.contains(own));
    for added in list(&patch["metadata"]["finalizers"]) {
        if !finalizers.contains(&added) {
            finalizers.push(added);
        }
    }
    claim["metadata"]["finalizers"] = finalizers.into();
    let gone = list(&patch["status"]["reservedFor"]);
    if let Some(users) = claim["status"]["reservedFor"].as_array_mut() {
        users.retain(|user| !gone.iter().any(|gone| gone["uid"] == user["uid"]));
    }
    claim
}
