//! The delegate of a pod: the pod of the same namespace and name that runs in a member cluster.
//!
//! Its annotations identify the original pod and the commit. They are what a restarted agent knows
//! of the commits of its predecessor.

use std::sync::Arc;

use framework::PodKey;
use serde_json::{Map, Value, json};

use crate::message::{CommitKey, LeaseTerms, TryNumber};

/// Annotation with the UID of the original pod.
pub const ORIGIN_UID: &str = "supercluster.loadmaster.io/origin-uid";
/// Annotation with the UID of the namespace `kube-system` of the management cluster.
pub const ORIGIN_CLUSTER: &str = "supercluster.loadmaster.io/origin-cluster";
/// Annotation with the number of the try, as `ATTEMPT.CANDIDATE`.
pub const TRY: &str = "supercluster.loadmaster.io/try";
/// Annotation with the node that was decided on.
pub const NODE: &str = "supercluster.loadmaster.io/node";
/// Annotation with the incarnation of the agent that created the delegate.
pub const INCARNATION: &str = "supercluster.loadmaster.io/incarnation";
/// Annotation with the UID of the lease of a delegate that may be replaced.
pub const LEASE: &str = "supercluster.loadmaster.io/lease";
/// Annotation with the time in seconds after which it is deleted if the lease is not renewed.
pub const FENCE_AFTER: &str = "supercluster.loadmaster.io/fence-after";
/// Label of every delegate.
pub const DELEGATE: &str = "supercluster.loadmaster.io/delegate";

/// The content of the annotations of a delegate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegateMark {
    /// The commit.
    pub key: CommitKey,
    /// The node that was decided on.
    pub node: Arc<str>,
    /// The incarnation of the agent that created it.
    pub incarnation: Arc<str>,
    /// UID of the namespace `kube-system` of the management cluster.
    pub origin: Option<Arc<str>>,
    /// Set if it may be replaced when its cluster is lost.
    pub terms: Option<LeaseTerms>,
}

impl DelegateMark {
    /// Returns the mark of a pod, `None` if it is not a delegate.
    pub fn of(object: &Value) -> Option<Self> {
        Self::in_annotations(object.get("metadata")?.get("annotations")?)
    }

    /// Returns the mark in the annotations of a pod, `None` if it is not a delegate.
    pub fn in_annotations(annotations: &Value) -> Option<Self> {
        let text = |key: &str| annotations.get(key)?.as_str();
        let (attempt, candidate) = text(TRY)?.split_once('.')?;
        let number =
            TryNumber { attempt: attempt.parse().ok()?, candidate: candidate.parse().ok()? };
        let terms = text(LEASE).zip(text(FENCE_AFTER)).and_then(|(lease, seconds)| {
            Some(LeaseTerms { lease: lease.into(), fence_after_s: seconds.parse().ok()? })
        });
        Some(Self {
            terms,
            origin: text(ORIGIN_CLUSTER).map(Arc::from),
            key: CommitKey { pod: text(ORIGIN_UID)?.into(), number },
            node: text(NODE)?.into(),
            incarnation: text(INCARNATION)?.into(),
        })
    }

    fn annotations(&self) -> impl Iterator<Item = (&'static str, String)> {
        let TryNumber { attempt, candidate } = self.key.number;
        let terms = self.terms.iter().flat_map(|terms| {
            [(LEASE, terms.lease.to_string()), (FENCE_AFTER, terms.fence_after_s.to_string())]
        });
        let own = [
            (ORIGIN_UID, self.key.pod.to_string()),
            (TRY, format!("{attempt}.{candidate}")),
            (NODE, self.node.to_string()),
            (INCARNATION, self.incarnation.to_string()),
        ];
        let origin = self.origin.iter().map(|origin| (ORIGIN_CLUSTER, origin.to_string()));
        own.into_iter().chain(origin).chain(terms)
    }

    /// Returns the delegate of a pod: its labels, annotations and specification under the same
    /// name, without what belongs to the original object or its cluster (UID, owners, finalizers,
    /// status, node, the token of its service account).
    pub fn delegate_of(&self, pod: &PodKey, original: &Value, scheduler_name: &str) -> Value {
        let map = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
        let metadata = original.get("metadata");
        let of_metadata = |key: &str| map(metadata.and_then(|metadata| metadata.get(key)));
        let mut labels = of_metadata("labels").unwrap_or_default();
        labels.insert(DELEGATE.to_owned(), "true".into());
        let mut annotations: Map<String, Value> = of_metadata("annotations").unwrap_or_default();
        annotations.retain(|key, _| !key.starts_with("supercluster.loadmaster.io/"));
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        let marks = self.annotations();
        annotations.extend(marks.map(|(key, value)| (key.to_owned(), Value::String(value))));
        let mut spec = map(original.get("spec")).unwrap_or_default();
        for field in ["nodeName", "schedulingGates", "serviceAccount"] {
            spec.remove(field);
        }
        spec.insert("schedulerName".to_owned(), scheduler_name.into());
        remove_token(&mut spec);
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": &*pod.namespace, "name": &*pod.name, "labels": labels,
                "annotations": annotations},
            "spec": spec})
    }
}

/// Removes the volume of the service account token, which admission adds: it is another one in each
/// cluster.
fn remove_token(spec: &mut Map<String, Value>) {
    const PREFIX: &str = "kube-api-access-";
    let is_token = |entry: &Value| {
        entry.get("name").and_then(Value::as_str).is_some_and(|name| name.starts_with(PREFIX))
    };
    if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
        volumes.retain(|volume| !is_token(volume));
    }
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if let Some(mounts) = container.get_mut("volumeMounts").and_then(Value::as_array_mut) {
                mounts.retain(|mount| !is_token(mount));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delegate_keeps_the_specification_and_carries_its_mark() {
        let original = json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7",
                "finalizers": ["x"], "ownerReferences": [{"uid": "o"}], "labels": {"app": "a"},
                "annotations": {"note": "n", TRY: "1.1"}},
            "spec": {"schedulerName": "over-all", "nodeName": "old", "unknown": {"deep": 1},
                "volumes": [{"name": "kube-api-access-x1"}, {"name": "data"}],
                "containers": [{"name": "c", "volumeMounts": [{"name": "kube-api-access-x1"}]}]},
            "status": {"phase": "Pending"}});
        let mark = DelegateMark {
            key: CommitKey { pod: "u".into(), number: TryNumber { attempt: 4, candidate: 2 } },
            node: "n1".into(),
            incarnation: "i".into(),
            origin: Some("management".into()),
            terms: Some(LeaseTerms { lease: "l".into(), fence_after_s: 90 }),
        };
        let delegate = mark.delegate_of(&PodKey::new("ns", "p"), &original, "agent");
        assert_eq!(DelegateMark::of(&delegate), Some(mark));
        assert_eq!(delegate["metadata"]["labels"], json!({"app": "a", DELEGATE: "true"}));
        assert_eq!(delegate["metadata"]["annotations"]["note"], "n");
        for absent in ["uid", "resourceVersion", "finalizers", "ownerReferences"] {
            assert!(delegate["metadata"].get(absent).is_none(), "{absent}");
        }
        let spec = json!({"schedulerName": "agent", "unknown": {"deep": 1},
            "volumes": [{"name": "data"}], "containers": [{"name": "c", "volumeMounts": []}]});
        assert_eq!(delegate["spec"], spec);
        assert!(delegate.get("status").is_none());
        assert_eq!(DelegateMark::of(&original), None, "an incomplete mark");
    }
}
