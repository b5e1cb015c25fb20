//! `Status`: the error of a request, with the texts of the Kubernetes API server.

use serde::Serialize;
use serde_json::{Value, json};

use crate::api::Response;
use crate::resources::Resource;

/// A failed request, as `metav1.Status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// HTTP status.
    pub code: u16,
    /// Machine-readable reason, for example `NotFound`.
    pub reason: &'static str,
    /// Description for people.
    pub message: String,
    /// The object or resource that it is about.
    pub details: Option<Box<Details>>,
    /// `metadata.continue`: token for the inconsistent rest of an expired list.
    pub continue_token: Option<String>,
}

/// The subject of a [`Status`]; empty fields are not written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group of the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Resource, or kind where Kubernetes writes the kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// UID of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Individual faults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Seconds to wait before the next try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

/// One fault of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Machine-readable reason, for example `FieldValueInvalid`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: &'static str,
    /// Description without the path.
    pub message: String,
    /// Path of the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, continue_token: None }
    }

    /// Returns the same with details.
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    fn about(self, resource: &Resource, name: &str) -> Self {
        self.with_details(Details {
            name: name.to_owned(),
            group: resource.group.to_owned(),
            kind: resource.plural.to_owned(),
            ..Details::default()
        })
    }

    /// 400: the request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401: the caller is not authenticated.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403: the caller must not read or write this object, for the reason in `why`.
    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let subject = match name {
            "" => resource.qualified(),
            name => format!("{} \"{name}\"", resource.qualified()),
        };
        Self::new(403, "Forbidden", format!("{subject} is forbidden: {why}")).about(resource, name)
    }

    /// 403 for a path that is not a resource.
    pub fn forbidden_path(message: impl Into<String>) -> Self {
        Self::new(403, "Forbidden", message).with_details(Details::default())
    }

    /// 404: the object does not exist.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::new(404, "NotFound", message).about(resource, name)
    }

    /// 404: the resource or subresource does not exist.
    pub fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .with_details(Details::default())
    }

    /// 405: the resource does not support the verb.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with_details(Details::default())
    }

    /// 406: no media type in `Accept` is offered.
    pub fn not_acceptable() -> Self {
        const OFFERED: &str = "application/json, application/yaml, application/json;stream=watch";
        let message = format!("406: Not Acceptable\n\nAvailable representations: {OFFERED}");
        Self::new(406, "NotAcceptable", message).with_details(Details::default())
    }

    /// 409: the name is taken.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message).about(resource, name)
    }

    /// 409: the state of the object does not allow the operation, for the reason in `why`.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        Self::new(409, "Conflict", cannot_be_fulfilled(&resource.qualified(), name, why))
            .about(resource, name)
    }

    /// 409 of a subresource or of a deletion, which write their subject differently.
    pub fn conflict_of(subject: &str, name: &str, why: &str) -> Self {
        let details =
            Details { name: name.to_owned(), kind: subject.to_owned(), ..Details::default() };
        Self::new(409, "Conflict", cannot_be_fulfilled(subject, name, why)).with_details(details)
    }

    /// 409: the resourceVersion in the write is not the current one.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(resource, name, why)
    }

    /// 409: the UID in the write differs from the object's, in the words of the storage layer.
    pub fn uid_mismatch(
        resource: &Resource,
        namespace: &str,
        name: &str,
        wanted: &str,
        found: &str,
    ) -> Self {
        let key = match namespace {
            "" => format!("/registry/{}/{name}", resource.plural),
            namespace => format!("/registry/{}/{namespace}/{name}", resource.plural),
        };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in \
             object meta: {found}"
        );
        Self::conflict(resource, name, &why)
    }

    /// 410: the requested history is compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 413: the body exceeds the limit.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message).with_details(Details::default())
    }

    /// 415: the media type of the body is not supported.
    pub fn unsupported_media_type() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
            .with_details(Details::default())
    }

    /// 415 for the body of a creation or update.
    pub fn unknown_body_format() -> Self {
        let message = "the body of the request was in an unknown format - accepted media types \
                       include: application/json, application/yaml";
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 415 for a patch of a custom resource.
    pub fn unknown_patch_format() -> Self {
        let message = "the body of the request was in an unknown format - accepted media types \
                       include: application/json-patch+json, application/merge-patch+json, \
                       application/apply-patch+yaml";
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 422: the object violates rules of its kind.
    pub fn invalid(resource: &Resource, name: &str, causes: Vec<Cause>) -> Self {
        let kind = resource.qualified_kind();
        let faults: Vec<String> = causes.iter().map(Cause::to_string).collect();
        let faults = match faults.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let details = Details {
            name: name.to_owned(),
            group: resource.group.to_owned(),
            kind: resource.kind.to_owned(),
            causes,
            ..Details::default()
        };
        Self::new(422, "Invalid", format!("{kind} \"{name}\" is invalid: {faults}"))
            .with_details(details)
    }

    /// 422: the options of a request, for example `ListOptions`, violate a rule.
    pub fn invalid_options(kind: &str, cause: Cause) -> Self {
        let message = format!("{kind}.meta.k8s.io \"\" is invalid: {cause}");
        Self::new(422, "Invalid", message).with_details(Details {
            group: "meta.k8s.io".to_owned(),
            kind: kind.to_owned(),
            causes: vec![cause],
            ..Details::default()
        })
    }

    /// 422 without a field: the operation cannot be applied to the object.
    pub fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message).with_details(Details::default())
    }

    /// 429: the client may retry after `retry_after` seconds; 0 leaves the time out.
    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        let retry_after_seconds = (retry_after > 0).then_some(retry_after);
        Self::new(429, "TooManyRequests", message)
            .with_details(Details { retry_after_seconds, ..Details::default() })
    }

    /// 500: the server failed.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }

    /// 500: a fail-closed admission webhook cannot be called, as recorded from kube-apiserver.
    pub fn webhook_down() -> Self {
        let failure = "failed calling webhook \"w.example.com\": failed to call webhook: Post \
                       \"https://127.0.0.1:9/x?timeout=1s\": dial tcp 127.0.0.1:9: connect: connection refused";
        let cause = Cause { message: failure.to_owned(), ..Cause::default() };
        Self::internal(format!("Internal error occurred: {failure}"))
            .with_details(Details { causes: vec![cause], ..Details::default() })
    }

    /// 503: the server is unavailable.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// 504: the requested version is newer than the store.
    pub fn version_too_large(wanted: u64, current: u64) -> Self {
        let cause = Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        Self::new(504, "Timeout", message).with_details(Details {
            causes: vec![cause],
            retry_after_seconds: Some(1),
            ..Details::default()
        })
    }

    /// Returns the status as an object of the API.
    pub fn to_value(&self) -> Value {
        let mut value = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(details) = &self.details {
            value["details"] = json!(details);
        }
        if let Some(token) = &self.continue_token {
            value["metadata"]["continue"] = json!(token);
        }
        value
    }

    /// Returns the answer that says it.
    pub fn response(&self) -> Response {
        Response {
            status: self.code,
            content_type: "application/json",
            retry_after: self.details.as_ref().and_then(|details| details.retry_after_seconds),
            warnings: Vec::new(),
            body: self.to_value().to_string().into(),
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

impl Cause {
    /// Returns the fault of a value that violates a rule. `value` is written as JSON.
    pub fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        let message = format!("Invalid value: {value}: {why}");
        Self { reason: "FieldValueInvalid", message, field: field.into() }
    }

    /// Returns the fault of a missing field. `why` may be empty.
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message = with_why("Required value", why);
        Self { reason: "FieldValueRequired", message, field: field.into() }
    }

    /// Returns the fault of a value outside a closed set.
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let supported: Vec<String> =
            supported.iter().map(|value| Value::from(*value).to_string()).collect();
        let message =
            format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
        Self { reason: "FieldValueNotSupported", message, field: field.into() }
    }

    /// Returns the fault of a field that must not be set, or not to this value. `why` may be empty.
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        let message = with_why("Forbidden", why);
        Self { reason: "FieldValueForbidden", message, field: field.into() }
    }

    /// Returns the fault of a list with more items than allowed.
    pub fn too_many(field: impl Into<String>, count: usize, most: usize) -> Self {
        let message = format!("Too many: {count}: must have at most {most} items");
        Self { reason: "FieldValueTooMany", message, field: field.into() }
    }

    /// Returns the fault of a value that the list has already.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        let message = format!("Duplicate value: {value}");
        Self { reason: "FieldValueDuplicate", message, field: field.into() }
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

fn with_why(what: &str, why: &str) -> String {
    if why.is_empty() { what.to_owned() } else { format!("{what}: {why}") }
}

fn cannot_be_fulfilled(subject: &str, name: &str, why: &str) -> String {
    format!("Operation cannot be fulfilled on {subject} \"{name}\": {why}")
}
