//! Label and field selectors as requests write them.

use framework::{Requirement, api};
use serde_json::Value;

use crate::object::at;
use crate::resources::{Field, Resource};
use crate::status::Status;

const METADATA_FIELDS: [Field; 2] = [
    Field { label: "metadata.name", pointer: "/metadata/name", absent: "" },
    Field { label: "metadata.namespace", pointer: "/metadata/namespace", absent: "" },
];

/// The selectors of a list or a watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    labels: Vec<Requirement>,
    fields: Vec<FieldTerm>,
}

#[derive(Debug, Clone)]
struct FieldTerm {
    field: Field,
    value: String,
    equal: bool,
}

impl Selection {
    /// Parses `labelSelector` and `fieldSelector` of a request for `resource`.
    ///
    /// # Errors
    /// 400 for a selector that does not parse, or a field that the resource cannot be selected by.
    pub(crate) fn parse(resource: &Resource, labels: &str, fields: &str) -> Result<Self, Status> {
        let labels = split_outside_parentheses(labels)
            .map(|term| parse_label_term(term.trim()))
            .collect::<Result<_, _>>()?;
        let fields = fields
            .split(',')
            .filter(|term| !term.trim().is_empty())
            .map(|term| parse_field_term(resource, term.trim()))
            .collect::<Result<_, _>>()?;
        Ok(Self { labels, fields })
    }

    /// Returns whether it selects every object.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Returns whether it selects this object.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = at(object, "/metadata/labels");
        let label = |key: &str| labels.and_then(|labels| labels.get(key)?.as_str());
        self.labels.iter().all(|term| term.matches(label(term.key())))
            && self.fields.iter().all(|term| term.matches(object))
    }
}

impl FieldTerm {
    fn matches(&self, object: &Value) -> bool {
        let equal = match at(object, self.field.pointer) {
            None | Some(Value::Null) => self.value == self.field.absent,
            Some(Value::String(own)) => self.value == *own,
            Some(Value::Bool(own)) => self.value.parse() == Ok(*own),
            Some(other) => other.as_i64().is_some_and(|own| self.value.parse() == Ok(own)),
        };
        equal == self.equal
    }
}

/// Splits a label selector into its terms, but not at commas inside `in (a,b)`.
fn split_outside_parentheses(selector: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let terms = selector.split(move |character| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        character == ',' && depth == 0
    });
    terms.filter(|term| !term.trim().is_empty())
}

fn parse_label_term(term: &str) -> Result<Requirement, Status> {
    let (key, operator, values) = label_term(term).ok_or_else(|| {
        Status::bad_request(format!(
            "unable to parse requirement: {term:?} is not a label selector"
        ))
    })?;
    let raw = api::SelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.into_iter().map(str::to_owned).collect(),
    };
    Requirement::compile(&raw)
        .map_err(|error| Status::bad_request(format!("unable to parse requirement: {error}")))
}

/// Returns key, operator and values of `k`, `!k`, `k=v`, `k==v`, `k!=v`, `k in (a,b)` or `k notin
/// (a,b)`.
fn label_term(term: &str) -> Option<(&str, &'static str, Vec<&str>)> {
    if let Some((head, set)) = term.split_once('(') {
        let (key, operator) = head.trim().rsplit_once(char::is_whitespace)?;
        let values = set.trim_end().strip_suffix(')')?.split(',').map(str::trim).collect();
        let operator = match operator {
            "in" => "In",
            "notin" => "NotIn",
            _ => return None,
        };
        return Some((key.trim(), operator, values));
    }
    if let Some((key, value)) = term.split_once("!=") {
        return Some((key.trim(), "NotIn", vec![value.trim()]));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Some((key.trim(), "In", vec![value.trim()]));
    }
    match term.strip_prefix('!') {
        Some(key) => Some((key.trim(), "DoesNotExist", Vec::new())),
        None => Some((term, "Exists", Vec::new())),
    }
}

fn parse_field_term(resource: &Resource, term: &str) -> Result<FieldTerm, Status> {
    let (label, value, equal) = split_field_term(term).ok_or_else(|| {
        Status::bad_request(format!("invalid selector: '{term}'; can't understand '{term}'"))
    })?;
    let mut known = METADATA_FIELDS.iter().chain(resource.fields);
    let field = known.find(|field| field.label == label);
    let field = *field.ok_or_else(|| unknown_field(resource, label))?;
    Ok(FieldTerm { field, value: unescape(value), equal })
}

/// Returns label and value of a term, and whether it asks for equality.
fn split_field_term(term: &str) -> Option<(&str, &str, bool)> {
    if let Some((label, value)) = term.split_once("!=") {
        return Some((label, value, false));
    }
    let (label, value) = term.split_once("==").or_else(|| term.split_once('='))?;
    Some((label, value, true))
}

/// Returns the only name that a field selector selects, if it selects by name.
pub(crate) fn selected_name(fields: &str) -> Option<String> {
    let mut terms = fields.split(',').filter_map(|term| split_field_term(term.trim()));
    terms.find_map(|(label, value, equal)| {
        (label == "metadata.name" && equal).then(|| unescape(value))
    })
}

fn unknown_field(resource: &Resource, label: &str) -> Status {
    Status::bad_request(if resource.fields.is_empty() {
        format!(
            "{label:?} is not a known field selector: only \"metadata.name\", \
             \"metadata.namespace\""
        )
    } else {
        format!("field label not supported: {label}")
    })
}

/// Removes the backslashes before `\`, `,` and `=` in the value of a field selector.
fn unescape(value: &str) -> String {
    let mut characters = value.chars();
    let mut plain = String::with_capacity(value.len());
    while let Some(character) = characters.next() {
        let character = if character == '\\' { characters.next() } else { Some(character) };
        plain.extend(character);
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resources::{CONFIGMAPS, NODES, PODS};

    fn selects(labels: &str, fields: &str, object: &Value) -> bool {
        Selection::parse(PODS, labels, fields).unwrap().matches(object)
    }

    #[test]
    fn label_selectors_match_labels() {
        let pod = json!({"metadata": {"labels": {"app": "w", "tier": "front"}}});
        let table = [
            ("", true),
            ("app", true),
            ("!app", false),
            ("!db", true),
            ("app=w", true),
            ("app==w", true),
            ("app=v", false),
            ("app!=v", true),
            ("db!=v", true),
            ("app in (v, w)", true),
            ("app in (v)", false),
            ("app notin (v,u),tier=front", true),
            ("app=w,tier=back", false),
        ];
        for (selector, selected) in table {
            assert_eq!(selects(selector, "", &pod), selected, "{selector}");
        }
    }

    #[test]
    fn absent_fields_match_their_zero_value() {
        let pod = json!({
            "metadata": {"name": "p0", "namespace": "ns"},
            "spec": {"schedulerName": "loadmaster", "hostNetwork": true},
        });
        let table = [
            ("metadata.name=p0,metadata.namespace=ns", true),
            ("metadata.name!=p0", false),
            ("spec.nodeName=", true),
            ("spec.nodeName!=", false),
            ("spec.schedulerName==loadmaster", true),
            ("spec.hostNetwork=true", true),
            ("status.phase=Pending", false),
            (r"metadata.name=p\=0", false),
        ];
        for (selector, selected) in table {
            assert_eq!(selects("", selector, &pod), selected, "{selector}");
        }
        let cordoned = Selection::parse(NODES, "", "spec.unschedulable=false").unwrap();
        assert!(cordoned.matches(&json!({"spec": {}})));
    }

    #[test]
    fn malformed_selectors_are_refused() {
        let message = |resource, labels, fields| {
            Selection::parse(resource, labels, fields).unwrap_err().message
        };
        assert_eq!(message(PODS, "", "spec.nope=x"), "field label not supported: spec.nope");
        assert!(message(CONFIGMAPS, "", "data=x").contains("only \"metadata.name\""));
        assert!(message(PODS, "a in b)", "").starts_with("unable to parse requirement"));
        assert!(message(PODS, "a=b=(", "").starts_with("unable to parse requirement"));
        assert!(message(PODS, "", "spec.nodeName").starts_with("invalid selector"));
    }
}
