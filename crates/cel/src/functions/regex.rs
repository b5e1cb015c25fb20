//! Regular expressions.

use ::regex::{Regex, RegexBuilder};

use super::{Library, no_overload};
use crate::meter::Meter;
use crate::value::{Fault, Outcome, Value};

/// Maximum size of a compiled expression, in bytes, which also bounds the time to compile it.
const SIZE_LIMIT: usize = 1 << 20;
/// Longest expression that is computed, in bytes.
const LONGEST: usize = 10 << 10;

/// Work of compiling an expression that is computed.
const WORK: usize = 2_000;
/// The same for each byte of it.
const WORK_PER_BYTE: usize = 100;

/// `matches` of the standard library, `find` and `findAll`.
pub(crate) const LIBRARY: &Library = &[
    (
        "matches",
        matches,
        &["matches (string, string) -> bool", "matches_string string.(string) -> bool"],
    ),
    (
        "find",
        |meter, args| search("find", meter, args),
        &["string_find_string string.(string) -> string"],
    ),
    (
        "findAll",
        |meter, args| search("findAll", meter, args),
        &[
            "string_find_all_string string.(string) -> list(string)",
            "string_find_all_string_int string.(string, int) -> list(string)",
        ],
    ),
];

/// Compiles an expression, whose syntax is almost the syntax of the reference.
///
/// # Errors
///
/// The error in the words of the library, which differ from the words of the reference.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let describe = |error: ::regex::Error| {
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("error parsing regexp: {reason}: `{pattern}`")
    };
    if pattern.len() > LONGEST {
        return Err("error parsing regexp: expression too long".to_owned());
    }
    RegexBuilder::new(pattern)
        .size_limit(SIZE_LIMIT)
        .dfa_size_limit(SIZE_LIMIT)
        .build()
        .map_err(describe)
}

/// Compiles an expression that is computed, which costs nothing in CEL.
fn computed(meter: &mut Meter, pattern: &str) -> Result<Result<Regex, String>, Fault> {
    meter.work(WORK + WORK_PER_BYTE * pattern.len())?;
    Ok(compile(pattern))
}

/// Calls one of the functions with a regular expression in place of its text.
pub(crate) fn apply<'a>(
    meter: &mut Meter,
    function: &str,
    regex: &Regex,
    args: &[Value<'a>],
) -> Outcome<'a> {
    let text = match args {
        [Value::String(text), ..] => text,
        _ if function == "matches" => return Err(Fault::no_such_overload()),
        _ => return no_overload(function, args),
    };
    match function {
        "matches" => Ok(Value::Bool(regex.is_match(text))),
        "find" => Ok(Value::string(regex.find(text).map_or("", |found| found.as_str()))),
        _ => {
            let limit = match args.get(2) {
                // A negative limit is none.
                Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            let mut found = Vec::new();
            for text in regex.find_iter(text).take(limit) {
                meter.work(1)?;
                meter.text(text.len())?;
                found.push(Value::string(text.as_str()));
            }
            Ok(Value::list(found))
        }
    }
}

fn matches<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(_), Value::String(pattern)] => {
            let regex = computed(meter, pattern)?.map_err(Fault::new)?;
            apply(meter, "matches", &regex, args)
        }
        _ => Err(Fault::no_such_overload()),
    }
}

fn search<'a>(function: &str, meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(_), Value::String(pattern)]
        | [Value::String(_), Value::String(pattern), Value::Int(_)] => {
            let regex = computed(meter, pattern)?;
            let regex = regex.map_err(|error| Fault::new(format!("Illegal regex: {error}")))?;
            apply(meter, function, &regex, args)
        }
        _ => no_overload(function, args),
    }
}
