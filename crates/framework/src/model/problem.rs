//! What is wrong with one field of an object.

use std::fmt;

/// A field that could not be used as written; the object is kept, the field is left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Where in the object, for example `spec.containers[0].resources.requests[cpu]`.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl Problem {
    /// A problem with the field at `path`.
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
    fn reads_as_path_and_message() {
        assert_eq!(
            Problem::new("spec.overhead[cpu]", "too odd").to_string(),
            "spec.overhead[cpu]: too odd"
        );
    }
}
