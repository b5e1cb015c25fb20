//! `'…'.format([…])`.

use super::{conversions, no_overload, time};
use crate::meter::Meter;
use crate::value::{Fault, Outcome, Value};

/// Digits behind the point without a precision.
const DEFAULT_PRECISION: usize = 6;
/// Largest precision.
const MOST_DIGITS: usize = 1000;

/// Replaces the clauses of a text (`%s`, `%d`, `%.2f`, `%e`, `%b`, `%x`, `%X`, `%o`) with the
/// arguments.
pub(crate) fn format<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(template), Value::List(values)] = args else {
        return no_overload("format", args);
    };
    let mut output = String::new();
    let mut values = values.iter().enumerate();
    let mut rest = &**template;
    while let Some((before, after)) = rest.split_once('%') {
        output.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            output.push('%');
            rest = after;
            continue;
        }
        let (precision, after) = precision(after)?;
        let mut clause = after.chars();
        let Some(verb) = clause.next() else {
            return Err(Fault::new("could not parse formatting clause: unexpected end of string"));
        };
        let Some((index, value)) = values.next() else {
            return Err(Fault::new(format!("index {} out of range", args_len(args))));
        };
        let before = output.len();
        append(&mut output, verb, precision, value, meter)
            .map_err(|fault| in_clause(fault, index))?;
        meter.text(output.len() - before)?;
        rest = clause.as_str();
    }
    output.push_str(rest);
    meter.text(output.len())?;
    Ok(Value::string(output))
}

fn args_len(args: &[Value<'_>]) -> usize {
    match args {
        [_, Value::List(values)] => values.len(),
        _ => 0,
    }
}

fn in_clause(fault: Fault, _: usize) -> Fault {
    match fault {
        Fault::Error(text) => Fault::new(format!("error during formatting: {text}")),
        other => other,
    }
}

/// Parses `.2` at the beginning.
fn precision(text: &str) -> Result<(usize, &str), Fault> {
    let Some(text) = text.strip_prefix('.') else { return Ok((DEFAULT_PRECISION, text)) };
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    match digits.parse() {
        Ok(precision) if precision <= MOST_DIGITS => Ok((precision, rest)),
        _ => Err(Fault::new("error while parsing precision")),
    }
}

fn append(
    output: &mut String,
    verb: char,
    precision: usize,
    value: &Value<'_>,
    meter: &mut Meter,
) -> Result<(), Fault> {
    let unsupported = |kinds: &str| {
        Fault::new(format!(
            "{verb:?} clause can only be used on {kinds}, was given {}",
            value.type_name()
        ))
    };
    match (verb, value) {
        ('s', _) => print(output, value, meter)?,
        ('d', Value::Int(number)) => output.push_str(&number.to_string()),
        ('d', Value::Uint(number)) => output.push_str(&number.to_string()),
        ('d' | 'f' | 'e', Value::Double(number)) if !number.is_finite() => {
            output.push_str(if number.is_nan() {
                "NaN"
            } else if *number > 0.0 {
                "Infinity"
            } else {
                "-Infinity"
            })
        }
        ('d', _) => return Err(unsupported("integers")),
        ('f' | 'e', Value::Double(_) | Value::Int(_) | Value::Uint(_)) => {
            let number = match value {
                Value::Double(number) => *number,
                Value::Int(number) => *number as f64,
                Value::Uint(number) => *number as f64,
                _ => 0.0,
            };
            output.push_str(&if verb == 'f' {
                format!("{number:.precision$}")
            } else {
                scientific(number, precision)
            });
        }
        ('f' | 'e', _) => return Err(unsupported("doubles")),
        ('b', Value::Bool(value)) => output.push(if *value { '1' } else { '0' }),
        ('b', Value::Uint(number)) => output.push_str(&format!("{number:b}")),
        ('b' | 'o' | 'x' | 'X', Value::Int(number)) => {
            if *number < 0 {
                output.push('-');
            }
            let number = number.unsigned_abs();
            output.push_str(&match verb {
                'b' => format!("{number:b}"),
                'o' => format!("{number:o}"),
                'x' => format!("{number:x}"),
                _ => format!("{number:X}"),
            });
        }
        ('b', _) => return Err(unsupported("integers and bools")),
        ('o', Value::Uint(number)) => output.push_str(&format!("{number:o}")),
        ('o', _) => return Err(unsupported("integers")),
        ('x', Value::Uint(number)) => output.push_str(&format!("{number:x}")),
        ('X', Value::Uint(number)) => output.push_str(&format!("{number:X}")),
        ('x' | 'X', Value::String(text)) => hex(output, text.as_bytes(), verb),
        ('x' | 'X', Value::Bytes(bytes)) => hex(output, bytes, verb),
        ('x' | 'X', _) => return Err(unsupported("integers, byte buffers, and strings")),
        _ => {
            return Err(Fault::new(format!(
                "could not parse formatting clause: unrecognized formatting clause {verb:?}"
            )));
        }
    }
    Ok(())
}

fn hex(output: &mut String, bytes: &[u8], verb: char) {
    for byte in bytes {
        let pair = if verb == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") };
        output.push_str(&pair);
    }
}

fn scientific(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Prints a value as `%s` does.
fn print(output: &mut String, value: &Value<'_>, meter: &mut Meter) -> Result<(), Fault> {
    meter.work(1)?;
    match value {
        Value::Null => output.push_str("null"),
        Value::Bool(value) => output.push_str(if *value { "true" } else { "false" }),
        Value::Int(number) => output.push_str(&number.to_string()),
        Value::Uint(number) => output.push_str(&number.to_string()),
        Value::Double(number) => output.push_str(&conversions::print_double(*number)),
        Value::String(text) => {
            meter.text(text.len())?;
            output.push_str(text);
        }
        Value::Bytes(bytes) => {
            meter.text(bytes.len())?;
            output.push_str(&String::from_utf8_lossy(bytes));
        }
        Value::Duration(duration) => output.push_str(&time::print_duration(*duration)),
        Value::Timestamp(timestamp) => output.push_str(&timestamp.to_string()),
        Value::Type(name) => output.push_str(name),
        Value::List(values) => {
            output.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    output.push_str(", ");
                }
                print(output, value, meter)?;
            }
            output.push(']');
        }
        Value::Map(_)
        | Value::Facts(_)
        | Value::Device(_)
        | Value::Domains(..)
        | Value::Domain(..) => {
            let mut printed = Vec::new();
            for (key, value) in value.entries() {
                let mut text = String::new();
                print(&mut text, &key, meter)?;
                text.push_str(": ");
                print(&mut text, &value, meter)?;
                printed.push(text);
            }
            printed.sort();
            output.push('{');
            output.push_str(&printed.join(", "));
            output.push('}');
        }
        other => {
            return Err(Fault::new(format!(
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, \
                 lists, types, durations, and timestamps, was given {}",
                other.type_name()
            )));
        }
    }
    Ok(())
}
