//! The chart: renderings are up to date; every value is documented, in the schema, and rendered.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::Value;

use super::{DEFAULT, RENDERED, find, path, read};

const CHART: &str = "charts/loadmaster";

fn yaml(file: &str) -> Value {
    yaml::decode(&read(&format!("{CHART}/{file}"))).unwrap()
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

/// CRC-32 over names and contents of the chart's files, as `deploy/render.py` computes it.
fn chart_sum() -> u32 {
    let mut files = BTreeMap::new();
    collect(&path(CHART), &path(CHART), &mut files);
    let mut crc = flate2::Crc::new();
    for (name, content) in &files {
        crc.update(name.as_bytes());
        crc.update(b"\0");
        crc.update(content);
    }
    crc.sum()
}

fn sum_of(file: &str) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(&fs::read(path(file)).unwrap());
    crc.sum()
}

/// Returns the sums that `deploy/render.py` wrote, by file.
fn sums() -> BTreeMap<String, String> {
    let text = read("deploy/rendered.sum");
    let lines = text.lines().map(|line| line.split_once("  ").unwrap());
    lines.map(|(sum, name)| (name.to_owned(), sum.to_owned())).collect()
}

/// Detects a chart that was not rendered again, without Helm.
#[test]
fn generated_files_have_the_sums_of_their_rendering() {
    for (name, expected) in sums() {
        let sum = if name == CHART { chart_sum() } else { sum_of(&name) };
        assert_eq!(format!("{sum:08x}"), expected, "{name} has changed: run `make render-chart`");
    }
}

#[test]
fn every_file_of_values_is_rendered() {
    let names = |folder: &str, suffix: &str| -> Vec<String> {
        let entries = fs::read_dir(path(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> =
            names.map(|name| name.strip_suffix(suffix).unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let values = names(&format!("{CHART}/ci"), "-values.yaml");
    assert_eq!(values, names(RENDERED, ".yaml"));
    let sums = sums();
    for name in values {
        assert!(sums.contains_key(&format!("{RENDERED}/{name}.yaml")), "{name}");
    }
}

#[test]
fn rendering_with_helm_gives_the_same_files() {
    let python = |args: &[&str]| Command::new("python3").args(args).output();
    if !python(&["-c", "import helm_python"]).is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: helm-python-sdk is not installed");
    }
    let script = path("deploy/render.py");
    let output = python(&[script.to_str().unwrap(), "--check"]).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn chart_has_the_version_of_the_binary() {
    let chart = yaml("Chart.yaml");
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    let deployment: Deployment = find(DEFAULT).unwrap();
    let pod = deployment.spec.template.spec.unwrap();
    let image = pod.containers[0].image.as_deref().unwrap();
    assert!(image.ends_with(concat!(":", env!("CARGO_PKG_VERSION"))), "{image}");
}

#[test]
fn every_value_has_a_comment_above_it() {
    let text = read(&format!("{CHART}/values.yaml"));
    let (mut above, mut in_list) = ("", false);
    for line in text.lines().map(str::trim_start) {
        let is_comment = line.is_empty() || line.starts_with('#');
        in_list = !is_comment && (in_list || line.starts_with('-'));
        let is_key = !is_comment && !in_list;
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

/// Calls the function with every schema of a value, by path.
fn visit(schema: &Value, at: &str, seen: &mut impl FnMut(&str, &Value)) {
    for (key, child) in schema["properties"].as_object().into_iter().flatten() {
        let at = format!("{at}/{key}");
        seen(&at, child);
        visit(child, &at, seen);
    }
    if let Some(items) = schema.get("items") {
        visit(items, &format!("{at}[]"), seen);
    }
    for (name, definition) in schema["definitions"].as_object().into_iter().flatten() {
        visit(definition, &format!("{at}/definitions/{name}"), seen);
    }
}

#[test]
fn every_value_of_the_schema_has_a_description() {
    let mut count = 0;
    visit(&schema(), "", &mut |at, schema| {
        let text = schema["description"].as_str().unwrap_or_default();
        assert!(
            text.ends_with('.') || text.ends_with("].") || text.ends_with("}."),
            "{at}: {text}"
        );
        count += 1;
    });
    assert!(count > 100, "{count}");
}

#[test]
fn every_object_of_the_schema_refuses_unknown_values() {
    visit(&schema(), "", &mut |at, schema| {
        if schema.get("properties").is_some() {
            assert_eq!(schema["additionalProperties"], false, "{at}");
        }
    });
}

/// Calls the function with every value that has no values below it, by path.
fn leaves(values: &Value, schema: &Value, at: &[String], seen: &mut impl FnMut(&[String])) {
    for (key, value) in values.as_object().unwrap() {
        let at = [at, std::slice::from_ref(key)].concat();
        let below = &schema["properties"][key];
        match (value.as_object(), below.get("properties")) {
            (Some(fields), Some(_)) if !fields.is_empty() => leaves(value, below, &at, seen),
            _ => seen(&at),
        }
    }
}

#[test]
fn every_value_is_rendered_with_another_than_its_default() {
    let defaults = yaml("values.yaml");
    let files = fs::read_dir(path(CHART).join("ci")).unwrap();
    let files: Vec<Value> = files
        .map(|entry| yaml::decode(&fs::read_to_string(entry.unwrap().path()).unwrap()).unwrap())
        .collect();
    leaves(&defaults, &schema(), &[], &mut |at| {
        let pointer = format!("/{}", at.join("/"));
        let default = defaults.pointer(&pointer);
        let mut given = files.iter().filter_map(|file| file.pointer(&pointer));
        assert!(given.any(|given| Some(given) != default), "no file in ci sets {}", at.join("."));
    });
}

#[test]
fn readme_lists_every_value_with_its_description() {
    let (readme, schema) = (read(&format!("{CHART}/README.md")), schema());
    leaves(&yaml("values.yaml"), &schema, &[], &mut |at| {
        let described = at.iter().fold(&schema, |schema, key| &schema["properties"][key]);
        let text = described["description"].as_str().unwrap().replace('|', "\\|");
        let mut rows = readme.lines().filter(|line| line.starts_with("| `"));
        let name = format!("| `{}` |", at.join("."));
        let row = rows.find(|row| row.starts_with(&name));
        let row = row.unwrap_or_else(|| panic!("README.md has no row {name}"));
        assert!(row.contains(&text), "{row}");
    });
}

/// The comments of values.yaml are the source of the descriptions in the schema.
#[test]
fn comments_and_schema_describe_a_value_alike() {
    let text = read(&format!("{CHART}/values.yaml"));
    visit(&schema(), "", &mut |at, schema| {
        let Some(name) = at.strip_prefix('/').filter(|name| !name.contains('/')) else { return };
        let Some((above, _)) = text.split_once(&format!("\n{name}:")) else { return };
        let comment = above.lines().next_back().unwrap().trim_start_matches("# ");
        assert_eq!(schema["description"], comment, "{at}");
    });
}
