//! The objects that a reflector has reported.

use std::collections::BTreeMap;

use super::objects::{Objects, Version};
use super::{NamespacedName, ObjectMeta};

/// The objects that were reported and not yet reported as deleted.
#[derive(Debug, Default)]
pub(super) struct KnownObjects {
    objects: Objects,
    /// The last version of each object that could not be decoded.
    undecodable: BTreeMap<NamespacedName, Undecodable>,
}

#[derive(Debug)]
struct Undecodable {
    version: Version,
    /// Whether the current list, or else the last one, has it.
    is_listed: bool,
    /// Whether a substitute was reported in its place.
    is_substituted: bool,
}

/// The last readable state of an object, before a version that cannot be decoded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BeforeUndecodable {
    /// The object of another UID that this one replaced.
    pub(super) replaced: Option<ObjectMeta>,
    /// Whether the version is new.
    pub(super) is_new: bool,
    /// Whether its substitute stands for the object, of which no version was decoded.
    pub(super) is_substituted: bool,
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
        self.objects.len()
    }

    /// Starts a list.
    pub(super) fn begin_list(&mut self) {
        self.objects.begin_list();
        self.undecodable.values_mut().for_each(|object| object.is_listed = false);
    }

    /// Ends a list. Removes and returns the objects that were not part of it.
    pub(super) fn end_list(&mut self) -> Vec<ObjectMeta> {
        self.undecodable.retain(|_, object| object.is_listed);
        self.objects.remove_unlisted()
    }

    /// Stores a version of an object and returns the difference from the version before it.
    pub(super) fn update(&mut self, meta: &ObjectMeta) -> Difference {
        if !self.undecodable.is_empty() {
            self.undecodable.remove(&meta.key);
        }
        let version = Version::of(meta);
        match self.objects.insert(&meta.key, version.clone()) {
            None => Difference::Updated,
            Some(old) if old == version => Difference::None,
            Some(old) if old.has_uid(&meta.uid) => Difference::Updated,
            Some(old) => Difference::Replaced(old.into_meta(meta.key.clone())),
        }
    }

    /// Stores that a version of an object cannot be decoded. The last decoded version of the same
    /// object stays; without one, a substitute stands for the object.
    pub(super) fn update_undecodable(
        &mut self,
        meta: &ObjectMeta,
        has_substitute: bool,
    ) -> BeforeUndecodable {
        self.objects.note_listed(&meta.key);
        let is_replaced = self.objects.get(&meta.key).is_some_and(|old| !old.has_uid(&meta.uid));
        let replaced = if is_replaced { self.objects.remove(&meta.key) } else { None };
        let replaced = replaced.map(|old| old.into_meta(meta.key.clone()));
        let version = Version::of(meta);
        let old = self.undecodable.get(&meta.key);
        let was_substituted = old.is_some_and(|old| old.is_substituted);
        let is_new = old.is_none_or(|old| old.version != version);
        let is_decoded = !was_substituted && self.objects.get(&meta.key).is_some();
        let is_substituted = has_substitute && !is_decoded;
        if is_substituted {
            self.objects.insert(&meta.key, version.clone());
        }
        let object = Undecodable {
            version,
            is_listed: true,
            is_substituted: is_substituted || (was_substituted && replaced.is_none()),
        };
        self.undecodable.insert(meta.key.clone(), object);
        BeforeUndecodable { replaced, is_new, is_substituted }
    }

    /// Removes an object. Returns whether it was known: another object of the same name stays.
    pub(super) fn delete(&mut self, meta: &ObjectMeta) -> bool {
        if self.undecodable.get(&meta.key).is_some_and(|own| own.version.has_uid(&meta.uid)) {
            self.undecodable.remove(&meta.key);
        }
        let is_known = self.objects.get(&meta.key).is_some_and(|own| own.has_uid(&meta.uid));
        if is_known {
            self.objects.remove(&meta.key);
        }
        is_known
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
        known.update_undecodable(&meta("d", "u", 2), false);
        assert_eq!(known.end_list(), [meta("a", "u", 1), meta("c", "u", 1)]);
    }

    #[test]
    fn undecodable_version_is_new_once() {
        let mut known = KnownObjects::default();
        let mut is_new = |version| known.update_undecodable(&meta("a", "u", version), false).is_new;
        assert!(is_new(1) && !is_new(1) && is_new(2));
        known.update(&meta("a", "u", 3));
        let replacement = known.update_undecodable(&meta("a", "v", 4), false);
        assert_eq!(replacement.replaced, Some(meta("a", "u", 3)));
        assert!(replacement.is_new);
        assert!(!known.delete(&meta("a", "v", 5)), "it was never reported");
    }

    #[test]
    fn substitute_stands_for_an_object_until_a_version_is_decoded() {
        let mut known = KnownObjects::default();
        let mut stands =
            |version, has| known.update_undecodable(&meta("a", "u", version), has).is_substituted;
        assert!(stands(1, true) && stands(2, true));
        assert!(!stands(3, false), "the last substitute stays");
        assert!(stands(4, true));
        known.update(&meta("a", "u", 5));
        assert!(!known.update_undecodable(&meta("a", "u", 6), true).is_substituted);
        assert!(known.update_undecodable(&meta("a", "v", 7), true).is_substituted);
        assert!(known.delete(&meta("a", "v", 8)), "it was reported");
    }

    #[test]
    fn list_forgets_undecodable_objects_that_it_did_not_contain() {
        let mut known = KnownObjects::default();
        known.update_undecodable(&meta("a", "u", 1), false);
        known.update_undecodable(&meta("b", "u", 1), false);
        known.begin_list();
        known.update_undecodable(&meta("b", "u", 1), false);
        assert_eq!(known.end_list(), []);
        assert_eq!(known.undecodable.keys().collect::<Vec<_>>(), [&meta("b", "u", 1).key]);
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
