//! Other amounts of quotas.

use std::collections::BTreeMap;
use std::str::FromStr;

use framework::{ELASTIC_QUOTAS, EventResource, Quantity, quantity_of};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::apply::Inventory;
use super::changes::{At, ChangeQuota, Changes, Objection, entries};
use crate::DumpedObject;

/// Changes the amounts of quotas.
pub(super) fn apply(
    inventory: &mut Inventory,
    documents: &[Changes],
    objections: &mut Vec<Objection>,
) {
    let kind = EventResource::Custom(ELASTIC_QUOTAS.into());
    for (at, entry) in entries(documents, "quotas", |changes| &changes.quotas) {
        let is_named = |object: &&mut DumpedObject| {
            object.kind == kind
                && *object.namespace == *entry.namespace
                && *object.name == *entry.name
        };
        let Some(object) = inventory.objects.iter_mut().filter(is_named).last() else {
            let name = format!("{}/{}", entry.namespace, entry.name);
            let message = format!(
                "there is no ElasticQuota {name}, or no profile enables CapacityScheduling"
            );
            objections.push(at.object("name", message));
            continue;
        };
        let mut quota: Value = serde_json::from_str(object.raw.get()).unwrap_or_default();
        match change(&mut quota, entry, &at) {
            Ok(()) => {
                if let Ok(raw) = to_raw_value(&quota) {
                    object.raw = raw.into();
                }
            }
            Err(objection) => objections.push(objection),
        }
    }
}

fn change(quota: &mut Value, entry: &ChangeQuota, at: &At) -> Result<(), Objection> {
    if entry.by.is_none() && entry.min.is_empty() && entry.max.is_empty() {
        return Err(at.object("", "changes nothing: give `by`, `min` or `max`"));
    }
    if let Some(by) = &entry.by {
        let percent = percent(by).ok_or_else(|| at.object("by", expected_percent(by)))?;
        for list in ["min", "max"] {
            for (name, amount) in quota["spec"][list].as_object_mut().into_iter().flatten() {
                let scaled = scaled(name, amount, percent);
                *amount = scaled.map_err(|message| at.object("by", message))?.into();
            }
        }
    }
    for (list, amounts) in [("min", &entry.min), ("max", &entry.max)] {
        set(&mut quota["spec"], list, amounts, at)?;
    }
    Ok(())
}

fn set(
    spec: &mut Value,
    list: &str,
    amounts: &BTreeMap<String, Option<String>>,
    at: &At,
) -> Result<(), Objection> {
    for (name, amount) in amounts {
        let field = format!("{list}[{name}]");
        let Some(amount) = amount else {
            if let Some(list) = spec[list].as_object_mut() {
                list.remove(name);
            }
            continue;
        };
        let new = match percent(amount) {
            Some(percent) => scaled(name, &spec[list][name], percent),
            None if Quantity::from_str(amount).is_ok() => Ok(amount.clone()),
            None => Err(format!("{amount:?} is no quantity, and no change such as +10%")),
        };
        spec[list][name] = json!(new.map_err(|message| at.object(&field, message))?);
    }
    Ok(())
}

fn expected_percent(given: &str) -> String {
    format!("{given:?} is no change in percent, such as +10% or -25%")
}

/// Reads a change in percent, such as `+10%`.
fn percent(text: &str) -> Option<i64> {
    let number = text.trim().strip_suffix('%')?;
    let is_signed = number.starts_with(['+', '-']);
    number.parse().ok().filter(|percent: &i64| is_signed && (-100..=10_000).contains(percent))
}

/// Returns a quantity changed by a percentage, rounded down.
fn scaled(resource: &str, amount: &Value, percent: i64) -> Result<String, String> {
    let text = match amount {
        Value::String(text) => text.clone(),
        Value::Null => return Err(format!("the quota does not mention {resource}")),
        other => other.to_string(),
    };
    let quantity: Quantity =
        text.parse().map_err(|_| format!("{resource} of the quota is {text:?}, no quantity"))?;
    let units = if resource == "cpu" { quantity.milli_value() } else { quantity.value() };
    let new = i128::from(units) * i128::from(100 + percent) / 100;
    Ok(quantity_of(resource, i64::try_from(new).unwrap_or(i64::MAX)))
}
