//! Objects of kinds other than nodes and pods, in their last observed version.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;

use super::Cluster;
use super::decoders::{Decoded, Decoder, Decoders};
use api::EventResource;

/// Namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// The namespace of the object; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The name of the object.
    pub name: Arc<str>,
}

/// Namespace and name; the namespace is empty for cluster-scoped objects.
type Key = (Arc<str>, Arc<str>);

/// An object of a custom kind.
#[derive(Debug, Clone)]
struct CustomObject {
    name: ObjectName,
    json: Arc<Value>,
    /// A number that is new for each version of each object.
    generation: u64,
    /// The object, decoded as each type of its kind, or the decoding error.
    decoded: Box<[Result<Decoded, Box<str>>]>,
}

impl CustomObject {
    fn decode(&mut self, decoders: &[Decoder]) {
        self.decoded = decoders.iter().map(|decoder| decoder.decode(&self.json)).collect();
    }

    fn problem(&self) -> Option<&str> {
        self.decoded.iter().find_map(|decoded| decoded.as_ref().err()).map(AsRef::as_ref)
    }

    fn get<T: Any>(&self, place: usize) -> Option<&T> {
        self.decoded.get(place)?.as_ref().ok()?.downcast_ref()
    }
}

/// The objects of one custom kind, by namespace and name.
type CustomObjects = BTreeMap<Arc<str>, BTreeMap<Arc<str>, CustomObject>>;

/// The objects of all kinds.
#[derive(Debug, Clone, Default)]
pub(super) struct Objects {
    decoders: Decoders,
    /// Objects of custom kinds, which plugins read.
    custom: BTreeMap<Arc<str>, CustomObjects>,
    last_generation: u64,
    built_in: BuiltInObjects,
    /// Number of changes of any object.
    version: u64,
}

/// The number of objects that are kept as JSON trees.
const RECENT: usize = 64;

/// Objects whose compact form is stored elsewhere. They are stored here for comparison with their next
/// version.
#[derive(Debug, Clone, Default)]
struct BuiltInObjects {
    /// By kind, namespace and name.
    kept: BTreeMap<EventResource, BTreeMap<Key, Kept>>,
    /// The objects that were set last, each with its number.
    recent: VecDeque<(EventResource, Key, u64)>,
    last_number: u64,
}

/// An object. Most objects that change do so again soon, and need not become a text in between.
#[derive(Debug, Clone)]
enum Kept {
    /// An object that was set lately, and its number.
    Tree(Arc<Value>, u64),
    /// The JSON. A tree would take several times as much memory.
    Text(Arc<str>),
}

impl Kept {
    fn to_object(&self) -> Option<Arc<Value>> {
        match self {
            Self::Tree(object, _) => Some(object.clone()),
            // The text was written as JSON, so it parses.
            Self::Text(text) => serde_json::from_str(text).ok(),
        }
    }
}

impl BuiltInObjects {
    fn set(
        &mut self,
        kind: &EventResource,
        key: Key,
        object: Option<Arc<Value>>,
    ) -> Option<Arc<Value>> {
        let objects = self.kept.entry(kind.clone()).or_default();
        let replaced = match object {
            Some(object) => {
                self.last_number += 1;
                self.recent.push_back((kind.clone(), key.clone(), self.last_number));
                objects.insert(key, Kept::Tree(object, self.last_number))
            }
            None => objects.remove(&key),
        };
        if self.recent.len() > RECENT {
            self.write_oldest();
        }
        replaced?.to_object()
    }

    /// Writes the oldest of the recent objects as text, unless it has changed.
    fn write_oldest(&mut self) {
        let Some((kind, key, number)) = self.recent.pop_front() else { return };
        let kept = self.kept.get_mut(&kind).and_then(|objects| objects.get_mut(&key));
        if let Some(kept) = kept
            && let Kept::Tree(object, own) = kept
            && *own == number
        {
            *kept = Kept::Text(object.to_string().into());
        }
    }
}

impl Objects {
    /// Adds, replaces or (with `None`) removes an object; returns the one it replaces.
    pub(super) fn set(
        &mut self,
        kind: &EventResource,
        namespace: &str,
        name: &str,
        object: Option<Arc<Value>>,
    ) -> Option<Arc<Value>> {
        self.version += 1;
        if let EventResource::Custom(kind) = kind {
            return match object {
                Some(object) => self.set_custom(kind, namespace, name, object),
                None => self.remove_custom(kind, namespace, name),
            };
        }
        let key = (namespace.into(), name.into());
        self.built_in.set(kind, key, object)
    }

    fn set_custom(
        &mut self,
        kind: &Arc<str>,
        namespace: &str,
        name: &str,
        json: Arc<Value>,
    ) -> Option<Arc<Value>> {
        let replaced = self.custom(kind, namespace, name).map(|object| object.json.clone());
        if replaced.as_ref() == Some(&json) {
            return replaced;
        }
        self.last_generation += 1;
        let name = ObjectName { namespace: namespace.into(), name: name.into() };
        let generation = self.last_generation;
        let mut object =
            CustomObject { name: name.clone(), json, generation, decoded: Box::default() };
        object.decode(self.decoders.of_kind(kind));
        let objects = self.custom.entry(kind.clone()).or_default();
        objects.entry(name.namespace).or_default().insert(name.name, object);
        replaced
    }

    fn remove_custom(&mut self, kind: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let objects = self.custom.get_mut(kind)?;
        let in_namespace = objects.get_mut(namespace)?;
        let removed = in_namespace.remove(name);
        if in_namespace.is_empty() {
            objects.remove(namespace);
        }
        removed.map(|object| object.json)
    }

    /// Returns the objects of a custom kind, by namespace and name.
    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &CustomObject> {
        self.custom.get(kind).into_iter().flat_map(all)
    }

    fn custom(&self, kind: &str, namespace: &str, name: &str) -> Option<&CustomObject> {
        self.custom.get(kind)?.get(namespace)?.get(name)
    }

    fn set_decoders(&mut self, decoders: Decoders) {
        self.decoders = decoders;
        for (kind, objects) in &mut self.custom {
            let decoders = self.decoders.of_kind(kind);
            let objects = objects.values_mut().flat_map(BTreeMap::values_mut);
            objects.for_each(|object| object.decode(decoders));
        }
    }
}

fn all(objects: &CustomObjects) -> impl Iterator<Item = &CustomObject> {
    objects.values().flat_map(BTreeMap::values)
}

/// Returns the objects behind this one; with `None`, all objects.
fn all_after<'a>(
    objects: &'a CustomObjects,
    last: Option<&ObjectName>,
) -> impl Iterator<Item = &'a CustomObject> {
    let first = last.map_or(Bound::Unbounded, |last| Bound::Included(last.namespace.clone()));
    objects.range((first, Bound::Unbounded)).flat_map(move |(namespace, objects)| {
        let last = last.filter(|last| last.namespace == *namespace);
        let start = last.map_or(Bound::Unbounded, |last| Bound::Excluded(last.name.clone()));
        objects.range((start, Bound::Unbounded)).map(|(_, object)| object)
    })
}

/// An object of a kind other than node and pod, for a copy of the cluster.
#[derive(Debug, Clone)]
pub struct StoredObject {
    /// The kind.
    pub kind: EventResource,
    /// Namespace and name.
    pub name: ObjectName,
    kept: Kept,
}

impl StoredObject {
    /// Returns the object. Parses it if the cluster keeps it as text.
    pub fn json(&self) -> Option<Arc<Value>> {
        self.kept.to_object()
    }

    /// Whether both are the same version of an object, or equal ones.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.kept, &other.kept) {
            (Kept::Tree(own, _), Kept::Tree(other, _)) => Arc::ptr_eq(own, other) || own == other,
            (Kept::Text(own), Kept::Text(other)) => own == other,
            (own, other) => own.to_object() == other.to_object(),
        }
    }
}

/// Objects of all kinds other than nodes and pods, for a copy of the cluster.
impl Cluster {
    /// Returns a number that is another one after every change of an object of another kind than node and pod.
    pub const fn objects_version(&self) -> u64 {
        self.objects.version
    }

    /// Returns the stored version of an object.
    pub fn stored_object(
        &self,
        kind: &EventResource,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Value>> {
        if let EventResource::Custom(kind) = kind {
            return self.object(kind, namespace, name).cloned();
        }
        let of_kind = self.objects.built_in.kept.get(kind)?;
        of_kind.get(&(namespace.into(), name.into()))?.to_object()
    }

    /// Returns the objects behind this one in the order of kind, namespace and name; with `None`, all
    /// objects.
    pub fn stored_objects_after(
        &self,
        last: Option<&StoredObject>,
    ) -> impl Iterator<Item = StoredObject> {
        let first = last.map_or(Bound::Unbounded, |last| Bound::Included(last.kind.clone()));
        let built_in = self.objects.built_in.kept.range((first, Bound::Unbounded));
        let built_in = built_in.flat_map(move |(kind, objects)| {
            let start = last.filter(|last| last.kind == *kind).map_or(Bound::Unbounded, |last| {
                Bound::Excluded((last.name.namespace.clone(), last.name.name.clone()))
            });
            objects.range((start, Bound::Unbounded)).map(move |((namespace, name), kept)| {
                let name = ObjectName { namespace: namespace.clone(), name: name.clone() };
                StoredObject { kind: kind.clone(), name, kept: kept.clone() }
            })
        });
        // Custom kinds come last. No slice passes over the objects before it.
        let last_custom = last.and_then(|last| match &last.kind {
            EventResource::Custom(kind) => Some((kind.clone(), &last.name)),
            _ => None,
        });
        let first = last_custom
            .as_ref()
            .map_or(Bound::Unbounded, |(kind, _)| Bound::Included(kind.clone()));
        let custom = self.objects.custom.range((first, Bound::Unbounded));
        let custom = custom.flat_map(move |(kind, objects)| {
            let last = last_custom.as_ref().filter(|(last, _)| last == kind).map(|(_, name)| *name);
            let kind = EventResource::Custom(kind.clone());
            all_after(objects, last).map(move |object| StoredObject {
                kind: kind.clone(),
                name: object.name.clone(),
                kept: Kept::Tree(object.json.clone(), object.generation),
            })
        });
        built_in.filter(|object| !matches!(object.kind, EventResource::Custom(_))).chain(custom)
    }
}

/// Objects of custom kinds that a plugin watches. A kind is named `<plural>.<version>.<group>`; the
/// namespace is empty for cluster-scoped objects.
impl Cluster {
    /// Returns the objects of a kind, by namespace and name.
    pub fn objects(&self, kind: &str) -> impl Iterator<Item = &Arc<Value>> {
        self.objects.of_kind(kind).map(|object| &object.json)
    }

    /// Returns one object.
    pub fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.objects.custom(kind, namespace, name).map(|object| &object.json)
    }

    /// Returns one object, decoded as `T`. Returns `None` if the object does not exist, if it
    /// [cannot be decoded](Self::decode_problem), or if no plugin
    /// [asked](Decoders::add) for the kind as `T`.
    pub fn decoded<T: Any>(&self, kind: &str, namespace: &str, name: &str) -> Option<&T> {
        let place = self.objects.decoders.place::<T>(kind)?;
        self.objects.custom(kind, namespace, name)?.get(place)
    }

    /// Returns the objects of a kind, decoded as `T`, by namespace and name. Objects that cannot be
    /// decoded are left out.
    pub fn all_decoded<T: Any>(&self, kind: &str) -> impl Iterator<Item = (&ObjectName, &T)> {
        let place = self.objects.decoders.place::<T>(kind);
        let objects = place.into_iter().flat_map(|_| self.objects.of_kind(kind));
        objects.filter_map(move |object| Some((&object.name, object.get(place?)?)))
    }

    /// Returns a number that changes with every version of the object. No other object or version
    /// has the same number.
    pub fn object_generation(&self, kind: &str, namespace: &str, name: &str) -> Option<u64> {
        self.objects.custom(kind, namespace, name).map(|object| object.generation)
    }

    /// Returns why an object cannot be decoded as a type that a plugin asked for.
    pub fn decode_problem(&self, kind: &str, namespace: &str, name: &str) -> Option<&str> {
        self.objects.custom(kind, namespace, name)?.problem()
    }

    /// Returns the objects of a kind that cannot be decoded, each with the reason.
    pub fn decode_problems(&self, kind: &str) -> impl Iterator<Item = (&ObjectName, &str)> {
        self.objects.of_kind(kind).filter_map(|object| Some((&object.name, object.problem()?)))
    }

    /// Sets the types into which objects of custom kinds are decoded, and decodes the stored
    /// objects; for the engine and for tests.
    pub fn set_decoders(&mut self, decoders: Decoders) {
        self.objects.set_decoders(decoders);
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[test]
    fn set_returns_the_replaced_version_of_every_kind() {
        let kinds = [EventResource::PersistentVolume, EventResource::Custom("a.v1.b".into())];
        for kind in kinds {
            let mut objects = Objects::default();
            let versions = [json!({"metadata": {"name": "x"}, "n": 1.5}), json!({"n": null})];
            let mut before = None;
            for version in versions.map(Arc::new) {
                assert_eq!(objects.set(&kind, "", "x", Some(version.clone())), before);
                before = Some(version);
            }
            assert_eq!(objects.set(&kind, "", "y", None), None);
            assert_eq!(objects.set(&kind, "", "x", None), before);
            assert_eq!(objects.set(&kind, "", "x", None), None);
        }
    }

    #[test]
    fn old_objects_are_kept_as_text_and_returned_as_they_were() {
        let (kind, mut objects) = (EventResource::ResourceClaim, Objects::default());
        let object = |number: usize| Arc::new(json!({"metadata": {"name": "x"}, "n": number}));
        let name = |number: usize| number.to_string();
        for number in 0..3 * RECENT {
            objects.set(&kind, "", &name(number), Some(object(number)));
            let replaced = objects.set(&kind, "", "changes", Some(object(number)));
            assert_eq!(replaced, number.checked_sub(1).map(object));
        }
        let kept = objects.built_in.kept[&kind].values();
        let trees = kept.filter(|kept| matches!(kept, Kept::Tree(..))).count();
        assert_eq!(trees, RECENT / 2 + 1);
        for number in 0..3 * RECENT {
            let removed = objects.set(&kind, "", &name(number), None);
            assert_eq!(removed, Some(object(number)));
        }
    }

    const KIND: &str = "quotas.v1.example.com";

    #[test]
    fn stored_objects_are_listed_in_slices() {
        let mut cluster = Cluster::default();
        let kinds = [
            EventResource::Custom("a.v1.b".into()),
            EventResource::PersistentVolumeClaim,
            EventResource::StorageClass,
        ];
        for kind in &kinds {
            for (namespace, name) in [("a", "x"), ("a", "y"), ("b", "x")] {
                let object = json!({"metadata": {"name": name}});
                cluster.set_object(kind, namespace, name, Some(Arc::new(object)));
            }
        }
        let (mut listed, mut last) = (Vec::new(), None);
        loop {
            let slice: Vec<_> = cluster.stored_objects_after(last.as_ref()).take(2).collect();
            let Some(end) = slice.last() else { break };
            last = Some(end.clone());
            listed.extend(slice);
        }
        assert_eq!(listed.len(), 9);
        for object in listed {
            let ObjectName { namespace, name } = &object.name;
            let stored = cluster.stored_object(&object.kind, namespace, name);
            assert_eq!(object.json().unwrap()["metadata"]["name"], **name);
            assert_eq!(object.json(), stored);
        }
        assert_eq!(cluster.stored_object(&kinds[1], "a", "z"), None);
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Quota {
        limit: u32,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Loose {
        #[serde(default)]
        limit: Value,
    }

    fn set(cluster: &mut Cluster, name: &str, object: Option<Value>) {
        let kind = EventResource::Custom(KIND.into());
        cluster.set_object(&kind, "default", name, object.map(Arc::new));
    }

    fn quotas() -> Decoders {
        let mut decoders = Decoders::default();
        decoders.add::<Quota>(KIND);
        decoders
    }

    #[test]
    fn object_is_decoded_once_per_version() {
        let mut cluster = Cluster::default();
        cluster.set_decoders(quotas());
        set(&mut cluster, "a", Some(json!({"limit": 1})));
        let first: *const Quota = cluster.decoded(KIND, "default", "a").unwrap();
        let generation = cluster.object_generation(KIND, "default", "a");
        set(&mut cluster, "a", Some(json!({"limit": 1})));
        assert!(std::ptr::eq(first, cluster.decoded(KIND, "default", "a").unwrap()));
        assert_eq!(cluster.object_generation(KIND, "default", "a"), generation);
        set(&mut cluster, "a", Some(json!({"limit": 2})));
        assert_eq!(cluster.decoded(KIND, "default", "a"), Some(&Quota { limit: 2 }));
        assert!(cluster.object_generation(KIND, "default", "a") > generation);
        let last = cluster.object_generation(KIND, "default", "a");
        set(&mut cluster, "a", None);
        assert_eq!(cluster.decoded::<Quota>(KIND, "default", "a"), None);
        set(&mut cluster, "a", Some(json!({"limit": 2})));
        assert!(cluster.object_generation(KIND, "default", "a") > last);
    }

    #[test]
    fn object_that_cannot_be_decoded_is_kept_as_json() {
        let mut cluster = Cluster::default();
        cluster.set_decoders(quotas());
        set(&mut cluster, "a", Some(json!({"limit": 1})));
        set(&mut cluster, "b", Some(json!({"limit": "much"})));
        assert_eq!(cluster.decoded::<Quota>(KIND, "default", "b"), None);
        assert_eq!(cluster.object(KIND, "default", "b").unwrap()["limit"], "much");
        assert_eq!(cluster.decode_problem(KIND, "default", "a"), None);
        let problem = cluster.decode_problem(KIND, "default", "b").unwrap();
        assert!(
            problem.ends_with("Quota: invalid type: string \"much\", expected u32"),
            "{problem}"
        );
        let names: Vec<_> = cluster.decode_problems(KIND).map(|(name, _)| &*name.name).collect();
        assert_eq!(names, ["b"]);
        let decoded: Vec<_> = cluster
            .all_decoded::<Quota>(KIND)
            .map(|(name, quota)| (&*name.namespace, &*name.name, quota.limit))
            .collect();
        assert_eq!(decoded, [("default", "a", 1)]);
    }

    #[test]
    fn kind_can_be_decoded_as_several_types() {
        let mut cluster = Cluster::default();
        set(&mut cluster, "a", Some(json!({"limit": "much"})));
        assert_eq!(cluster.all_decoded::<Loose>(KIND).count(), 0);
        let mut loose = Decoders::default();
        loose.add::<Loose>(KIND);
        let mut decoders = quotas();
        decoders.extend(&loose);
        decoders.extend(&loose);
        assert_eq!(decoders.of_kind(KIND).len(), 2);
        cluster.set_decoders(decoders);
        assert_eq!(cluster.decoded(KIND, "default", "a"), Some(&Loose { limit: "much".into() }));
        assert_eq!(cluster.decoded::<Quota>(KIND, "default", "a"), None);
        assert!(cluster.decode_problem(KIND, "default", "a").is_some());
    }

    #[test]
    fn decoder_that_panics_leaves_a_problem() {
        struct Touchy;
        impl<'de> Deserialize<'de> for Touchy {
            fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
                panic!("no")
            }
        }
        let mut decoders = Decoders::default();
        decoders.add::<Touchy>(KIND);
        let mut cluster = Cluster::default();
        cluster.set_decoders(decoders);
        set(&mut cluster, "a", Some(json!({})));
        let problem = cluster.decode_problem(KIND, "default", "a").unwrap();
        assert!(problem.ends_with("the decoder panicked"), "{problem}");
    }
}
