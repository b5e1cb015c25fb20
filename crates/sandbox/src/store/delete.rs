//! Deletion: preconditions, grace periods, finalizers and dependents.

use std::sync::Arc;

use framework::Time;
use serde_json::Value;

use super::Store;
use super::collection::ChangeKind;
use crate::metadata::{self, name, namespace};
use crate::object::{is_terminating, number, text, timestamp};
use crate::resources::{CUSTOMRESOURCEDEFINITIONS, NAMESPACES, PODS, Resource};
use crate::status::Status;

/// Options of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Grace period of a pod in seconds; its own if `None`, immediate if 0.
    pub grace_period_seconds: Option<i64>,
    /// The UID that the object must have.
    pub uid: Option<String>,
    /// The resourceVersion that the object must have.
    pub resource_version: Option<String>,
    /// The fate of dependents.
    pub propagation: Propagation,
    /// Whether nothing is written.
    pub dry_run: bool,
}

/// The treatment of objects that have a deleted object as owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Propagation {
    /// The garbage collector deletes them. `Foreground` is treated alike.
    #[default]
    Background,
    /// They stay without the owner.
    Orphan,
}

const DEFAULT_GRACE: i64 = 30;

impl Store {
    /// Deletes an object, or marks it as terminating: a bound pod stays until its kubelet deletes
    /// it with grace 0, an object with finalizers until the last one is removed, a namespace until
    /// it is empty. Returns the object as it is or last was.
    ///
    /// # Errors
    /// 404 without such an object, 409 if a precondition does not hold.
    pub fn delete(
        &mut self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        now: Time,
    ) -> Result<Arc<Value>, Status> {
        let current = self.get(resource, namespace, name).cloned();
        let current = current.ok_or_else(|| Status::not_found(resource, name))?;
        options.check(resource, &current)?;
        if options.dry_run {
            return Ok(current);
        }
        if options.propagation == Propagation::Orphan {
            self.orphan_dependents(&current);
        }
        match resource.storage() {
            storage if storage == NAMESPACES && is_terminating(&current) => Ok(current),
            storage if storage == NAMESPACES => Ok(self.delete_namespace(&current, now)),
            storage if storage == PODS => Ok(self.delete_pod(&current, options, now)),
            storage if storage == CUSTOMRESOURCEDEFINITIONS && is_terminating(&current) => {
                Ok(current)
            }
            storage if storage == CUSTOMRESOURCEDEFINITIONS => {
                Ok(self.delete_definition(&current, now))
            }
            storage => Ok(self.delete_at_once(storage, &current, now)),
        }
    }

    /// Removes the object, or marks it if it has finalizers.
    fn delete_at_once(
        &mut self,
        resource: &'static Resource,
        current: &Arc<Value>,
        now: Time,
    ) -> Arc<Value> {
        match (metadata::has_finalizers(current), is_terminating(current)) {
            (false, _) => self.remove(resource, Value::clone(current)),
            (true, true) => current.clone(),
            (true, false) => self.mark(resource, current, now, 0),
        }
    }

    fn delete_pod(
        &mut self,
        current: &Arc<Value>,
        options: &DeleteOptions,
        now: Time,
    ) -> Arc<Value> {
        let Some(grace) = grace(current, options) else { return current.clone() };
        let marked = self.mark(PODS, current, now, grace);
        if grace == 0 && !metadata::has_finalizers(&marked) {
            self.remove(PODS, Value::clone(&marked));
        }
        marked
    }

    /// Writes the deletion timestamp, which counts as a change of the spec.
    fn mark(
        &mut self,
        resource: &'static Resource,
        current: &Value,
        now: Time,
        grace: i64,
    ) -> Arc<Value> {
        let mut marked = current.clone();
        let generation = number(&marked, "/metadata/generation");
        if let (Some(generation), false) = (generation, is_terminating(current)) {
            metadata::set(&mut marked, "generation", generation + 1);
        }
        let grace_period = std::time::Duration::from_secs(grace.unsigned_abs());
        let end = timestamp(now + grace_period);
        metadata::set(&mut marked, "deletionTimestamp", end);
        metadata::set(&mut marked, "deletionGracePeriodSeconds", grace);
        self.record(resource, ChangeKind::Modified, marked)
    }

    /// Removes the object. A terminating namespace or definition is removed with its last object.
    pub(super) fn remove(&mut self, resource: &'static Resource, last: Value) -> Arc<Value> {
        let last = self.record(resource, ChangeKind::Deleted, last);
        self.finish_namespace(namespace(&last));
        self.finish_definition(resource);
        last
    }

    /// Removes the owner from the `ownerReferences` of its dependents.
    fn orphan_dependents(&mut self, owner: &Value) {
        let uid = metadata::uid(owner);
        for resource in self.stored_resources() {
            let dependents: Vec<_> =
                self.objects(resource).filter(|object| is_owned_by(object, uid)).cloned().collect();
            for dependent in dependents {
                let mut freed = Value::clone(&dependent);
                let references = freed.pointer_mut("/metadata/ownerReferences");
                if let Some(references) = references.and_then(Value::as_array_mut) {
                    references.retain(|reference| text(reference, "/uid") != uid);
                }
                self.record(resource, ChangeKind::Modified, freed);
            }
        }
    }
}

impl DeleteOptions {
    /// Returns options with a grace period of `seconds`.
    pub fn with_grace(seconds: i64) -> Self {
        Self { grace_period_seconds: Some(seconds), ..Self::default() }
    }

    fn check(&self, resource: &Resource, current: &Value) -> Result<(), Status> {
        let mismatch = |what: &str, wanted: &str, found: &str| {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record \
                 ({found}). The object might have been "
            );
            let end = if what == "UID" { "deleted and then recreated" } else { "modified" };
            Status::conflict_of(resource.kind, name(current), &(why + end))
        };
        let (uid, version) = (metadata::uid(current), metadata::resource_version(current));
        match (&self.uid, &self.resource_version) {
            (Some(wanted), _) if wanted != uid => Err(mismatch("UID", wanted, uid)),
            (_, Some(wanted)) if wanted != version => {
                Err(mismatch("ResourceVersion", wanted, version))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the grace period of a pod in seconds; `None` if the pod is terminating and the period
/// does not become shorter.
fn grace(pod: &Value, options: &DeleteOptions) -> Option<i64> {
    let pending = number(pod, "/metadata/deletionGracePeriodSeconds");
    if let (true, Some(pending)) = (is_terminating(pod), pending) {
        let wanted = options.grace_period_seconds?.max(0);
        return (wanted < pending).then_some(wanted);
    }
    let finished = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    if finished || text(pod, "/spec/nodeName").is_empty() {
        return Some(0);
    }
    let own = number(pod, "/spec/terminationGracePeriodSeconds");
    match options.grace_period_seconds.or(own).unwrap_or(DEFAULT_GRACE) {
        negative if negative < 0 => Some(1),
        seconds => Some(seconds),
    }
}

fn is_owned_by(object: &Value, uid: &str) -> bool {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    references.into_iter().flatten().any(|reference| text(reference, "/uid") == uid)
}
