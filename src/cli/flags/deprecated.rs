//! Deprecated flags; the configuration file replaces them.

use crate::config::{Configuration, Duration, Float};

use super::go;
use super::values::Values;

/// The deprecated flags that have no effect beside a configuration file.
pub(super) const REPLACED: [&str; 5] = [
    "kube-api-qps",
    "kube-api-burst",
    "kube-api-content-type",
    "profiling",
    "contention-profiling",
];

/// Flags for a start without a configuration file.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Deprecated")]
pub(super) struct Deprecated {
    /// Kubeconfig of the API server; also used if the configuration file names none
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    kubeconfig: String,

    /// Requests per second to the API server; negative for no limit
    #[arg(long, value_name = "N", value_parser = go::float32, default_value = "50",
        allow_negative_numbers = true)]
    kube_api_qps: f32,

    /// Burst of requests to the API server
    #[arg(long, value_name = "N", value_parser = go::int32, default_value = "100",
        allow_negative_numbers = true)]
    kube_api_burst: i32,

    /// Content type in which nodes and pods are read from the API server; anything else is JSON
    #[arg(long, value_name = "TYPE", default_value = "application/vnd.kubernetes.protobuf")]
    kube_api_content_type: String,

    /// Whether /debug/pprof/ and /debug/flags/v are served
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_value = "true", default_missing_value = "true")]
    profiling: bool,

    /// Whether contended locks are profiled; accepted without effect
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_value = "true", default_missing_value = "true")]
    contention_profiling: bool,

    /// Flag of vendors; accepted without effect
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_value = "false", default_missing_value = "true")]
    unsupported_kube_api_over_localhost: bool,

    /// Time after which an unschedulable pod is tried again without an event
    #[arg(long, value_name = "DURATION", default_value = "5m0s")]
    pub(super) pod_max_in_unschedulable_pods_duration: Duration,
}

impl Deprecated {
    /// Returns a warning if a flag is set that changes nothing.
    pub(super) fn warning(&self) -> Option<String> {
        self.unsupported_kube_api_over_localhost.then(|| {
            "--unsupported-kube-api-over-localhost has no effect: the address of the API server is that of the kubeconfig"
                .to_owned()
        })
    }

    /// Returns the kubeconfig, if one is given.
    pub(super) fn kubeconfig(&self) -> Option<String> {
        Some(self.kubeconfig.clone()).filter(|file| !file.is_empty())
    }

    /// Applies the flags on the command line to the configuration.
    pub(super) fn apply(&self, values: &Values, config: &mut Configuration) {
        let client = &mut config.client_connection;
        values.set("kubeconfig", &mut client.kubeconfig, self.kubeconfig.clone());
        values.set("kube-api-qps", &mut client.qps, Float(self.kube_api_qps));
        values.set("kube-api-burst", &mut client.burst, self.kube_api_burst);
        let content_type = self.kube_api_content_type.clone();
        values.set("kube-api-content-type", &mut client.content_type, content_type);
        values.set("profiling", &mut config.enable_profiling, self.profiling);
        let contention = &mut config.enable_contention_profiling;
        values.set("contention-profiling", contention, self.contention_profiling);
    }
}
