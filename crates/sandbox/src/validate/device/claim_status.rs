//! The status of claims.

use serde_json::Value;

use super::super::field::{Faults, Field};
use super::super::{names, scheduling};
use super::claim::request_reference;
use super::{driver_name, immutable, pool_name};

/// Maximum number of users of a claim.
const RESERVATIONS_MAX: usize = 256;
/// Maximum number of devices of a claim.
const RESULTS_MAX: usize = 32;

/// Checks a change of the status: an allocation is immutable while it exists, reservations need
/// one, and a claim that is being deleted gets no new ones.
pub(super) fn change(old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    let [before, after] = [old, new].map(|claim| claim.child("status"));
    let reserved = after.child("reservedFor");
    if faults.at_most(&reserved, RESERVATIONS_MAX) {
        reserved.items().for_each(|user| self::user(&user, faults));
        faults.distinct_by(&reserved, "uid");
    }
    devices(&after, faults);
    let allocation = after.child("allocation");
    if !reserved.is_empty() && !allocation.is_set() {
        faults.forbidden(&reserved, "may not be specified when `allocated` is not set");
    } else if new.at(&["metadata", "deletionTimestamp"]).is_set() {
        let known = before.child("reservedFor");
        let is_new = |user: &Field<'_>| known.items().all(|known| known.value() != user.value());
        if reserved.items().any(|user| is_new(&user)) {
            let why = "new entries may not be added while `deallocationRequested` or \
                       `deletionTimestamp` are set";
            faults.forbidden(&reserved, why);
        }
    }
    if before.child("allocation").is_set() && allocation.is_set() {
        immutable("AllocationResult", &before.child("allocation"), &allocation, faults);
    } else if allocation.is_set() {
        self::allocation(&allocation, &new.at(&["spec", "devices", "requests"]), faults);
    }
}

fn user(user: &Field<'_>, faults: &mut Faults) {
    for field in ["resource", "name", "uid"] {
        faults.require(&user.child(field));
    }
}

fn allocation(allocation: &Field<'_>, requests: &Field<'_>, faults: &mut Faults) {
    let results = allocation.at(&["devices", "results"]);
    if faults.at_most(&results, RESULTS_MAX) {
        for result in results.items() {
            request_reference(&result.child("request"), requests, faults);
            driver_name(&result.child("driver"), faults);
            pool_name(&result.child("pool"), faults);
            names::dns_label(&result.child("device"), faults);
        }
    }
    let selector = allocation.child("nodeSelector");
    if selector.is_set() {
        scheduling::node_selector(&selector, faults);
    }
}

/// Checks that the devices with a status are allocated.
fn devices(status: &Field<'_>, faults: &mut Faults) {
    let results = status.at(&["allocation", "devices", "results"]);
    for device in status.child("devices").items() {
        if !results.items().any(|result| identity(result.value()) == identity(device.value())) {
            faults.invalid(&device, "must be an allocated device in the claim");
        }
    }
}

/// Returns the fields that identify an allocated device.
fn identity(device: &Value) -> [&Value; 4] {
    ["driver", "pool", "device", "shareID"].map(|field| &device[field])
}
