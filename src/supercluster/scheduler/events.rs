//! Events on original pods: those of their delegates, under the names of their clusters.

use framework::PodKey;
use jiff::Timestamp;
use serde_json::{Value, json};
use supercluster::message::DelegateEvent;

/// Returns the Event that shows the event of a delegate on its original. Its name is the same for every scheduler, so that it is
/// created once.
pub(super) fn shown(
    event: &DelegateEvent,
    cluster: &str,
    (pod, uid): (&PodKey, &str),
    now: Timestamp,
) -> Value {
    let now = now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let kind = if event.warning { "Warning" } else { "Normal" };
    json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": name(event, cluster, uid), "namespace": &*pod.namespace},
        "eventTime": now, "type": kind, "reason": &*event.reason, "action": "Mirror",
        "note": format!("{cluster}: {}", event.message),
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": &*pod.namespace,
            "name": &*pod.name, "uid": uid},
        "reportingController": "loadmaster.io/supercluster",
        "reportingInstance": format!("{cluster}/{}", event.component)})
}

/// Returns the name of the Event: of this event of the pod with this UID.
pub(super) fn name(event: &DelegateEvent, cluster: &str, uid: &str) -> String {
    let text = format!("{uid}/{cluster}/{}", event.uid);
    // FNV-1a, with both halves from different starts.
    let hash = |start: u64| {
        text.bytes()
            .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    };
    format!("delegate.{:016x}{:016x}", hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15))
}

/// Returns the patch that shows how often the event has occurred.
pub(super) fn repeated(event: &DelegateEvent, now: Timestamp) -> Value {
    let now = now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    json!({"series": {"count": event.count, "lastObservedTime": now}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_names_the_cluster_and_has_one_name() {
        let event = DelegateEvent {
            uid: "e".into(),
            warning: true,
            reason: "BackOff".into(),
            message: "image".into(),
            component: "kubelet".into(),
            count: 1,
        };
        let key = PodKey::new("ns", "p");
        let shown = shown(&event, "eu", (&key, "u"), Timestamp::UNIX_EPOCH);
        assert_eq!((&shown["note"], &shown["type"]), (&json!("eu: image"), &json!("Warning")));
        assert_eq!(shown["regarding"]["uid"], "u");
        let repeated = DelegateEvent { count: 2, ..event.clone() };
        assert_eq!(shown["metadata"]["name"], name(&repeated, "eu", "u"));
        assert_ne!(name(&event, "us", "u"), name(&event, "eu", "u"));
    }
}
