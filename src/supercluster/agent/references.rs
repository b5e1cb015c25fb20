//! The objects that a pod names and that must exist in the member before a delegate is created.
//!
//! Only the metadata of objects is asked for. Claims are not looked at: the plugins of the profile
//! name missing claims.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use supercluster::message::{CopyKind, CopyName};
use tokio::time::Instant;

use super::super::references::references;
use crate::api_client::ApiClient;

/// Time for which it is known that an object exists, or that it may not be read.
const KNOWN_FOR: Duration = Duration::from_secs(30);
/// Time for which it is known that an object is missing.
const MISSING_FOR: Duration = Duration::from_secs(2);
/// Maximum number of objects that are known.
const MAX_KNOWN: usize = 10_000;
/// Longest time for the objects of one pod. An object that is not known then does not hold the pod
/// up.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The check, with what is known.
#[derive(Clone)]
pub(super) struct References {
    client: ApiClient,
    /// The kinds of objects that may come with a commit.
    copied: Arc<BTreeSet<CopyKind>>,
    known: Arc<Mutex<BTreeMap<String, (Instant, bool)>>>,
}

impl References {
    pub(super) fn new(client: ApiClient, copied: Arc<BTreeSet<CopyKind>>) -> Self {
        Self { client, copied, known: Arc::default() }
    }

    /// Returns which objects that the pod names do not exist and are not to be copied; `None` if
    /// there is none, or it is not known.
    pub(super) async fn missing(
        &self,
        namespace: &str,
        pod: &Value,
        copies: &[CopyName],
    ) -> Option<String> {
        let comes = |kind: Option<CopyKind>, name: &str| {
            let of = |own: &CopyName| Some(own.kind) == kind && *own.name == *name;
            kind.is_some_and(|kind| self.copied.contains(&kind)) && copies.iter().any(of)
        };
        let looking = async {
            if !self.exists(&format!("/api/v1/namespaces/{namespace}")).await {
                return vec![format!("namespace {namespace:?}")];
            }
            let mut missing = Vec::new();
            for reference in references(pod) {
                if comes(reference.copy_kind(), &reference.name) {
                    continue;
                }
                if !self.exists(&reference.path(namespace)).await {
                    missing.push(reference.to_string());
                }
            }
            missing
        };
        let missing = tokio::time::timeout(TIMEOUT, looking).await.unwrap_or_default();
        (!missing.is_empty()).then(|| format!("it has no {}", missing.join(", no ")))
    }

    /// Whether the object exists. An object that may not be read counts as existing.
    async fn exists(&self, path: &str) -> bool {
        let now = Instant::now();
        if let Some((until, exists)) = self.lock().get(path)
            && *until > now
        {
            return *exists;
        }
        let Some(exists) = self.client.exists(path).await else { return true };
        let mut known = self.lock();
        if known.len() >= MAX_KNOWN {
            known.retain(|_, (until, _)| *until > now);
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
        }
        let until = now + if exists { KNOWN_FOR } else { MISSING_FOR };
        known.insert(path.to_owned(), (until, exists));
        exists
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, (Instant, bool)>> {
        // No code that holds the lock panics.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
