//! The registration of metrics: name, stability, help, labels and buckets in one place.

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Opts, Registry};

use super::family::{Family, GaugeVec, HistogramVec, IntCounterVec, IntGaugeVec, Limits};
use super::selection::Selection;

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
#[derive(Debug)]
pub(super) struct Table {
    registry: Registry,
    selection: Selection,
    /// Counts the values of labels that the selection does not allow.
    unexpected: IntCounter,
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
    pub(super) fn new(selection: Selection) -> Self {
        let unexpected = IntCounter::with_opts(opts(
            Alpha,
            "cardinality_enforcement_unexpected_categorizations_total",
            "Values of labels that --allow-metric-labels does not allow.",
        ));
        Self {
            registry: Registry::new(),
            selection,
            unexpected: unexpected.expect(VALID),
            registered: Vec::new(),
            resettable: Vec::new(),
        }
    }

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
        let series = prometheus::IntCounterVec::new(opts(stability, name, help), labels);
        let family = self.family(stability, name, labels, series);
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
        let series = prometheus::IntGaugeVec::new(opts(stability, name, help), labels);
        self.family(stability, name, labels, series)
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
        let series = prometheus::GaugeVec::new(opts(stability, name, help), labels);
        self.family(stability, name, labels, series)
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
        let series = prometheus::HistogramVec::new(opts, labels);
        let family = self.family(stability, name, labels, series);
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
        let help = "Metrics hidden because they are deprecated, or disabled.";
        let hidden = self.counter(Beta, "hidden_metrics_total", help);
        let disabled =
            self.counter(Beta, "disabled_metrics_total", "Names of metrics disabled by a flag.");
        disabled.inc_by(self.selection.disabled() as u64);
        self.register(Alpha, Ok(self.unexpected.clone()));
        for (name, stability) in &self.registered {
            match self.selection.disables(name) {
                true => hidden.inc(),
                false => totals.with_label_values(&[stability.name(), ""]).inc(),
            }
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

    fn family<B: MetricVecBuilder + 'static>(
        &mut self,
        stability: Stability,
        name: &str,
        labels: &[&str],
        series: prometheus::Result<MetricVec<B>>,
    ) -> Family<MetricVec<B>> {
        let limits = self.selection.limits(name, labels);
        let limits = limits.map(|allowed| Limits { allowed, unexpected: self.unexpected.clone() });
        Family::new(self.register(stability, series), limits)
    }

    fn register<M: Collector + Clone + 'static>(
        &mut self,
        stability: Stability,
        metric: prometheus::Result<M>,
    ) -> M {
        let metric = metric.expect(VALID);
        self.registry.register(Box::new(metric.clone())).expect(UNIQUE);
        let names = metric.desc().into_iter().map(|desc| (desc.fq_name.clone(), stability));
        self.registered.extend(names);
        metric
    }
}

const VALID: &str = "names, labels and buckets are valid constants";
const UNIQUE: &str = "every name is in the table once";

fn opts(stability: Stability, name: &str, help: &str) -> Opts {
    Opts::new(name, format!("[{}] {help}", stability.name()))
}
