//! The rules of PersistentVolumes, PersistentVolumeClaims and StorageClasses.

use serde_json::{Map, Value};

use super::field::{Faults, Field};
use super::scheduling;

const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// The fields of the spec of a volume beside its source.
const BESIDE_SOURCE: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// Checks PersistentVolumeClaims.
pub(super) fn claim(claim: &Field<'_>, faults: &mut Faults) {
    let spec = claim.child("spec");
    access_modes(&spec, "at least 1 access mode is required", faults);
    scheduling::label_selector(&spec.child("selector"), faults);
    let storage = spec.at(&["resources", "requests"]);
    if storage.value()["storage"].is_null() {
        faults.required_at("spec.resources[storage]");
    }
    faults.one_of(&spec.child("volumeMode"), &["Block", "Filesystem"]);
}

/// Checks a change of a claim. Its spec is immutable but for the volume it is bound to and a class
/// it did not name, which may be set once, and for size and attributes class of a bound claim.
pub(super) fn claim_change(old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    let is_bound = new.at(&["status", "phase"]).text() == "Bound";
    let (old, new) = (old.child("spec"), new.child("spec"));
    let is_free = |name: &str| match name {
        "resources" | "volumeAttributesClassName" => is_bound,
        "volumeName" => old.child(name).is_empty(),
        "storageClassName" => !old.child(name).is_set(),
        _ => false,
    };
    if fields(&old, |name| !is_free(name)) != fields(&new, |name| !is_free(name)) {
        let why = "spec is immutable after creation except resources.requests and \
                   volumeAttributesClassName for bound claims";
        faults.forbidden(&new, why);
    }
}

/// Checks PersistentVolumes.
pub(super) fn volume(volume: &Field<'_>, faults: &mut Faults) {
    let spec = volume.child("spec");
    access_modes(&spec, "", faults);
    faults.require(&spec.child("capacity"));
    let required = spec.at(&["nodeAffinity", "required"]);
    if required.is_set() {
        scheduling::node_selector(&required, faults);
    } else if spec.child("local").is_set() {
        faults.required(&spec.child("nodeAffinity"), "Local volume requires node affinity");
    }
    let policies = ["Delete", "Recycle", "Retain"];
    faults.one_of(&spec.child("persistentVolumeReclaimPolicy"), &policies);
    let source = source(&spec);
    if source.is_empty() {
        faults.required(&spec, "must specify a volume type");
    }
    for name in source.keys().skip(1) {
        faults.forbidden(&spec.child(name), "may not specify more than 1 volume type");
    }
}

/// Checks a change of a volume: source, mode and node affinity are immutable once set.
pub(super) fn volume_change(old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    let (old, new) = (old.child("spec"), new.child("spec"));
    if source(&old) != source(&new) {
        let why = "spec.persistentvolumesource is immutable after creation";
        faults.forbidden(&new.child("persistentvolumesource"), why);
    }
    // The API server names these two without a path.
    let (old, new) = (Field::root(old.value()), Field::root(new.value()));
    faults.immutable(&old.child("volumeMode"), &new.child("volumeMode"));
    if old.child("nodeAffinity").is_set() {
        faults.immutable(&old.child("nodeAffinity"), &new.child("nodeAffinity"));
    }
}

fn source(spec: &Field<'_>) -> Map<String, Value> {
    fields(spec, |name| !BESIDE_SOURCE.contains(&name))
}

fn fields(spec: &Field<'_>, is_wanted: impl Fn(&str) -> bool) -> Map<String, Value> {
    let fields = spec.value().as_object().into_iter().flatten();
    let wanted = fields.filter(|(name, value)| is_wanted(name) && !value.is_null());
    wanted.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Checks access modes. `missing` is the text for a spec without any.
fn access_modes(spec: &Field<'_>, missing: &str, faults: &mut Faults) {
    let modes = spec.child("accessModes");
    if modes.is_empty() {
        faults.required(&modes, missing);
    }
    for mode in modes.items().filter(|mode| !ACCESS_MODES.contains(&mode.text())) {
        faults.not_supported_text(&modes.path(), mode.text(), &ACCESS_MODES);
    }
    let is_for_one_pod = |mode: Field<'_>| mode.text() == "ReadWriteOncePod";
    if modes.items().any(is_for_one_pod) && !modes.items().all(is_for_one_pod) {
        faults.forbidden(&modes, "may not use ReadWriteOncePod with other access modes");
    }
}

/// Checks StorageClasses.
pub(super) fn class(class: &Field<'_>, faults: &mut Faults) {
    faults.require(&class.child("provisioner"));
    faults.one_of(&class.child("reclaimPolicy"), &["Delete", "Retain"]);
    faults.one_of(&class.child("volumeBindingMode"), &["Immediate", "WaitForFirstConsumer"]);
}

/// Checks a change of a class: how it provisions volumes is immutable.
pub(super) fn class_change(old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    for field in ["parameters", "provisioner", "reclaimPolicy"] {
        if old.child(field).value() != new.child(field).value() {
            let why = format!("updates to {field} are forbidden.");
            faults.forbidden(&new.child(field), &why);
        }
    }
    let mode = "volumeBindingMode";
    faults.immutable(&old.child(mode), &new.child(mode));
}
