//! Compares an assume cache with a list of all assumed versions, of which those derived from the
//! stored version are valid.

use std::collections::BTreeMap;

use framework::storage::PersistentVolume;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::Config;

use super::super::assumed::{Assumable, AssumeCache};
use super::*;
use crate::forms;
use testkit::SetJson;

/// More than the number of entries that triggers a sweep.
const NAMES: usize = 100;

/// An event of the object with a given name.
#[derive(Debug, Clone)]
enum Event {
    /// The object is created or gets another version.
    Stored(usize),
    /// Another object with the same version replaces it.
    Replaced(usize),
    Deleted(usize),
    /// A change to it is assumed.
    Assumed(usize),
    /// A change to its previous version is assumed.
    AssumedLate(usize),
    /// An assumed version is reverted, maybe for the second time.
    Restored(Index),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..NAMES).prop_map(Event::Stored),
        1 => (0..NAMES).prop_map(Event::Replaced),
        1 => (0..NAMES).prop_map(Event::Deleted),
        8 => (0..NAMES).prop_map(Event::Assumed),
        1 => (0..NAMES).prop_map(Event::AssumedLate),
        2 => any::<Index>().prop_map(Event::Restored),
    ]
}

/// A cache and the list to compare it with.
#[derive(Default)]
struct Caches {
    cluster: Cluster,
    cache: AssumeCache<PersistentVolume>,
    /// The assumed versions that were not reverted. For each name the last one is valid.
    list: Vec<Arc<PersistentVolume>>,
    /// All versions that were ever assumed.
    all: Vec<Arc<PersistentVolume>>,
    /// The previous versions of the objects, by number.
    before: Vec<Option<Arc<PersistentVolume>>>,
    changes: u64,
}

impl Caches {
    /// Creates all objects.
    fn new() -> Self {
        let mut caches = Self { before: vec![None; NAMES], ..Self::default() };
        (0..NAMES).for_each(|number| caches.happen(&Event::Stored(number)));
        caches
    }

    fn stored(&self, number: usize) -> Option<&Arc<PersistentVolume>> {
        self.cluster.volume(&format!("pv-{number}"))
    }

    fn happen(&mut self, event: &Event) {
        let changed = format!("v{}", self.changes);
        match event {
            Event::Stored(number) => {
                let uid = self.stored(*number).map(|stored| stored.uid.to_string());
                self.store(*number, uid.as_ref().unwrap_or(&changed), &changed);
            }
            Event::Replaced(number) => {
                if let Some(version) = self.stored(*number).map(|old| old.resource_version.clone())
                {
                    self.store(*number, &changed, &version);
                }
            }
            Event::Deleted(number) => {
                self.before[*number] = self.stored(*number).cloned();
                let kind = EventResource::PersistentVolume;
                self.cluster.set_json(&kind, "", &format!("pv-{number}"), None);
            }
            Event::Assumed(number) => self.assume(self.stored(*number).cloned()),
            Event::AssumedLate(number) => self.assume(self.before[*number].clone()),
            Event::Restored(_) if self.all.is_empty() => {}
            Event::Restored(which) => self.restore(&which.get(&self.all).clone()),
        }
        self.changes += 1;
    }

    fn store(&mut self, number: usize, uid: &str, version: &str) {
        self.before[number] = self.stored(number).cloned();
        let volume = local_volume(&format!("pv-{number}"), "1Gi", "a");
        let volume = volume.set("/metadata/uid", json!(uid));
        volume.set("/metadata/resourceVersion", json!(version)).put(&mut self.cluster);
    }

    fn assume(&mut self, known: Option<Arc<PersistentVolume>>) {
        let Some(known) = known else { return };
        let object = Arc::new(PersistentVolume::clone(&known));
        let is_assumed = self.cache.assume(object.clone(), &self.cluster).is_ok();
        assert_eq!(is_assumed, self.counts(&object), "only what is stored can be changed");
        if is_assumed {
            self.list.push(object.clone());
            self.all.push(object);
        }
    }

    fn restore(&mut self, object: &Arc<PersistentVolume>) {
        self.cache.restore(object);
        self.list.retain(|other| !Arc::ptr_eq(other, object));
    }

    /// Whether a version was derived from the stored object.
    fn counts(&self, object: &PersistentVolume) -> bool {
        self.cluster.volume(&object.name).is_some_and(|stored| {
            (&stored.uid, &stored.resource_version) == (&object.uid, &object.resource_version)
        })
    }

    /// Checks that the cache agrees with the list.
    fn agree(&self) {
        let identity = |object: &Arc<PersistentVolume>| (object.name.clone(), Arc::as_ptr(object));
        let expected: BTreeMap<_, _> =
            self.list.iter().filter(|object| self.counts(object)).map(identity).collect();
        let listed: BTreeMap<_, _> =
            self.cache.wanted(&self.cluster, |_| true).map(identity).collect();
        assert_eq!(listed, expected);
        for stored in (0..NAMES).filter_map(|number| self.stored(number)) {
            let got = self.cache.get(stored).map(Arc::as_ptr);
            assert_eq!(got, expected.get(&stored.key()).copied());
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 64, ..forms::config() })]

    #[test]
    fn cache_agrees_with_a_list_of_assumed_versions(events in prop::collection::vec(event(), 1..600)) {
        let mut caches = Caches::new();
        for some in events.chunks(10) {
            some.iter().for_each(|event| caches.happen(event));
            caches.agree();
        }
    }
}
