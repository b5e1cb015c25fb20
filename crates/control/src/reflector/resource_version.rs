//! Resource versions.

use std::fmt;
use std::sync::Arc;

/// A resource version. Kubernetes guarantees comparable numbers since 1.35; anything else is kept
/// as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ResourceVersion {
    Number(u64),
    Opaque(Arc<str>),
}

impl ResourceVersion {
    /// Returns whether both versions are numbers and this one is lower.
    pub(super) fn is_older_than(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Number(this), Self::Number(other)) if this < other)
    }
}

impl From<&Arc<str>> for ResourceVersion {
    /// Parses a number only if formatting it gives the same text: not `+7` or `007`.
    fn from(text: &Arc<str>) -> Self {
        match text.parse::<u64>() {
            Ok(number) if number.to_string() == **text => Self::Number(number),
            _ => Self::Opaque(text.clone()),
        }
    }
}

impl fmt::Display for ResourceVersion {
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

    fn version(text: &str) -> ResourceVersion {
        ResourceVersion::from(&Arc::from(text))
    }

    #[test]
    fn only_numbers_are_ordered() {
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
    fn formatting_preserves_every_version() {
        for text in ["0", "7", "18446744073709551615", "18446744073709551616", "+7", "007", ""] {
            assert_eq!(version(text).to_string(), text);
        }
    }
}
