//! Lists: the library of Kubernetes, the extension of lists in version 3, sets, and `includes` of
//! device selectors.

use std::cmp::Ordering;

use super::{Library, no_overload, operators};
use crate::meter::{COST_LIMIT, Meter};
use crate::value::{Duration, Fault, Outcome, Value, same_key};

/// Longest list that `includes` searches (`ResourceSliceMaxAttributeValuesPerDevice`).
const MOST_VALUES: usize = 48;

/// The functions of lists.
pub(crate) const LIBRARY: &Library = &[
    ("isSorted", is_sorted, &["list_#_is_sorted_bool list(#).() -> bool"]),
    (
        "sum",
        sum,
        &[
            "list_int_sum_int list(int).() -> int",
            "list_uint_sum_uint list(uint).() -> uint",
            "list_double_sum_double list(double).() -> double",
            "list_duration_sum_duration list(duration).() -> duration",
        ],
    ),
    (
        "max",
        |meter, args| extreme("max", meter, args, Ordering::Less),
        &["list_#_max_# list(#).() -> #"],
    ),
    (
        "min",
        |meter, args| extreme("min", meter, args, Ordering::Greater),
        &["list_#_min_# list(#).() -> #"],
    ),
    ("slice", slice, &["list_slice list(T).(int, int) -> list(T)"]),
    (
        "flatten",
        flatten,
        &[
            "list_flatten list(list(T)).() -> list(T)",
            "list_flatten_int list(dyn).(int) -> list(dyn)",
        ],
    ),
    ("sort", sort, &["list_#_sort list(#).() -> list(#)"]),
    (
        "@sortByAssociatedKeys",
        sort_by_keys,
        &["list_#_sortByAssociatedKeys list(T).(list(#)) -> list(T)"],
    ),
    ("lists.range", range, &["lists_range (int) -> list(int)"]),
    ("reverse", reverse, &["list_reverse list(T).() -> list(T)"]),
    ("distinct", distinct, &["list_distinct list(T).() -> list(T)"]),
    (
        "sets.contains",
        |meter, args| sets("sets.contains", meter, args),
        &["list_sets_contains_list (list(T), list(T)) -> bool"],
    ),
    (
        "sets.intersects",
        |meter, args| sets("sets.intersects", meter, args),
        &["list_sets_intersects_list (list(T), list(T)) -> bool"],
    ),
    (
        "sets.equivalent",
        |meter, args| sets("sets.equivalent", meter, args),
        &["list_sets_equivalent_list (list(T), list(T)) -> bool"],
    ),
    ("includes", includes, &["dra_includes_dyn_dyn dyn.(dyn) -> bool"]),
];

/// Returns the first position of a value, or -1.
pub(crate) fn position<'a, 'v>(
    meter: &mut Meter,
    values: impl Iterator<Item = (usize, &'v Value<'a>)>,
    value: &Value<'a>,
) -> Outcome<'a>
where
    'a: 'v,
{
    for (index, element) in values {
        if same_key(element, value, meter)? {
            return Ok(Value::Int(index as i64));
        }
    }
    Ok(Value::Int(-1))
}

fn is_sorted<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(values)] = args else { return no_overload("isSorted", args) };
    for pair in values.windows(2) {
        if operators::order(meter, &pair[0], &pair[1])? == Some(Ordering::Greater) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(values)] = args else { return no_overload("sum", args) };
    let mut total = match values.first() {
        Some(Value::Uint(_)) => Value::Uint(0),
        Some(Value::Double(_)) => Value::Double(0.0),
        Some(Value::Duration(_)) => Value::Duration(Duration(0)),
        _ => Value::Int(0),
    };
    for value in values.iter() {
        meter.work(1)?;
        total = match (&total, value) {
            (Value::Int(left), Value::Int(right)) => left.checked_add(*right).map(Value::Int),
            (Value::Uint(left), Value::Uint(right)) => left.checked_add(*right).map(Value::Uint),
            (Value::Double(left), Value::Double(right)) => Some(Value::Double(left + right)),
            (Value::Duration(left), Value::Duration(right)) => {
                left.0.checked_add(right.0).map(|sum| Value::Duration(Duration(sum)))
            }
            _ => return Err(Fault::no_such_overload()),
        }
        .ok_or_else(|| {
            Fault::new(match total {
                Value::Uint(_) => "unsigned integer overflow",
                Value::Duration(_) => "duration overflow",
                _ => "integer overflow",
            })
        })?;
    }
    Ok(total)
}

/// Returns the first element that no other one exceeds, for `Less`, or falls below.
fn extreme<'a>(
    function: &str,
    meter: &mut Meter,
    args: &[Value<'a>],
    worse: Ordering,
) -> Outcome<'a> {
    let [Value::List(values)] = args else { return no_overload(function, args) };
    let mut best: Option<&Value<'a>> = None;
    for value in values.iter() {
        if !operators::is_comparable(value) {
            return Err(Fault::no_such_overload());
        }
        best = match best {
            Some(best) if operators::order(meter, best, value)? != Some(worse) => Some(best),
            _ => Some(value),
        };
    }
    match best {
        Some(best) => Ok(best.clone()),
        None => Err(Fault::new(format!("{function} called on empty list"))),
    }
}

fn slice<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(values), Value::Int(start), Value::Int(end)] = args else {
        return no_overload("slice", args);
    };
    let wrong = |reason: &str| Err(Fault::new(format!("cannot slice({start}, {end}), {reason}")));
    if *start < 0 || *end < 0 {
        return wrong("negative indexes not supported");
    }
    if start > end {
        return wrong("start index must be less than or equal to end index");
    }
    if *end > values.len() as i64 {
        return wrong(&format!("list is length {}", values.len()));
    }
    let part = &values[*start as usize..*end as usize];
    meter.work(part.len())?;
    Ok(Value::list(part.to_vec()))
}

fn flatten<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (values, depth) = match args {
        [Value::List(values)] => (values, 1),
        [Value::List(values), Value::Int(depth)] => (values, *depth),
        _ => return no_overload("flatten", args),
    };
    if depth < 0 {
        return Err(Fault::new("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(meter, &mut flat, values, depth)?;
    Ok(Value::list(flat))
}

fn flatten_into<'a>(
    meter: &mut Meter,
    flat: &mut Vec<Value<'a>>,
    values: &[Value<'a>],
    depth: i64,
) -> Result<(), Fault> {
    for value in values {
        meter.work(1)?;
        match value {
            Value::List(inner) if depth > 0 => flatten_into(meter, flat, inner, depth - 1)?,
            other => flat.push(other.clone()),
        }
    }
    Ok(())
}

fn sort<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::List(values)] => sorted(meter, values, values),
        _ => no_overload("sort", args),
    }
}

fn sort_by_keys<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::List(values), Value::List(keys)] => sorted(meter, values, keys),
        _ => no_overload("@sortByAssociatedKeys", args),
    }
}

fn sorted<'a>(meter: &mut Meter, values: &[Value<'a>], keys: &[Value<'a>]) -> Outcome<'a> {
    if values.len() != keys.len() {
        return Err(Fault::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, \
             but got {} and {} elements respectively",
            values.len(),
            keys.len()
        )));
    }
    if let Some(first) = keys.first() {
        if !operators::is_comparable(first) {
            return Err(Fault::new("list elements must be comparable"));
        }
        if keys.iter().any(|key| key.type_name() != first.type_name()) {
            return Err(Fault::new("list elements must have the same type"));
        }
    }
    // The cost is the cost of all pairs.
    meter.work(values.len().saturating_mul(values.len().max(2).ilog2() as usize))?;
    let mut pairs: Vec<_> = keys.iter().zip(values).collect();
    let mut unlimited = Meter::default();
    pairs.sort_by(|(left, _), (right, _)| {
        operators::order(&mut unlimited, left, right).ok().flatten().unwrap_or(Ordering::Equal)
    });
    Ok(Value::list(pairs.into_iter().map(|(_, value)| value.clone()).collect()))
}

fn range<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Int(count)] = args else { return no_overload("lists.range", args) };
    if *count < 0 {
        return Err(Fault::new(format!("lists.range: size must be non-negative, got {count}")));
    }
    // The cost is known before the list is made.
    if count.unsigned_abs() > COST_LIMIT {
        return Err(Fault::TooExpensive);
    }
    meter.work(*count as usize)?;
    Ok(Value::list((0..*count).map(Value::Int).collect()))
}

fn reverse<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(values)] = args else { return no_overload("reverse", args) };
    meter.work(values.len())?;
    Ok(Value::list(values.iter().rev().cloned().collect()))
}

fn distinct<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(values)] = args else { return no_overload("distinct", args) };
    let mut kept: Vec<Value<'a>> = Vec::new();
    for value in values.iter() {
        if !has(meter, &kept, value)? {
            kept.push(value.clone());
        }
    }
    Ok(Value::list(kept))
}

fn has<'a>(meter: &mut Meter, values: &[Value<'a>], value: &Value<'a>) -> Result<bool, Fault> {
    for element in values {
        if same_key(element, value, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_all<'a>(
    meter: &mut Meter,
    values: &[Value<'a>],
    wanted: &[Value<'a>],
) -> Result<bool, Fault> {
    for value in wanted {
        if !has(meter, values, value)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn sets<'a>(function: &str, meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(left), Value::List(right)] = args else { return no_overload(function, args) };
    Ok(Value::Bool(match function {
        "sets.contains" => has_all(meter, left, right)?,
        "sets.equivalent" => has_all(meter, left, right)? && has_all(meter, right, left)?,
        _ => {
            let mut found = false;
            for value in left.iter() {
                found = found || has(meter, right, value)?;
            }
            found
        }
    }))
}

fn includes<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::List(values), value] => {
            for (index, element) in values.iter().enumerate() {
                if index >= MOST_VALUES {
                    return Err(Fault::new(format!(
                        "'includes' function cannot be applied to lists longer than {MOST_VALUES} \
                         values"
                    )));
                }
                if same_key(element, value, meter)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        [target, value] => same_key(target, value, meter).map(Value::Bool),
        _ => no_overload("includes", args),
    }
}
