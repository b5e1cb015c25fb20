//! The fields of a pod spec that decide where it runs.

use super::field::{Faults, Field};
use super::names;

const TERMS: &str = "nodeSelectorTerms";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks gates, node selector, affinity, tolerations and spread constraints.
pub(super) fn spec(spec: &Field<'_>, faults: &mut Faults) {
    names::labels(&spec.child("nodeSelector"), faults);
    affinity(&spec.child("affinity"), faults);
    spec.child("tolerations").items().for_each(|toleration| self::toleration(&toleration, faults));
    scheduling_gates(spec, faults);
    spread_constraints(&spec.child("topologySpreadConstraints"), faults);
}

fn scheduling_gates(spec: &Field<'_>, faults: &mut Faults) {
    let gates = spec.child("schedulingGates");
    gates.items().for_each(|gate| names::qualified_name(&gate.child("name"), faults));
    faults.distinct(gates.items());
    let node_name = spec.child("nodeName");
    if !gates.is_empty() && !node_name.is_empty() {
        faults.forbidden(&node_name, "cannot be set until all schedulingGates have been cleared");
    }
}

fn toleration(toleration: &Field<'_>, faults: &mut Faults) {
    let field = |name: &'static str| toleration.child(name);
    let (key, operator, value, effect) =
        (field("key"), field("operator"), field("value"), field("effect"));
    if !key.is_empty() {
        names::qualified_name(&key, faults);
    } else if operator.text() != "Exists" {
        let why = "operator must be Exists when `key` is empty, which means \"match all values \
                   and all keys\"";
        faults.invalid(&operator, why);
    }
    if field("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
        faults.invalid(&effect, "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    match operator.text() {
        "" | "Equal" => names::label_value(&value, faults),
        "Exists" if !value.is_empty() => {
            faults.invalid(&operator, "value must be empty when `operator` is 'Exists'");
        }
        _ => faults.one_of(&operator, &["Equal", "Exists"]),
    }
    faults.one_of(&effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
}

fn affinity(affinity: &Field<'_>, faults: &mut Faults) {
    let node = affinity.child("nodeAffinity");
    let required = node.child(REQUIRED);
    if required.is_set() {
        node_selector(&required, faults);
    }
    for term in node.child(PREFERRED).items() {
        weight(&term.child("weight"), faults);
        node_selector_term(&term.child("preference"), faults);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let kind = affinity.child(kind);
        kind.child(REQUIRED).items().for_each(|term| pod_affinity_term(&term, faults));
        for term in kind.child(PREFERRED).items() {
            weight(&term.child("weight"), faults);
            pod_affinity_term(&term.child("podAffinityTerm"), faults);
        }
    }
}

fn weight(weight: &Field<'_>, faults: &mut Faults) {
    if !weight.number().is_some_and(|number| (1..=100).contains(&number)) {
        faults.invalid(weight, "must be in the range 1-100");
    }
}

/// Checks a node selector, of a PersistentVolume, too.
pub(super) fn node_selector(selector: &Field<'_>, faults: &mut Faults) {
    let terms = selector.child(TERMS);
    if terms.is_empty() {
        faults.required(&terms, "must have at least one node selector term");
    }
    terms.items().for_each(|term| node_selector_term(&term, faults));
}

fn node_selector_term(term: &Field<'_>, faults: &mut Faults) {
    for requirement in term.child("matchExpressions").items() {
        node_requirement(&requirement, faults);
        names::qualified_name(&requirement.child("key"), faults);
    }
    for requirement in term.child("matchFields").items() {
        let (key, operator) = (requirement.child("key"), requirement.child("operator"));
        faults.one_of(&operator, &["In", "NotIn"]);
        if requirement.child("values").items().count() != 1 {
            let why = "must have one element when operator is 'In' or 'NotIn'";
            faults.required(&requirement.child("values"), why);
        }
        if key.text() != "metadata.name" {
            faults.invalid(&key, "not a valid field selector key");
        }
    }
}

fn node_requirement(requirement: &Field<'_>, faults: &mut Faults) {
    let (operator, values) = (requirement.child("operator"), requirement.child("values"));
    match operator.text() {
        "Gt" | "Lt" if values.items().count() != 1 => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            faults.required(&values, why);
        }
        "Gt" | "Lt" => {}
        _ => set_operator(&operator, &values, faults),
    }
}

/// Checks whether an operator has values where it needs them.
fn set_operator(operator: &Field<'_>, values: &Field<'_>, faults: &mut Faults) {
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => {
            faults.required(values, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            faults.forbidden(values, why);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => faults.invalid(operator, "not a valid selector operator"),
    }
}

/// Checks a label selector.
pub(super) fn label_selector(selector: &Field<'_>, faults: &mut Faults) {
    names::labels(&selector.child("matchLabels"), faults);
    for requirement in selector.child("matchExpressions").items() {
        let (operator, values) = (requirement.child("operator"), requirement.child("values"));
        set_operator(&operator, &values, faults);
        names::qualified_name(&requirement.child("key"), faults);
        values.items().for_each(|value| names::label_value(&value, faults));
    }
}

fn pod_affinity_term(term: &Field<'_>, faults: &mut Faults) {
    label_selector(&term.child("labelSelector"), faults);
    label_selector(&term.child("namespaceSelector"), faults);
    term.child("namespaces").items().for_each(|namespace| names::dns_label(&namespace, faults));
    topology_key(&term.child("topologyKey"), faults);
}

fn topology_key(key: &Field<'_>, faults: &mut Faults) {
    if key.is_empty() {
        faults.required(key, "can not be empty");
    } else {
        names::qualified_name(key, faults);
    }
}

fn spread_constraints(constraints: &Field<'_>, faults: &mut Faults) {
    let mut seen = Vec::new();
    for constraint in constraints.items() {
        spread_constraint(&constraint, faults);
        let text = |field: &'static str| constraint.child(field).text();
        let pair = format!("{{{}, {}}}", text("topologyKey"), text("whenUnsatisfiable"));
        if seen.contains(&pair) {
            faults.duplicate_text(
                &format!("{}.{{topologyKey, whenUnsatisfiable}}", constraint.path()),
                &pair,
            );
        }
        seen.push(pair);
    }
}

fn spread_constraint(constraint: &Field<'_>, faults: &mut Faults) {
    let field = |name: &'static str| constraint.child(name);
    let (skew, action, domains) =
        (field("maxSkew"), field("whenUnsatisfiable"), field("minDomains"));
    if skew.number().unwrap_or_default() <= 0 {
        faults.invalid(&skew, "must be greater than zero");
    }
    topology_key(&field("topologyKey"), faults);
    faults.one_of_required(&action, &["DoNotSchedule", "ScheduleAnyway"]);
    if domains.number().is_some_and(|number| number <= 0) {
        faults.invalid(&domains, "must be greater than zero");
    }
    if domains.is_set() && action.text() != "DoNotSchedule" {
        let why = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not \
                   ScheduleAnyway";
        faults.invalid(&domains, why);
    }
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        faults.one_of(&field(policy), &["Honor", "Ignore"]);
    }
    label_selector(&field("labelSelector"), faults);
}

/// Checks a taint of a node.
pub(super) fn taint(taint: &Field<'_>, faults: &mut Faults) {
    let (key, value, effect) = (taint.child("key"), taint.child("value"), taint.child("effect"));
    names::qualified_name(&key, faults);
    names::label_value(&value, faults);
    if faults.require(&effect) {
        faults.one_of(&effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    }
}
