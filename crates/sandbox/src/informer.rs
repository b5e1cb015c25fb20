//! Informers: how controllers and kubelets follow a resource.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::metadata::uid;
use crate::resources::Resource;
use crate::store::{Change, ChangeKind, Store};

/// A change of an object.
#[derive(Debug, Clone)]
pub(crate) enum ObjectEvent {
    /// The object exists, new or changed.
    Present(Arc<Value>),
    /// The object was removed; this was the last state.
    Removed(Arc<Value>),
}

/// Reports the changes of one resource, each once, in the order of the store. The first time, and
/// when the history no longer reaches back, it reports all objects.
#[derive(Debug)]
pub(crate) struct Informer {
    resource: &'static Resource,
    /// The version of the last report; `None` before the first one.
    reported: Option<u64>,
    /// The reported objects that still exist, by UID.
    present: BTreeMap<String, Arc<Value>>,
}

impl Informer {
    pub(crate) fn new(resource: &'static Resource) -> Self {
        Self { resource, reported: None, present: BTreeMap::new() }
    }

    /// Returns the changes since the last call.
    pub(crate) fn events(&mut self, store: &Store) -> Vec<ObjectEvent> {
        let version = store.resource_version();
        let events: Vec<ObjectEvent> = match self.reported.replace(version) {
            Some(reported) if reported == version => return Vec::new(),
            Some(reported) if store.has_changes_since(self.resource, reported) => {
                store.changes_since(self.resource, reported).map(ObjectEvent::of).collect()
            }
            _ => self.state(store),
        };
        for event in &events {
            match event {
                ObjectEvent::Present(object) => {
                    self.present.insert(uid(object).to_owned(), object.clone())
                }
                ObjectEvent::Removed(object) => self.present.remove(uid(object)),
            };
        }
        events
    }

    /// Returns all objects, preceded by reported objects that are gone.
    fn state(&self, store: &Store) -> Vec<ObjectEvent> {
        let objects = || store.objects(self.resource);
        let uids: BTreeSet<&str> = objects().map(|object| uid(object)).collect();
        let reported = self.present.iter().filter(|(uid, _)| !uids.contains(uid.as_str()));
        let gone = reported.map(|(_, object)| ObjectEvent::Removed(object.clone()));
        gone.chain(objects().cloned().map(ObjectEvent::Present)).collect()
    }
}

impl ObjectEvent {
    fn of(change: &Change) -> Self {
        match change.kind {
            ChangeKind::Deleted => Self::Removed(change.object.clone()),
            ChangeKind::Added | ChangeKind::Modified => Self::Present(change.object.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use framework::Time;
    use serde_json::json;

    use super::*;
    use crate::metadata::name;
    use crate::object::put;
    use crate::resources::CONFIGMAPS;
    use crate::store::{DeleteOptions, HISTORY};

    const NOW: Time = Time::from_secs(1_000_000);

    fn create(store: &mut Store, name: &str) -> String {
        let map = json!({"metadata": {"name": name}});
        uid(&store.create(CONFIGMAPS, map, NOW).unwrap()).to_owned()
    }

    fn delete(store: &mut Store, name: &str) {
        store.delete(CONFIGMAPS, "default", name, &DeleteOptions::default(), NOW).unwrap();
    }

    fn count_to(store: &mut Store, name: &str, count: usize) {
        for count in 0..count {
            let change = |map: &mut Value| {
                put(map, &["data", "count"], json!(count.to_string()));
                Ok(())
            };
            store.modify(CONFIGMAPS, "default", name, NOW, change).unwrap();
        }
    }

    fn reported(events: &[ObjectEvent]) -> Vec<(&str, &str, &str)> {
        let objects = events.iter().map(|event| match event {
            ObjectEvent::Present(object) => ("present", object),
            ObjectEvent::Removed(object) => ("gone", object),
        });
        objects.map(|(what, object)| (what, name(object), uid(object))).collect()
    }

    #[test]
    fn every_change_is_reported_once() {
        let mut store = Store::new(1, NOW);
        let mut informer = Informer::new(CONFIGMAPS);
        let old = create(&mut store, "a");
        assert_eq!(reported(&informer.events(&store)), [("present", "a", &*old)]);
        assert!(informer.events(&store).is_empty());
        delete(&mut store, "a");
        let new = create(&mut store, "a");
        let events = informer.events(&store);
        assert_eq!(reported(&events), [("gone", "a", &*old), ("present", "a", &*new)]);
    }

    #[test]
    fn informer_relists_when_the_history_is_too_short() {
        let mut store = Store::new(1, NOW);
        let mut informer = Informer::new(CONFIGMAPS);
        let [kept, removed, replaced] =
            ["kept", "removed", "replaced"].map(|name| create(&mut store, name));
        informer.events(&store);
        delete(&mut store, "removed");
        delete(&mut store, "replaced");
        let replacement = create(&mut store, "replaced");
        count_to(&mut store, "kept", HISTORY);
        let events = informer.events(&store);
        let mut gone = [("gone", "removed", &*removed), ("gone", "replaced", &*replaced)];
        gone.sort_by_key(|(_, _, uid)| *uid);
        let there = [("present", "kept", &*kept), ("present", "replaced", &*replacement)];
        assert_eq!(reported(&events), [gone, there].concat());
        assert!(informer.events(&store).is_empty());
    }
}
