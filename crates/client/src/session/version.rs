//! Resource versions.

use std::fmt;
use std::sync::Arc;

/// A resource version, kept as the number that it is with every current API server (Kubernetes
/// promises comparable numbers since 1.35), as text otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Version {
    Number(u64),
    Opaque(Arc<str>),
}

impl Version {
    /// Whether it is known to lie before `other`; what is no number has no order.
    pub(super) fn is_older_than(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Number(this), Self::Number(other)) if this < other)
    }
}

impl From<&Arc<str>> for Version {
    /// Only what prints as it was written counts as a number: neither `+7` nor `007`.
    fn from(text: &Arc<str>) -> Self {
        match text.parse::<u64>() {
            Ok(number) if number.to_string() == **text => Self::Number(number),
            _ => Self::Opaque(text.clone()),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Opaque(text) => text.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::from(&Arc::from(text))
    }

    #[test]
    fn numbers_are_ordered_and_all_else_is_not() {
        for (left, right, older) in [
            ("9", "10", true),
            ("10", "9", false),
            ("10", "10", false),
            ("a", "b", false),
            ("9", "x10", false),
            ("007", "8", false),
            ("", "1", false),
        ] {
            assert_eq!(version(left).is_older_than(&version(right)), older, "{left} {right}");
        }
    }

    #[test]
    fn every_version_prints_as_it_was_written() {
        for text in ["0", "7", "18446744073709551615", "18446744073709551616", "+7", "007", ""] {
            assert_eq!(version(text).to_string(), text);
        }
    }
}
