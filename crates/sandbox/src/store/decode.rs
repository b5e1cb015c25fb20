//! Decoding of request bodies, and the check that they are what the path names.

use serde_json::Value;

use super::delete::{DeleteOptions, Propagation};
use crate::api::Request;
use crate::metadata;
use crate::object::text;
use crate::resources::{self, Resource};
use crate::status::Status;
use crate::unknown_fields;

/// An object with the warnings about it.
pub(super) struct Decoded {
    pub(super) object: Value,
    pub(super) warnings: Vec<String>,
}

/// Returns the object in the body of a creation or update.
pub(super) fn object(resource: &Resource, request: &Request) -> Result<Decoded, Status> {
    let (mut object, duplicates) = match media_type(&request.content_type) {
        "" | "application/json" => yaml::known_fields::decode(&request.body).map_err(|error| {
            unrecognized(resource, request, &format!("json parse error: {error}"))
        }),
        "application/yaml" => from_yaml(resource, request).map(|object| (object, Vec::new())),
        _ => Err(Status::unknown_body_format()),
    }?;
    check_kind(resource, &object)?;
    metadata::set_kind(&mut object, resource);
    let warnings = check_fields(resource, request, None, &mut object, &duplicates)?;
    Ok(Decoded { object, warnings })
}

/// Removes unknown fields of an object, which may have been made from a stored one.
/// `fieldValidation` decides about them and about duplicate fields: an error, a warning (the
/// default), or silence.
pub(super) fn check_fields(
    resource: &Resource,
    request: &Request,
    stored: Option<&Value>,
    object: &mut Value,
    duplicates: &[String],
) -> Result<Vec<String>, Status> {
    let unknown = match stored {
        Some(stored) => unknown_fields::remove_unknown_of_change(resource, stored, object),
        None => unknown_fields::remove_unknown(resource, object),
    };
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    let duplicates = duplicates.iter().map(|path| format!("duplicate field {path:?}"));
    let faults: Vec<String> = unknown.chain(duplicates).collect();
    match request.parameter("fieldValidation") {
        Some("Ignore") => Ok(Vec::new()),
        Some("Strict") if !faults.is_empty() => {
            let why = format!("strict decoding error: {}", faults.join(", "));
            Err(malformed(resource, &why))
        }
        _ => Ok(faults),
    }
}

fn malformed(resource: &Resource, why: &str) -> Status {
    let (kind, version) = (resource.kind, resource.version);
    Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
    ))
}

/// Returns the object in the body of a server-side apply, which may be YAML or JSON.
pub(super) fn applied(resource: &Resource, request: &Request) -> Result<Decoded, Status> {
    let mut object = from_yaml(resource, request)?;
    check_kind(resource, &object)?;
    let warnings = check_fields(resource, request, None, &mut object, &[])?;
    Ok(Decoded { object, warnings })
}

fn from_yaml(resource: &Resource, request: &Request) -> Result<Value, Status> {
    // Most bodies with the media type of YAML are JSON, which decodes much faster.
    serde_json::from_slice(&request.body).or_else(|_| {
        let refused =
            |why: &str| unrecognized(resource, request, &format!("yaml parse error: {why}"));
        let text = str::from_utf8(&request.body).map_err(|error| refused(&error.to_string()))?;
        let parsed = yaml::read(text).map_err(|error| refused(&error.to_string()))?;
        Ok(parsed.value)
    })
}

/// Returns the media type of a `Content-Type`, without parameters.
pub(super) fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

fn unrecognized(resource: &Resource, request: &Request, why: &str) -> Status {
    let body = String::from_utf8_lossy(&request.body);
    let kind = resource.kind;
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; \
         {why} ({body})"
    ))
}

/// Refuses objects of another kind. An object without a kind has the kind of the path.
fn check_kind(resource: &Resource, object: &Value) -> Result<(), Status> {
    let wanted = resource.kind;
    if !object.is_object() {
        return Err(malformed(resource, "json: the body is no object"));
    }
    let metadata = object.get("metadata");
    if metadata.is_some_and(|metadata| !metadata.is_object() && !metadata.is_null()) {
        return Err(malformed(resource, "json: metadata is no object"));
    }
    let (kind, api_version) = (text(object, "/kind"), text(object, "/apiVersion"));
    if kind.is_empty() || (kind == wanted && api_version == resource.api_version()) {
        return Ok(());
    }
    if kind == wanted {
        let expected = resource.api_version();
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version \
             ({expected})"
        )));
    }
    Err(another_kind(resource, api_version, kind))
}

fn another_kind(resource: &Resource, api_version: &str, kind: &str) -> Status {
    if resources::of_kind(api_version, kind).is_none() {
        return Status::bad_request(format!(
            "no kind {kind:?} is registered for version {api_version:?}"
        ));
    }
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let package = resource.group.split('.').next().filter(|group| !group.is_empty());
    let (wanted, package) = (resource.kind, package.unwrap_or("core"));
    Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {wanted}: converting \
         ({version}.{kind}) to ({package}.{wanted}): unknown conversion"
    ))
}

/// Returns the options of a deletion, from the body or else from the query.
pub(super) fn delete_options(request: &Request) -> Result<DeleteOptions, Status> {
    let body: Value = match &request.body {
        body if body.is_empty() => Value::Null,
        body => serde_json::from_slice(body).map_err(|error| {
            Status::bad_request(format!("the DeleteOptions in the body do not parse: {error}"))
        })?,
    };
    let own = |pointer: &str| Some(text(&body, pointer).to_owned()).filter(|own| !own.is_empty());
    let query = |name: &str| request.parameter(name);
    let grace = body.pointer("/gracePeriodSeconds").and_then(Value::as_i64);
    let propagation = own("/propagationPolicy");
    let orphans = propagation.as_deref().or(query("propagationPolicy")) == Some("Orphan")
        || body.pointer("/orphanDependents") == Some(&Value::Bool(true))
        || request.flag("orphanDependents");
    Ok(DeleteOptions {
        grace_period_seconds: grace
            .or_else(|| query("gracePeriodSeconds").and_then(|seconds| seconds.parse().ok())),
        uid: own("/preconditions/uid"),
        resource_version: own("/preconditions/resourceVersion"),
        propagation: if orphans { Propagation::Orphan } else { Propagation::Background },
        dry_run: is_dry_run(request) || text(&body, "/dryRun/0") == "All",
    })
}

/// Returns whether the request is a dry run.
pub(super) fn is_dry_run(request: &Request) -> bool {
    request.parameter("dryRun") == Some("All")
}
