//! The functions of the environment, one module for each library.

use crate::declarations::Implementation;
use crate::value::{Fault, Value};

pub(crate) mod conversions;
pub(crate) mod format;
pub(crate) mod lists;
pub(crate) mod maps;
pub(crate) mod net;
pub(crate) mod operators;
pub(crate) mod optional;
pub(crate) mod quantity;
pub(crate) mod regex;
pub(crate) mod semver;
pub(crate) mod string_format;
pub(crate) mod strings;
pub(crate) mod time;
pub(crate) mod url;

/// The functions of a library: name, implementation, and overloads.
type Library = [(&'static str, Implementation, &'static [&'static str])];

/// All functions. Libraries that add overloads to a function of another one share its
/// implementation.
pub(crate) const LIBRARIES: &[&Library] = &[
    operators::LIBRARY,
    conversions::LIBRARY,
    strings::LIBRARY,
    time::LIBRARY,
    regex::LIBRARY,
    lists::LIBRARY,
    maps::LIBRARY,
    optional::LIBRARY,
    quantity::LIBRARY,
    semver::LIBRARY,
    net::LIBRARY,
    url::LIBRARY,
    format::LIBRARY,
];

/// Returns whether a text may be the first argument of a function, for the functions whose literals
/// are checked when the expression is compiled.
pub(crate) fn is_valid_literal(function: &str, text: &str) -> bool {
    match function {
        "matches" => regex::compile(text).is_ok(),
        "duration" => time::parse_duration(text).is_some(),
        "timestamp" => time::parse_timestamp(text).is_some(),
        _ => true,
    }
}

/// Returns the error for arguments that no overload of a function accepts.
fn no_overload<'a>(function: &str, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    Err(Fault::no_overload_of(function, args))
}
