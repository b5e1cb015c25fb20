//! The objects that a reflector has reported.

use std::collections::BTreeMap;

use framework::Uid;

use super::resource_version::ResourceVersion;
use super::{NamespacedName, ObjectMeta};

/// The objects that were reported and not yet reported as deleted. They are ordered, so that a list
/// reports deletions in a fixed order.
#[derive(Debug, Default)]
pub(super) struct KnownObjects {
    objects: BTreeMap<NamespacedName, Entry>,
    /// The last version of each object that could not be decoded.
    undecodable: BTreeMap<NamespacedName, Entry>,
    /// The number of the current list. Entries with a lower number were not part of it.
    list: u64,
}

#[derive(Debug)]
struct Entry {
    uid: Uid,
    version: ResourceVersion,
    list: u64,
}

/// The difference between a received version of an object and the reported one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// This version was reported already.
    None,
    /// The object is new, or its version is.
    Updated,
    /// The object replaces another object of the same name, which was deleted.
    Replaced(ObjectMeta),
}

impl KnownObjects {
    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Starts a list.
    pub(super) const fn begin_list(&mut self) {
        self.list += 1;
    }

    /// Ends a list. Removes and returns the objects that were not part of it.
    pub(super) fn end_list(&mut self) -> Vec<ObjectMeta> {
        let list = self.list;
        self.undecodable.retain(|_, entry| entry.list == list);
        self.objects
            .extract_if(.., |_, entry| entry.list != list)
            .map(|(key, entry)| entry.into_meta(key))
            .collect()
    }

    /// Stores a version of an object and returns the difference from the version before it.
    pub(super) fn update(&mut self, meta: &ObjectMeta) -> Difference {
        self.undecodable.remove(&meta.key);
        let entry = self.new_entry(meta);
        let Some(known) = self.objects.get_mut(&meta.key) else {
            self.objects.insert(meta.key.clone(), entry);
            return Difference::Updated;
        };
        let old = std::mem::replace(known, entry);
        if old.uid != meta.uid {
            Difference::Replaced(old.into_meta(meta.key.clone()))
        } else if old.version == known.version {
            Difference::None
        } else {
            Difference::Updated
        }
    }

    /// Stores that a version of an object cannot be decoded. The last decoded version of the same
    /// object stays. Returns the object that this one replaced, and whether the version is new.
    pub(super) fn update_undecodable(&mut self, meta: &ObjectMeta) -> (Option<ObjectMeta>, bool) {
        let list = self.list;
        if let Some(known) = self.objects.get_mut(&meta.key) {
            known.list = list;
        }
        let replaced = self.remove_if(&meta.key, |known| known.uid != meta.uid);
        let entry = self.new_entry(meta);
        let (uid, version) = (entry.uid.clone(), entry.version.clone());
        let old = self.undecodable.insert(meta.key.clone(), entry);
        let is_known = old.is_some_and(|old| old.uid == uid && old.version == version);
        (replaced, !is_known)
    }

    /// Removes an object. Returns whether it was known: another object of the same name stays.
    pub(super) fn delete(&mut self, meta: &ObjectMeta) -> bool {
        if self.undecodable.get(&meta.key).is_some_and(|entry| entry.uid == meta.uid) {
            self.undecodable.remove(&meta.key);
        }
        self.remove_if(&meta.key, |known| known.uid == meta.uid).is_some()
    }

    fn remove_if(
        &mut self,
        key: &NamespacedName,
        condition: impl Fn(&Entry) -> bool,
    ) -> Option<ObjectMeta> {
        if !self.objects.get(key).is_some_and(condition) {
            return None;
        }
        self.objects.remove_entry(key).map(|(key, entry)| entry.into_meta(key))
    }

    fn new_entry(&self, meta: &ObjectMeta) -> Entry {
        Entry {
            uid: meta.uid.clone(),
            version: ResourceVersion::from(&meta.resource_version),
            list: self.list,
        }
    }
}

impl Entry {
    fn into_meta(self, key: NamespacedName) -> ObjectMeta {
        ObjectMeta { key, uid: self.uid, resource_version: self.version.to_string().into() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::meta;
    use super::*;

    #[test]
    fn list_ends_with_the_objects_it_did_not_contain() {
        let mut known = KnownObjects::default();
        for name in ["c", "a", "b", "d"] {
            assert_eq!(known.update(&meta(name, "u", 1)), Difference::Updated);
        }
        known.begin_list();
        assert_eq!(known.update(&meta("b", "u", 1)), Difference::None);
        assert_eq!(known.update_undecodable(&meta("d", "u", 2)), (None, true));
        assert_eq!(known.end_list(), [meta("a", "u", 1), meta("c", "u", 1)]);
    }

    #[test]
    fn undecodable_version_is_new_once() {
        let mut known = KnownObjects::default();
        assert_eq!(known.update_undecodable(&meta("a", "u", 1)), (None, true));
        assert_eq!(known.update_undecodable(&meta("a", "u", 1)), (None, false));
        assert_eq!(known.update_undecodable(&meta("a", "u", 2)), (None, true));
        known.update(&meta("a", "u", 3));
        let replaced = Some(meta("a", "u", 3));
        assert_eq!(known.update_undecodable(&meta("a", "v", 4)), (replaced, true));
        assert!(!known.delete(&meta("a", "v", 5)), "it was never reported");
    }

    #[test]
    fn only_the_known_object_is_deleted() {
        let mut known = KnownObjects::default();
        known.update(&meta("a", "u", 1));
        assert!(!known.delete(&meta("a", "other", 2)));
        assert!(!known.delete(&meta("b", "u", 2)));
        assert!(known.delete(&meta("a", "u", 2)));
    }
}
