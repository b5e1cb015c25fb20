//! The file of `run --clusters`: the member clusters, and the settings of the decision pipeline.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framework::Labels;
use serde::Deserialize;
use supercluster::message::ALL_BASIS_POINTS;
use supercluster::registry::PipelineRegistry;
use supercluster::scheduler::plugins;
use supercluster::scheduler::{Cluster, SchedulerConfig, WeightedPlugin};

use super::super::file::{self, FileError, PluginEntry};
use super::copies::CopyPolicy;
use crate::api_client::ServerFiles;
use crate::config::Duration;

/// The file.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClustersFile {
    api_version: String,
    kind: String,
    /// Identifies this scheduler among several of one scheduler name.
    instance: Option<String>,
    /// The turn of this scheduler among several.
    turn: Option<Turn>,
    strategy: Option<String>,
    nodes_to_sample_bp: Option<u32>,
    clusters_to_sample_bp: Option<u32>,
    commit_candidates: Option<usize>,
    rounds: Option<u32>,
    max_in_flight: Option<usize>,
    sample_timeout: Option<String>,
    straggler_wait: Option<String>,
    commit_timeout: Option<String>,
    takeover_wait: Option<String>,
    /// Time after which the pods of a lost cluster are placed anew, unless they say otherwise;
    /// `never` without it.
    replace_after: Option<String>,
    decision_pipeline: Option<DecisionPipeline>,
    /// The Secrets and ConfigMaps that are copied to members.
    pub(super) copies: Option<CopyPolicy>,
    /// Where the list of members comes from, if it is not `clusters`.
    pub(super) cluster_profiles: Option<ProfileSource>,
    /// The members, or the connections of members that ClusterProfiles name.
    #[serde(default)]
    pub(super) clusters: Vec<Member>,
    /// The plugins of the decision pipeline.
    #[serde(skip)]
    plugins: Vec<WeightedPlugin>,
}

/// The turn of one of several schedulers.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Turn {
    index: u64,
    of: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DecisionPipeline {
    plugins: Vec<PluginEntry>,
}

/// The ClusterProfiles that list the members.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ProfileSource {
    /// Their namespace.
    pub(super) namespace: String,
    /// Selects some of them, in the notation of `kubectl -l`.
    label_selector: Option<String>,
    /// How agents are reached that `clusters` does not name; `{name}` in a path stands for the name
    /// of the cluster.
    pub(super) connection: Option<Connection>,
}

/// How the agents of ClusterProfiles are reached.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Connection {
    certificate_authority: PathBuf,
    tls_server_name: Option<String>,
    token_file: Option<PathBuf>,
    client_certificate: Option<PathBuf>,
    client_key: Option<PathBuf>,
}

impl Connection {
    /// Returns the member of this name whose agent has this URL.
    pub(super) fn member(&self, name: &str, server: &str) -> Member {
        let of = |path: &Path| PathBuf::from(path.to_string_lossy().replace("{name}", name));
        Member {
            name: name.to_owned(),
            server: server.to_owned(),
            certificate_authority: Some(of(&self.certificate_authority)),
            tls_server_name: self.tls_server_name.as_ref().map(|own| own.replace("{name}", name)),
            token_file: self.token_file.as_deref().map(of),
            client_certificate: self.client_certificate.as_deref().map(of),
            client_key: self.client_key.as_deref().map(of),
            labels: BTreeMap::new(),
            properties: BTreeMap::new(),
            drain: false,
            closed: None,
        }
    }
}

impl ProfileSource {
    fn check(&self) -> Result<(), String> {
        if !is_dns_name(&self.namespace) {
            return Err(format!("namespace: {:?} is no name of a namespace", self.namespace));
        }
        let Some(connection) = &self.connection else { return Ok(()) };
        let checked = connection.member("a", "https://a").check();
        checked.map_err(|text| format!("connection.{text}"))
    }

    /// Returns the path of their list.
    pub(super) fn path(&self) -> String {
        let collection = control::collection_path(
            "multicluster.x-k8s.io/v1alpha1",
            &self.namespace,
            "clusterprofiles",
        );
        match &self.label_selector {
            None => collection,
            Some(selector) => {
                let encoded = percent_encoding::utf8_percent_encode(
                    selector,
                    percent_encoding::NON_ALPHANUMERIC,
                );
                format!("{collection}?labelSelector={encoded}")
            }
        }
    }
}

fn is_dns_name(name: &str) -> bool {
    let is_inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    let has_ends = is_end(bytes.first()) && is_end(bytes.last());
    has_ends && bytes.iter().copied().all(is_inner) && !name.contains("..") && bytes.len() <= 200
}

/// A member cluster and how to reach its agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Member {
    /// A name, unique in the file.
    pub(super) name: String,
    /// URL of the agent.
    server: String,
    /// File with the authorities of its certificate, in PEM; without it, the authorities of the
    /// system.
    certificate_authority: Option<PathBuf>,
    /// The name in its certificate, if it is not the one in the URL.
    tls_server_name: Option<String>,
    /// File with the bearer token; it is read again when it changes.
    token_file: Option<PathBuf>,
    /// File with the client certificate, in PEM.
    client_certificate: Option<PathBuf>,
    /// File with its key, in PEM.
    client_key: Option<PathBuf>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) properties: BTreeMap<String, String>,
    /// Whether it takes no new pods, and pods that may be replaced move elsewhere.
    #[serde(default)]
    pub(super) drain: bool,
    /// Why it takes no new pods, if it is not drained.
    #[serde(skip)]
    pub(super) closed: Option<Arc<str>>,
}

impl ClustersFile {
    /// The kind of the file.
    pub(in super::super) const KIND: &'static str = "SuperclusterConfiguration";

    /// Reads the file, and makes its plugins.
    ///
    /// # Errors
    /// The file cannot be read, has a field that is unknown or not valid, or lists a cluster twice.
    pub fn read(path: &Path, registry: &PipelineRegistry) -> Result<Self, FileError> {
        file::read(path, |text| Self::parse(text, registry))
    }

    pub(in super::super) fn parse(text: &str, registry: &PipelineRegistry) -> Result<Self, String> {
        let mut file: Self = yaml::decode(text)?;
        file.check()?;
        file.plugins = file.make_plugins(registry)?;
        Ok(file)
    }

    fn check(&self) -> Result<(), String> {
        file::check_kind(&self.api_version, &self.kind, Self::KIND)?;
        match &self.cluster_profiles {
            Some(source) => source.check().map_err(|text| format!("clusterProfiles.{text}"))?,
            None if self.clusters.is_empty() => return Err("clusters: is empty".to_owned()),
            None => {}
        }
        if let Some(copies) = &self.copies {
            copies.check().map_err(|text| format!("copies.{text}"))?;
        }
        let (mut names, mut servers) = (BTreeMap::new(), BTreeMap::new());
        for (place, member) in self.clusters.iter().enumerate() {
            member.check().map_err(|text| format!("clusters[{place}].{text}"))?;
            if let Some(other) = servers.insert(member.server_key(), place) {
                let server = &member.server;
                return Err(format!(
                    "clusters[{place}].server: {server:?} is that of clusters[{other}]"
                ));
            }
            if let Some(other) = names.insert(&member.name, place) {
                let name = &member.name;
                return Err(format!(
                    "clusters[{place}].name: {name:?} is that of clusters[{other}]"
                ));
            }
        }
        let at_most = |field: &str, value: Option<u32>| match value {
            Some(value) if !(1..=ALL_BASIS_POINTS).contains(&value) => {
                Err(format!("{field}: {value} is not from 1 to {ALL_BASIS_POINTS}"))
            }
            _ => Ok(()),
        };
        at_most("nodesToSampleBp", self.nodes_to_sample_bp)?;
        at_most("clustersToSampleBp", self.clusters_to_sample_bp)?;
        let positive = [
            ("commitCandidates", self.commit_candidates),
            ("maxInFlight", self.max_in_flight),
            ("rounds", self.rounds.map(|rounds| rounds as usize)),
        ];
        if let Some((field, _)) = positive.iter().find(|(_, value)| *value == Some(0)) {
            return Err(format!("{field}: 0 is too few"));
        }
        if let Some(Turn { index, of }) = self.turn
            && index >= of
        {
            return Err(format!("turn.index: {index} is not below turn.of, {of}"));
        }
        self.durations().map(drop)
    }

    fn make_plugins(&self, registry: &PipelineRegistry) -> Result<Vec<WeightedPlugin>, String> {
        let Some(pipeline) = &self.decision_pipeline else { return Ok(plugins::defaults()) };
        let entries = pipeline.plugins.iter().enumerate();
        let plugins = entries.map(|(place, entry)| {
            let plugin = weighted(entry, registry);
            plugin.map_err(|text| format!("decisionPipeline.plugins[{place}].{text}"))
        });
        plugins.collect()
    }

    /// Returns the durations that are set: of samples, of stragglers, of commits, of the takeover,
    /// of a lost cluster.
    fn durations(&self) -> Result<[Option<std::time::Duration>; 5], String> {
        let parse = |field: &str, text: &Option<String>| {
            let Some(text) = text else { return Ok(None) };
            let time: Duration = text.parse().map_err(|error| format!("{field}: {error}"))?;
            let time = time.to_std();
            match time.is_zero() {
                true => Err(format!("{field}: {text} is too short")),
                false => Ok(Some(time)),
            }
        };
        Ok([
            parse("sampleTimeout", &self.sample_timeout)?,
            parse("stragglerWait", &self.straggler_wait)?,
            parse("commitTimeout", &self.commit_timeout)?,
            parse("takeoverWait", &self.takeover_wait)?,
            match self.replace_after.as_deref() {
                Some("never") => None,
                _ => parse("replaceAfter", &self.replace_after)?,
            },
        ])
    }

    /// Returns the deadline of samples.
    pub(super) fn sample_timeout(&self) -> std::time::Duration {
        let given = self.durations().ok().and_then(|[sample, ..]| sample);
        given.unwrap_or(SchedulerConfig::new("", Vec::new()).sample_timeout)
    }

    /// Returns the configuration of the scheduler of this scheduler name, with these members.
    ///
    /// # Errors
    /// A value is not valid.
    pub(super) fn config(
        &self,
        scheduler_name: &str,
        members: &[Member],
        seed: u64,
    ) -> Result<SchedulerConfig, String> {
        let name = match &self.instance {
            Some(instance) => format!("{scheduler_name}/{instance}"),
            None => scheduler_name.to_owned(),
        };
        let clusters = members.iter().map(Member::cluster).collect();
        let mut config = SchedulerConfig { seed, ..SchedulerConfig::new(&name, clusters) };
        if let Some(strategy) = &self.strategy {
            config = config.with_strategy(strategy);
        }
        set(&mut config.nodes_to_sample_bp, self.nodes_to_sample_bp);
        set(&mut config.clusters_to_sample_bp, self.clusters_to_sample_bp);
        set(&mut config.commit_candidates, self.commit_candidates);
        set(&mut config.rounds, self.rounds);
        set(&mut config.max_in_flight, self.max_in_flight);
        set(&mut config.turn, self.turn.map(|turn| (turn.index, turn.of)));
        let [sample, straggler, commit, takeover, replace_after] = self.durations()?;
        config.replace_after = replace_after;
        set(&mut config.sample_timeout, sample);
        set(&mut config.straggler_wait, straggler);
        set(&mut config.commit_timeout, commit);
        set(&mut config.takeover_wait, takeover);
        config.plugins.clone_from(&self.plugins);
        let labels = self.plugins.iter().flat_map(|own| own.plugin.node_labels());
        let labels: BTreeSet<Arc<str>> = labels.collect();
        config.node_labels = labels.into_iter().collect();
        Ok(config)
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

fn weighted(entry: &PluginEntry, registry: &PipelineRegistry) -> Result<WeightedPlugin, String> {
    let plugin = registry.decision(&entry.name, &entry.args())?;
    let weight = match (entry.weight, plugin.has_score()) {
        (Some(weight), _) if !(0..=100).contains(&weight) => {
            return Err(format!("weight: {weight} is not from 0 to 100"));
        }
        (Some(1..), false) => return Err("weight: the plugin has no score".to_owned()),
        (_, false) => 0,
        (weight, true) => weight.unwrap_or(1),
    };
    Ok(WeightedPlugin { plugin, weight })
}

impl Member {
    /// Returns the URL of its agent in a form that equal ones share.
    pub(super) fn server_key(&self) -> String {
        self.server.trim_end_matches('/').to_lowercase()
    }

    /// Whether its agent is reached in the same way as the agent of `other`.
    pub(super) fn has_connection_of(&self, other: &Self) -> bool {
        let keys = |own: &Self| Self {
            labels: BTreeMap::new(),
            properties: BTreeMap::new(),
            drain: false,
            closed: None,
            ..own.clone()
        };
        keys(self) == keys(other)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        // It is a part of the name of its Lease.
        if !is_dns_name(&self.name) {
            return Err(format!("name: {:?} is no DNS name in lower case", self.name));
        }
        let uri: Option<http::Uri> = self.server.parse().ok();
        if uri.is_none_or(|uri| uri.scheme_str() != Some("https") || uri.authority().is_none()) {
            let server = &self.server;
            return Err(format!(
                "server: {server:?} is no URL like https://agent.example.com:10259"
            ));
        }
        match (&self.client_certificate, &self.client_key) {
            (Some(_), None) => return Err("clientKey: is missing".to_owned()),
            (None, Some(_)) => return Err("clientCertificate: is missing".to_owned()),
            _ => {}
        }
        if self.token_file.is_none() && self.client_certificate.is_none() {
            return Err("tokenFile: is missing, and so is clientCertificate".to_owned());
        }
        Ok(())
    }

    /// Returns the server and the files for its connection.
    pub(super) fn files(&self) -> ServerFiles<'_> {
        ServerFiles {
            server: &self.server,
            certificate_authority: self.certificate_authority.as_deref(),
            tls_server_name: self.tls_server_name.as_deref(),
            token_file: self.token_file.as_deref(),
            client_certificate: self.client_certificate.as_deref(),
            client_key: self.client_key.as_deref(),
        }
    }

    pub(super) fn cluster(&self) -> Cluster {
        let labels = self.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let properties = self.properties.iter();
        Cluster {
            name: self.name.as_str().into(),
            labels: labels.collect::<Labels>(),
            properties: properties
                .map(|(name, value)| (name.as_str().into(), value.as_str().into()))
                .collect(),
            closed: match self.drain {
                true => Some("it is being drained".into()),
                false => self.closed.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: &str = "
apiVersion: supercluster.loadmaster.io/v1alpha1
kind: SuperclusterConfiguration
clusters:
- {name: eu, server: 'https://eu:10259', tokenFile: token, labels: {region: eu}}
- {name: us, server: 'https://us:10259', clientCertificate: a.crt, clientKey: a.key, drain: true}
";

    fn parse(text: &str) -> Result<ClustersFile, String> {
        ClustersFile::parse(text, &PipelineRegistry::new())
    }

    fn error(from: &str, to: &str) -> String {
        assert!(MEMBERS.contains(from), "{from}");
        parse(&MEMBERS.replace(from, to)).unwrap_err()
    }

    #[test]
    fn members_and_settings_are_read() {
        let text = format!(
            "{MEMBERS}strategy: best\ncommitCandidates: 2\nsampleTimeout: 250ms\ninstance: b\n\
             turn: {{index: 1, of: 2}}\ndecisionPipeline: {{plugins: [{{name: ClusterSpread, \
             args: {{topologyKey: region}}, weight: 3}}]}}\n"
        );
        let file = parse(&text).unwrap();
        let config = file.config("over", &file.clusters, 1).unwrap();
        assert_eq!((&*config.name, &*config.strategy), ("over/b", "best"));
        assert!(config.agents_choose);
        assert_eq!((config.commit_candidates, config.turn), (2, (1, 2)));
        assert_eq!(config.sample_timeout, std::time::Duration::from_millis(250));
        assert_eq!((config.plugins.len(), config.plugins[0].weight), (1, 3));
        assert_eq!(&*config.clusters[1].name, "us");
        assert_eq!(config.clusters[1].closed.as_deref(), Some("it is being drained"));
        assert_eq!(config.clusters[0].closed, None);
        assert_eq!(config.clusters[0].labels.get("region"), Some("eu"));
    }

    #[test]
    fn cluster_that_is_listed_twice_is_named() {
        let twice = error("name: us", "name: eu");
        assert_eq!(twice, "clusters[1].name: \"eu\" is that of clusters[0]");
        let same = error("https://us:10259", "https://EU:10259/");
        assert_eq!(same, "clusters[1].server: \"https://EU:10259/\" is that of clusters[0]");
    }

    #[test]
    fn invalid_field_is_named() {
        let rows = [
            (
                "kind:",
                "copies: {kinds: [secrets], namespaces: []}\nkind:",
                "copies.namespaces: is empty",
            ),
            (
                "kind:",
                "clusterProfiles: {namespace: a/b}\nkind:",
                "clusterProfiles.namespace: \"a/b\" is no name of a namespace",
            ),
            (
                "kind:",
                "clusterProfiles: {namespace: a, connection: {tokenFile: t}}\nkind:",
                "clusterProfiles.connection: ",
            ),
            (
                "kind:",
                "clusterProfiles: {namespace: a, connection: {certificateAuthority: c}}\nkind:",
                "clusterProfiles.connection.tokenFile: is missing",
            ),
            ("v1alpha1", "v9", "apiVersion and kind are \"supercluster.loadmaster.io/v9\""),
            ("labels:", "lables:", "clusters[0].lables: "),
            (", clientKey: a.key", "", "clusters[1].clientKey: is missing"),
            (", tokenFile: token", "", "clusters[0].tokenFile: is missing"),
            ("https://eu", "http://eu", "clusters[0].server: "),
            ("kind:", "nodesToSampleBp: 10001\nkind:", "nodesToSampleBp: 10001 is not from 1"),
            ("kind:", "commitCandidates: 0\nkind:", "commitCandidates: 0 is too few"),
            (
                "kind:",
                "sampleTimeout: 5\nkind:",
                "sampleTimeout: invalid type: integer `5`, expected a string",
            ),
            ("kind:", "turn: {index: 2, of: 2}\nkind:", "turn.index: 2 is not below"),
            (
                "kind:",
                "decisionPipeline: {plugins: [{name: ClusterCost}]}\nkind:",
                "decisionPipeline.plugins[0].args: property: is missing",
            ),
            (
                "kind:",
                "decisionPipeline: {plugins: [{name: Cheap}]}\nkind:",
                "decisionPipeline.plugins[0].name: \"Cheap\" is no plugin of the decision pipeline; one of",
            ),
            (
                "kind:",
                "decisionPipeline: {plugins: [{name: ClusterAffinity, weight: 2}]}\nkind:",
                "decisionPipeline.plugins[0].weight: the plugin has no score",
            ),
            (
                "kind:",
                "decisionPipeline: {plugins: [{name: ClusterLoad, weight: 101}]}\nkind:",
                "decisionPipeline.plugins[0].weight: 101 is not from 0 to 100",
            ),
        ];
        for (from, to, expected) in rows {
            let text = error(from, to);
            assert!(text.starts_with(expected), "{text}");
        }
    }
}
