//! Events of controllers.

use framework::Time;
use serde_json::{Value, json};

use crate::metadata::{name, namespace, uid};
use crate::object::timestamp;
use crate::resources::EVENTS;
use crate::store::Store;

/// Type and reason of an event.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventKind<'a> {
    /// `Normal` or `Warning`.
    pub(super) event_type: &'a str,
    pub(super) reason: &'a str,
}

impl<'a> EventKind<'a> {
    pub(super) const fn normal(reason: &'a str) -> Self {
        Self { event_type: "Normal", reason }
    }

    pub(super) const fn warning(reason: &'a str) -> Self {
        Self { event_type: "Warning", reason }
    }
}

/// Records an event about an object.
pub(super) fn record(
    store: &mut Store,
    source: &str,
    about: &Value,
    kind: EventKind<'_>,
    message: &str,
    now: Time,
) {
    let event = json!({
        "metadata": {"generateName": format!("{}.", name(about)), "namespace": namespace(about)},
        "involvedObject": {
            "apiVersion": about["apiVersion"], "kind": about["kind"], "name": name(about),
            "namespace": namespace(about), "uid": uid(about),
            "resourceVersion": about["metadata"]["resourceVersion"],
        },
        "type": kind.event_type, "reason": kind.reason, "message": message,
        "source": {"component": source}, "count": 1,
        "firstTimestamp": timestamp(now), "lastTimestamp": timestamp(now),
    });
    // A lost event changes nothing.
    store.create(EVENTS, event, now).ok();
}
