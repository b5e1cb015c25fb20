//! The registration of metrics. Each is declared once: registry and `docs/metrics.md` follow from
//! it.

use framework::Level;
use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::proto::MetricType;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Opts, Registry};

use super::family::{Family, GaugeVec, HistogramVec, IntCounterVec, IntGaugeVec, Limits};
use super::process::{Process, Source};
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
    pub(super) const fn name(self) -> &'static str {
        match self {
            Alpha => "ALPHA",
            Beta => "BETA",
            Stable => "STABLE",
        }
    }
}

/// The declaration of a metric, which registers it and gives it its row in `docs/metrics.md`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Declaration {
    pub(super) stability: Stability,
    /// The first level at which the metric is beta, if it is alpha before.
    pub(super) beta_since: Option<Level>,
    /// The version of Kubernetes that has deprecated the metric.
    pub(super) deprecated: Option<&'static str>,
    pub(super) name: &'static str,
    /// Names of the labels, in the order in which values are given.
    pub(super) labels: &'static [&'static str],
    /// The text that `/metrics` serves.
    pub(super) help: &'static str,
    /// The last column of the row, in Markdown: how a metric of kube-scheduler differs, or what one
    /// of Loadmaster means, if the help text does not say it all.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the test that writes the page"))]
    pub(super) page: &'static str,
}

/// A declaration of an alpha metric, without name and help text.
pub(super) const ALPHA: Declaration = Declaration::new(Alpha);
/// The same of a beta metric.
pub(super) const BETA: Declaration = Declaration::new(Beta);
/// The same of a stable metric.
pub(super) const STABLE: Declaration = Declaration::new(Stable);

impl Declaration {
    const fn new(stability: Stability) -> Self {
        Self {
            stability,
            beta_since: None,
            deprecated: None,
            name: "",
            labels: &[],
            help: "",
            page: "",
        }
    }

    /// Returns the stability at a level.
    pub(super) fn stability_at(&self, level: Level) -> Stability {
        let is_beta = self.beta_since.is_some_and(|since| level.is_at_least(since));
        if is_beta { Beta } else { self.stability }
    }

    fn opts(&self, level: Level) -> Opts {
        let stability = self.stability_at(level).name();
        let deprecated = match self.deprecated {
            Some(version) => format!("(Deprecated since {version}) "),
            None => String::new(),
        };
        Opts::new(self.name, format!("[{stability}] {deprecated}{}", self.help))
    }

    fn histogram_opts(&self, level: Level, buckets: impl Into<Vec<f64>>) -> HistogramOpts {
        HistogramOpts::from(self.opts(level)).buckets(buckets.into())
    }
}

/// A registered metric.
#[derive(Debug, Clone)]
pub(super) struct Registered {
    pub(super) name: String,
    /// `counter`, `gauge` or `histogram`.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the test that writes the page"))]
    pub(super) kind: &'static str,
    /// `None` for metrics of the process, which are not of Kubernetes.
    pub(super) declaration: Option<Declaration>,
    /// Upper bounds of the buckets of a histogram.
    pub(super) bounds: Vec<f64>,
}

/// A registry under construction.
#[derive(Debug)]
pub(super) struct Table {
    level: Level,
    registry: Registry,
    selection: Selection,
    /// Counts the values of labels that the selection does not allow.
    unexpected: IntCounter,
    registered: Vec<Registered>,
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

/// Counts the values of labels that a selection does not allow.
const UNEXPECTED: Declaration = Declaration {
    name: "cardinality_enforcement_unexpected_categorizations_total",
    help: "Values of labels that --allow-metric-labels does not allow.",
    ..ALPHA
};

impl Table {
    pub(super) fn new(level: Level, selection: Selection) -> Self {
        Self {
            level,
            registry: Registry::new(),
            selection,
            unexpected: IntCounter::with_opts(UNEXPECTED.opts(level)).expect(VALID),
            registered: Vec::new(),
            resettable: Vec::new(),
        }
    }

    pub(super) fn counter(&mut self, declaration: Declaration) -> IntCounter {
        self.register(COUNTER, declaration, IntCounter::with_opts(declaration.opts(self.level)))
    }

    pub(super) fn counters(&mut self, declaration: Declaration) -> IntCounterVec {
        let series =
            prometheus::IntCounterVec::new(declaration.opts(self.level), declaration.labels);
        let family = self.family(COUNTER, declaration, series);
        if !declaration.labels.is_empty() {
            self.resettable.push(Resettable::Counters(family.clone()));
        }
        family
    }

    pub(super) fn gauges(&mut self, declaration: Declaration) -> IntGaugeVec {
        let series = prometheus::IntGaugeVec::new(declaration.opts(self.level), declaration.labels);
        self.family(GAUGE, declaration, series)
    }

    pub(super) fn gauge(&mut self, declaration: Declaration) -> IntGauge {
        self.register(GAUGE, declaration, IntGauge::with_opts(declaration.opts(self.level)))
    }

    /// Registers gauges of times in seconds.
    pub(super) fn timestamps(&mut self, declaration: Declaration) -> GaugeVec {
        let series = prometheus::GaugeVec::new(declaration.opts(self.level), declaration.labels);
        self.family(GAUGE, declaration, series)
    }

    pub(super) fn histogram(
        &mut self,
        declaration: Declaration,
        buckets: impl Into<Vec<f64>>,
    ) -> Histogram {
        let buckets = buckets.into();
        let opts = declaration.histogram_opts(self.level, buckets.clone());
        let histogram = self.register(HISTOGRAM, declaration, Histogram::with_opts(opts));
        self.bounded(buckets);
        histogram
    }

    pub(super) fn histograms(
        &mut self,
        declaration: Declaration,
        buckets: impl Into<Vec<f64>>,
    ) -> HistogramVec {
        let buckets = buckets.into();
        let opts = declaration.histogram_opts(self.level, buckets.clone());
        let series = prometheus::HistogramVec::new(opts, declaration.labels);
        let family = self.family(HISTOGRAM, declaration, series);
        self.bounded(buckets);
        self.resettable.push(Resettable::Histograms(family.clone()));
        family
    }

    /// Notes the bounds of the histogram that was registered last.
    fn bounded(&mut self, bounds: Vec<f64>) {
        if let Some(registered) = self.registered.last_mut() {
            registered.bounds = bounds;
        }
    }

    /// Registers metrics of the process, which are read at each scrape.
    pub(super) fn process(&mut self, process: Process) {
        for Source { name, kind, .. } in process.sources() {
            let kind = if *kind == MetricType::COUNTER { COUNTER } else { GAUGE };
            let name = (*name).to_owned();
            self.registered.push(Registered { name, kind, declaration: None, bounds: Vec::new() });
        }
        self.registry.register(Box::new(process)).expect(UNIQUE);
    }

    /// Adds the metrics about the registry itself, and returns it with all metrics.
    pub(super) fn finish(mut self) -> (Registry, Vec<Registered>) {
        let totals = self.counters(Declaration {
            name: "registered_metrics_total",
            labels: &["stability_level", "deprecated_version"],
            help: "Metrics that are registered, by stability.",
            ..BETA
        });
        let hidden = self.counter(Declaration {
            name: "hidden_metrics_total",
            help: "Metrics hidden because they are deprecated, or disabled.",
            page: "no metric is hidden; as in kube-scheduler, disabled metrics count",
            ..BETA
        });
        let disabled = self.counter(Declaration {
            name: "disabled_metrics_total",
            help: "Names of metrics disabled by a flag.",
            ..BETA
        });
        disabled.inc_by(self.selection.disabled() as u64);
        self.register(COUNTER, UNEXPECTED, Ok(self.unexpected.clone()));
        for Registered { name, declaration, .. } in &self.registered {
            match self.selection.disables(name) {
                true => hidden.inc(),
                false => {
                    let level = self.level;
                    let stability = declaration.map_or(Alpha, |own| own.stability_at(level));
                    let deprecated = declaration.and_then(|own| own.deprecated).unwrap_or_default();
                    totals.with_label_values(&[stability.name(), deprecated]).inc();
                }
            }
        }
        (self.registry, self.registered)
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
        kind: &'static str,
        declaration: Declaration,
        series: prometheus::Result<MetricVec<B>>,
    ) -> Family<MetricVec<B>> {
        let limits = self.selection.limits(declaration.name, declaration.labels);
        let limits = limits.map(|allowed| Limits { allowed, unexpected: self.unexpected.clone() });
        Family::new(self.register(kind, declaration, series), limits)
    }

    fn register<M: Collector + Clone + 'static>(
        &mut self,
        kind: &'static str,
        declaration: Declaration,
        metric: prometheus::Result<M>,
    ) -> M {
        let metric = metric.expect(VALID);
        self.registry.register(Box::new(metric.clone())).expect(UNIQUE);
        let name = declaration.name.to_owned();
        let declaration = Some(declaration);
        self.registered.push(Registered { name, kind, declaration, bounds: Vec::new() });
        metric
    }
}

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";
const HISTOGRAM: &str = "histogram";

const VALID: &str = "names, labels and buckets are valid constants";
const UNIQUE: &str = "every name is in the table once";
