//! The command line of kube-scheduler 1.36.
//!
//! Every flag parses, so manifests written for kube-scheduler start Loadmaster unchanged. A warning
//! names each given flag that has no effect ([`Flags::warnings`]).

mod authentication;
mod authorization;
mod deprecated;
mod gates;
mod go;
mod label_limits;
mod leader_election;
mod logs;
mod metrics;
mod record_limit;
mod serving;
#[cfg(test)]
mod tests;
mod values;
mod versions;

use std::ffi::OsString;
use std::path::PathBuf;

use framework::Level;

pub(crate) use authentication::AuthenticationFlags;
pub(crate) use authorization::AuthorizationFlags;
pub(crate) use leader_election::LeaderElectionFlags;
pub(crate) use logs::LogFlags;
pub(crate) use metrics::MetricsFlags;
pub(crate) use serving::ServingFlags;
pub(crate) use versions::{VersionFlags, VersionRequest};

use crate::config::{Configuration, Duration, Gates};
use crate::recorder::RecordingOptions;
use crate::traces::{TracingConfiguration, TracingError};
use deprecated::Deprecated;
use gates::GateSetting;
use record_limit::RecordLimit;
use values::Values;

/// The flags of kube-scheduler, and the flags of Loadmaster itself.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Misc")]
pub(crate) struct Flags {
    #[command(flatten)]
    values: Values,

    /// KubeSchedulerConfiguration with profiles, leader election and client settings
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Schedules over the member clusters of this SuperclusterConfiguration, through their agents
    #[arg(long, value_name = "FILE")]
    pub clusters: Option<PathBuf>,

    /// Strategies, plugins and conflict checks of an agent (AgentConfiguration)
    #[arg(long, value_name = "FILE")]
    pub agent_config: Option<PathBuf>,

    /// URL of the API server; overrides the kubeconfig
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,

    /// Writes the configuration in effect to this file and exits
    #[arg(long, value_name = "FILE")]
    pub write_config_to: Option<PathBuf>,

    /// Feature gates, as `Name=true,Other=false`; may be repeated
    #[arg(long, value_name = "GATES", value_delimiter = ',')]
    feature_gates: Vec<GateSetting>,

    /// Samples nodes like kube-scheduler does by default, instead of considering all of them
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_value = "false", default_missing_value = "true")]
    pub adaptive_sampling: bool,

    /// Longest pause of preemption after preemptions that led to no binding; `0s` for no pauses
    #[arg(long, value_name = "DURATION", default_value = "5m0s")]
    pub longest_preemption_pause: Duration,

    /// Looks at every node in every attempt, instead of keeping rankings of the nodes
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_value = "false", default_missing_value = "true")]
    pub no_rankings: bool,

    /// Records what enters and leaves the scheduler in this directory, for `loadmaster replay`
    #[arg(long, value_name = "DIR", value_parser = go::path)]
    record: Option<PathBuf>,

    /// Maximum size of the recordings in that directory; the oldest files are removed
    #[arg(long, value_name = "SIZE", default_value = "2Gi")]
    record_limit: RecordLimit,

    /// Fences every pending pod before the first decision after a crash, which takes as long as the
    /// backlog is
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_value = "false", default_missing_value = "true")]
    pub strict_takeover: bool,

    /// Sends traces of pods to the collector of this TracingConfiguration
    #[arg(long, value_name = "FILE", value_parser = go::path)]
    tracing_config_file: Option<PathBuf>,

    /// Answers at /whatif/ what a change of the cluster would do to its pods
    #[arg(long = "whatif", value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_value = "false", default_missing_value = "true")]
    pub what_if: bool,

    /// Schedules each pod that belongs to a PodGroup by itself, instead of gating it
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_value = "false", default_missing_value = "true")]
    schedule_group_members_alone: bool,

    /// Prints the version and exits; `raw` prints more
    #[arg(long, value_name = "BOOL|raw", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true")]
    pub version: VersionRequest,

    #[command(flatten)]
    versions: VersionFlags,

    #[command(flatten)]
    deprecated: Deprecated,

    /// Flags of the endpoints.
    #[command(flatten)]
    pub serving: ServingFlags,

    /// Flags of the authentication of callers.
    #[command(flatten)]
    pub authentication: AuthenticationFlags,

    /// Flags of the authorization of callers.
    #[command(flatten)]
    pub authorization: AuthorizationFlags,

    /// Flags that override the leader election of the configuration file.
    #[command(flatten)]
    pub leader_election: LeaderElectionFlags,

    /// Flags of the log.
    #[command(flatten)]
    pub logs: LogFlags,

    /// Flags of the metrics.
    #[command(flatten)]
    pub metrics: MetricsFlags,
}

impl Flags {
    /// Returns the version of Kubernetes to behave like, if it is given.
    ///
    /// # Errors
    /// A version that is not built or not valid.
    pub(crate) fn level(&self) -> anyhow::Result<Option<Level>> {
        Ok(self.versions.level()?)
    }

    /// Returns the feature gates at a level.
    ///
    /// # Errors
    /// A gate that does not exist or cannot be set, or an oldest compatible version that does not
    /// go with the level.
    pub(crate) fn gates(&self, level: Level) -> anyhow::Result<Gates> {
        let gates = self.versions.gates(level)?;
        let gates = gates.with_flags(self.feature_gates.iter().map(GateSetting::as_str))?;
        Ok(gates.with_group_members_alone(self.schedule_group_members_alone))
    }

    /// Returns every flag with its value in the notation of Go, sorted by name.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter()
    }

    /// Time after which an unschedulable pod is tried again without an event.
    pub(crate) fn max_in_unschedulable(&self) -> Duration {
        self.deprecated.pod_max_in_unschedulable_pods_duration
    }

    /// Applies the flags to a configuration. Flags of leader election override the file; deprecated
    /// flags apply only without a file.
    ///
    /// Unlike in kube-scheduler, `--kubeconfig` also applies if the file names no kubeconfig.
    pub(crate) fn apply(&self, config: &mut Configuration) {
        if self.config.is_none() {
            self.deprecated.apply(&self.values, config);
        } else if let Some(kubeconfig) = self.deprecated.kubeconfig()
            && config.client_connection.kubeconfig.is_empty()
        {
            config.client_connection.kubeconfig = kubeconfig;
        }
        self.leader_election.apply(&self.values, &mut config.leader_election);
    }

    /// Returns where to record, if anywhere.
    pub(crate) fn recording(&self) -> Option<RecordingOptions> {
        Some(RecordingOptions {
            directory: go::given(self.record.as_ref())?,
            limit: self.record_limit.bytes(),
            feature_gates: self.feature_gates.iter().map(|gate| gate.as_str().to_owned()).collect(),
        })
    }

    /// Returns which pods are traced and where their traces go, if any.
    ///
    /// # Errors
    /// The file cannot be read, or is not valid.
    pub(crate) fn tracing(&self) -> Result<Option<TracingConfiguration>, TracingError> {
        go::given(self.tracing_config_file.as_ref())
            .map(|path| TracingConfiguration::read(&path))
            .transpose()
    }

    /// Returns a warning for each flag without effect, with the reason.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let replaced = deprecated::REPLACED.into_iter();
        let ignored = replaced.filter(|flag| self.config.is_some() && self.values.is_given(flag));
        let ignored = ignored.map(|flag| {
            format!("--{flag} has no effect: --config is given, set it in that file instead")
        });
        ignored.chain(self.deprecated.warning()).collect()
    }
}

/// Replaces underscores in the names of flags by dashes: `--leader_elect` becomes `--leader-elect`.
pub(crate) fn with_dashes(
    args: impl IntoIterator<Item = OsString>,
) -> impl Iterator<Item = OsString> {
    args.into_iter().map(|arg| match arg.to_str() {
        Some(text) if text.starts_with("--") => {
            let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
            format!("{}{value}", name.replace('_', "-")).into()
        }
        _ => arg,
    })
}
