//! The arguments of LoadAware.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LoadAwareArgs {
    /// Utilization up to which nodes are packed, in percent of the allocatable CPU.
    pub target_utilization: i64,
    /// Age at which metrics are ignored.
    pub maximum_age_seconds: u64,
    /// Time between two lists of the metrics.
    pub poll_interval_seconds: u64,
    /// Usage predicted for a container that requests no CPU and has no limit, in thousandths of a
    /// CPU.
    pub default_milli_cpu: i64,
    /// Predicted usage of a container without limit, in proportion to its request.
    pub default_requests_multiplier: f64,
}

impl Default for LoadAwareArgs {
    fn default() -> Self {
        Self {
            target_utilization: 40,
            maximum_age_seconds: 300,
            poll_interval_seconds: 30,
            default_milli_cpu: 1000,
            default_requests_multiplier: 1.5,
        }
    }
}

/// The arguments as the plugin uses them: whole numbers, so that scores are the same on every
/// machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) target_utilization: i64,
    pub(super) maximum_age: Duration,
    pub(super) poll_interval: Duration,
    pub(super) default_milli_cpu: i64,
    /// In thousandths.
    pub(super) multiplier: i64,
}

impl LoadAwareArgs {
    /// Checks the arguments and converts them.
    pub(super) fn settings(&self) -> Result<Settings, String> {
        let mut faults = Vec::new();
        if !(1..=99).contains(&self.target_utilization) {
            let got = self.target_utilization;
            faults.push(format!("targetUtilization: must be from 1 to 99, got {got}"));
        }
        let positive = [
            ("maximumAgeSeconds", self.maximum_age_seconds),
            ("pollIntervalSeconds", self.poll_interval_seconds),
        ];
        for (field, seconds) in positive {
            if seconds == 0 {
                faults.push(format!("{field}: must be at least 1, got 0"));
            }
        }
        if self.default_milli_cpu < 0 {
            let got = self.default_milli_cpu;
            faults.push(format!("defaultMilliCpu: must be at least 0, got {got}"));
        }
        if !(1.0..=100.0).contains(&self.default_requests_multiplier) {
            let got = self.default_requests_multiplier;
            faults.push(format!("defaultRequestsMultiplier: must be from 1 to 100, got {got}"));
        }
        if !faults.is_empty() {
            return Err(faults.join("; "));
        }
        Ok(Settings {
            target_utilization: self.target_utilization,
            maximum_age: Duration::from_secs(self.maximum_age_seconds),
            poll_interval: Duration::from_secs(self.poll_interval_seconds),
            default_milli_cpu: self.default_milli_cpu,
            multiplier: (self.default_requests_multiplier * 1000.0).round() as i64,
        })
    }
}
