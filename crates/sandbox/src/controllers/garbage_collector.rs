//! The garbage collector: deletes objects whose owners are all gone.

use std::collections::{BTreeMap, BTreeSet};

use framework::Time;
use serde_json::{Value, json};

use crate::informer::{Informer, ObjectEvent};
use crate::metadata::{name, namespace, uid};
use crate::object::{entries, put, text};
use crate::resources::{CUSTOMRESOURCEDEFINITIONS, EVENTS, Resource};
use crate::store::{DeleteOptions, Store};

/// The location of a dependent object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Dependent {
    group: &'static str,
    plural: &'static str,
    namespace: String,
    name: String,
}

#[derive(Debug)]
pub(super) struct GarbageCollector {
    definitions: Informer,
    followed: Vec<(&'static Resource, Informer)>,
    /// Dependents by the UID of an owner.
    dependents: BTreeMap<String, BTreeSet<Dependent>>,
    /// Dependents with an owner that may be gone.
    suspects: BTreeSet<Dependent>,
    /// The version of the store at the last step.
    seen: u64,
}

impl GarbageCollector {
    pub(super) fn new() -> Self {
        Self {
            definitions: Informer::new(CUSTOMRESOURCEDEFINITIONS),
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
            for event in informer.events(store) {
                let (ObjectEvent::Present(object) | ObjectEvent::Removed(object)) = &event;
                let id = dependent(resource, object);
                match event {
                    ObjectEvent::Present(_) => {
                        for owner in entries(object, "/metadata/ownerReferences") {
                            let owner = text(owner, "/uid").to_owned();
                            if self.dependents.entry(owner).or_default().insert(id.clone()) {
                                self.suspects.insert(id.clone());
                            }
                        }
                    }
                    ObjectEvent::Removed(_) => {
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
        if self.definitions.events(store).is_empty() && !self.followed.is_empty() {
            return;
        }
        for resource in store.stored_resources() {
            let followed = self.followed.iter().any(|(followed, _)| *followed == resource);
            if !followed && resource.storage() != EVENTS {
                self.followed.push((resource, Informer::new(resource)));
            }
        }
    }
}

fn dependent(resource: &'static Resource, object: &Value) -> Dependent {
    let (namespace, name) = (namespace(object).to_owned(), name(object).to_owned());
    Dependent { group: resource.group, plural: resource.plural, namespace, name }
}

fn forget(dependents: &mut BTreeMap<String, BTreeSet<Dependent>>, owner: &str, id: &Dependent) {
    if let Some(own) = dependents.get_mut(owner) {
        own.remove(id);
        if own.is_empty() {
            dependents.remove(owner);
        }
    }
}

/// Deletes an object whose owners are all gone, or removes references to missing owners from one
/// that has others.
fn collect(store: &mut Store, dependent: &Dependent, now: Time) {
    let Dependent { group, plural, namespace, name } = dependent;
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
        // The write fails if another client has deleted the object.
        store.delete(resource, namespace, name, &options, now).ok();
        return;
    }
    let keep = |object: &mut Value| {
        put(object, &["metadata", "ownerReferences"], json!(present));
        Ok(())
    };
    store.modify(resource, namespace, name, now, keep).ok();
}

/// Returns whether an owner exists. An owner of an unserved kind counts as existing.
fn exists(store: &Store, namespace: &str, owner: &Value) -> bool {
    let resource = store.resource_of_kind(text(owner, "/apiVersion"), text(owner, "/kind"));
    resource.is_none_or(|resource| {
        let namespace = if resource.namespaced { namespace } else { "" };
        let object = store.get(resource, namespace, text(owner, "/name"));
        object.is_some_and(|object| uid(object) == text(owner, "/uid"))
    })
}
