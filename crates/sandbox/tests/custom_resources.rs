//! Custom resources as a client sees them: definitions, their objects, and what is left of both.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use framework::Time;
use loadmaster_sandbox::api::{Answer, Request, Response, WatchId};
use loadmaster_sandbox::controllers::Controllers;
use loadmaster_sandbox::resources::{CONFIGMAPS, CUSTOMRESOURCEDEFINITIONS};
use loadmaster_sandbox::store::Store;
use serde_json::{Value, json};

const NOW: Time = Time::from_secs(1_700_000_000);
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WINDOWS: &str = "/apis/example.com/v1/namespaces/default/windows";
const MERGE: &str = "application/merge-patch+json";

/// A definition with two versions, a status and a column.
fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "required": ["nodes"], "properties": {
            "nodes": {"type": "array", "items": {"type": "string"}},
            "state": {"type": "string", "enum": ["Open", "Closed"], "default": "Open"},
        }},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}});
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": schema,
            "subresources": {"status": {}},
            "additionalPrinterColumns":
                [{"name": "State", "type": "string", "jsonPath": ".spec.state"}],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "windows.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "windows", "kind": "Window", "shortNames": ["win"]},
            "versions": [version("v1beta1", false), version("v1", true)],
        },
    })
}

fn window(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Window", "metadata": {"name": name},
        "spec": {"nodes": ["a"]}})
}

/// A store that serves windows.
fn store() -> Store {
    let mut store = Store::new(7, NOW);
    expect(&mut store, "POST", DEFINITIONS, &definition(), 201);
    store
}

fn respond(store: &mut Store, request: &Request) -> Response {
    match store.serve(request, NOW) {
        Answer::Whole(response) => response,
        Answer::Watch(_) => panic!("{} opened a watch", request.path),
    }
}

/// Sends a request of the administrator and returns the body of the answer.
fn expect(store: &mut Store, method: &str, target: &str, body: &Value, status: u16) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut request = Request::new(method, target, body);
    if method == "PATCH" {
        request.content_type = MERGE.to_owned();
    }
    let response = respond(store, &request);
    assert_eq!(response.status, status, "{method} {target}: {:?}", response.body);
    serde_json::from_slice(&response.body).unwrap_or_default()
}

fn get(store: &mut Store, target: &str) -> Value {
    expect(store, "GET", target, &Value::Null, 200)
}

fn open_watch(store: &mut Store, target: &str) -> WatchId {
    match store.serve(&Request::new("GET", target, ""), NOW) {
        Answer::Watch(id) => id,
        Answer::Whole(response) => panic!("{target}: {:?}", response.body),
    }
}

#[test]
fn discovery_lists_the_versions_and_names_of_a_definition() {
    let mut store = store();
    let group = get(&mut store, "/apis/example.com");
    assert_eq!(group["preferredVersion"]["version"], "v1");
    assert_eq!(group["versions"][1]["groupVersion"], "example.com/v1beta1");
    let list = get(&mut store, "/apis/example.com/v1");
    let [resource, status] = list["resources"].as_array().unwrap().as_slice() else {
        panic!("{list}");
    };
    assert_eq!(resource["singularName"], "window");
    assert_eq!(resource["shortNames"], json!(["win"]));
    assert_eq!(resource["namespaced"], true);
    assert_eq!(status["name"], "windows/status");
}

#[test]
fn objects_get_defaults_and_count_generations() {
    let mut store = store();
    let created = expect(&mut store, "POST", WINDOWS, &window("w"), 201);
    assert_eq!(created["spec"], json!({"nodes": ["a"], "state": "Open"}));
    assert_eq!(created["metadata"]["generation"], 1);
    let path = format!("{WINDOWS}/w");
    let status = json!({"status": {"any": 1}});
    let unchanged = expect(&mut store, "PATCH", &path, &status, 200);
    assert_eq!(unchanged.get("status"), None);
    let patched = expect(&mut store, "PATCH", &format!("{path}/status"), &status, 200);
    assert_eq!(
        (&patched["status"]["any"], &patched["metadata"]["generation"]),
        (&json!(1), &json!(1))
    );
    let mut wanted = patched;
    wanted["spec"]["state"] = "Closed".into();
    let updated = expect(&mut store, "PUT", &path, &wanted, 200);
    assert_eq!(updated["metadata"]["generation"], 2);
    assert_eq!(updated["status"]["any"], 1);
}

#[test]
fn objects_that_break_the_schema_are_refused() {
    let mut store = store();
    let mut broken = window("w");
    broken["spec"] = json!({"state": "Ajar", "nodes": [1]});
    let refused = expect(&mut store, "POST", WINDOWS, &broken, 422);
    let fields: Vec<&str> = refused["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| cause["field"].as_str().unwrap())
        .collect();
    assert_eq!(fields, ["spec.nodes[0]", "spec.state"]);
    broken["spec"] = json!({"nodes": [], "typo": 1});
    let strict = format!("{WINDOWS}?fieldValidation=Strict");
    let refused = expect(&mut store, "POST", &strict, &broken, 400);
    assert_eq!(
        refused["message"],
        "Window in version \"v1\" cannot be handled as a Window: strict decoding error: unknown \
         field \"spec.typo\""
    );
}

#[test]
fn every_served_version_shows_the_same_object() {
    let mut store = store();
    expect(&mut store, "POST", WINDOWS, &window("w"), 201);
    let beta = "/apis/example.com/v1beta1/windows";
    let list = get(&mut store, beta);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("WindowList"), &json!("example.com/v1beta1"))
    );
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v1beta1");
    let watch = open_watch(&mut store, &format!("{beta}?watch=true"));
    let frames = store.frames(watch, NOW);
    let frame: Value = serde_json::from_slice(&frames.lines[0]).unwrap();
    assert_eq!(frame["object"]["apiVersion"], "example.com/v1beta1");
}

#[test]
fn tables_have_the_printer_columns() {
    let mut store = store();
    expect(&mut store, "POST", WINDOWS, &window("w"), 201);
    let mut request = Request::new("GET", WINDOWS, "");
    request.accept = "application/json;as=Table;v=v1;g=meta.k8s.io".to_owned();
    let table: Value = serde_json::from_slice(&respond(&mut store, &request).body).unwrap();
    assert_eq!(table["columnDefinitions"][1]["name"], "State");
    assert_eq!(table["rows"][0]["cells"], json!(["w", "Open"]));
}

#[test]
fn json_patch_and_server_side_apply_work() {
    let mut store = store();
    let mut apply =
        Request::new("PATCH", &format!("{WINDOWS}/w?fieldManager=me"), window("w").to_string());
    apply.content_type = "application/apply-patch+yaml".to_owned();
    assert_eq!(respond(&mut store, &apply).status, 201);
    let patch = json!([{"op": "add", "path": "/spec/nodes/-", "value": "b"}]);
    let mut request = Request::new("PATCH", &format!("{WINDOWS}/w"), patch.to_string());
    request.content_type = "application/json-patch+json".to_owned();
    assert_eq!(respond(&mut store, &request).status, 200);
    assert_eq!(get(&mut store, &format!("{WINDOWS}/w"))["spec"]["nodes"], json!(["a", "b"]));
}

#[test]
fn deleting_a_definition_deletes_its_objects_and_ends_its_watches() {
    let mut store = store();
    expect(&mut store, "POST", WINDOWS, &window("w"), 201);
    let watch = open_watch(&mut store, &format!("{WINDOWS}?watch=true"));
    assert_eq!(store.frames(watch, NOW).lines.len(), 1);
    let path = format!("{DEFINITIONS}/windows.example.com");
    let deleted = expect(&mut store, "DELETE", &path, &Value::Null, 200);
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    let frames = store.frames(watch, NOW);
    assert!(frames.ended);
    assert!(String::from_utf8_lossy(&frames.lines[0]).contains("DELETED"));
    expect(&mut store, "GET", &path, &Value::Null, 404);
    expect(&mut store, "GET", WINDOWS, &Value::Null, 404);
    expect(&mut store, "GET", "/apis/example.com", &Value::Null, 404);
    expect(&mut store, "POST", DEFINITIONS, &definition(), 201);
    assert_eq!(get(&mut store, WINDOWS)["items"], json!([]));
}

#[test]
fn a_definition_waits_for_objects_with_finalizers() {
    let mut store = store();
    let mut held = window("w");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    expect(&mut store, "POST", WINDOWS, &held, 201);
    let path = format!("{DEFINITIONS}/windows.example.com");
    expect(&mut store, "DELETE", &path, &Value::Null, 200);
    expect(&mut store, "GET", &path, &Value::Null, 200);
    expect(&mut store, "POST", WINDOWS, &window("late"), 405);
    let released = json!({"metadata": {"finalizers": null}});
    expect(&mut store, "PATCH", &format!("{WINDOWS}/w"), &released, 200);
    expect(&mut store, "GET", &path, &Value::Null, 404);
}

#[test]
fn definitions_that_break_a_rule_are_refused() {
    let mut store = Store::new(7, NOW);
    let changes: [(&str, Value, &str); 4] = [
        ("/metadata/name", json!("other.example.com"), "metadata.name"),
        ("/spec/scope", json!("Galaxy"), "spec.scope"),
        ("/spec/versions/1/storage", json!(false), "spec.versions"),
        ("/spec/versions/0/schema", json!({}), "spec.versions[0].schema.openAPIV3Schema"),
    ];
    for (pointer, value, field) in changes {
        let mut broken = definition();
        *broken.pointer_mut(pointer).unwrap() = value;
        let refused = expect(&mut store, "POST", DEFINITIONS, &broken, 422);
        assert_eq!(refused["details"]["causes"][0]["field"], field);
    }
}

#[test]
fn a_changed_definition_serves_its_new_versions() {
    let mut store = store();
    let path = format!("{DEFINITIONS}/windows.example.com");
    let mut changed = get(&mut store, &path);
    changed["spec"]["versions"][0]["served"] = false.into();
    expect(&mut store, "PUT", &path, &changed, 200);
    expect(&mut store, "GET", "/apis/example.com/v1beta1/windows", &Value::Null, 404);
    get(&mut store, "/apis/example.com/v1/windows");
    changed["spec"]["scope"] = "Cluster".into();
    changed["metadata"]["resourceVersion"] = "".into();
    expect(&mut store, "PUT", &path, &changed, 422);
}

#[test]
fn dependents_of_a_custom_object_are_collected_with_it() {
    let (mut store, mut controllers) = (store(), Controllers::new());
    let uid = expect(&mut store, "POST", WINDOWS, &window("w"), 201)["metadata"]["uid"].clone();
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Window", "name": "w", "uid": uid});
    let dependent = json!({"metadata": {"name": "d", "ownerReferences": [owner]}});
    store.create(CONFIGMAPS, dependent, NOW).unwrap();
    controllers.step(&mut store, NOW);
    assert!(store.get(CONFIGMAPS, "default", "d").is_some());
    expect(&mut store, "DELETE", &format!("{WINDOWS}/w"), &Value::Null, 200);
    controllers.step(&mut store, NOW);
    assert!(store.get(CONFIGMAPS, "default", "d").is_none());
}

#[test]
fn custom_objects_are_deleted_with_their_namespace() {
    let mut store = store();
    expect(&mut store, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": "x"}}), 201);
    let path = "/apis/example.com/v1/namespaces/x/windows";
    expect(&mut store, "POST", path, &window("w"), 201);
    expect(&mut store, "DELETE", "/api/v1/namespaces/x", &Value::Null, 200);
    expect(&mut store, "GET", &format!("{path}/w"), &Value::Null, 404);
    assert!(store.get(CUSTOMRESOURCEDEFINITIONS, "", "windows.example.com").is_some());
}

/// A store with the kinds of Prometheus Operator and cert-manager.
fn store_with_operators() -> Store {
    let mut store = Store::new(7, NOW);
    let list: Value = yaml::decode(include_str!("fixtures/operators.yaml")).unwrap();
    for definition in list["items"].as_array().unwrap() {
        expect(&mut store, "POST", DEFINITIONS, definition, 201);
    }
    store
}

#[test]
fn objects_of_operators_are_served() {
    let mut store = store_with_operators();
    let endpoint = json!({
        "port": "https", "scheme": "https", "interval": "30s",
        "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
        "tlsConfig": {"ca": {"secret": {"key": "ca.crt", "name": "tls"}}, "serverName": "s"},
        "relabelings": [{"sourceLabels": ["a"], "targetLabel": "b"}],
    });
    let selector = json!({"matchLabels": {"app": "loadmaster"}});
    let rules = json!([{"alert": "A", "expr": 1, "for": "5m", "labels": {"severity": "warning"}},
        {"record": "r", "expr": "sum(up)"}]);
    let table = [
        (
            ("monitoring.coreos.com", "servicemonitors", "ServiceMonitor"),
            json!({"endpoints": [endpoint], "selector": selector}),
        ),
        (
            ("monitoring.coreos.com", "podmonitors", "PodMonitor"),
            json!({"podMetricsEndpoints": [endpoint], "selector": selector}),
        ),
        (
            ("monitoring.coreos.com", "prometheusrules", "PrometheusRule"),
            json!({"groups": [{"name": "g", "rules": rules}]}),
        ),
        (
            ("cert-manager.io", "certificates", "Certificate"),
            json!({"secretName": "tls", "issuerRef": {"name": "i", "kind": "Issuer"},
                "dnsNames": ["a.b.svc"], "usages": ["server auth"]}),
        ),
    ];
    for ((group, plural, kind), spec) in table {
        let object = json!({"apiVersion": format!("{group}/v1"), "kind": kind,
            "metadata": {"name": "x"}, "spec": spec});
        let target = format!("/apis/{group}/v1/namespaces/default/{plural}?fieldValidation=Strict");
        let created = expect(&mut store, "POST", &target, &object, 201);
        let mut expected = spec.clone();
        for list in ["endpoints", "podMetricsEndpoints"] {
            if spec.get(list).is_some() {
                expected[list][0]["relabelings"][0]["action"] = json!("replace");
            }
        }
        assert_eq!(created["spec"], expected, "{kind}");
    }
}

#[test]
fn wrong_objects_of_operators_are_refused() {
    let mut store = store_with_operators();
    let selector = json!({});
    let endpoints = |endpoint: Value| json!({"selector": selector, "endpoints": [endpoint]});
    let table = [
        (endpoints(json!({"scheme": "HTTPS"})), 422, "spec.endpoints[0].scheme: Unsupported value"),
        (endpoints(json!({"targetPort": true})), 422, "spec.endpoints[0].targetPort"),
        (endpoints(json!({"relabelings": []})), 422, "spec.endpoints[0].relabelings"),
        (json!({"selector": selector}), 422, "spec.endpoints: Required value"),
        (endpoints(json!({"prot": "a"})), 400, "unknown field \"spec.endpoints[0].prot\""),
    ];
    let target =
        "/apis/monitoring.coreos.com/v1/namespaces/default/servicemonitors?fieldValidation=Strict";
    for (spec, status, fault) in table {
        let object = json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
            "metadata": {"name": "x"}, "spec": spec});
        let refusal = expect(&mut store, "POST", target, &object, status);
        let message = refusal["message"].as_str().unwrap();
        assert!(message.contains(fault), "{message}");
    }
}

#[test]
fn column_shows_the_status_of_a_condition() {
    let mut store = store_with_operators();
    let path = "/apis/cert-manager.io/v1/namespaces/default/certificates";
    let certificate = json!({"apiVersion": "cert-manager.io/v1", "kind": "Certificate",
        "metadata": {"name": "x"}, "spec": {"secretName": "tls", "issuerRef": {"name": "i"}}});
    expect(&mut store, "POST", path, &certificate, 201);
    let conditions =
        json!([{"type": "Issuing", "status": "False"}, {"type": "Ready", "status": "True"}]);
    let status = json!({"status": {"conditions": conditions}});
    expect(&mut store, "PATCH", &format!("{path}/x/status"), &status, 200);
    let mut request = Request::new("GET", path, "");
    request.accept = "application/json;as=Table;v=v1;g=meta.k8s.io".to_owned();
    let table: Value = serde_json::from_slice(&respond(&mut store, &request).body).unwrap();
    assert_eq!(
        table["rows"][0]["cells"].as_array().unwrap()[..3],
        [json!("x"), json!("True"), json!("tls")]
    );
}
