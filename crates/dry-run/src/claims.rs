//! The ResourceClaims of a simulated cluster, as the API server would have them.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{Answer, EventResource, Pod, PodClaimSource, Uid, Write, WriteAction, merge_patch};
use serde::Serialize;
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

/// A device that a pod uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacedDevice {
    /// The ResourceClaim.
    pub claim: String,
    /// The request, or `request/alternative`.
    pub request: String,
    /// The driver.
    pub driver: String,
    /// The pool.
    pub pool: String,
    /// The name of the device in the pool.
    pub device: String,
}

impl Claims {
    /// Returns the devices of the claims that are reserved for a pod, or for its PodGroup and named
    /// by the pod, by claim and in the order of the results.
    pub(super) fn devices_of(&self, pod: &Pod, group: Option<&Uid>) -> Vec<PlacedDevice> {
        let is_named = |name: &str| {
            pod.spec.resource_claims.iter().any(|entry| match &entry.source {
                PodClaimSource::Claim(own) => **own == *name,
                _ => {
                    let made = pod.generated_claims().and_then(|made| made.claim(&entry.name));
                    made.flatten().is_some_and(|own| **own == *name)
                }
            })
        };
        let own = self.0.iter().filter(|((namespace, name), claim)| {
            is_reserved_for(claim, &pod.uid)
                || group.is_some_and(|group| is_reserved_for(claim, group))
                    && *namespace == pod.key.namespace
                    && is_named(name)
        });
        let devices = own.flat_map(|((_, name), claim)| {
            let results = claim.pointer("/status/allocation/devices/results");
            let results = results.and_then(Value::as_array).into_iter().flatten();
            results.map(|result| {
                let text = |field: &str| result[field].as_str().unwrap_or_default().to_owned();
                PlacedDevice {
                    claim: name.to_string(),
                    request: text("request"),
                    driver: text("driver"),
                    pool: text("pool"),
                    device: text("device"),
                }
            })
        });
        devices.collect()
    }

    /// Removes the reservations of a pod that is gone. A claim that nothing reserves is
    /// deallocated, or deleted if the pod owned it.
    pub(super) fn release(&mut self, pod: &Uid) -> Vec<Changed> {
        let uid = pod.to_string();
        let mut changed = Vec::new();
        for ((namespace, name), claim) in &mut self.0 {
            let is_owned = is_owned_by(claim, &uid);
            if !is_owned && !is_reserved_for(claim, pod) {
                continue;
            }
            let users = claim["status"]["reservedFor"].as_array_mut();
            let left = users.map_or(0, |users| {
                users.retain(|user| user["uid"] != *uid);
                users.len()
            });
            if left == 0 {
                merge_patch(claim, &json!({"status": {"allocation": null, "reservedFor": null}}));
            }
            raise_version(claim);
            let object = (!is_owned || left > 0).then(|| Arc::new(claim.clone()));
            changed.push(Changed { namespace: namespace.clone(), name: name.clone(), object });
        }
        for gone in changed.iter().filter(|changed| changed.object.is_none()) {
            self.0.remove(&(gone.namespace.clone(), gone.name.clone()));
        }
        changed
    }

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
            object["metadata"]["resourceVersion"] =
                stored.map_or(Value::Null, |own| own["metadata"]["resourceVersion"].clone());
            raise_version(&mut object);
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

fn is_reserved_for(claim: &Value, pod: &Uid) -> bool {
    let users = claim.pointer("/status/reservedFor").and_then(Value::as_array);
    users.into_iter().flatten().any(|user| user["uid"] == *pod.to_string())
}

fn is_owned_by(claim: &Value, uid: &str) -> bool {
    let owners = claim.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| owner["controller"] == true && owner["uid"] == *uid)
}

fn raise_version(claim: &mut Value) {
    let version = claim["metadata"]["resourceVersion"].as_str();
    let version = version.and_then(|version| version.parse::<u64>().ok()).unwrap_or(0);
    claim["metadata"]["resourceVersion"] = json!(version.saturating_add(1).to_string());
}

/// Applies a strategic merge patch of DynamicResources, which adds or removes finalizers and
/// removes users.
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

#[cfg(test)]
mod tests {
    use framework::PodResourceClaim;

    use super::*;

    fn pod(uid: &str) -> Pod {
        let object = json!({"metadata": {"namespace": "ns", "name": uid, "uid": uid}});
        Pod::from_api(&serde_json::from_value(object).unwrap())
    }

    fn claims(owner: &str, users: &[&str]) -> Claims {
        let owners = json!([{"uid": owner, "controller": true}]);
        let users: Vec<Value> = users.iter().map(|uid| json!({"uid": uid})).collect();
        let result = json!({"request": "r", "driver": "d.io", "pool": "n", "device": "gpu-0"});
        let status =
            json!({"allocation": {"devices": {"results": [result]}}, "reservedFor": users});
        let metadata = json!({"name": "c", "uid": "c", "resourceVersion": "7",
            "ownerReferences": owners});
        let object = json!({"metadata": metadata, "status": status}).into();
        let kind = EventResource::ResourceClaim;
        let mut claims = Claims::default();
        claims.keep(&mut Object { kind, namespace: "ns".into(), name: "c".into(), object });
        claims
    }

    #[test]
    fn shared_claim_is_deallocated_with_its_last_user() {
        let mut claims = claims("someone", &["a", "b"]);
        assert_eq!(claims.devices_of(&pod("a"), None)[0].device, "gpu-0");
        let in_group = claims.devices_of(&pod("x"), Some(&"b".into()));
        assert_eq!(in_group, [], "the pod does not name the claim");
        let changed = claims.release(&"a".into());
        let claim = changed[0].object.as_ref().unwrap();
        assert!(claim["status"]["allocation"].is_object());
        assert_eq!(claim["metadata"]["resourceVersion"], "8");
        assert!(claims.devices_of(&pod("a"), None).is_empty());
        let mut member = pod("x");
        let entry =
            PodResourceClaim { name: "e".into(), source: PodClaimSource::Claim("c".into()) };
        Arc::make_mut(&mut member.spec).resource_claims = [entry].into();
        assert_eq!(claims.devices_of(&member, Some(&"b".into()))[0].device, "gpu-0");
        let changed = claims.release(&"b".into());
        assert_eq!(changed[0].object.as_ref().unwrap()["status"], json!({}));
        assert!(claims.release(&"b".into()).is_empty());
    }

    #[test]
    fn claim_is_deleted_with_the_pod_that_owns_it() {
        let mut claims = claims("a", &["a"]);
        let changed = claims.release(&"a".into());
        assert!(changed[0].object.is_none());
        assert!(claims.release(&"a".into()).is_empty());
    }
}
