//! Deprecated flags; the configuration file replaces them.

use crate::config::{Configuration, Duration, Float};

use super::go;

/// Flags for a start without a configuration file.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Without a configuration file")]
pub(super) struct Deprecated {
    /// Kubeconfig of the API server; also used if the configuration file names none
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,

    /// Requests per second to the API server; negative for no limit
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    kube_api_qps: Option<f32>,

    /// Burst of requests to the API server
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    kube_api_burst: Option<i32>,

    /// Content type of requests to the API server
    #[arg(long, value_name = "TYPE")]
    kube_api_content_type: Option<String>,

    /// Whether the log level can be changed at /debug/flags/v
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_missing_value = "true")]
    profiling: Option<bool>,

    /// Whether contended locks are profiled
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_missing_value = "true")]
    contention_profiling: Option<bool>,

    /// Time after which an unschedulable pod is tried again without an event
    #[arg(long, value_name = "DURATION", default_value = "5m0s")]
    pub(super) pod_max_in_unschedulable_pods_duration: Duration,
}

impl Deprecated {
    /// Returns the kubeconfig, if one is given.
    pub(super) fn kubeconfig(&self) -> Option<String> {
        self.kubeconfig.clone().filter(|file| !file.is_empty())
    }

    /// Applies the given flags to the configuration.
    pub(super) fn apply(&self, config: &mut Configuration) {
        let client = &mut config.client_connection;
        set(&mut client.kubeconfig, self.kubeconfig.clone());
        set(&mut client.qps, self.kube_api_qps.map(Float));
        set(&mut client.burst, self.kube_api_burst);
        set(&mut client.content_type, self.kube_api_content_type.clone());
        set(&mut config.enable_profiling, self.profiling);
        set(&mut config.enable_contention_profiling, self.contention_profiling);
    }

    /// Returns the given flags that a configuration file overrides.
    pub(super) fn given(&self) -> impl Iterator<Item = &'static str> {
        let flags = [
            ("kube-api-qps", self.kube_api_qps.is_some()),
            ("kube-api-burst", self.kube_api_burst.is_some()),
            ("kube-api-content-type", self.kube_api_content_type.is_some()),
            ("profiling", self.profiling.is_some()),
            ("contention-profiling", self.contention_profiling.is_some()),
        ];
        flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag)
    }
}

/// Replaces a setting by a given value.
pub(super) fn set<T>(setting: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *setting = given;
    }
}
