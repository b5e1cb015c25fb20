//! Metrics with labels.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use prometheus::IntCounter;
use prometheus::core::{MetricVec, MetricVecBuilder};

/// The value that replaces one that is not allowed, as in Kubernetes.
const UNEXPECTED: &str = "unexpected";

/// Counters with labels.
pub(super) type IntCounterVec = Family<prometheus::IntCounterVec>;
/// Gauges with labels.
pub(super) type IntGaugeVec = Family<prometheus::IntGaugeVec>;
/// Gauges of times in seconds with labels.
pub(super) type GaugeVec = Family<prometheus::GaugeVec>;
/// Histograms with labels.
pub(super) type HistogramVec = Family<prometheus::HistogramVec>;

/// A metric with labels, whose values may be limited.
#[derive(Debug, Clone)]
pub(super) struct Family<V> {
    series: V,
    limits: Option<Arc<Limits>>,
}

/// The values to which the labels of a metric are limited.
#[derive(Debug)]
pub(super) struct Limits {
    /// The allowed values of each label; `None` allows all.
    pub(super) allowed: Vec<Option<BTreeSet<String>>>,
    /// Counts the values that were not allowed.
    pub(super) unexpected: IntCounter,
}

impl Limits {
    fn limit<'a>(&self, values: &'a [impl AsRef<str>]) -> Vec<&'a str> {
        let values = values.iter().map(AsRef::as_ref);
        let limit = |(value, allowed): (&'a str, &Option<BTreeSet<String>>)| match allowed {
            Some(allowed) if !allowed.contains(value) => {
                self.unexpected.inc();
                UNEXPECTED
            }
            _ => value,
        };
        values.zip(&self.allowed).map(limit).collect()
    }
}

impl<B: MetricVecBuilder> Family<MetricVec<B>> {
    pub(super) fn new(series: MetricVec<B>, limits: Option<Limits>) -> Self {
        Self { series, limits: limits.map(Arc::new) }
    }

    /// Returns the series with these values, in the order of the labels.
    pub(super) fn with_label_values<S: AsRef<str> + Debug>(&self, values: &[S]) -> B::M {
        match &self.limits {
            None => self.series.with_label_values(values),
            Some(limits) => self.series.with_label_values(&limits.limit(values)),
        }
    }

    /// Removes the series with these values, if there is one.
    pub(super) fn remove<S: AsRef<str> + Debug>(&self, values: &[S]) {
        // Without it there is nothing to remove.
        let _ = match &self.limits {
            None => self.series.remove_label_values(values),
            Some(limits) => self.series.remove_label_values(&limits.limit(values)),
        };
    }

    /// Removes all series.
    pub(super) fn reset(&self) {
        self.series.reset();
    }
}
