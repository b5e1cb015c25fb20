//! The registered metrics, the metrics of kube-scheduler and `docs/metrics.md` agree.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::*;

const PAGE: &str = include_str!("../../../docs/metrics.md");

/// Metrics of kube-scheduler (`reference.toml`).
#[derive(Deserialize)]
struct Reference {
    buckets: BTreeMap<String, Buckets>,
    metrics: BTreeMap<String, Metric>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Buckets {
    Bounds(Vec<f64>),
    Exponential { start: f64, factor: f64, count: usize },
}

impl Buckets {
    fn bounds(&self) -> Vec<f64> {
        match self {
            Self::Bounds(bounds) => bounds.clone(),
            Self::Exponential { start, factor, count } => {
                std::iter::successors(Some(*start), |bound| Some(bound * factor))
                    .take(*count)
                    .collect()
            }
        }
    }
}

#[derive(Deserialize)]
struct Metric {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    stability: String,
    /// The stability since 1.37, if it is another one.
    stability_1_37: Option<String>,
    /// The version that has deprecated the metric.
    #[serde(default)]
    deprecated: String,
    labels: BTreeSet<String>,
    buckets: Option<String>,
}

/// What a metric of kube-scheduler and one of Loadmaster have in common.
#[derive(Debug, Default, PartialEq)]
struct Family {
    kind: String,
    stability: String,
    deprecated: String,
    labels: BTreeSet<String>,
    bounds: Vec<f64>,
}

fn reference(level: Level) -> BTreeMap<String, Family> {
    let Reference { buckets, metrics } = toml::from_str(include_str!("reference.toml")).unwrap();
    let family = |metric: Metric| Family {
        bounds: metric.buckets.map_or_else(Vec::new, |set| buckets[&set].bounds()),
        kind: metric.kind,
        stability: match metric.stability_1_37 {
            Some(stability) if level.is_at_least(Level::V1_37) => stability,
            _ => metric.stability,
        },
        deprecated: metric.deprecated,
        labels: metric.labels,
    };
    metrics.into_iter().map(|(name, metric)| (name, family(metric))).collect()
}

/// Returns the registered metrics, in the order of their registration.
fn registered() -> Vec<Registered> {
    Metrics::new().registered
}

fn family(metric: &Registered, level: Level) -> Family {
    let declaration = metric.declaration;
    let labels = declaration.map_or(&[][..], |declaration| declaration.labels);
    let stability = declaration.map(|own| own.stability_at(level).name().to_owned());
    let deprecated = declaration.and_then(|own| own.deprecated);
    Family {
        kind: metric.kind.to_owned(),
        stability: stability.unwrap_or_default(),
        deprecated: deprecated.unwrap_or_default().to_owned(),
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        bounds: metric.bounds.clone(),
    }
}

/// Returns the names in the rows below a heading of the page, each with the last column.
fn rows(heading: &str) -> BTreeMap<&'static str, &'static str> {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix('|'));
    let rows = rows.map(|row| (row.split_once('`').unwrap().0, row.rsplit_once('|').unwrap().1));
    rows.map(|(name, last)| (name, last.trim())).collect()
}

/// Returns the table of the metrics for which `is_listed`, one row each.
fn table(head: &[&str], is_listed: impl Fn(&str) -> bool) -> String {
    let rule = vec!["---"; head.len()].join("|");
    let mut text = format!("| {} |\n|{rule}|\n", head.join(" | "));
    for metric in registered().iter().filter(|metric| is_listed(&metric.name)) {
        let Family { kind, stability, labels, .. } = family(metric, Level::default());
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        let page = metric.declaration.map_or("", |declaration| declaration.page);
        let help = metric.declaration.map_or("", |declaration| declaration.help);
        let meaning = if page.is_empty() { help.trim_end_matches('.') } else { page };
        for column in head {
            let cell = match *column {
                "Metric" => format!("`{}`", metric.name),
                "Type" => kind.clone(),
                "Stability" => stability.clone(),
                "Labels" => labels.join(", "),
                "Difference" => page.to_owned(),
                "Meaning" => meaning.to_owned(),
                other => panic!("no column {other}"),
            };
            text += &if cell.is_empty() { "| ".to_owned() } else { format!("| {cell} ") };
        }
        text += "|\n";
    }
    text
}

/// Returns the page with tables that follow from the declarations.
fn page() -> String {
    let is_ours = |name: &str| name.starts_with("loadmaster_");
    let theirs =
        table(&["Metric", "Type", "Stability", "Labels", "Difference"], |name| !is_ours(name));
    let ours = table(&["Metric", "Type", "Labels", "Meaning"], is_ours);
    let mut page = String::new();
    let mut rest = PAGE;
    for (heading, table) in [("Metrics of kube-scheduler", theirs), ("Metrics of Loadmaster", ours)]
    {
        let heading = format!("\n## {heading}\n");
        let (before, section) = rest.split_once(&heading).unwrap();
        let (introduction, old) = section.split_once("\n| Metric |").unwrap();
        let (_, after) = old.split_once("\n\n").unwrap();
        page += &format!("{before}{heading}{introduction}\n{table}\n");
        rest = after;
    }
    page + rest
}

#[test]
fn metrics_of_kube_scheduler_are_exported_alike_or_listed_as_absent() {
    let registered = registered();
    let absent = rows("Absent metrics of kube-scheduler");
    let at = |level| reference(level).into_iter().map(move |(name, own)| (level, name, own));
    for (level, name, expected) in at(Level::V1_36).chain(at(Level::V1_37)) {
        match registered.iter().find(|metric| metric.name == name) {
            Some(metric) => {
                assert_eq!(family(metric, level), expected, "{name} at {level}");
                assert!(!absent.contains_key(&*name), "docs/metrics.md: {name} is not absent");
            }
            None => {
                let has_reason = absent.get(&*name).is_some_and(|reason| !reason.is_empty());
                assert!(has_reason, "docs/metrics.md: {name} is absent without a reason");
            }
        }
    }
    let reference = reference(Level::default());
    let unknown = absent.into_keys().filter(|name| !reference.contains_key(*name));
    assert_eq!(unknown.collect::<Vec<_>>(), [""; 0], "kube-scheduler has no such metric");
}

#[test]
fn metrics_of_kubernetes_are_those_of_kube_scheduler() {
    let reference = reference(Level::default());
    let registered = registered().into_iter().map(|metric| metric.name);
    let unknown =
        registered.filter(|name| !name.starts_with("loadmaster_") && !reference.contains_key(name));
    assert_eq!(unknown.collect::<Vec<_>>(), [""; 0], "kube-scheduler has no such metric");
}

/// With `WRITE_DOCS=1` the page is written anew.
#[test]
fn page_has_the_declared_metrics() {
    let page = page();
    if std::env::var_os("WRITE_DOCS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
        std::fs::write(path, &page).unwrap();
    } else {
        assert_eq!(PAGE, page, "docs/metrics.md is old: run `make metrics`");
    }
}
