//! Every rendering can be applied: an API server accepts each object, and knows all its fields.

use framework::Time;
use sandbox::api::{Answer, Request, Response};
use sandbox::resources;
use sandbox::store::Store;
use serde_json::{Value, json};

use super::{DEFAULT, objects, rendered};

const NOW: Time = Time::from_secs(1_800_000_000);
/// The kinds of the Prometheus Operator and of cert-manager.
const DEFINITIONS: &str = "crates/sandbox/tests/fixtures/operators.yaml";

/// Returns the collection of the kind of an object.
fn collection(object: &Value) -> String {
    let (version, kind) =
        (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let plural = resources::of_kind(version, kind)
        .map_or_else(|| format!("{}s", kind.to_lowercase()), |resource| resource.plural.to_owned());
    let root = if version.contains('/') { "apis" } else { "api" };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("/{root}/{version}/{plural}"),
    }
}

fn send(store: &mut Store, method: &str, target: &str, object: &Value) -> Response {
    match store.serve(&Request::new(method, target, object.to_string()), NOW) {
        Answer::Whole(response) => response,
        Answer::Watch(_) => panic!("{target} opened a watch"),
    }
}

/// Creates the object.
///
/// # Errors
/// The answer of the server, if it refuses the object, one of its fields, or warns.
fn create(store: &mut Store, object: &Value) -> Result<(), String> {
    let target = format!("{}?fieldValidation=Strict", collection(object));
    let response = send(store, "POST", &target, object);
    let text = String::from_utf8_lossy(&response.body).into_owned();
    match (response.status, response.warnings.as_slice()) {
        (201, []) => Ok(()),
        (201, warnings) => Err(warnings.join("; ")),
        _ => Err(text),
    }
}

/// A cluster with the definitions of custom kinds and the namespaces of the renderings.
fn cluster() -> Store {
    let mut store = Store::new(1, NOW);
    for list in objects(DEFINITIONS) {
        for definition in list["items"].as_array().unwrap() {
            create(&mut store, definition).unwrap();
        }
    }
    for name in ["batch", "fleet", "leases", "scheduling", "shop"] {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(&mut store, &namespace).unwrap();
    }
    store
}

#[test]
fn api_server_accepts_every_object_of_every_rendering() {
    for file in rendered() {
        let mut store = cluster();
        for object in objects(&file) {
            let name = &object["metadata"]["name"];
            create(&mut store, &object).unwrap_or_else(|error| {
                panic!("{file}, {} {name}: {error}", object["kind"]);
            });
        }
    }
}

#[test]
fn api_server_refuses_unknown_fields_of_built_in_and_custom_kinds() {
    let mut store = cluster();
    let monitor = super::rendering("service-monitor");
    for (file, kind, field) in [
        (DEFAULT, "Deployment", "/spec/template/spec"),
        (&monitor, "ServiceMonitor", "/spec/endpoints/0"),
    ] {
        let mut object = objects(file).into_iter().find(|object| object["kind"] == kind).unwrap();
        object.pointer_mut(field).unwrap()["misspelt"] = json!("x");
        let error = create(&mut store, &object).unwrap_err();
        assert!(
            error.contains("strict decoding error: unknown field") && error.contains("misspelt"),
            "{error}"
        );
    }
}
