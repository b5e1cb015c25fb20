//! The `scale` subresource of workloads.

use serde_json::{Value, json};

use super::{Call, object};
use crate::api::Response;
use crate::metadata::{name, resource_version};
use crate::object::{entries, number, put, text};
use crate::patch;
use crate::status::{Cause, Status};
use crate::store::Store;

pub(super) fn get(store: &Store, call: &Call<'_>) -> Result<Response, Status> {
    let target = store.get(call.resource, call.namespace, call.name);
    let target = target.ok_or_else(|| Status::not_found(call.resource, call.name))?;
    Ok(object(200, &scale_of(target)))
}

pub(super) fn update(store: &mut Store, call: &Call<'_>) -> Result<Response, Status> {
    let current = store.get(call.resource, call.namespace, call.name);
    let current = current.ok_or_else(|| Status::not_found(call.resource, call.name))?.clone();
    let wanted = match call.request.method.as_str() {
        "PUT" => call.body()?,
        _ => {
            let (current, request) = (scale_of(&current), call.request);
            patch::apply_patch(current, &request.content_type, &request.body)?
        }
    };
    call.check_name(name(&wanted), "Scale")?;
    let version = resource_version(&wanted);
    if !version.is_empty() && version != resource_version(&current) {
        return Err(Status::modified(call.resource, call.name));
    }
    let replicas = number(&wanted, "/spec/replicas").unwrap_or(0);
    if replicas < 0 {
        let why = "must be greater than or equal to 0";
        let cause = Cause::invalid("spec.replicas", &json!(replicas), why);
        return Err(Status::invalid(call.resource, call.name, vec![cause]));
    }
    let mut scaled = Value::clone(&current);
    let scale = |target: &mut Value| {
        put(target, &["spec", "replicas"], json!(replicas));
        Ok(())
    };
    if call.is_dry_run() {
        scale(&mut scaled)?;
    } else {
        let (namespace, name) = (call.namespace, call.name);
        scaled = Value::clone(&*store.modify(call.resource, namespace, name, call.now, scale)?);
    }
    Ok(object(200, &scale_of(&scaled)))
}

fn scale_of(target: &Value) -> Value {
    let metadata = &target["metadata"];
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": number(target, "/spec/replicas").unwrap_or(0)},
        "status": {
            "replicas": number(target, "/status/replicas").unwrap_or(0),
            "selector": selector(&target["spec"]["selector"]),
        },
    })
}

/// Formats a label selector, sorted by key: `app=web,tier in (a,b),!old`.
fn selector(selector: &Value) -> String {
    // The selector of a ReplicationController is a plain map.
    let pairs = selector.get("matchLabels").unwrap_or(selector).as_object();
    let pairs = pairs
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str(), format!("{key}={}", value.as_str()?))));
    let expressions = entries(selector, "/matchExpressions").map(|own| {
        let key = text(own, "/key");
        let values: Vec<&str> = entries(own, "/values").filter_map(Value::as_str).collect();
        let values = values.join(",");
        let term = match text(own, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        (key, term)
    });
    let mut terms: Vec<(&str, String)> = pairs.chain(expressions).collect();
    terms.sort();
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_formatted_like_in_kubectl() {
        let table = [
            (json!({"matchLabels": {"b": "2", "a": "1"}}), "a=1,b=2"),
            (json!({"app": "web"}), "app=web"),
            (
                json!({"matchLabels": {"app": "web"}, "matchExpressions": [
                    {"key": "tier", "operator": "In", "values": ["a", "b"]},
                    {"key": "old", "operator": "DoesNotExist"},
                    {"key": "new", "operator": "Exists"}]}),
                "app=web,new,!old,tier in (a,b)",
            ),
            (Value::Null, ""),
        ];
        for (given, expected) in table {
            assert_eq!(selector(&given), expected);
        }
    }
}
