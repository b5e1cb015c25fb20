//! What has been reported of the objects of a kind.

use std::collections::BTreeMap;

use framework::Uid;

use super::version::Version;
use super::{Meta, ObjectId};

/// The objects reported and not yet reported as deleted, ordered so that what vanishes is reported
/// in the same order each time.
#[derive(Debug, Default)]
pub(super) struct Known {
    objects: BTreeMap<ObjectId, Entry>,
    /// The last version of each object that could not be decoded.
    undecodable: BTreeMap<ObjectId, Entry>,
    /// Counts the loads of a complete state; an entry that carries an older number was not part of
    /// it.
    load: u64,
}

#[derive(Debug)]
struct Entry {
    uid: Uid,
    version: Version,
    load: u64,
}

/// What the state of an object means to those who have heard all that was reported before.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Nothing: this very version is known.
    None,
    /// The object is there, in this version.
    Changed,
    /// The same, after another object of that name, which is gone.
    Replaced(Meta),
}

impl Known {
    /// A load of a complete state begins.
    pub(super) const fn begin_load(&mut self) {
        self.load += 1;
    }

    /// The load is complete: forgets and returns what it did not name.
    pub(super) fn end_load(&mut self) -> Vec<Meta> {
        let load = self.load;
        self.undecodable.retain(|_, entry| entry.load == load);
        self.objects
            .extract_if(.., |_, entry| entry.load != load)
            .map(|(id, entry)| entry.into_meta(id))
            .collect()
    }

    /// An object is there and was decoded.
    pub(super) fn changed(&mut self, meta: &Meta) -> News {
        self.undecodable.remove(&meta.id);
        let entry = self.entry(meta);
        let Some(known) = self.objects.get_mut(&meta.id) else {
            self.objects.insert(meta.id.clone(), entry);
            return News::Changed;
        };
        let old = std::mem::replace(known, entry);
        if old.uid != meta.uid {
            News::Replaced(old.into_meta(meta.id.clone()))
        } else if old.version == known.version {
            News::None
        } else {
            News::Changed
        }
    }

    /// An object is there and could not be decoded: its last good state stays. Returns what it
    /// replaced, and whether this version of it is heard of for the first time.
    pub(super) fn undecodable(&mut self, meta: &Meta) -> (Option<Meta>, bool) {
        let load = self.load;
        if let Some(known) = self.objects.get_mut(&meta.id) {
            known.load = load;
        }
        let replaced = self.remove_if(&meta.id, |known| known.uid != meta.uid);
        let entry = self.entry(meta);
        let (uid, version) = (entry.uid.clone(), entry.version.clone());
        let before = self.undecodable.insert(meta.id.clone(), entry);
        let heard = before.is_some_and(|before| before.uid == uid && before.version == version);
        (replaced, !heard)
    }

    /// An object is gone. Whether that is news: another object of its name stays.
    pub(super) fn deleted(&mut self, meta: &Meta) -> bool {
        if self.undecodable.get(&meta.id).is_some_and(|entry| entry.uid == meta.uid) {
            self.undecodable.remove(&meta.id);
        }
        self.remove_if(&meta.id, |known| known.uid == meta.uid).is_some()
    }

    fn remove_if(&mut self, id: &ObjectId, condition: impl Fn(&Entry) -> bool) -> Option<Meta> {
        if !self.objects.get(id).is_some_and(condition) {
            return None;
        }
        self.objects.remove_entry(id).map(|(id, entry)| entry.into_meta(id))
    }

    fn entry(&self, meta: &Meta) -> Entry {
        Entry {
            uid: meta.uid.clone(),
            version: Version::from(&meta.resource_version),
            load: self.load,
        }
    }
}

impl Entry {
    fn into_meta(self, id: ObjectId) -> Meta {
        Meta { id, uid: self.uid, resource_version: self.version.to_string().into() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::meta;
    use super::*;

    #[test]
    fn a_load_ends_with_what_it_did_not_name() {
        let mut known = Known::default();
        for name in ["c", "a", "b", "d"] {
            assert_eq!(known.changed(&meta(name, "u", 1)), News::Changed);
        }
        known.begin_load();
        assert_eq!(known.changed(&meta("b", "u", 1)), News::None);
        assert_eq!(known.undecodable(&meta("d", "u", 2)), (None, true));
        assert_eq!(known.end_load(), [meta("a", "u", 1), meta("c", "u", 1)]);
    }

    #[test]
    fn an_undecodable_version_is_news_once() {
        let mut known = Known::default();
        assert_eq!(known.undecodable(&meta("a", "u", 1)), (None, true));
        assert_eq!(known.undecodable(&meta("a", "u", 1)), (None, false));
        assert_eq!(known.undecodable(&meta("a", "u", 2)), (None, true));
        known.changed(&meta("a", "u", 3));
        assert_eq!(known.undecodable(&meta("a", "v", 4)), (Some(meta("a", "u", 3)), true));
        assert!(!known.deleted(&meta("a", "v", 5)), "it was never reported");
    }

    #[test]
    fn only_the_object_that_is_known_can_be_deleted() {
        let mut known = Known::default();
        known.changed(&meta("a", "u", 1));
        assert!(!known.deleted(&meta("a", "other", 2)));
        assert!(!known.deleted(&meta("b", "u", 2)));
        assert!(known.deleted(&meta("a", "u", 2)));
    }
}
