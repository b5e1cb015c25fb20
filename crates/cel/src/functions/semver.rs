//! Semantic versions.

use std::sync::Arc;

use framework::device::Version;

use super::{Library, no_overload};
use crate::meter::Meter;
use crate::value::{Fault, Held, Outcome, Value};

/// The functions of versions; comparisons work as for quantities.
pub(crate) const LIBRARY: &Library = &[
    (
        "semver",
        semver,
        &["string_to_semver (string) -> semver", "string_bool_to_semver (string, bool) -> semver"],
    ),
    (
        "isSemver",
        is_semver,
        &["is_semver_string (string) -> bool", "is_semver_string_bool (string, bool) -> bool"],
    ),
    ("major", |_, args| part("major", args, |it| it.major), &["semver_major semver.() -> int"]),
    ("minor", |_, args| part("minor", args, |it| it.minor), &["semver_minor semver.() -> int"]),
    ("patch", |_, args| part("patch", args, |it| it.patch), &["semver_patch semver.() -> int"]),
];

fn parse(args: &[Value<'_>]) -> Option<Result<Version, Fault>> {
    let parsed = match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Version::parse(text),
        [Value::String(text), Value::Bool(true)] => Version::parse_relaxed(text),
        _ => return None,
    };
    Some(parsed.map_err(|error| Fault::new(error.to_string())))
}

fn semver<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match parse(args) {
        Some(parsed) => Ok(Value::Version(Held::Shared(Arc::new(parsed?)))),
        None => no_overload("semver", args),
    }
}

fn is_semver<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match parse(args) {
        Some(parsed) => Ok(Value::Bool(parsed.is_ok())),
        None => no_overload("isSemver", args),
    }
}

fn part<'a>(function: &str, args: &[Value<'a>], part: fn(&Version) -> u64) -> Outcome<'a> {
    match args {
        [Value::Version(version)] => Ok(Value::Int(part(version) as i64)),
        _ => no_overload(function, args),
    }
}
