//! Conversions between types.

use super::{Library, net, no_overload, time};
use crate::meter::Meter;
use crate::value::{Duration, Fault, Held, Outcome, Value};

/// `int`, `string` and the like.
pub(crate) const LIBRARY: &Library = &[
    ("type", type_of, &["type (A) -> type"]),
    ("dyn", to_dyn, &["to_dyn (A) -> dyn"]),
    ("bool", to_bool, &["bool_to_bool (bool) -> bool", "string_to_bool (string) -> bool"]),
    ("bytes", to_bytes, &["bytes_to_bytes (bytes) -> bytes", "string_to_bytes (string) -> bytes"]),
    (
        "double",
        to_double,
        &[
            "double_to_double (double) -> double",
            "int64_to_double (int) -> double",
            "string_to_double (string) -> double",
            "uint64_to_double (uint) -> double",
        ],
    ),
    (
        "duration",
        to_duration,
        &[
            "duration_to_duration (duration) -> duration",
            "int64_to_duration (int) -> duration",
            "string_to_duration (string) -> duration",
        ],
    ),
    (
        "int",
        to_int,
        &[
            "int64_to_int64 (int) -> int",
            "double_to_int64 (double) -> int",
            "duration_to_int64 (duration) -> int",
            "string_to_int64 (string) -> int",
            "timestamp_to_int64 (timestamp) -> int",
            "uint64_to_int64 (uint) -> int",
        ],
    ),
    (
        "string",
        to_string,
        &[
            "string_to_string (string) -> string",
            "bool_to_string (bool) -> string",
            "bytes_to_string (bytes) -> string",
            "double_to_string (double) -> string",
            "duration_to_string (duration) -> string",
            "int64_to_string (int) -> string",
            "timestamp_to_string (timestamp) -> string",
            "uint64_to_string (uint) -> string",
            "ip_to_string (ip) -> string",
            "cidr_to_string (cidr) -> string",
        ],
    ),
    (
        "timestamp",
        to_timestamp,
        &[
            "timestamp_to_timestamp (timestamp) -> timestamp",
            "int64_to_timestamp (int) -> timestamp",
            "string_to_timestamp (string) -> timestamp",
        ],
    ),
    (
        "uint",
        to_uint,
        &[
            "uint64_to_uint64 (uint) -> uint",
            "double_to_uint64 (double) -> uint",
            "int64_to_uint64 (int) -> uint",
            "string_to_uint64 (string) -> uint",
        ],
    ),
];

fn type_of<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value] => Ok(Value::Type(Held::Borrowed(value.type_name()))),
        _ => no_overload("type", args),
    }
}

fn to_dyn<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value] => Ok(value.clone()),
        _ => no_overload("dyn", args),
    }
}

/// Returns the error for a text that is not a value of the type.
fn syntax<'a>(error: &str) -> Outcome<'a> {
    Err(Fault::new(error.to_owned()))
}

fn to_bool<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Bool(_)] => Ok(value.clone()),
        [Value::String(text)] => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            text => syntax(&format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
        },
        _ => no_overload("bool", args),
    }
}

fn to_bytes<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Bytes(_)] => Ok(value.clone()),
        [Value::String(text)] => {
            meter.text(text.len())?;
            Ok(Value::Bytes(Held::Shared(text.as_bytes().into())))
        }
        _ => no_overload("bytes", args),
    }
}

fn to_double<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Double(_)] => Ok(value.clone()),
        [Value::Int(value)] => Ok(Value::Double(*value as f64)),
        [Value::Uint(value)] => Ok(Value::Double(*value as f64)),
        [Value::String(text)] => match text.parse() {
            Ok(value) => Ok(Value::Double(value)),
            Err(_) => {
                let text = &**text;
                syntax(&format!("strconv.ParseFloat: parsing {text:?}: invalid syntax"))
            }
        },
        _ => no_overload("double", args),
    }
}

fn to_duration<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Duration(_)] => Ok(value.clone()),
        [Value::Int(nanos)] => Ok(Value::Duration(Duration(*nanos))),
        [Value::String(text)] => match time::parse_duration(text) {
            Some(duration) => Ok(Value::Duration(duration)),
            None => {
                let text = &**text;
                syntax(&format!("time: invalid duration {text:?}"))
            }
        },
        _ => no_overload("duration", args),
    }
}

fn to_timestamp<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value @ Value::Timestamp(_)] => Ok(value.clone()),
        [Value::Int(seconds)] => match jiff::Timestamp::from_second(*seconds) {
            Ok(timestamp) => Ok(Value::Timestamp(timestamp)),
            Err(_) => Err(Fault::new("timestamp overflow")),
        },
        [Value::String(text)] => match time::parse_timestamp(text) {
            Some(timestamp) => Ok(Value::Timestamp(timestamp)),
            None => {
                let text = &**text;
                syntax(&format!(
                    "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} \
                     as \"2006\""
                ))
            }
        },
        _ => no_overload("timestamp", args),
    }
}

fn to_int<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let overflow = || Fault::new("integer overflow");
    Ok(Value::Int(match args {
        [Value::Int(value)] => *value,
        [Value::Uint(value)] => i64::try_from(*value).map_err(|_| overflow())?,
        [Value::Double(value)] => {
            // The limits themselves are refused, because they are not exact.
            if !(value.is_finite() && *value > i64::MIN as f64 && *value < i64::MAX as f64) {
                return Err(overflow());
            }
            *value as i64
        }
        [Value::Duration(value)] => value.0,
        [Value::Timestamp(value)] => value.as_second(),
        [Value::String(text)] => {
            let text = &**text;
            match text.strip_prefix('+').unwrap_or(text).parse() {
                Ok(value) => value,
                Err(_) => return syntax(&parse_error("ParseInt", text)),
            }
        }
        _ => return no_overload("int", args),
    }))
}

fn to_uint<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let overflow = || Fault::new("unsigned integer overflow");
    Ok(Value::Uint(match args {
        [Value::Uint(value)] => *value,
        [Value::Int(value)] => u64::try_from(*value).map_err(|_| overflow())?,
        [Value::Double(value)] => {
            if !(value.is_finite() && *value >= 0.0 && *value < u64::MAX as f64) {
                return Err(overflow());
            }
            *value as u64
        }
        [Value::String(text)] => {
            let text = &**text;
            match text.parse() {
                Ok(value) if !text.starts_with('+') => value,
                _ => return syntax(&parse_error("ParseUint", text)),
            }
        }
        _ => return no_overload("uint", args),
    }))
}

fn parse_error(function: &str, text: &str) -> String {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let reason = if is_number { "value out of range" } else { "invalid syntax" };
    format!("strconv.{function}: parsing {text:?}: {reason}")
}

fn to_string<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(match args {
        [value @ Value::String(_)] => value.clone(),
        [Value::Bool(value)] => Value::string(value.to_string()),
        [Value::Int(value)] => Value::string(value.to_string()),
        [Value::Uint(value)] => Value::string(value.to_string()),
        [Value::Double(value)] => Value::string(print_double(*value)),
        [Value::Bytes(bytes)] => {
            meter.text(bytes.len())?;
            match std::str::from_utf8(bytes) {
                Ok(text) => Value::string(text),
                Err(_) => {
                    return Err(Fault::new("invalid UTF-8 in bytes, cannot convert to string"));
                }
            }
        }
        [Value::Duration(value)] => Value::string(time::print_duration(*value)),
        [Value::Timestamp(value)] => Value::string(value.to_string()),
        [Value::Ip(value)] => Value::string(value.to_string()),
        [Value::Cidr(value)] => Value::string(net::print_cidr(value)),
        _ => return no_overload("string", args),
    })
}

/// Prints a number with as many digits as it takes to read it back; large and small ones with an
/// exponent.
pub(crate) fn print_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..21).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}
