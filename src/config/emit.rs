//! JSON values as YAML in the style of Kubernetes: lists level with their key, texts without quotes
//! where possible.

use std::fmt::Write;

use serde_json::Value;

/// A document with a final line feed.
pub fn yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => block(value, 0, &mut out),
        Value::Array(items) if !items.is_empty() => block(value, 0, &mut out),
        inline => line(&indented(&scalar(inline), 2), &mut out),
    }
    out
}

/// Writes a non-empty list or object, starting at the end of `out`.
fn block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(fields) => {
            for (place, (name, value)) in fields.iter().enumerate() {
                pad(if place > 0 { indent } else { 0 }, out);
                out.push_str(&one_line(name));
                out.push(':');
                field(value, indent, out);
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                pad(if place > 0 { indent } else { 0 }, out);
                out.push_str("- ");
                match is_block(item) {
                    true => block(item, indent + 2, out),
                    false => line(&indented(&scalar(item), indent + 2), out),
                }
            }
        }
        _ => {}
    }
}

/// Writes the value of a field after the colon.
fn field(value: &Value, indent: usize, out: &mut String) {
    let below = match value {
        Value::Object(fields) if !fields.is_empty() => indent + 2,
        Value::Array(items) if !items.is_empty() => indent,
        inline => {
            out.push(' ');
            return line(&indented(&scalar(inline), indent + 2), out);
        }
    };
    out.push('\n');
    pad(below, out);
    block(value, below, out);
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn line(text: &str, out: &mut String) {
    out.push_str(text);
    out.push('\n');
}

/// The lines of a text after the first one, indented.
fn indented(scalar: &str, indent: usize) -> String {
    scalar.replace('\n', &format!("\n{:indent$}", ""))
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(value) => text(value),
        Value::Array(_) => "[]".to_owned(),
        Value::Object(_) => "{}".to_owned(),
    }
}

/// A text in the plainest form that parses as the same text.
fn text(value: &str) -> String {
    if value.contains('\n') && is_literal(value) { literal(value) } else { one_line(value) }
}

/// A text on a single line.
fn one_line(value: &str) -> String {
    if value.chars().any(must_be_escaped) || means_something_else(value) {
        return escaped(value);
    }
    match needs_quotes(value) {
        true => format!("'{}'", value.replace('\'', "''")),
        false => value.to_owned(),
    }
}

/// Whether a character would parse as another one or as the end of a line.
fn must_be_escaped(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// A text in double quotes.
fn escaped(value: &str) -> String {
    let mut written = String::from('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => written.extend(['\\', c]),
            '\n' => written.push_str("\\n"),
            '\t' => written.push_str("\\t"),
            // Writing to a string cannot fail.
            c if must_be_escaped(c) => drop(write!(written, "\\u{:04x}", u32::from(c))),
            c => written.push(c),
        }
    }
    written.push('"');
    written
}

/// Whether a text of several lines can be a block scalar.
fn is_literal(value: &str) -> bool {
    let strange = |c: char| must_be_escaped(c) && c != '\n';
    !value.chars().any(strange) && !value.starts_with([' ', '\n']) && !value.contains(" \n")
}

fn literal(value: &str) -> String {
    let (body, chomping) = match value.strip_suffix('\n') {
        Some(body) if body.ends_with('\n') => (body, "+"),
        Some(body) => (body, ""),
        None => (value, "-"),
    };
    let mut written = format!("|{chomping}");
    for line in body.split('\n') {
        // Writing to a string cannot fail.
        let _ = write!(written, "\n{line}");
    }
    written
}

/// Whether the text without quotes would parse as another type.
fn means_something_else(value: &str) -> bool {
    const WORDS: [&str; 11] =
        ["", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let lower = value.to_ascii_lowercase();
    WORDS.contains(&lower.as_str())
        || value == "<<"
        || [".inf", "-.inf", "+.inf", ".nan"].contains(&lower.as_str())
        || looks_like_a_number(value)
}

fn looks_like_a_number(value: &str) -> bool {
    let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
    let starts =
        digits.strip_prefix('.').unwrap_or(digits).starts_with(|c: char| c.is_ascii_digit());
    let is_part = |c: char| c.is_ascii_hexdigit() || "._:-+xobeETZ ".contains(c);
    starts && digits.chars().all(is_part)
}

/// Whether the text needs quotes.
fn needs_quotes(value: &str) -> bool {
    const INDICATORS: &[char] = &[
        '-', '?', ':', ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@',
        '`',
    ];
    let indicated = match value.strip_prefix(['-', '?', ':']) {
        Some(rest) => rest.is_empty() || rest.starts_with(' '),
        None => value.starts_with(INDICATORS),
    };
    indicated
        || value.starts_with(' ')
        || value.ends_with([' ', ':'])
        || value.starts_with("---")
        || value.starts_with("...")
        || value.contains(": ")
        || value.contains(" #")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::yaml as reader;

    #[test]
    fn documents_are_formatted_like_those_of_kubernetes() {
        let value = json!({
            "a": {"empty": "", "list": [{"name": "*", "weight": 0}, {"name": "x"}], "none": {}},
            "b": [[1, 2], [], "two"],
            "c": null,
            "d": {"e": {"f": true}},
        });
        let expected = "\
a:
  empty: \"\"
  list:
  - name: '*'
    weight: 0
  - name: x
  none: {}
b:
- - 1
  - 2
- []
- two
c: null
d:
  e:
    f: true
";
        assert_eq!(yaml(&value), expected);
    }

    #[test]
    fn every_text_parses_as_itself() {
        let texts = [
            "",
            " ",
            "a",
            "a b",
            "yes",
            "No",
            "ON",
            "null",
            "~",
            "1",
            "1.5",
            "-3",
            "0x1f",
            "1e3",
            "10s",
            "2024-01-01",
            "1:30",
            ".5",
            "*",
            "- a",
            "-a",
            "?",
            ":",
            "a: b",
            "a:b",
            "a:",
            "a #b",
            "a#b",
            "#a",
            "@a",
            "`",
            "'",
            "''",
            "it's",
            "\"",
            "a\"b",
            "[a",
            "{",
            "}",
            "!t",
            "&a",
            "%",
            "|",
            ">",
            "a\nb",
            "a\nb\n",
            "a\n\nb\n\n",
            "\na",
            " a\nb",
            "a \nb",
            "tab\tx",
            "\u{1}",
            "é",
            "=",
            "<<",
            "---",
            "--- a",
            "...",
            "kubescheduler.config.k8s.io/v1",
            "http://127.0.0.1:8888/",
            "::bad",
            ".inf",
            "a,b",
            "x]",
            "true ",
            "\u{85}",
            "\u{feff}a",
        ];
        for text in texts {
            for value in [json!(text), json!({"a": [text, {text: text}]}), json!([[text], text])] {
                let written = yaml(&value);
                let read = reader::read(&written).unwrap_or_else(|e| panic!("{written:?}: {e}"));
                assert_eq!(read.tree.to_value(), value, "{written:?}");
            }
        }
    }
}
