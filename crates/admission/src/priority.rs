//! Priority: the class of a pod becomes a number and a preemption policy.

use serde_json::{Value, json};

use super::object::{set, text};
use super::{Cause, Classes, Given, Refusal, SYSTEM_CLASSES};

const PREEMPT_LOWER_PRIORITY: &str = "PreemptLowerPriority";
const RULE: &str = "must not be provided in pod spec; priority admission controller computed";
const GIVEN: &str = "from the given PriorityClass name";

/// The priority and the policy that a class gives its pods.
struct PriorityClass {
    /// Its name; empty if there is no class.
    name: String,
    priority: i64,
    policy: String,
}

impl PriorityClass {
    fn new(name: &str, priority: i64) -> Self {
        let policy = PREEMPT_LOWER_PRIORITY.to_owned();
        Self { name: name.to_owned(), priority, policy }
    }

    fn of(class: &Value) -> Self {
        let own = Self::new(text(class, "/metadata/name"), class["value"].as_i64().unwrap_or(0));
        match text(class, "/preemptionPolicy") {
            "" => own,
            policy => Self { policy: policy.to_owned(), ..own },
        }
    }

    /// Returns the class of this name.
    fn named(name: &str, classes: &impl Classes) -> Option<Self> {
        let system = SYSTEM_CLASSES.iter().find(|(own, _)| *own == name);
        let system = system.map(|(name, priority)| Self::new(name, (*priority).into()));
        classes.priority_class(name).map(Self::of).or(system)
    }

    /// Returns the class of pods without one: of several default classes that with the lowest
    /// priority.
    fn of_others(classes: &impl Classes) -> Self {
        let defaults = classes.priority_classes().filter(|class| class["globalDefault"] == true);
        let lowest = defaults.map(Self::of).min_by_key(|class| class.priority);
        lowest.unwrap_or_else(|| Self::new("", 0))
    }
}

/// Sets `priority`, `priorityClassName` and `preemptionPolicy`.
///
/// # Errors
/// The class does not exist, or the pod has another priority or policy, and they are checked.
pub(super) fn admit(pod: &mut Value, classes: &impl Classes, given: Given) -> Result<(), Refusal> {
    let class = class_of(pod, classes)?;
    if given == Given::Checked {
        check(pod, &class)?;
    }
    if !class.name.is_empty() {
        set(pod, "priorityClassName", json!(class.name));
    }
    set_if_absent(pod, "priority", json!(class.priority));
    set_if_absent(pod, "preemptionPolicy", json!(class.policy));
    Ok(())
}

fn set_if_absent(pod: &mut Value, field: &str, value: Value) {
    if pod["spec"][field].is_null() {
        set(pod, field, value);
    }
}

fn class_of(pod: &Value, classes: &impl Classes) -> Result<PriorityClass, Refusal> {
    let name = text(pod, "/spec/priorityClassName");
    if name.is_empty() {
        return Ok(PriorityClass::of_others(classes));
    }
    PriorityClass::named(name, classes).ok_or_else(|| Refusal {
        cause: Cause::NoPriorityClass,
        value: name.to_owned(),
        message: format!("no PriorityClass with name {name} was found"),
    })
}

/// Checks that priority and policy in the pod come from its class.
fn check(pod: &Value, class: &PriorityClass) -> Result<(), Refusal> {
    let PriorityClass { priority, policy, .. } = class;
    if let Some(own) = pod["spec"]["priority"].as_i64().filter(|own| own != priority) {
        let message = format!("the integer value of priority ({own}) {RULE} {priority} {GIVEN}");
        return Err(Refusal { cause: Cause::PriorityClass, value: class.name.clone(), message });
    }
    let own = text(pod, "/spec/preemptionPolicy");
    if !own.is_empty() && own != policy {
        let message =
            format!("the string value of PreemptionPolicy ({own}) {RULE} {policy} {GIVEN}");
        return Err(Refusal { cause: Cause::PriorityClass, value: class.name.clone(), message });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Objects;

    fn admitted(classes: &[Value], given: Given, spec: Value) -> Result<Value, String> {
        let classes = Objects { priority_classes: classes.to_vec(), ..Objects::default() };
        let mut pod = json!({"metadata": {"name": "p"}, "spec": spec});
        let admitted = admit(&mut pod, &classes, given);
        admitted.map(|()| pod["spec"].clone()).map_err(|refusal| refusal.message)
    }

    fn class(name: &str, value: i64, is_default: bool) -> Value {
        json!({"metadata": {"name": name}, "value": value, "globalDefault": is_default})
    }

    fn of(class: &str, priority: i64) -> Value {
        let policy = PREEMPT_LOWER_PRIORITY;
        json!({"priorityClassName": class, "priority": priority, "preemptionPolicy": policy})
    }

    #[test]
    fn priority_comes_from_the_named_or_the_lowest_default_class() {
        let mut polite = class("polite", 1000, false);
        polite["preemptionPolicy"] = json!("Never");
        let classes = [polite, class("some", 20, true), class("usual", 10, true)];
        let rows = [
            (
                json!({"priorityClassName": "polite"}),
                json!({"priorityClassName": "polite", "priority": 1000, "preemptionPolicy": "Never"}),
            ),
            (json!({}), of("usual", 10)),
            (of("usual", 10), of("usual", 10)),
            (
                json!({"priorityClassName": "system-node-critical"}),
                of("system-node-critical", 2_000_001_000),
            ),
        ];
        for (spec, expected) in rows {
            assert_eq!(admitted(&classes, Given::Checked, spec), Ok(expected));
        }
        let none = json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"});
        assert_eq!(admitted(&[], Given::Checked, json!({})), Ok(none));
    }

    #[test]
    fn other_priorities_and_policies_are_refused_or_kept() {
        let cases = [
            (json!({"priorityClassName": "nope"}), "no PriorityClass with name nope was found"),
            (
                json!({"priority": 7}),
                "the integer value of priority (7) must not be provided in pod spec; priority \
                 admission controller computed 0 from the given PriorityClass name",
            ),
            (
                json!({"preemptionPolicy": "Never"}),
                "the string value of PreemptionPolicy (Never) must not be provided in pod spec; \
                 priority admission controller computed PreemptLowerPriority from the given \
                 PriorityClass name",
            ),
        ];
        for (spec, message) in cases {
            assert_eq!(admitted(&[], Given::Checked, spec), Err(message.to_owned()));
        }
        let kept = admitted(&[class("usual", 10, true)], Given::Kept, json!({"priority": 7}));
        assert_eq!(kept.unwrap()["priority"], 7);
    }
}
