//! Flags that select metrics and values of their labels.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use framework::Level;

use super::go;
use super::label_limits::{LabelLimits, metric_name};
use crate::config::FieldErrors;
use crate::metrics::Selection;

/// Pattern of names of metrics.
const METRIC_NAME: &str = "[a-zA-Z_:][a-zA-Z0-9_:]*";
/// Pattern of names of labels.
const LABEL_NAME: &str = "[a-zA-Z_][a-zA-Z0-9_]*";

/// The flags of metrics.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Metrics")]
pub(crate) struct MetricsFlags {
    /// Values to which a label is limited, as `metric,label=value,value`; others are exported as
    /// `unexpected`; may be repeated
    #[arg(long, value_name = "LIMITS")]
    allow_metric_labels: Vec<LabelLimits>,

    /// YAML file that limits labels, as `metric,label: value,value`; without effect beside
    /// --allow-metric-labels
    #[arg(long, value_name = "FILE", value_parser = go::path)]
    allow_metric_labels_manifest: Option<PathBuf>,

    /// Names of metrics that are not exported
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    disabled_metrics: Vec<String>,

    /// Version before the one that is followed, whose hidden metrics are exported; none is hidden
    #[arg(long, value_name = "VERSION")]
    show_hidden_metrics_for_version: Option<String>,
}

impl MetricsFlags {
    /// Returns the metrics and values of labels to export. Without a level that is asked for, any
    /// released one may be followed.
    ///
    /// # Errors
    /// A name, the version or the file is not valid; the texts are kube-scheduler's.
    pub(crate) fn selection(&self, asked: Option<Level>) -> Result<Selection, FieldErrors> {
        let mut errors = FieldErrors::default();
        self.check_version(asked, &mut errors);
        self.check_disabled(&mut errors);
        let limits: LabelLimits = self.allow_metric_labels.iter().cloned().collect();
        if !limits.are_valid() {
            errors.invalid("metrics.allowListMapping", &limits, &keys());
        }
        let manifest = go::given(self.allow_metric_labels_manifest.as_ref());
        let manifest = manifest.and_then(|file| match read(&file) {
            Ok(limits) => Some(limits),
            Err(detail) => {
                errors.invalid("metrics.allowListMappingManifest", &file, &detail);
                None
            }
        });
        if !errors.is_empty() {
            return Err(errors);
        }
        let limits = match self.allow_metric_labels.is_empty() {
            true => manifest.unwrap_or_default(),
            false => limits,
        };
        let selection = Selection::default().without(self.disabled_metrics.iter().cloned());
        let limited = limits.iter();
        Ok(limited.fold(selection, |selection, (metric, label, values)| {
            selection.allowing(metric, label, values.split(','))
        }))
    }

    fn check_version(&self, asked: Option<Level>, errors: &mut FieldErrors) {
        let version = self.show_hidden_metrics_for_version.as_deref().unwrap_or_default();
        let possible = Level::ALL
            .into_iter()
            .filter(|level| asked.map_or(!level.is_preview(), |asked| asked == *level));
        let previous: Vec<_> = possible.map(|level| format!("1.{}", level.minor() - 1)).collect();
        if !version.is_empty() && !previous.iter().any(|own| own == version) {
            let detail = format!(
                "must be omitted or have the value '{}'; only the previous minor version is allowed",
                previous.join("' or '")
            );
            errors.invalid("metrics.showHiddenMetricsForVersion", &version, &detail);
        }
    }

    fn check_disabled(&self, errors: &mut FieldErrors) {
        let names = &self.disabled_metrics;
        if let Some(name) = names.iter().find(|name| !metric_name(name)) {
            let detail = format!(
                "must be fully qualified metric names matching \"^{METRIC_NAME}$\", got {name:?}"
            );
            errors.invalid("metrics.disabledMetrics", names, &detail);
        }
    }
}

/// Says what the keys of limits must look like.
fn keys() -> String {
    format!(
        "must have keys with format `metricName,labelName` where metricName matches {METRIC_NAME:?} and \
         labelName matches {LABEL_NAME:?}"
    )
}

/// Reads limits from a file.
fn read(file: &Path) -> Result<LabelLimits, String> {
    let text = super::super::config::read(file)
        .map_err(|error| format!("failed to read allow list manifest: {error}"))?;
    let limits: Option<BTreeMap<String, String>> = yaml::decode(&text)
        .map_err(|error| format!("failed to parse allow list manifest: {error}"))?;
    let limits = LabelLimits::from(limits.unwrap_or_default());
    match limits.are_valid() {
        true => Ok(limits),
        false => Err(format!("invalid allow list mapping in manifest: {}", keys())),
    }
}
