//! Problems with single fields of an object.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A field that could not be used as written. The object is used without the field.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Problem {
    /// Path of the field, for example `spec.containers[0].resources.requests[cpu]`.
    pub path: String,
    /// Description of the problem.
    pub message: String,
}

impl Problem {
    /// Returns a problem with the field at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_prints_path_and_message() {
        assert_eq!(
            Problem::new("spec.overhead[cpu]", "too odd").to_string(),
            "spec.overhead[cpu]: too odd"
        );
    }
}
