//! The garbage collector: objects go when the last of their owners is gone.

use std::collections::{BTreeMap, BTreeSet};

use framework::Time;
use serde_json::{Value, json};

use crate::informer::{Informer, News};
use crate::metadata::{name, namespace, uid};
use crate::object::{entries, put, text};
use crate::resources::{EVENTS, Resource};
use crate::store::{DeleteOptions, Store};

/// A dependent object: where it is.
type Dependent = (&'static str, &'static str, String, String);

#[derive(Debug)]
pub(super) struct GarbageCollector {
    followed: Vec<(&'static Resource, Informer)>,
    /// Dependents by the uid of an owner.
    dependents: BTreeMap<String, BTreeSet<Dependent>>,
    /// Dependents of which an owner may be gone.
    suspects: BTreeSet<Dependent>,
    /// The version of the store up to which everything was looked at.
    seen: u64,
}

impl GarbageCollector {
    pub(super) fn new() -> Self {
        Self {
            followed: Vec::new(),
            dependents: BTreeMap::new(),
            suspects: BTreeSet::new(),
            seen: 0,
        }
    }

    pub(super) fn step(&mut self, store: &mut Store, now: Time) {
        if self.seen == store.resource_version() {
            return;
        }
        self.seen = store.resource_version();
        self.follow(store);
        for (resource, informer) in &mut self.followed {
            for news in informer.news(store) {
                let (News::Present(object) | News::Gone(object)) = &news;
                let id = dependent(resource, object);
                match news {
                    News::Present(_) => {
                        for owner in entries(object, "/metadata/ownerReferences") {
                            let owner = text(owner, "/uid").to_owned();
                            if self.dependents.entry(owner).or_default().insert(id.clone()) {
                                self.suspects.insert(id.clone());
                            }
                        }
                    }
                    News::Gone(_) => {
                        for owner in entries(object, "/metadata/ownerReferences") {
                            forget(&mut self.dependents, text(owner, "/uid"), &id);
                        }
                        let orphans = self.dependents.remove(uid(object)).unwrap_or_default();
                        self.suspects.extend(orphans);
                    }
                }
            }
        }
        while let Some(suspect) = self.suspects.pop_first() {
            collect(store, &suspect, now);
        }
    }
}

impl GarbageCollector {
    /// Follows every resource, custom ones from when they are served. Events have no dependents.
    fn follow(&mut self, store: &Store) {
        for resource in store.stored_resources() {
            let followed = self.followed.iter().any(|(followed, _)| *followed == resource);
            if !followed && resource.storage() != EVENTS {
                self.followed.push((resource, Informer::new(resource)));
            }
        }
    }
}

fn dependent(resource: &'static Resource, object: &Value) -> Dependent {
    (resource.group, resource.plural, namespace(object).to_owned(), name(object).to_owned())
}

fn forget(dependents: &mut BTreeMap<String, BTreeSet<Dependent>>, owner: &str, id: &Dependent) {
    if let Some(own) = dependents.get_mut(owner) {
        own.remove(id);
        if own.is_empty() {
            dependents.remove(owner);
        }
    }
}

/// Deletes an object all of whose owners are gone; takes the gone ones off one that has others.
fn collect(store: &mut Store, (group, plural, namespace, name): &Dependent, now: Time) {
    let Some(resource) = store.resource(group, plural) else { return };
    let Some(object) = store.get(resource, namespace, name) else { return };
    let owners: Vec<Value> = entries(object, "/metadata/ownerReferences").cloned().collect();
    let present: Vec<&Value> =
        owners.iter().filter(|owner| exists(store, namespace, owner)).collect();
    if present.len() == owners.len() {
        return;
    }
    if present.is_empty() {
        let options =
            DeleteOptions { uid: Some(uid(object).to_owned()), ..DeleteOptions::default() };
        // Somebody else may have been faster.
        store.delete(resource, namespace, name, &options, now).ok();
        return;
    }
    let keep = |object: &mut Value| {
        put(object, &["metadata", "ownerReferences"], json!(present));
        Ok(())
    };
    store.modify(resource, namespace, name, now, keep).ok();
}

/// Whether an owner is there. An owner of a kind that is not served counts as there.
fn exists(store: &Store, namespace: &str, owner: &Value) -> bool {
    let resource = store.resource_of_kind(text(owner, "/apiVersion"), text(owner, "/kind"));
    resource.is_none_or(|resource| {
        let namespace = if resource.namespaced { namespace } else { "" };
        let object = store.get(resource, namespace, text(owner, "/name"));
        object.is_some_and(|object| uid(object) == text(owner, "/uid"))
    })
}
