//! OpenAPI documents, as far as clients need them to write objects: the paths, and that the server
//! validates fields. They hold no schemas, so `kubectl explain` does not work.

use serde_json::{Map, Value, json};

use crate::api::{Request, Response};
use crate::discovery::{json_response, not_found};
use crate::resources::Resource;

const TITLE: &str = "Kubernetes";
const VERSION: &str = "v1.36.2";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Answers `/openapi/...`.
pub(crate) fn serve(path: &[&str], request: &Request, resources: &[&'static Resource]) -> Response {
    match path {
        ["v2"] if request.accept.contains("protobuf") => Response {
            content_type: PROTOBUF,
            body: protobuf_v2().into(),
            ..json_response(&json!(0))
        },
        ["v2"] => json_response(&json!({
            "swagger": "2.0", "info": {"title": TITLE, "version": VERSION}, "paths": {},
        })),
        ["v3"] => json_response(&index_v3(resources)),
        ["v3", group_version @ ..] => match document_v3(&group_version.join("/"), resources) {
            Some(document) => json_response(&document),
            None => not_found(),
        },
        _ => not_found(),
    }
}

/// Returns the version 2 document without paths, for clients (kubectl up to 1.26) that insist on
/// protobuf: field 1 is the version of OpenAPI, field 2 has title and version of the API.
fn protobuf_v2() -> Vec<u8> {
    let info = [text_field(1, TITLE.as_bytes()), text_field(2, VERSION.as_bytes())].concat();
    [text_field(1, b"2.0"), text_field(2, &info)].concat()
}

/// Returns a length-delimited field of protobuf, of at most 127 bytes.
fn text_field(number: u8, content: &[u8]) -> Vec<u8> {
    debug_assert!(content.len() < 128, "one byte holds the length");
    let length = u8::try_from(content.len()).unwrap_or(0);
    [&[number << 3 | 2, length], content].concat()
}

/// Returns the path under which a group and version is served, without the leading slash.
fn root(resource: &Resource) -> String {
    let prefix = if resource.group.is_empty() { "api" } else { "apis" };
    format!("{prefix}/{}", resource.api_version())
}

fn index_v3(resources: &[&'static Resource]) -> Value {
    let roots = resources.iter().map(|resource| root(resource));
    let paths: Map<String, Value> = roots
        .map(|root| {
            let url = format!("/openapi/v3/{root}?hash={VERSION}");
            (root, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

/// Returns the paths of one group and version. Clients look at the parameters of PATCH to learn
/// that the server validates fields itself.
fn document_v3(wanted: &str, resources: &[&'static Resource]) -> Option<Value> {
    let known = resources.iter().any(|resource| root(resource) == wanted);
    let stored = resources.iter().filter(|resource| resource.stored && root(resource) == wanted);
    let paths: Map<String, Value> =
        stored.map(|resource| (object_path(resource), operations(resource))).collect();
    let document = json!({
        "openapi": "3.0.0", "info": {"title": TITLE, "version": VERSION}, "paths": paths,
    });
    known.then_some(document)
}

fn object_path(resource: &Resource) -> String {
    let namespaces = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    format!("/{}{namespaces}/{}/{{name}}", root(resource), resource.plural)
}

fn operations(resource: &Resource) -> Value {
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    let parameters = ["dryRun", "fieldManager", "fieldValidation"].map(parameter);
    let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    json!({"patch": {
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": kind,
    }})
}
