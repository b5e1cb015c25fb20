//! `kubescheduler.config.k8s.io/v1` as it is written: absent is told apart from given, except where
//! kube-scheduler takes an empty or zero value for absent too.

use engine::profile::{PluginRef, PluginSet, PluginSets};
use framework::ExtensionPoint;
use serde::Serialize;

use super::args::Arguments;
use super::decode::{Float, record};
use super::duration::Duration;
use super::raw::{Base64, Raw};

record! {
    /// The whole configuration.
    pub struct KubeSchedulerConfiguration = "v1" "KubeSchedulerConfiguration" {
        /// How many goroutines work on one attempt.
        "parallelism" => parallelism: Option<i32>,
        /// Which of several schedulers is active.
        "leaderElection" => leader_election: LeaderElection,
        /// How the API server is reached.
        "clientConnection" => client_connection: ClientConnection,
        /// Whether profiles can be taken over HTTP.
        "enableProfiling" => enable_profiling: Option<bool>,
        /// Whether they can be taken of contended locks.
        "enableContentionProfiling" => enable_contention_profiling: Option<bool>,
        /// How many percent of the nodes are looked at.
        "percentageOfNodesToScore" => percentage_of_nodes_to_score: Option<i32>,
        /// Backoff after the first failure.
        "podInitialBackoffSeconds" => pod_initial_backoff_seconds: Option<i64>,
        /// Longest backoff.
        "podMaxBackoffSeconds" => pod_max_backoff_seconds: Option<i64>,
        /// Profiles.
        "profiles" => profiles: Vec<Profile>,
        /// Extenders.
        "extenders" => extenders: Vec<Extender>,
        /// Whether a standby waits with filling its cache.
        "delayCacheUntilActive" => delay_cache_until_active: bool,
    }
}

record! {
    /// Leader election; what is empty or zero gets its default.
    pub struct LeaderElection = "v1alpha1" "LeaderElectionConfiguration" {
        /// Whether there is an election at all.
        "leaderElect" => leader_elect: Option<bool>,
        /// After what time without renewal others may take over.
        "leaseDuration" => lease_duration: Duration,
        /// For how long the leader tries to renew.
        "renewDeadline" => renew_deadline: Duration,
        /// How long to wait between tries.
        "retryPeriod" => retry_period: Duration,
        /// The kind of object used.
        "resourceLock" => resource_lock: String,
        /// Its name.
        "resourceName" => resource_name: String,
        /// Its namespace.
        "resourceNamespace" => resource_namespace: String,
    }
}

record! {
    /// The connection to the API server; what is empty or zero gets its default.
    pub struct ClientConnection = "v1alpha1" "ClientConnectionConfiguration" {
        /// Path of a kubeconfig; empty inside a cluster.
        "kubeconfig" => kubeconfig: String,
        /// What responses are accepted.
        "acceptContentTypes" => accept_content_types: String,
        /// What requests are sent as.
        "contentType" => content_type: String,
        /// Requests a second; negative for no limit.
        "qps" => qps: Float,
        /// Requests at once.
        "burst" => burst: i32,
    }
}

record! {
    /// One entry of `profiles`.
    pub struct Profile = "v1" "KubeSchedulerProfile" {
        /// Pods choose the profile by this name.
        "schedulerName" => scheduler_name: Option<String>,
        /// How many percent of the nodes are looked at; wins over the global setting.
        "percentageOfNodesToScore" => percentage_of_nodes_to_score: Option<i32>,
        /// Changes to the default plugins.
        "plugins" => plugins: Option<Plugins>,
        /// Arguments of plugins.
        "pluginConfig" => plugin_config: Vec<PluginConfig>,
    }
}

record! {
    /// Plugins switched on and off, by extension point.
    pub struct Plugins = "v1" "Plugins" {
        /// At this point.
        "preEnqueue" => pre_enqueue: Set,
        /// At this point.
        "queueSort" => queue_sort: Set,
        /// At this point.
        "preFilter" => pre_filter: Set,
        /// At this point.
        "filter" => filter: Set,
        /// At this point.
        "postFilter" => post_filter: Set,
        /// At this point.
        "preScore" => pre_score: Set,
        /// At this point.
        "score" => score: Set,
        /// At this point.
        "reserve" => reserve: Set,
        /// At this point.
        "permit" => permit: Set,
        /// At this point.
        "preBind" => pre_bind: Set,
        /// At this point.
        "bind" => bind: Set,
        /// At this point.
        "postBind" => post_bind: Set,
        /// At this point.
        "placementGenerate" => placement_generate: Set,
        /// At this point.
        "placementScore" => placement_score: Set,
        /// At every point they implement.
        "multiPoint" => multi_point: Set,
    }
}

impl Plugins {
    /// The same for the engine.
    pub fn to_sets(&self) -> PluginSets {
        let mut sets = PluginSets { multi_point: self.multi_point.to_set(), ..Default::default() };
        for point in ExtensionPoint::ALL {
            *sets.at_mut(point) = self.at(point).to_set();
        }
        sets
    }

    const fn at(&self, point: ExtensionPoint) -> &Set {
        match point {
            ExtensionPoint::PreEnqueue => &self.pre_enqueue,
            ExtensionPoint::QueueSort => &self.queue_sort,
            ExtensionPoint::PreFilter => &self.pre_filter,
            ExtensionPoint::Filter => &self.filter,
            ExtensionPoint::PostFilter => &self.post_filter,
            ExtensionPoint::PreScore => &self.pre_score,
            ExtensionPoint::Score => &self.score,
            ExtensionPoint::Reserve => &self.reserve,
            ExtensionPoint::Permit => &self.permit,
            ExtensionPoint::PreBind => &self.pre_bind,
            ExtensionPoint::Bind => &self.bind,
            ExtensionPoint::PostBind => &self.post_bind,
            ExtensionPoint::PlacementGenerate => &self.placement_generate,
            ExtensionPoint::PlacementScore => &self.placement_score,
        }
    }
}

record! {
    /// Plugins switched on and off.
    pub struct Set = "v1" "PluginSet" {
        /// Switched on, in order.
        "enabled" => enabled: Vec<Plugin>,
        /// Switched off; `*` stands for all defaults.
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
        /// Its name.
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
    /// Its arguments as written, to be decoded once its name is known.
    #[serde(skip)]
    pub(super) raw: Raw,
    /// Its arguments.
    pub args: Option<Arguments>,
}

record!(PluginConfig = "v1" "PluginConfig" {
    "name" => name,
    "args" => raw,
});

record! {
    /// A webhook that is asked in every attempt.
    pub struct Extender = "v1" "Extender" {
        /// Its address, up to the verb.
        "urlPrefix" => url_prefix: String,
        /// Verb for filtering; empty if it does not filter.
        #[serde(skip_serializing_if = "String::is_empty")]
        "filterVerb" => filter_verb: String,
        /// Verb for preemption; empty if it has no say in it.
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
        /// Whether it is reached by TLS.
        #[serde(skip_serializing_if = "is_default")]
        "enableHTTPS" => enable_https: bool,
        /// How.
        #[serde(skip_serializing_if = "Option::is_none")]
        "tlsConfig" => tls_config: Option<TlsConfig>,
        /// How long a call may take; 0 counts as five seconds.
        "httpTimeout" => http_timeout: Duration,
        /// Whether it has the nodes itself, so that their names are enough.
        #[serde(skip_serializing_if = "is_default")]
        "nodeCacheCapable" => node_cache_capable: bool,
        /// Resources it manages; it is asked only about pods that request one.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        "managedResources" => managed_resources: Vec<ManagedResource>,
        /// Whether its errors are passed over.
        #[serde(skip_serializing_if = "is_default")]
        "ignorable" => ignorable: bool,
    }
}

record! {
    /// A resource that an extender manages.
    pub struct ManagedResource = "v1" "ExtenderManagedResource" {
        /// Its name.
        "name" => name: String,
        /// Whether the scheduler itself looks past it.
        #[serde(skip_serializing_if = "is_default")]
        "ignoredByScheduler" => ignored_by_scheduler: bool,
    }
}

record! {
    /// TLS towards an extender; data goes before files.
    pub struct TlsConfig = "v1" "ExtenderTLSConfig" {
        /// Whether the certificate is not checked.
        #[serde(skip_serializing_if = "is_default")]
        "insecure" => insecure: bool,
        /// The name in the certificate, where it is not that of the address.
        #[serde(skip_serializing_if = "String::is_empty")]
        "serverName" => server_name: String,
        /// Path of the own certificate.
        #[serde(skip_serializing_if = "String::is_empty")]
        "certFile" => cert_file: String,
        /// Path of the own key.
        #[serde(skip_serializing_if = "String::is_empty")]
        "keyFile" => key_file: String,
        /// Path of the authorities' certificates.
        #[serde(skip_serializing_if = "String::is_empty")]
        "caFile" => ca_file: String,
        /// The own certificate.
        #[serde(skip_serializing_if = "Base64::is_empty")]
        "certData" => cert_data: Base64,
        /// The own key.
        #[serde(skip_serializing_if = "Base64::is_empty")]
        "keyData" => key_data: Base64,
        /// The authorities' certificates.
        #[serde(skip_serializing_if = "Base64::is_empty")]
        "caData" => ca_data: Base64,
    }
}

/// Whether a value is the one of its type that is not written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
