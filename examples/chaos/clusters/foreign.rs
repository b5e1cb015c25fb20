//! A scheduler inside a member that takes the room of nodes on which delegates have just been
//! decided.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use crate::pods::{NAMESPACE, has_ended, typed};
use crate::rules::{FOREIGN, annotation, node_of};

/// Of so many delegates, one makes it take the room.
const ONE_OF: usize = 8;
/// Longest time of a watch, which may go silent.
const WATCH: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);

/// A scheduler that asks no one. It ends when dropped.
pub(super) struct Foreign {
    created: Arc<AtomicU64>,
    _binding: AbortOnDropHandle<()>,
}

impl Foreign {
    pub(super) fn start(client: Client, seed: u64) -> Self {
        let created = Arc::new(AtomicU64::new(0));
        let pods = Api::namespaced(client, NAMESPACE);
        let rng = fastrand::Rng::with_seed(seed);
        let binding = tokio::spawn(bind(pods, rng, created.clone()));
        Self { created, _binding: AbortOnDropHandle::new(binding) }
    }

    /// Number of pods that it has bound.
    pub(super) fn created(&self) -> u64 {
        self.created.load(Ordering::Relaxed)
    }
}

async fn bind(pods: Api<Pod>, mut rng: fastrand::Rng, created: Arc<AtomicU64>) {
    loop {
        let _ = tokio::time::timeout(WATCH, watch(&pods, &mut rng, &created)).await;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn watch(
    pods: &Api<Pod>,
    rng: &mut fastrand::Rng,
    created: &AtomicU64,
) -> anyhow::Result<()> {
    let mut events = pin!(pods.watch(&WatchParams::default(), "").await?);
    while let Some(event) = events.try_next().await? {
        let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else { continue };
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        if name.starts_with(FOREIGN) {
            if has_ended(&pod) {
                pods.delete(name, &DeleteParams::default()).await?;
            }
            continue;
        }
        // It is about to be bound there.
        let Some(node) = annotation(&pod, "node").filter(|_| node_of(&pod).is_none()) else {
            continue;
        };
        if rng.usize(..ONE_OF) == 0 {
            let number = created.fetch_add(1, Ordering::Relaxed);
            let pod = json!({
                "metadata": {"name": format!("{FOREIGN}{number}"), "annotations": {
                    "sandbox.loadmaster.dev/run-seconds": rng.u64(2..15).to_string(),
                }},
                "spec": {"nodeName": node, "automountServiceAccountToken": false,
                    "terminationGracePeriodSeconds": 0,
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10",
                        "resources": {"requests": {"cpu": format!("{}m", rng.u64(5..25) * 100)}}}]},
            });
            pods.create(&PostParams::default(), &typed(pod)?).await?;
        }
    }
    Ok(())
}
