//! Reviews: the user of a request or a token, and permissions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Call, object};
use crate::api::{Response, User};
use crate::authorization::{Attributes, Decision, PolicyRule, Target, user_of_token};
use crate::object::{entries, put, text};
use crate::resources::Resource;
use crate::status::{Cause, Status};
use crate::store::Store;

const AUDIENCE: &str = "https://kubernetes.default.svc";

pub(super) fn token(store: &Store, call: &Call<'_>) -> Result<Response, Status> {
    let review = call.body()?;
    if text(&review, "/spec/token").is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let status = match user_of_token(store, text(&review, "/spec/token"), call.now) {
        Some(user) => json!({
            "authenticated": true,
            "user": user_info(&user),
            "audiences": [AUDIENCE],
        }),
        None => json!({"user": {}, "error": "invalid bearer token"}),
    };
    Ok(answer(review, status))
}

pub(super) fn self_subject(call: &Call<'_>) -> Result<Response, Status> {
    let review = call.body()?;
    Ok(answer(review, json!({"userInfo": user_info(&call.request.user)})))
}

pub(super) fn self_subject_access(store: &Store, call: &Call<'_>) -> Result<Response, Status> {
    access(store, call, call.body()?, &call.request.user)
}

pub(super) fn subject_access(store: &Store, call: &Call<'_>) -> Result<Response, Status> {
    let review = call.body()?;
    let groups = entries(&review, "/spec/groups").filter_map(Value::as_str);
    let user = User {
        name: text(&review, "/spec/user").to_owned(),
        groups: groups.map(str::to_owned).collect(),
    };
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
    let status = match store.policy().decide(user, &attributes) {
        Decision::Allowed => json!({"allowed": true}),
        Decision::Denied(reason) if reason.is_empty() => json!({"allowed": false}),
        Decision::Denied(reason) => json!({"allowed": false, "reason": reason}),
    };
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

fn user_info(user: &User) -> Value {
    json!({"username": user.name, "groups": user.groups})
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
