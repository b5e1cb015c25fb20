//! The registration of metrics: name, stability, help, labels and buckets in one place.

use prometheus::core::Collector;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

/// The stability level of a metric, which Kubernetes prints in the help text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stability {
    Alpha,
    Beta,
    Stable,
}

use Stability::{Alpha, Beta, Stable};

impl Stability {
    const fn name(self) -> &'static str {
        match self {
            Alpha => "ALPHA",
            Beta => "BETA",
            Stable => "STABLE",
        }
    }
}

/// A registry under construction.
#[derive(Debug, Default)]
pub(super) struct Table {
    registry: Registry,
    /// Name and stability of every registered metric.
    registered: Vec<(String, Stability)>,
    resettable: Vec<Resettable>,
}

/// A family whose series a reset removes: what it counts starts anew.
#[derive(Debug)]
pub(super) enum Resettable {
    Counters(IntCounterVec),
    Histograms(HistogramVec),
}

impl Resettable {
    pub(super) fn reset(&self) {
        match self {
            Self::Counters(family) => family.reset(),
            Self::Histograms(family) => family.reset(),
        }
    }
}

impl Table {
    pub(super) fn counter(&mut self, stability: Stability, name: &str, help: &str) -> IntCounter {
        self.register(stability, IntCounter::with_opts(opts(stability, name, help)))
    }

    pub(super) fn counters(
        &mut self,
        stability: Stability,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> IntCounterVec {
        let family = IntCounterVec::new(opts(stability, name, help), labels);
        let family = self.register(stability, family);
        self.resettable.push(Resettable::Counters(family.clone()));
        family
    }

    pub(super) fn gauges(
        &mut self,
        stability: Stability,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> IntGaugeVec {
        self.register(stability, IntGaugeVec::new(opts(stability, name, help), labels))
    }

    pub(super) fn gauge(&mut self, stability: Stability, name: &str, help: &str) -> IntGauge {
        self.register(stability, IntGauge::with_opts(opts(stability, name, help)))
    }

    /// Registers gauges of times in seconds.
    pub(super) fn timestamps(
        &mut self,
        stability: Stability,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> GaugeVec {
        self.register(stability, GaugeVec::new(opts(stability, name, help), labels))
    }

    pub(super) fn histogram(
        &mut self,
        stability: Stability,
        name: &str,
        help: &str,
        buckets: impl Into<Vec<f64>>,
    ) -> Histogram {
        let opts = HistogramOpts::from(opts(stability, name, help)).buckets(buckets.into());
        self.register(stability, Histogram::with_opts(opts))
    }

    pub(super) fn histograms(
        &mut self,
        stability: Stability,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: impl Into<Vec<f64>>,
    ) -> HistogramVec {
        let opts = HistogramOpts::from(opts(stability, name, help)).buckets(buckets.into());
        let family = self.register(stability, HistogramVec::new(opts, labels));
        self.resettable.push(Resettable::Histograms(family.clone()));
        family
    }

    /// Registers a collector that produces its samples at each scrape.
    pub(super) fn collector(&mut self, collector: impl Collector + 'static) {
        let names = collector.desc().into_iter().map(|desc| (desc.fq_name.clone(), Alpha));
        self.registered.extend(names.collect::<Vec<_>>());
        self.registry.register(Box::new(collector)).expect(UNIQUE);
    }

    /// Adds the metrics about the registry itself, and returns it with the names of all metrics.
    pub(super) fn finish(mut self) -> (Registry, Vec<String>) {
        let labels = ["stability_level", "deprecated_version"];
        let help = "Metrics that are registered, by stability.";
        let totals = self.counters(Beta, "registered_metrics_total", help, &labels);
        self.counter(Beta, "hidden_metrics_total", "Metrics hidden because they are deprecated.");
        self.counter(Beta, "disabled_metrics_total", "Metrics switched off by a flag.");
        for (_, stability) in &self.registered {
            totals.with_label_values(&[stability.name(), ""]).inc();
        }
        (self.registry, self.registered.into_iter().map(|(name, _)| name).collect())
    }

    /// Takes the families that a reset empties.
    pub(super) fn take_resettable(&mut self) -> Vec<Resettable> {
        std::mem::take(&mut self.resettable)
    }

    /// Returns the registry without metrics about itself.
    pub(super) fn into_registry(self) -> Registry {
        self.registry
    }

    fn register<M: Collector + Clone + 'static>(
        &mut self,
        stability: Stability,
        metric: prometheus::Result<M>,
    ) -> M {
        let metric = metric.expect("names, labels and buckets are valid constants");
        self.registry.register(Box::new(metric.clone())).expect(UNIQUE);
        let names = metric.desc().into_iter().map(|desc| (desc.fq_name.clone(), stability));
        self.registered.extend(names);
        metric
    }
}

const UNIQUE: &str = "every name is in the table once";

fn opts(stability: Stability, name: &str, help: &str) -> Opts {
    Opts::new(name, format!("[{}] {help}", stability.name()))
}
