//! Writes: creation and update, with defaults, admission and validation.

use std::sync::Arc;

use admission::{Classes, Given};
use framework::Time;
use framework::storage::default_class;
use serde_json::{Map, Value};

use super::collection::ChangeKind;
use super::{Store, namespaces};
use crate::claim_status::Writer;
use crate::metadata::{self, fields_mut, metadata_mut, name, namespace};
use crate::object::{entries, is_terminating, number, put, text, timestamp};
use crate::resources::{
    CUSTOMRESOURCEDEFINITIONS, LIMITRANGES, NAMESPACES, NODES, PERSISTENTVOLUMECLAIMS, PODS,
    PRIORITYCLASSES, RESOURCECLAIMS, RUNTIMECLASSES, Resource, STORAGECLASSES,
};
use crate::status::{Cause, Status};
use crate::{admin_access, claim_status, conversion, defaults, storage_protection, validate};

/// Metadata that only the server sets.
const SYSTEM_METADATA: [&str; 6] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "selfLink",
    "uid",
];

/// Attempts to find a free generated name.
const NAME_ATTEMPTS: usize = 8;

/// The part of an object that an update writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything but a status with a subresource.
    Main,
    /// Only the status.
    Status,
    /// Only the resources of the containers of a pod.
    Resources,
}

/// The target of a write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) resource: &'static Resource,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) part: Part,
    pub(super) by: Writer<'a>,
}

/// The classes of a store.
struct Stored<'a>(&'a Store);

impl Classes for Stored<'_> {
    fn priority_class(&self, name: &str) -> Option<&Value> {
        self.0.get(PRIORITYCLASSES, "", name).map(|class| &**class)
    }

    fn priority_classes(&self) -> impl Iterator<Item = &Value> {
        self.0.objects(PRIORITYCLASSES).map(|class| &**class)
    }

    fn runtime_class(&self, name: &str) -> Option<&Value> {
        self.0.get(RUNTIMECLASSES, "", name).map(|class| &**class)
    }

    fn limit_ranges(&self, namespace: &str) -> impl Iterator<Item = &Value> {
        let all = self.0.objects(LIMITRANGES).map(|range| &**range);
        all.filter(move |range| metadata::namespace(range) == namespace)
    }
}

impl Store {
    /// Creates an object like a POST, with names, defaults, admission and validation. `namespace`
    /// defaults to `default`.
    ///
    /// # Errors
    /// The status of the API server: 409 if the name is taken, 422 if a rule is violated, 403 if
    /// admission refuses, 404 if the namespace is missing.
    pub fn create(
        &mut self,
        resource: &'static Resource,
        object: Value,
        now: Time,
    ) -> Result<Arc<Value>, Status> {
        let object = self.admit(resource, object, now)?;
        let created = self.record(resource, ChangeKind::Added, object);
        if resource == CUSTOMRESOURCEDEFINITIONS {
            self.establish(&created, now);
        }
        Ok(created)
    }

    /// Returns the object that a creation would store, without its version.
    pub(super) fn admit(
        &mut self,
        resource: &'static Resource,
        mut object: Value,
        now: Time,
    ) -> Result<Value, Status> {
        if !metadata::resource_version(&object).is_empty() {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Status::internal(why));
        }
        let storage = resource.storage();
        object = conversion::stored(resource, object);
        metadata::set_kind(&mut object, storage);
        self.identify(resource, &mut object, now);
        self.admit_to_namespace(resource, &object)?;
        self.admit_to_definition(resource)?;
        defaults::complete(storage, &mut object, now);
        if resource == NAMESPACES {
            namespaces::complete(&mut object);
        }
        if resource == PODS {
            self.admit_pod(&mut object)?;
        }
        if resource == PERSISTENTVOLUMECLAIMS {
            self.admit_class(&mut object);
        }
        storage_protection::admit(storage, &mut object);
        validate::create(storage, &object)?;
        if let Some(fault) = admin_access::check(self, storage, &object) {
            return Err(Status::invalid(storage, name(&object), vec![fault]));
        }
        match self.get(resource, namespace(&object), name(&object)) {
            Some(_) => Err(Status::already_exists(resource, name(&object))),
            None => Ok(object),
        }
    }

    /// Sets the default class of a claim without a class.
    fn admit_class(&self, claim: &mut Value) {
        let classes = self.objects(STORAGECLASSES).map(|class| &**class);
        if let Some(class) = default_class::class_for(classes, claim) {
            put(claim, &["spec", "storageClassName"], class.into());
        }
    }

    /// Fills in what admission plugins fill into a new pod.
    fn admit_pod(&self, pod: &mut Value) -> Result<(), Status> {
        let namespace = namespace(pod).to_owned();
        let refusals = admission::admit(pod, &namespace, &Stored(self), Given::Checked);
        defaults::set_qos_class(pod);
        match refusals.first() {
            None => Ok(()),
            Some(refusal) => Err(Status::forbidden(PODS, name(pod), &refusal.message)),
        }
    }

    /// Sets the metadata that the server decides.
    fn identify(&mut self, resource: &'static Resource, object: &mut Value, now: Time) {
        let uid = self.identities.uid();
        let metadata = metadata_mut(object);
        for field in SYSTEM_METADATA {
            metadata.remove(field);
        }
        metadata.insert("uid".to_owned(), uid.into());
        let created = timestamp(now);
        metadata.insert("creationTimestamp".to_owned(), created.into());
        if resource.generation {
            metadata.insert("generation".to_owned(), 1.into());
        }
        if !resource.namespaced {
            metadata.remove("namespace");
        } else if metadata.get("namespace").and_then(Value::as_str).is_none_or(str::is_empty) {
            metadata.insert("namespace".to_owned(), "default".into());
        }
        self.generate_name(resource, object);
    }

    /// Generates the name of an object from its `generateName`.
    fn generate_name(&mut self, resource: &'static Resource, object: &mut Value) {
        let base = text(object, "/metadata/generateName").to_owned();
        if base.is_empty() || !name(object).is_empty() {
            return;
        }
        for _ in 0..NAME_ATTEMPTS {
            let candidate = self.identities.name(&base);
            let free = self.get(resource, namespace(object), &candidate).is_none();
            metadata::set(object, "name", candidate);
            if free {
                break;
            }
        }
    }

    /// Changes an object without validation, for controllers, kubelets and subresources. A change
    /// of the spec increments the generation; without any change nothing is written.
    ///
    /// # Errors
    /// 404 without such an object, and the errors of `change`.
    pub fn modify(
        &mut self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
        _now: Time,
        change: impl FnOnce(&mut Value) -> Result<(), Status>,
    ) -> Result<Arc<Value>, Status> {
        let current = self.get(resource, namespace, name).cloned();
        let current = current.ok_or_else(|| Status::not_found(resource, name))?;
        let mut object = Value::clone(&current);
        change(&mut object)?;
        Ok(self.settle(resource, &current, object))
    }

    /// Updates an object like a PUT or PATCH. `change` returns the new object for the current one.
    pub(super) fn update(
        &mut self,
        target: Target<'_>,
        dry_run: bool,
        change: impl FnOnce(&Value) -> Result<Value, Status>,
    ) -> Result<Arc<Value>, Status> {
        let Target { resource, namespace, name, part, by } = target;
        let current = self.get(resource, namespace, name).cloned();
        let current = current.ok_or_else(|| Status::not_found(resource, name))?;
        let mut wanted = change(&current)?;
        check_preconditions(target, &current, &wanted)?;
        keep_what_is_not_written(resource, part, &current, &mut wanted);
        let keeps_spec = resource == PODS && wanted.get("spec") == current.get("spec");
        match keeps_spec {
            true => defaults::set_defaults_beside_spec(&mut wanted),
            false => defaults::set_defaults(resource.storage(), &mut wanted),
        }
        if resource == RESOURCECLAIMS && part == Part::Status {
            claim_status::drop_deallocated(&current, &mut wanted);
        }
        match part {
            Part::Resources => validate::resize(resource, &current, &wanted)?,
            Part::Main | Part::Status if keeps_spec => {
                validate::update_beside_spec(&current, &wanted)?;
            }
            Part::Main | Part::Status => validate::update(resource, &current, &wanted)?,
        }
        if resource == RESOURCECLAIMS && part == Part::Status {
            let causes = claim_status::authorize(self, by, &current, &wanted);
            if !causes.is_empty() {
                return Err(Status::invalid(resource, name, causes));
            }
        }
        if dry_run {
            return Ok(Arc::new(wanted));
        }
        Ok(self.settle(resource, &current, wanted))
    }

    /// Stores the new state of an object, or removes a terminating object without finalizers.
    fn settle(
        &mut self,
        resource: &'static Resource,
        current: &Arc<Value>,
        mut object: Value,
    ) -> Arc<Value> {
        if object == **current {
            return current.clone();
        }
        let generation = number(&object, "/metadata/generation");
        if let (Some(generation), true) = (generation, spec_differs(resource, current, &object)) {
            metadata::set(&mut object, "generation", generation + 1);
        }
        if is_finished(&object) {
            return self.remove(resource, object);
        }
        self.record(resource, ChangeKind::Modified, object)
    }
}

/// Checks that name, UID and version in the object, if set, equal those of the stored object.
fn check_preconditions(target: Target<'_>, current: &Value, wanted: &Value) -> Result<(), Status> {
    let Target { resource, namespace, name, .. } = target;
    let given = |wanted: &str, current: &str| !wanted.is_empty() && wanted != current;
    if given(metadata::name(wanted), name) {
        let given = metadata::name(wanted);
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    let (uid, found) = (metadata::uid(wanted), metadata::uid(current));
    if given(uid, found) {
        return Err(Status::uid_mismatch(resource, namespace, name, uid, found));
    }
    if given(metadata::resource_version(wanted), metadata::resource_version(current)) {
        return Err(Status::modified(resource, name));
    }
    Ok(())
}

/// Checks that a patch changes neither the version nor the UID. The error about the UID differs
/// from that of an object sent whole.
pub(super) fn check_patched(
    resource: &Resource,
    current: &Value,
    patched: &Value,
) -> Result<(), Status> {
    let name = metadata::name(current);
    let version = metadata::resource_version(patched);
    if !version.is_empty() && version != metadata::resource_version(current) {
        return Err(Status::modified(resource, name));
    }
    let uid = metadata::uid(patched);
    if !uid.is_empty() && uid != metadata::uid(current) {
        let cause = Cause::invalid("metadata.uid", &uid.into(), "field is immutable");
        return Err(Status::invalid(resource, name, vec![cause]));
    }
    Ok(())
}

/// Copies the fields that this write must not change from the current object.
fn keep_what_is_not_written(
    resource: &'static Resource,
    part: Part,
    current: &Value,
    wanted: &mut Value,
) {
    metadata::set_kind(wanted, resource.storage());
    let kept = ["name", "namespace", "generateName", "resourceVersion"];
    for field in SYSTEM_METADATA.iter().chain(&kept) {
        copy(&current["metadata"], metadata_mut(wanted), field);
    }
    match part {
        Part::Main if resource.has_status() => copy(current, fields_mut(wanted), "status"),
        Part::Main => {}
        Part::Status => keep_but_status(resource, current, wanted),
        Part::Resources => *wanted = with_resources_of(current, wanted),
    }
}

/// Returns the current pod with the resources of the containers of `wanted`.
fn with_resources_of(current: &Value, wanted: &Value) -> Value {
    let mut pod = current.clone();
    for (list, path) in
        [("containers", "/spec/containers"), ("initContainers", "/spec/initContainers")]
    {
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mut named = entries(wanted, path);
            if let Some(wanted) = named.find(|own| own.get("name") == container.get("name")) {
                ["resources", "resizePolicy"]
                    .iter()
                    .for_each(|field| copy(wanted, fields_mut(container), field));
            }
        }
    }
    pod
}

/// Copies all but the status from the current object. The status subresource of pods, nodes and
/// namespaces also writes labels, annotations and finalizers.
fn keep_but_status(resource: &'static Resource, current: &Value, wanted: &mut Value) {
    let written: &[&str] = match [PODS, NODES, NAMESPACES].contains(&resource) {
        true => &["labels", "annotations", "finalizers"],
        false => &[],
    };
    keep_but(written, &current["metadata"], metadata_mut(wanted));
    keep_but(&["metadata", "status"], current, fields_mut(wanted));
}

/// Copies all fields but some.
fn keep_but(written: &[&str], from: &Value, to: &mut Map<String, Value>) {
    let is_kept = |field: &str| !written.contains(&field);
    if to.keys().any(|field| is_kept(field) && from.get(field).is_none()) {
        to.retain(|field, _| !is_kept(field) || from.get(field).is_some());
    }
    let fields = from.as_object().into_iter().flatten();
    fields.filter(|(field, _)| is_kept(field)).for_each(|(field, _)| copy(from, to, field));
}

/// Copies `field`, or removes it if it is absent in `from`.
fn copy(from: &Value, to: &mut Map<String, Value>, field: &str) {
    match from.get(field) {
        Some(value) if to.get(field) == Some(value) => {}
        Some(value) => drop(to.insert(field.to_owned(), value.clone())),
        None => drop(to.remove(field)),
    }
}

/// Returns whether the generation changes. Binding a pod does not count. For custom resources
/// everything counts but the metadata and a status with a subresource.
fn spec_differs(resource: &'static Resource, old: &Value, new: &Value) -> bool {
    if resource.custom.is_some() {
        let counts = |(field, _): &(&String, &Value)| match field.as_str() {
            "metadata" => false,
            "status" => !resource.has_status(),
            _ => true,
        };
        let fields = |object| Value::as_object(object).into_iter().flatten().filter(counts);
        return !fields(old).eq(fields(new));
    }
    let counts = |(field, _): &(&String, &Value)| resource != PODS || *field != "nodeName";
    match (old.get("spec"), new.get("spec")) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            !old.iter().filter(counts).eq(new.iter().filter(counts))
        }
        (old, new) => old != new,
    }
}

/// Returns whether the object is terminating and has neither finalizers nor a grace period.
fn is_finished(object: &Value) -> bool {
    let grace = number(object, "/metadata/deletionGracePeriodSeconds");
    is_terminating(object) && !metadata::has_finalizers(object) && grace.unwrap_or(0) == 0
}
