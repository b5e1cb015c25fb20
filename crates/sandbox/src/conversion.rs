//! Conversion of objects between the resource that a request names and the one that stores them.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::events;
use crate::metadata;
use crate::resources::{EVENTS_V1, Resource};

/// The disruption modes of PodGroups: in v1alpha2, and the field of the union of v1beta1.
const DISRUPTION_MODES: [(&str, &str); 2] = [("Pod", "single"), ("PodGroup", "all")];

/// Converts an object to its stored form.
pub(crate) fn stored(resource: &'static Resource, mut object: Value) -> Value {
    if resource == EVENTS_V1 {
        return events::to_core(object);
    }
    if resource.is_converted() {
        if let Some(mode) = object.pointer_mut("/spec/disruptionMode") {
            let known = DISRUPTION_MODES.iter().find(|(name, _)| *mode == *name);
            if let Some((_, field)) = known {
                *mode = json!({ *field: {} });
            }
        }
        metadata::set_kind(&mut object, resource.storage());
    }
    object
}

/// Converts an object to the form of the requested resource.
pub(crate) fn served<'a>(resource: &'static Resource, object: &'a Value) -> Cow<'a, Value> {
    if resource == EVENTS_V1 {
        return Cow::Owned(events::from_core(object));
    }
    if resource.custom.is_none() && !resource.is_converted() {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    if resource.is_converted()
        && let Some(mode) = object.pointer_mut("/spec/disruptionMode")
    {
        let known = DISRUPTION_MODES.iter().find(|(_, field)| mode.get(field).is_some());
        if let Some((name, _)) = known {
            *mode = (*name).into();
        }
    }
    metadata::set_kind(&mut object, resource);
    Cow::Owned(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::{PODGROUPS, PODGROUPS_V1ALPHA2, PODS};

    #[test]
    fn pod_groups_keep_their_fields_through_both_versions() {
        for (name, field) in DISRUPTION_MODES {
            let group = |version: &str, mode: Value| {
                json!({
                    "kind": "PodGroup", "apiVersion": format!("scheduling.k8s.io/{version}"),
                    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": mode},
                })
            };
            let (alpha, beta) =
                (group("v1alpha2", name.into()), group("v1beta1", json!({field: {}})));
            assert_eq!(stored(PODGROUPS_V1ALPHA2, alpha.clone()), beta);
            assert_eq!(stored(PODGROUPS, beta.clone()), beta);
            assert_eq!(*served(PODGROUPS_V1ALPHA2, &beta), alpha);
            assert_eq!(*served(PODGROUPS, &beta), beta);
        }
    }

    #[test]
    fn object_of_the_stored_version_is_not_copied() {
        assert!(matches!(served(PODS, &Value::Null), Cow::Borrowed(_)));
        assert!(matches!(served(PODGROUPS, &Value::Null), Cow::Borrowed(_)));
    }
}
