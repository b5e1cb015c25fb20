//! What the arguments of several plugins have in common.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

/// A resource and its weight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceSpec {
    /// Name of the resource.
    pub name: String,
    /// The weight.
    #[serde(default)]
    pub weight: i64,
}

impl ResourceSpec {
    pub(crate) fn new(name: &str, weight: i64) -> Self {
        Self { name: name.to_owned(), weight }
    }
}

/// The faults of arguments, as Kubernetes prints them.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<String>);

impl Faults {
    /// Adds that the field at `path` has an invalid value. `value` is printed as it is.
    pub(crate) fn invalid(&mut self, path: impl Display, value: impl Display, detail: &str) {
        self.0.push(format!("{path}: Invalid value: {value}: {detail}"));
    }

    /// Returns `checked` if there are no faults.
    ///
    /// # Errors
    /// All faults in one text.
    pub(crate) fn none_or<T>(self, checked: T) -> Result<T, String> {
        match &self.0[..] {
            [] => Ok(checked),
            [fault] => Err(fault.clone()),
            faults => Err(format!("[{}]", faults.join(", "))),
        }
    }
}
