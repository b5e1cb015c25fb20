//! Metrics of plugins, collected at every scrape.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use framework::{HistogramSnapshot, Metric as Own, MetricKind, Sample, SampleValue};
use prometheus::core::Desc;
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};

/// The label that every exported metric of a plugin gets: the scheduler name of its profile.
const PROFILE: &str = "profile";

/// The label that the text format gives the buckets of a histogram.
const BOUND: &str = "le";

/// The metrics of the plugins of all profiles, by name, each with its profile.
#[derive(Debug, Default)]
pub(super) struct OwnMetrics(Mutex<BTreeMap<String, Vec<(String, Own)>>>);

/// A metric of a plugin that is not exported, because it would make the output invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The name has other characters than letters, digits, `_` and `:`, or begins with a digit.
    #[error("plugin metric {0:?} is not exported: that is no name for a metric")]
    Invalid(String),
    /// Loadmaster, or another plugin of the profile, has a metric of this name; or another profile has
    /// one of another type or with other labels.
    #[error("plugin metric {0:?} is not exported: the name is taken, choose another")]
    Taken(String),
    /// A label name is not valid, occurs twice, or is one that Loadmaster sets.
    #[error(
        "plugin metric {metric:?} is not exported: its label {label:?} is invalid, repeated or \
         reserved (\"profile\", \"le\"), choose another"
    )]
    Label {
        /// The metric.
        metric: String,
        /// The label name.
        label: String,
    },
}

impl OwnMetrics {
    /// Replaces the metrics of plugins, each with its profile; `taken` are the names in use.
    pub(super) fn set(
        &self,
        metrics: impl IntoIterator<Item = (String, Own)>,
        taken: &[String],
    ) -> Vec<Refusal> {
        let mut by_name = BTreeMap::<String, Vec<(String, Own)>>::new();
        let mut refusals = Vec::new();
        for (profile, own) in metrics {
            let name = own.name().to_owned();
            let peers = by_name.get(&name).map_or(&[][..], Vec::as_slice);
            let clashes = |(other, peer): &(String, Own)| {
                *other == profile || peer.kind() != own.kind() || peer.labels() != own.labels()
            };
            if !is_valid_name(&name) {
                refusals.push(Refusal::Invalid(name));
            } else if let Some(label) = bad_label(&own) {
                refusals.push(Refusal::Label { metric: name, label });
            } else if taken.contains(&name) || peers.iter().any(clashes) {
                refusals.push(Refusal::Taken(name));
            } else {
                by_name.entry(name).or_default().push((profile, own));
            }
        }
        *self.lock() = by_name;
        refusals
    }

    /// Returns one family for each name, with the series of every profile.
    pub(super) fn collect(&self) -> Vec<MetricFamily> {
        self.lock().values().filter_map(|metrics| family(metrics)).collect()
    }

    /// A panic cannot leave the map half changed, so a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<(String, Own)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a scrape can read the name of a metric.
fn is_valid_name(name: &str) -> bool {
    Desc::new(name.into(), "-".into(), Vec::new(), HashMap::new()).is_ok()
}

/// Returns the first label name that cannot be exported.
fn bad_label(own: &Own) -> Option<String> {
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

fn family(metrics: &[(String, Own)]) -> Option<MetricFamily> {
    let (_, own) = metrics.first()?;
    let samples: Vec<Metric> = metrics
        .iter()
        .flat_map(|(profile, own)| own.samples().into_iter().map(|sample| series(profile, sample)))
        .collect();
    // As in client libraries, a metric with labels does not show before it has a series.
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
