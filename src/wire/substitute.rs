//! Objects that stand in for objects that do not decode and of which no readable version is known,
//! where the absence of the object would be taken for free room.

use framework::{DecodeError, EventResource};
use serde_json::{Map, Value, json};

/// Returns the substitute of an object: a claim that no pod can use and that holds its devices, or
/// a budget that protects all pods of the namespace. `None` for other kinds, for which pods wait as
/// long as the object is absent.
pub(super) fn substitute(
    kind: &EventResource,
    object: &Value,
    error: &DecodeError,
) -> Option<Value> {
    let metadata = &object["metadata"];
    match kind {
        EventResource::ResourceClaim => {
            let identity = ["name", "namespace", "uid", "resourceVersion"].into_iter();
            let identity: Map<String, Value> =
                identity.map(|field| (field.to_owned(), metadata[field].clone())).collect();
            let mut results = Vec::new();
            add_devices(&object["status"], &mut results);
            Some(json!({
                "metadata": identity,
                "status": {"allocation": {"devices": {"results": results}}},
                "undecodable": error.to_string(),
            }))
        }
        EventResource::PodDisruptionBudget => Some(json!({
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "spec": {"selector": {}},
            "status": {"disruptionsAllowed": 0},
        })),
        _ => None,
    }
}

/// Adds the devices that a status names anywhere. A share of a device counts as the whole device.
fn add_devices(status: &Value, results: &mut Vec<Value>) {
    match status {
        Value::Array(values) => values.iter().for_each(|value| add_devices(value, results)),
        Value::Object(fields) => {
            let [driver, pool, device] =
                ["driver", "pool", "device"].map(|field| fields.get(field).and_then(Value::as_str));
            if let (Some(driver), Some(pool), Some(device)) = (driver, pool, device) {
                let is_admin = fields.get("adminAccess") == Some(&Value::Bool(true));
                let result = json!({
                    "driver": driver, "pool": pool, "device": device, "adminAccess": is_admin,
                });
                if !results.contains(&result) {
                    results.push(result);
                }
            }
            fields.values().for_each(|value| add_devices(value, results));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use framework::{Object, ObjectKey};

    use super::*;

    fn check(kind: &EventResource, object: &Value) -> Result<(), DecodeError> {
        Object::check(&ObjectKey::cluster_scoped(kind.clone(), "x".into()), object)
    }

    fn substitute_of(kind: &EventResource, object: &Value) -> Option<Value> {
        substitute(kind, object, &check(kind, object).unwrap_err())
    }

    #[test]
    fn claim_keeps_the_devices_that_its_status_names_in_any_place() {
        let kind = EventResource::ResourceClaim;
        let device = |name: &str| json!({"driver": "d", "pool": "p", "device": name, "since": 1});
        let object = json!({
            "metadata": {"name": "c", "namespace": "a", "uid": "u", "resourceVersion": "7", "labels": 1},
            "status": {
                "allocation": {"devices": "elsewhere"},
                "allocations": [{"results": [device("x"), device("y")]}],
                "devices": [device("x")],
            },
        });
        let found = substitute_of(&kind, &object).unwrap();
        assert_eq!(check(&kind, &found), Ok(()));
        let results = &found["status"]["allocation"]["devices"]["results"];
        let names: Vec<_> = results.as_array().unwrap().iter().map(|own| &own["device"]).collect();
        assert_eq!(names, ["x", "y"]);
        assert_eq!(found["metadata"]["uid"], "u");
        assert!(found["undecodable"].as_str().unwrap().starts_with("metadata.labels: "), "{found}");
    }

    #[test]
    fn budget_protects_its_namespace() {
        let kind = EventResource::PodDisruptionBudget;
        let object = json!({"metadata": {"name": "b", "namespace": "a"}, "spec": "none"});
        let found = substitute_of(&kind, &object).unwrap();
        assert_eq!(check(&kind, &found), Ok(()));
        assert_eq!(found["spec"], json!({"selector": {}}));
    }

    #[test]
    fn objects_for_which_pods_wait_have_none() {
        for kind in [EventResource::PersistentVolume, EventResource::ResourceSlice] {
            assert_eq!(substitute_of(&kind, &json!({"spec": 7})), None);
        }
    }
}
