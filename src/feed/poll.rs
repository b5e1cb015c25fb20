//! Lists of a kind at intervals.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use control::reflector::{NamespacedName, ObjectMeta, Page, Undecodable};
use tokio::time::MissedTickBehavior;
use tracing::{info, warn};

use super::FeedFactory;
use super::origin::Origin;
use crate::api_client::no_response;
use crate::informer::report_undecodable;
use crate::supervision::catch_panic;
use crate::wire::{Decoder, Update, WatchedKind};

/// Shortest interval between two lists.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Time for all requests of a list.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The poll of one kind.
pub(super) struct Poll<M> {
    shared: FeedFactory<M>,
    kind: WatchedKind,
    origin: Origin,
    decoder: Decoder,
    interval: Duration,
    listed: Listed,
    /// The last error in the log, until a list succeeds.
    logged_error: Option<String>,
}

/// The objects of the last list, by name.
#[derive(Debug, Default)]
struct Listed(BTreeMap<NamespacedName, ObjectMeta>);

impl Listed {
    /// Replaces the objects by the objects of `page`. Returns the objects that the page no longer
    /// has. An object that cannot be decoded is still there.
    fn replace(&mut self, page: &Page<Update>) -> Vec<ObjectMeta> {
        let undecodable = page.undecodable.iter().filter_map(|own| own.meta.as_ref());
        let present = page.items.iter().map(|(meta, _)| meta).chain(undecodable);
        let present = present.map(|meta| (meta.key.clone(), meta.clone())).collect();
        let before = std::mem::replace(&mut self.0, present);
        before.into_values().filter(|meta| !self.0.contains_key(&meta.key)).collect()
    }
}

impl<M> Poll<M> {
    pub(super) fn new(
        shared: FeedFactory<M>,
        kind: WatchedKind,
        origin: Origin,
        interval: Duration,
    ) -> Self {
        let decoder = Decoder::new(kind.resource.clone(), framework::ExtraFields::default());
        let interval = interval.max(MIN_INTERVAL);
        let listed = Listed::default();
        Self { shared, kind, origin, decoder, interval, listed, logged_error: None }
    }

    /// Returns the poll with another interval, however short.
    #[cfg(test)]
    pub(super) fn every(self, interval: Duration) -> Self {
        Self { interval, ..self }
    }

    /// Lists without end. A list that fails leaves the objects as they are.
    pub(super) async fn run(mut self) -> Infallible {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let list = self.origin.list(&self.decoder);
            let listed = catch_panic(tokio::time::timeout(TIMEOUT, list)).await;
            let listed = listed.unwrap_or_else(|panic| Ok(Err(panic.to_string())));
            match listed.unwrap_or_else(|_| Err(no_response(TIMEOUT))) {
                Ok(page) => self.send(page).await,
                Err(err) => self.report_failure(err),
            }
        }
    }

    /// Sends every object of the list, and the deletions. The scheduler ignores objects that have
    /// not changed.
    async fn send(&mut self, page: Page<Update>) {
        if self.logged_error.take().is_some() {
            info!(resource = &*self.kind.name, "List recovered");
        }
        self.shared.metrics.feed_read(&self.kind.name);
        self.shared.status.reads(&self.kind.name, None);
        let resource = &*self.kind.name;
        for Undecodable { meta, message, .. } in &page.undecodable {
            report_undecodable(&self.shared.metrics, resource, meta.as_ref(), message);
        }
        let gone = self.listed.replace(&page).into_iter();
        let gone = gone.map(|meta| Update::from(self.decoder.deletion(meta)));
        let updates: Vec<_> =
            page.items.into_iter().map(|(_, update)| update).chain(gone).collect();
        if !updates.is_empty() {
            self.shared.events.send_updates(updates).await;
        }
    }

    /// Reports a list that failed, and logs a new error once.
    fn report_failure(&mut self, err: String) {
        self.shared.metrics.feed_failed(&self.kind.name);
        self.shared.status.reads(&self.kind.name, Some(&err));
        if self.logged_error.as_ref() != Some(&err) {
            warn!(resource = &*self.kind.name, err, "Failed to list");
            self.logged_error = Some(err);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::response::IntoResponse;
    use axum::routing::get;
    use engine::Change;
    use framework::EventResource;
    use http::StatusCode;
    use serde_json::{Value, json};

    use super::*;
    use crate::api_client::{ApiClient, Credentials};
    use crate::metrics::Metrics;
    use crate::scheduling_loop::{LoopEvent, channel};

    const PATH: &str = "/apis/metrics.k8s.io/v1beta1/nodes";

    fn node_metrics() -> WatchedKind {
        WatchedKind {
            resource: EventResource::Custom("nodes.v1beta1.metrics.k8s.io".into()),
            name: "nodes.metrics.k8s.io".into(),
            path: PATH.into(),
            field_selector: None,
            describes_nodes: false,
        }
    }

    /// Starts a server whose first list has the node `a`, whose second list fails, and whose
    /// further lists have the node `b`. Returns a client of it.
    async fn api_client(metrics: &Metrics) -> ApiClient {
        let requests = Arc::new(AtomicUsize::new(0));
        let list = move || async move {
            let names = match requests.fetch_add(1, Ordering::Relaxed) {
                0 => ["a"],
                1 => return (StatusCode::SERVICE_UNAVAILABLE, String::new()).into_response(),
                _ => ["b"],
            };
            let items = names.map(|name| json!({"metadata": {"name": name}}));
            json!({"metadata": {}, "items": items}).to_string().into_response()
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(
            async move { axum::serve(listener, Router::new().route(PATH, get(list))).await },
        );
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        let credentials = Credentials::parse(&kubeconfig.to_string()).await.unwrap();
        ApiClient::new(&credentials, "scheduler", metrics.rest_client(), Arc::default()).unwrap()
    }

    #[tokio::test]
    async fn lists_reach_the_scheduling_loop_as_changes() {
        let metrics = Arc::new(Metrics::new());
        let (sender, events) = channel();
        let client = api_client(&metrics).await;
        let origin = Origin::List { client: client.clone(), path: PATH.to_owned() };
        let shared = FeedFactory { client, events: sender, metrics, status: Arc::default() };
        let interval = Duration::from_millis(10);
        let poll = Poll::new(shared, node_metrics(), origin, interval).every(interval);
        let poll = tokio::spawn(poll.run());
        let changes = tokio::task::spawn_blocking(move || {
            let mut changes = Vec::new();
            while changes.len() < 3 {
                let LoopEvent::Updates(updates, _) = events.iter().next().unwrap() else {
                    panic!("only updates are sent")
                };
                for update in updates {
                    changes.push(match update.change {
                        Change::Object(object) => (object.name().to_string(), true),
                        Change::ObjectDeleted(key) => (key.name.to_string(), false),
                        _ => panic!("an object"),
                    });
                }
            }
            changes
        });
        let expected = [("a", true), ("b", true), ("a", false)];
        let expected = expected.map(|(name, exists)| (name.to_owned(), exists));
        assert_eq!(changes.await.unwrap(), expected);
        poll.abort();
    }

    fn page(names: &[&str]) -> Page<Update> {
        let decoder = Decoder::new(EventResource::Custom("a.v1.b".into()), Default::default());
        let items: Vec<Value> =
            names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
        decoder.page(json!({"metadata": {}, "items": items}).to_string().as_bytes()).unwrap()
    }

    fn gone(listed: &mut Listed, names: &[&str]) -> Vec<String> {
        listed.replace(&page(names)).into_iter().map(|meta| meta.key.to_string()).collect()
    }

    #[test]
    fn objects_that_a_list_no_longer_has_are_gone() {
        let mut listed = Listed::default();
        assert!(gone(&mut listed, &["a", "b", "c"]).is_empty());
        assert_eq!(gone(&mut listed, &["b", "d"]), ["a", "c"]);
        assert!(gone(&mut listed, &["b", "d"]).is_empty());
        assert_eq!(gone(&mut listed, &[]), ["b", "d"]);
    }

    #[test]
    fn undecodable_object_is_not_gone() {
        let mut listed = Listed::default();
        listed.replace(&page(&["a"]));
        let mut unreadable = page(&["a"]);
        let (meta, _) = unreadable.items.remove(0);
        let message = "odd".to_owned();
        unreadable.undecodable.push(Undecodable { meta: Some(meta), message, substitute: None });
        assert!(listed.replace(&unreadable).is_empty());
    }
}
