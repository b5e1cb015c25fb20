//! The exported metrics, the metrics of kube-scheduler and `docs/metrics.md` agree.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::*;

const DOCUMENT: &str = include_str!("../../../docs/metrics.md");

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
    labels: BTreeSet<String>,
    buckets: Option<String>,
}

/// A family of the text format.
#[derive(Debug, Default, PartialEq)]
struct Family {
    kind: String,
    stability: String,
    labels: BTreeSet<String>,
    bounds: Vec<f64>,
}

fn reference() -> BTreeMap<String, Family> {
    let Reference { buckets, metrics } = toml::from_str(include_str!("reference.toml")).unwrap();
    let family = |metric: Metric| Family {
        bounds: metric.buckets.map_or_else(Vec::new, |set| buckets[&set].bounds()),
        kind: metric.kind,
        stability: metric.stability,
        labels: metric.labels,
    };
    metrics.into_iter().map(|(name, metric)| (name, family(metric))).collect()
}

/// Returns the exported families, each with the labels and bounds of one of its series.
fn exported() -> BTreeMap<String, Family> {
    let text = with_samples().render();
    let helps = text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    let stability = |help: &str| {
        let prefix = help.strip_prefix('[').and_then(|help| help.split_once("] "));
        prefix.map_or_else(String::new, |(stability, _)| stability.to_owned())
    };
    let mut families: BTreeMap<String, Family> = helps
        .map(|(name, help)| (name, Family { stability: stability(help), ..Family::default() }))
        .map(|(name, family)| (name.to_owned(), family))
        .collect();
    for (name, family) in &mut families {
        let kind = text.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} ")));
        kind.unwrap().clone_into(&mut family.kind);
        let is_histogram = family.kind == "histogram";
        let sampled = if is_histogram { format!("{name}_count") } else { name.clone() };
        let series = samples(&text, &sampled);
        let (labels, _) = series.first().unwrap_or_else(|| panic!("{name} has no sample"));
        family.labels = label_names(labels).into_iter().map(str::to_owned).collect();
        if is_histogram {
            let buckets = samples(&text, &format!("{name}_bucket"));
            let bounds = buckets.iter().filter_map(|(labels, _)| labels.rsplit_once("le=\""));
            let bounds = bounds.map(|(_, bound)| bound.trim_end_matches("\"}"));
            let bounds = bounds.take_while(|bound| *bound != "+Inf");
            family.bounds = bounds.map(|bound| bound.parse().unwrap()).collect();
        }
    }
    families
}

/// Returns the rows below a heading of the document that start with a name: the name, and the other
/// columns.
fn rows(heading: &str) -> BTreeMap<&'static str, Vec<&'static str>> {
    let (_, section) = DOCUMENT.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    let rows = rows.map(|row| row.split_once('`').unwrap());
    rows.map(|(name, columns)| {
        (name, columns.split('|').skip(1).map(str::trim).collect::<Vec<_>>())
    })
    .collect()
}

/// Returns the family that a row describes, without bounds.
fn described(columns: &[&str], stability: &str) -> Family {
    let labels = columns.last().unwrap().split(", ").filter(|label| !label.is_empty());
    Family {
        kind: columns[0].to_owned(),
        stability: stability.to_owned(),
        labels: labels.map(|label| label.trim_matches('`').to_owned()).collect(),
        bounds: Vec::new(),
    }
}

#[test]
fn metrics_of_kube_scheduler_are_exported_alike_or_listed_as_absent() {
    let (exported, present) = (exported(), rows("Metrics of kube-scheduler"));
    let absent = rows("Absent metrics of kube-scheduler");
    for (name, expected) in reference() {
        match exported.get(&name) {
            Some(family) => {
                assert_eq!(*family, expected, "{name}");
                assert!(present.contains_key(&*name), "docs/metrics.md: {name} is missing");
                assert!(!absent.contains_key(&*name), "docs/metrics.md: {name} is not absent");
            }
            None => {
                let reason = absent.get(&*name).map(|columns| columns[0]);
                let has_reason = reason.is_some_and(|reason| !reason.is_empty());
                assert!(has_reason, "docs/metrics.md: {name} is absent without a reason");
            }
        }
    }
    let unknown = absent.into_keys().filter(|name| !reference().contains_key(*name));
    assert_eq!(unknown.collect::<Vec<_>>(), [""; 0], "kube-scheduler has no such metric");
}

#[test]
fn document_lists_every_exported_metric() {
    let mut exported = exported();
    for family in exported.values_mut() {
        family.bounds.clear();
    }
    let theirs = rows("Metrics of kube-scheduler");
    let theirs = theirs.iter().map(|(name, columns)| {
        let [kind, stability, labels, _] = columns[..] else { panic!("{name}: {columns:?}") };
        (*name, described(&[kind, labels], stability))
    });
    let ours = rows("Metrics of Loadmaster");
    let ours = ours.iter().map(|(name, columns)| {
        let [kind, labels, meaning] = columns[..] else { panic!("{name}: {columns:?}") };
        assert!(!meaning.is_empty(), "{name}");
        (*name, described(&[kind, labels], "ALPHA"))
    });
    let documented: BTreeMap<String, Family> =
        theirs.chain(ours).map(|(name, family)| (name.to_owned(), family)).collect();
    for (name, family) in &exported {
        assert_eq!(documented.get(name), Some(family), "docs/metrics.md: {name}");
    }
    let gone = documented.into_keys().filter(|name| !exported.contains_key(name));
    assert_eq!(gone.collect::<Vec<_>>(), [""; 0], "docs/metrics.md: not exported");
}
