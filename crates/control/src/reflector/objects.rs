//! Versions of objects by namespace and name, in little memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{IdTable, Uid, Uuid};

use super::resource_version::ResourceVersion;
use super::{NamespacedName, ObjectMeta};

/// The UID and the resource version of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Version {
    /// As the API server has them, in half the memory of others.
    Usual(Uuid, u64),
    /// Any other ones.
    Any(Box<(Uid, ResourceVersion)>),
}

impl Version {
    pub(super) fn of(meta: &ObjectMeta) -> Self {
        match (&meta.uid, ResourceVersion::from(&meta.resource_version)) {
            (Uid::Uuid(uid), ResourceVersion::Number(version)) => Self::Usual(*uid, version),
            (uid, version) => Self::Any(Box::new((uid.clone(), version))),
        }
    }

    pub(super) fn has_uid(&self, uid: &Uid) -> bool {
        match self {
            Self::Usual(own, _) => *uid == Uid::Uuid(*own),
            Self::Any(any) => any.0 == *uid,
        }
    }

    pub(super) fn into_meta(self, key: NamespacedName) -> ObjectMeta {
        let (uid, version) = match self {
            Self::Usual(uid, version) => (Uid::Uuid(uid), ResourceVersion::Number(version)),
            Self::Any(any) => *any,
        };
        ObjectMeta { key, uid, resource_version: version.to_string().into() }
    }
}

/// Objects by namespace, each with whether the current list, or else the last one, has it. A change
/// outside of lists counts as part of the last list.
#[derive(Debug, Default)]
pub(super) struct Objects {
    namespaces: BTreeMap<Arc<str>, Namespace>,
    len: usize,
}

/// The objects of a namespace. Each takes 41 bytes and an entry in the table of places. Its name is
/// shared with the object.
#[derive(Debug, Default)]
struct Namespace {
    /// By name.
    places: IdTable<u32>,
    objects: Vec<Object>,
    /// By place.
    is_listed: Vec<bool>,
}

#[derive(Debug)]
struct Object {
    name: Arc<str>,
    version: Version,
}

impl Objects {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    fn find(&self, key: &NamespacedName) -> Option<(&Namespace, usize)> {
        let namespace = self.namespaces.get(&key.namespace)?;
        Some((namespace, namespace.find(&key.name)?))
    }

    pub(super) fn get(&self, key: &NamespacedName) -> Option<&Version> {
        self.find(key).map(|(namespace, place)| &namespace.objects[place].version)
    }

    /// Stores an object of the current list, and returns its version before. The name of the new
    /// version replaces that of the old one, so that it stays shared with the object.
    pub(super) fn insert(&mut self, key: &NamespacedName, version: Version) -> Option<Version> {
        let object = Object { name: key.name.clone(), version };
        let namespace = match self.namespaces.get_mut(&key.namespace) {
            Some(namespace) => namespace,
            None => self.namespaces.entry(key.namespace.clone()).or_default(),
        };
        if let Some(place) = namespace.find(&key.name) {
            namespace.is_listed[place] = true;
            return Some(std::mem::replace(&mut namespace.objects[place], object).version);
        }
        namespace.push(object);
        self.len += 1;
        None
    }

    pub(super) fn remove(&mut self, key: &NamespacedName) -> Option<Version> {
        let namespace = self.namespaces.get_mut(&key.namespace)?;
        let place = namespace.find(&key.name)?;
        let removed = namespace.remove(place);
        if namespace.objects.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
        self.len -= 1;
        Some(removed.version)
    }

    /// Starts a list, which has no object yet.
    pub(super) fn begin_list(&mut self) {
        self.namespaces.values_mut().for_each(|namespace| namespace.is_listed.fill(false));
    }

    /// Notes that the current list has the object.
    pub(super) fn note_listed(&mut self, key: &NamespacedName) {
        if let Some(namespace) = self.namespaces.get_mut(&key.namespace)
            && let Some(place) = namespace.find(&key.name)
        {
            namespace.is_listed[place] = true;
        }
    }

    /// Removes and returns the objects that the list does not have, in the order of their keys.
    pub(super) fn remove_unlisted(&mut self) -> Vec<ObjectMeta> {
        let mut removed = Vec::new();
        for (namespace, objects) in &mut self.namespaces {
            let first = removed.len();
            // The last object takes the place of a removed one, and is listed or removed already.
            for place in (0..objects.objects.len()).rev() {
                if !objects.is_listed[place] {
                    let Object { name, version } = objects.remove(place);
                    let key = NamespacedName { namespace: namespace.clone(), name };
                    removed.push(version.into_meta(key));
                }
            }
            removed[first..].sort_unstable_by(|a: &ObjectMeta, b| a.key.name.cmp(&b.key.name));
        }
        self.namespaces.retain(|_, objects| !objects.objects.is_empty());
        self.len -= removed.len();
        removed
    }
}

impl Namespace {
    fn find(&self, name: &str) -> Option<usize> {
        self.places.get(name, |place| name_at(&self.objects, place)).map(|place| place as usize)
    }

    fn push(&mut self, object: Object) {
        let place = u32::try_from(self.objects.len()).expect("fewer than 2^32 objects");
        self.objects.push(object);
        self.is_listed.push(true);
        self.places.insert(place, name_at(&self.objects, place));
    }

    /// Removes the object at a place, which the last object takes.
    fn remove(&mut self, place: usize) -> Object {
        let last = self.objects.len() - 1;
        let mut take_out = |place: usize| {
            let name = &self.objects[place].name;
            self.places.remove(&**name, |place| name_at(&self.objects, place))
        };
        let free = take_out(place);
        let moves = place != last && take_out(last).is_some();
        self.is_listed.swap_remove(place);
        let removed = self.objects.swap_remove(place);
        if let Some(free) = free.filter(|_| moves) {
            self.places.insert(free, name_at(&self.objects, free));
        }
        removed
    }
}

fn name_at(objects: &[Object], place: u32) -> &str {
    &objects[place as usize].name
}

#[cfg(test)]
mod tests {
    use super::super::tests::meta;
    use super::*;

    #[test]
    fn usual_version_is_small() {
        assert_eq!((size_of::<Version>(), size_of::<Object>()), (24, 40));
        let mut usual = meta("a", "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", 7);
        assert!(matches!(Version::of(&usual), Version::Usual(_, 7)));
        assert_eq!(Version::of(&usual).into_meta(usual.key.clone()), usual);
        usual.resource_version = "007".into();
        assert!(matches!(Version::of(&usual), Version::Any(_)));
        assert_eq!(Version::of(&usual).into_meta(usual.key.clone()), usual);
    }

    #[test]
    fn objects_are_found_after_others_have_taken_their_places() {
        let mut objects = Objects::default();
        let metas: Vec<ObjectMeta> =
            (0..1000).map(|number| meta(&format!("p{number}"), "u", number)).collect();
        for meta in &metas {
            assert_eq!(objects.insert(&meta.key, Version::of(meta)), None);
        }
        for (number, meta) in metas.iter().enumerate().filter(|(number, _)| number % 3 == 0) {
            assert_eq!(objects.remove(&meta.key), Some(Version::of(meta)), "{number}");
        }
        objects.begin_list();
        let is_there = |number: usize| !number.is_multiple_of(3);
        for (number, meta) in metas.iter().enumerate() {
            let known = is_there(number).then(|| Version::of(meta));
            assert_eq!(objects.get(&meta.key), known.as_ref());
            if number % 2 == 0 {
                objects.note_listed(&meta.key);
            }
        }
        let unlisted = metas.iter().enumerate();
        let unlisted = unlisted.filter(|(number, _)| is_there(*number) && number % 2 != 0);
        let mut unlisted: Vec<ObjectMeta> = unlisted.map(|(_, meta)| meta.clone()).collect();
        unlisted.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        assert_eq!(objects.remove_unlisted(), unlisted);
        assert_eq!(objects.len(), 1000 - 334 - unlisted.len());
        for (number, meta) in metas.iter().enumerate() {
            let stays = is_there(number) && number % 2 == 0;
            assert_eq!(objects.remove(&meta.key).is_some(), stays);
        }
        assert!(objects.len() == 0 && objects.namespaces.is_empty());
    }
}
