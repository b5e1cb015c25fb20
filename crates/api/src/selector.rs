//! Label selectors, compiled once and matched often.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::labels::{Labels, label_key_fault, label_value_fault};
use crate::api;

/// The errors of an invalid selector, each with the path of its field.
///
/// The texts are those of Kubernetes. Several errors print as `[first, second]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error, Serialize, Deserialize)]
#[error("{}", bracketed(.0))]
pub struct SelectorError(Vec<String>);

impl SelectorError {
    /// Returns an error with these `messages`, without duplicates; `None` for no messages.
    pub(crate) fn of(messages: Vec<String>) -> Option<Self> {
        let mut distinct: Vec<String> = Vec::with_capacity(messages.len());
        for message in messages {
            if !distinct.contains(&message) {
                distinct.push(message);
            }
        }
        (!distinct.is_empty()).then_some(Self(distinct))
    }

    /// Returns the single messages.
    pub fn messages(&self) -> &[String] {
        &self.0
    }
}

fn bracketed(messages: &[String]) -> String {
    match messages {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// The operator of a requirement on a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// The label has the value; plain key-value pairs are compiled to it.
    Equals,
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer greater than this one (node selectors only).
    Gt(i64),
    /// The label is an integer less than this one (node selectors only).
    Lt(i64),
}

/// A requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Requirement {
    key: Arc<str>,
    operator: Operator,
    values: Box<[Arc<str>]>,
}

impl Requirement {
    /// Returns the requirement that `key` has the value `value`, without validation.
    pub fn equals(key: &str, value: &str) -> Self {
        Self { key: key.into(), operator: Operator::Equals, values: [value.into()].into() }
    }

    /// Compiles a requirement of a label selector (`In`, `NotIn`, `Exists` or `DoesNotExist`).
    pub fn compile(raw: &api::SelectorRequirement) -> Result<Self, SelectorError> {
        let kind = match raw.operator.as_str() {
            "In" => OperatorKind::In,
            "NotIn" => OperatorKind::NotIn,
            "Exists" => OperatorKind::Exists,
            "DoesNotExist" => OperatorKind::DoesNotExist,
            other => {
                let message = format!("{} is not a valid label selector operator", quoted(other));
                return Err(SelectorError(vec![message]));
            }
        };
        Self::validated(&raw.key, kind, &raw.values, "")
    }

    /// Returns a requirement with a valid key and a valid number of valid values.
    ///
    /// `path` is the path of the requirement in its object, empty at the root.
    pub(crate) fn validated(
        key: &str,
        kind: OperatorKind,
        values: &[String],
        path: &str,
    ) -> Result<Self, SelectorError> {
        let dot = if path.is_empty() { "" } else { "." };
        let values_path = format!("{path}{dot}values");
        let mut messages = Vec::new();
        if let Some(fault) = label_key_fault(key) {
            messages.push(invalid(&format!("{path}{dot}key"), &quoted(key), &fault));
        }
        let operator = kind.with_values(values, &values_path, &mut messages);
        for (index, value) in values.iter().enumerate() {
            if let Some(fault) = label_value_fault(value) {
                let value_path = format!("{values_path}[{index}][{key}]");
                messages.push(invalid(&value_path, &quoted(value), &fault));
            }
        }
        match SelectorError::of(messages) {
            Some(error) => Err(error),
            None => Ok(Self { key: key.into(), operator, values: sorted(values) }),
        }
    }

    /// Label key.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Returns the operator.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// Returns the values as written, sorted, with duplicates.
    pub fn values(&self) -> &[Arc<str>] {
        &self.values
    }

    /// Returns whether a label with this value (`None` if absent) meets the requirement.
    pub fn matches(&self, value: Option<&str>) -> bool {
        match (self.operator, value) {
            (Operator::Exists, value) => value.is_some(),
            (Operator::DoesNotExist, value) => value.is_none(),
            (Operator::NotIn, None) => true,
            (_, None) => false,
            (Operator::NotIn, Some(value)) => !self.has_value(value),
            (Operator::Equals | Operator::In, Some(value)) => self.has_value(value),
            (Operator::Gt(bound), Some(value)) => value.parse().is_ok_and(|own: i64| own > bound),
            (Operator::Lt(bound), Some(value)) => value.parse().is_ok_and(|own: i64| own < bound),
        }
    }

    fn has_value(&self, value: &str) -> bool {
        match &*self.values {
            [only] => **only == *value,
            several => several.binary_search_by(|own| (**own).cmp(value)).is_ok(),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Gt(_) => write!(f, "{key}>{values}"),
            Operator::Lt(_) => write!(f, "{key}<{values}"),
        }
    }
}

/// An operator without its values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OperatorKind {
    Equals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
}

impl OperatorKind {
    /// Returns the operator for `values`. Adds errors in the number or form of the values to
    /// `messages`; the result is then meaningless.
    fn with_values(self, values: &[String], path: &str, messages: &mut Vec<String>) -> Operator {
        let wanted = match self {
            Self::Equals => {
                (values.len() == 1, "exact-match compatibility requires one single value")
            }
            Self::In | Self::NotIn => {
                (!values.is_empty(), "for 'in', 'notin' operators, values set can't be empty")
            }
            Self::Exists | Self::DoesNotExist => {
                (values.is_empty(), "values set must be empty for exists and does not exist")
            }
            Self::Gt | Self::Lt => {
                (values.len() == 1, "for 'Gt', 'Lt' operators, exactly one value is required")
            }
        };
        if let (false, rule) = wanted {
            messages.push(invalid(path, &json_list(values), rule));
        }
        match self {
            Self::Equals => Operator::Equals,
            Self::In => Operator::In,
            Self::NotIn => Operator::NotIn,
            Self::Exists => Operator::Exists,
            Self::DoesNotExist => Operator::DoesNotExist,
            Self::Gt => Operator::Gt(bound(values, path, messages)),
            Self::Lt => Operator::Lt(bound(values, path, messages)),
        }
    }
}

/// Returns the integer of `Gt` and `Lt`. An invalid integer is reported and returns 0.
fn bound(values: &[String], path: &str, messages: &mut Vec<String>) -> i64 {
    let mut first = None;
    for (index, value) in values.iter().enumerate() {
        match value.parse() {
            Ok(number) => first = first.or(Some(number)),
            Err(_) => messages.push(invalid(
                &format!("{path}[{index}]"),
                &quoted(value),
                "for 'Gt', 'Lt' operators, the value must be an integer",
            )),
        }
    }
    first.unwrap_or_default()
}

fn sorted(values: &[String]) -> Box<[Arc<str>]> {
    let mut values: Vec<Arc<str>> = values.iter().map(|value| value.as_str().into()).collect();
    values.sort_unstable();
    values.into()
}

/// A compiled label selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LabelSelector(Form);

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Form {
    Nothing,
    /// Matches objects that meet all requirements, sorted by key. Without requirements it matches
    /// every object.
    All(Vec<Requirement>),
}

impl LabelSelector {
    /// The selector that matches no object.
    pub const NOTHING: Self = Self(Form::Nothing);
    /// The selector that matches every object.
    pub const EVERYTHING: Self = Self(Form::All(Vec::new()));

    /// Compiles a selector of the API. An absent selector matches no object, an empty one every
    /// object.
    ///
    /// # Errors
    /// The first invalid requirement, `matchLabels` first: an unknown operator, an invalid key or
    /// value, or a number of values that the operator does not accept.
    pub fn compile(selector: Option<&api::LabelSelector>) -> Result<Self, SelectorError> {
        let Some(selector) = selector else { return Ok(Self::NOTHING) };
        let pairs = selector.match_labels.iter().map(|(key, value)| {
            Requirement::validated(key, OperatorKind::Equals, std::slice::from_ref(value), "")
        });
        let expressions = selector.match_expressions.iter().map(Requirement::compile);
        Ok(pairs.chain(expressions).collect::<Result<Vec<_>, _>>()?.into())
    }

    /// Returns the selector for exactly these pairs, as in `nodeSelector` and Services, without
    /// validation. An empty set matches every object.
    pub fn from_set(set: &BTreeMap<String, String>) -> Self {
        set.iter().map(|(key, value)| Requirement::equals(key, value)).collect::<Vec<_>>().into()
    }

    /// Adds a requirement. A selector that matches no object stays unchanged.
    #[must_use]
    pub fn require(self, requirement: Requirement) -> Self {
        match self.0 {
            Form::Nothing => Self::NOTHING,
            Form::All(mut requirements) => {
                requirements.push(requirement);
                requirements.into()
            }
        }
    }

    /// Returns the selector for the objects that both selectors match.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        match (self.0, &other.0) {
            (Form::All(mut requirements), Form::All(more)) => {
                requirements.extend(more.iter().cloned());
                requirements.into()
            }
            _ => Self::NOTHING,
        }
    }

    /// Returns whether the selector matches an object with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_by(|key| labels.get(key))
    }

    /// Returns whether the selector matches an object whose labels `value_of` looks up.
    pub fn matches_by<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        match &self.0 {
            Form::Nothing => false,
            Form::All(all) => all.iter().all(|own| own.matches(value_of(&own.key))),
        }
    }

    /// Returns whether the selector matches every object.
    pub fn is_everything(&self) -> bool {
        self.requirements().is_some_and(<[_]>::is_empty)
    }

    /// Returns whether the selector matches no object.
    pub fn is_nothing(&self) -> bool {
        self.0 == Form::Nothing
    }

    /// Returns the requirements, all of which an object must meet, ordered by key; `None` if no
    /// object can match.
    pub fn requirements(&self) -> Option<&[Requirement]> {
        match &self.0 {
            Form::Nothing => None,
            Form::All(requirements) => Some(requirements),
        }
    }
}

impl From<Vec<Requirement>> for LabelSelector {
    /// Returns the selector for objects that meet all `requirements`.
    fn from(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self(Form::All(requirements))
    }
}

impl fmt::Display for LabelSelector {
    /// Prints the syntax of `kubectl`; empty both for [`EVERYTHING`](Self::EVERYTHING) and for
    /// [`NOTHING`](Self::NOTHING).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().unwrap_or_default().iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

/// Formats the error for an invalid value; `value` is already quoted.
pub(crate) fn invalid(path: &str, value: &str, rule: &str) -> String {
    format!("{path}: Invalid value: {value}: {rule}")
}

/// Formats the error for a value that is not one of the `supported` values.
pub(crate) fn not_supported(path: &str, value: &str, supported: &[&str]) -> String {
    let supported: Vec<String> = supported.iter().map(|value| quoted(value)).collect();
    format!(
        "{path}: Unsupported value: {}: supported values: {}",
        quoted(value),
        supported.join(", ")
    )
}

/// Formats a list like the JSON encoder of Go, which omits an empty list.
pub(crate) fn json_list(values: &[String]) -> String {
    if values.is_empty() {
        return "null".to_owned();
    }
    let json = serde_json::Value::from(values).to_string();
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Quotes text with the escapes of Go's `%q`.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\x1f' | '\x7f' => out.push_str(&format!("\\x{:02x}", u32::from(char))),
            '\u{80}'..='\u{a0}' => out.push_str(&format!("\\u{:04x}", u32::from(char))),
            _ => out.push(char),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(key: &str, operator: &str, values: &[&str]) -> api::SelectorRequirement {
        api::SelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        }
    }

    fn selector(
        pairs: &[(&str, &str)],
        expressions: &[api::SelectorRequirement],
    ) -> Result<LabelSelector, SelectorError> {
        let pairs = pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        LabelSelector::compile(Some(&api::LabelSelector {
            match_labels: pairs.collect(),
            match_expressions: expressions.to_vec(),
        }))
    }

    #[test]
    fn operators_handle_missing_and_present_labels() {
        for (operator, values, missing, web, db) in [
            ("In", &["db", "api"][..], false, false, true),
            ("NotIn", &["db", "api"], true, true, false),
            ("Exists", &[], false, true, true),
            ("DoesNotExist", &[], true, false, false),
        ] {
            let selector = selector(&[], &[requirement("app", operator, values)]).unwrap();
            let matches =
                |labels: &[(&str, &str)]| selector.matches(&labels.iter().copied().collect());
            assert_eq!(matches(&[]), missing, "{operator}");
            assert_eq!(matches(&[("app", "web")]), web, "{operator}");
            assert_eq!(matches(&[("app", "db")]), db, "{operator}");
        }
    }

    #[test]
    fn absent_selector_matches_no_object_and_empty_selector_every_object() {
        let nothing = LabelSelector::compile(None).unwrap();
        let everything = selector(&[], &[]).unwrap();
        assert!(nothing.is_nothing() && !nothing.matches(&Labels::default()));
        assert!(everything.is_everything() && everything.matches(&Labels::default()));
        let extra = Requirement::equals("app", "web");
        assert!(nothing.require(extra.clone()).is_nothing());
        assert_eq!(everything.require(extra).to_string(), "app=web");
    }

    #[test]
    fn selector_prints_sorted_requirements_and_values() {
        let expressions = [
            requirement("tier", "NotIn", &["web", "db"]),
            requirement("app", "Exists", &[]),
            requirement("old", "DoesNotExist", &[]),
        ];
        let selector = selector(&[("tier", "gold"), ("app", "")], &expressions).unwrap();
        assert_eq!(selector.to_string(), "app=,app,!old,tier=gold,tier notin (db,web)");
    }

    #[test]
    fn invalid_requirements_are_rejected() {
        for (raw, expected) in [
            (requirement("a", "Gt", &["1"]), "\"Gt\" is not a valid label selector operator"),
            (
                requirement("a", "In", &[]),
                "values: Invalid value: null: for 'in', 'notin' operators, values set can't be \
                 empty",
            ),
            (
                requirement("a", "Exists", &["x<"]),
                "[values: Invalid value: [\"x\\u003c\"]: values set must be empty for exists and \
                 does not exist, values[0][a]: Invalid value: \"x<\": a valid label must be",
            ),
            (requirement("a b", "Exists", &[]), "key: Invalid value: \"a b\": name part must"),
        ] {
            let error = selector(&[], &[raw]).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn plain_sets_are_not_validated() {
        let set = BTreeMap::from([("not a key".to_owned(), "not a value".to_owned())]);
        let selector = LabelSelector::from_set(&set);
        assert!(selector.matches(&Labels::from(&set)));
        assert!(LabelSelector::from_set(&BTreeMap::new()).is_everything());
    }

    #[test]
    fn text_is_quoted_as_in_go() {
        assert_eq!(quoted("a\"\\\n\u{1}\u{85}é"), "\"a\\\"\\\\\\n\\x01\\u0085é\"");
    }
}
