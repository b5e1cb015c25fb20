//! The API in memory: a value that answers requests, keeps history and feeds watches.
//!
//! It reads no clock and no random source: the time is an argument, and UIDs and generated names
//! come from a seeded generator. Equal requests give equal answers.

mod collection;
mod decode;
mod definitions;
mod delete;
mod encoding;
mod identity;
mod list;
mod namespaces;
mod representation;
mod serve;
mod watch;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use framework::Time;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

#[cfg(test)]
pub(crate) use collection::HISTORY;
pub use collection::{Change, ChangeKind};
pub use delete::{DeleteOptions, Propagation};

use crate::api::{User, WatchId};
use crate::authorization::{Policy, bootstrap_policy};
use crate::custom::CustomResources;
use crate::flow_control::bootstrap_flow_control;
use crate::metadata::{self, name, namespace};
use crate::resources::{self, CUSTOMRESOURCEDEFINITIONS, NAMESPACES, PRIORITYCLASSES, Resource};
use collection::{Collection, key};
use identity::Identities;
use watch::Watch;

/// A Kubernetes API in memory.
#[derive(Debug)]
pub struct Store {
    /// By group and plural name.
    collections: FxHashMap<(&'static str, &'static str), Collection>,
    /// The resourceVersion of the latest write; all resources share one sequence.
    version: u64,
    identities: Identities,
    watches: BTreeMap<WatchId, Watch>,
    next_watch: u64,
    /// Terminating namespaces, which are removed once they are empty.
    terminating: BTreeSet<String>,
    /// The kinds that CustomResourceDefinitions declare.
    custom: CustomResources,
    /// Users of bearer tokens, as kube-apiserver reads them from `--token-auth-file`.
    static_tokens: BTreeMap<String, User>,
    /// The compiled RBAC policy; cleared when an RBAC object changes.
    policy: OnceLock<Policy>,
}

impl Store {
    /// Returns a store with the objects of every new cluster: the system namespaces, the system
    /// priority classes, the default RBAC policy and that of flow control.
    pub fn new(seed: u64, now: Time) -> Self {
        let stored = resources::ALL.iter().filter(|resource| resource.stored);
        let mut store = Self {
            collections: stored.map(|resource| (id(resource), Collection::default())).collect(),
            version: 1,
            identities: Identities::new(seed),
            watches: BTreeMap::new(),
            next_watch: 1,
            terminating: BTreeSet::new(),
            custom: CustomResources::default(),
            static_tokens: BTreeMap::new(),
            policy: OnceLock::new(),
        };
        for (resource, object) in bootstrap_objects() {
            let created = store.create(resource, object, now);
            debug_assert!(created.is_ok(), "{created:?}");
        }
        store
    }

    /// Returns the version of the latest write.
    pub fn resource_version(&self) -> u64 {
        self.version
    }

    /// Returns the object of this name; `namespace` is empty for resources without one.
    pub fn get(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<Value>> {
        let stored = self.collection(resource)?.get(&key(namespace, name))?;
        Some(&stored.object)
    }

    /// Returns all objects of a resource in key order.
    pub fn objects(&self, resource: &'static Resource) -> impl Iterator<Item = &Arc<Value>> {
        self.collection(resource)
            .into_iter()
            .flat_map(Collection::iter)
            .map(|stored| &stored.object)
    }

    /// Returns the changes of a resource after `version`, oldest first. The store keeps the latest
    /// 20,000 changes of each resource.
    pub fn changes_since(
        &self,
        resource: &'static Resource,
        version: u64,
    ) -> impl Iterator<Item = &Change> {
        let collection = self.collection(resource);
        collection.into_iter().flat_map(move |collection| collection.changes_since(version))
    }

    /// Returns whether [`Self::changes_since`] is complete for a resource after `version`.
    pub(crate) fn has_changes_since(&self, resource: &'static Resource, version: u64) -> bool {
        self.collection(resource).is_none_or(|collection| collection.has_changes_since(version))
    }

    /// Expires the history for clients: watches from older versions and tokens of older lists.
    pub fn compact(&mut self) {
        self.compact_to(self.version);
    }

    /// Expires the history before `version` for clients.
    pub fn compact_to(&mut self, version: u64) {
        self.collections.values_mut().for_each(|collection| collection.compact(version));
    }

    /// Returns the RBAC policy of the objects in the store.
    pub(crate) fn policy(&self) -> &Policy {
        self.policy.get_or_init(|| Policy::of(self))
    }

    /// Accepts a bearer token of this user.
    pub fn add_static_token(&mut self, token: String, user: User) {
        self.static_tokens.insert(token, user);
    }

    pub(crate) fn static_tokens(&self) -> &BTreeMap<String, User> {
        &self.static_tokens
    }

    /// Returns a new random UID.
    pub(crate) fn new_uid(&mut self) -> String {
        self.identities.uid()
    }

    fn collection(&self, resource: &'static Resource) -> Option<&Collection> {
        self.collections.get(&id(resource.storage()))
    }

    /// Records a write under the next version, which is also written into the object.
    fn record(
        &mut self,
        resource: &'static Resource,
        kind: ChangeKind,
        mut object: Value,
    ) -> Arc<Value> {
        self.version += 1;
        metadata::set(&mut object, "resourceVersion", self.version.to_string());
        let object = Arc::new(object);
        let key = key(namespace(&object), name(&object));
        if resource.group == resources::ROLES.group {
            self.policy.take();
        }
        if resource == CUSTOMRESOURCEDEFINITIONS {
            self.note_definition(kind, &object);
        }
        self.collections.entry(id(resource.storage())).or_default().record(
            &key,
            kind,
            object.clone(),
            self.version,
        );
        object
    }
}

fn id(resource: &'static Resource) -> (&'static str, &'static str) {
    (resource.group, resource.plural)
}

fn bootstrap_objects() -> Vec<(&'static Resource, Value)> {
    const SYSTEM_CLASSES: [(&str, i64); 2] =
        [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
    let namespaces = ["default", "kube-node-lease", "kube-public", "kube-system"]
        .map(|name| (NAMESPACES, json!({"metadata": {"name": name}})));
    let classes = SYSTEM_CLASSES.map(|(name, value)| {
        (PRIORITYCLASSES, json!({"metadata": {"name": name}, "value": value}))
    });
    let objects = namespaces.into_iter().chain(classes).chain(bootstrap_policy());
    objects.chain(bootstrap_flow_control()).collect()
}
