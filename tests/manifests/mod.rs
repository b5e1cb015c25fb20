//! The installed manifests: `deploy/loadmaster.yaml` and renderings of `charts/loadmaster`.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod chart;
mod decoding;
mod permissions;
mod scheduler;
mod wiring;

use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::Resource;
use k8s_openapi::api::apps::v1::Deployment;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The chart with its default values.
pub(super) const DEFAULT: &str = "deploy/loadmaster.yaml";

/// The chart with every optional part, extenders among them.
pub(super) const EVERYTHING: &str = "tests/manifests/rendered/everything.yaml";

/// The default rendering, and one per file of values in `charts/loadmaster/ci`.
const RENDERED: [&str; 3] = [DEFAULT, EVERYTHING, "tests/manifests/rendered/nothing-created.yaml"];

fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

fn read(relative: &str) -> String {
    fs::read_to_string(path(relative)).unwrap()
}

/// Returns the objects of a file.
fn objects(file: &str) -> Vec<Value> {
    let text = read(file);
    serde_yaml::Deserializer::from_str(&text).map(|one| Value::deserialize(one).unwrap()).collect()
}

/// Decodes the object as its type of the Kubernetes API.
///
/// # Errors
/// The first error, or the fields that the type does not have.
fn strictly<T: DeserializeOwned>(object: &Value) -> Result<T, String> {
    let mut unknown = Vec::new();
    let typed = serde_ignored::deserialize(object, |field| unknown.push(field.to_string()));
    match (typed, unknown.as_slice()) {
        (Ok(typed), []) => Ok(typed),
        (Ok(_), fields) => Err(format!("no such fields: {fields:?}")),
        (Err(error), _) => Err(error.to_string()),
    }
}

/// Returns the only object of this kind in a file, if there is one.
pub(super) fn find<T: Resource + DeserializeOwned>(file: &str) -> Option<T> {
    let mut of_kind = objects(file).into_iter().filter(|object| object["kind"] == T::KIND);
    let found = of_kind.next()?;
    assert!(of_kind.next().is_none(), "{file} has several objects of kind {}", T::KIND);
    Some(strictly(&found).unwrap())
}

/// Returns the arguments of the scheduler's container.
fn args(deployment: &Deployment) -> Vec<String> {
    let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    pod.containers[0].args.clone().unwrap()
}

/// Returns the value of this flag in the arguments.
fn flag<'a>(args: &'a [String], name: &str) -> Option<&'a str> {
    args.iter().find_map(|arg| arg.strip_prefix("--")?.strip_prefix(name)?.strip_prefix('='))
}
