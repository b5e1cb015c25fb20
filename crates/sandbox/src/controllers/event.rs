//! Events of controllers.

use framework::Time;
use serde_json::{Value, json};

use crate::metadata::{name, namespace, uid};
use crate::object::timestamp;
use crate::resources::EVENTS;
use crate::store::Store;

/// Records an event about an object, with its type and reason.
pub(super) fn record(
    store: &mut Store,
    source: &str,
    about: &Value,
    (event_type, reason): (&str, &str),
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
        "type": event_type, "reason": reason, "message": message,
        "source": {"component": source}, "count": 1,
        "firstTimestamp": timestamp(now), "lastTimestamp": timestamp(now),
    });
    // A lost event changes nothing.
    store.create(EVENTS, event, now).ok();
}
