//! The priority admission plugin: PriorityClasses of pods become numbers.

use serde_json::Value;

use crate::metadata;
use crate::resources;
use crate::status::Status;

const PREEMPT_LOWER_PRIORITY: &str = "PreemptLowerPriority";

/// Sets `priority`, `priorityClassName` and `preemptionPolicy` of a new pod. `class` is the
/// PriorityClass that it names, if there is one; `default_class` is that of pods without a class.
///
/// # Errors
/// 403 if the class does not exist, or if the pod sets another priority or policy than its class.
pub fn admit(
    class: Option<&Value>,
    default_class: Option<&Value>,
    pod: &mut Value,
) -> Result<(), Status> {
    let named = pod["spec"]["priorityClassName"].as_str().unwrap_or_default().to_owned();
    let class = match (named.as_str(), class) {
        ("", _) => default_class,
        (_, Some(class)) => Some(class),
        (_, None) => {
            return Err(refuse(pod, &format!("no PriorityClass with name {named} was found")));
        }
    };
    let priority = class.and_then(|class| class["value"].as_i64()).unwrap_or_default();
    let policy = class.and_then(|class| class["preemptionPolicy"].as_str());
    let policy = policy.unwrap_or(PREEMPT_LOWER_PRIORITY);
    check(pod, priority, policy)?;
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
    if let Some(class) = class {
        spec.insert("priorityClassName".to_owned(), metadata::name(class).into());
    }
    spec.insert("priority".to_owned(), priority.into());
    spec.insert("preemptionPolicy".to_owned(), policy.into());
    Ok(())
}

/// Checks that priority and policy in the pod are those of its class.
fn check(pod: &Value, priority: i64, policy: &str) -> Result<(), Status> {
    const RULE: &str = "must not be provided in pod spec; priority admission controller computed";
    const GIVEN: &str = "from the given PriorityClass name";
    if let Some(own) = pod["spec"]["priority"].as_i64().filter(|own| *own != priority) {
        let why = format!("the integer value of priority ({own}) {RULE} {priority} {GIVEN}");
        return Err(refuse(pod, &why));
    }
    if let Some(own) = pod["spec"]["preemptionPolicy"].as_str().filter(|own| *own != policy) {
        let why = format!("the string value of PreemptionPolicy ({own}) {RULE} {policy} {GIVEN}");
        return Err(refuse(pod, &why));
    }
    Ok(())
}

fn refuse(pod: &Value, why: &str) -> Status {
    Status::forbidden(resources::PODS, metadata::name(pod), why)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn admitted(
        class: Option<Value>,
        default: Option<Value>,
        spec: Value,
    ) -> Result<Value, String> {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": spec});
        let admitted = admit(class.as_ref(), default.as_ref(), &mut pod);
        admitted.map(|()| pod["spec"].clone()).map_err(|status| status.message)
    }

    fn high() -> Option<Value> {
        Some(json!({
            "metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never",
        }))
    }

    #[test]
    fn priority_comes_from_the_named_or_the_default_class() {
        let of_high = json!({
            "priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never",
        });
        let named = json!({"priorityClassName": "high"});
        assert_eq!(admitted(high(), None, named), Ok(of_high.clone()));
        assert_eq!(admitted(None, high(), json!({})), Ok(of_high.clone()));
        assert_eq!(admitted(high(), None, of_high.clone()), Ok(of_high));
        let none = json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"});
        assert_eq!(admitted(None, None, json!({})), Ok(none));
    }

    #[test]
    fn other_priorities_and_policies_are_refused() {
        let cases = [
            (
                json!({"priorityClassName": "nope"}),
                "pods \"p\" is forbidden: no PriorityClass with name nope was found",
            ),
            (
                json!({"priority": 7}),
                "pods \"p\" is forbidden: the integer value of priority (7) must not be provided \
                 in pod spec; priority admission controller computed 0 from the given \
                 PriorityClass name",
            ),
            (
                json!({"preemptionPolicy": "Never"}),
                "pods \"p\" is forbidden: the string value of PreemptionPolicy (Never) must not \
                 be provided in pod spec; priority admission controller computed \
                 PreemptLowerPriority from the given PriorityClass name",
            ),
        ];
        for (spec, message) in cases {
            assert_eq!(admitted(None, None, spec), Err(message.to_owned()));
        }
    }
}
