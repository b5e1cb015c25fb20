//! A value with its path, and the faults of an object.

use std::rc::Rc;

use serde_json::Value;

use crate::status::Cause;

/// A value of an object with its path, for example `spec.containers[0].name`. The text of the path
/// is only made for a fault.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    path: Option<Rc<Path<'a>>>,
    value: &'a Value,
}

/// The last step to a value, and the path to what it is in.
#[derive(Debug)]
struct Path<'a> {
    parent: Option<Rc<Self>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl Path<'_> {
    fn write(&self, to: &mut String) {
        if let Some(parent) = &self.parent {
            parent.write(to);
        }
        match self.step {
            Step::Name(name) => {
                if !to.is_empty() {
                    to.push('.');
                }
                to.push_str(name);
            }
            Step::Index(index) => to.push_str(&format!("[{index}]")),
            Step::Key(key) => to.push_str(&format!("[{key}]")),
        }
    }
}

impl<'a> Field<'a> {
    /// Returns the whole object.
    pub(super) const fn root(value: &'a Value) -> Self {
        Self { path: None, value }
    }

    /// Returns the field `name`, null if absent.
    pub(super) fn child(&self, name: &'a str) -> Self {
        let path = Path { parent: self.path.clone(), step: Step::Name(name) };
        Self { path: Some(Rc::new(path)), value: &self.value[name] }
    }

    /// Returns the fields along a path of names.
    pub(super) fn at(&self, path: &[&'a str]) -> Self {
        path.iter().fold(self.clone(), |field, name| field.child(name))
    }

    /// Returns the items of a list.
    pub(super) fn items(&self) -> impl Iterator<Item = Self> + use<'a> {
        let parent = self.path.clone();
        let items = self.value.as_array().map(Vec::as_slice).unwrap_or_default().iter().enumerate();
        items.map(move |(index, value)| {
            let path = Path { parent: parent.clone(), step: Step::Index(index) };
            Self { path: Some(Rc::new(path)), value }
        })
    }

    /// Returns the entries of a map.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, Self)> + use<'a> {
        let parent = self.path.clone();
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(move |(key, value)| {
            let path = Path { parent: parent.clone(), step: Step::Key(key) };
            (key.as_str(), Self { path: Some(Rc::new(path)), value })
        })
    }

    /// Returns the value.
    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    /// Returns the path.
    pub(super) fn path(&self) -> String {
        let mut text = String::new();
        self.path.iter().for_each(|path| path.write(&mut text));
        text
    }

    /// Returns the text, empty if there is none.
    pub(super) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    /// Returns the whole number, if there is one.
    pub(super) fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// Returns whether the value is set.
    pub(super) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Returns whether the value is absent or an empty text, list or object.
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

/// The faults of an object.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Cause>);

impl Faults {
    /// Returns the distinct faults in the order found.
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

    /// Adds the fault of a value that violates a rule.
    pub(super) fn invalid(&mut self, field: &Field<'_>, why: &str) {
        self.0.push(Cause::invalid(field.path(), field.value(), why));
    }

    /// Adds the fault of a text in the field at `path` that violates a rule.
    pub(super) fn invalid_text(&mut self, path: &str, text: &str, why: &str) {
        self.0.push(Cause::invalid(path, &Value::from(text), why));
    }

    /// Adds the fault of a value that violates a rule and is printed in another form than JSON.
    pub(super) fn invalid_printed(&mut self, field: &Field<'_>, printed: &str, why: &str) {
        let message = format!("Invalid value: {printed}: {why}");
        let field = field.path();
        self.0.push(Cause { reason: "FieldValueInvalid", message, field });
    }

    /// Adds the fault of a missing value. `why` may be empty.
    pub(super) fn required(&mut self, field: &Field<'_>, why: &str) {
        self.0.push(Cause::required(field.path(), why));
    }

    /// Adds the fault of a value that must not be set. `why` may be empty.
    pub(super) fn forbidden(&mut self, field: &Field<'_>, why: &str) {
        self.0.push(Cause::forbidden(field.path(), why));
    }

    /// Adds the fault of a reference to something that does not exist.
    pub(super) fn not_found(&mut self, field: &Field<'_>) {
        let message = format!("Not found: {}", field.value());
        let field = field.path();
        self.0.push(Cause { reason: "FieldValueNotFound", message, field });
    }

    /// Adds the fault of a name in `field` that refers to something that does not exist.
    pub(super) fn not_found_because(&mut self, field: &Field<'_>, name: &Value, why: &str) {
        let message = format!("Not found: {name}: {why}");
        let field = field.path();
        self.0.push(Cause { reason: "FieldValueNotFound", message, field });
    }

    /// Checks that the value is set, and returns whether it is.
    pub(super) fn require(&mut self, field: &Field<'_>) -> bool {
        if field.is_empty() {
            self.required(field, "");
        }
        !field.is_empty()
    }

    /// Checks that the value, if set, is one of these.
    pub(super) fn one_of(&mut self, field: &Field<'_>, supported: &[&str]) {
        if field.is_set() && !supported.contains(&field.text()) {
            self.0.push(Cause::not_supported(field.path(), field.value(), supported));
        }
    }

    /// Checks that the value is one of these.
    pub(super) fn one_of_required(&mut self, field: &Field<'_>, supported: &[&str]) {
        if field.is_set() {
            self.one_of(field, supported);
        } else {
            self.required(field, "");
        }
    }

    /// Adds the fault of a text in the field at `path` that is none of these.
    pub(super) fn not_supported_text(&mut self, path: &str, text: &str, supported: &[&str]) {
        self.0.push(Cause::not_supported(path, &Value::from(text), supported));
    }

    /// Adds the fault of a missing value at `path`.
    pub(super) fn required_at(&mut self, path: &str) {
        self.0.push(Cause::required(path, ""));
    }

    /// Adds the fault of a duplicate value.
    pub(super) fn duplicate(&mut self, field: &Field<'_>) {
        self.0.push(Cause::duplicate(field.path(), field.value()));
    }

    /// Adds the fault of a duplicate, described by `text`.
    pub(super) fn duplicate_text(&mut self, path: &str, text: &str) {
        self.0.push(Cause::duplicate(path, &Value::from(text)));
    }

    /// Adds the fault of a value that is too long.
    pub(super) fn too_long(&mut self, field: &Field<'_>, longest: usize) {
        let message = format!("Too long: may not be more than {longest} bytes");
        let field = field.path();
        self.0.push(Cause { reason: "FieldValueTooLong", message, field });
    }

    /// Checks the number of items of a list, and returns whether they are few enough to be checked.
    pub(super) fn at_most(&mut self, list: &Field<'_>, most: usize) -> bool {
        let count = list.value().as_array().map_or(0, Vec::len);
        if count > most {
            self.0.push(Cause::too_many(list.path(), count, most));
        }
        count <= most
    }

    /// Adds the fault of a list or map with too many entries.
    pub(super) fn too_many(&mut self, field: &Field<'_>, count: usize, most: usize) {
        self.0.push(Cause::too_many(field.path(), count, most));
    }

    /// Checks that no two items of a list have the same value in the field `key`. A fault names the
    /// item.
    pub(super) fn distinct_by(&mut self, list: &Field<'_>, key: &str) {
        let mut seen: Vec<&Value> = Vec::new();
        for item in list.items() {
            let value = item.child(key).value();
            if seen.contains(&value) {
                self.0.push(Cause::duplicate(item.path(), value));
            }
            seen.push(value);
        }
    }

    /// Checks that no two fields have the same value.
    pub(super) fn distinct<'a>(&mut self, fields: impl Iterator<Item = Field<'a>>) {
        let mut seen: Vec<&Value> = Vec::new();
        for field in fields.filter(|field| !field.is_empty()) {
            if seen.contains(&field.value()) {
                self.duplicate(&field);
            }
            seen.push(field.value());
        }
    }

    /// Checks that a number, if set, is not negative.
    pub(super) fn non_negative(&mut self, field: &Field<'_>) {
        if field.number().is_some_and(|number| number < 0) {
            self.invalid(field, "must be greater than or equal to 0");
        }
    }

    /// Checks that the value does not change.
    pub(super) fn immutable(&mut self, old: &Field<'_>, new: &Field<'_>) {
        if old.value() != new.value() {
            self.invalid(new, "field is immutable");
        }
    }
}
