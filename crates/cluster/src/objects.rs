//! Objects of kinds other than nodes and pods, in their last observed version.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;

use super::Cluster;
use super::decoders::{Decoded, Decoder, Decoders};
use super::object::{Json, Object};
use super::object_state::ObjectState;
use api::{EventResource, ObjectKey};

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
    state: ObjectState,
    json: Arc<Value>,
    /// A number that is new for each version of each object.
    generation: u64,
    /// The object, decoded as each type of its kind that a plugin asked for, or the decoding error.
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

    fn to_object(&self, kind: &Arc<str>) -> Object {
        let ObjectName { namespace, name } = self.name.clone();
        Object {
            key: ObjectKey::namespaced(EventResource::Custom(kind.clone()), namespace, name),
            state: self.state.clone(),
            json: Json::Tree(self.json.clone()),
        }
    }
}

/// The objects of one custom kind, by namespace and name.
type CustomObjects = BTreeMap<Arc<str>, BTreeMap<Arc<str>, CustomObject>>;

/// An object of a built-in kind.
#[derive(Debug, Clone)]
struct BuiltInObject {
    state: ObjectState,
    json: Json,
}

impl BuiltInObject {
    fn to_object(&self, kind: &EventResource, key: &Key) -> Object {
        let (namespace, name) = key;
        Object {
            key: ObjectKey::namespaced(kind.clone(), namespace.clone(), name.clone()),
            state: self.state.clone(),
            json: self.json.clone(),
        }
    }
}

/// The objects of all kinds.
#[derive(Debug, Clone, Default)]
pub(super) struct Objects {
    decoders: Decoders,
    /// Objects of custom kinds, which plugins read.
    custom: BTreeMap<Arc<str>, CustomObjects>,
    last_generation: u64,
    /// Objects of built-in kinds, by kind, namespace and name.
    built_in: BTreeMap<EventResource, BTreeMap<Key, BuiltInObject>>,
    /// Number of changes of any object.
    version: u64,
}

impl Objects {
    /// Returns an object.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Object> {
        let ObjectKey { kind, namespace, name } = key;
        if let EventResource::Custom(kind) = kind {
            return Some(self.custom(kind, namespace, name)?.to_object(kind));
        }
        let key = (namespace.clone(), name.clone());
        Some(self.built_in.get(kind)?.get(&key)?.to_object(kind, &key))
    }

    /// Lets a key share the namespace of a known object of its kind.
    pub(super) fn share_namespace(&self, key: &mut ObjectKey) {
        let Some(of_kind) = self.built_in.get(&key.kind) else { return };
        let first: Key = (key.namespace.clone(), "".into());
        if let Some(((namespace, _), _)) = of_kind.range(first..).next()
            && *namespace == key.namespace
        {
            key.namespace = namespace.clone();
        }
    }

    /// Adds or replaces an object.
    pub(super) fn set(&mut self, object: Object) {
        self.version += 1;
        let Object { key, state, json } = object;
        let ObjectKey { kind, namespace, name } = key;
        match (kind, json) {
            (EventResource::Custom(kind), Json::Tree(json)) => {
                self.last_generation += 1;
                let name = ObjectName { namespace, name };
                let (generation, decoded) = (self.last_generation, Box::default());
                self.set_custom(&kind, CustomObject { name, state, json, generation, decoded });
            }
            (kind, json) => {
                let objects = self.built_in.entry(kind).or_default();
                objects.insert((namespace, name), BuiltInObject { state, json });
            }
        }
    }

    fn set_custom(&mut self, kind: &Arc<str>, mut object: CustomObject) {
        object.decode(self.decoders.of_kind(kind));
        let objects = self.custom.entry(kind.clone()).or_default();
        let in_namespace = objects.entry(object.name.namespace.clone()).or_default();
        in_namespace.insert(object.name.name.clone(), object);
    }

    /// Removes an object.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Object> {
        let ObjectKey { kind, namespace, name } = key;
        let removed = match kind {
            EventResource::Custom(kind) => {
                self.remove_custom(kind, namespace, name).map(|object| object.to_object(kind))
            }
            kind => {
                let key = (namespace.clone(), name.clone());
                let removed = self.built_in.get_mut(kind)?.remove(&key);
                removed.map(|object| object.to_object(kind, &key))
            }
        };
        self.version += u64::from(removed.is_some());
        removed
    }

    fn remove_custom(&mut self, kind: &str, namespace: &str, name: &str) -> Option<CustomObject> {
        let objects = self.custom.get_mut(kind)?;
        let in_namespace = objects.get_mut(namespace)?;
        let removed = in_namespace.remove(name);
        if in_namespace.is_empty() {
            objects.remove(namespace);
        }
        removed
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
    last: Option<&ObjectKey>,
) -> impl Iterator<Item = &'a CustomObject> {
    let first = last.map_or(Bound::Unbounded, |last| Bound::Included(last.namespace.clone()));
    objects.range((first, Bound::Unbounded)).flat_map(move |(namespace, objects)| {
        let last = last.filter(|last| last.namespace == *namespace);
        let start = last.map_or(Bound::Unbounded, |last| Bound::Excluded(last.name.clone()));
        objects.range((start, Bound::Unbounded)).map(|(_, object)| object)
    })
}

/// Objects of all kinds other than nodes and pods, for a copy of the cluster.
impl Cluster {
    /// Returns a number that is another one after every change of an object of another kind than
    /// node and pod.
    pub const fn objects_version(&self) -> u64 {
        self.objects.version
    }

    /// Returns the stored version of an object.
    pub fn stored_object(&self, key: &ObjectKey) -> Option<Object> {
        self.objects.get(key)
    }

    /// Returns the objects behind this one in the order of kind, namespace and name; with `None`,
    /// all objects.
    pub fn stored_objects_after(&self, last: Option<&ObjectKey>) -> impl Iterator<Item = Object> {
        let first = last.map_or(Bound::Unbounded, |last| Bound::Included(last.kind.clone()));
        let built_in = self.objects.built_in.range((first, Bound::Unbounded));
        let built_in = built_in.flat_map(move |(kind, objects)| {
            let start = last.filter(|last| last.kind == *kind).map_or(Bound::Unbounded, |last| {
                Bound::Excluded((last.namespace.clone(), last.name.clone()))
            });
            let objects = objects.range((start, Bound::Unbounded));
            objects.map(move |(key, object)| object.to_object(kind, key))
        });
        // Custom kinds come last. No slice passes over the objects before it.
        let last_custom = last.and_then(|last| match &last.kind {
            EventResource::Custom(kind) => Some((kind.clone(), last)),
            _ => None,
        });
        let first = last_custom
            .as_ref()
            .map_or(Bound::Unbounded, |(kind, _)| Bound::Included(kind.clone()));
        let custom = self.objects.custom.range((first, Bound::Unbounded));
        let custom = custom.flat_map(move |(kind, objects)| {
            let last = last_custom.as_ref().filter(|(last, _)| last == kind).map(|(_, last)| *last);
            all_after(objects, last).map(|object| object.to_object(kind))
        });
        built_in.chain(custom)
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
    use crate::testing::SetJson;

    #[test]
    fn set_returns_the_replaced_version_of_every_kind() {
        let kinds = [EventResource::PersistentVolume, EventResource::Custom("a.v1.b".into())];
        for kind in kinds {
            let mut cluster = Cluster::default();
            let versions = [json!({"metadata": {"name": "x"}, "n": 1.5}), json!({"n": null})];
            let key = |name: &str| ObjectKey::cluster_scoped(kind.clone(), name.into());
            let json = |object: Option<Object>| object.map(|own| Value::clone(&own.json()));
            let mut before = None;
            for version in versions {
                let object = Object::decode(key("x"), version.clone()).unwrap();
                assert_eq!(json(cluster.set_object(object.clone()).old), before);
                before = Some(version);
                assert!(cluster.set_object(object).is_none(), "the same version");
            }
            assert!(cluster.remove_object(&key("y")).is_none());
            assert_eq!(json(cluster.remove_object(&key("x")).old), before);
            assert!(cluster.remove_object(&key("x")).is_none());
        }
    }

    #[test]
    fn objects_of_a_kind_share_their_namespace() {
        let mut cluster = Cluster::default();
        let key = |name: &str| {
            let kind = EventResource::PersistentVolumeClaim;
            ObjectKey::namespaced(kind, "shop".into(), name.into())
        };
        let [first, second] = ["a", "b"].map(|name| {
            let object = Object::decode(key(name), json!({})).unwrap();
            cluster.set_object(object).new.unwrap()
        });
        assert!(Arc::ptr_eq(first.namespace(), second.namespace()));
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
                cluster.set_json(kind, namespace, name, Some(Arc::new(object)));
            }
        }
        let (mut listed, mut last) = (Vec::new(), None);
        loop {
            let slice: Vec<_> = cluster.stored_objects_after(last.as_ref()).take(2).collect();
            let Some(end) = slice.last() else { break };
            last = Some(end.key().clone());
            listed.extend(slice);
        }
        assert_eq!(listed.len(), 9);
        for object in listed {
            let stored = cluster.stored_object(object.key()).unwrap();
            assert_eq!(object.json()["metadata"]["name"], **object.name());
            assert_eq!(object, stored);
        }
        let absent = ObjectKey::namespaced(kinds[1].clone(), "a".into(), "z".into());
        assert!(cluster.stored_object(&absent).is_none());
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
        cluster.set_json(&kind, "default", name, object.map(Arc::new));
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
