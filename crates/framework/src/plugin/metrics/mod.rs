//! Metrics of a plugin, exported under the names that the plugin gives them.

mod family;
mod histogram;
mod number;

use std::sync::Arc;

pub use self::family::{CounterVec, GaugeVec, HistogramVec, MetricVec};
pub use self::histogram::{Histogram, HistogramSnapshot};
pub use self::number::{Counter, Gauge};

use self::family::Labelled;

/// The common part of counters, gauges and histograms.
trait Instrument {
    fn name(&self) -> &str;
    fn help(&self) -> &str;
    /// Returns another one of the same name, help and buckets, with nothing counted.
    fn blank(&self) -> Self;
}

/// A metric of a plugin.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Metric {
    /// Only grows.
    Counter(Arc<Counter>),
    /// Goes up and down.
    Gauge(Arc<Gauge>),
    /// Observations by size.
    Histogram(Arc<Histogram>),
    /// Counters with labels.
    CounterVec(Arc<CounterVec>),
    /// Gauges with labels.
    GaugeVec(Arc<GaugeVec>),
    /// Histograms with labels.
    HistogramVec(Arc<HistogramVec>),
}

/// The type of a metric in the text format of Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Observations by size.
    Histogram,
}

/// One series of a metric at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Label names with their values; empty for a metric without labels.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// The value.
    pub value: SampleValue,
}

/// The value of a [`Sample`].
#[derive(Debug, Clone, PartialEq)]
pub enum SampleValue {
    /// The count of a counter.
    Counter(u64),
    /// The number of a gauge.
    Gauge(i64),
    /// The buckets of a histogram.
    Histogram(HistogramSnapshot),
}

impl Metric {
    /// Returns the name it is exported under.
    pub fn name(&self) -> &str {
        self.instrument().0
    }

    /// Returns what it counts, for people.
    pub fn help(&self) -> &str {
        self.instrument().1
    }

    fn instrument(&self) -> (&str, &str) {
        fn texts(instrument: &impl Instrument) -> (&str, &str) {
            (instrument.name(), instrument.help())
        }
        match self {
            Self::Counter(counter) => texts(&**counter),
            Self::Gauge(gauge) => texts(&**gauge),
            Self::Histogram(histogram) => texts(&**histogram),
            Self::CounterVec(counters) => texts(counters.blank()),
            Self::GaugeVec(gauges) => texts(gauges.blank()),
            Self::HistogramVec(histograms) => texts(histograms.blank()),
        }
    }

    /// Returns its type.
    pub const fn kind(&self) -> MetricKind {
        match self {
            Self::Counter(_) | Self::CounterVec(_) => MetricKind::Counter,
            Self::Gauge(_) | Self::GaugeVec(_) => MetricKind::Gauge,
            Self::Histogram(_) | Self::HistogramVec(_) => MetricKind::Histogram,
        }
    }

    /// Returns the label names, none for a metric without labels.
    pub fn labels(&self) -> &[Arc<str>] {
        match self {
            Self::Counter(_) | Self::Gauge(_) | Self::Histogram(_) => &[],
            Self::CounterVec(counters) => counters.labels(),
            Self::GaugeVec(gauges) => gauges.labels(),
            Self::HistogramVec(histograms) => histograms.labels(),
        }
    }

    /// Returns every series as it is now, in the order of the label values.
    pub fn samples(&self) -> Vec<Sample> {
        let bare = |value| vec![Sample { labels: Vec::new(), value }];
        match self {
            Self::Counter(counter) => bare(SampleValue::Counter(counter.get())),
            Self::Gauge(gauge) => bare(SampleValue::Gauge(gauge.get())),
            Self::Histogram(histogram) => bare(SampleValue::Histogram(histogram.snapshot())),
            Self::CounterVec(counters) => {
                labelled(counters.series(), |one| SampleValue::Counter(one.get()))
            }
            Self::GaugeVec(gauges) => {
                labelled(gauges.series(), |one| SampleValue::Gauge(one.get()))
            }
            Self::HistogramVec(histograms) => {
                labelled(histograms.series(), |one| SampleValue::Histogram(one.snapshot()))
            }
        }
    }

    /// Returns the metric as one number: the sum over its series, where a histogram counts with the
    /// number of its observations. The sum stops at the limits of `i64`.
    pub fn value(&self) -> i64 {
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let numbers = self.samples().into_iter().map(|sample| match sample.value {
            SampleValue::Counter(value) => count(value),
            SampleValue::Gauge(value) => value,
            SampleValue::Histogram(histogram) => count(histogram.count),
        });
        numbers.fold(0, i64::saturating_add)
    }
}

fn labelled<T>(series: Vec<Labelled<T>>, value: impl Fn(&T) -> SampleValue) -> Vec<Sample> {
    let sample = |(labels, one): Labelled<T>| Sample { labels, value: value(&one) };
    series.into_iter().map(sample).collect()
}

impl From<&Arc<Counter>> for Metric {
    fn from(counter: &Arc<Counter>) -> Self {
        Self::Counter(counter.clone())
    }
}

impl From<&Arc<Gauge>> for Metric {
    fn from(gauge: &Arc<Gauge>) -> Self {
        Self::Gauge(gauge.clone())
    }
}

impl From<&Arc<Histogram>> for Metric {
    fn from(histogram: &Arc<Histogram>) -> Self {
        Self::Histogram(histogram.clone())
    }
}

impl From<&Arc<CounterVec>> for Metric {
    fn from(counters: &Arc<CounterVec>) -> Self {
        Self::CounterVec(counters.clone())
    }
}

impl From<&Arc<GaugeVec>> for Metric {
    fn from(gauges: &Arc<GaugeVec>) -> Self {
        Self::GaugeVec(gauges.clone())
    }
}

impl From<&Arc<HistogramVec>> for Metric {
    fn from(histograms: &Arc<HistogramVec>) -> Self {
        Self::HistogramVec(histograms.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_the_sum_over_the_series() {
        let refused = CounterVec::new("refused_total", "Help.", &["reason"]);
        refused.with_label_values(&["hot"]).add(2);
        refused.with_label_values(&["old"]).inc();
        assert_eq!(Metric::from(&refused).value(), 3);
        let ages = Histogram::new("age_seconds", "Help.", &[1.0]);
        ages.observe(7.0);
        assert_eq!(Metric::from(&ages).value(), 1);
        let huge = Counter::new("huge_total", "Help.");
        huge.add(u64::MAX);
        assert_eq!(Metric::from(&huge).value(), i64::MAX);
    }

    #[test]
    fn samples_carry_the_labels_in_their_order() {
        let load = GaugeVec::new("load", "Help.", &["zone", "node"]);
        load.with_label_values(&["z", "n"]).set(-5);
        let labels = vec![("zone".into(), "z".into()), ("node".into(), "n".into())];
        let expected = [Sample { labels, value: SampleValue::Gauge(-5) }];
        assert_eq!(Metric::from(&load).samples(), expected);
    }
}
