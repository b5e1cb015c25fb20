//! Which metrics and which values of labels are exported.

use std::collections::{BTreeMap, BTreeSet};

/// The metrics that are not exported, and the values to which labels are limited. By default every
/// metric is exported with every value.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    disabled: BTreeSet<String>,
    /// The allowed values by metric and label.
    allowed: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Selection {
    /// Disables metrics by name. Names of metrics that do not exist have no effect.
    #[must_use]
    pub fn without(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.disabled.extend(names);
        self
    }

    /// Limits the label of a metric to these values. Other values are exported as `unexpected`.
    #[must_use]
    pub fn allowing<'a>(
        mut self,
        metric: &str,
        label: &str,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let values = values.into_iter().map(str::to_owned).collect();
        self.allowed.entry(metric.to_owned()).or_default().insert(label.to_owned(), values);
        self
    }

    /// Returns whether the metric is not exported.
    pub(super) fn disables(&self, metric: &str) -> bool {
        self.disabled.contains(metric)
    }

    /// Returns the number of disabled names.
    pub(super) fn disabled(&self) -> usize {
        self.disabled.len()
    }

    /// Returns the limits of a metric: for each of its labels the allowed values, if they are
    /// limited.
    pub(super) fn limits(
        &self,
        metric: &str,
        labels: &[&str],
    ) -> Option<Vec<Option<BTreeSet<String>>>> {
        let allowed = self.allowed.get(metric)?;
        let limits: Vec<_> = labels.iter().map(|label| allowed.get(*label).cloned()).collect();
        limits.iter().any(Option::is_some).then_some(limits)
    }
}
