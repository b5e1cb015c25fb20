//! `serviceaccounts/token`: issues a token of a ServiceAccount.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Call, object};
use crate::api::Response;
use crate::authentication::{AUDIENCE, ServiceAccountToken};
use crate::metadata::{name, uid};
use crate::object::{entries, number, put, timestamp};
use crate::resources::SERVICEACCOUNTS;
use crate::status::{Cause, Status};
use crate::store::Store;

const DEFAULT_SECONDS: i64 = 3600;
const SHORTEST_SECONDS: i64 = 600;
/// Maximum lifetime, 2^32 seconds.
const LONGEST_SECONDS: i64 = 1 << 32;

pub(super) fn create(store: &mut Store, call: &Call<'_>) -> Result<Response, Status> {
    let account = store.get(SERVICEACCOUNTS, call.namespace, call.name).cloned();
    let account = account.ok_or_else(|| Status::not_found(SERVICEACCOUNTS, call.name))?;
    let mut review = call.body()?;
    call.check_name(name(&review), "TokenRequest")?;
    if !review["spec"]["boundObjectRef"].is_null() {
        let why = "the sandbox binds tokens to no object; leave spec.boundObjectRef out";
        return Err(Status::bad_request(why));
    }
    let lifetime = lifetime(&review, call)?;
    let audiences = entries(&review, "/spec/audiences").filter_map(Value::as_str);
    let mut audiences: Vec<String> = audiences.map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences.push(AUDIENCE.to_owned());
    }
    let expiration = timestamp(call.now + lifetime);
    put(
        &mut review,
        &["metadata"],
        json!({
            "name": call.name, "namespace": call.namespace, "uid": uid(&account),
            "creationTimestamp": timestamp(call.now),
        }),
    );
    put(
        &mut review,
        &["spec"],
        json!({
            "audiences": audiences, "expirationSeconds": lifetime.as_secs(),
            "boundObjectRef": null,
        }),
    );
    let token = ServiceAccountToken {
        namespace: call.namespace.to_owned(),
        name: call.name.to_owned(),
        uid: uid(&account).to_owned(),
        id: store.new_uid(),
        audiences,
        issued: call.now,
        lifetime,
    };
    put(
        &mut review,
        &["status"],
        json!({"token": token.encode(), "expirationTimestamp": expiration}),
    );
    Ok(object(201, &review))
}

fn lifetime(review: &Value, call: &Call<'_>) -> Result<Duration, Status> {
    let seconds = number(review, "/spec/expirationSeconds").unwrap_or(DEFAULT_SECONDS);
    let fault = match seconds {
        ..SHORTEST_SECONDS => "may not specify a duration less than 10 minutes",
        LONGEST_SECONDS.. => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(Duration::from_secs(seconds.unsigned_abs())),
    };
    let cause = Cause::invalid("spec.expirationSeconds", &json!(seconds), fault);
    Err(Status::invalid(SERVICEACCOUNTS, call.name, vec![cause]))
}
