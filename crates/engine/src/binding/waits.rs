//! The waits of PreBind plugins for a change of an object.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::HashMap;
use framework::{ObjectKey, Time, Uid};

/// The wait of a pod for a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wait {
    /// The deadline.
    pub(super) until: Time,
    /// The objects whose change ends the wait; empty if any change does.
    pub(super) objects: BTreeSet<ObjectKey>,
}

impl Wait {
    pub(super) fn is_for(&self, object: &ObjectKey) -> bool {
        self.objects.is_empty() || self.objects.contains(object)
    }

    /// Combines two waits: the objects of both, until the earlier deadline.
    pub(super) fn join(mut self, mut other: Self) -> Self {
        if self.objects.is_empty() || other.objects.is_empty() {
            self.objects.clear();
        } else {
            self.objects.append(&mut other.objects);
        }
        Self { until: self.until.min(other.until), ..self }
    }
}

/// The pods that wait, indexed by object and by deadline.
#[derive(Debug, Default)]
pub(super) struct PreBindWaits {
    waits: BTreeMap<Uid, Wait>,
    by_deadline: BTreeSet<(Time, Uid)>,
    by_object: HashMap<ObjectKey, BTreeSet<Uid>>,
    for_any_object: BTreeSet<Uid>,
}

impl PreBindWaits {
    /// Replaces the wait of a pod.
    pub(super) fn insert(&mut self, uid: Uid, wait: Wait) {
        self.remove(&uid);
        self.by_deadline.insert((wait.until, uid.clone()));
        if wait.objects.is_empty() {
            self.for_any_object.insert(uid.clone());
        }
        for object in &wait.objects {
            self.by_object.entry(object.clone()).or_default().insert(uid.clone());
        }
        self.waits.insert(uid, wait);
    }

    /// Ends the wait of a pod.
    pub(super) fn remove(&mut self, uid: &Uid) {
        let Some(wait) = self.waits.remove(uid) else { return };
        self.by_deadline.remove(&(wait.until, uid.clone()));
        self.for_any_object.remove(uid);
        for object in wait.objects {
            if let Some(uids) = self.by_object.get_mut(&object) {
                uids.remove(uid);
                if uids.is_empty() {
                    self.by_object.remove(&object);
                }
            }
        }
    }

    /// Returns the pods that wait for a change of this object or of any object.
    pub(super) fn waiting_for(&self, object: &ObjectKey) -> Vec<Uid> {
        let named = self.by_object.get(object).into_iter().flatten();
        named.chain(&self.for_any_object).cloned().collect()
    }

    /// Returns the pods whose deadline has passed.
    pub(super) fn expired(&self, now: Time) -> Vec<Uid> {
        let expired = self.by_deadline.iter().take_while(|(until, _)| *until <= now);
        expired.map(|(_, uid)| uid.clone()).collect()
    }

    /// Returns the earliest deadline.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.by_deadline.first().map(|(until, _)| *until)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use framework::EventResource;

    use super::*;

    fn volume(name: &str) -> ObjectKey {
        ObjectKey::cluster_scoped(EventResource::PersistentVolume, name.into())
    }

    fn wait(until: u64, volumes: &[&str]) -> Wait {
        let objects = volumes.iter().map(|name| volume(name)).collect();
        Wait { until: Time::ZERO + Duration::from_secs(until), objects }
    }

    #[test]
    fn waits_are_found_by_object_and_by_deadline() {
        let [a, b, c] = ["a", "b", "c"].map(Uid::from);
        let mut waits = PreBindWaits::default();
        waits.insert(a.clone(), wait(9, &["pv-1", "pv-2"]));
        waits.insert(b.clone(), wait(5, &["pv-2"]));
        waits.insert(c.clone(), wait(7, &[]));
        assert_eq!(waits.waiting_for(&volume("pv-1")), [a.clone(), c.clone()]);
        assert_eq!(waits.waiting_for(&volume("pv-2")), [a.clone(), b.clone(), c.clone()]);
        assert_eq!(waits.waiting_for(&volume("pv-3")), std::slice::from_ref(&c));
        assert_eq!(waits.expired(wait(7, &[]).until), [b.clone(), c.clone()]);

        waits.insert(b.clone(), wait(8, &["pv-3"]));
        assert_eq!(waits.waiting_for(&volume("pv-2")), [a.clone(), c.clone()]);
        assert_eq!(waits.next_deadline(), Some(wait(7, &[]).until));
        [a, b, c].iter().for_each(|uid| waits.remove(uid));
        assert!(waits.is_empty() && waits.by_object.is_empty());
        assert_eq!((waits.next_deadline(), waits.for_any_object.len()), (None, 0));
    }
}
