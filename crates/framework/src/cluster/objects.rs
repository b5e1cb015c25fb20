//! Objects of kinds other than nodes and pods, as the API server showed them last.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::EventResource;

/// Namespace and name; the namespace is empty for cluster-scoped objects.
type Key = (Arc<str>, Arc<str>);

/// The objects of all kinds.
#[derive(Debug, Clone, Default)]
pub(super) struct Objects {
    /// Objects that plugins read as they are.
    custom: BTreeMap<EventResource, BTreeMap<Key, Arc<Value>>>,
    /// Objects that are kept in compact form elsewhere. All they are needed for here is to be
    /// compared with their next version, so they are text: a tree takes several times as much.
    built_in: HashMap<EventResource, HashMap<Key, Box<str>>>,
}

impl Objects {
    /// Adds, replaces or (with `None`) removes an object; returns the one before.
    pub(super) fn set(
        &mut self,
        kind: &EventResource,
        namespace: &str,
        name: &str,
        object: Option<Arc<Value>>,
    ) -> Option<Arc<Value>> {
        let key = (namespace.into(), name.into());
        if matches!(kind, EventResource::Custom(_)) {
            let objects = self.custom.entry(kind.clone()).or_default();
            return match object {
                Some(object) => objects.insert(key, object),
                None => objects.remove(&key),
            };
        }
        let objects = self.built_in.entry(kind.clone()).or_default();
        let before = match object {
            Some(object) => objects.insert(key, object.to_string().into()),
            None => objects.remove(&key),
        };
        // What was written as JSON can be read as such.
        before.and_then(|text| serde_json::from_str(&text).ok())
    }

    /// The objects of a custom kind, by namespace and name.
    pub(super) fn of_kind(&self, kind: &EventResource) -> impl Iterator<Item = &Arc<Value>> {
        self.custom.get(kind).into_iter().flat_map(BTreeMap::values)
    }

    /// One object of a custom kind.
    pub(super) fn get(
        &self,
        kind: &EventResource,
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<Value>> {
        self.custom.get(kind)?.get(&(namespace.into(), name.into()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_version_before_is_returned_whatever_the_kind() {
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
}
