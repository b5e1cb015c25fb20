//! The status of an original pod, which is the status of its delegate.

use framework::Time;
use serde_json::{Value, json};

use crate::message::Delegate;

/// Fields of a condition that say when it was written.
const TIMES: [&str; 2] = ["lastProbeTime", "lastTransitionTime"];
/// Reason of the condition Ready of a pod whose agent does not answer.
const UNREACHABLE: &str = "ClusterUnreachable";

/// Returns the status of a delegate as its original shows it: without what refers to objects of the
/// member. The condition PodScheduled is shown once it is True: a delegate that is not scheduled is
/// none of an autoscaler's business here.
pub(super) fn of(delegate: &Delegate) -> Value {
    let mut status = delegate.status.clone();
    let Some(fields) = status.as_object_mut() else { return json!({}) };
    for field in ["nominatedNodeName", "resourceClaimStatuses", "observedGeneration"] {
        fields.remove(field);
    }
    if let Some(conditions) = fields.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.retain(|own| own["type"] != "PodScheduled" || own["status"] == "True");
    }
    status
}

/// Says that the pod is not Ready, because nobody knows.
pub(super) fn set_unreachable(status: &mut Value, cluster: &str, wall: Time) {
    let Some(fields) = status.as_object_mut() else { return };
    let conditions = fields.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    conditions.retain(|own| own["type"] != "Ready");
    conditions.push(json!({"type": "Ready", "status": "False", "reason": UNREACHABLE,
        "message": format!("the agent of {cluster} does not answer"),
        "lastTransitionTime": wall.floor_to_second().to_string()}));
}

/// Returns the status of a pod that has no delegate any more.
pub(super) fn pending(wall: Time) -> Value {
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "DelegateGone",
        "message": "the pod has no delegate any more, and is placed anew",
        "lastTransitionTime": wall.floor_to_second().to_string()});
    json!({"phase": "Pending", "conditions": [condition], "startTime": null,
        "containerStatuses": null, "initContainerStatuses": null, "hostIP": null, "hostIPs": null,
        "podIP": null, "podIPs": null})
}

/// Whether a merge patch with `wanted` would leave the status `own` as it is. The times of the
/// conditions that this scheduler writes do not count.
pub(super) fn shows(own: &Value, wanted: &Value) -> bool {
    let Some(fields) = wanted.as_object() else { return true };
    fields.iter().all(|(key, wanted)| match (own.get(key), wanted) {
        (None, wanted) => wanted.is_null(),
        (Some(Value::Array(own)), Value::Array(wanted)) if key == "conditions" => {
            own.len() == wanted.len()
                && own.iter().zip(wanted).all(|(own, wanted)| shows_condition(own, wanted))
        }
        (Some(own @ Value::Object(_)), Value::Object(_)) => shows(own, wanted),
        (Some(own), wanted) => own == wanted,
    })
}

fn shows_condition(own: &Value, wanted: &Value) -> bool {
    let is_own = wanted["type"] == "PodScheduled" || wanted["reason"] == UNREACHABLE;
    if !is_own {
        return own == wanted;
    }
    without_times(own).eq(without_times(wanted))
}

fn without_times(condition: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let fields = condition.as_object().into_iter().flatten();
    fields.filter(|(key, _)| !TIMES.contains(&key.as_str()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::delegate;
    use super::*;

    #[test]
    fn status_keeps_what_is_true_in_both_clusters() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        let status = json!({"phase": "Pending", "nominatedNodeName": "n", "podIP": "10.0.0.1",
            "resourceClaimStatuses": [{"name": "c", "resourceClaimName": "c-x1"}],
            "conditions": [condition("PodScheduled", "False"), condition("Ready", "False")]});
        let expected = json!({"phase": "Pending", "podIP": "10.0.0.1",
            "conditions": [condition("Ready", "False")]});
        assert_eq!(of(&delegate("p", "d", status)), expected);
        let scheduled = json!({"conditions": [condition("PodScheduled", "True")]});
        assert_eq!(of(&delegate("p", "d", scheduled.clone())), scheduled);
        assert_eq!(of(&delegate("p", "d", Value::Null)), json!({}));
    }

    #[test]
    fn pod_of_a_silent_cluster_is_not_ready() {
        let mut status = json!({"phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}]});
        set_unreachable(&mut status, "eu", Time::from_secs(5));
        assert_eq!(status["conditions"].as_array().unwrap().len(), 1);
        assert_eq!(status["conditions"][0]["status"], "False");
        assert_eq!(status["conditions"][0]["message"], "the agent of eu does not answer");
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:05Z");
    }

    #[test]
    fn only_what_differs_has_to_be_written() {
        let scheduled = |time: &str| {
            json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": time})
        };
        let ready =
            |time: &str| json!({"type": "Ready", "status": "True", "lastTransitionTime": time});
        let own = json!({"phase": "Running", "qosClass": "Burstable", "podIP": "10.0.0.1",
            "conditions": [scheduled("2026-01-01T00:00:00Z"), ready("2026-01-01T00:00:09Z")]});
        assert!(shows(&own, &own) && shows(&own, &json!({})));
        assert!(shows(&own, &json!({"phase": "Running", "hostIP": null})));
        assert!(!shows(&own, &json!({"podIP": null})), "it would be removed");
        assert!(!shows(&own, &json!({"phase": "Failed"})));
        assert!(!shows(&Value::Null, &json!({"phase": "Pending"})));
        let conditions = |first: Value, second: Value| json!({"conditions": [first, second]});
        let later = scheduled("2026-01-01T00:00:01Z");
        assert!(shows(&own, &conditions(later.clone(), ready("2026-01-01T00:00:09Z"))));
        assert!(!shows(&own, &conditions(later.clone(), ready("2026-01-01T00:00:10Z"))));
        assert!(!shows(&own, &json!({"conditions": [later]})), "one less");
        let mut unreachable = own.clone();
        set_unreachable(&mut unreachable, "eu", Time::from_secs(5));
        assert!(!shows(&own, &unreachable));
        let mut shown = unreachable.clone();
        shown["conditions"][1]["lastTransitionTime"] = "2026-01-01T00:00:00Z".into();
        assert!(shows(&shown, &unreachable));
        assert!(!shows(&json!({"phase": "Running"}), &pending(Time::ZERO)));
    }
}
