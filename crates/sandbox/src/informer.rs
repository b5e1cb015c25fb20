//! How controllers and kubelets follow a resource.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::metadata::uid;
use crate::resources::Resource;
use crate::store::{Change, ChangeKind, Store};

/// What became of an object.
#[derive(Debug, Clone)]
pub(crate) enum News {
    /// It is there, new or changed.
    Present(Arc<Value>),
    /// It is gone; this was the last state.
    Gone(Arc<Value>),
}

/// Tells what is new of one resource, each change once, in the order of the store; at first, and
/// after more changes than the store remembers, everything there is.
#[derive(Debug)]
pub(crate) struct Informer {
    resource: &'static Resource,
    /// The version up to which everything was told; `None` before the first time.
    told: Option<u64>,
    /// The objects that were told and not yet gone, by UID.
    present: BTreeMap<String, Arc<Value>>,
}

impl Informer {
    pub(crate) fn new(resource: &'static Resource) -> Self {
        Self { resource, told: None, present: BTreeMap::new() }
    }

    /// What happened since the last call.
    pub(crate) fn news(&mut self, store: &Store) -> Vec<News> {
        let version = store.resource_version();
        let news: Vec<News> = match self.told.replace(version) {
            Some(told) if told == version => return Vec::new(),
            Some(told) if store.has_changes_since(self.resource, told) => {
                store.changes_since(self.resource, told).map(News::of).collect()
            }
            _ => self.state(store),
        };
        for news in &news {
            match news {
                News::Present(object) => {
                    self.present.insert(uid(object).to_owned(), object.clone())
                }
                News::Gone(object) => self.present.remove(uid(object)),
            };
        }
        news
    }

    /// Everything there is, and before it what was told and is gone.
    fn state(&self, store: &Store) -> Vec<News> {
        let objects = || store.objects(self.resource);
        let uids: BTreeSet<&str> = objects().map(|object| uid(object)).collect();
        let told = self.present.iter().filter(|(uid, _)| !uids.contains(uid.as_str()));
        let gone = told.map(|(_, object)| News::Gone(object.clone()));
        gone.chain(objects().cloned().map(News::Present)).collect()
    }
}

impl News {
    fn of(change: &Change) -> Self {
        match change.kind {
            ChangeKind::Deleted => Self::Gone(change.object.clone()),
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

    fn told(news: &[News]) -> Vec<(&str, &str, &str)> {
        let objects = news.iter().map(|news| match news {
            News::Present(object) => ("present", object),
            News::Gone(object) => ("gone", object),
        });
        objects.map(|(what, object)| (what, name(object), uid(object))).collect()
    }

    #[test]
    fn every_change_is_told_once() {
        let mut store = Store::new(1, NOW);
        let mut informer = Informer::new(CONFIGMAPS);
        let old = create(&mut store, "a");
        assert_eq!(told(&informer.news(&store)), [("present", "a", &*old)]);
        assert!(informer.news(&store).is_empty());
        delete(&mut store, "a");
        let new = create(&mut store, "a");
        let news = informer.news(&store);
        assert_eq!(told(&news), [("gone", "a", &*old), ("present", "a", &*new)]);
    }

    #[test]
    fn after_more_changes_than_are_remembered_it_tells_what_is_gone_and_what_is_there() {
        let mut store = Store::new(1, NOW);
        let mut informer = Informer::new(CONFIGMAPS);
        let [kept, removed, replaced] =
            ["kept", "removed", "replaced"].map(|name| create(&mut store, name));
        informer.news(&store);
        delete(&mut store, "removed");
        delete(&mut store, "replaced");
        let replacement = create(&mut store, "replaced");
        count_to(&mut store, "kept", HISTORY);
        let news = informer.news(&store);
        let mut gone = [("gone", "removed", &*removed), ("gone", "replaced", &*replaced)];
        gone.sort_by_key(|(_, _, uid)| *uid);
        let there = [("present", "kept", &*kept), ("present", "replaced", &*replacement)];
        assert_eq!(told(&news), [gone, there].concat());
        assert!(informer.news(&store).is_empty());
    }
}
