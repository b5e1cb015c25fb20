//! The delegates that the agent's watch shows, for schedulers that mirror them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use framework::Uid;
use tokio::sync::watch;

use super::super::messages::{
    Delegate, DelegateEvent, DelegateList, DelegatesQuery, GoneDelegate, MAX_EVENTS, PAGE,
};

/// Number of delegates that are gone and still reported. A scheduler that missed more lists all delegates anew.
const MAX_GONE: usize = 10_000;
/// Longest wait for a change.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// The delegates by the revision of their last change.
#[derive(Debug)]
pub(super) struct Delegates {
    table: Mutex<Table>,
    /// The revision of the last change.
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Table {
    revision: u64,
    by_revision: BTreeMap<u64, Arc<Delegate>>,
    revisions: BTreeMap<Uid, u64>,
    gone: VecDeque<(u64, GoneDelegate)>,
    /// The revision up to which deletions are forgotten.
    forgotten: u64,
}

impl Default for Delegates {
    fn default() -> Self {
        Self { table: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl Delegates {
    /// Takes in a delegate as the watch shows it.
    pub(super) fn set(&self, uid: &Uid, mut delegate: Delegate) {
        let mut table = self.lock();
        table.revision += 1;
        let revision = table.revision;
        if let Some(old) = table.revisions.insert(uid.clone(), revision) {
            let known = table.by_revision.remove(&old);
            delegate.events = known.map(|known| known.events.clone()).unwrap_or_default();
        }
        table.by_revision.insert(revision, Arc::new(delegate));
        drop(table);
        self.changed.send_replace(revision);
    }

    /// Takes in an event of a pod, which may be no delegate.
    pub(super) fn add_event(&self, uid: &Uid, event: DelegateEvent) {
        let mut table = self.lock();
        let Some(old) = table.revisions.get(uid).copied() else { return };
        let Some(known) = table.by_revision.get(&old) else { return };
        let mut changed = Delegate::clone(known);
        match changed.events.iter_mut().find(|known| known.uid == event.uid) {
            // A watch that begins anew shows it again.
            Some(known) if *known == event => return,
            Some(known) => *known = event,
            None => changed.events.push(event),
        }
        if changed.events.len() > MAX_EVENTS {
            changed.events.remove(0);
        }
        table.revision += 1;
        let revision = table.revision;
        table.by_revision.remove(&old);
        table.by_revision.insert(revision, Arc::new(changed));
        table.revisions.insert(uid.clone(), revision);
        drop(table);
        self.changed.send_replace(revision);
    }

    /// Takes in that a pod is gone.
    pub(super) fn remove(&self, uid: &Uid) {
        let mut table = self.lock();
        let Some(old) = table.revisions.remove(uid) else { return };
        let Some(delegate) = table.by_revision.remove(&old) else { return };
        table.revision += 1;
        let revision = table.revision;
        let gone = GoneDelegate { pod: delegate.pod.clone(), uid: delegate.uid.clone() };
        table.gone.push_back((revision, gone));
        if table.gone.len() > MAX_GONE
            && let Some((forgotten, _)) = table.gone.pop_front()
        {
            table.forgotten = forgotten;
        }
        drop(table);
        self.changed.send_replace(revision);
    }

    /// Returns the number of delegates.
    pub(super) fn len(&self) -> usize {
        self.lock().by_revision.len()
    }

    /// Returns the changes after those that the caller knows; waits for one if it asks for that.
    pub(super) async fn list(
        &self,
        incarnation: &Arc<str>,
        query: &DelegatesQuery,
    ) -> DelegateList {
        let mut changed = self.changed.subscribe();
        let list = self.page(incarnation, query);
        let is_empty = list.delegates.is_empty() && list.gone.is_empty() && !list.begins_anew;
        if !is_empty || query.wait_ms == 0 {
            return list;
        }
        let wait = Duration::from_millis(query.wait_ms).min(MAX_WAIT);
        let newer = changed.wait_for(|revision| *revision > query.after);
        let _ = tokio::time::timeout(wait, newer).await;
        self.page(incarnation, query)
    }

    fn page(&self, incarnation: &Arc<str>, query: &DelegatesQuery) -> DelegateList {
        let table = self.lock();
        let is_known = *query.incarnation == **incarnation && query.after >= table.forgotten;
        let after = if is_known { query.after } else { 0 };
        let newer = table.by_revision.range(after + 1..);
        let delegates: Vec<_> = newer.take(PAGE).map(|(at, own)| (*at, own.clone())).collect();
        let more = delegates.len() == PAGE;
        let revision = match delegates.last() {
            Some((last, _)) if more => *last,
            _ => table.revision,
        };
        let gone = table.gone.iter().filter(|(at, _)| (after + 1..=revision).contains(at));
        DelegateList {
            incarnation: incarnation.clone(),
            revision,
            begins_anew: !is_known,
            more,
            // A list from the beginning needs no deletions.
            gone: gone.filter(|_| is_known).map(|(_, gone)| gone.clone()).collect(),
            delegates: delegates.into_iter().map(|(_, delegate)| delegate).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // No code that holds the lock panics.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use supercluster::message::TryNumber;

    use super::*;

    fn set(delegates: &Delegates, name: &str, status: Value) {
        let uid = format!("uid-{name}");
        let delegate = Delegate {
            pod: format!("origin-{name}").into(),
            number: TryNumber { attempt: 1, candidate: 0 },
            namespace: "ns".into(),
            name: name.into(),
            origin: None,
            uid: uid.as_str().into(),
            node: None,
            terminating: false,
            status,
            events: Vec::new(),
        };
        delegates.set(&Uid::from(&*uid), delegate);
    }

    async fn list(delegates: &Delegates, incarnation: &str, after: u64) -> DelegateList {
        let query = DelegatesQuery { incarnation: incarnation.to_owned(), after, wait_ms: 0 };
        delegates.list(&"life".into(), &query).await
    }

    fn names(list: &DelegateList) -> Vec<&str> {
        list.delegates.iter().map(|delegate| &*delegate.name).collect()
    }

    #[tokio::test]
    async fn changes_follow_the_revision_that_the_caller_knows() {
        let delegates = Delegates::default();
        for name in ["a", "b", "c"] {
            set(&delegates, name, json!({}));
        }
        let all = list(&delegates, "", 0).await;
        assert_eq!((names(&all), all.begins_anew, all.more), (vec!["a", "b", "c"], true, false));
        set(&delegates, "a", json!({"phase": "Running"}));
        delegates.remove(&Uid::from("uid-b"));
        delegates.remove(&Uid::from("a pod that is no delegate"));
        let changed = list(&delegates, "life", all.revision).await;
        assert_eq!((names(&changed), changed.begins_anew), (vec!["a"], false));
        assert_eq!(changed.gone[0].pod.as_ref(), "origin-b");
        let nothing = list(&delegates, "life", changed.revision).await;
        assert!(nothing.delegates.is_empty() && nothing.gone.is_empty());
        let other_life = list(&delegates, "earlier", changed.revision).await;
        assert_eq!((names(&other_life), other_life.begins_anew), (vec!["c", "a"], true));
    }

    #[tokio::test]
    async fn latest_events_of_a_delegate_are_listed_once() {
        let delegates = Delegates::default();
        set(&delegates, "a", json!({}));
        let event = |number: usize, count| DelegateEvent {
            uid: format!("e{number}").into(),
            warning: false,
            reason: "Pulled".into(),
            message: "image".into(),
            component: "kubelet".into(),
            count,
        };
        let uid = Uid::from("uid-a");
        delegates.add_event(&Uid::from("no delegate"), event(0, 1));
        for number in 0..MAX_EVENTS + 2 {
            delegates.add_event(&uid, event(number, 1));
        }
        let listed = list(&delegates, "life", 1).await;
        assert_eq!(listed.delegates[0].events.len(), MAX_EVENTS);
        assert_eq!(listed.delegates[0].events[0], event(2, 1));
        delegates.add_event(&uid, event(5, 1));
        assert!(list(&delegates, "life", listed.revision).await.delegates.is_empty());
        delegates.add_event(&uid, event(5, 2));
        set(&delegates, "a", json!({"phase": "Running"}));
        let listed = list(&delegates, "life", listed.revision).await;
        assert_eq!(listed.delegates[0].events[3], event(5, 2), "they stay when the status changes");
    }

    #[tokio::test]
    async fn long_lists_come_in_pages() {
        let delegates = Delegates::default();
        for number in 0..PAGE + 3 {
            set(&delegates, &number.to_string(), json!({}));
        }
        let first = list(&delegates, "", 0).await;
        assert_eq!((first.delegates.len(), first.more), (PAGE, true));
        let second = list(&delegates, "life", first.revision).await;
        assert_eq!((second.delegates.len(), second.more, second.begins_anew), (3, false, false));
    }

    #[tokio::test(start_paused = true)]
    async fn caller_waits_for_a_change() {
        let delegates = Arc::new(Delegates::default());
        set(&delegates, "a", json!({}));
        let query = DelegatesQuery { incarnation: "life".to_owned(), after: 1, wait_ms: 5_000 };
        let incarnation = "life".into();
        let started = tokio::time::Instant::now();
        assert!(delegates.list(&incarnation, &query).await.delegates.is_empty());
        assert_eq!(started.elapsed(), Duration::from_secs(5));
        let waiting = delegates.list(&incarnation, &query);
        let changing = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            set(&delegates, "b", json!({}));
        };
        let (list, ()) = tokio::join!(waiting, changing);
        assert_eq!(names(&list), ["b"]);
    }

    #[tokio::test]
    async fn caller_that_missed_deletions_lists_anew() {
        let delegates = Delegates::default();
        for number in 0..MAX_GONE + 2 {
            set(&delegates, &number.to_string(), json!({}));
            delegates.remove(&Uid::from(&*format!("uid-{number}")));
        }
        set(&delegates, "stays", json!({}));
        let late = list(&delegates, "life", 1).await;
        assert_eq!((names(&late), late.begins_anew), (vec!["stays"], true));
    }
}
