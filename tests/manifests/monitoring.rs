//! Monitors, alerts and the dashboard: they select what the chart installs, under one name of the
//! job.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use serde_json::{Value, json};

use super::{find, find_all, objects, read, rendering};

type Labels = BTreeMap<String, String>;

fn of_kind(file: &str, kind: &str) -> Value {
    objects(file).into_iter().find(|object| object["kind"] == kind).unwrap()
}

/// The rendered monitors: values, kind, field of the endpoints, paths.
const MONITORS: [(&str, &str, &str, &[&str]); 4] = [
    ("cert-manager", "ServiceMonitor", "endpoints", &["/metrics"]),
    ("open-metrics", "PodMonitor", "podMetricsEndpoints", &["/metrics"]),
    ("pod-monitor", "PodMonitor", "podMetricsEndpoints", &["/metrics", "/metrics/slis"]),
    (
        "service-monitor",
        "ServiceMonitor",
        "endpoints",
        &["/metrics", "/metrics/resources", "/metrics/slis"],
    ),
];

#[test]
fn monitors_scrape_the_named_port_over_https() {
    for (name, kind, field, paths) in MONITORS {
        let monitor = of_kind(&rendering(name), kind);
        let endpoints = monitor["spec"][field].as_array().unwrap();
        let found: Vec<_> = endpoints.iter().map(|one| one["path"].as_str().unwrap()).collect();
        assert_eq!(found, paths, "{name}");
        for endpoint in endpoints {
            assert_eq!(endpoint["port"], "https", "{name}");
            assert_eq!(endpoint["scheme"], "https", "{name}");
        }
    }
}

/// Series such as `up` have no label of the path; two paths of a pod would write the same series.
#[test]
fn targets_of_one_monitor_have_different_labels() {
    for (name, kind, field, paths) in MONITORS {
        let monitor = of_kind(&rendering(name), kind);
        let endpoints = monitor["spec"][field].as_array().unwrap().iter();
        let path = json!({"sourceLabels": ["__metrics_path__"], "targetLabel": "metrics_path"});
        let labelled = |endpoint: &Value| {
            let mut relabelings = endpoint["relabelings"].as_array().into_iter().flatten();
            relabelings.any(|relabeling| *relabeling == path)
        };
        let without = endpoints.filter(|endpoint| !labelled(endpoint)).count();
        assert_eq!(without, 1, "{name} has {} paths", paths.len());
    }
}

/// Returns the labels by which a monitor finds its targets: of the Service, or of the pods.
fn target_labels(file: &str, kind: &str) -> Labels {
    if kind == "ServiceMonitor" {
        return find::<Service>(file).unwrap().metadata.labels.unwrap();
    }
    let template = find::<Deployment>(file).unwrap().spec.template;
    template.metadata.unwrap().labels.unwrap()
}

#[test]
fn monitors_select_their_targets_and_name_the_job_after_the_release() {
    let monitors = MONITORS.iter().map(|&(name, kind, ..)| (name, kind, "loadmaster"));
    for (name, kind, release) in monitors.chain([("prometheus-rule", "ServiceMonitor", "shop")]) {
        let file = &rendering(name);
        let (spec, labels) = (&of_kind(file, kind)["spec"], target_labels(file, kind));
        let selector: Labels =
            serde_json::from_value(spec["selector"]["matchLabels"].clone()).unwrap();
        assert!(!selector.is_empty(), "{name}");
        assert!(selector.iter().all(|(key, value)| labels.get(key) == Some(value)), "{name}");
        assert_eq!(labels[spec["jobLabel"].as_str().unwrap()], release, "{name}");
    }
}

#[test]
fn rules_are_those_of_the_file_with_the_job_of_the_release() {
    let file = read("config/alerts/loadmaster.yaml").replace("job=\"loadmaster\"", "job=\"shop\"");
    let mut expected: Value = yaml::decode(&file).unwrap();
    let mut alerts = BTreeSet::new();
    for group in expected["groups"].as_array_mut().unwrap() {
        let rules = group["rules"].as_array_mut().unwrap();
        alerts.extend(rules.iter().map(|rule| rule["alert"].as_str().unwrap().to_owned()));
        rules.retain(|rule| rule["alert"] != "LoadmasterLeaderFlapping");
    }
    assert!(alerts.contains("LoadmasterLeaderFlapping"));

    let rule = of_kind(&rendering("prometheus-rule"), "PrometheusRule");
    let mut groups = rule["spec"]["groups"].as_array().unwrap().clone();
    assert_eq!(groups.pop().unwrap()["name"], "shop");
    assert_eq!(Value::Array(groups), expected["groups"]);
}

#[test]
fn dashboard_is_that_of_the_file() {
    let maps = find_all::<ConfigMap>(&rendering("dashboard")).into_iter();
    let mut maps = maps.filter(|map| map.metadata.name.as_deref() == Some("loadmaster-dashboard"));
    let map = maps.next().unwrap();
    assert_eq!(map.metadata.namespace.as_deref(), Some("scheduling"));
    assert_eq!(map.metadata.labels.unwrap()["grafana_dashboard"], "scheduler");
    let rendered: Value = serde_json::from_str(&map.data.unwrap()["loadmaster.json"]).unwrap();
    let file: Value = serde_json::from_str(&read("config/dashboards/loadmaster.json")).unwrap();
    assert_eq!(rendered, file);
}
