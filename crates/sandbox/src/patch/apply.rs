//! Server-side apply in a simple form.
//!
//! The fields that a manager applied are kept in `metadata.managedFields` as `fieldsV1`. A field
//! that the manager leaves out the next time is removed, unless another manager owns it too.
//! Changing a field of another manager is a conflict unless forced. Only apply sets owners; other
//! writes do not.

use serde_json::{Value, json};

use super::fields::{self, FieldSet, Path};
use super::schema::{self, Keys, List};
use crate::status::{Cause, Details, Status};

/// Applies `applied` on behalf of `manager`; with `force` the manager takes over the fields of
/// others.
///
/// # Errors
/// 409 if a field of another manager would change and `force` is not set.
pub fn apply(
    current: Option<&Value>,
    applied: &Value,
    manager: &str,
    force: bool,
) -> Result<Value, Status> {
    let mut applied = applied.clone();
    remove_managed_fields(&mut applied);
    let Some(current) = current else {
        let owned = FieldSet::of(&applied);
        set_managers(&mut applied, vec![Manager { name: manager.to_owned(), owned }]);
        return Ok(applied);
    };
    let owned = FieldSet::of(&applied);
    let (mine, mut others): (Vec<_>, Vec<_>) =
        managers(current).into_iter().partition(|other| other.name == manager);
    let conflicts = conflicts(&owned, &others, current, &applied);
    if !conflicts.is_empty() && !force {
        return Err(refusal(&conflicts));
    }
    for other in &mut others {
        for conflict in conflicts.iter().filter(|conflict| conflict.manager == other.name) {
            other.owned.remove(&conflict.path);
        }
    }
    let mut merged = current.clone();
    remove_managed_fields(&mut merged);
    for path in mine.iter().flat_map(|mine| mine.owned.leaves()) {
        let kept = owned.contains(&path) || others.iter().any(|other| other.owned.contains(&path));
        if !kept {
            fields::remove(&mut merged, &path);
        }
    }
    merge(&mut merged, &applied, "");
    others.push(Manager { name: manager.to_owned(), owned });
    others.retain(|manager| !manager.owned.is_empty());
    set_managers(&mut merged, others);
    Ok(merged)
}

/// A field manager and its fields.
struct Manager {
    name: String,
    owned: FieldSet,
}

/// Returns the managers in `metadata.managedFields` that applied fields.
fn managers(object: &Value) -> Vec<Manager> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let applied = entries.into_iter().flatten().filter(|entry| entry["operation"] == "Apply");
    let manager = |entry: &Value| {
        let name = entry["manager"].as_str()?.to_owned();
        let owned = serde_json::from_value(entry["fieldsV1"].clone()).ok()?;
        Some(Manager { name, owned })
    };
    applied.filter_map(manager).collect()
}

fn set_managers(object: &mut Value, managers: Vec<Manager>) {
    let version = object["apiVersion"].clone();
    let entry = |manager: Manager| {
        json!({
            "manager": manager.name,
            "operation": "Apply",
            "apiVersion": version,
            "fieldsType": "FieldsV1",
            "fieldsV1": manager.owned,
        })
    };
    let entries = managers.into_iter().map(entry).collect();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".to_owned(), entries);
    }
}

fn remove_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// A field of another manager that would change.
struct Conflict {
    manager: String,
    path: Path,
}

fn conflicts(
    owned: &FieldSet,
    others: &[Manager],
    current: &Value,
    applied: &Value,
) -> Vec<Conflict> {
    let mut changed = owned.leaves();
    changed.retain(|path| fields::get(current, path) != fields::get(applied, path));
    let of_manager = |other: &Manager| {
        let taken = changed.iter().filter(|path| other.owned.contains(path));
        let conflict = |path: &Path| Conflict { manager: other.name.clone(), path: path.clone() };
        taken.map(conflict).collect::<Vec<_>>()
    };
    others.iter().flat_map(of_manager).collect()
}

fn refusal(conflicts: &[Conflict]) -> Status {
    let causes: Vec<Cause> = conflicts
        .iter()
        .map(|Conflict { manager, path }| Cause {
            reason: "FieldManagerConflict",
            message: format!("conflict with {manager:?}"),
            field: fields::display(path),
        })
        .collect();
    let list = match causes.as_slice() {
        [Cause { message, field, .. }] => format!("1 conflict: {message}: {field}"),
        causes => {
            let lines =
                causes.iter().map(|Cause { message, field, .. }| format!("- {message}: {field}"));
            format!("{} conflicts:\n{}", causes.len(), lines.collect::<Vec<_>>().join("\n"))
        }
    };
    let details = Details { causes, ..Details::default() };
    Status {
        code: 409,
        reason: "Conflict",
        message: format!("Apply failed with {list}"),
        details: Some(Box::new(details)),
        continue_token: None,
    }
}

/// Merges the applied fields into the current ones.
fn merge(target: &mut Value, applied: &Value, parent: &str) {
    let (Value::Object(target), Value::Object(applied)) = (target, applied) else { return };
    for (field, value) in applied {
        match (target.get_mut(field), value) {
            (Some(current @ Value::Object(_)), Value::Object(_))
                if !schema::is_atomic_object(parent, field) =>
            {
                merge(current, value, field);
            }
            (Some(Value::Array(current)), Value::Array(items)) => {
                merge_list(current, items, parent, field);
            }
            _ => {
                target.insert(field.clone(), value.clone());
            }
        }
    }
}

fn merge_list(current: &mut Vec<Value>, applied: &[Value], parent: &str, field: &str) {
    match schema::list(parent, field) {
        List::Atomic => *current = applied.to_vec(),
        List::Set => {
            for item in applied {
                if !current.contains(item) {
                    current.push(item.clone());
                }
            }
        }
        List::Map(keys) => applied.iter().for_each(|item| merge_item(current, item, keys, field)),
    }
}

fn merge_item(current: &mut Vec<Value>, item: &Value, keys: Keys, field: &str) {
    let key = |item: &Value| item.as_object().map(|item| fields::key_of(item, keys));
    let wanted = key(item);
    match current.iter_mut().find(|other| key(other) == wanted) {
        Some(existing) => merge(existing, item, field),
        None => current.push(item.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(replicas: i64, image: &str) -> Value {
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d", "labels": {"a": "b"}},
            "spec": {
                "replicas": replicas,
                "template": {"spec": {"containers": [{"name": "c", "image": image}]}},
            },
        })
    }

    fn applied(current: Option<&Value>, applied: &Value, manager: &str) -> Value {
        apply(current, applied, manager, false).unwrap()
    }

    fn without_managers(mut object: Value) -> Value {
        remove_managed_fields(&mut object);
        object
    }

    #[test]
    fn applying_to_a_missing_object_creates_it_with_its_fields() {
        let created = applied(None, &deployment(1, "i"), "me");
        assert_eq!(without_managers(created.clone()), deployment(1, "i"));
        assert_eq!(
            created["metadata"]["managedFields"],
            json!([{
                "manager": "me", "operation": "Apply", "apiVersion": "apps/v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:a": {}}},
                    "f:spec": {
                        "f:replicas": {},
                        "f:template": {"f:spec": {"f:containers": {
                            "k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}},
                        }}},
                    },
                },
            }])
        );
    }

    #[test]
    fn items_merge_by_all_their_keys() {
        let port = |protocol: &str, name: &str| {
            json!({
                "containerPort": 53, "protocol": protocol, "name": name,
            })
        };
        let pod = |ports: Value| {
            json!({
                "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "c", "ports": ports}]},
            })
        };
        let current = pod(json!([port("UDP", "u"), port("TCP", "t")]));
        let changed = pod(json!([{"containerPort": 53, "name": "x"}]));
        let merged = without_managers(applied(Some(&current), &changed, "me"));
        assert_eq!(merged, pod(json!([port("UDP", "u"), port("TCP", "x")])));
    }

    #[test]
    fn field_left_out_the_next_time_is_removed() {
        let mut first = deployment(1, "i");
        first["metadata"]["annotations"] = json!({"x": "y"});
        first["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "E"}]);
        let mut live = applied(None, &first, "me");
        live["spec"]["paused"] = json!(true);
        let next = without_managers(applied(Some(&live), &deployment(1, "j"), "me"));
        let mut expected = deployment(1, "j");
        expected["spec"]["paused"] = json!(true);
        assert_eq!(next, expected);
    }

    #[test]
    fn field_of_two_managers_stays() {
        let live = applied(None, &deployment(1, "i"), "me");
        let live = applied(Some(&live), &json!({"spec": {"replicas": 1}}), "other");
        let mut rest = deployment(1, "i");
        rest["spec"].as_object_mut().unwrap().remove("replicas");
        let next = without_managers(applied(Some(&live), &rest, "me"));
        assert_eq!(next, deployment(1, "i"));
    }

    #[test]
    fn changing_a_field_of_another_manager_conflicts_unless_forced() {
        let live = applied(None, &deployment(1, "i"), "me");
        let change = json!({"spec": {"replicas": 2}});
        let refused = apply(Some(&live), &change, "other", false).unwrap_err();
        assert_eq!(refused.code, 409);
        assert_eq!(
            refused.message,
            r#"Apply failed with 1 conflict: conflict with "me": .spec.replicas"#
        );
        let forced = apply(Some(&live), &change, "other", true).unwrap();
        assert_eq!(forced["spec"]["replicas"], 2);
        // The other manager owns the field now, so leaving it out does not remove it.
        let mut rest = deployment(1, "i");
        rest["spec"].as_object_mut().unwrap().remove("replicas");
        assert_eq!(applied(Some(&forced), &rest, "me")["spec"]["replicas"], 2);
    }

    #[test]
    fn finalizers_are_a_set() {
        let object =
            |finalizers: Value| json!({"metadata": {"name": "x", "finalizers": finalizers}});
        let live = applied(Some(&object(json!(["a"]))), &object(json!(["b", "a"])), "me");
        assert_eq!(live["metadata"]["finalizers"], json!(["a", "b"]));
        let live = applied(Some(&live), &object(json!(["a"])), "me");
        assert_eq!(live["metadata"]["finalizers"], json!(["a"]));
    }

    #[test]
    fn applying_twice_changes_nothing() {
        let live = applied(None, &deployment(1, "i"), "me");
        assert_eq!(applied(Some(&live), &deployment(1, "i"), "me"), live);
    }
}
