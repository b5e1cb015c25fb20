//! Operators.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Library;
use crate::meter::Meter;
use crate::value::{Duration, Fault, Held, Outcome, Value, compare_numbers};

macro_rules! comparison {
    ($name:literal) => {
        &[
            concat!($name, "_bool (bool, bool) -> bool"),
            concat!($name, "_int64 (int, int) -> bool"),
            concat!($name, "_int64_double (int, double) -> bool"),
            concat!($name, "_int64_uint64 (int, uint) -> bool"),
            concat!($name, "_uint64 (uint, uint) -> bool"),
            concat!($name, "_uint64_double (uint, double) -> bool"),
            concat!($name, "_uint64_int64 (uint, int) -> bool"),
            concat!($name, "_double (double, double) -> bool"),
            concat!($name, "_double_int64 (double, int) -> bool"),
            concat!($name, "_double_uint64 (double, uint) -> bool"),
            concat!($name, "_string (string, string) -> bool"),
            concat!($name, "_bytes (bytes, bytes) -> bool"),
            concat!($name, "_timestamp (timestamp, timestamp) -> bool"),
            concat!($name, "_duration (duration, duration) -> bool"),
        ]
    };
}

/// The operators. `&&`, `||` and conditionals only have their types here.
pub(crate) const LIBRARY: &Library = &[
    ("_&&_", unreachable, &["logical_and (bool, bool) -> bool"]),
    ("_||_", unreachable, &["logical_or (bool, bool) -> bool"]),
    ("_?_:_", unreachable, &["conditional (bool, A, A) -> A"]),
    ("@not_strictly_false", unreachable, &["not_strictly_false (bool) -> bool"]),
    ("!_", not, &["logical_not (bool) -> bool"]),
    ("_==_", equals, &["equals (A, A) -> bool"]),
    ("_!=_", not_equals, &["not_equals (A, A) -> bool"]),
    (
        "_+_",
        add,
        &[
            "add_bytes (bytes, bytes) -> bytes",
            "add_double (double, double) -> double",
            "add_duration_duration (duration, duration) -> duration",
            "add_duration_timestamp (duration, timestamp) -> timestamp",
            "add_timestamp_duration (timestamp, duration) -> timestamp",
            "add_int64 (int, int) -> int",
            "add_list (list(A), list(A)) -> list(A)",
            "add_string (string, string) -> string",
            "add_uint64 (uint, uint) -> uint",
        ],
    ),
    (
        "_-_",
        subtract,
        &[
            "subtract_double (double, double) -> double",
            "subtract_duration_duration (duration, duration) -> duration",
            "subtract_int64 (int, int) -> int",
            "subtract_timestamp_duration (timestamp, duration) -> timestamp",
            "subtract_timestamp_timestamp (timestamp, timestamp) -> duration",
            "subtract_uint64 (uint, uint) -> uint",
        ],
    ),
    (
        "_*_",
        multiply,
        &[
            "multiply_double (double, double) -> double",
            "multiply_int64 (int, int) -> int",
            "multiply_uint64 (uint, uint) -> uint",
        ],
    ),
    (
        "_/_",
        divide,
        &[
            "divide_double (double, double) -> double",
            "divide_int64 (int, int) -> int",
            "divide_uint64 (uint, uint) -> uint",
        ],
    ),
    ("_%_", modulo, &["modulo_int64 (int, int) -> int", "modulo_uint64 (uint, uint) -> uint"]),
    ("-_", negate, &["negate_double (double) -> double", "negate_int64 (int) -> int"]),
    ("_<_", |meter, args| compare(meter, "_<_", args, Ordering::is_lt), comparison!("less")),
    (
        "_<=_",
        |meter, args| compare(meter, "_<=_", args, Ordering::is_le),
        comparison!("less_equals"),
    ),
    ("_>_", |meter, args| compare(meter, "_>_", args, Ordering::is_gt), comparison!("greater")),
    (
        "_>=_",
        |meter, args| compare(meter, "_>=_", args, Ordering::is_ge),
        comparison!("greater_equals"),
    ),
    ("@in", contains, &["in_list (A, list(A)) -> bool", "in_map (A, map(A, B)) -> bool"]),
    (
        "_[_]",
        unreachable,
        &[
            "index_list (list(A), int) -> A",
            "index_map (map(A, B), A) -> B",
            "optional_list_index_int (optional(list(V)), int) -> optional(V)",
            "optional_map_index_value (optional(map(K, V)), K) -> optional(V)",
        ],
    ),
    (
        "_[?_]",
        unreachable,
        &[
            "list_optindex_optional_int (list(V), int) -> optional(V)",
            "optional_list_optindex_optional_int (optional(list(V)), int) -> optional(V)",
            "map_optindex_optional_value (map(K, V), K) -> optional(V)",
            "optional_map_optindex_optional_value (optional(map(K, V)), K) -> optional(V)",
        ],
    ),
    ("_?._", unreachable, &["select_optional_field (dyn, string) -> optional(V)"]),
    (
        "size",
        size,
        &[
            "size_bytes (bytes) -> int",
            "bytes_size bytes.() -> int",
            "size_list (list(A)) -> int",
            "list_size list(A).() -> int",
            "size_map (map(A, B)) -> int",
            "map_size map(A, B).() -> int",
            "size_string (string) -> int",
            "string_size string.() -> int",
        ],
    ),
];

/// Plans have forms of their own for these.
fn unreachable<'a>(_: &mut Meter, _: &[Value<'a>]) -> Outcome<'a> {
    Err(Fault::no_such_overload())
}

fn no_operator<'a>(operator: &'static str) -> Outcome<'a> {
    Err(Fault::new(format!("no such overload: {operator}")))
}

fn not<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn equals<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [left, right] => left.equals(right, meter).map(Value::Bool),
        _ => Err(Fault::no_such_overload()),
    }
}

fn not_equals<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match equals(meter, args) {
        Ok(equal) => Ok(Value::Bool(!matches!(equal, Value::Bool(true)))),
        // Values that cannot be compared are not equal.
        Err(Fault::Error(_)) => Ok(Value::Bool(true)),
        Err(fault) => Err(fault),
    }
}

/// Returns the result of an operation on 64 bits.
fn whole<T>(result: Option<T>, type_name: &str) -> Result<T, Fault> {
    result.ok_or_else(|| overflow(type_name))
}

fn overflow(type_name: &str) -> Fault {
    Fault::new(match type_name {
        "uint" => "unsigned integer overflow",
        "duration" => "duration overflow",
        "timestamp" => "timestamp overflow",
        _ => "integer overflow",
    })
}

fn moved(timestamp: jiff::Timestamp, by: i64, sign: i64) -> Result<jiff::Timestamp, Fault> {
    let by = by.checked_mul(sign).map(jiff::SignedDuration::from_nanos);
    by.and_then(|by| timestamp.checked_add(by).ok()).ok_or_else(|| overflow("timestamp"))
}

fn add<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(match args {
        [Value::Int(left), Value::Int(right)] => {
            Value::Int(whole(left.checked_add(*right), "int")?)
        }
        [Value::Uint(left), Value::Uint(right)] => {
            Value::Uint(whole(left.checked_add(*right), "uint")?)
        }
        [Value::Double(left), Value::Double(right)] => Value::Double(left + right),
        [Value::String(left), Value::String(right)] => {
            meter.text(left.len() + right.len())?;
            Value::string([&**left, &**right].concat())
        }
        [Value::Bytes(left), Value::Bytes(right)] => {
            meter.text(left.len() + right.len())?;
            Value::Bytes(Held::Shared([&**left, &**right].concat().into()))
        }
        [Value::List(left), Value::List(right)] => {
            if right.is_empty() {
                return Ok(Value::List(Arc::clone(left)));
            }
            meter.work(left.len() + right.len())?;
            Value::list(left.iter().chain(right.iter()).cloned().collect())
        }
        [Value::Duration(left), Value::Duration(right)] => {
            Value::Duration(Duration(whole(left.0.checked_add(right.0), "duration")?))
        }
        [Value::Timestamp(at), Value::Duration(by)]
        | [Value::Duration(by), Value::Timestamp(at)] => Value::Timestamp(moved(*at, by.0, 1)?),
        [
            Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::List(_)
            | Value::Duration(_)
            | Value::Timestamp(_),
            _,
        ] => return Err(Fault::no_such_overload()),
        _ => return no_operator("_+_"),
    })
}

fn subtract<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(match args {
        [Value::Int(left), Value::Int(right)] => {
            Value::Int(whole(left.checked_sub(*right), "int")?)
        }
        [Value::Uint(left), Value::Uint(right)] => {
            Value::Uint(whole(left.checked_sub(*right), "uint")?)
        }
        [Value::Double(left), Value::Double(right)] => Value::Double(left - right),
        [Value::Duration(left), Value::Duration(right)] => {
            Value::Duration(Duration(whole(left.0.checked_sub(right.0), "duration")?))
        }
        [Value::Timestamp(at), Value::Duration(by)] => Value::Timestamp(moved(*at, by.0, -1)?),
        [Value::Timestamp(left), Value::Timestamp(right)] => {
            let nanos = i64::try_from(left.duration_since(*right).as_nanos());
            Value::Duration(Duration(whole(nanos.ok(), "timestamp")?))
        }
        [
            Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::Duration(_)
            | Value::Timestamp(_),
            _,
        ] => return Err(Fault::no_such_overload()),
        _ => return no_operator("_-_"),
    })
}

fn multiply<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(match args {
        [Value::Int(left), Value::Int(right)] => {
            Value::Int(whole(left.checked_mul(*right), "int")?)
        }
        [Value::Uint(left), Value::Uint(right)] => {
            Value::Uint(whole(left.checked_mul(*right), "uint")?)
        }
        [Value::Double(left), Value::Double(right)] => Value::Double(left * right),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => {
            return Err(Fault::no_such_overload());
        }
        _ => return no_operator("_*_"),
    })
}

fn divide<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err(Fault::new("division by zero"));
        }
        [Value::Int(left), Value::Int(right)] => {
            Value::Int(whole(left.checked_div(*right), "int")?)
        }
        [Value::Uint(left), Value::Uint(right)] => Value::Uint(left / right),
        [Value::Double(left), Value::Double(right)] => Value::Double(left / right),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => {
            return Err(Fault::no_such_overload());
        }
        _ => return no_operator("_/_"),
    })
}

fn modulo<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err(Fault::new("modulus by zero"));
        }
        [Value::Int(left), Value::Int(right)] => {
            Value::Int(whole(left.checked_rem(*right), "int")?)
        }
        [Value::Uint(left), Value::Uint(right)] => Value::Uint(left % right),
        [Value::Int(_) | Value::Uint(_), _] => return Err(Fault::no_such_overload()),
        _ => return no_operator("_%_"),
    })
}

fn negate<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(match args {
        [Value::Int(value)] => Value::Int(whole(value.checked_neg(), "int")?),
        [Value::Double(value)] => Value::Double(-value),
        [Value::Bool(_)] => return Err(Fault::no_such_overload()),
        _ => return no_operator("-_"),
    })
}

/// Compares values of the same type, or numbers.
pub(crate) fn order(
    meter: &mut Meter,
    left: &Value<'_>,
    right: &Value<'_>,
) -> Result<Option<Ordering>, Fault> {
    meter.work(1)?;
    Ok(match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::String(left), Value::String(right)) => Some((**left).cmp(&**right)),
        (Value::Bytes(left), Value::Bytes(right)) => Some((**left).cmp(&**right)),
        (Value::Duration(left), Value::Duration(right)) => Some(left.cmp(right)),
        (Value::Timestamp(left), Value::Timestamp(right)) => Some(left.cmp(right)),
        _ => compare_numbers(left, right),
    })
}

/// Returns whether values of this type have an order.
pub(crate) fn is_comparable(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
    )
}

fn compare<'a>(
    meter: &mut Meter,
    operator: &'static str,
    args: &[Value<'a>],
    holds: fn(Ordering) -> bool,
) -> Outcome<'a> {
    let [left, right] = args else { return no_operator(operator) };
    match order(meter, left, right)? {
        Some(order) => Ok(Value::Bool(holds(order))),
        None if is_nan(left) || is_nan(right) => Err(Fault::new("NaN values cannot be ordered")),
        None if is_comparable(left) => Err(Fault::no_such_overload()),
        None => no_operator(operator),
    }
}

fn is_nan(value: &Value<'_>) -> bool {
    matches!(value, Value::Double(number) if number.is_nan())
}

/// Returns whether a list or map contains a value or key.
fn contains<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [value, Value::List(values)] => {
            for element in values.iter() {
                if crate::value::same_key(element, value, meter)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        [
            key,
            map @ (Value::Map(_)
            | Value::Facts(_)
            | Value::Device(_)
            | Value::Domains(..)
            | Value::Domain(..)),
        ] => map.contains_key(key, meter).map(Value::Bool),
        _ => Err(Fault::no_such_overload()),
    }
}

fn size<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Ip(_) | Value::Cidr(_)] => no_operator("size"),
        [value] => match value.size() {
            Some(size) => Ok(Value::Int(size as i64)),
            None => no_operator("size"),
        },
        _ => no_operator("size"),
    }
}
