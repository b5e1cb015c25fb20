//! RuntimeClass: overhead, node selector and tolerations of the class of a pod.

use std::collections::BTreeMap;

use framework::Quantity;
use serde_json::Value;

use super::object::{ensure, list, set, text};
use super::{Cause, Classes, Refusal};

/// Sets the overhead, and adds node selector and tolerations of the class.
///
/// # Errors
/// The class does not exist, or the pod contradicts its class.
pub(super) fn admit(pod: &mut Value, classes: &impl Classes) -> Result<(), Refusal> {
    let name = text(pod, "/spec/runtimeClassName").to_owned();
    if name.is_empty() {
        return Ok(());
    }
    let refused = |cause, why: String| Refusal {
        cause,
        value: name.clone(),
        message: format!("pod rejected: {why}"),
    };
    let class = classes.runtime_class(&name).ok_or_else(|| {
        refused(Cause::NoRuntimeClass, format!("RuntimeClass {name:?} not found"))
    })?;
    let contradicts = |why| refused(Cause::RuntimeClass, why);
    set_overhead(pod, class).map_err(contradicts)?;
    add_selector(pod, class).map_err(contradicts)?;
    add_tolerations(pod, class);
    Ok(())
}

fn set_overhead(pod: &mut Value, class: &Value) -> Result<(), String> {
    let Some(overhead) = class.pointer("/overhead/podFixed").filter(|own| own.is_object()) else {
        return Ok(());
    };
    let given = &pod["spec"]["overhead"];
    if !given.is_null() && amounts(given) != amounts(overhead) {
        return Err("Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned());
    }
    set(pod, "overhead", overhead.clone());
    Ok(())
}

/// Returns quantities in billionths by resource, so that `0.25` equals `250m`.
fn amounts(resources: &Value) -> BTreeMap<&str, Option<i128>> {
    let nanos = |value: &Value| Some(value.as_str()?.parse::<Quantity>().ok()?.nanos());
    let fields = resources.as_object().into_iter().flatten();
    fields.map(|(name, value)| (name.as_str(), nanos(value))).collect()
}

fn add_selector(pod: &mut Value, class: &Value) -> Result<(), String> {
    let Some(wanted) = class.pointer("/scheduling/nodeSelector").and_then(Value::as_object) else {
        return Ok(());
    };
    let Some(spec) = pod.get_mut("spec") else { return Ok(()) };
    let Some(own) = ensure(spec, "nodeSelector") else { return Ok(()) };
    for (key, value) in wanted {
        let value_of_pod = own.entry(key.clone()).or_insert_with(|| value.clone());
        if value_of_pod != value {
            let [value, own] = [value, value_of_pod].map(|own| own.as_str().unwrap_or_default());
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; \
                 pod.spec.nodeSelector[{key}] = {own}"
            ));
        }
    }
    Ok(())
}

fn add_tolerations(pod: &mut Value, class: &Value) {
    let own = list(pod, "/spec/tolerations");
    let added = list(class, "/scheduling/tolerations").iter().filter(|more| !own.contains(more));
    let all: Vec<Value> = own.iter().chain(added).cloned().collect();
    if !all.is_empty() {
        set(pod, "tolerations", all.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Objects;

    fn kata() -> Value {
        json!({
            "metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {
                "nodeSelector": {"kata": "true"},
                "tolerations": [{"key": "kata", "operator": "Exists"}],
            },
        })
    }

    fn admitted(mut spec: Value) -> Result<Value, String> {
        let classes = Objects { runtime_classes: vec![kata()], ..Objects::default() };
        spec["runtimeClassName"] = json!("kata");
        let mut pod = json!({"spec": spec});
        admit(&mut pod, &classes).map_err(|refusal| refusal.message)?;
        Ok(pod["spec"].clone())
    }

    #[test]
    fn pod_gets_overhead_selector_and_tolerations_once() {
        let own = json!([{"key": "own"}]);
        let admitted_once =
            admitted(json!({"nodeSelector": {"disk": "ssd"}, "tolerations": own})).unwrap();
        assert_eq!(admitted_once["overhead"], json!({"cpu": "250m"}));
        assert_eq!(admitted_once["nodeSelector"], json!({"disk": "ssd", "kata": "true"}));
        let both = json!([{"key": "own"}, {"key": "kata", "operator": "Exists"}]);
        assert_eq!(admitted_once["tolerations"], both);
        assert_eq!(admitted(admitted_once.clone()), Ok(admitted_once));
        let same = json!({"cpu": "0.25"});
        assert!(admitted(json!({"overhead": same})).is_ok());
    }

    #[test]
    fn conflicts_are_refused() {
        let rows = [
            (
                json!({"overhead": {"cpu": "1"}}),
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
            ),
            (
                json!({"nodeSelector": {"kata": "no"}}),
                "pod rejected: conflict: runtimeClass.scheduling.nodeSelector[kata] = true; \
                 pod.spec.nodeSelector[kata] = no",
            ),
        ];
        for (spec, message) in rows {
            assert_eq!(admitted(spec), Err(message.to_owned()));
        }
        let mut pod = json!({"spec": {"runtimeClassName": "gone"}});
        let refusal = admit(&mut pod, &Objects::default()).unwrap_err();
        assert_eq!(refusal.message, "pod rejected: RuntimeClass \"gone\" not found");
    }
}
