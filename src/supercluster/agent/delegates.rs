//! The delegates that the agent's watch shows, and the callers that wait for their changes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use framework::Uid;
use supercluster::agent::DelegateTable;
use supercluster::message::{Delegate, DelegateEvent, DelegateList};
use tokio::sync::watch;

use super::super::messages::{DelegatesQuery, PAGE};

/// Longest wait for a change.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// The delegates.
#[derive(Debug)]
pub(super) struct Delegates {
    table: Mutex<DelegateTable>,
    /// The revision of the last change.
    changed: watch::Sender<u64>,
}

impl Default for Delegates {
    fn default() -> Self {
        Self { table: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl Delegates {
    /// Applies a delegate as the watch shows it.
    pub(super) fn set(&self, uid: &Uid, delegate: Delegate) {
        let revision = self.lock().set(uid, delegate);
        self.notify(Some(revision));
    }

    /// Applies an event of a pod, which may not be a delegate.
    pub(super) fn add_event(&self, uid: &Uid, event: DelegateEvent) {
        let revision = self.lock().add_event(uid, event);
        self.notify(revision);
    }

    /// Notes that a pod is gone.
    pub(super) fn remove(&self, uid: &Uid) {
        let revision = self.lock().remove(uid);
        self.notify(revision);
    }

    /// Returns the number of delegates.
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns the changes that the caller does not know; waits for one if the caller asks for it.
    pub(super) async fn list(
        &self,
        incarnation: &Arc<str>,
        query: &DelegatesQuery,
    ) -> DelegateList {
        let page = || self.lock().list(incarnation, &query.incarnation, query.after, PAGE);
        let mut changed = self.changed.subscribe();
        let list = page();
        let is_empty = list.delegates.is_empty() && list.gone.is_empty() && !list.begins_anew;
        if !is_empty || query.wait_ms == 0 {
            return list;
        }
        let wait = Duration::from_millis(query.wait_ms).min(MAX_WAIT);
        let newer = changed.wait_for(|revision| *revision > query.after);
        let _ = tokio::time::timeout(wait, newer).await;
        page()
    }

    /// Wakes the callers that wait for a change.
    fn notify(&self, revision: Option<u64>) {
        if let Some(revision) = revision {
            self.changed.send_replace(revision);
        }
    }

    fn lock(&self) -> MutexGuard<'_, DelegateTable> {
        // No code that holds the lock panics.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use supercluster::message::TryNumber;

    use super::*;

    fn set(delegates: &Delegates, name: &str) {
        let delegate = Delegate {
            pod: name.into(),
            number: TryNumber { attempt: 1, candidate: 0 },
            namespace: "ns".into(),
            name: name.into(),
            origin: None,
            uid: name.into(),
            node: None,
            terminating: false,
            status: json!({}),
            events: Vec::new(),
        };
        delegates.set(&Uid::from(name), delegate);
    }

    #[tokio::test(start_paused = true)]
    async fn caller_waits_for_a_change() {
        let delegates = Arc::new(Delegates::default());
        set(&delegates, "a");
        let query = DelegatesQuery { incarnation: "life".to_owned(), after: 1, wait_ms: 5_000 };
        let incarnation = "life".into();
        let started = tokio::time::Instant::now();
        assert!(delegates.list(&incarnation, &query).await.delegates.is_empty());
        assert_eq!(started.elapsed(), Duration::from_secs(5));
        let waiting = delegates.list(&incarnation, &query);
        let changing = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            set(&delegates, "b");
        };
        let (list, ()) = tokio::join!(waiting, changing);
        assert_eq!(list.delegates[0].name.as_ref(), "b");
    }
}
