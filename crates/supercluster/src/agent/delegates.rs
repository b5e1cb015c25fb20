//! The delegates of a cluster by the revision of their last change, for schedulers that mirror
//! them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use framework::Uid;

use crate::message::{Delegate, DelegateEvent, DelegateList, GoneDelegate};

/// Maximum number of events of a delegate, the latest ones.
pub const MAX_EVENTS: usize = 10;
/// Number of delegates that are gone and still reported. A scheduler that missed more lists all
/// delegates anew.
const MAX_GONE: usize = 10_000;

/// The delegates.
#[derive(Debug, Default)]
pub struct DelegateTable {
    revision: u64,
    by_revision: BTreeMap<u64, Arc<Delegate>>,
    revisions: BTreeMap<Uid, u64>,
    gone: VecDeque<(u64, GoneDelegate)>,
    /// The revision up to which deletions are forgotten.
    forgotten: u64,
}

impl DelegateTable {
    /// Applies a delegate as the watch shows it. It has the known events. Returns the
    /// new revision.
    pub fn set(&mut self, uid: &Uid, mut delegate: Delegate) -> u64 {
        self.revision += 1;
        if let Some(old) = self.revisions.insert(uid.clone(), self.revision) {
            let known = self.by_revision.remove(&old);
            delegate.events = known.map(|known| known.events.clone()).unwrap_or_default();
        }
        self.by_revision.insert(self.revision, Arc::new(delegate));
        self.revision
    }

    /// Applies an event of a pod, which may not be a delegate. Returns the new revision if it is
    /// one, and the event is new.
    pub fn add_event(&mut self, uid: &Uid, event: DelegateEvent) -> Option<u64> {
        let old = *self.revisions.get(uid)?;
        let mut changed = Delegate::clone(self.by_revision.get(&old)?);
        match changed.events.iter_mut().find(|known| known.uid == event.uid) {
            // A watch that begins anew shows it again.
            Some(known) if *known == event => return None,
            Some(known) => *known = event,
            None => changed.events.push(event),
        }
        if changed.events.len() > MAX_EVENTS {
            changed.events.remove(0);
        }
        self.revision += 1;
        self.by_revision.remove(&old);
        self.by_revision.insert(self.revision, Arc::new(changed));
        self.revisions.insert(uid.clone(), self.revision);
        Some(self.revision)
    }

    /// Notes that a pod is gone. Returns the new revision if it was a delegate.
    pub fn remove(&mut self, uid: &Uid) -> Option<u64> {
        let old = self.revisions.remove(uid)?;
        let delegate = self.by_revision.remove(&old)?;
        self.revision += 1;
        let gone = GoneDelegate { pod: delegate.pod.clone(), uid: delegate.uid.clone() };
        self.gone.push_back((self.revision, gone));
        if self.gone.len() > MAX_GONE
            && let Some((forgotten, _)) = self.gone.pop_front()
        {
            self.forgotten = forgotten;
        }
        Some(self.revision)
    }

    /// Returns the number of delegates.
    pub fn len(&self) -> usize {
        self.by_revision.len()
    }

    /// Whether there are no delegates.
    pub fn is_empty(&self) -> bool {
        self.by_revision.is_empty()
    }

    /// Returns the changes that a caller does not know of a life of the agent, at most `page`
    /// delegates, for the present life.
    pub fn list(
        &self,
        incarnation: &Arc<str>,
        known: &str,
        after: u64,
        page: usize,
    ) -> DelegateList {
        let is_known = *known == **incarnation && after >= self.forgotten;
        let after = if is_known { after } else { 0 };
        let newer = self.by_revision.range(after + 1..);
        let delegates: Vec<_> = newer.take(page).map(|(at, own)| (*at, own.clone())).collect();
        let more = delegates.len() == page;
        let revision = match delegates.last() {
            Some((last, _)) if more => *last,
            _ => self.revision,
        };
        let gone = self.gone.iter().filter(|(at, _)| (after + 1..=revision).contains(at));
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
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::message::TryNumber;

    fn set(delegates: &mut DelegateTable, name: &str, status: Value) {
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

    fn list(delegates: &DelegateTable, incarnation: &str, after: u64) -> DelegateList {
        delegates.list(&"life".into(), incarnation, after, 5)
    }

    fn names(list: &DelegateList) -> Vec<&str> {
        list.delegates.iter().map(|delegate| &*delegate.name).collect()
    }

    #[test]
    fn changes_follow_the_revision_that_the_caller_knows() {
        let mut delegates = DelegateTable::default();
        for name in ["a", "b", "c"] {
            set(&mut delegates, name, json!({}));
        }
        let all = list(&delegates, "", 0);
        assert_eq!((names(&all), all.begins_anew, all.more), (vec!["a", "b", "c"], true, false));
        set(&mut delegates, "a", json!({"phase": "Running"}));
        delegates.remove(&Uid::from("uid-b"));
        assert_eq!(delegates.remove(&Uid::from("a pod that is no delegate")), None);
        let changed = list(&delegates, "life", all.revision);
        assert_eq!((names(&changed), changed.begins_anew), (vec!["a"], false));
        assert_eq!(changed.gone[0].pod.as_ref(), "origin-b");
        let nothing = list(&delegates, "life", changed.revision);
        assert!(nothing.delegates.is_empty() && nothing.gone.is_empty());
        let other_life = list(&delegates, "earlier", changed.revision);
        assert_eq!((names(&other_life), other_life.begins_anew), (vec!["c", "a"], true));
    }

    #[test]
    fn latest_events_of_a_delegate_are_listed_once() {
        let mut delegates = DelegateTable::default();
        set(&mut delegates, "a", json!({}));
        let event = |number: usize, count| DelegateEvent {
            uid: format!("e{number}").into(),
            warning: false,
            reason: "Pulled".into(),
            message: "image".into(),
            component: "kubelet".into(),
            count,
        };
        let uid = Uid::from("uid-a");
        assert_eq!(delegates.add_event(&Uid::from("no delegate"), event(0, 1)), None);
        for number in 0..MAX_EVENTS + 2 {
            delegates.add_event(&uid, event(number, 1));
        }
        let listed = list(&delegates, "life", 1);
        assert_eq!(listed.delegates[0].events.len(), MAX_EVENTS);
        assert_eq!(listed.delegates[0].events[0], event(2, 1));
        assert_eq!(delegates.add_event(&uid, event(5, 1)), None);
        assert!(list(&delegates, "life", listed.revision).delegates.is_empty());
        delegates.add_event(&uid, event(5, 2));
        set(&mut delegates, "a", json!({"phase": "Running"}));
        let listed = list(&delegates, "life", listed.revision);
        assert_eq!(listed.delegates[0].events[3], event(5, 2), "they stay when the status changes");
    }

    #[test]
    fn long_lists_come_in_pages() {
        let mut delegates = DelegateTable::default();
        for number in 0..8 {
            set(&mut delegates, &number.to_string(), json!({}));
        }
        let first = list(&delegates, "", 0);
        assert_eq!((first.delegates.len(), first.more), (5, true));
        let second = list(&delegates, "life", first.revision);
        assert_eq!((second.delegates.len(), second.more, second.begins_anew), (3, false, false));
    }

    #[test]
    fn caller_that_missed_deletions_lists_anew() {
        let mut delegates = DelegateTable::default();
        for number in 0..MAX_GONE + 2 {
            set(&mut delegates, &number.to_string(), json!({}));
            delegates.remove(&Uid::from(&*format!("uid-{number}")));
        }
        set(&mut delegates, "stays", json!({}));
        let late = list(&delegates, "life", 1);
        assert_eq!((names(&late), late.begins_anew), (vec!["stays"], true));
    }
}
