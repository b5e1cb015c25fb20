//! The columns of claims for devices, their templates, slices and classes.

use serde_json::Value;

use super::columns::{AGE, Column, NAME};
use crate::object::{entries, is_terminating, text};

/// The columns of ResourceClaims.
pub(super) const CLAIM: &[Column] = &[
    NAME,
    Column::text("State", "What is known of its allocation.", |claim, _| state(claim).into()),
    AGE,
];

/// The columns of ResourceClaimTemplates.
pub(super) const CLAIM_TEMPLATE: &[Column] = &[NAME, AGE];

/// The columns of DeviceClasses.
pub(super) const CLASS: &[Column] = &[NAME, AGE];

/// The columns of ResourceSlices.
pub(super) const SLICE: &[Column] = &[
    NAME,
    Column::text("Node", "The node with the devices, if there is only one.", |slice, _| {
        text(slice, "/spec/nodeName").into()
    }),
    Column::text("Driver", "The driver of the devices.", |slice, _| {
        text(slice, "/spec/driver").into()
    }),
    Column::text("Pool", "The pool that the slice belongs to.", |slice, _| {
        text(slice, "/spec/pool/name").into()
    }),
    AGE,
];

fn state(claim: &Value) -> String {
    let mut states = Vec::new();
    if is_terminating(claim) {
        states.push("deleted");
    }
    if claim["status"]["allocation"].is_object() {
        states.push("allocated");
        if entries(claim, "/status/reservedFor").next().is_some() {
            states.push("reserved");
        }
    } else if states.is_empty() {
        states.push("pending");
    }
    states.join(",")
}
