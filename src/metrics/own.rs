//! Metrics that plugins keep by themselves, read at every scrape.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use framework::Metric as Own;
use prometheus::core::Desc;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

/// The metrics of the plugins of all profiles, by name, each with its profile.
#[derive(Debug, Default)]
pub(super) struct OwnMetrics(Mutex<BTreeMap<String, Vec<(String, Own)>>>);

/// A metric of a plugin that is not exported, because it would spoil the whole answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The name has other characters than letters, digits, `_` and `:`, or begins with a digit.
    #[error("plugin metric {0:?} is not exported: that is no name for a metric")]
    Invalid(String),
    /// Loadmaster, or another plugin of the profile, has a metric of this name.
    #[error("plugin metric {0:?} is not exported: the name is taken, choose another")]
    Taken(String),
}

impl OwnMetrics {
    /// Replaces the metrics by these, each with its profile; `taken` are the names in use already.
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
            let clashes = |peer: &(String, Own)| peer.0 == profile || kind(&peer.1) != kind(&own);
            if !is_valid(&own) {
                refusals.push(Refusal::Invalid(name));
            } else if taken.contains(&name) || peers.iter().any(clashes) {
                refusals.push(Refusal::Taken(name));
            } else {
                by_name.entry(name).or_default().push((profile, own));
            }
        }
        *self.lock() = by_name;
        refusals
    }

    /// One family a name, one sample a profile.
    pub(super) fn collect(&self) -> Vec<MetricFamily> {
        self.lock().values().filter_map(|samples| family(samples)).collect()
    }

    /// Nothing panics while it holds the lock, so what is behind it is whole.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<(String, Own)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a scrape can read the name.
fn is_valid(own: &Own) -> bool {
    Desc::new(own.name().into(), "-".into(), Vec::new(), HashMap::new()).is_ok()
}

fn kind(own: &Own) -> MetricType {
    if matches!(own, Own::Counter(_)) { MetricType::COUNTER } else { MetricType::GAUGE }
}

fn family(samples: &[(String, Own)]) -> Option<MetricFamily> {
    let (_, own) = samples.first()?;
    let mut family = MetricFamily::default();
    family.set_name(own.name().into());
    family.set_help(own.help().into());
    family.set_field_type(kind(own));
    family.set_metric(samples.iter().map(|(profile, own)| sample(profile, own)).collect());
    Some(family)
}

fn sample(profile: &str, own: &Own) -> Metric {
    let mut label = LabelPair::default();
    label.set_name("profile".into());
    label.set_value(profile.into());
    let mut metric = Metric::from_label(vec![label]);
    let value = own.value() as f64;
    let (mut counter, mut gauge) = (Counter::default(), Gauge::default());
    counter.set_value(value);
    gauge.set_value(value);
    match kind(own) {
        MetricType::COUNTER => metric.set_counter(counter),
        _ => metric.set_gauge(gauge),
    }
    metric
}
