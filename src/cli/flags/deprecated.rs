//! Flags that the file has a better place for.

use crate::config::{Configuration, Duration, Float};

use super::go;

/// Flags for those who have no file.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Without a configuration file")]
pub(super) struct Deprecated {
    /// Kubeconfig to reach the API server with; also for a file that names none
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,

    /// Requests a second to the API server; negative for no limit
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    kube_api_qps: Option<f32>,

    /// Requests at once to the API server
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

    /// How long a pod waits for an event before it is tried again without one
    #[arg(long, value_name = "DURATION", default_value = "5m0s")]
    pub(super) pod_max_in_unschedulable_pods_duration: Duration,
}

impl Deprecated {
    /// The kubeconfig, if one is named.
    pub(super) fn kubeconfig(&self) -> Option<String> {
        self.kubeconfig.clone().filter(|file| !file.is_empty())
    }

    /// Changes what was given on the command line.
    pub(super) fn apply(&self, config: &mut Configuration) {
        let client = &mut config.client_connection;
        set(&mut client.kubeconfig, self.kubeconfig.clone());
        set(&mut client.qps, self.kube_api_qps.map(Float));
        set(&mut client.burst, self.kube_api_burst);
        set(&mut client.content_type, self.kube_api_content_type.clone());
        set(&mut config.enable_profiling, self.profiling);
        set(&mut config.enable_contention_profiling, self.contention_profiling);
    }

    /// Flags on the command line that do nothing beside a file.
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

/// Replaces a setting by what was given.
pub(super) fn set<T>(setting: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *setting = given;
    }
}
