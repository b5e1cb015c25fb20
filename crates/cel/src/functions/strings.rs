//! Strings: the standard library and the extension of strings in version 2.

use std::fmt::Write;

use super::{Library, lists, no_overload, string_format};
use crate::meter::Meter;
use crate::value::{Fault, Outcome, Value};

/// The functions of strings. Positions count characters.
pub(crate) const LIBRARY: &Library = &[
    (
        "contains",
        |_, args| test(args, |a, b| a.contains(b)),
        &["contains_string string.(string) -> bool"],
    ),
    (
        "startsWith",
        |_, args| test(args, |a, b| a.starts_with(b)),
        &["starts_with_string string.(string) -> bool"],
    ),
    (
        "endsWith",
        |_, args| test(args, |a, b| a.ends_with(b)),
        &["ends_with_string string.(string) -> bool"],
    ),
    ("charAt", char_at, &["string_char_at_int string.(int) -> string"]),
    (
        "indexOf",
        index_of,
        &[
            "string_index_of_string string.(string) -> int",
            "string_index_of_string_int string.(string, int) -> int",
            "list_a_index_of_int list(A).(A) -> int",
        ],
    ),
    (
        "lastIndexOf",
        last_index_of,
        &[
            "string_last_index_of_string string.(string) -> int",
            "string_last_index_of_string_int string.(string, int) -> int",
            "list_a_last_index_of_int list(A).(A) -> int",
        ],
    ),
    (
        "join",
        join,
        &[
            "list_join list(string).() -> string",
            "list_join_string list(string).(string) -> string",
        ],
    ),
    (
        "lowerAscii",
        |meter, args| map("lowerAscii", meter, args, str::to_ascii_lowercase),
        &["string_lower_ascii string.() -> string"],
    ),
    (
        "upperAscii",
        |meter, args| map("upperAscii", meter, args, str::to_ascii_uppercase),
        &["string_upper_ascii string.() -> string"],
    ),
    (
        "trim",
        |meter, args| map("trim", meter, args, |text| text.trim().to_owned()),
        &["string_trim string.() -> string"],
    ),
    (
        "replace",
        replace,
        &[
            "string_replace_string_string string.(string, string) -> string",
            "string_replace_string_string_int string.(string, string, int) -> string",
        ],
    ),
    (
        "split",
        split,
        &[
            "string_split_string string.(string) -> list(string)",
            "string_split_string_int string.(string, int) -> list(string)",
        ],
    ),
    (
        "substring",
        substring,
        &[
            "string_substring_int string.(int) -> string",
            "string_substring_int_int string.(int, int) -> string",
        ],
    ),
    ("format", string_format::format, &["string_format string.(list(dyn)) -> string"]),
    ("strings.quote", quote, &["strings_quote (string) -> string"]),
];

fn test<'a>(args: &[Value<'a>], holds: fn(&str, &str) -> bool) -> Outcome<'a> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(holds(text, part))),
        _ => Err(Fault::no_such_overload()),
    }
}

fn map<'a>(
    function: &str,
    meter: &mut Meter,
    args: &[Value<'a>],
    mapped: fn(&str) -> String,
) -> Outcome<'a> {
    match args {
        [Value::String(text)] => {
            meter.text(text.len())?;
            Ok(Value::string(mapped(text)))
        }
        _ => no_overload(function, args),
    }
}

fn out_of_range<T>(index: i64) -> Result<T, Fault> {
    Err(Fault::new(format!("index out of range: {index}")))
}

/// Returns the byte at which a character begins, or the end.
fn byte_of(text: &str, index: i64) -> Result<usize, Fault> {
    let Ok(position) = usize::try_from(index) else { return out_of_range(index) };
    let mut starts = text.char_indices().map(|(byte, _)| byte).chain([text.len()]);
    match starts.nth(position) {
        Some(byte) => Ok(byte),
        None => out_of_range(index),
    }
}

fn characters(text: &str) -> i64 {
    text.chars().count() as i64
}

fn char_at<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text), Value::Int(index)] = args else {
        return no_overload("charAt", args);
    };
    let rest = &text[byte_of(text, *index)?..];
    Ok(Value::string(rest.chars().next().map_or(String::new(), String::from)))
}

fn index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, part, offset) = match args {
        [Value::String(text), Value::String(part)] => (text, part, 0),
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text, part, *offset),
        [Value::List(values), value] => {
            return lists::position(meter, values.iter().enumerate(), value);
        }
        _ => return no_overload("indexOf", args),
    };
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    let start = byte_of(text, offset)?;
    let found = text[start..].find(&**part);
    Ok(Value::Int(found.map_or(-1, |byte| characters(&text[..start + byte]))))
}

fn last_index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, part, offset) = match args {
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(offset)] => {
            (text, part, Some(*offset))
        }
        [Value::List(values), value] => {
            return lists::position(meter, values.iter().enumerate().rev(), value);
        }
        _ => return no_overload("lastIndexOf", args),
    };
    let length = characters(text);
    let offset = match offset {
        Some(offset) if part.is_empty() => return Ok(Value::Int(offset)),
        None if part.is_empty() => return Ok(Value::Int(length)),
        Some(offset) if offset < 0 || offset >= length => return out_of_range(offset),
        Some(offset) => offset,
        None => length,
    };
    let start = byte_of(text, offset)?;
    let end = (start + part.len()).min(text.len());
    let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    let found = text[..end].rfind(&**part);
    Ok(Value::Int(found.map_or(-1, |byte| characters(&text[..byte]))))
}

fn join<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (values, separator) = match args {
        [Value::List(values)] => (values, ""),
        [Value::List(values), Value::String(separator)] => (values, &**separator),
        _ => return no_overload("join", args),
    };
    let mut joined = String::new();
    for (index, value) in values.iter().enumerate() {
        let Value::String(text) = value else { return Err(Fault::no_such_overload()) };
        meter.text(text.len() + separator.len())?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    Ok(Value::string(joined))
}

fn replace<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, old, new, most) = match args {
        [Value::String(text), Value::String(old), Value::String(new)] => {
            (text, old, new, usize::MAX)
        }
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(most)] => {
            (text, old, new, usize::try_from(*most).unwrap_or(usize::MAX))
        }
        _ => return no_overload("replace", args),
    };
    let count = text.matches(&**old).take(most).count();
    meter.work(count)?;
    meter.text(text.len().saturating_add(count.saturating_mul(new.len())))?;
    Ok(Value::string(text.replacen(&**old, new, most)))
}

fn split<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, separator, most) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, usize::MAX),
        [Value::String(text), Value::String(separator), Value::Int(most)] => {
            (text, separator, usize::try_from(*most).unwrap_or(usize::MAX))
        }
        _ => return no_overload("split", args),
    };
    if most == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let mut parts = Vec::new();
    let mut rest = &**text;
    while parts.len() + 1 < most {
        // An empty separator stands between all characters.
        let found = if separator.is_empty() {
            rest.chars().next().map(char::len_utf8).filter(|length| *length < rest.len())
        } else {
            rest.find(&**separator)
        };
        let Some(end) = found else { break };
        meter.work(1)?;
        meter.text(end)?;
        parts.push(Value::string(&rest[..end]));
        rest = &rest[end + separator.len()..];
    }
    if !(separator.is_empty() && rest.is_empty()) {
        meter.text(rest.len())?;
        parts.push(Value::string(rest));
    }
    Ok(Value::list(parts))
}

fn substring<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return no_overload("substring", args),
    };
    if let Some(end) = end
        && start > end
    {
        return Err(Fault::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let first = byte_of(text, start)?;
    let last = match end {
        Some(end) => byte_of(text, end)?,
        None => text.len(),
    };
    meter.text(last - first)?;
    Ok(Value::string(&text[first..last]))
}

fn quote<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return no_overload("strings.quote", args) };
    meter.text(2 * text.len())?;
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => {
                // Writing to a String cannot fail.
                let _ = quoted.write_char(other);
            }
        }
    }
    quoted.push('"');
    Ok(Value::string(quoted))
}
