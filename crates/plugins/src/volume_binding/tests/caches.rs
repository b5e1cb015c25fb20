//! An assume cache is a list of what was assumed, of which that counts which was made of what is
//! stored.

use std::collections::BTreeMap;

use framework::storage::PersistentVolume;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::Config;

use super::super::assumed::{Assumable, AssumeCache};
use super::*;
use crate::forms;

/// More than there may be entries before stale ones are dropped.
const NAMES: usize = 100;

/// Something that happens to the object of a name.
#[derive(Debug, Clone)]
enum Event {
    /// It comes, or gets another version.
    Stored(usize),
    /// Another one of the same version is there instead.
    Replaced(usize),
    Deleted(usize),
    /// It is assumed to be changed.
    Assumed(usize),
    /// A change to it as it was before it changed last is assumed.
    AssumedLate(usize),
    /// This one of all that were assumed is taken back, be it for the second time.
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

/// A cache beside the list.
#[derive(Default)]
struct Caches {
    cluster: Cluster,
    cache: AssumeCache<PersistentVolume>,
    /// What was assumed and not taken back. Of each name the last one counts.
    list: Vec<Arc<PersistentVolume>>,
    /// All that was ever assumed.
    all: Vec<Arc<PersistentVolume>>,
    /// The objects as they were before they changed last, by number.
    before: Vec<Option<Arc<PersistentVolume>>>,
    changes: u64,
}

impl Caches {
    /// All objects are there.
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
                self.cluster.set_object(&kind, "", &format!("pv-{number}"), None);
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

    /// Whether an object was made of the one that is stored.
    fn counts(&self, object: &PersistentVolume) -> bool {
        self.cluster.volume(&object.name).is_some_and(|stored| {
            (&stored.uid, &stored.resource_version) == (&object.uid, &object.resource_version)
        })
    }

    /// The cache shows what the list does.
    fn agree(&self) {
        let identity = |object: &Arc<PersistentVolume>| (object.name.clone(), Arc::as_ptr(object));
        let expected: BTreeMap<_, _> =
            self.list.iter().filter(|object| self.counts(object)).map(identity).collect();
        let listed: BTreeMap<_, _> = self.cache.iter(&self.cluster).map(identity).collect();
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
    fn a_cache_is_a_list_of_what_was_assumed(events in prop::collection::vec(event(), 1..600)) {
        let mut caches = Caches::new();
        for some in events.chunks(10) {
            some.iter().for_each(|event| caches.happen(event));
            caches.agree();
        }
    }
}
