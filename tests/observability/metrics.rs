//! The metrics that Loadmaster exports, as `docs/metrics.md` lists them. A test of the metrics
//! compares that page with the program.

use std::collections::{BTreeMap, BTreeSet};

use super::promql::{self, Selector};
use super::read;

/// Labels that Prometheus adds to each series of a target.
const OF_TARGET: [&str; 6] = ["cluster", "namespace", "pod", "job", "instance", "metrics_path"];

/// Names, and beginnings of values, that 1.37 has replaced by others.
const RENAMED: [[&str; 2]; 3] = [
    ["UnschedulablePod", "UnscheduledPod"],
    ["UnschedulablePodUpdate", "TargetPodUpdate"],
    [
        "scheduler_resourceclaim_creates_total",
        "dynamic_resource_allocation_resourceclaim_creates_total",
    ],
];

/// The documented metrics and label values.
pub(super) struct Metrics {
    /// Type and labels by name.
    metrics: BTreeMap<String, (String, BTreeSet<String>)>,
    /// The values of labels that have few.
    values: BTreeMap<String, BTreeSet<String>>,
}

impl Metrics {
    pub(super) fn documented() -> Self {
        let page = read("docs/metrics.md");
        let mut metrics = BTreeMap::new();
        let mut values = BTreeMap::new();
        let mut header = Vec::new();
        for line in page.lines() {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            match cells[..] {
                _ if !line.starts_with('|') => {}
                ["Metric" | "Label", ..] => header = cells,
                [metric, kind, ..] if header[0] == "Metric" && header.contains(&"Type") => {
                    let labels = header.iter().position(|column| *column == "Labels").unwrap();
                    let labels = cells.get(labels).copied().unwrap_or_default();
                    metrics.insert(quoted(metric).remove(0), (kind.into(), quoted(labels)));
                }
                [label, listed] if header[0] == "Label" => {
                    values.insert(quoted(label).remove(0), quoted(listed));
                }
                _ => {}
            }
        }
        let metrics = metrics.into_iter();
        let metrics = metrics.map(|(name, (kind, labels))| (name, (kind, set(labels)))).collect();
        let values = values.into_iter().map(|(label, listed)| (label, set(listed))).collect();
        Self { metrics, values }
    }

    /// Panics if an expression names a metric, a label or a value that does not exist, or that only
    /// one level of Kubernetes has.
    pub(super) fn check(&self, expression: &str, at: &str) {
        for [at_1_36, at_1_37] in RENAMED {
            let named = [expression.contains(at_1_36), expression.contains(at_1_37)];
            assert!(named[0] == named[1], "{at}: 1.37 has {at_1_37} for {at_1_36}; name both");
        }
        let names = promql::names(expression);
        let mut labels = BTreeSet::from(OF_TARGET.map(str::to_owned));
        for selector in &names.selectors {
            let own = self.labels(&selector.metric);
            let own = own.unwrap_or_else(|| panic!("{at}: there is no metric {}", selector.metric));
            self.check_matchers(selector, &own, at);
            labels.extend(own);
        }
        let unknown: Vec<_> = names.grouping.difference(&labels).collect();
        assert!(unknown.is_empty(), "{at}: no metric of the expression has labels {unknown:?}");
    }

    fn check_matchers(
        &self,
        Selector { metric, matchers }: &Selector,
        own: &BTreeSet<String>,
        at: &str,
    ) {
        for (label, operator, value) in matchers {
            let known = own.contains(label) || OF_TARGET.contains(&label.as_str());
            assert!(known, "{at}: {metric} has no label {label}");
            let Some(values) = self.values.get(label).filter(|_| own.contains(label)) else {
                continue;
            };
            let pattern = operator.ends_with('~');
            let named =
                value.split('|').filter(|_| pattern).chain((!pattern).then_some(value.as_str()));
            for value in named {
                assert!(
                    values.contains(value),
                    "{at}: {metric} has no {label}={value:?}: {values:?}"
                );
            }
        }
    }

    /// Returns the labels of the series of this name; those of histograms have suffixes.
    fn labels(&self, series: &str) -> Option<BTreeSet<String>> {
        if series == "up" {
            return Some(BTreeSet::new());
        }
        if let Some((kind, labels)) = self.metrics.get(series) {
            assert_ne!(kind, "histogram", "{series} has no series without a suffix");
            return Some(labels.clone());
        }
        let (suffix, name) = ["_bucket", "_sum", "_count"]
            .into_iter()
            .find_map(|suffix| Some((suffix, series.strip_suffix(suffix)?)))?;
        let (kind, labels) = self.metrics.get(name).filter(|(kind, _)| kind == "histogram")?;
        assert_eq!(kind, "histogram");
        let bound = (suffix == "_bucket").then(|| "le".to_owned());
        Some(labels.iter().cloned().chain(bound).collect())
    }
}

/// Returns the texts in backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn set(list: Vec<String>) -> BTreeSet<String> {
    list.into_iter().collect()
}

#[test]
fn page_lists_metrics_with_their_labels_and_values() {
    let metrics = Metrics::documented();
    assert!(metrics.metrics.len() > 50, "{}", metrics.metrics.len());
    let attempts = metrics.labels("scheduler_schedule_attempts_total").unwrap();
    assert_eq!(attempts, set(vec!["profile".into(), "result".into()]));
    let buckets = metrics.labels("loadmaster_decision_age_seconds_bucket").unwrap();
    assert_eq!(buckets, set(vec!["le".into()]));
    assert_eq!(metrics.labels("scheduler_batch_attempts_total"), None);
    assert!(metrics.values["phase"].contains("unknown"));
}
