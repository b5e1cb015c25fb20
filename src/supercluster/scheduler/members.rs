//! The members while the scheduler runs: the list of ClusterProfiles is joined with the file, and
//! what has changed is applied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use supercluster::scheduler::{Cluster, ClusterIx};
use tokio::sync::watch;
use tracing::{info, warn};

use super::SchedulerEvent;
use super::agents::{AgentClient, Agents};
use super::clusters::{ClustersFile, Member};
use super::mirror::Mirror;
use super::profiles::{Joined, Profiles, follow, join};
use crate::api_client::ApiClient;
use crate::metrics::Metrics;
use crate::scheduling_loop::{EventSender, LoopEvent};
use crate::supervision::Spawner;

/// Time after which members whose files could not be read are tried again.
const RETRY: Duration = Duration::from_secs(30);

/// The members, and the agents of them.
pub(super) struct MemberList {
    file: ClustersFile,
    agents: Agents,
    metrics: Arc<Metrics>,
    sample_timeout: Duration,
    /// The members by name, with their indexes.
    known: BTreeMap<String, (usize, Member)>,
    /// Profiles that are not members, with the reason.
    invalid: BTreeMap<String, String>,
    /// All profiles that have a metric.
    shown: BTreeSet<String>,
}

/// A change of the list.
enum Change {
    /// A member is new or has changed. The number is the connection to follow, if that is new.
    Set(usize, Cluster, Option<u64>),
    Removed(usize),
}

impl MemberList {
    pub(super) fn new(file: ClustersFile, sample_timeout: Duration, metrics: Arc<Metrics>) -> Self {
        Self {
            file,
            agents: Agents::default(),
            metrics,
            sample_timeout,
            known: BTreeMap::new(),
            invalid: BTreeMap::new(),
            shown: BTreeSet::new(),
        }
    }

    /// Reads the first list of members, and returns them in the order of their indexes. With
    /// ClusterProfiles it waits for their list, and returns where later lists come from.
    ///
    /// # Errors
    /// The credentials for an agent of the file cannot be read.
    pub(super) async fn first(
        &mut self,
        client: &ApiClient,
        tasks: &Spawner,
    ) -> anyhow::Result<(Vec<Member>, Option<watch::Receiver<Option<Profiles>>>)> {
        let Some(source) = self.file.cluster_profiles.clone() else {
            let members = self.file.clusters.clone();
            self.update(Joined { members: members.clone(), invalid: BTreeMap::new() }).await;
            if let Some((name, reason)) = self.invalid.first_key_value() {
                bail!("clusters: {name}: {reason}");
            }
            return Ok((members, None));
        };
        let (sender, mut receiver) = watch::channel(None);
        let following = follow(client.clone(), source.clone(), Arc::new(sender));
        tasks.spawn("the watch of ClusterProfiles", following);
        let Ok(first) = receiver.wait_for(Option::is_some).await.map(|list| list.clone()) else {
            bail!("the task that reads ClusterProfiles has ended");
        };
        self.apply(&first.unwrap_or_default()).await;
        let mut members: Vec<&(usize, Member)> = self.known.values().collect();
        members.sort_by_key(|(ix, _)| *ix);
        let members = members.into_iter().map(|(_, member)| member.clone()).collect();
        Ok((members, Some(receiver)))
    }

    pub(super) fn agents(&self) -> Agents {
        self.agents.clone()
    }

    /// Follows the ClusterProfiles.
    pub(super) async fn run(
        mut self,
        mut profiles: watch::Receiver<Option<Profiles>>,
        mirror: Arc<Mirror>,
        events: EventSender<SchedulerEvent>,
    ) {
        loop {
            if let Ok(Err(_)) = tokio::time::timeout(RETRY, profiles.changed()).await {
                warn!("The task that reads ClusterProfiles has ended");
                return;
            }
            let list = profiles.borrow_and_update().clone().unwrap_or_default();
            for change in self.apply(&list).await {
                let event = match change {
                    Change::Set(member, cluster, connection) => {
                        match connection {
                            Some(connection) => mirror.add(member, connection),
                            // It may be drained.
                            None => mirror.look_again(),
                        }
                        SchedulerEvent::Member(ClusterIx(member), Some(cluster))
                    }
                    Change::Removed(member) => SchedulerEvent::Member(ClusterIx(member), None),
                };
                events.send(LoopEvent::Own(event));
            }
        }
    }

    async fn apply(&mut self, profiles: &Profiles) -> Vec<Change> {
        let Some(source) = self.file.cluster_profiles.clone() else { return Vec::new() };
        let changes = self.update(join(&self.file, &source, profiles)).await;
        for name in &self.shown {
            if !profiles.contains_key(name) {
                self.metrics.clusters().profile_is_gone(name);
            }
        }
        self.shown = profiles.keys().cloned().collect();
        for name in &self.shown {
            self.metrics.clusters().profile(name, !self.invalid.contains_key(name));
        }
        changes
    }

    async fn update(&mut self, joined: Joined) -> Vec<Change> {
        let Joined { members, mut invalid } = joined;
        let (mut changes, mut present) = (Vec::new(), BTreeSet::new());
        for member in members {
            let name = member.name.clone();
            let known = self.known.get(&name);
            if known.is_some_and(|(_, own)| *own == member) {
                present.insert(name);
                continue;
            }
            let before = known.and_then(|(_, own)| own.cluster().closed);
            log_closed(&name, before.as_deref(), member.cluster().closed.as_deref());
            let connected = known.filter(|(_, own)| own.has_connection_of(&member));
            let (ix, connection) = match connected {
                Some((ix, _)) => (*ix, None),
                None => {
                    let rest_client = self.metrics.rest_client();
                    match AgentClient::new(&member, self.sample_timeout, rest_client).await {
                        Ok(agent) => {
                            let metrics = self.metrics.clusters().member(&name);
                            let (ix, connection) = self.agents.set(agent, metrics);
                            (ix, Some(connection))
                        }
                        Err(error) => {
                            invalid.insert(name, format!("{error:#}"));
                            continue;
                        }
                    }
                }
            };
            self.agents.set_draining(ix, member.drain);
            changes.push(Change::Set(ix, member.cluster(), connection));
            present.insert(name.clone());
            if self.known.insert(name.clone(), (ix, member)).is_none() {
                info!(cluster = name, "The cluster is a member");
            }
        }
        let agents = &self.agents;
        self.known.retain(|name, (ix, _)| {
            let stays = present.contains(name);
            if !stays {
                info!(
                    cluster = name,
                    "The cluster is no member any more; its pods stay as they are"
                );
                agents.remove(*ix);
                changes.push(Change::Removed(*ix));
            }
            stays
        });
        for (profile, err) in &invalid {
            if self.invalid.get(profile) != Some(err) {
                warn!(profile, err, "The cluster is no member");
            }
        }
        self.invalid = invalid;
        changes
    }
}

/// Logs that a cluster takes no new pods, or takes some again.
fn log_closed(cluster: &str, before: Option<&str>, closed: Option<&str>) {
    match closed {
        Some(reason) if before != closed => {
            info!(cluster, reason, "The cluster takes no new pods");
        }
        None if before.is_some() => info!(cluster, "The cluster takes new pods again"),
        _ => {}
    }
}
