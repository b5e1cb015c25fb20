//! The configuration with every default filled in.

use engine::profile::{PluginRef, PluginSet, PluginSets};
use framework::{ExtensionPoint, PluginGates};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::args::Arguments;
use super::decode::Float;
use super::duration::Duration;
use super::redact::without_user;
use super::scheme::{API_VERSION, KIND};
use super::v1::{ClientConnection, Extender};

/// The configuration of the scheduler; it serializes as kube-scheduler writes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// Number of threads for one attempt.
    pub parallelism: i32,
    /// Leader election.
    pub leader_election: LeaderElection,
    /// Connection to the API server.
    pub client_connection: ClientConnection,
    /// Whether profiling over HTTP is on.
    pub enable_profiling: bool,
    /// Whether profiling of contended locks is on.
    pub enable_contention_profiling: bool,
    /// Share of nodes to score, in percent.
    pub percentage_of_nodes_to_score: i32,
    /// Backoff after the first failure.
    pub pod_initial_backoff_seconds: i64,
    /// Longest backoff.
    pub pod_max_backoff_seconds: i64,
    /// Profiles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Profile>,
    /// Extenders, as configured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extenders: Vec<Extender>,
    /// Whether a standby delays filling its cache.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub delay_cache_until_active: bool,
    /// The minor version of the oldest Kubernetes to be compatible with, which the document does
    /// not have.
    #[serde(skip)]
    pub min_compatibility: u32,
    /// The feature gates of plugins, which the document does not have.
    #[serde(skip)]
    pub plugin_gates: PluginGates,
}

impl Configuration {
    /// The configuration as a document, with kind and version.
    pub fn to_value(&self) -> Value {
        let mut document = serde_json::to_value(self).unwrap_or_default();
        document["apiVersion"] = json!(API_VERSION);
        document["kind"] = json!(KIND);
        document
    }

    /// Returns a note that names the extenders, for an answer that does not call them; `None`
    /// without extenders.
    pub fn extenders_not_asked(&self) -> Option<String> {
        let names = self.extenders.iter().map(|extender| without_user(extender.url_prefix.clone()));
        let names: Vec<_> = names.collect();
        (!names.is_empty()).then(|| format!("extenders were not asked: {}", names.join(", ")))
    }

    /// Returns the addresses of the extenders that bind pods.
    pub fn extenders_that_bind(&self) -> Vec<String> {
        let binders = self.extenders.iter().filter(|extender| !extender.bind_verb.is_empty());
        binders.map(|extender| without_user(extender.url_prefix.clone())).collect()
    }

    /// The maximum rate of requests per second and the burst; `None` for no limit.
    pub fn request_rate(&self) -> Option<(f32, u32)> {
        let ClientConnection { qps: Float(qps), burst, .. } = self.client_connection;
        (qps > 0.0).then(|| (qps, burst.try_into().unwrap_or(0)))
    }

    /// The media types to ask for, as client-go derives them.
    pub fn accept(&self) -> String {
        let ClientConnection { accept_content_types, content_type, .. } = &self.client_connection;
        match accept_content_types.as_str() {
            "" => format!("{content_type}, */*"),
            accepted => accepted.to_owned(),
        }
    }
}

/// Leader election.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderElection {
    /// Whether there is an election.
    pub leader_elect: bool,
    /// Time without renewal after which another replica may take over.
    pub lease_duration: Duration,
    /// Time for which the leader tries to renew.
    pub renew_deadline: Duration,
    /// Time between tries.
    pub retry_period: Duration,
    /// Kind of the lock object.
    pub resource_lock: String,
    /// Name of the lock object.
    pub resource_name: String,
    /// Namespace of the lock object.
    pub resource_namespace: String,
}

/// One profile, with the default plugins merged and arguments for every plugin that takes some.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// Scheduler name by which pods select the profile.
    pub scheduler_name: String,
    /// Share of nodes to score, in percent; overrides the global setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Plugins by extension point.
    #[serde(serialize_with = "written_sets")]
    pub plugins: PluginSets,
    /// Arguments of plugins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugin_config: Vec<PluginConfig>,
}

/// Arguments of one plugin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PluginConfig {
    /// Plugin name.
    pub name: String,
    /// The arguments; none for a plugin without a known kind for which none were given.
    pub args: Option<Arguments>,
}

impl Profile {
    /// Returns the arguments of a plugin.
    pub fn args_of(&self, plugin: &str) -> Option<&Arguments> {
        self.plugin_config.iter().find(|config| config.name == plugin)?.args.as_ref()
    }
}

/// Serializes all sets, also those without plugins.
fn written_sets<S: Serializer>(sets: &PluginSets, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for point in ExtensionPoint::ALL {
        let set = sets.at(point);
        // The point is new in 1.37.
        if point != ExtensionPoint::PodGroupPostFilter || *set != PluginSet::default() {
            map.serialize_entry(point.config_name(), &WrittenSet::of(set))?;
        }
    }
    map.serialize_entry("multiPoint", &WrittenSet::of(&sets.multi_point))?;
    map.end()
}

/// Serializes a set: without empty lists, with all weights.
#[derive(Serialize)]
struct WrittenSet<'a> {
    #[serde(skip_serializing_if = "<[PluginRef]>::is_empty")]
    enabled: &'a [PluginRef],
    #[serde(skip_serializing_if = "<[PluginRef]>::is_empty")]
    disabled: &'a [PluginRef],
}

impl<'a> WrittenSet<'a> {
    fn of(set: &'a PluginSet) -> Self {
        Self { enabled: &set.enabled, disabled: &set.disabled }
    }
}
