//! The installed manifests: `deploy/loadmaster.yaml` and renderings of `charts/loadmaster`.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod applying;
mod chart;
mod decoding;
mod high_availability;
mod kustomize;
mod monitoring;
mod permissions;
mod refusals;
mod scheduler;
mod wiring;

use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::Resource;
use k8s_openapi::api::apps::v1::Deployment;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The chart with its default values.
pub(super) const DEFAULT: &str = "deploy/loadmaster.yaml";

/// The chart with every optional part, extenders among them.
pub(super) const EVERYTHING: &str = "tests/manifests/rendered/everything.yaml";

/// The folder of the renderings with other values.
const RENDERED: &str = "tests/manifests/rendered";

/// The Deployment of a chart of a later version, with the image of this one.
const NEXT_VERSION: &str = "tests/manifests/next-version.yaml";

/// The head of a rendering names objects that it shares with the default rendering.
const AS_IN_DEFAULT: &str = "# As in deploy/loadmaster.yaml: ";

/// Returns the default rendering, and one per file of values in `charts/loadmaster/ci`.
fn rendered() -> Vec<String> {
    let entries = fs::read_dir(path(RENDERED)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> = names.map(|name| format!("{RENDERED}/{name}")).collect();
    files.sort();
    files.insert(0, DEFAULT.to_owned());
    files
}

/// Returns the rendering with these values of `charts/loadmaster/ci`.
fn rendering(name: &str) -> String {
    format!("{RENDERED}/{name}.yaml")
}

fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

fn read(relative: &str) -> String {
    fs::read_to_string(path(relative)).unwrap()
}

/// Returns kind and name of an object.
fn title(object: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    format!("{} {}", word(&object["kind"]), word(&object["metadata"]["name"]))
}

/// Returns the objects of a file, with those that it shares with the default rendering.
fn objects(file: &str) -> Vec<Value> {
    let text = read(file);
    let shared: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix(AS_IN_DEFAULT)).collect();
    let mut all = Vec::new();
    if !shared.is_empty() {
        all = objects(DEFAULT);
        all.retain(|object| shared.contains(&title(object).as_str()));
        assert_eq!(all.len(), shared.len(), "{file}");
    }
    all.extend(documents(&text));
    all
}

/// Decodes the documents of a YAML stream.
fn documents(text: &str) -> impl Iterator<Item = Value> {
    // A text at the end of a document ends with a line break, too.
    let texts = text.split("\n---\n").map(|text| format!("{text}\n"));
    let documents = texts.map(|text| yaml::decode(&text).unwrap());
    documents.filter(|document: &Value| !document.is_null())
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

/// Returns the objects of this kind in a file.
pub(super) fn find_all<T: Resource + DeserializeOwned>(file: &str) -> Vec<T> {
    let of_kind = objects(file).into_iter().filter(|object| object["kind"] == T::KIND);
    of_kind.map(|object| strictly(&object).unwrap()).collect()
}

/// Returns the only object of this kind in a file, if there is one.
pub(super) fn find<T: Resource + DeserializeOwned>(file: &str) -> Option<T> {
    let mut found = find_all(file);
    assert!(found.len() < 2, "{file} has several objects of kind {}", T::KIND);
    found.pop()
}

/// Returns the arguments of the scheduler's container.
fn args(deployment: &Deployment) -> Vec<String> {
    let pod = deployment.spec.template.spec.as_ref().unwrap();
    pod.containers[0].args.clone().unwrap()
}

/// Returns the value of this flag in the arguments.
fn flag<'a>(args: &'a [String], name: &str) -> Option<&'a str> {
    args.iter().find_map(|arg| arg.strip_prefix("--")?.strip_prefix(name)?.strip_prefix('='))
}
