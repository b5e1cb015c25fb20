//! A load that changes all the time: pods for the schedulers over many clusters.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::fleet::NAMES;
use crate::pods::{KINDS, Kind, NAMESPACE, create_claim, has_ended, pod, typed};
use crate::rules::{GROUP, Mark, node_of};

/// Time limit of the requests of one turn, which faults concern, too.
const PATIENCE: Duration = Duration::from_secs(3);
/// Of so many turns, one deletes a delegate inside its member.
const DELETES_DELEGATE: usize = 40;
/// Of so many turns, one changes the number of pods.
const CHANGES: usize = 100;
/// The object that some pods bring to their member.
const COPIED: &str = "chaos-settings";

/// The creator of pods.
pub(super) struct Load {
    management: Client,
    members: Vec<(String, Client)>,
    /// Largest number of pods that ever exist.
    limit: usize,
    /// Number of pods at which no more are created now.
    most_pods: usize,
    rng: fastrand::Rng,
    created: u64,
    /// UIDs of pods whose delegates were deleted in their members.
    deleted: BTreeSet<String>,
}

impl Load {
    /// Prepares a load of at most this number of pods at a time. It is lower most of the time, so
    /// that there is room to move to.
    pub(super) async fn start(
        management: Client,
        members: Vec<(String, Client)>,
        limit: usize,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let settings = typed::<ConfigMap>(json!({"metadata": {"name": COPIED,
            "labels": {format!("{GROUP}/copy"): "true"}}, "data": {"key": "value"}}))?;
        let maps: Api<ConfigMap> = Api::namespaced(management.clone(), NAMESPACE);
        maps.create(&PostParams::default(), &settings).await?;
        let (rng, deleted) = (fastrand::Rng::with_seed(seed), BTreeSet::new());
        let most_pods = limit / 2;
        Ok(Self { management, members, limit, most_pods, rng, created: 0, deleted })
    }

    /// Number of pods that were created.
    pub(super) const fn created(&self) -> u64 {
        self.created
    }

    /// UIDs of pods whose delegates were deleted in their members.
    pub(super) const fn deleted(&self) -> &BTreeSet<String> {
        &self.deleted
    }

    /// Creates and deletes some pods. Requests that fail because of the trouble are not repeated.
    pub(super) async fn go_on(&mut self) {
        if self.rng.usize(..CHANGES) == 0 {
            self.most_pods = self.rng.usize(self.limit / 4..=self.limit);
        }
        let work = async {
            let pods = self.originals().list(&ListParams::default()).await?.items;
            for _ in 0..self.rng.usize(..=3).min(self.most_pods.saturating_sub(pods.len())) {
                self.create_pod().await?;
            }
            for _ in 0..self.rng.usize(..=1) {
                if let Some(pod) = self.rng.choice(&pods) {
                    let name = pod.metadata.name.as_deref().unwrap_or_default();
                    self.originals().delete(name, &DeleteParams::default()).await?;
                }
            }
            if self.rng.usize(..DELETES_DELEGATE) == 0 {
                self.delete_delegate().await?;
            }
            anyhow::Ok(())
        };
        // The next turn tries again with other pods.
        let _ = tokio::time::timeout(PATIENCE, work).await;
    }

    /// Deletes all pods, and what they refer to.
    pub(super) async fn delete_all(&self) -> anyhow::Result<()> {
        let all = (DeleteParams::default(), ListParams::default());
        self.originals().delete_collection(&all.0, &all.1).await?;
        let maps: Api<ConfigMap> = Api::namespaced(self.management.clone(), NAMESPACE);
        maps.delete(COPIED, &all.0).await?;
        Ok(())
    }

    /// Returns the members that still have the copy of an object.
    pub(super) async fn members_with_copy(&self) -> anyhow::Result<Vec<&str>> {
        let mut found = Vec::new();
        for (name, member) in &self.members {
            let maps: Api<ConfigMap> = Api::namespaced(member.clone(), NAMESPACE);
            if maps.get_opt(COPIED).await?.is_some() {
                found.push(name.as_str());
            }
        }
        Ok(found)
    }

    async fn create_pod(&mut self) -> anyhow::Result<()> {
        let kind = KINDS[self.rng.usize(..KINDS.len())];
        let mut pod = pod(kind, self.created, &mut self.rng);
        self.created += 1;
        pod["spec"]["schedulerName"] = NAMES[usize::from(self.rng.usize(..4) == 0)].into();
        pod["spec"]["terminationGracePeriodSeconds"] = self.rng.u64(0..=3).into();
        let member = self.rng.usize(..self.members.len());
        let (name, client) = self.members[member].clone();
        let mut annotate = |key: &str, value: &str| {
            pod["metadata"]["annotations"][format!("{GROUP}/{key}")] = value.into();
        };
        if self.rng.bool() {
            annotate("replace-after", "30s");
        }
        if self.rng.usize(..6) == 0 {
            let selector = json!({"matchLabels": {"name": name}});
            annotate("cluster-selector", &selector.to_string());
        }
        if self.rng.usize(..6) == 0 && kind != Kind::Volume {
            pod["spec"]["volumes"] = json!([{"name": "settings", "configMap": {"name": COPIED}}]);
        }
        if kind == Kind::Volume {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            create_claim(&client, name).await?;
        }
        self.originals().create(&PostParams::default(), &typed(pod)?).await?;
        Ok(())
    }

    /// Deletes a delegate that runs, as a user of its member may do.
    async fn delete_delegate(&mut self) -> anyhow::Result<()> {
        let member = self.rng.usize(..self.members.len());
        let pods: Api<Pod> = Api::namespaced(self.members[member].1.clone(), NAMESPACE);
        let mut delegates = pods.list(&ListParams::default()).await?.items;
        delegates.retain(|pod| node_of(pod).is_some() && !has_ended(pod));
        let marked = delegates.iter().filter_map(|pod| Some((pod, Mark::of(pod)?)));
        let Some((pod, mark)) = self.rng.choice(marked.collect::<Vec<_>>()) else { return Ok(()) };
        // Whatever comes of the request: it may have been carried out.
        self.deleted.insert(mark.origin);
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        pods.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    fn originals(&self) -> Api<Pod> {
        Api::namespaced(self.management.clone(), NAMESPACE)
    }
}
