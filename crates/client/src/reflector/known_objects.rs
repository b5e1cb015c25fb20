//! The objects that a reflector has reported.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use framework::Uid;

use super::resource_version::ResourceVersion;
use super::{NamespacedName, ObjectMeta};

/// The objects that were reported and not yet reported as deleted.
#[derive(Debug, Default)]
pub(super) struct KnownObjects {
    objects: Objects,
    /// The last version of each object that could not be decoded.
    undecodable: BTreeMap<NamespacedName, Entry>,
    /// The number of the current list. Entries with another number were not part of it.
    list: u32,
}

/// Entries by namespace and name. Names are shared with the objects, and a namespace is kept once.
#[derive(Debug, Default)]
struct Objects {
    namespaces: BTreeMap<Arc<str>, HashMap<Arc<str>, Entry>>,
    len: usize,
}

impl Objects {
    fn get_mut(&mut self, key: &NamespacedName) -> Option<&mut Entry> {
        self.namespaces.get_mut(&key.namespace)?.get_mut(&key.name)
    }

    /// Stores an object and returns the entry before it. The name of the new version replaces that of the old
    /// one, so that it stays shared with the object.
    fn insert(&mut self, key: &NamespacedName, entry: Entry) -> Option<Entry> {
        let objects = match self.namespaces.get_mut(&key.namespace) {
            Some(objects) => objects,
            None => self.namespaces.entry(key.namespace.clone()).or_default(),
        };
        let old = objects.remove(&key.name);
        objects.insert(key.name.clone(), entry);
        self.len += usize::from(old.is_none());
        old
    }

    fn remove_if(
        &mut self,
        key: &NamespacedName,
        condition: impl Fn(&Entry) -> bool,
    ) -> Option<Entry> {
        let objects = self.namespaces.get_mut(&key.namespace)?;
        if !objects.get(&key.name).is_some_and(condition) {
            return None;
        }
        let removed = objects.remove(&key.name);
        if objects.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
        self.len -= 1;
        removed
    }

    /// Removes and returns the objects that satisfy the condition, in the order of their keys.
    fn extract_if(&mut self, condition: impl Fn(&Entry) -> bool) -> Vec<ObjectMeta> {
        let mut extracted = Vec::new();
        for (namespace, objects) in &mut self.namespaces {
            let first = extracted.len();
            extracted.extend(objects.extract_if(|_, entry| condition(entry)).map(
                |(name, entry)| {
                    entry.into_meta(NamespacedName { namespace: namespace.clone(), name })
                },
            ));
            extracted[first..].sort_unstable_by(|a: &ObjectMeta, b| a.key.name.cmp(&b.key.name));
        }
        self.namespaces.retain(|_, objects| !objects.is_empty());
        self.len -= extracted.len();
        extracted
    }
}

/// A version of an object, and the number of the last list with it.
#[derive(Debug)]
enum Entry {
    /// As the API server has them. Half the size of [`Entry::Any`].
    Usual { uid: [u8; 16], version: u64, list: u32 },
    /// With any other UID or version.
    Any(Box<(Uid, ResourceVersion, u32)>),
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
    pub(super) const fn len(&self) -> usize {
        self.objects.len
    }

    /// Starts a list.
    pub(super) const fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// Ends a list. Removes and returns the objects that were not part of it.
    pub(super) fn end_list(&mut self) -> Vec<ObjectMeta> {
        let list = self.list;
        self.undecodable.retain(|_, entry| entry.list() == list);
        self.objects.extract_if(|entry| entry.list() != list)
    }

    /// Stores a version of an object and returns the difference from the version before it.
    pub(super) fn update(&mut self, meta: &ObjectMeta) -> Difference {
        if !self.undecodable.is_empty() {
            self.undecodable.remove(&meta.key);
        }
        let entry = Entry::new(meta, self.list);
        let version = entry.version();
        let Some(old) = self.objects.insert(&meta.key, entry) else { return Difference::Updated };
        if !old.has_uid(&meta.uid) {
            Difference::Replaced(old.into_meta(meta.key.clone()))
        } else if old.version() == version {
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
            known.set_list(list);
        }
        let replaced = self.objects.remove_if(&meta.key, |known| !known.has_uid(&meta.uid));
        let replaced = replaced.map(|old| old.into_meta(meta.key.clone()));
        let entry = Entry::new(meta, list);
        let version = entry.version();
        let old = self.undecodable.insert(meta.key.clone(), entry);
        let is_known = old.is_some_and(|old| old.has_uid(&meta.uid) && old.version() == version);
        (replaced, !is_known)
    }

    /// Removes an object. Returns whether it was known: another object of the same name stays.
    pub(super) fn delete(&mut self, meta: &ObjectMeta) -> bool {
        if self.undecodable.get(&meta.key).is_some_and(|entry| entry.has_uid(&meta.uid)) {
            self.undecodable.remove(&meta.key);
        }
        self.objects.remove_if(&meta.key, |known| known.has_uid(&meta.uid)).is_some()
    }
}

impl Entry {
    fn new(meta: &ObjectMeta, list: u32) -> Self {
        match (&meta.uid, ResourceVersion::from(&meta.resource_version)) {
            (Uid::Uuid(uid), ResourceVersion::Number(version)) => {
                Self::Usual { uid: *uid, version, list }
            }
            (uid, version) => Self::Any(Box::new((uid.clone(), version, list))),
        }
    }

    fn has_uid(&self, uid: &Uid) -> bool {
        match self {
            Self::Usual { uid: own, .. } => *uid == Uid::Uuid(*own),
            Self::Any(any) => any.0 == *uid,
        }
    }

    fn version(&self) -> ResourceVersion {
        match self {
            Self::Usual { version, .. } => ResourceVersion::Number(*version),
            Self::Any(any) => any.1.clone(),
        }
    }

    const fn list(&self) -> u32 {
        match self {
            Self::Usual { list, .. } => *list,
            Self::Any(any) => any.2,
        }
    }

    fn set_list(&mut self, number: u32) {
        match self {
            Self::Usual { list, .. } => *list = number,
            Self::Any(any) => any.2 = number,
        }
    }

    fn into_meta(self, key: NamespacedName) -> ObjectMeta {
        let resource_version = self.version().to_string().into();
        let uid = match self {
            Self::Usual { uid, .. } => Uid::Uuid(uid),
            Self::Any(any) => any.0,
        };
        ObjectMeta { key, uid, resource_version }
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
    fn usual_entry_is_small() {
        assert_eq!(size_of::<Entry>(), 32);
        let mut usual = meta("a", "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", 7);
        assert!(matches!(Entry::new(&usual, 1), Entry::Usual { version: 7, .. }));
        assert_eq!(Entry::new(&usual, 1).into_meta(usual.key.clone()), usual);
        usual.resource_version = "007".into();
        assert!(matches!(Entry::new(&usual, 1), Entry::Any(_)));
        assert_eq!(Entry::new(&usual, 1).into_meta(usual.key.clone()), usual);
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
