//! `config/alerts/loadmaster.yaml` and its unit tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use super::dashboard::{dashboard, panels, queries};
use super::metrics::Metrics;
use super::{path, read};

/// Returns the alerts by name.
pub(super) fn alerts() -> BTreeMap<String, Value> {
    let file: Value = yaml::decode(&read("config/alerts/loadmaster.yaml")).unwrap();
    let groups = file["groups"].as_array().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap());
    rules.map(|rule| (rule["alert"].as_str().unwrap().to_owned(), rule.clone())).collect()
}

#[test]
fn alerts_use_only_metrics_labels_and_values_that_exist() {
    let metrics = Metrics::documented();
    for (name, rule) in alerts() {
        metrics.check(rule["expr"].as_str().unwrap(), &name);
    }
}

#[test]
fn every_alert_has_a_severity_texts_and_a_runbook() {
    for (name, rule) in alerts() {
        let severity = rule["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning", "info"].contains(&severity), "{name}: {severity}");
        for text in ["summary", "description"] {
            let text = rule["annotations"][text].as_str();
            assert!(text.is_some_and(|text| text.ends_with('.')), "{name}: {text:?}");
        }
        let runbook = format!(
            "https://github.com/loadmaster/loadmaster/blob/main/docs/runbooks.md#{}",
            name.to_lowercase()
        );
        assert_eq!(rule["annotations"]["runbook_url"], runbook, "{name}");
    }
}

#[test]
fn alerts_select_the_series_of_one_job() {
    for (name, rule) in alerts() {
        let expression = rule["expr"].as_str().unwrap();
        for selector in super::promql::names(expression).selectors {
            let job = ("job".to_owned(), "=".to_owned(), "loadmaster".to_owned());
            assert!(selector.matchers.contains(&job), "{name}: {}", selector.metric);
        }
    }
}

/// `/metrics/slis` and `/metrics/resources` have these series too, under the same job.
#[test]
fn series_of_several_paths_are_selected_by_path() {
    let alerts = alerts().into_values();
    let mut expressions: Vec<_> =
        alerts.map(|rule| rule["expr"].as_str().unwrap().to_owned()).collect();
    let dashboard = dashboard();
    expressions.extend(panels(&dashboard).into_iter().flat_map(queries));
    let path = ("metrics_path".to_owned(), "=~".to_owned(), "|/metrics".to_owned());
    let mut found = BTreeSet::new();
    for expression in expressions {
        for selector in super::promql::names(&expression).selectors {
            if ["up", "process_start_time_seconds"].contains(&selector.metric.as_str()) {
                assert!(selector.matchers.contains(&path), "{expression}");
                found.insert(selector.metric);
            }
        }
    }
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn every_alert_is_tested_to_fire_and_not_to_fire() {
    let mut fires = BTreeSet::new();
    let mut is_silent = BTreeSet::new();
    for file in fs::read_dir(path("config/alerts/tests")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let file: Value = yaml::decode(&text).unwrap();
        let tests = file["tests"].as_array().unwrap().iter();
        for case in tests.flat_map(|test| test["promql_expr_test"].as_array().unwrap()) {
            let expression = case["expr"].as_str().unwrap();
            let (_, alert) = expression.split_once("alertname=\"").unwrap();
            let (alert, _) = alert.split_once('"').unwrap();
            let expected = if case["exp_samples"].is_array() { &mut fires } else { &mut is_silent };
            expected.insert(alert.to_owned());
        }
    }
    let all: BTreeSet<String> = alerts().into_keys().collect();
    assert_eq!((&fires, &is_silent), (&all, &all));
}
