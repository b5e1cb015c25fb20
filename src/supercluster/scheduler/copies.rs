//! Secrets and ConfigMaps of the management cluster that may be copied to members.
//!
//! An object is read if a pod of its namespace names it, and copied if its owner has labelled it
//! with [`COPY`]. So a pod never brings an object of another namespace to a member, and no object
//! without the consent of whoever may write it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use serde::Deserialize;
use serde_json::Value;
use supercluster::message::{CommitRequest, Copied, CopyKind, CopyName, PodObject, SampleRequest};
use tokio::time::Instant;
use tracing::warn;

use super::super::references::references;
use crate::api_client::{ApiClient, read_body};

/// Label of an object that may be copied; its value is `true`.
pub(super) const COPY: &str = "supercluster.loadmaster.io/copy";
/// Types of Secrets that are not copied, because they belong to one cluster.
const OF_ONE_CLUSTER: [&str; 2] =
    ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"];
/// Time for which an object is known.
const KNOWN_FOR: Duration = Duration::from_secs(5);
/// Maximum number of objects that are known.
const MAX_KNOWN: usize = 1_000;
/// Maximum size of the copies for one pod in bytes.
const MAX_SIZE: usize = 1024 * 1024;
/// Longest time for the objects of one pod.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The part of the file about copies.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CopyPolicy {
    /// The kinds that may be copied.
    pub(super) kinds: BTreeSet<CopyKind>,
    /// The namespaces whose objects may be copied.
    pub(super) namespaces: BTreeSet<String>,
}

impl CopyPolicy {
    pub(super) fn check(&self) -> Result<(), String> {
        match (self.kinds.is_empty(), self.namespaces.is_empty()) {
            (true, _) => Err("kinds: is empty".to_owned()),
            (_, true) => Err("namespaces: is empty".to_owned()),
            _ => Ok(()),
        }
    }
}

/// The known state of objects that may be copied; `None` for an object that may not.
type Known = BTreeMap<String, (Instant, Option<Arc<Copied>>)>;

/// Reads the objects that may be copied.
pub(super) struct Copies {
    policy: CopyPolicy,
    client: ApiClient,
    known: Mutex<Known>,
}

impl Copies {
    pub(super) fn new(policy: CopyPolicy, client: ApiClient) -> Self {
        Self { policy, client, known: Mutex::default() }
    }

    /// Adds to commits the objects that they bring.
    pub(super) async fn fill_commits(
        &self,
        commits: Vec<Arc<CommitRequest>>,
    ) -> Vec<Arc<CommitRequest>> {
        join_all(commits.into_iter().map(|commit| self.fill_commit(commit))).await
    }

    async fn fill_commit(&self, commit: Arc<CommitRequest>) -> Arc<CommitRequest> {
        let copies = self.of(&commit.pod).await;
        if copies.is_empty() {
            return commit;
        }
        Arc::new(CommitRequest { copies: copies.into(), ..(*commit).clone() })
    }

    /// Adds to samples the names of the objects that a commit would bring.
    pub(super) async fn fill_samples(
        &self,
        samples: Vec<Arc<SampleRequest>>,
    ) -> Vec<Arc<SampleRequest>> {
        join_all(samples.into_iter().map(|sample| self.fill_sample(sample))).await
    }

    async fn fill_sample(&self, sample: Arc<SampleRequest>) -> Arc<SampleRequest> {
        let copies = self.of(&sample.pod).await;
        if copies.is_empty() {
            return sample;
        }
        let name = |own: &Arc<Copied>| CopyName { kind: own.kind, name: own.name.clone() };
        let copies = copies.iter().map(name).collect();
        Arc::new(SampleRequest { copies, ..(*sample).clone() })
    }

    /// Returns the objects that are copied for a pod; none if they are too large together.
    async fn of(&self, pod: &PodObject) -> Vec<Arc<Copied>> {
        let namespace = &*pod.pod.key.namespace;
        if !self.policy.namespaces.contains(namespace) {
            return Vec::new();
        }
        let reading = async {
            let mut copies = Vec::new();
            for reference in references(&pod.object) {
                let Some(kind) = reference.copy_kind() else { continue };
                if self.policy.kinds.contains(&kind) {
                    copies.extend(self.object(kind, &reference.path(namespace)).await);
                }
            }
            copies
        };
        let copies = tokio::time::timeout(TIMEOUT, reading).await.unwrap_or_default();
        let size: usize = copies.iter().map(|own| own.size()).sum();
        if size > MAX_SIZE {
            let pod = &pod.pod.key;
            warn!(%pod, size, "The objects that the pod names are too large together, and are not copied");
            return Vec::new();
        }
        copies
    }

    async fn object(&self, kind: CopyKind, path: &str) -> Option<Arc<Copied>> {
        let now = Instant::now();
        if let Some((until, object)) = self.lock().get(path)
            && *until > now
        {
            return object.clone();
        }
        let object = self.read(kind, path).await.ok()?.map(Arc::new);
        let mut known = self.lock();
        if known.len() >= MAX_KNOWN {
            known.retain(|_, (until, _)| *until > now);
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
        }
        known.insert(path.to_owned(), (now + KNOWN_FOR, object.clone()));
        object
    }

    /// Reads an object; `None` if it does not exist or may not be copied. An error if the API
    /// server does not say so.
    async fn read(&self, kind: CopyKind, path: &str) -> Result<Option<Copied>, String> {
        let response = self.client.get(path).await?;
        match response.status().as_u16() {
            200 => {}
            404 => return Ok(None),
            status => return Err(format!("status {status}")),
        }
        let body = read_body(response.into_body()).await.map_err(|error| error.to_string())?;
        let object: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        Ok(copied(kind, object))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        // No code that holds the lock panics.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what is copied of an object; `None` if it may not be copied.
fn copied(kind: CopyKind, mut object: Value) -> Option<Copied> {
    if object["metadata"]["labels"][COPY] != "true" {
        return None;
    }
    let type_ = object["type"].as_str().map(str::to_owned);
    if type_.as_deref().is_some_and(|own| OF_ONE_CLUSTER.contains(&own)) {
        return None;
    }
    let name = object["metadata"]["name"].as_str()?.into();
    let mut map = |field: &str| serde_json::from_value(object[field].take()).unwrap_or_default();
    let (data, binary_data) = (map("data"), map("binaryData"));
    Some(Copied { kind, name, type_, data, binary_data })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn object_is_copied_if_it_says_so() {
        let object = |labels: Value, type_: &str| {
            json!({"metadata": {"name": "tls", "labels": labels, "annotations": {"a": "b"}},
                "type": type_, "data": {"key": "MQ=="}})
        };
        let of = |labels, type_| copied(CopyKind::Secret, object(labels, type_));
        let copy = of(json!({COPY: "true"}), "Opaque").unwrap();
        assert_eq!((&*copy.name, copy.data["key"].as_str()), ("tls", "MQ=="));
        assert!(of(json!({}), "Opaque").is_none());
        assert!(of(json!({COPY: "false"}), "Opaque").is_none());
        assert!(of(json!({COPY: "true"}), "kubernetes.io/service-account-token").is_none());
        assert!(!format!("{copy:?}").contains("MQ=="), "{copy:?}");
    }
}
