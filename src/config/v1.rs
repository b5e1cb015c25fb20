//! `kubescheduler.config.k8s.io/v1` as written. Absent values are distinguished from given ones,
//! except where kube-scheduler treats an empty or zero value as absent.

use engine::profile::{PluginRef, PluginSet, PluginSets};
use framework::extension_points;
use serde::Serialize;

use super::args::Arguments;
use super::decode::{Float, record};
use super::duration::Duration;
use super::raw::{Base64, Raw};

record! {
    /// The whole configuration.
    pub struct KubeSchedulerConfiguration = "v1" "KubeSchedulerConfiguration" {
        /// Number of goroutines for one attempt.
        "parallelism" => parallelism: Option<i32>,
        /// Leader election.
        "leaderElection" => leader_election: LeaderElection,
        /// Connection to the API server.
        "clientConnection" => client_connection: ClientConnection,
        /// Whether profiling over HTTP is on.
        "enableProfiling" => enable_profiling: Option<bool>,
        /// Whether profiling of contended locks is on.
        "enableContentionProfiling" => enable_contention_profiling: Option<bool>,
        /// Share of nodes to score, in percent.
        "percentageOfNodesToScore" => percentage_of_nodes_to_score: Option<i32>,
        /// Backoff after the first failure.
        "podInitialBackoffSeconds" => pod_initial_backoff_seconds: Option<i64>,
        /// Longest backoff.
        "podMaxBackoffSeconds" => pod_max_backoff_seconds: Option<i64>,
        /// Profiles.
        "profiles" => profiles: Vec<Profile>,
        /// Extenders.
        "extenders" => extenders: Vec<Extender>,
        /// Whether a standby delays filling its cache.
        "delayCacheUntilActive" => delay_cache_until_active: bool,
    }
}

record! {
    /// Leader election; an empty or zero value gets its default.
    pub struct LeaderElection = "v1alpha1" "LeaderElectionConfiguration" {
        /// Whether there is an election.
        "leaderElect" => leader_elect: Option<bool>,
        /// Time without renewal after which another replica may take over.
        "leaseDuration" => lease_duration: Duration,
        /// Time for which the leader tries to renew.
        "renewDeadline" => renew_deadline: Duration,
        /// Time between tries.
        "retryPeriod" => retry_period: Duration,
        /// Kind of the lock object.
        "resourceLock" => resource_lock: String,
        /// Name of the lock object.
        "resourceName" => resource_name: String,
        /// Namespace of the lock object.
        "resourceNamespace" => resource_namespace: String,
    }
}

record! {
    /// Connection to the API server; an empty or zero value gets its default.
    pub struct ClientConnection = "v1alpha1" "ClientConnectionConfiguration" {
        /// Path of a kubeconfig; empty inside a cluster.
        "kubeconfig" => kubeconfig: String,
        /// Accepted content types of responses.
        "acceptContentTypes" => accept_content_types: String,
        /// Content type of requests.
        "contentType" => content_type: String,
        /// Requests per second; negative for no limit.
        "qps" => qps: Float,
        /// Burst of requests.
        "burst" => burst: i32,
    }
}

record! {
    /// One entry of `profiles`.
    pub struct Profile = "v1" "KubeSchedulerProfile" {
        /// Scheduler name by which pods select the profile.
        "schedulerName" => scheduler_name: Option<String>,
        /// Share of nodes to score, in percent; overrides the global setting.
        "percentageOfNodesToScore" => percentage_of_nodes_to_score: Option<i32>,
        /// Changes to the default plugins.
        "plugins" => plugins: Option<Plugins>,
        /// Arguments of plugins.
        "pluginConfig" => plugin_config: Vec<PluginConfig>,
    }
}

macro_rules! plugins {
    (attempt { $($attempt:tt)* } group { $($group:tt)* } $($beside:tt)*) => {
        plugins! { $($attempt)* $($group)* }
    };
    ($($(#[$doc:meta])* $point:ident, $field:ident, $key:literal;)*) => {
        record! {
            /// Enabled and disabled plugins, by extension point.
            pub struct Plugins = "v1" "Plugins" {
                $($(#[$doc])* $key => $field: Set,)*
                /// At every extension point that the plugin implements.
                "multiPoint" => multi_point: Set,
            }
        }

        impl Plugins {
            /// Converts to the form of the engine.
            pub fn to_sets(&self) -> PluginSets {
                PluginSets {
                    $($field: self.$field.to_set(),)*
                    multi_point: self.multi_point.to_set(),
                }
            }
        }
    };
}

extension_points!(plugins);

record! {
    /// Enabled and disabled plugins.
    pub struct Set = "v1" "PluginSet" {
        /// Enabled plugins, in order.
        "enabled" => enabled: Vec<Plugin>,
        /// Disabled plugins; `*` stands for all defaults.
        "disabled" => disabled: Vec<Plugin>,
    }
}

impl Set {
    fn to_set(&self) -> PluginSet {
        let plugins =
            |plugins: &[Plugin]| plugins.iter().map(Plugin::to_ref).collect::<Vec<PluginRef>>();
        PluginSet { enabled: plugins(&self.enabled), disabled: plugins(&self.disabled) }
    }
}

record! {
    /// A plugin by name.
    pub struct Plugin = "v1" "Plugin" {
        /// Plugin name.
        "name" => name: String,
        /// Weight of its scores.
        "weight" => weight: Option<i32>,
    }
}

impl Plugin {
    fn to_ref(&self) -> PluginRef {
        PluginRef::new(&self.name, self.weight.unwrap_or_default())
    }
}

/// Arguments of one plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PluginConfig {
    /// Plugin name.
    pub name: String,
    /// Arguments as written, decoded once the plugin is known.
    #[serde(skip)]
    pub(super) raw: Raw,
    /// Decoded arguments.
    pub args: Option<Arguments>,
}

record!(PluginConfig = "v1" "PluginConfig" {
    "name" => name,
    "args" => raw,
});

record! {
    /// A webhook that is called in every attempt.
    pub struct Extender = "v1" "Extender" {
        /// Its address without the verb.
        "urlPrefix" => url_prefix: String,
        /// Verb for filtering; empty if it does not filter.
        #[serde(skip_serializing_if = "String::is_empty")]
        "filterVerb" => filter_verb: String,
        /// Verb for preemption; empty if it does not take part in it.
        #[serde(skip_serializing_if = "String::is_empty")]
        "preemptVerb" => preempt_verb: String,
        /// Verb for scoring; empty if it does not score.
        #[serde(skip_serializing_if = "String::is_empty")]
        "prioritizeVerb" => prioritize_verb: String,
        /// Weight of its scores.
        #[serde(skip_serializing_if = "is_default")]
        "weight" => weight: i64,
        /// Verb for binding; empty if it does not bind.
        #[serde(skip_serializing_if = "String::is_empty")]
        "bindVerb" => bind_verb: String,
        /// Whether calls use TLS.
        #[serde(skip_serializing_if = "is_default")]
        "enableHTTPS" => enable_https: bool,
        /// TLS settings.
        #[serde(skip_serializing_if = "Option::is_none")]
        "tlsConfig" => tls_config: Option<TlsConfig>,
        /// Time limit of a call; 0 counts as five seconds.
        "httpTimeout" => http_timeout: Duration,
        /// Whether the extender caches nodes, so that calls carry names only.
        #[serde(skip_serializing_if = "is_default")]
        "nodeCacheCapable" => node_cache_capable: bool,
        /// Resources that the extender manages; it is called only for pods that request one of
        /// them.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        "managedResources" => managed_resources: Vec<ManagedResource>,
        /// Whether its errors are ignored.
        #[serde(skip_serializing_if = "is_default")]
        "ignorable" => ignorable: bool,
    }
}

record! {
    /// A resource that an extender manages.
    pub struct ManagedResource = "v1" "ExtenderManagedResource" {
        /// Name of the resource.
        "name" => name: String,
        /// Whether the scheduler itself ignores the resource.
        #[serde(skip_serializing_if = "is_default")]
        "ignoredByScheduler" => ignored_by_scheduler: bool,
    }
}

record! {
    /// TLS to an extender; data takes precedence over files.
    pub struct TlsConfig = "v1" "ExtenderTLSConfig" {
        /// Whether the certificate is not verified.
        #[serde(skip_serializing_if = "is_default")]
        "insecure" => insecure: bool,
        /// The name in the certificate, if it differs from the host of the address.
        #[serde(skip_serializing_if = "String::is_empty")]
        "serverName" => server_name: String,
        /// Path of the client certificate.
        #[serde(skip_serializing_if = "String::is_empty")]
        "certFile" => cert_file: String,
        /// Path of the client key.
        #[serde(skip_serializing_if = "String::is_empty")]
        "keyFile" => key_file: String,
        /// Path of the CA certificates.
        #[serde(skip_serializing_if = "String::is_empty")]
        "caFile" => ca_file: String,
        /// The client certificate.
        #[serde(skip_serializing_if = "Base64::is_empty")]
        "certData" => cert_data: Base64,
        /// The client key.
        #[serde(skip_serializing_if = "Base64::is_empty")]
        "keyData" => key_data: Base64,
        /// The CA certificates.
        #[serde(skip_serializing_if = "Base64::is_empty")]
        "caData" => ca_data: Base64,
    }
}

/// Whether a value equals the default that is not serialized.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
