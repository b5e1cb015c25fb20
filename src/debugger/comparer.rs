//! Compares the names of nodes and the UIDs of pods in the cache with the API server.

use std::collections::BTreeSet;
use std::time::Duration;

use control::reflector::ListWatch;
use http::StatusCode;
use serde::Deserialize;
use tokio::time::timeout;

use crate::api_client::{ApiClient, no_response, read_body};
use crate::scheduling_loop::{EventSender, Snapshot};
use crate::wire::status_error;

/// Time between two comparisons. The cache is a little behind the API server, so only a difference
/// that both comparisons find counts.
const PAUSE: Duration = Duration::from_secs(5);
/// Number of objects per request.
const PAGE: u32 = 500;
/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Selects pods that have not ended, as the watch does.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Compares with the API server.
pub(super) struct Comparer {
    pub(super) client: ApiClient,
    /// Scheduler names of the pods without a node that the cache has.
    pub(super) scheduler_names: Vec<String>,
}

/// The differences of one kind of objects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// In the API server, but not in the cache.
    missed: BTreeSet<String>,
    /// In the cache, but not in the API server.
    redundant: BTreeSet<String>,
}

impl Difference {
    fn of(actual: &BTreeSet<String>, cached: &BTreeSet<String>) -> Self {
        Self {
            missed: actual.difference(cached).cloned().collect(),
            redundant: cached.difference(actual).cloned().collect(),
        }
    }

    /// Keeps the differences that `later` has too.
    fn lasting(self, later: &Self) -> Self {
        Self { missed: &self.missed & &later.missed, redundant: &self.redundant & &later.redundant }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.missed.len() + self.redundant.len()
    }

    pub(super) fn missed(&self) -> String {
        joined(&self.missed)
    }

    pub(super) fn redundant(&self) -> String {
        joined(&self.redundant)
    }
}

fn joined(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// The differences between API server and cache.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    /// Names of nodes.
    pub(super) nodes: Difference,
    /// UIDs of pods.
    pub(super) pods: Difference,
}

impl Comparer {
    /// Returns the differences that last. Returns `None` if the scheduling loop has ended.
    ///
    /// # Errors
    /// The API server cannot be read.
    pub(super) async fn compare(
        &self,
        events: &EventSender,
    ) -> Result<Option<Differences>, String> {
        let Some(first) = self.compare_once(events).await? else { return Ok(None) };
        if first == Differences::default() {
            return Ok(Some(first));
        }
        tokio::time::sleep(PAUSE).await;
        let later = self.compare_once(events).await?;
        Ok(later.map(|later| Differences {
            nodes: first.nodes.lasting(&later.nodes),
            pods: first.pods.lasting(&later.pods),
        }))
    }

    async fn compare_once(&self, events: &EventSender) -> Result<Option<Differences>, String> {
        let nodes = self.list("/api/v1/nodes", None, |object| object.name).await?;
        let mut pods = self.list_pods("spec.nodeName!=").await?;
        for name in &self.scheduler_names {
            let pending = format!("spec.nodeName=,spec.schedulerName={name}");
            pods.extend(self.list_pods(&pending).await?);
        }
        let Some(snapshot) = events.snapshot().await else { return Ok(None) };
        if !snapshot.synced {
            return Err("the watches have not synced yet".to_owned());
        }
        let (cached_nodes, cached_pods) = cached(&snapshot);
        Ok(Some(Differences {
            nodes: Difference::of(&nodes, &cached_nodes),
            pods: Difference::of(&pods, &cached_pods),
        }))
    }

    async fn list_pods(&self, selector: &str) -> Result<BTreeSet<String>, String> {
        let selector = format!("{NOT_ENDED},{selector}");
        self.list("/api/v1/pods", Some(selector), |object| object.uid).await
    }

    /// Lists objects in pages, and returns one field of each.
    async fn list(
        &self,
        path: &str,
        field_selector: Option<String>,
        field: fn(ObjectMeta) -> String,
    ) -> Result<BTreeSet<String>, String> {
        let list = ListWatch { path: path.to_owned(), field_selector };
        let (mut all, mut token) = (BTreeSet::new(), None);
        loop {
            let path = list.page(PAGE, token);
            let page = timeout(TIMEOUT, self.page(&path)).await;
            let page = page.unwrap_or_else(|_| Err(no_response(TIMEOUT)))?;
            all.extend(page.items.into_iter().map(|object| field(object.metadata)));
            token = Some(page.metadata.next).filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(all);
            }
        }
    }

    async fn page(&self, path: &str) -> Result<List, String> {
        let response = self.client.get_metadata(path).await?;
        let status = response.status();
        let body = read_body(response.into_body()).await.map_err(|error| error.to_string())?;
        match status {
            StatusCode::OK => {
                serde_json::from_slice(&body).map_err(|error| format!("{path}: {error}"))
            }
            _ => Err(status_error(status.as_u16(), None, &body).message),
        }
    }
}

/// Returns the names of the nodes and the UIDs of the pods in the cache.
fn cached(snapshot: &Snapshot) -> (BTreeSet<String>, BTreeSet<String>) {
    let nodes = snapshot.nodes.iter().filter(|node| node.exists);
    let nodes = nodes.map(|node| node.name.to_string()).collect();
    (nodes, snapshot.pods().map(|pod| pod.uid.to_string()).collect())
}

/// A page of a list.
#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    items: Vec<Object>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListMeta {
    #[serde(rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Object {
    metadata: ObjectMeta,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectMeta {
    name: String,
    uid: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn only_lasting_differences_count() {
        let first = Difference::of(&names(&["a", "b", "c"]), &names(&["c", "d", "e"]));
        assert_eq!((first.missed(), first.redundant()), ("a b".into(), "d e".into()));
        let later = Difference::of(&names(&["a", "c", "d", "f"]), &names(&["c", "e"]));
        let lasting = first.lasting(&later);
        assert_eq!((lasting.missed(), lasting.redundant()), ("a".into(), "e".into()));
        assert_eq!(lasting.len(), 2);
        let again = Difference::of(&names(&["a"]), &names(&["a"]));
        assert!(lasting.lasting(&again).is_empty());
    }
}
