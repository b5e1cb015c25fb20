//! Checks by promtool, of the Debian package `prometheus`. Skipped without it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::dashboard::{dashboard, panels, queries};
use super::path;

/// Runs promtool in the folder of this package.
fn promtool(args: &[&str]) {
    let output = Command::new("promtool").args(args).current_dir(path("")).output();
    match output {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: promtool is not installed (Debian: apt-get install prometheus)");
        }
        output => {
            let output = output.unwrap();
            let text = [output.stdout, output.stderr].concat();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
        }
    }
}

#[test]
fn promtool_finds_no_fault_in_the_alerts() {
    promtool(&["check", "rules", "config/alerts/loadmaster.yaml"]);
}

#[test]
fn alerts_pass_their_unit_tests() {
    for file in fs::read_dir(path("config/alerts/tests")).unwrap() {
        promtool(&["test", "rules", file.unwrap().path().to_str().unwrap()]);
    }
}

#[test]
fn promtool_parses_the_queries_of_the_dashboard() {
    let dashboard = dashboard();
    let queries = panels(&dashboard).into_iter().flat_map(queries);
    let rules: Vec<Value> = queries
        .map(|query| json!({"record": "query", "labels": {"of": query}, "expr": query}))
        .collect();
    assert!(rules.len() > 40, "{}", rules.len());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("queries-of-the-dashboard.json");
    let groups = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    fs::write(&file, groups.to_string()).unwrap();
    promtool(&["check", "rules", file.to_str().unwrap()]);
}
