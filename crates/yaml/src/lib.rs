//! YAML and JSON as kubectl and kube-scheduler read them: YAML 1.1 with `yes`, `on`, octal numbers
//! and merge keys, in UTF-8 or UTF-16, with or without a byte order mark. The only crate that uses
//! the YAML library.
//!
//! The library knows YAML 1.2. It passes on plain scalars as parts of the text, so that `plain` can
//! tell them from quoted ones.
//!
//! - [`known_fields`]: unknown and duplicate fields of the kinds of Kubernetes.

mod depth;
mod encoding;
pub mod known_fields;
mod plain;
mod value;

use std::fmt;

use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::encoding::{NotText, text_of, without_mark};
pub use self::plain::number_of;
use self::value::Document;

/// A value, and what its text says twice.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    /// The value. Of a field that is given twice it has the last one.
    pub value: Value,
    /// The paths of fields that are given twice.
    pub repeated: Vec<String>,
}

/// A field that is given a second time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeated {
    /// The line of its value, from 1.
    pub line: usize,
    /// Its name.
    pub key: String,
}

/// A text that is not YAML.
#[derive(Debug)]
pub enum Error {
    /// Too many brackets are open.
    TooDeep {
        /// The line, from 1.
        line: usize,
    },
    /// The text breaks the grammar, or has a value that JSON does not have.
    Invalid(serde_yaml::Error),
}

impl Error {
    /// Returns the line, from 1, if it is known.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::TooDeep { line } => Some(*line),
            Self::Invalid(error) => Some(error.location()?.line()),
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep { line } => {
                write!(f, "more than {} brackets are open at line {line}", depth::MOST_BRACKETS)
            }
            Self::Invalid(error) => error.fmt(f),
        }
    }
}

/// Reads the first document of a YAML text; the rest is ignored. A text without a document is
/// `null`.
///
/// # Errors
/// The text is not YAML, or its aliases make it too large.
pub fn read(text: &str) -> Result<Parsed, Error> {
    let text = without_mark(text);
    match depth::too_deep(text) {
        Some(place) => Err(Error::TooDeep { line: 1 + place }),
        None => parse(text, &Document::yaml(text)).map_err(Error::Invalid),
    }
}

/// Reads a text with one document that begins at this line of its file, from 1. Errors name lines
/// of the file.
///
/// # Errors
/// The text is not YAML, has more than one document, or its aliases make it too large.
pub fn read_at(text: &str, line: usize) -> Result<Parsed, Error> {
    read_only(text).or_else(|_| {
        // Reads it again after that many empty lines, to get the line numbers of the file.
        read_only(&("\n".repeat(line.saturating_sub(1)) + without_mark(text)))
    })
}

/// Reads a text that has no second document.
fn read_only(text: &str) -> Result<Parsed, Error> {
    let parsed = read(text)?;
    let rest = serde_yaml::Deserializer::from_str(without_mark(text)).nth(1);
    match rest.map(IgnoredAny::deserialize) {
        None => Ok(parsed),
        Some(Err(error)) => Err(Error::Invalid(error)),
        Some(Ok(_)) => Err(Error::Invalid(serde_yaml::Error::custom("a second document follows"))),
    }
}

/// Returns the repeated field with this index, in the order of the text. The library reports lines
/// only in errors, so each repeated field needs a pass of its own.
pub fn repeated(text: &str, index: usize) -> Option<Repeated> {
    let text = without_mark(text);
    let document = Document::yaml(text).that_stops_at(index);
    let line = parse(text, &document).err()?.location()?.line();
    Some(Repeated { line, key: document.stopped()? })
}

/// Decodes a YAML text. The error names the field.
///
/// # Errors
/// The text is not YAML, gives a field twice, or does not fit the type.
pub fn decode<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let Parsed { value, repeated } = read(text).map_err(|error| error.to_string())?;
    if let Some(path) = repeated.first() {
        return Err(format!("duplicate field {path:?}"));
    }
    serde_path_to_error::deserialize(value).map_err(|error| error.to_string())
}

/// Reads a JSON text, in which every scalar means itself.
///
/// # Errors
/// The text is not JSON.
pub fn read_json(text: &str) -> Result<Parsed, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let parsed = value::read(&mut deserializer, &Document::json())?;
    deserializer.end()?;
    Ok(parsed)
}

/// Writes one document.
///
/// # Errors
/// The value has maps with keys that are not texts.
pub fn to_string(value: &impl Serialize) -> Result<String, String> {
    serde_yaml::to_string(value).map_err(|error| error.to_string())
}

fn parse(text: &str, document: &Document<'_>) -> Result<Parsed, serde_yaml::Error> {
    match serde_yaml::Deserializer::from_str(text).next() {
        Some(first) => value::read(first, document),
        None => Ok(Parsed::default()),
    }
}

#[cfg(test)]
mod tests;
