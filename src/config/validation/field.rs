//! Errors of fields and their texts.

use std::fmt;

use serde::Serialize;

/// The path from the root of the configuration to a field.
#[derive(Debug, Clone)]
pub(super) struct Path(String);

impl Path {
    /// Returns the path of a field of the configuration itself.
    pub(super) fn root(field: &str) -> Self {
        Self(field.to_owned())
    }

    /// Returns the path of a field of this object.
    pub(super) fn field(&self, name: &str) -> Self {
        Self(format!("{}.{name}", self.0))
    }

    /// Returns the path of an item of this list.
    pub(super) fn item(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An invalid field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {fault}")]
pub struct FieldError {
    /// Path, for example `profiles[0].schedulerName`.
    pub path: String,
    /// The error.
    pub fault: Fault,
}

/// The error of a field. Values are in printed form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The field is required.
    Required {
        /// Explanation; may be empty.
        detail: String,
    },
    /// The value is invalid.
    Invalid {
        /// The value.
        value: String,
        /// Explanation.
        detail: String,
    },
    /// The value is a duplicate.
    Duplicate {
        /// The repeated value.
        value: String,
    },
    /// The field is forbidden.
    Forbidden {
        /// The reason.
        detail: String,
    },
    /// The value is not supported.
    Unsupported {
        /// The value.
        value: String,
        /// The supported values.
        supported: &'static [&'static str],
    },
    /// An error of a label selector, in its own words.
    Selector(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Required { detail } if detail.is_empty() => f.write_str("Required value"),
            Self::Required { detail } => write!(f, "Required value: {detail}"),
            Self::Invalid { value, detail } => write!(f, "Invalid value: {value}: {detail}"),
            Self::Duplicate { value } => write!(f, "Duplicate value: {value}"),
            Self::Forbidden { detail } => write!(f, "Forbidden: {detail}"),
            Self::Unsupported { value, supported } => {
                write!(f, "Unsupported value: {value}: supported values: ")?;
                for (place, value) in supported.iter().enumerate() {
                    let comma = if place > 0 { ", " } else { "" };
                    write!(f, "{comma}{value:?}")?;
                }
                Ok(())
            }
            Self::Selector(text) => f.write_str(text),
        }
    }
}

/// All errors of a configuration, without repetition, in the order of the checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    /// The single errors.
    pub fn iter(&self) -> impl Iterator<Item = &FieldError> {
        self.0.iter()
    }

    /// Whether there is no error.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, path: impl fmt::Display, fault: Fault) {
        let error = FieldError { path: path.to_string(), fault };
        if !self.0.contains(&error) {
            self.0.push(error);
        }
    }

    pub(super) fn required(&mut self, path: impl fmt::Display, detail: &str) {
        self.add(path, Fault::Required { detail: detail.to_owned() });
    }

    pub(crate) fn invalid(
        &mut self,
        path: impl fmt::Display,
        value: &impl Serialize,
        detail: &str,
    ) {
        let value = shown(value);
        self.add(path, Fault::Invalid { value, detail: detail.to_owned() });
    }

    pub(super) fn duplicate(&mut self, path: impl fmt::Display, value: &impl Serialize) {
        self.add(path, Fault::Duplicate { value: shown(value) });
    }

    pub(crate) fn forbidden(&mut self, path: impl fmt::Display, detail: &str) {
        self.add(path, Fault::Forbidden { detail: detail.to_owned() });
    }

    pub(super) fn unsupported(
        &mut self,
        path: impl fmt::Display,
        value: &str,
        supported: &'static [&'static str],
    ) {
        self.add(path, Fault::Unsupported { value: shown(&value), supported });
    }

    /// Adds a message that begins with the path of its field.
    pub(super) fn selector(&mut self, message: &str) {
        let (path, text) = message.split_once(": ").unwrap_or((message, ""));
        self.add(path, Fault::Selector(text.to_owned()));
    }
}

/// A value as kube-scheduler prints it.
fn shown(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

impl std::error::Error for FieldErrors {}

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = &self.0[..] {
            return only.fmt(f);
        }
        f.write_str("[")?;
        for (place, error) in self.0.iter().enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            write!(f, "{comma}{error}")?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_texts_of_kubernetes() {
        let mut errors = FieldErrors::default();
        let path = Path::root("profiles").item(1);
        errors.required(path.field("schedulerName"), "");
        assert_eq!(errors.to_string(), "profiles[1].schedulerName: Required value");
        errors.invalid("a", &5, "too many");
        errors.invalid("a", &5, "too many");
        errors.duplicate("b", &"x\"y");
        errors.forbidden("c", "no");
        errors.unsupported("d", "Foo", &["A", "B"]);
        errors.selector("e.f: Invalid value: 1: odd: very");
        assert_eq!(
            errors.to_string(),
            "[profiles[1].schedulerName: Required value, a: Invalid value: 5: too many, \
             b: Duplicate value: \"x\\\"y\", c: Forbidden: no, \
             d: Unsupported value: \"Foo\": supported values: \"A\", \"B\", \
             e.f: Invalid value: 1: odd: very]"
        );
        assert_eq!(errors.iter().last().unwrap().path, "e.f");
    }
}
