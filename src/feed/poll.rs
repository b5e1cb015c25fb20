//! Lists of a kind at intervals.

use std::collections::BTreeMap;
use std::time::Duration;

use client::reflector::{NamespacedName, ObjectMeta, Page};
use http::StatusCode;
use tokio::time::MissedTickBehavior;
use tracing::{info, warn};

use super::FeedFactory;
use crate::api_client::{no_response, read_body};
use crate::wire::{Decoder, Update, WatchedKind, status_error};

/// Shortest interval between two lists.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of a list.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The poll of one kind.
pub(super) struct Poll {
    shared: FeedFactory,
    kind: WatchedKind,
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
    /// Replaces the objects by those of `page`. Returns the objects that the page no longer has. An
    /// object that cannot be decoded is still there.
    fn replace(&mut self, page: &Page<Update>) -> Vec<ObjectMeta> {
        let undecodable = page.undecodable.iter().filter_map(|(meta, _)| meta.as_ref());
        let present = page.items.iter().map(|(meta, _)| meta).chain(undecodable);
        let present = present.map(|meta| (meta.key.clone(), meta.clone())).collect();
        let before = std::mem::replace(&mut self.0, present);
        before.into_values().filter(|meta| !self.0.contains_key(&meta.key)).collect()
    }
}

impl Poll {
    pub(super) fn new(shared: FeedFactory, kind: WatchedKind, interval: Duration) -> Self {
        let decoder = Decoder::new(kind.resource.clone(), framework::ExtraFields::default());
        let interval = interval.max(MIN_INTERVAL);
        Self { shared, kind, decoder, interval, listed: Listed::default(), logged_error: None }
    }

    /// Lists without end. A list that fails leaves the objects as they are.
    pub(super) async fn run(mut self) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let listed = tokio::time::timeout(TIMEOUT, self.list()).await;
            match listed.unwrap_or_else(|_| Err(no_response(TIMEOUT))) {
                Ok(page) => self.send(page).await,
                Err(err) => self.log_error(err),
            }
        }
    }

    async fn list(&self) -> Result<Page<Update>, String> {
        let response = self.shared.client.get(&self.kind.path).await?;
        let status = response.status();
        let body = read_body(response.into_body()).await.map_err(|error| error.to_string())?;
        match status {
            StatusCode::OK => self.decoder.page(&body),
            _ => Err(status_error(status.as_u16(), None, &body).message),
        }
    }

    /// Sends every object of the list, and the deletions. The scheduler ignores objects that have not
    /// changed.
    async fn send(&mut self, page: Page<Update>) {
        if self.logged_error.take().is_some() {
            info!(resource = &*self.kind.name, "List recovered");
        }
        let resource = &*self.kind.name;
        for (meta, reason) in &page.undecodable {
            let object = meta.as_ref().map(|meta| meta.key.to_string()).unwrap_or_default();
            warn!(resource, object, reason, "Skipped an object that cannot be decoded");
            self.shared.metrics.undecodable(resource);
        }
        let gone = self.listed.replace(&page).into_iter();
        let gone = gone.map(|meta| Update::from(self.decoder.deletion(meta)));
        let updates: Vec<_> =
            page.items.into_iter().map(|(_, update)| update).chain(gone).collect();
        if !updates.is_empty() {
            self.shared.events.send_updates(updates).await;
        }
    }

    /// Logs a new error once.
    fn log_error(&mut self, err: String) {
        if self.logged_error.as_ref() != Some(&err) {
            warn!(resource = &*self.kind.name, err, "Failed to list");
            self.logged_error = Some(err);
        }
    }
}

#[cfg(test)]
mod tests {
    use framework::EventResource;
    use serde_json::{Value, json};

    use super::*;

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
        unreadable.undecodable.push((Some(meta), "odd".to_owned()));
        assert!(listed.replace(&unreadable).is_empty());
    }
}
