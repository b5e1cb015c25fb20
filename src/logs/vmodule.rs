//! Higher verbosities for single files (`--vmodule`).

use std::fmt;
use std::str::FromStr;

use glob::Pattern;
use tracing::Metadata;

/// Patterns of files, each with a verbosity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vmodule(Vec<(Pattern, u8)>);

/// The errors of `--vmodule`, with the texts of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VmoduleError {
    /// An entry has no pattern or no verbosity.
    #[error("{0:?} does not have the pattern=N format")]
    Format(String),
    /// A verbosity is not a number.
    #[error(
        "parsing verbosity in {entry:?}: strconv.ParseUint: parsing {number:?}: invalid syntax"
    )]
    Verbosity {
        /// The entry.
        entry: String,
        /// The text in the place of the verbosity.
        number: String,
    },
    /// A pattern is malformed.
    #[error("{0:?}: syntax error in pattern")]
    Pattern(String),
}

impl Vmodule {
    /// Whether there is no pattern.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the highest verbosity of any file.
    pub(super) fn highest(&self) -> u8 {
        self.0.iter().map(|(_, verbosity)| *verbosity).max().unwrap_or(0)
    }

    /// Returns the verbosity of the first pattern that matches the file of an event, or its module:
    /// the file of the module `http` is `http/mod.rs`.
    pub(super) fn verbosity(&self, event: &Metadata<'_>) -> u8 {
        let file = event.file().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let stem = file.strip_suffix(".rs").unwrap_or(file);
        let module = event.module_path().and_then(|path| path.rsplit(':').next());
        let names = [stem, module.unwrap_or_default()];
        let matching = |pattern: &Pattern| names.iter().any(|name| pattern.matches(name));
        self.0.iter().find(|(pattern, _)| matching(pattern)).map_or(0, |(_, verbosity)| *verbosity)
    }
}

impl FromStr for Vmodule {
    type Err = VmoduleError;

    fn from_str(text: &str) -> Result<Self, VmoduleError> {
        let entries = text.split(',').filter(|entry| !entry.is_empty());
        entries.map(entry).collect::<Result<_, _>>().map(Self)
    }
}

fn entry(text: &str) -> Result<(Pattern, u8), VmoduleError> {
    let format = || VmoduleError::Format(text.to_owned());
    let (pattern, number) = text.split_once('=').ok_or_else(format)?;
    if pattern.is_empty() || number.is_empty() || number.contains('=') {
        return Err(format());
    }
    let verbosity: u32 = number.parse().map_err(|_| VmoduleError::Verbosity {
        entry: text.to_owned(),
        number: number.to_owned(),
    })?;
    let pattern = Pattern::new(pattern).map_err(|_| VmoduleError::Pattern(pattern.to_owned()))?;
    Ok((pattern, verbosity.try_into().unwrap_or(u8::MAX)))
}

impl fmt::Display for Vmodule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (pattern, verbosity)) in self.0.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{pattern}={verbosity}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_print_as_they_were_given() {
        for (text, printed) in [
            ("", ""),
            ("run=4", "run=4"),
            ("serv*=2,q?eue=6,", "serv*=2,q?eue=6"),
            ("a=1000", "a=255"),
        ] {
            assert_eq!(text.parse::<Vmodule>().unwrap().to_string(), printed);
        }
    }

    #[test]
    fn invalid_patterns_have_the_error_texts_of_kubernetes() {
        for (text, expected) in [
            ("run", "\"run\" does not have the pattern=N format"),
            ("run=", "\"run=\" does not have the pattern=N format"),
            ("a=1,=4", "\"=4\" does not have the pattern=N format"),
            ("a=1=2", "\"a=1=2\" does not have the pattern=N format"),
            (
                "run=x",
                "parsing verbosity in \"run=x\": strconv.ParseUint: parsing \"x\": invalid syntax",
            ),
            ("[a=1", "\"[a\": syntax error in pattern"),
        ] {
            assert_eq!(text.parse::<Vmodule>().unwrap_err().to_string(), expected);
        }
    }
}
