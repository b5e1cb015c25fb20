//! CustomResourceDefinitions: their kinds are served once they are established, and their objects
//! are deleted with them.

use std::sync::Arc;

use framework::Time;
use serde_json::{Value, json};

use super::collection::ChangeKind;
use super::{DeleteOptions, Store, id};
use crate::custom;
use crate::metadata::{self, metadata_mut, name, namespace};
use crate::object::{entries, is_terminating, put, set_condition, timestamp};
use crate::resources::{self, CUSTOMRESOURCEDEFINITIONS, Resource};
use crate::route::Route;
use crate::status::Status;
use crate::store_only;

/// The finalizer that keeps a definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

impl Store {
    /// Returns every served resource, each version of custom ones, built-in ones first.
    pub fn resources(&self) -> impl Iterator<Item = &'static Resource> + '_ {
        resources::in_all_versions().chain(self.custom.iter())
    }

    /// Returns the resource whose objects have this `apiVersion` and `kind`.
    pub fn resource_of_kind(&self, api_version: &str, kind: &str) -> Option<&'static Resource> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.resources().find(|resource| {
            resource.kind == kind && resource.group == group && resource.version == version
        })
    }

    /// Serves a kind of Kubernetes that the sandbox does not know, so that its objects can be
    /// stored. Returns `None` for kinds that Kubernetes does not have.
    pub fn serve_without_effect(
        &mut self,
        api_version: &str,
        kind: &str,
    ) -> Option<&'static Resource> {
        let definition = store_only::definition(api_version, kind)?;
        self.note_definition(ChangeKind::Added, &definition);
        self.resource_of_kind(api_version, kind)
    }

    /// Returns the resource of this group and name, in any version.
    pub(crate) fn resource(&self, group: &str, plural: &str) -> Option<&'static Resource> {
        self.resources().find(|resource| resource.plural == plural && resource.group == group)
    }

    /// Returns every resource whose objects are stored, custom ones in one version.
    pub(crate) fn stored_resources(&self) -> Vec<&'static Resource> {
        let mut stored: Vec<_> = self.resources().filter(|resource| resource.stored).collect();
        stored.dedup();
        stored
    }

    /// Returns the resource and the name of the object at a path, which may lead to a subresource.
    pub fn object_at(&self, path: &str) -> Option<(&'static Resource, String)> {
        let Route { resource, name, .. } = Route::of(path, &self.custom)?;
        (!name.is_empty()).then_some((resource, name))
    }

    /// Returns whether the resource is served: built-in ones always are.
    pub(super) fn serves(&self, resource: &'static Resource) -> bool {
        resource.custom.is_none() || self.custom.iter().any(|served| served == resource)
    }

    /// Follows a change of a definition: serves its kind, or stops serving it.
    pub(super) fn note_definition(&mut self, kind: ChangeKind, definition: &Value) {
        match kind {
            ChangeKind::Deleted => self.custom.remove(definition),
            ChangeKind::Added | ChangeKind::Modified => self.custom.update(definition),
        }
        for resource in self.custom.iter() {
            self.collections.entry(id(resource)).or_default();
        }
    }

    /// Establishes a definition that has just been created.
    pub(super) fn establish(&mut self, definition: &Value, now: Time) {
        let mut established = definition.clone();
        custom::establish(&mut established, now);
        self.record(CUSTOMRESOURCEDEFINITIONS, ChangeKind::Modified, established);
    }

    /// Refuses new objects of a kind whose definition is being deleted.
    pub(super) fn admit_to_definition(&self, resource: &'static Resource) -> Result<(), Status> {
        match self.definition_of(resource) {
            Some(definition) if is_terminating(definition) => Err(Status::method_not_allowed()),
            _ => Ok(()),
        }
    }

    fn definition_of(&self, resource: &'static Resource) -> Option<&Arc<Value>> {
        resource.custom?;
        self.get(CUSTOMRESOURCEDEFINITIONS, "", &resource.qualified())
    }

    /// Marks a definition as terminating and deletes its objects. The definition is removed with
    /// the last of them.
    pub(super) fn delete_definition(&mut self, current: &Value, now: Time) -> Arc<Value> {
        let mut marked = current.clone();
        metadata::set(&mut marked, "deletionTimestamp", timestamp(now));
        let mut finalizers: Vec<Value> =
            entries(current, "/metadata/finalizers").cloned().collect();
        finalizers.push(CLEANUP.into());
        put(&mut marked, &["metadata", "finalizers"], finalizers.into());
        let condition = json!({
            "type": "Terminating", "status": "True", "reason": "InstanceDeletionInProgress",
            "message": "CustomResource deletion is in progress",
        });
        set_condition(&mut marked, condition, now);
        let marked = self.record(CUSTOMRESOURCEDEFINITIONS, ChangeKind::Modified, marked);
        let declared = self.custom.iter().find(|resource| resource.qualified() == name(&marked));
        match declared {
            Some(resource) => {
                self.delete_objects(resource, now);
                self.finish_definition(resource);
            }
            None => self.remove_cleanup(&marked),
        }
        marked
    }

    fn delete_objects(&mut self, resource: &'static Resource, now: Time) {
        let objects: Vec<_> = self.objects(resource).cloned().collect();
        for object in objects {
            // An object with finalizers is marked and stays until they are removed.
            let (namespace, name) = (namespace(&object), name(&object));
            let _ = self.delete(resource, namespace, name, &DeleteOptions::default(), now);
        }
    }

    /// Removes a terminating definition if it has no objects left.
    pub(super) fn finish_definition(&mut self, resource: &'static Resource) {
        let terminating = self.definition_of(resource).filter(|current| is_terminating(current));
        if let Some(definition) = terminating.cloned()
            && self.objects(resource).next().is_none()
        {
            self.remove_cleanup(&definition);
        }
    }

    fn remove_cleanup(&mut self, definition: &Value) {
        let mut last = definition.clone();
        if let Some(Value::Array(finalizers)) = metadata_mut(&mut last).get_mut("finalizers") {
            finalizers.retain(|finalizer| finalizer != CLEANUP);
        }
        let kind = match metadata::has_finalizers(&last) {
            true => ChangeKind::Modified,
            false => ChangeKind::Deleted,
        };
        self.record(CUSTOMRESOURCEDEFINITIONS, kind, last);
    }
}
