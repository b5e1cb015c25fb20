//! `config/dashboards/loadmaster.json`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::metrics::Metrics;
use super::read;

pub(super) fn dashboard() -> Value {
    serde_json::from_str(&read("config/dashboards/loadmaster.json")).unwrap()
}

/// Returns the panels that draw something.
pub(super) fn panels(dashboard: &Value) -> Vec<&Value> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    panels.filter(|panel| panel["type"] != "row").collect()
}

fn title(panel: &Value) -> &str {
    panel["title"].as_str().unwrap()
}

/// Returns the queries of a panel, with a value in place of each variable.
pub(super) fn queries(panel: &Value) -> Vec<String> {
    let targets = panel["targets"].as_array().unwrap().iter();
    let queries = targets.map(|target| {
        let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
        query.replace("$job", "j").replace("$namespace", "n").replace("$instance", "i")
    });
    queries.collect()
}

#[test]
fn panels_use_only_metrics_labels_and_values_that_exist() {
    let metrics = Metrics::documented();
    let dashboard = dashboard();
    for panel in panels(&dashboard) {
        for query in queries(panel) {
            metrics.check(&query, title(panel));
            assert!(!query.contains('$'), "{}: unknown variable in {query}", title(panel));
        }
    }
}

#[test]
fn every_query_selects_the_job_the_namespace_and_the_replicas() {
    let dashboard = dashboard();
    for panel in panels(&dashboard) {
        for target in panel["targets"].as_array().unwrap() {
            for selector in super::promql::names(target["expr"].as_str().unwrap()).selectors {
                let of_target = selector.matchers.iter().take(3).map(|(label, ..)| label.as_str());
                let at = format!("{}: {}", title(panel), selector.metric);
                assert_eq!(of_target.collect::<Vec<_>>(), ["job", "namespace", "instance"], "{at}");
            }
        }
    }
}

#[test]
fn every_panel_has_a_description_a_unit_and_legends() {
    let dashboard = dashboard();
    let mut titles = BTreeSet::new();
    for panel in panels(&dashboard) {
        let title = title(panel);
        assert!(titles.insert((title, panel["gridPos"]["y"].as_i64())), "{title} is there twice");
        assert!(panel["description"].as_str().is_some_and(|text| text.ends_with('.')), "{title}");
        let units = [&panel["fieldConfig"]["defaults"]["unit"], &panel["options"]["yAxis"]["unit"]];
        assert!(units.iter().any(|unit| unit.is_string()), "{title}");
        for target in panel["targets"].as_array().unwrap() {
            let legend = target["legendFormat"].as_str();
            let is_needed = panel["type"] != "stat";
            assert!(!is_needed || legend.is_some_and(|legend| !legend.is_empty()), "{title}");
        }
    }
}

#[test]
fn panels_neither_overlap_nor_leave_the_grid() {
    let dashboard = dashboard();
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let at = |field: &str| panel["gridPos"][field].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{}", title(panel));
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(taken.insert((x, y)), "{} overlaps", title(panel));
            }
        }
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{}", title(panel));
    }
}
