//! Copies of Secrets and ConfigMaps of the management cluster, for delegates that name them.
//!
//! A copy is owned by its delegates, so the garbage collector of the member deletes it after the
//! last of them. An object that is not a copy from the same management cluster is left as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use control::Method;
use serde_json::{Map, Value, json};
use supercluster::message::{CommitRequest, Copied, CopyKind};
use tracing::{info, warn};

use super::super::references::references;
use super::super::replies::Written;
use crate::api_client::{APPLICATION_JSON, ApiClient, JsonRequest, MERGE_PATCH};

/// Label of a copy: UID of the namespace `kube-system` of its management cluster.
const COPY_OF: &str = "supercluster.loadmaster.io/copy-of";
/// Time to wait for the response to a read or write.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Number of tries for one copy, and the pause between two.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);
/// Longest time for the copies of one pod.
const LONGEST: Duration = Duration::from_secs(60);

/// The pod that owns copies.
#[derive(Debug, Clone)]
struct Owner<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

impl Owner<'_> {
    fn reference(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.uid})
    }
}

/// Creates the copies that the pod names, or makes the delegate one more owner of them. A failure
/// is logged: the kubelet then waits for the object.
pub(super) async fn create(
    client: &ApiClient,
    kinds: &BTreeSet<CopyKind>,
    request: &CommitRequest,
    delegate: &str,
) {
    let Some(origin) = &request.origin else { return };
    let key = &request.pod.pod.key;
    let owner = Owner { namespace: &key.namespace, name: &key.name, uid: delegate };
    let copying = async {
        for reference in references(&request.pod.object) {
            let Some(kind) = reference.copy_kind().filter(|own| kinds.contains(own)) else {
                continue;
            };
            let is_named = |own: &&Arc<Copied>| own.kind == kind && *own.name == *reference.name;
            if let Some(copied) = request.copies.iter().find(is_named) {
                let path = reference.path(owner.namespace);
                create_or_log(client, &path, copied, origin, &owner).await;
            }
        }
    };
    if tokio::time::timeout(LONGEST, copying).await.is_err() {
        warn!(pod = %key, "Copying the objects that the pod names takes too long");
    }
}

async fn create_or_log(
    client: &ApiClient,
    path: &str,
    copied: &Copied,
    origin: &str,
    owner: &Owner<'_>,
) {
    let mut result = Ok(());
    for _ in 0..TRIES {
        result = create_one(client, path, copied, origin, owner).await;
        match &result {
            Err(Failure::Again(_)) => tokio::time::sleep(PAUSE).await,
            _ => break,
        }
    }
    if let Err(Failure::Again(err) | Failure::Final(err)) = result {
        let (namespace, pod, object) = (owner.namespace, owner.name, copied.named());
        warn!(namespace, pod, object, err, "Cannot copy an object that a pod names");
    }
}

enum Failure {
    Again(String),
    Final(String),
}

async fn create_one(
    client: &ApiClient,
    path: &str,
    copied: &Copied,
    origin: &str,
    owner: &Owner<'_>,
) -> Result<(), Failure> {
    let collection = control::collection_path("v1", owner.namespace, copied.kind.resource());
    let object = object_of(copied, origin, owner);
    let create = request(Method::Post, collection, APPLICATION_JSON, &object);
    match client.request(create).await.into() {
        Written::Done(_) => return Ok(()),
        Written::Conflict(_) => {}
        Written::NotFound(text) | Written::Refused(text) => return Err(Failure::Final(text)),
        Written::Unknown(text) => return Err(Failure::Again(text)),
    }
    let read = request(Method::Get, path.to_owned(), APPLICATION_JSON, &Value::Null);
    let known: Value = match client.request(read).await.into() {
        Written::Done(body) => {
            serde_json::from_slice(&body).map_err(|error| Failure::Final(error.to_string()))?
        }
        // It was deleted meanwhile, or the answer is lost.
        Written::NotFound(text) | Written::Unknown(text) => return Err(Failure::Again(text)),
        // A 404 names another kind than pods.
        Written::Refused(text) if text.contains("not found") => return Err(Failure::Again(text)),
        Written::Conflict(text) | Written::Refused(text) => return Err(Failure::Final(text)),
    };
    let Some(patch) = patch_of(&known, copied, origin, owner) else {
        let (namespace, object) = (owner.namespace, copied.named());
        info!(namespace, object, "The member has an object of this name, which is left as it is");
        return Ok(());
    };
    let patch = request(Method::Patch, path.to_owned(), MERGE_PATCH, &patch);
    match client.request(patch).await.into() {
        Written::Done(_) => Ok(()),
        Written::Refused(text) if !text.contains("not found") => Err(Failure::Final(text)),
        Written::Conflict(text)
        | Written::NotFound(text)
        | Written::Unknown(text)
        | Written::Refused(text) => Err(Failure::Again(text)),
    }
}

fn request(method: Method, path: String, content_type: &'static str, body: &Value) -> JsonRequest {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    JsonRequest { method, path, content_type, body, timeout: TIMEOUT }
}

/// Returns a new copy. It has nothing of the original but its contents and its type.
fn object_of(copied: &Copied, origin: &str, owner: &Owner<'_>) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": copied.kind.kind(),
        "metadata": {"namespace": owner.namespace, "name": &*copied.name,
            "labels": {COPY_OF: origin}, "ownerReferences": [owner.reference()]},
        "data": copied.data});
    if !copied.binary_data.is_empty() {
        object["binaryData"] = json!(copied.binary_data);
    }
    if let Some(type_) = &copied.type_ {
        object["type"] = json!(type_);
    }
    object
}

/// Returns the patch that makes a copy current and owned by the delegate; `None` if the object is
/// not a copy from this management cluster.
fn patch_of(known: &Value, copied: &Copied, origin: &str, owner: &Owner<'_>) -> Option<Value> {
    let metadata = &known["metadata"];
    if metadata["labels"][COPY_OF] != origin {
        return None;
    }
    let mut owners = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
    if !owners.iter().any(|own| own["uid"] == owner.uid) {
        owners.push(owner.reference());
    }
    // A key that is not in the original any more is removed.
    let merged = |field: &str, new: &BTreeMap<String, String>| {
        let old = known[field].as_object().into_iter().flatten();
        let gone = old.filter(|(key, _)| !new.contains_key(*key));
        let mut merged: Map<String, Value> =
            gone.map(|(key, _)| (key.clone(), Value::Null)).collect();
        merged.extend(new.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))));
        merged
    };
    let mut patch = json!({"metadata": {"uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "ownerReferences": owners},
        "data": merged("data", &copied.data)});
    if copied.kind == CopyKind::ConfigMap {
        patch["binaryData"] = json!(merged("binaryData", &copied.binary_data));
    }
    Some(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(data: &[(&str, &str)]) -> Copied {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Copied {
            kind: CopyKind::Secret,
            name: "tls".into(),
            type_: Some("Opaque".to_owned()),
            data: data.collect(),
            binary_data: BTreeMap::new(),
        }
    }

    const OWNER: Owner<'static> = Owner { namespace: "shop", name: "web", uid: "d2" };

    #[test]
    fn copy_has_the_contents_and_its_owner_alone() {
        let object = object_of(&copied(&[("a", "MQ==")]), "management", &OWNER);
        let expected = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"namespace": "shop", "name": "tls", "labels": {COPY_OF: "management"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "d2"}]},
            "data": {"a": "MQ=="}});
        assert_eq!(object, expected);
    }

    #[test]
    fn only_a_copy_of_the_same_management_cluster_is_changed() {
        let known = |labels: Value| {
            json!({"metadata": {"uid": "u", "resourceVersion": "7", "labels": labels,
                "ownerReferences": [{"uid": "d1"}]}, "data": {"a": "0", "old": "0"}})
        };
        let new = copied(&[("a", "1"), ("b", "2")]);
        let patch = |labels| patch_of(&known(labels), &new, "management", &OWNER);
        assert_eq!(patch(json!({})), None);
        assert_eq!(patch(json!({COPY_OF: "another"})), None);
        let patch = patch(json!({COPY_OF: "management"})).unwrap();
        assert_eq!(patch["data"], json!({"a": "1", "b": "2", "old": null}));
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        let owners: Vec<&Value> = patch["metadata"]["ownerReferences"]
            .as_array()
            .unwrap()
            .iter()
            .map(|own| &own["uid"])
            .collect();
        assert_eq!(owners, ["d1", "d2"]);
        assert!(patch.get("binaryData").is_none(), "Secrets have none");
    }
}
