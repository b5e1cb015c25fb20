//! The list of members as ClusterProfiles of the management cluster (SIG-Multicluster).
//!
//! A profile has labels and properties for the decision pipeline. How its agent is reached stands
//! in the file of `--clusters`: in the entry of the same name, or in the common settings for
//! profiles with the annotation [`AGENT`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use tracing::{info, warn};

use super::clusters::{ClustersFile, Member, ProfileSource};
use crate::api_client::{ApiClient, no_response, read_body};
use crate::supervision::catch_panic;
use crate::wire::status_error;

/// Annotation of a ClusterProfile: the URL of its agent.
pub(super) const AGENT: &str = "supercluster.loadmaster.io/agent";
/// Label of a ClusterProfile whose cluster is drained; its value is `true`.
const DRAIN: &str = "supercluster.loadmaster.io/drain";
/// The condition of a ClusterProfile with which its cluster takes no new pods.
const HEALTHY: &str = "ControlPlaneHealthy";
/// Pause before a list or watch that has failed is repeated.
const PAUSE: Duration = Duration::from_secs(2);
/// Length of a watch.
const WATCH_LENGTH: Duration = Duration::from_secs(40);
/// Time to wait for a list.
const TIMEOUT: Duration = Duration::from_secs(45);

/// The ClusterProfiles by name.
pub(super) type Profiles = BTreeMap<String, Profile>;

/// The fields of a ClusterProfile that are read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Profile {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
    properties: Vec<Property>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Property {
    name: String,
    value: String,
}

impl Profile {
    /// Returns why the cluster takes no new pods.
    fn closed(&self) -> Option<Arc<str>> {
        if self.metadata.deletion_timestamp.is_some() {
            return Some("its ClusterProfile is being deleted".into());
        }
        let mut conditions = self.status.conditions.iter();
        let unhealthy = conditions.find(|own| own.kind == HEALTHY && own.status == "False")?;
        let text = "its ClusterProfile says that its control plane is not healthy";
        Some(match unhealthy.message.as_str() {
            "" => text.into(),
            message => format!("{text}: {message}").into(),
        })
    }
}

/// The members of a list of ClusterProfiles.
#[derive(Debug, Default)]
pub(super) struct Joined {
    pub(super) members: Vec<Member>,
    /// Profiles that are not members, with the reason.
    pub(super) invalid: BTreeMap<String, String>,
}

/// Joins profiles with what the file says about the connections of their agents.
pub(super) fn join(file: &ClustersFile, source: &ProfileSource, profiles: &Profiles) -> Joined {
    let mut joined = Joined::default();
    let mut servers: BTreeMap<String, String> = BTreeMap::new();
    for (name, profile) in profiles {
        let mut member = match connection(file, source, profile) {
            Ok(member) => member,
            Err(reason) => {
                joined.invalid.insert(name.clone(), reason);
                continue;
            }
        };
        if let Some(other) = servers.insert(member.server_key(), name.clone()) {
            let reason = format!("its agent is that of ClusterProfile {other:?}");
            joined.invalid.insert(name.clone(), reason);
            continue;
        }
        // The file wins.
        for (key, value) in &profile.metadata.labels {
            member.labels.entry(key.clone()).or_insert_with(|| value.clone());
        }
        for Property { name, value } in &profile.status.properties {
            member.properties.entry(name.clone()).or_insert_with(|| value.clone());
        }
        member.drain |= profile.metadata.labels.get(DRAIN).is_some_and(|value| value == "true");
        member.closed = member.closed.or_else(|| profile.closed());
        joined.members.push(member);
    }
    joined
}

/// Returns how the agent of a cluster is reached.
fn connection(
    file: &ClustersFile,
    source: &ProfileSource,
    profile: &Profile,
) -> Result<Member, String> {
    let Metadata { name, annotations, .. } = &profile.metadata;
    if let Some(member) = file.clusters.iter().find(|own| own.name == *name) {
        return Ok(member.clone());
    }
    let Some(connection) = &source.connection else {
        return Err(
            "clusters of the file has no entry of its name, and clusterProfiles no connection"
                .to_owned(),
        );
    };
    let Some(server) = annotations.get(AGENT) else {
        return Err(format!(
            "clusters of the file has no entry of its name, and it has no annotation {AGENT}"
        ));
    };
    let member = connection.member(name, server);
    member.check()?;
    Ok(member)
}

/// Follows the ClusterProfiles of a namespace, and sends the list after each change. The first list
/// is sent when the API server has answered.
pub(super) async fn follow(
    client: ApiClient,
    source: ProfileSource,
    sender: Arc<watch::Sender<Option<Profiles>>>,
) {
    let mut logged: Option<String> = None;
    loop {
        let followed = catch_panic(list_and_watch(&client, &source, &sender)).await;
        let error = match followed {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(panic) => Some(panic.to_string()),
        };
        if sender.is_closed() {
            return;
        }
        match &error {
            Some(err) if error != logged => {
                let namespace = &*source.namespace;
                warn!(namespace, err, "Cannot read ClusterProfiles; retrying");
            }
            None if logged.is_some() => info!("ClusterProfiles can be read again"),
            _ => {}
        }
        if error.is_some() {
            tokio::time::sleep(PAUSE).await;
        }
        logged = error;
    }
}

/// Lists the profiles, and follows their changes until the watch ends.
async fn list_and_watch(
    client: &ApiClient,
    source: &ProfileSource,
    sender: &watch::Sender<Option<Profiles>>,
) -> Result<(), String> {
    #[derive(Deserialize)]
    struct List {
        metadata: ListMetadata,
        items: Vec<Value>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ListMetadata {
        resource_version: String,
    }
    let path = source.path();
    let listed = async {
        let response = client.get(&path).await?;
        let status = response.status().as_u16();
        let body = read_body(response.into_body()).await.map_err(|error| error.to_string())?;
        Ok::<_, String>((status, body))
    };
    let listed = tokio::time::timeout(TIMEOUT, listed).await;
    let (status, body) = listed.map_err(|_| no_response(TIMEOUT))??;
    if status != 200 {
        return Err(status_error(status, None, &body).message);
    }
    let list: List = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    let mut profiles: Profiles = list.items.into_iter().filter_map(read).collect();
    send(sender, &profiles);
    let version = list.metadata.resource_version;
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{separator}resourceVersion={version}");
    let mut expired = false;
    let watched = client.watch(&path, WATCH_LENGTH, |line| {
        #[derive(Deserialize)]
        struct Event {
            #[serde(rename = "type")]
            kind: String,
            object: Value,
        }
        let Ok(Event { kind, object }) = serde_json::from_slice(line) else { return };
        match kind.as_str() {
            "ADDED" | "MODIFIED" => profiles.extend(read(object)),
            "DELETED" => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                profiles.remove(name);
            }
            "ERROR" => expired = true,
            _ => {}
        }
        send(sender, &profiles);
    });
    match watched.await {
        Ok(()) if expired => Err("the watch has ended with an error".to_owned()),
        Ok(()) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn send(sender: &watch::Sender<Option<Profiles>>, profiles: &Profiles) {
    sender.send_if_modified(|known| {
        let is_new = known.as_ref() != Some(profiles);
        if is_new {
            *known = Some(profiles.clone());
        }
        is_new
    });
}

/// Reads a profile. The API server checks its shape; one that cannot be read is left out with a log
/// line.
fn read(object: Value) -> Option<(String, Profile)> {
    match serde_json::from_value::<Profile>(object) {
        Ok(profile) => Some((profile.metadata.name.clone(), profile)),
        Err(error) => {
            warn!(err = error.to_string(), "A ClusterProfile cannot be read");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use supercluster::registry::PipelineRegistry;

    use super::*;

    const FILE: &str = "
apiVersion: supercluster.loadmaster.io/v1alpha1
kind: SuperclusterConfiguration
clusterProfiles:
  namespace: fleet
  connection: {certificateAuthority: '/c/{name}/ca.crt', tokenFile: '/c/{name}/token'}
clusters:
- {name: eu, server: 'https://eu:10259', tokenFile: token, labels: {region: eu}}
- {name: unused, server: 'https://unused:10259', tokenFile: token}
";

    fn profile(name: &str, annotation: Option<&str>, status: Value) -> (String, Profile) {
        let annotations = annotation.map(|server| json!({AGENT: server}));
        let labels = json!({"region": "elsewhere", "tier": name});
        read(json!({"metadata": {"name": name, "labels": labels,
            "annotations": annotations.unwrap_or(json!({}))}, "status": status}))
        .unwrap()
    }

    fn joined(profiles: impl IntoIterator<Item = (String, Profile)>) -> Joined {
        let file = ClustersFile::parse(FILE, &PipelineRegistry::new()).unwrap();
        let source = file.cluster_profiles.clone().unwrap();
        join(&file, &source, &profiles.into_iter().collect())
    }

    #[test]
    fn profiles_are_the_members_with_the_connections_of_the_file() {
        let properties = json!({"properties": [{"name": "cost", "value": "3"}]});
        let joined = joined([
            profile("eu", None, properties),
            profile("us", Some("https://us:10259"), json!({})),
        ]);
        assert!(joined.invalid.is_empty(), "{:?}", joined.invalid);
        let names: Vec<&str> = joined.members.iter().map(|own| &*own.name).collect();
        assert_eq!(names, ["eu", "us"], "an entry without a profile is no member");
        let eu = joined.members[0].cluster();
        assert_eq!(eu.labels.get("region"), Some("eu"), "the file wins");
        assert_eq!((eu.labels.get("tier"), &*eu.properties["cost"]), (Some("eu"), "3"));
        let files = joined.members[1].files();
        assert_eq!(files.server, "https://us:10259");
        assert_eq!(files.token_file.unwrap().to_str(), Some("/c/us/token"));
        assert_eq!(files.certificate_authority.unwrap().to_str(), Some("/c/us/ca.crt"));
    }

    #[test]
    fn profile_that_cannot_be_joined_is_named() {
        let joined = joined([
            profile("a", None, json!({})),
            profile("b", Some("http://b"), json!({})),
            profile("c", Some("https://c"), json!({})),
            profile("d", Some("https://C/"), json!({})),
        ]);
        assert_eq!(joined.members.len(), 1);
        let reason = |name: &str| joined.invalid[name].as_str();
        assert!(reason("a").ends_with("no annotation supercluster.loadmaster.io/agent"));
        assert!(reason("b").starts_with("server: \"http://b\" is no URL like"), "{}", reason("b"));
        assert_eq!(reason("d"), "its agent is that of ClusterProfile \"c\"");
    }

    #[test]
    fn cluster_that_is_not_healthy_takes_no_new_pods() {
        let condition = |status: &str| {
            json!({"conditions": [{"type": "ControlPlaneHealthy", "status": status,
                "message": "etcd", "reason": "r"}]})
        };
        let joined = joined([profile("eu", None, condition("False"))]);
        let closed = joined.members[0].cluster().closed.unwrap();
        assert_eq!(&*closed, "its ClusterProfile says that its control plane is not healthy: etcd");
        for status in ["True", "Unknown"] {
            let (_, profile) = profile("eu", None, condition(status));
            assert_eq!(profile.closed(), None, "{status}");
        }
    }
}
