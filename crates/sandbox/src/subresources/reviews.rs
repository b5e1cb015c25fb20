//! Reviews: the user of a request or a token, and permissions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Call, object};
use crate::api::{Response, User};
use crate::authentication::{TokenUser, authenticate_token};
use crate::authorization::{Attributes, Decision, PolicyRule, Target};
use crate::object::{entries, put, text};
use crate::resources::Resource;
use crate::status::{Cause, Status};
use crate::store::Store;

pub(super) fn token(store: &Store, call: &Call<'_>) -> Result<Response, Status> {
    let review = call.body()?;
    let token = text(&review, "/spec/token");
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = texts(&review, "/spec/audiences");
    let status = match authenticate_token(store, token, &audiences, call.now) {
        Ok(TokenUser { user, audiences }) => {
            json!({"authenticated": true, "user": user, "audiences": audiences})
        }
        Err(error) => json!({"user": {}, "error": error}),
    };
    Ok(answer(review, status))
}

pub(super) fn self_subject(call: &Call<'_>) -> Result<Response, Status> {
    let review = call.body()?;
    Ok(answer(review, json!({"userInfo": call.request.user})))
}

pub(super) fn self_subject_access(store: &Store, call: &Call<'_>) -> Result<Response, Status> {
    access(store, call, call.body()?, &call.request.user)
}

pub(super) fn subject_access(store: &Store, call: &Call<'_>) -> Result<Response, Status> {
    let review = call.body()?;
    let user = User::new(text(&review, "/spec/user"), texts(&review, "/spec/groups"));
    if user.name.is_empty() && user.groups.is_empty() {
        let why = "at least one of user or group must be specified";
        return Err(invalid(call, Cause::invalid("spec.user", &json!(""), why)));
    }
    if !call.namespace.is_empty()
        && text(&review, "/spec/resourceAttributes/namespace") != call.namespace
    {
        let why = format!("must match metadata.namespace: {}", call.namespace);
        let namespace = &review["spec"]["resourceAttributes"]["namespace"];
        let cause = Cause::invalid("spec.resourceAttributes.namespace", namespace, &why);
        return Err(invalid(call, cause));
    }
    access(store, call, review, &user)
}

fn access(store: &Store, call: &Call<'_>, review: Value, user: &User) -> Result<Response, Status> {
    let Some(attributes) = attributes(&review) else {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        let given = &review["spec"]["resourceAttributes"];
        return Err(invalid(call, Cause::invalid("spec.resourceAttributes", given, why)));
    };
    let (allowed, reason) = match store.policy().decide(user, &attributes) {
        Decision::Allowed(reason) => (true, reason),
        Decision::Denied(reason) => (false, reason),
    };
    let mut status = json!({"allowed": allowed});
    if !reason.is_empty() {
        status["reason"] = json!(reason);
    }
    Ok(answer(review, status))
}

/// Returns the request that the review is about; `None` unless it names either a resource or a
/// path.
fn attributes(review: &Value) -> Option<Attributes<'_>> {
    let given = |field: &str| review["spec"].get(field).filter(|given| given.is_object());
    match (given("resourceAttributes"), given("nonResourceAttributes")) {
        (Some(asked), None) => Some(Attributes {
            verb: text(asked, "/verb"),
            target: Target::Resource {
                group: text(asked, "/group"),
                resource: text(asked, "/resource"),
                subresource: text(asked, "/subresource"),
                namespace: text(asked, "/namespace"),
                name: text(asked, "/name"),
            },
        }),
        (None, Some(asked)) => Some(Attributes {
            verb: text(asked, "/verb"),
            target: Target::Path(text(asked, "/path")),
        }),
        _ => None,
    }
}

pub(super) fn self_subject_rules(store: &Store, call: &Call<'_>) -> Result<Response, Status> {
    let review = call.body()?;
    let rules = store.policy().rules_of(&call.request.user, text(&review, "/spec/namespace"));
    let (paths, resources): (Vec<_>, Vec<_>) =
        rules.partition(|rule| rule.resources.is_empty() && !rule.non_resource_urls.is_empty());
    let status = json!({
        "resourceRules": distinct(&resources),
        "nonResourceRules": distinct(&paths),
        "incomplete": false,
    });
    Ok(answer(review, status))
}

/// Returns the distinct rules in their order.
fn distinct(rules: &[&PolicyRule]) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let rules = rules.iter().map(|rule| json!(rule));
    rules.filter(|rule| seen.insert(rule.to_string())).collect()
}

/// Returns the texts of a list.
fn texts(review: &Value, pointer: &str) -> Vec<String> {
    entries(review, pointer).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the error of a review, which the API server reports without its kind.
fn invalid(call: &Call<'_>, cause: Cause) -> Status {
    Status::invalid(&Resource { kind: "", ..*call.resource }, "", vec![cause])
}

/// Returns the review with its outcome.
fn answer(mut review: Value, status: Value) -> Response {
    if !review["metadata"].is_object() {
        put(&mut review, &["metadata"], json!({}));
    }
    put(&mut review, &["status"], status);
    object(201, &review)
}
