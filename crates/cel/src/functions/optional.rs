//! Optional values.

use super::{Library, no_overload};
use crate::meter::Meter;
use crate::value::{Fault, Outcome, Value};

/// The functions of optional values. `or` and `orValue` only have their types here.
pub(crate) const LIBRARY: &Library = &[
    ("optional.of", of, &["optional_of (V) -> optional(V)"]),
    ("optional.ofNonZeroValue", of_non_zero_value, &["optional_ofNonZeroValue (V) -> optional(V)"]),
    ("optional.none", none, &["optional_none () -> optional(V)"]),
    ("value", value, &["optional_value optional(V).() -> V"]),
    ("hasValue", has_value, &["optional_hasValue optional(V).() -> bool"]),
    ("or", value, &["optional_or_optional optional(V).(optional(V)) -> optional(V)"]),
    ("orValue", value, &["optional_orValue_value optional(V).(V) -> V"]),
];

fn of<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value] => Ok(Value::some(value.clone())),
        _ => no_overload("optional.of", args),
    }
}

fn of_non_zero_value<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [value] = args else { return no_overload("optional.ofNonZeroValue", args) };
    let is_zero = match value {
        Value::Null | Value::Optional(None) => true,
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::Duration(value) => value.0 == 0,
        Value::String(_)
        | Value::Bytes(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Facts(_)
        | Value::Device(_)
        | Value::Domains(..)
        | Value::Domain(..) => value.size() == Some(0),
        _ => false,
    };
    Ok(if is_zero { Value::Optional(None) } else { Value::some(value.clone()) })
}

fn none<'a>(_: &mut Meter, _: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Optional(None))
}

fn value<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Optional(Some(inner)), ..] => Ok((**inner).clone()),
        [Value::Optional(None), ..] => Err(Fault::new("optional.none() dereference")),
        _ => no_overload("value", args),
    }
}

fn has_value<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
        _ => no_overload("hasValue", args),
    }
}
