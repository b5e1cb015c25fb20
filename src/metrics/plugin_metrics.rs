//! Metrics that plugins declare, read at every scrape.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use framework::{HistogramSnapshot, Metric as PluginMetric, MetricKind, Sample, SampleValue};
use prometheus::core::Desc;
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};

use super::table::Registered;

/// The label that each exported metric of a plugin gets: the scheduler name of its profile.
const PROFILE: &str = "profile";

/// The label that the text format gives the buckets of a histogram.
const BOUND: &str = "le";

/// The metrics of the plugins of all profiles, by name, each with its profile.
#[derive(Debug, Default)]
pub(super) struct PluginMetrics(Mutex<BTreeMap<String, Vec<(String, PluginMetric)>>>);

/// The reason a metric of a plugin is not exported. Exporting it would make the whole response
/// invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The name contains characters other than letters, digits, `_` and `:`, or starts with a
    /// digit.
    #[error("plugin metric {0:?} is not exported: its name is invalid")]
    InvalidName(String),
    /// Another metric of Loadmaster or of the profile has the same name, or a metric of another
    /// profile has the same name but another type or other labels.
    #[error("plugin metric {0:?} is not exported: the name is taken, choose another")]
    NameTaken(String),
    /// A label name is invalid, repeated or reserved by Loadmaster.
    #[error(
        "plugin metric {metric:?} is not exported: its label {label:?} is invalid, repeated or \
         reserved (\"profile\", \"le\"), choose another"
    )]
    InvalidLabel {
        /// The metric.
        metric: String,
        /// The label name.
        label: String,
    },
}

impl PluginMetrics {
    /// Replaces all metrics, each given with its profile; `others` are
    /// the metrics of Loadmaster, whose names are taken.
    pub(super) fn set(
        &self,
        metrics: impl IntoIterator<Item = (String, PluginMetric)>,
        others: &[Registered],
    ) -> Vec<ExportError> {
        let mut by_name = BTreeMap::<String, Vec<(String, PluginMetric)>>::new();
        let mut errors = Vec::new();
        for (profile, own) in metrics {
            let name = own.name().to_owned();
            let peers = by_name.get(&name).map_or(&[][..], Vec::as_slice);
            let clashes = |(other, peer): &(String, PluginMetric)| {
                *other == profile || peer.kind() != own.kind() || peer.labels() != own.labels()
            };
            if !is_valid_name(&name) {
                errors.push(ExportError::InvalidName(name));
            } else if let Some(label) = bad_label(&own) {
                errors.push(ExportError::InvalidLabel { metric: name, label });
            } else if others.iter().any(|other| other.name == name) || peers.iter().any(clashes) {
                errors.push(ExportError::NameTaken(name));
            } else {
                by_name.entry(name).or_default().push((profile, own));
            }
        }
        *self.lock() = by_name;
        errors
    }

    /// Returns one family for each name, with the series of every profile.
    pub(super) fn collect(&self) -> Vec<MetricFamily> {
        self.lock().values().filter_map(|metrics| family(metrics)).collect()
    }

    /// Locks the map. A poisoned lock is usable, because a panic cannot leave the map half changed.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<(String, PluginMetric)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the name is valid in the text format.
fn is_valid_name(name: &str) -> bool {
    Desc::new(name.into(), "-".into(), Vec::new(), HashMap::new()).is_ok()
}

/// Returns the first label name that cannot be exported.
fn bad_label(own: &PluginMetric) -> Option<String> {
    let labels = own.labels();
    let is_valid =
        |label: &str| Desc::new("m".into(), "-".into(), vec![label.into()], HashMap::new()).is_ok();
    let is_bad = |(place, label): (usize, &Arc<str>)| {
        let name = &**label;
        let bad =
            [PROFILE, BOUND].contains(&name) || !is_valid(name) || labels[..place].contains(label);
        bad.then(|| name.to_owned())
    };
    labels.iter().enumerate().find_map(is_bad)
}

fn family(metrics: &[(String, PluginMetric)]) -> Option<MetricFamily> {
    let (_, own) = metrics.first()?;
    let samples: Vec<Metric> = metrics
        .iter()
        .flat_map(|(profile, own)| own.samples().into_iter().map(|sample| series(profile, sample)))
        .collect();
    // As in client libraries, a metric with labels is shown once it has a series.
    if samples.is_empty() {
        return None;
    }
    let mut family = MetricFamily::default();
    family.set_name(own.name().into());
    family.set_help(own.help().into());
    family.set_field_type(match own.kind() {
        MetricKind::Counter => MetricType::COUNTER,
        MetricKind::Gauge => MetricType::GAUGE,
        MetricKind::Histogram => MetricType::HISTOGRAM,
    });
    family.set_metric(samples);
    Some(family)
}

fn series(profile: &str, sample: Sample) -> Metric {
    let own = sample.labels.iter().map(|(name, value)| label(name, value));
    let mut labels: Vec<LabelPair> = own.chain([label(PROFILE, profile)]).collect();
    labels.sort_by(|a, b| a.name().cmp(b.name()));
    let mut metric = Metric::from_label(labels);
    match sample.value {
        SampleValue::Counter(value) => {
            let mut counter = Counter::default();
            counter.set_value(value as f64);
            metric.set_counter(counter);
        }
        SampleValue::Gauge(value) => {
            let mut gauge = Gauge::default();
            gauge.set_value(value as f64);
            metric.set_gauge(gauge);
        }
        SampleValue::Histogram(snapshot) => metric.set_histogram(histogram(&snapshot)),
    }
    metric
}

fn label(name: &str, value: &str) -> LabelPair {
    let mut label = LabelPair::default();
    label.set_name(name.into());
    label.set_value(value.into());
    label
}

fn histogram(snapshot: &HistogramSnapshot) -> Histogram {
    let bucket = |&(bound, count): &(f64, u64)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(bound);
        bucket.set_cumulative_count(count);
        bucket
    };
    let mut histogram = Histogram::default();
    histogram.set_bucket(snapshot.buckets.iter().map(bucket).collect());
    histogram.set_sample_count(snapshot.count);
    histogram.set_sample_sum(snapshot.sum);
    histogram
}
