//! The rules of flow schemas and priority levels.

use super::field::{Faults, Field};

const PRECEDENCES: std::ops::RangeInclusive<i64> = 1..=10_000;
const METHODS: &[&str] = &["ByNamespace", "ByUser"];
const SUBJECTS: &[&str] = &["Group", "ServiceAccount", "User"];

/// Checks FlowSchemas.
pub(super) fn schema(schema: &Field<'_>, faults: &mut Faults) {
    let spec = schema.child("spec");
    let precedence = spec.child("matchingPrecedence");
    if precedence.number().is_some_and(|number| !PRECEDENCES.contains(&number)) {
        faults.invalid(&precedence, "must be between 1 and 10000, inclusive");
    }
    faults.require(&spec.at(&["priorityLevelConfiguration", "name"]));
    faults.one_of(&spec.at(&["distinguisherMethod", "type"]), METHODS);
    for rule in spec.child("rules").items() {
        let subjects = rule.child("subjects");
        if subjects.is_empty() {
            faults.required(&subjects, "subjects must contain at least one value");
        }
        for subject in subjects.items() {
            faults.one_of_required(&subject.child("kind"), SUBJECTS);
        }
        if ["resourceRules", "nonResourceRules"].iter().all(|kind| rule.child(kind).is_empty()) {
            let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
            faults.required(&rule, why);
        }
    }
}

/// Checks PriorityLevelConfigurations.
pub(super) fn priority_level(level: &Field<'_>, faults: &mut Faults) {
    let spec = level.child("spec");
    let (kind, limited) = (spec.child("type"), spec.child("limited"));
    faults.one_of_required(&kind, &["Exempt", "Limited"]);
    match kind.text() {
        "Limited" if !limited.is_set() => {
            faults.required(&limited, "must not be empty when type is Limited");
        }
        "Exempt" if limited.is_set() => {
            faults.forbidden(&limited, "must be nil if the type is not Limited");
        }
        _ => {}
    }
    if !limited.is_set() {
        return;
    }
    faults.non_negative(&limited.child("nominalConcurrencyShares"));
    let response = limited.child("limitResponse");
    let (kind, queuing) = (response.child("type"), response.child("queuing"));
    faults.one_of_required(&kind, &["Queue", "Reject"]);
    match kind.text() {
        "Queue" if !queuing.is_set() => {
            let why = "must not be empty if and only if limited.limitResponse.type is Queue";
            faults.required(&queuing, why);
        }
        "Reject" if queuing.is_set() => {
            let why = "must be nil if limited.limitResponse.type is not Limited";
            faults.forbidden(&queuing, why);
        }
        _ => {}
    }
}
