//! Pods whose PreBind waits for a change.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use framework::{ObjectKey, Time, Uid};

/// What a pod waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wait {
    /// The end of its patience.
    pub(super) until: Time,
    /// The objects whose change it waits for; none if any will do.
    pub(super) objects: BTreeSet<ObjectKey>,
}

impl Wait {
    pub(super) fn is_for(&self, object: &ObjectKey) -> bool {
        self.objects.is_empty() || self.objects.contains(object)
    }

    /// Both waits at once.
    pub(super) fn or(mut self, mut other: Self) -> Self {
        if self.objects.is_empty() || other.objects.is_empty() {
            self.objects.clear();
        } else {
            self.objects.append(&mut other.objects);
        }
        Self { until: self.until.min(other.until), ..self }
    }
}

/// The pods that wait, to be found by what they wait for.
#[derive(Debug, Default)]
pub(super) struct Parked {
    waits: BTreeMap<Uid, Wait>,
    by_end: BTreeSet<(Time, Uid)>,
    by_object: HashMap<ObjectKey, BTreeSet<Uid>>,
    for_anything: BTreeSet<Uid>,
}

impl Parked {
    /// The pod waits for this from now on, and for nothing else.
    pub(super) fn insert(&mut self, uid: Uid, wait: Wait) {
        self.remove(&uid);
        self.by_end.insert((wait.until, uid.clone()));
        if wait.objects.is_empty() {
            self.for_anything.insert(uid.clone());
        }
        for object in &wait.objects {
            self.by_object.entry(object.clone()).or_default().insert(uid.clone());
        }
        self.waits.insert(uid, wait);
    }

    /// The pod waits no more.
    pub(super) fn remove(&mut self, uid: &Uid) {
        let Some(wait) = self.waits.remove(uid) else { return };
        self.by_end.remove(&(wait.until, uid.clone()));
        self.for_anything.remove(uid);
        for object in wait.objects {
            if let Some(uids) = self.by_object.get_mut(&object) {
                uids.remove(uid);
                if uids.is_empty() {
                    self.by_object.remove(&object);
                }
            }
        }
    }

    /// The pods that wait for a change of this object, or of any.
    pub(super) fn waiting_for(&self, object: &ObjectKey) -> Vec<Uid> {
        let named = self.by_object.get(object).into_iter().flatten();
        named.chain(&self.for_anything).cloned().collect()
    }

    /// The pods whose patience is over.
    pub(super) fn expired(&self, now: Time) -> Vec<Uid> {
        let expired = self.by_end.iter().take_while(|(until, _)| *until <= now);
        expired.map(|(_, uid)| uid.clone()).collect()
    }

    /// When the first patience ends.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.by_end.first().map(|(until, _)| *until)
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
    fn pods_are_found_by_what_they_wait_for_and_until_when() {
        let [a, b, c] = ["a", "b", "c"].map(Uid::from);
        let mut parked = Parked::default();
        parked.insert(a.clone(), wait(9, &["pv-1", "pv-2"]));
        parked.insert(b.clone(), wait(5, &["pv-2"]));
        parked.insert(c.clone(), wait(7, &[]));
        assert_eq!(parked.waiting_for(&volume("pv-1")), [a.clone(), c.clone()]);
        assert_eq!(parked.waiting_for(&volume("pv-2")), [a.clone(), b.clone(), c.clone()]);
        assert_eq!(parked.waiting_for(&volume("pv-3")), std::slice::from_ref(&c));
        assert_eq!(parked.expired(wait(7, &[]).until), [b.clone(), c.clone()]);

        parked.insert(b.clone(), wait(8, &["pv-3"]));
        assert_eq!(parked.waiting_for(&volume("pv-2")), [a.clone(), c.clone()]);
        assert_eq!(parked.next_deadline(), Some(wait(7, &[]).until));
        [a, b, c].iter().for_each(|uid| parked.remove(uid));
        assert!(parked.is_empty() && parked.by_object.is_empty());
        assert_eq!((parked.next_deadline(), parked.for_anything.len()), (None, 0));
    }
}
