//! Quantities.

use std::cmp::Ordering;

use framework::Quantity;

use super::{Library, no_overload};
use crate::meter::Meter;
use crate::value::{Amount, Fault, Outcome, Value};

const NANOS_PER_UNIT: i128 = 1_000_000_000;

/// The functions of quantities. Versions share the comparisons.
pub(crate) const LIBRARY: &Library = &[
    ("quantity", quantity, &["string_to_quantity (string) -> quantity"]),
    ("isQuantity", is_quantity, &["is_quantity_string (string) -> bool"]),
    ("sign", sign, &["quantity_sign quantity.() -> int"]),
    (
        "isGreaterThan",
        is_greater_than,
        &[
            "quantity_is_greater_than quantity.(quantity) -> bool",
            "semver_is_greater_than semver.(semver) -> bool",
        ],
    ),
    (
        "isLessThan",
        is_less_than,
        &[
            "quantity_is_less_than quantity.(quantity) -> bool",
            "semver_is_less_than semver.(semver) -> bool",
        ],
    ),
    (
        "compareTo",
        compare_to,
        &[
            "quantity_compare_to quantity.(quantity) -> int",
            "semver_compare_to semver.(semver) -> int",
        ],
    ),
    ("asApproximateFloat", as_approximate_float, &["quantity_get_float quantity.() -> double"]),
    ("asInteger", as_integer, &["quantity_get_int quantity.() -> int"]),
    ("isInteger", is_integer, &["quantity_is_integer quantity.() -> bool"]),
    (
        "add",
        |_, args| combine("add", args, i128::saturating_add),
        &[
            "quantity_add quantity.(quantity) -> quantity",
            "quantity_add_int quantity.(int) -> quantity",
        ],
    ),
    (
        "sub",
        |_, args| combine("sub", args, i128::saturating_sub),
        &[
            "quantity_sub quantity.(quantity) -> quantity",
            "quantity_sub_int quantity.(int) -> quantity",
        ],
    ),
];

fn quantity<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return no_overload("quantity", args) };
    match text.parse::<Quantity>() {
        Ok(parsed) => {
            let whole = parsed.as_int64().is_some();
            Ok(Value::Quantity(Amount { nanos: parsed.nanos(), whole }))
        }
        Err(error) => Err(Fault::new(error.to_string())),
    }
}

fn is_quantity<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(text.parse::<Quantity>().is_ok())),
        _ => no_overload("isQuantity", args),
    }
}

fn sign<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Quantity(amount)] => Ok(Value::Int(amount.nanos.signum() as i64)),
        _ => no_overload("sign", args),
    }
}

fn compare(args: &[Value<'_>]) -> Option<Ordering> {
    match args {
        [Value::Quantity(left), Value::Quantity(right)] => Some(left.nanos.cmp(&right.nanos)),
        [Value::Version(left), Value::Version(right)] => Some((**left).cmp(&**right)),
        _ => None,
    }
}

fn is_greater_than<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match compare(args) {
        Some(order) => Ok(Value::Bool(order.is_gt())),
        None => no_overload("isGreaterThan", args),
    }
}

fn is_less_than<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match compare(args) {
        Some(order) => Ok(Value::Bool(order.is_lt())),
        None => no_overload("isLessThan", args),
    }
}

fn compare_to<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match compare(args) {
        Some(order) => Ok(Value::Int(order as i64)),
        None => no_overload("compareTo", args),
    }
}

fn as_approximate_float<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Quantity(Amount { nanos, .. })] => {
            Ok(Value::Double(if nanos % NANOS_PER_UNIT == 0 {
                (nanos / NANOS_PER_UNIT) as f64
            } else {
                *nanos as f64 / NANOS_PER_UNIT as f64
            }))
        }
        _ => no_overload("asApproximateFloat", args),
    }
}

fn integer(amount: &Amount) -> Option<i64> {
    i64::try_from(amount.nanos / NANOS_PER_UNIT).ok().filter(|_| amount.whole)
}

fn as_integer<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Quantity(amount)] => match integer(amount) {
            Some(number) => Ok(Value::Int(number)),
            None => Err(Fault::new("cannot convert value to integer")),
        },
        _ => no_overload("asInteger", args),
    }
}

fn is_integer<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Quantity(amount)] => Ok(Value::Bool(integer(amount).is_some())),
        _ => no_overload("isInteger", args),
    }
}

fn combine<'a>(
    function: &str,
    args: &[Value<'a>],
    combined: fn(i128, i128) -> i128,
) -> Outcome<'a> {
    let (left, right) = match args {
        [Value::Quantity(left), Value::Quantity(right)] => (left, *right),
        [Value::Quantity(left), Value::Int(right)] => {
            (left, Amount { nanos: i128::from(*right) * NANOS_PER_UNIT, whole: true })
        }
        _ => return no_overload(function, args),
    };
    let nanos = combined(left.nanos, right.nanos);
    let whole = left.whole && right.whole && i64::try_from(nanos / NANOS_PER_UNIT).is_ok();
    Ok(Value::Quantity(Amount { nanos, whole }))
}
