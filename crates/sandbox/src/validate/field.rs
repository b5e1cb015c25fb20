//! A value with its path, and the faults found in it.

use serde_json::Value;

use crate::status::Cause;

/// A value of an object and where it stands, for example `spec.containers[0].name`.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Field<'a> {
    /// The whole object.
    pub(super) fn root(value: &'a Value) -> Self {
        Self { path: String::new(), value }
    }

    /// The field `name`, null if absent.
    pub(super) fn child(&self, name: &str) -> Self {
        let path = match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        Self { path, value: &self.value[name] }
    }

    /// The fields along a path of names.
    pub(super) fn at(&self, path: &[&str]) -> Self {
        path.iter().fold(self.clone(), |field, name| field.child(name))
    }

    /// The items of a list.
    pub(super) fn items(&self) -> impl Iterator<Item = Self> + use<'a> {
        let path = self.path.clone();
        let items = self.value.as_array().map(Vec::as_slice).unwrap_or_default().iter().enumerate();
        items.map(move |(index, value)| Self { path: format!("{path}[{index}]"), value })
    }

    /// The entries of a map.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, Self)> + use<'a> {
        let path = self.path.clone();
        let entries = self.value.as_object().into_iter().flatten();
        entries
            .map(move |(key, value)| (key.as_str(), Self { path: format!("{path}[{key}]"), value }))
    }

    /// The value.
    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    /// Where it stands.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The text, empty if there is none.
    pub(super) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    /// The whole number, if there is one.
    pub(super) fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// Whether there is something.
    pub(super) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Whether nothing, an empty text, list or object is there.
    pub(super) fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        }
    }
}

/// What is wrong with an object, fault by fault.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Cause>);

impl Faults {
    /// The faults in the order found, each said once.
    pub(super) fn into_causes(self) -> Vec<Cause> {
        let mut causes: Vec<Cause> = Vec::with_capacity(self.0.len());
        for cause in self.0 {
            if !causes.contains(&cause) {
                causes.push(cause);
            }
        }
        causes
    }

    /// Adds faults that were found elsewhere.
    pub(super) fn extend(&mut self, causes: Vec<Cause>) {
        self.0.extend(causes);
    }

    /// The value breaks a rule.
    pub(super) fn invalid(&mut self, field: &Field<'_>, why: &str) {
        self.0.push(Cause::invalid(field.path(), field.value(), why));
    }

    /// A text that stands somewhere in the field at `path` breaks a rule.
    pub(super) fn invalid_text(&mut self, path: &str, text: &str, why: &str) {
        self.0.push(Cause::invalid(path, &Value::from(text), why));
    }

    /// The value is missing. `why` may be empty.
    pub(super) fn required(&mut self, field: &Field<'_>, why: &str) {
        self.0.push(Cause::required(field.path(), why));
    }

    /// The value may not be set. `why` may be empty.
    pub(super) fn forbidden(&mut self, field: &Field<'_>, why: &str) {
        self.0.push(Cause::forbidden(field.path(), why));
    }

    /// The value names something that is not there.
    pub(super) fn not_found(&mut self, field: &Field<'_>) {
        let message = format!("Not found: {}", field.value());
        let field = field.path().to_owned();
        self.0.push(Cause { reason: "FieldValueNotFound", message, field });
    }

    /// The value must be set.
    pub(super) fn require(&mut self, field: &Field<'_>) -> bool {
        if field.is_empty() {
            self.required(field, "");
        }
        !field.is_empty()
    }

    /// The value, if set, must be one of these.
    pub(super) fn one_of(&mut self, field: &Field<'_>, supported: &[&str]) {
        if field.is_set() && !supported.contains(&field.text()) {
            self.0.push(Cause::not_supported(field.path(), field.value(), supported));
        }
    }

    /// The value must be one of these.
    pub(super) fn one_of_required(&mut self, field: &Field<'_>, supported: &[&str]) {
        if field.is_set() {
            self.one_of(field, supported);
        } else {
            self.required(field, "");
        }
    }

    /// A text that stands somewhere in the field at `path` is none of these.
    pub(super) fn not_supported_text(&mut self, path: &str, text: &str, supported: &[&str]) {
        self.0.push(Cause::not_supported(path, &Value::from(text), supported));
    }

    /// The value at `path` is missing.
    pub(super) fn required_at(&mut self, path: &str) {
        self.0.push(Cause::required(path, ""));
    }

    /// The value occurs a second time.
    pub(super) fn duplicate(&mut self, field: &Field<'_>) {
        self.0.push(Cause::duplicate(field.path(), field.value()));
    }

    /// Something said as `text` occurs twice.
    pub(super) fn duplicate_text(&mut self, path: &str, text: &str) {
        self.0.push(Cause::duplicate(path, &Value::from(text)));
    }

    /// The value is longer than so many bytes.
    pub(super) fn too_long(&mut self, field: &Field<'_>, longest: usize) {
        let message = format!("Too long: may not be more than {longest} bytes");
        let field = field.path().to_owned();
        self.0.push(Cause { reason: "FieldValueTooLong", message, field });
    }

    /// No two fields may have the same value.
    pub(super) fn distinct<'a>(&mut self, fields: impl Iterator<Item = Field<'a>>) {
        let mut seen: Vec<&Value> = Vec::new();
        for field in fields.filter(|field| !field.is_empty()) {
            if seen.contains(&field.value()) {
                self.duplicate(&field);
            }
            seen.push(field.value());
        }
    }

    /// A number, if set, must not be negative.
    pub(super) fn non_negative(&mut self, field: &Field<'_>) {
        if field.number().is_some_and(|number| number < 0) {
            self.invalid(field, "must be greater than or equal to 0");
        }
    }

    /// The value may not change.
    pub(super) fn immutable(&mut self, old: &Field<'_>, new: &Field<'_>) {
        if old.value() != new.value() {
            self.invalid(new, "field is immutable");
        }
    }
}
