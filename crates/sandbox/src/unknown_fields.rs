//! Unknown fields of objects, by resource.

use serde_json::Value;
use yaml::known_fields::Path;

use crate::resources::{EVENTS_V1, Resource};

/// Removes unknown fields of the object and returns their paths. Kinds without a table keep all
/// fields.
pub(crate) fn remove_unknown(resource: &Resource, object: &mut Value) -> Vec<String> {
    if let Some(definition) = resource.custom {
        let mut unknown = match object.get_mut("metadata") {
            Some(metadata) => {
                let path = Path::Field(&Path::Root, "metadata");
                yaml::known_fields::remove_unknown_at("ObjectMeta", metadata, &path)
            }
            None => Vec::new(),
        };
        unknown.extend(definition.prune(object));
        return unknown;
    }
    // The table has the kind of the same name in the core group.
    if resource == EVENTS_V1 {
        Vec::new()
    } else {
        yaml::known_fields::remove_unknown(resource.kind, object)
    }
}

/// The same for an object that was made from `stored` by a patch.
pub(crate) fn remove_unknown_of_change(
    resource: &Resource,
    stored: &Value,
    object: &mut Value,
) -> Vec<String> {
    match resource.custom.is_some() || resource == EVENTS_V1 {
        true => remove_unknown(resource, object),
        false => yaml::known_fields::remove_unknown_of_change(resource.kind, stored, object),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resources::{INGRESSES, PODS, RESOURCECLAIMS};

    #[test]
    fn kinds_without_a_table_keep_all_fields() {
        let mut ingress = json!({"spec": {"whatever": 1}});
        assert!(remove_unknown(INGRESSES, &mut ingress).is_empty());
        assert_eq!(ingress["spec"]["whatever"], 1);
    }

    #[test]
    fn claims_for_devices_differ_from_the_claims_that_a_container_names() {
        let mut claim =
            json!({"metadata": {"name": "c"}, "name": "c", "spec": {"devices": {"request": []}}});
        assert_eq!(remove_unknown(RESOURCECLAIMS, &mut claim), ["name", "spec.devices.request"]);
        assert_eq!(claim, json!({"metadata": {"name": "c"}, "spec": {"devices": {}}}));
        let containers = json!([{"resources": {"claims": [{"name": "gpu", "spec": 1}]}}]);
        let mut pod = json!({"spec": {"containers": containers}});
        let unknown = remove_unknown(PODS, &mut pod);
        assert_eq!(unknown, ["spec.containers[0].resources.claims[0].spec"]);
    }
}
