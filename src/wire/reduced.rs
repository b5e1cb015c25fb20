//! Reduces objects other than nodes and pods to the fields that the scheduler reads.

use framework::EventResource;
use serde_json::Value;

const LABELS: &[[&str; 2]] = &[["metadata", "name"], ["metadata", "labels"]];
const SELECTOR: &[[&str; 2]] =
    &[["metadata", "name"], ["metadata", "namespace"], ["spec", "selector"]];
const BUDGET: &[[&str; 2]] = &[
    ["metadata", "name"],
    ["metadata", "namespace"],
    ["spec", "selector"],
    ["spec", "minAvailable"],
    ["spec", "maxUnavailable"],
    ["status", "currentHealthy"],
    ["status", "disruptionsAllowed"],
    ["status", "disruptedPods"],
];

/// Returns the fields of a kind with many objects whose status changes often, by section and name:
/// the objects stay small, and a change of any other field does not count. All fields are kept if
/// none is returned.
const fn fields(kind: &EventResource) -> &'static [[&'static str; 2]] {
    use EventResource as R;
    match kind {
        R::Namespace => LABELS,
        R::Service | R::ReplicationController | R::ReplicaSet | R::StatefulSet => SELECTOR,
        R::PodDisruptionBudget => BUDGET,
        _ => &[],
    }
}

/// Returns the fields that are kept of an object of this kind.
pub(super) fn reduced(kind: &EventResource, mut object: Value) -> Value {
    let fields = fields(kind);
    if fields.is_empty() {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            // `managedFields` is not needed and often the larger part of an object.
            metadata.remove("managedFields");
        }
        return object;
    }
    let mut kept = Value::default();
    for [section, field] in fields {
        let value = object.get_mut(section).and_then(|fields| fields.get_mut(field));
        if let Some(value) = value {
            kept[section][field] = value.take();
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use framework::{DecodeError, Object, ObjectKey};
    use serde_json::json;

    use super::*;

    fn check(kind: &EventResource, object: &Value) -> Result<(), DecodeError> {
        Object::check(&ObjectKey::cluster_scoped(kind.clone(), "x".into()), object)
    }

    #[test]
    fn only_labels_and_selectors_are_kept() {
        let object = json!({
            "apiVersion": "apps/v1",
            "metadata": {
                "name": "web", "namespace": "shop", "labels": {"tier": "front"},
                "resourceVersion": "7", "managedFields": [{"manager": "kubectl"}],
            },
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"readyReplicas": 2},
        });
        let (name, namespace) = (json!("web"), json!("shop"));
        let rows = [
            (
                EventResource::ReplicaSet,
                json!({
                    "metadata": {"name": name, "namespace": namespace},
                    "spec": {"selector": {"matchLabels": {"app": "web"}}},
                }),
            ),
            (
                EventResource::Namespace,
                json!({"metadata": {"name": name, "labels": {"tier": "front"}}}),
            ),
        ];
        for (kind, expected) in rows {
            assert_eq!(reduced(&kind, object.clone()), expected, "{kind:?}");
        }
    }

    #[test]
    fn custom_objects_are_kept_without_managed_fields() {
        let kind = EventResource::Custom("quotas.v1.example.com".into());
        let object = json!({"metadata": {"name": "q", "managedFields": []}, "limit": 5});
        let expected = json!({"metadata": {"name": "q"}, "limit": 5});
        assert_eq!(reduced(&kind, object), expected);
    }

    #[test]
    fn invalid_field_is_named() {
        let near = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
        let rows = [
            (
                EventResource::Namespace,
                json!({"metadata": {"labels": {"a": 1}}}),
                "metadata.labels",
            ),
            (EventResource::Service, json!({"spec": {"selector": "a=b"}}), "spec.selector"),
            (
                EventResource::ReplicationController,
                json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}),
                "spec.selector",
            ),
            (EventResource::StatefulSet, json!({"spec": {"selector": near}}), "\"Near\""),
            (EventResource::ReplicaSet, json!({"spec": {"selector": "a=b"}}), "spec.selector"),
        ];
        for (kind, object, expected) in rows {
            let error = check(&kind, &reduced(&kind, object)).unwrap_err().to_string();
            assert!(error.contains(expected), "{kind:?}: {error}");
        }
    }

    #[test]
    fn objects_without_a_selector_are_accepted() {
        for object in [json!({}), json!(7), json!({"spec": 7, "metadata": []})] {
            for kind in
                [EventResource::Namespace, EventResource::Service, EventResource::ReplicaSet]
            {
                let kept = reduced(&kind, object.clone());
                assert_eq!(check(&kind, &kept), Ok(()), "{kind:?}");
                assert_eq!(kept, Value::Null, "{kind:?}");
            }
        }
    }
}
