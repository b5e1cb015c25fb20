//! Maps.

use std::sync::Arc;

use super::{Library, no_overload};
use crate::meter::Meter;
use crate::value::{Entries, Fault, Outcome, Value, same_key};

/// The functions that the macros `transformMap` and `transformMapEntry` use.
pub(crate) const LIBRARY: &Library = &[(
    "cel.@mapInsert",
    map_insert,
    &[
        "@mapInsert_map_key_value (map(K, V), K, V) -> map(K, V)",
        "@mapInsert_map_map (map(K, V), map(K, V)) -> map(K, V)",
    ],
)];

/// Adds an entry.
///
/// # Errors
///
/// The key exists, or its type cannot be a key.
pub(crate) fn insert<'a>(
    meter: &mut Meter,
    entries: &mut Entries<'a>,
    key: Value<'a>,
    value: Value<'a>,
) -> Result<(), Fault> {
    if !matches!(key, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::String(_)) {
        return Err(Fault::new(format!("unsupported key type: {}", key.type_name())));
    }
    for (other, _) in entries.iter() {
        if same_key(other, &key, meter)? {
            return Err(Fault::new(format!("Failed with repeated key: {}", print_key(&key))));
        }
    }
    entries.push((key, value));
    Ok(())
}

fn print_key(key: &Value<'_>) -> String {
    match key {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::String(value) => value.to_string(),
        other => other.type_name().to_owned(),
    }
}

fn map_insert<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (Value::Map(map), added) = (match args {
        [map, key, value] => (map, vec![(key.clone(), value.clone())]),
        [map, more @ Value::Map(_)] => (map, more.entries()),
        _ => return no_overload("cel.@mapInsert", args),
    }) else {
        return no_overload("cel.@mapInsert", args);
    };
    meter.work(map.len())?;
    let mut entries = map.to_vec();
    for (key, value) in added {
        for (other, _) in &entries {
            if same_key(other, &key, meter)? {
                let key = print_key(&key);
                return Err(Fault::new(format!("insert failed: key {key} already exists")));
            }
        }
        entries.push((key, value));
    }
    Ok(Value::Map(Arc::new(entries)))
}
