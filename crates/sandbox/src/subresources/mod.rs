//! What is served beneath objects, `pods/binding` for one, and the reviews that are answered and
//! not kept.

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
    /// Name of the object in the path, empty if there is none.
    name: &'a str,
    request: &'a Request,
    now: Time,
}

/// Serves `pods/binding`, `pods/eviction`, `pods/log`, `serviceaccounts/token`, `*/scale`, and with an
/// empty `subresource` the resources that are only answered: bindings and reviews. The request is
/// authorized already.
///
/// # Errors
/// What the API server says, 405 if there is nothing of this kind or it does not take the method.
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

    /// The body must name the object of the path, or nothing.
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

/// 201 with a Status that says no more.
fn created() -> Response {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    object(201, &status)
}
