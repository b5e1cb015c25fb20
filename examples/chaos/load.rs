//! A load that changes all the time: pods with every kind of constraint come, end and are deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};

use crate::gangs::Gangs;
use crate::moves;
use crate::pods::{
    KINDS, Kind, NAMESPACE, create_claim, has_ended, most_free, pod, problem_of_pending, typed,
};
use crate::rules::node_of;

/// Number of pods at which no more are created, for each node.
const PODS_PER_NODE: usize = 10;
/// One in this many turns creates a gang.
const GANGS: u32 = 6;
/// One in this many turns creates a pod that needs most of a node.
const LARGE: u32 = 12;
/// Maximum number of pods of a gang.
const MOST_IN_GANG: usize = 5;
/// Time limit of a request of the load itself, which faults concern, too.
const PATIENCE: Duration = Duration::from_secs(3);

/// The creator of pods.
pub(crate) struct Load {
    client: Client,
    rng: fastrand::Rng,
    created: u64,
    gangs: Gangs,
}

impl Load {
    pub(crate) fn new(client: Client, seed: u64) -> Self {
        let gangs = Gangs::new(client.clone());
        Self { client, rng: fastrand::Rng::with_seed(seed), created: 0, gangs }
    }

    /// Creates and deletes some pods. Requests that fail because of the trouble are not repeated.
    pub(crate) async fn go_on(&mut self) {
        let work = async {
            let pods = self.pods().list(&ListParams::default()).await?.items;
            let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await?;
            let room = (nodes.items.len() * PODS_PER_NODE).saturating_sub(pods.len());
            for _ in 0..self.rng.usize(..=4).min(room) {
                self.create_pod().await?;
            }
            if room > MOST_IN_GANG && self.rng.u32(..GANGS) == 0 {
                self.gangs.create(&mut self.rng).await?;
            }
            if room > 0 && self.rng.u32(..LARGE) == 0 {
                self.created += 1;
                moves::create_large(&self.client, self.created).await?;
            }
            for _ in 0..self.rng.usize(..=2) {
                if let Some(pod) = self.rng.choice(&pods) {
                    self.delete_pod(pod).await?;
                }
            }
            anyhow::Ok(())
        };
        // The next turn tries again with other pods.
        let _ = tokio::time::timeout(PATIENCE, work).await;
    }

    /// Returns the pods that are neither bound nor explained, those that would fit a node, and the
    /// gangs that are bound in part.
    pub(crate) async fn unsettled(&self) -> anyhow::Result<Vec<String>> {
        let all = ListParams::default();
        let pods = self.pods().list(&all).await?.items;
        let nodes = Api::<Node>::all(self.client.clone()).list(&all).await?.items;
        let most_free = most_free(&nodes, &pods);
        let pending = pods.iter().filter(|pod| node_of(pod).is_none() && !has_ended(pod));
        let problems = pending.filter_map(|pod| problem_of_pending(pod, most_free));
        Ok(problems.chain(self.gangs.in_part().await?).collect())
    }

    pub(crate) fn summary(&self) -> String {
        self.gangs.summary()
    }

    /// Checks that no pod has two `Scheduled` events.
    pub(crate) async fn assert_bound_once(&self) -> anyhow::Result<()> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut seen = BTreeMap::new();
        for event in events.list(&ListParams::default()).await?.items {
            // A PodGroup has the event again after its pods have gone.
            let pod = event.regarding.clone().filter(|own| own.kind.as_deref() == Some("Pod"));
            let Some(pod) = pod.filter(|_| event.reason.as_deref() == Some("Scheduled")) else {
                continue;
            };
            if let Some(first) = seen.insert(pod.uid, event.clone()) {
                bail!("a pod has two events Scheduled: {first:?} and {event:?}");
            }
        }
        Ok(())
    }

    async fn create_pod(&mut self) -> anyhow::Result<()> {
        let kind = KINDS[self.rng.usize(..KINDS.len())];
        let mut pod = pod(kind, self.created, &mut self.rng);
        self.created += 1;
        pod["spec"]["schedulerName"] = "loadmaster".into();
        let pod = typed::<Pod>(pod)?;
        if kind == Kind::Volume {
            create_claim(&self.client, pod.metadata.name.as_deref().unwrap_or_default()).await?;
        }
        self.pods().create(&PostParams::default(), &pod).await?;
        Ok(())
    }

    async fn delete_pod(&mut self, pod: &Pod) -> anyhow::Result<()> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        if self.gangs.delete_with(name).await? {
            return Ok(());
        }
        self.pods().delete(name, &DeleteParams::default()).await?;
        if pod.spec.as_ref().is_some_and(|spec| spec.volumes.is_some()) {
            let claims: Api<PersistentVolumeClaim> =
                Api::namespaced(self.client.clone(), NAMESPACE);
            claims.delete(name, &DeleteParams::default()).await?;
        }
        Ok(())
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }
}
