//! ResourceSlices.

use super::super::field::{Faults, Field};
use super::super::{names, scheduling};
use super::taint::taint;
use super::{capacity, driver_name, pool_name, qualified_identifier};

/// Maximum number of devices of a slice.
const DEVICES_MAX: usize = 128;
/// Maximum number of devices of a slice with taints or counters.
const ADVANCED_DEVICES_MAX: usize = 64;
/// Maximum number of counter sets of a slice.
const COUNTER_SETS_MAX: usize = 8;
/// Maximum number of attributes and capacities of a device.
const ATTRIBUTES_MAX: usize = 32;
/// Maximum number of taints of a device.
const TAINTS_MAX: usize = 16;
/// Maximum number of counter sets that a device consumes from.
const CONSUMPTIONS_MAX: usize = 2;
/// Maximum length of an attribute.
const ATTRIBUTE_MAX: usize = 64;
/// Maximum number of counters of a counter set, and of counters of a set that a device consumes.
const COUNTERS_MAX: usize = 32;
/// Maximum number of binding conditions, and of binding failure conditions.
const CONDITIONS_MAX: usize = 4;

/// Checks ResourceSlices.
pub(crate) fn slice(slice: &Field<'_>, faults: &mut Faults) {
    let spec = slice.child("spec");
    driver_name(&spec.child("driver"), faults);
    pool(&spec.child("pool"), faults);
    place(&spec, faults);
    let (devices, counters) = (spec.child("devices"), spec.child("sharedCounters"));
    if devices.is_set() && counters.is_set() {
        let why = "only one of `sharedCounters` or `devices` is allowed";
        faults.invalid_text(&spec.path(), "", why);
    }
    let is_advanced = |device: Field<'_>| {
        !device.child("taints").is_empty() || !device.child("consumesCounters").is_empty()
    };
    let most = if devices.items().any(is_advanced) { ADVANCED_DEVICES_MAX } else { DEVICES_MAX };
    if faults.at_most(&devices, most) {
        let each_has_its_nodes = *spec.child("perDeviceNodeSelection").value() == true;
        devices.items().for_each(|item| device(&item, each_has_its_nodes, faults));
        faults.distinct_by(&devices, "name");
    }
    if faults.at_most(&counters, COUNTER_SETS_MAX) {
        counters.items().for_each(|set| named_counters(&set, "name", faults));
        faults.distinct_by(&counters, "name");
    }
}

/// Checks a change of a slice: its pool, driver and node are immutable.
pub(crate) fn change(old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    for path in [&["spec", "pool", "name"][..], &["spec", "driver"], &["spec", "nodeName"]] {
        faults.immutable(&old.at(path), &new.at(path));
    }
}

fn pool(pool: &Field<'_>, faults: &mut Faults) {
    pool_name(&pool.child("name"), faults);
    let (count, generation) = (pool.child("resourceSliceCount"), pool.child("generation"));
    if count.number().unwrap_or_default() <= 0 {
        faults.invalid(&count, "must be greater than zero");
    }
    if generation.number().is_some_and(|number| number < 0) {
        faults.invalid(&generation, "must be greater than or equal to zero");
    }
}

/// Checks that a slice says in one way where its devices are.
fn place(spec: &Field<'_>, faults: &mut Faults) {
    let one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is \
               required";
    let names = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];
    match places(spec, &names, faults).as_slice() {
        [] => faults.required(spec, one),
        [_] => {}
        several => {
            let several = format!("{{{}}}", several.join(", "));
            let why = format!("{one}, but multiple fields are set");
            faults.invalid_text(&spec.path(), &several, &why);
        }
    }
    let terms = spec.at(&["nodeSelector", "nodeSelectorTerms"]);
    if spec.child("nodeSelector").is_set() && terms.items().count() != 1 {
        faults.invalid(&terms, "must have exactly one node selector term");
    }
}

/// Returns which of these fields say where devices are, in backquotes.
fn places(of: &Field<'_>, names: &[&str], faults: &mut Faults) -> Vec<String> {
    let mut set = Vec::new();
    for name in names {
        let field = of.child(name);
        match *name {
            _ if !field.is_set() => continue,
            "nodeName" if field.is_empty() => {
                faults.invalid(&field, "must be either unset or set to a non-empty string");
                continue;
            }
            "nodeName" => names::subdomain(&field, faults),
            "nodeSelector" => scheduling::node_selector(&field, faults),
            _ if *field.value() != true => {
                faults.invalid(&field, "must be either unset or set to true");
                continue;
            }
            _ => {}
        }
        set.push(format!("`{name}`"));
    }
    set
}

fn device(device: &Field<'_>, has_its_nodes: bool, faults: &mut Faults) {
    names::dns_label(&device.child("name"), faults);
    let (attributes, capacity) = (device.child("attributes"), device.child("capacity"));
    let count = attributes.entries().count() + capacity.entries().count();
    if count > ATTRIBUTES_MAX {
        let why = format!(
            "the total number of attributes and capacities must not exceed {ATTRIBUTES_MAX}"
        );
        faults.invalid_printed(device, &count.to_string(), &why);
    }
    for (name, item) in attributes.entries() {
        qualified_identifier(&item, name, faults);
        attribute(&item, faults);
    }
    let is_shared = *device.child("allowMultipleAllocations").value() == true;
    for (name, item) in capacity.entries() {
        qualified_identifier(&item, name, faults);
        let policy = item.child("requestPolicy");
        if policy.is_set() && is_shared {
            capacity::request_policy(&item, faults);
        } else if policy.is_set() {
            faults.forbidden(&policy, "allowMultipleAllocations must be true");
        }
    }
    let taints = device.child("taints");
    if faults.at_most(&taints, TAINTS_MAX) {
        taints.items().for_each(|item| taint(&item, faults));
    }
    let consumptions = device.child("consumesCounters");
    if faults.at_most(&consumptions, CONSUMPTIONS_MAX) {
        consumptions.items().for_each(|item| named_counters(&item, "counterSet", faults));
        faults.distinct_by(&consumptions, "counterSet");
    }
    nodes(device, has_its_nodes, faults);
    binding_conditions(device, faults);
}

/// Checks the conditions that a driver reports before a pod is bound: both kinds or none, each
/// once.
fn binding_conditions(device: &Field<'_>, faults: &mut Faults) {
    let lists = ["bindingConditions", "bindingFailureConditions"].map(|name| device.child(name));
    for list in &lists {
        if faults.at_most(list, CONDITIONS_MAX) {
            list.items().for_each(|kind| names::qualified_name(&kind, faults));
        }
    }
    let [ready, failed] = &lists;
    faults.distinct(ready.items());
    faults.distinct(failed.items());
    for kind in failed.items().filter(|kind| ready.items().any(|own| own.value() == kind.value())) {
        faults.invalid(&kind, "bindingFailureConditions must not overlap with bindingConditions");
    }
    for (list, other) in [(ready, failed), (failed, ready)] {
        if list.is_empty() && !other.is_empty() {
            let [own, needed] = [list, other].map(Field::path);
            let [own, needed] =
                [&own, &needed].map(|path| path.rsplit('.').next().unwrap_or_default());
            faults.invalid(list, &format!("{own} are required to use {needed}"));
        }
    }
}

fn nodes(device: &Field<'_>, has_its_nodes: bool, faults: &mut Faults) {
    let names = ["nodeName", "nodeSelector", "allNodes"];
    if !has_its_nodes {
        if names.iter().any(|name| device.child(name).is_set()) {
            let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if \
                       `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            faults.invalid(device, why);
        }
        return;
    }
    let one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
               `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match places(device, &names, faults).as_slice() {
        [] => faults.required(device, one),
        [_] => {}
        several => {
            faults.invalid_text(&device.path(), &format!("{{{}}}", several.join(", ")), one);
        }
    }
}

fn attribute(attribute: &Field<'_>, faults: &mut Faults) {
    let version = attribute.child("version");
    if version.is_set() && !is_version(version.text()) {
        faults.invalid(&version, "must be a string compatible with semver.org spec 2.0.0");
    }
    for name in ["string", "version"] {
        let text = attribute.child(name);
        if text.text().len() > ATTRIBUTE_MAX {
            faults.too_long(&text, ATTRIBUTE_MAX);
        }
    }
    match attribute.entries().count() {
        1 => {}
        0 => faults.invalid_text(&attribute.path(), "", "exactly one value must be specified"),
        _ => faults.invalid(attribute, "exactly one value must be specified"),
    }
}

/// Whether a text is a version as semver.org defines it.
fn is_version(text: &str) -> bool {
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, own)| (rest, Some(own)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, own)| (core, Some(own)));
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let has_no_zero = |part: &str| !is_number(part) || part == "0" || !part.starts_with('0');
    core.split('.').count() == 3
        && core.split('.').all(|part| is_number(part) && has_no_zero(part))
        && pre.is_none_or(|pre| pre.split('.').all(|part| is_part(part) && has_no_zero(part)))
        && build.is_none_or(|build| build.split('.').all(is_part))
}

/// Checks a counter set, or the counters that a device consumes from one.
fn named_counters(set: &Field<'_>, name: &str, faults: &mut Faults) {
    let name = set.child(name);
    if faults.require(&name) {
        names::dns_label(&name, faults);
    }
    let counters = set.child("counters");
    if !faults.require(&counters) {
        return;
    }
    let count = counters.entries().count();
    if count > COUNTERS_MAX {
        faults.too_many(&counters, count, COUNTERS_MAX);
        return;
    }
    for (name, counter) in counters.entries() {
        names::dns_label_text(&counter, name, faults);
    }
}
