//! Subresources of objects, such as `pods/binding`, and reviews, which are not stored.

mod binding;
mod eviction;
mod log;
mod reviews;
mod scale;
#[cfg(test)]
mod tests;
mod token_request;

use framework::Time;
use serde_json::Value;

use crate::api::{Request, Response};
use crate::resources::Resource;
use crate::route::Route;
use crate::status::Status;
use crate::store::Store;

/// A request to a subresource or a review.
#[derive(Debug, Clone, Copy)]
struct Call<'a> {
    resource: &'static Resource,
    namespace: &'a str,
    /// Name of the object in the path, empty for a review.
    name: &'a str,
    request: &'a Request,
    now: Time,
}

/// Serves `pods/binding`, `pods/eviction`, `pods/log`, `serviceaccounts/token`, `*/scale`, and with
/// an empty `subresource` bindings and reviews. The request is authorized already.
///
/// # Errors
/// The status of the API server, and 405 if the subresource does not exist or does not support the
/// method.
pub(crate) fn serve(
    store: &mut Store,
    route: &Route,
    request: &Request,
    now: Time,
) -> Result<Response, Status> {
    let Route { resource, namespace, name, subresource } = route;
    let call = Call { resource, namespace, name, request, now };
    match (resource.plural, subresource.as_str(), request.method.as_str()) {
        ("pods", "binding", "POST") | ("bindings", "", "POST") => binding::create(store, &call),
        ("pods", "eviction", "POST") => eviction::create(store, &call),
        ("pods", "log", "GET") => log::get(store, &call),
        ("serviceaccounts", "token", "POST") => token_request::create(store, &call),
        (_, "scale", "GET") => scale::get(store, &call),
        (_, "scale", "PUT" | "PATCH") => scale::update(store, &call),
        ("tokenreviews", "", "POST") => reviews::token(store, &call),
        ("selfsubjectreviews", "", "POST") => reviews::self_subject(&call),
        ("subjectaccessreviews" | "localsubjectaccessreviews", "", "POST") => {
            reviews::subject_access(store, &call)
        }
        ("selfsubjectaccessreviews", "", "POST") => reviews::self_subject_access(store, &call),
        ("selfsubjectrulesreviews", "", "POST") => reviews::self_subject_rules(store, &call),
        _ => Err(Status::method_not_allowed()),
    }
}

impl Call<'_> {
    fn body(&self) -> Result<Value, Status> {
        serde_json::from_slice(&self.request.body).map_err(|error| {
            Status::bad_request(format!("the body of the request is not a JSON object: {error}"))
        })
    }

    fn is_dry_run(&self) -> bool {
        self.request.parameter("dryRun") == Some("All")
    }

    /// Checks that the body names the object of the path, or none.
    fn check_name(&self, named: &str, kind: &str) -> Result<(), Status> {
        if named.is_empty() || named == self.name {
            return Ok(());
        }
        Err(Status::bad_request(format!("name in URL does not match name in {kind} object")))
    }
}

fn object(status: u16, object: &Value) -> Response {
    Response {
        status,
        content_type: "application/json",
        retry_after: None,
        warnings: Vec::new(),
        body: object.to_string().into(),
    }
}

/// Returns 201 with a bare Status.
fn created() -> Response {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    object(201, &status)
}
