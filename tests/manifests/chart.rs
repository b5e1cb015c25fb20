//! The chart: renderings are up to date, and every value is documented and in the schema.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::Value;

use super::{DEFAULT, RENDERED, find, path, read};

const CHART: &str = "charts/loadmaster";

fn yaml(file: &str) -> Value {
    serde_yaml::from_str(&read(&format!("{CHART}/{file}"))).unwrap()
}

fn schema() -> Value {
    serde_json::from_str(&read(&format!("{CHART}/values.schema.json"))).unwrap()
}

/// Returns the contents of the files under a folder by their names relative to `root`.
fn collect(folder: &Path, root: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, root, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            files.insert(name, fs::read(&path).unwrap());
        }
    }
}

/// CRC-32 over names and contents, as `deploy/render.py` writes it into each rendering.
fn checksum() -> String {
    let mut files = BTreeMap::new();
    collect(&path(CHART), &path(CHART), &mut files);
    let mut crc = flate2::Crc::new();
    for (name, content) in &files {
        crc.update(name.as_bytes());
        crc.update(b"\0");
        crc.update(content);
    }
    format!("{:08x}", crc.sum())
}

#[test]
fn renderings_have_the_checksum_of_the_chart() {
    let expected = format!("# Chart: {}", checksum());
    for file in RENDERED {
        let head = read(file).lines().nth(1).unwrap().to_owned();
        assert_eq!(head, expected, "the chart has changed: run deploy/render.py for {file}");
    }
}

#[test]
fn every_file_of_values_is_rendered() {
    let mut names: Vec<String> = fs::read_dir(path(CHART).join("ci"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let rendered: Vec<String> = RENDERED[1..]
        .iter()
        .map(|file| file.replace("tests/manifests/rendered/", "").replace(".yaml", "-values.yaml"))
        .collect();
    assert_eq!(names, rendered);
}

#[test]
fn chart_has_the_version_of_the_binary() {
    let chart = yaml("Chart.yaml");
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    let deployment: Deployment = find(DEFAULT).unwrap();
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let image = pod.containers[0].image.as_deref().unwrap();
    assert!(image.ends_with(concat!(":", env!("CARGO_PKG_VERSION"))), "{image}");
}

#[test]
fn every_value_has_a_comment_above_it() {
    let text = read(&format!("{CHART}/values.yaml"));
    let mut above = "";
    for line in text.lines().map(str::trim_start) {
        let is_key = !line.is_empty() && !line.starts_with('#');
        assert!(!is_key || above.starts_with('#'), "values.yaml: `{line}` has no comment");
        above = line;
    }
}

/// Checks that the schema knows every key of these values and refuses all others.
fn compare(values: &Value, schema: &Value, at: &str) {
    // Maps of labels and the like have no properties of their own.
    let Some(known) = schema["properties"].as_object() else { return };
    assert_eq!(schema["additionalProperties"], false, "{at}");
    for (key, value) in values.as_object().unwrap() {
        let known = known.get(key);
        let known = known.unwrap_or_else(|| panic!("{at}.{key} is not in values.schema.json"));
        compare(value, known, &format!("{at}.{key}"));
    }
}

#[test]
fn every_value_is_in_the_schema() {
    compare(&yaml("values.yaml"), &schema(), "");
}

#[test]
fn every_value_of_the_schema_is_documented() {
    let schema = schema();
    let text = read(&format!("{CHART}/values.yaml"));
    let config = schema["properties"]["config"]["properties"].as_object().unwrap().keys();
    let top = schema["properties"].as_object().unwrap().keys();
    // Helm defines `global`.
    for key in top.chain(config).filter(|key| *key != "global") {
        assert!(text.contains(key.as_str()), "values.yaml does not speak of {key}");
    }
}
