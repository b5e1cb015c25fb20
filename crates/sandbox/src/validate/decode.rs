//! The checks that typed decoding does: whether an object has the shape of its kind.

use framework::{Quantity, Time, api};
use serde::Deserialize;
use serde_json::Value;

use crate::resources::{self, Resource};
use crate::status::Status;

/// Decodes the fields of the object that a scheduler reads.
///
/// # Errors
/// 400 if a field has the wrong type.
pub(super) fn check(resource: &Resource, object: &Value) -> Result<(), Status> {
    let decoded = if resource == resources::PODS {
        decodes::<api::Pod>(object).and_then(|()| quantities(&object["spec"]))
    } else if resource == resources::NODES {
        decodes::<api::Node>(object).and_then(|()| quantities(&object["status"]))
    } else if resource == resources::LEASES {
        generic(object).and_then(|()| times(&object["spec"]))
    } else if resource == resources::RESOURCECLAIMS {
        decodes::<api::ResourceClaim>(object).and_then(|()| quantities(&object["spec"]))
    } else if resource == resources::RESOURCECLAIMTEMPLATES {
        decodes::<api::ResourceClaim>(&object["spec"]).and_then(|()| quantities(&object["spec"]))
    } else if resource == resources::RESOURCESLICES {
        decodes::<api::ResourceSlice>(object).and_then(|()| quantities(&object["spec"]))
    } else if resource == resources::DEVICECLASSES {
        decodes::<api::DeviceClass>(object)
    } else if resource == resources::DEVICETAINTRULES {
        decodes::<api::DeviceTaintRule>(object)
            .and_then(|()| time("spec.taint.timeAdded", &object["spec"]["taint"]["timeAdded"]))
    } else if resource.custom.is_some() {
        decodes::<api::ObjectMeta>(&object["metadata"])
    } else {
        generic(object)
    };
    decoded.map_err(|error| misshapen(resource, &error))
}

/// Decodes the fields of a pod beside its spec, which was decoded before.
///
/// # Errors
/// 400 if a field has the wrong type.
pub(super) fn check_beside_spec(pod: &Value) -> Result<(), Status> {
    let decoded = decodes::<api::ObjectMeta>(&pod["metadata"])
        .and_then(|()| decodes::<api::PodStatus>(&pod["status"]));
    decoded.map_err(|error| misshapen(resources::PODS, &error))
}

fn misshapen(resource: &Resource, error: &str) -> Status {
    let Resource { kind, version, .. } = resource;
    Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: {error}"
    ))
}

fn decodes<T: for<'a> Deserialize<'a>>(value: &Value) -> Result<(), String> {
    T::deserialize(value).map(drop).map_err(|error| error.to_string())
}

/// Checks any other kind: metadata, and the pod template if there is one.
fn generic(object: &Value) -> Result<(), String> {
    decodes::<api::ObjectMeta>(&object["metadata"])?;
    for field in ["spec", "status"] {
        if !matches!(object[field], Value::Null | Value::Object(_)) {
            return Err(format!("{field}: must be an object"));
        }
    }
    let template = &object["spec"]["template"];
    if template.is_null() {
        return Ok(());
    }
    decodes::<api::Pod>(template)?;
    quantities(&template["spec"])
}

/// Checks the times of a Lease.
fn times(spec: &Value) -> Result<(), String> {
    const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
    for field in ["acquireTime", "renewTime"] {
        if let Some(text) = spec[field].as_str()
            && Time::parse_rfc3339(text).is_err()
        {
            return Err(format!(
                "parsing time {text:?} as {LAYOUT:?}: cannot parse {text:?} as \"2006\""
            ));
        }
    }
    Ok(())
}

/// Checks a time, if it is set.
fn time(field: &str, value: &Value) -> Result<(), String> {
    match value.as_str() {
        Some(text) if Time::parse_rfc3339(text).is_err() => Err(format!(
            "{field}: parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
        )),
        _ => Ok(()),
    }
}

/// Checks that every amount of a resource, at any depth, is a quantity.
fn quantities(value: &Value) -> Result<(), String> {
    match value {
        Value::Object(fields) => fields.iter().try_for_each(|(field, value)| match value {
            Value::Object(amounts) if is_resource_list(field) => {
                amounts.values().try_for_each(amounts_of)
            }
            value => quantities(value),
        }),
        Value::Array(items) => items.iter().try_for_each(quantities),
        _ => Ok(()),
    }
}

fn is_resource_list(field: &str) -> bool {
    matches!(field, "limits" | "requests" | "overhead" | "capacity" | "allocatable" | "counters")
}

/// Checks an amount; the capacity of a device contains several.
fn amounts_of(value: &Value) -> Result<(), String> {
    match value {
        Value::Object(fields) => fields.values().try_for_each(amounts_of),
        Value::Array(items) => items.iter().try_for_each(amounts_of),
        amount => quantity(amount),
    }
}

fn quantity(value: &Value) -> Result<(), String> {
    let parsed = match value {
        Value::String(text) => text.parse::<Quantity>(),
        other => other.to_string().parse(),
    };
    parsed.map(drop).map_err(|error| error.to_string())
}
