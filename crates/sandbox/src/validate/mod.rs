//! Validation with the texts of the API server: the rules that a scheduler relies on.

mod decode;
mod device;
mod field;
mod flow_control;
mod kinds;
mod names;
mod object_meta;
mod pod;
mod pod_update;
mod resources;
mod scheduling;
mod storage;

use serde_json::Value;

use crate::custom;
use crate::metadata;
use crate::resources::{EVENTS_V1, PODS, Resource};
use crate::status::Status;
use field::{Faults, Field};

/// Checks a new object, after its defaults and its name are set.
///
/// # Errors
/// 400 if it has not the shape of its kind, 422 with all faults if it violates rules.
pub fn create(resource: &Resource, object: &Value) -> Result<(), Status> {
    decode::check(resource, object)?;
    let (root, mut faults) = (Field::root(object), Faults::default());
    object_meta::create(resource, &root.child("metadata"), &mut faults);
    content(resource, &root, &mut faults);
    verdict(resource, object, faults)
}

/// Checks an object that replaces `old`, after its defaults are set. Writes of controllers and
/// subresources, for example bindings, are not checked.
///
/// # Errors
/// The errors of [`create`], and 422 if it changes an immutable field.
pub fn update(resource: &'static Resource, old: &Value, new: &Value) -> Result<(), Status> {
    let (served, resource) = (resource, resource.storage());
    decode::check(resource, new)?;
    let (before, after) = (Field::root(old), Field::root(new));
    let mut faults = Faults::default();
    object_meta::update(&before.child("metadata"), &after.child("metadata"), &mut faults);
    changes(resource, &before, &after, &mut faults);
    if served == EVENTS_V1 {
        kinds::event_change(&before, &after, &mut faults);
    }
    // A spec that was valid once stays valid.
    let is_checked = match resource.group {
        // The spec of claims and templates is immutable, which is the only fault that they report.
        "resource.k8s.io" if resource.namespaced => false,
        _ => resource.custom.is_some() || old.get("spec") != new.get("spec"),
    };
    if is_checked {
        content(resource, &after, &mut faults);
    }
    verdict(resource, new, faults)
}

/// Checks a pod that replaces `old` and has its spec, like [`update`].
///
/// # Errors
/// The new object is not valid, as for [`update`].
pub fn update_beside_spec(old: &Value, new: &Value) -> Result<(), Status> {
    decode::check_beside_spec(new)?;
    let (before, after) = (Field::root(old), Field::root(new));
    let mut faults = Faults::default();
    object_meta::update(&before.child("metadata"), &after.child("metadata"), &mut faults);
    verdict(PODS, new, faults)
}

/// Checks a pod whose containers get other resources than in `old`.
///
/// # Errors
/// 400 if it has not the shape of its kind, 422 if it violates rules, or changes more than CPU and
/// memory.
pub fn resize(resource: &'static Resource, old: &Value, new: &Value) -> Result<(), Status> {
    decode::check(resource, new)?;
    let (before, after) = (Field::root(old), Field::root(new));
    let mut faults = Faults::default();
    pod_update::resources(&before.child("spec"), &after.child("spec"), &mut faults);
    content(resource, &after, &mut faults);
    verdict(resource, new, faults)
}

fn verdict(resource: &Resource, object: &Value, faults: Faults) -> Result<(), Status> {
    let causes = faults.into_causes();
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(resource, metadata::name(object), causes))
}

/// Checks an object, without a look at other objects.
fn content(resource: &Resource, object: &Field<'_>, faults: &mut Faults) {
    if let Some(definition) = resource.custom {
        faults.extend(definition.validate(object.value()));
        return;
    }
    match (resource.group, resource.plural) {
        ("", "pods") => pod::spec(&object.child("spec"), faults),
        ("", "nodes") => kinds::node(object, faults),
        ("", "events") => kinds::event(object, faults),
        ("", "services") => kinds::service(object, faults),
        ("", "persistentvolumes") => storage::volume(object, faults),
        ("", "persistentvolumeclaims") => storage::claim(object, faults),
        ("apps", "replicasets" | "deployments" | "daemonsets") => {
            kinds::workload(object, faults);
            pod::spec(&object.at(&["spec", "template", "spec"]), faults);
        }
        // The template lacks the volumes of the claims that each pod gets; the pods are checked
        // themselves.
        ("apps", "statefulsets") => kinds::workload(object, faults),
        ("batch", "jobs") => kinds::job(object, faults),
        ("policy", "poddisruptionbudgets") => kinds::disruption_budget(object, faults),
        ("scheduling.k8s.io", "priorityclasses") => kinds::priority_class(object, faults),
        ("storage.k8s.io", "storageclasses") => storage::class(object, faults),
        ("coordination.k8s.io", "leases") => kinds::lease(object, faults),
        ("resource.k8s.io", "resourceclaims") => device::claim(object, faults),
        ("resource.k8s.io", "resourceclaimtemplates") => device::template(object, faults),
        ("resource.k8s.io", "deviceclasses") => device::class(object, faults),
        ("resource.k8s.io", "devicetaintrules") => device::taint_rule(object, faults),
        ("resource.k8s.io", "resourceslices") => device::slice(object, faults),
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            faults.extend(custom::check(object.value()));
        }
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => flow_control::schema(object, faults),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => {
            flow_control::priority_level(object, faults);
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            kinds::role_binding(object, faults);
        }
        _ => {}
    }
}

/// Checks a change of an object.
fn changes(resource: &Resource, old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    let immutable = |path: &[&str], faults: &mut Faults| {
        faults.immutable(&old.at(path), &new.at(path));
    };
    match (resource.group, resource.plural) {
        ("", "pods") => pod_update::spec(&old.child("spec"), &new.child("spec"), faults),
        ("", "persistentvolumes") => storage::volume_change(old, new, faults),
        ("", "persistentvolumeclaims") => storage::claim_change(old, new, faults),
        ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets") => {
            immutable(&["spec", "selector"], faults);
        }
        ("batch", "jobs") => {
            for field in ["selector", "template", "completionMode"] {
                immutable(&["spec", field], faults);
            }
        }
        ("scheduling.k8s.io", "priorityclasses") => {
            if old.child("value").value() != new.child("value").value() {
                faults.forbidden(&new.child("value"), "may not be changed in an update.");
            }
            immutable(&["preemptionPolicy"], faults);
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            faults.extend(custom::check_change(old.value(), new.value()));
        }
        ("storage.k8s.io", "storageclasses") => storage::class_change(old, new, faults),
        ("storage.k8s.io", "csistoragecapacities") => {
            immutable(&["nodeTopology"], faults);
            immutable(&["storageClassName"], faults);
        }
        ("storage.k8s.io", "volumeattachments") => immutable(&["spec"], faults),
        ("resource.k8s.io", "resourceclaims") => device::claim_change(old, new, faults),
        ("resource.k8s.io", "resourceclaimtemplates") => immutable(&["spec"], faults),
        ("resource.k8s.io", "resourceslices") => device::slice_change(old, new, faults),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings")
            if old.child("roleRef").value() != new.child("roleRef").value() =>
        {
            faults.invalid(&new.child("roleRef"), "cannot change roleRef");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
