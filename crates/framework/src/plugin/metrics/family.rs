//! Metrics with labels: one series for each combination of label values.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Counter, Gauge, Histogram, Instrument};

/// Counters with labels.
pub type CounterVec = MetricVec<Counter>;

/// Gauges with labels.
pub type GaugeVec = MetricVec<Gauge>;

/// Histograms with labels.
pub type HistogramVec = MetricVec<Histogram>;

/// Label values and the series that has them.
type SeriesByLabels<T> = BTreeMap<Box<[Arc<str>]>, Arc<T>>;

/// Label names with their values, and the series that has them.
pub(super) type Labelled<T> = (Vec<(Arc<str>, Arc<str>)>, Arc<T>);

/// A metric with labels. Every combination of label values is a separate series, which costs memory
/// here and in Prometheus: choose labels with few values, and [remove](Self::remove) series of
/// objects that are gone.
#[derive(Debug)]
pub struct MetricVec<T> {
    labels: Box<[Arc<str>]>,
    blank: T,
    series: Mutex<SeriesByLabels<T>>,
}

impl CounterVec {
    /// Returns counters that are exported as `name`, with these label names.
    pub fn new(name: &str, help: &str, labels: &[&str]) -> Arc<Self> {
        Self::of(Counter::unshared(name, help), labels)
    }
}

impl GaugeVec {
    /// Returns gauges that are exported as `name`, with these label names.
    pub fn new(name: &str, help: &str, labels: &[&str]) -> Arc<Self> {
        Self::of(Gauge::unshared(name, help), labels)
    }
}

impl HistogramVec {
    /// Returns histograms that are exported as `name`, with these label names, and with buckets up
    /// to each of `bounds`.
    pub fn new(name: &str, help: &str, labels: &[&str], bounds: &[f64]) -> Arc<Self> {
        Self::of(Histogram::unshared(name, help, bounds), labels)
    }
}

#[expect(private_bounds, reason = "plugins use the three named kinds")]
impl<T: Instrument> MetricVec<T> {
    fn of(blank: T, labels: &[&str]) -> Arc<Self> {
        let labels = labels.iter().map(|label| Arc::from(*label)).collect();
        Arc::new(Self { labels, blank, series: Mutex::default() })
    }

    /// Returns the series with these label values, in the order of the label names. Makes it if it
    /// does not exist.
    ///
    /// # Panics
    /// The number of values differs from the number of label names.
    pub fn with_label_values(&self, values: &[&str]) -> Arc<T> {
        let expected = self.labels.len();
        assert_eq!(values.len(), expected, "label values of metric {:?}", self.blank.name());
        let values: Box<[Arc<str>]> = values.iter().map(|value| Arc::from(*value)).collect();
        let make = || Arc::new(self.blank.blank());
        self.lock().entry(values).or_insert_with(make).clone()
    }

    /// Removes the series with these label values. Returns whether it existed.
    pub fn remove(&self, values: &[&str]) -> bool {
        let values: Box<[Arc<str>]> = values.iter().map(|value| Arc::from(*value)).collect();
        self.lock().remove(&values).is_some()
    }

    /// Removes every series.
    pub fn reset(&self) {
        self.lock().clear();
    }

    pub(super) const fn blank(&self) -> &T {
        &self.blank
    }

    pub(super) const fn labels(&self) -> &[Arc<str>] {
        &self.labels
    }

    /// Returns every series with its labels, in the order of the label values.
    pub(super) fn series(&self) -> Vec<Labelled<T>> {
        let labelled =
            |values: &[Arc<str>]| self.labels.iter().cloned().zip(values.iter().cloned()).collect();
        self.lock().iter().map(|(values, series)| (labelled(values), series.clone())).collect()
    }

    /// A panic cannot leave the map half changed, so a poisoned lock is as good as another.
    fn lock(&self) -> MutexGuard<'_, SeriesByLabels<T>> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_label_values_are_one_series() {
        let refused = CounterVec::new("refused_total", "Help.", &["node", "reason"]);
        refused.with_label_values(&["b", "hot"]).inc();
        refused.with_label_values(&["a", "hot"]).add(2);
        refused.with_label_values(&["b", "hot"]).inc();
        let series: Vec<_> = refused
            .series()
            .into_iter()
            .map(|(labels, one)| (labels[0].1.clone(), one.get()))
            .collect();
        assert_eq!(series, [("a".into(), 2), ("b".into(), 2)]);
        assert!(refused.remove(&["a", "hot"]) && !refused.remove(&["a", "hot"]));
        refused.reset();
        assert!(refused.series().is_empty());
    }

    #[test]
    #[should_panic(expected = "label values of metric \"load\"")]
    fn missing_label_value_panics() {
        GaugeVec::new("load", "Help.", &["node"]).with_label_values(&[]);
    }

    #[test]
    fn histograms_of_a_family_share_their_buckets() {
        let family = HistogramVec::new("age_seconds", "Help.", &["node"], &[1.0, 2.0]);
        family.with_label_values(&["a"]).observe(1.5);
        let snapshot = family.with_label_values(&["a"]).snapshot();
        assert_eq!(snapshot.buckets, [(1.0, 0), (2.0, 1)]);
        assert_eq!(family.with_label_values(&["b"]).snapshot().count, 0);
    }
}
