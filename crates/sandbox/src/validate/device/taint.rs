//! Taints of devices, and the rules that add them.

use super::super::field::{Faults, Field};
use super::super::names;
use super::{driver_name, pool_name};

/// The effects of a taint.
pub(super) const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Checks DeviceTaintRules.
pub(crate) fn taint_rule(rule: &Field<'_>, faults: &mut Faults) {
    let spec = rule.child("spec");
    let selector = spec.child("deviceSelector");
    let [driver, pool, device] = ["driver", "pool", "device"].map(|name| selector.child(name));
    if driver.is_set() {
        driver_name(&driver, faults);
    }
    if pool.is_set() {
        pool_name(&pool, faults);
    }
    if device.is_set() {
        names::dns_label(&device, faults);
    }
    taint(&spec.child("taint"), faults);
}

/// Checks a taint.
pub(super) fn taint(taint: &Field<'_>, faults: &mut Faults) {
    let (key, effect) = (taint.child("key"), taint.child("effect"));
    names::qualified_name(&key, faults);
    names::label_value(&taint.child("value"), faults);
    if faults.require(&effect) {
        faults.one_of(&effect, &EFFECTS);
    }
}
