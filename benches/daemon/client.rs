//! Requests of the benchmark to the API.

use std::fmt::Debug;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use anyhow::{bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use http::Request;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::cluster::{WAITING, node_name, pod_name};
use crate::parts::now;

/// Interval of polling. A poll costs CPU time, a long interval precision.
const LOOK: Duration = Duration::from_millis(25);
/// Maximum number of polls.
const LOOKS: usize = 12_000;
/// Maximum number of concurrent requests.
const REQUESTS: usize = 32;

/// Number of scrapes of which the median counts.
const SCRAPES: usize = 51;

/// The metric `scheduler_pod_scheduling_sli_duration_seconds`, over all attempts.
pub(crate) struct SchedulingDurations {
    /// Number of pods.
    pub(crate) count: f64,
    /// Sum of their times from the first attempt to the binding.
    pub(crate) seconds: f64,
}

/// Returns how long pods have taken so far, from the scheduler on this port.
pub(crate) async fn scheduling_durations(port: u16) -> anyhow::Result<SchedulingDurations> {
    let text = scraper(port)?.request_text(Request::get("/metrics").body(Vec::new())?).await?;
    let sum = |suffix: &str| -> f64 {
        let name = format!("scheduler_pod_scheduling_sli_duration_seconds_{suffix}");
        let lines = text.lines().filter(|line| line.starts_with(&name));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };
    Ok(SchedulingDurations { count: sum("count"), seconds: sum("sum") })
}

/// Numbers of API calls that have finished.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ApiCalls {
    pub(crate) bindings: f64,
    pub(crate) status_patches: f64,
}

/// Returns the numbers of API calls of the scheduler on this port.
pub(crate) async fn api_calls(port: u16) -> anyhow::Result<ApiCalls> {
    let text = scraper(port)?.request_text(Request::get("/metrics").body(Vec::new())?).await?;
    let sum = |call: &str| -> f64 {
        let metric = "scheduler_async_api_call_execution_total{";
        let lines = text.lines().filter(|line| line.starts_with(metric));
        let lines = lines.filter(|line| line.contains(&format!("call_type=\"{call}\"")));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };
    Ok(ApiCalls { bindings: sum("pod_binding"), status_patches: sum("pod_status_patch") })
}

fn scraper(port: u16) -> anyhow::Result<Client> {
    let mut config = Config::new(format!("https://127.0.0.1:{port}").parse()?);
    // The certificate of the daemon is signed by itself.
    config.accept_invalid_certs = true;
    Ok(Client::try_from(config)?)
}

/// Returns the median time of a scrape of `/metrics` on this port, over one connection.
pub(crate) async fn scrape(port: u16) -> anyhow::Result<Duration> {
    let client = scraper(port)?;
    let mut times = Vec::with_capacity(SCRAPES);
    for _ in 0..SCRAPES {
        let started = now();
        let text = client.request_text(Request::get("/metrics").body(Vec::new())?).await?;
        times.push(started.elapsed());
        ensure!(text.contains("scheduler_cache_size"), "the metrics lack the size of the cache");
    }
    times.sort();
    Ok(times[SCRAPES / 2])
}

/// A client with the rights of the administrator.
pub(crate) struct Admin(Client);

impl Admin {
    pub(crate) async fn connect(kubeconfig: &Path) -> anyhow::Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        Ok(Self(Client::try_from(config)?))
    }

    /// Waits until this number of pods exists.
    pub(crate) async fn until_pods_exist(&self, count: usize) -> anyhow::Result<()> {
        let pods = Api::<Pod>::all(self.0.clone());
        for _ in 0..LOOKS {
            if number_of(&pods).await? >= count {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        bail!("the controllers did not make {count} pods")
    }

    /// Replaces the faults of the sandbox.
    pub(crate) async fn set_faults(&self, faults: &Value) -> anyhow::Result<()> {
        let request = Request::put("/sandbox/faults").body(faults.to_string().into_bytes())?;
        self.0.request_text(request).await?;
        Ok(())
    }

    /// Waits until every pod has a node.
    pub(crate) async fn until_all_are_bound(&self) -> anyhow::Result<()> {
        until_bound(&Api::all(self.0.clone())).await
    }

    /// Waits until every pod of a namespace has a node.
    pub(crate) async fn until_all_are_bound_in(&self, namespace: &str) -> anyhow::Result<()> {
        until_bound(&Api::namespaced(self.0.clone(), namespace)).await
    }

    /// Waits until this number of events exists.
    pub(crate) async fn until_events_exist(&self, count: usize) -> anyhow::Result<()> {
        let events = Api::<Event>::all(self.0.clone());
        for _ in 0..LOOKS {
            if number_of(&events).await? >= count {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        bail!("{count} events were not written")
    }

    /// Waits until one of the pending pods has a node.
    pub(crate) async fn until_one_is_bound(&self) -> anyhow::Result<()> {
        let pods = Api::<Pod>::namespaced(self.0.clone(), WAITING);
        // A list would look at all pending pods each time.
        let bound = pods.watch(&WatchParams::default().fields("spec.nodeName!="), "0").await?;
        let mut bound = pin!(bound);
        while let Some(event) = bound.try_next().await? {
            if matches!(event, WatchEvent::Added(_) | WatchEvent::Modified(_)) {
                return Ok(());
            }
        }
        bail!("no pod was bound")
    }

    /// Returns the number of events.
    pub(crate) async fn count_events(&self) -> anyhow::Result<usize> {
        number_of(&Api::<Event>::all(self.0.clone())).await
    }

    /// Waits until another process than this one holds the Lease.
    pub(crate) async fn until_lease_is_not_held_by(&self, holder: &str) -> anyhow::Result<()> {
        let leases = Api::<Lease>::namespaced(self.0.clone(), "kube-system");
        for _ in 0..LOOKS {
            let lease = leases.get("kube-scheduler").await?;
            let holds = lease.spec.and_then(|spec| spec.holder_identity);
            if holds.is_some_and(|holds| holds != holder) {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        bail!("no process takes the Lease of {holder:?}")
    }

    /// Deletes nodes, the pods of the namespace [`WAITING`], and the Lease.
    pub(crate) async fn clear(&self) -> anyhow::Result<()> {
        let pods = Api::<Pod>::namespaced(self.0.clone(), WAITING);
        let (now, all) = (DeleteParams::default().grace_period(0), ListParams::default());
        pods.delete_collection(&now, &all).await?;
        Api::<Node>::all(self.0.clone()).delete_collection(&now, &all).await?;
        let leases = Api::<Lease>::namespaced(self.0.clone(), "kube-system");
        leases.delete_collection(&now, &all).await?;
        Ok(())
    }

    /// Creates nodes, pods of the namespace [`WAITING`] and Leases.
    pub(crate) async fn create_mixed(&self, objects: Vec<Value>) -> anyhow::Result<()> {
        let namespace = serde_json::from_value(json!({ "metadata": { "name": WAITING } }))?;
        let namespaces = Api::<Namespace>::all(self.0.clone());
        match namespaces.create(&PostParams::default(), &namespace).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            created => drop(created?),
        }
        let (pods, others): (Vec<Value>, Vec<Value>) =
            objects.into_iter().partition(|object| object["kind"] == "Pod");
        let (nodes, leases): (Vec<Value>, Vec<Value>) =
            others.into_iter().partition(|object| object["kind"] == "Node");
        self.create_nodes(nodes).await?;
        let leases_of = |client| Api::<Lease>::namespaced(client, "kube-system");
        self.create_all(leases_of, leases.into_iter()).await?;
        self.create_at_once(pods.into_iter()).await
    }

    /// Creates nodes that are ready. A real API server taints new nodes as not ready, and takes
    /// their status only in a request of its own.
    async fn create_nodes(&self, nodes: Vec<Value>) -> anyhow::Result<()> {
        self.create_all(Api::<Node>::all, nodes.iter().cloned()).await?;
        let api = &Api::<Node>::all(self.0.clone());
        let patches = stream::iter(nodes).map(|node| async move {
            let name = node["metadata"]["name"].as_str().unwrap_or_default();
            let params = PatchParams::default();
            let ready = Patch::Merge(json!({ "spec": { "taints": null } }));
            api.patch(name, &params, &ready).await?;
            let status = Patch::Merge(json!({ "status": node["status"] }));
            api.patch_status(name, &params, &status).await.map(drop)
        });
        Ok(patches.buffer_unordered(REQUESTS).try_collect().await?)
    }

    /// Creates objects of one kind, as fast as the server accepts them.
    pub(crate) async fn create_all<K>(
        &self,
        api: impl Fn(Client) -> Api<K>,
        objects: impl Iterator<Item = Value>,
    ) -> anyhow::Result<()>
    where
        K: Clone + Debug + Serialize + DeserializeOwned,
    {
        let api = api(self.0.clone());
        let creations = stream::iter(objects).map(|object| async {
            let object: K = serde_json::from_value(object)?;
            api.create(&PostParams::default(), &object).await?;
            Ok(())
        });
        creations.buffer_unordered(REQUESTS).try_collect().await
    }

    /// Creates pods at this rate per second.
    pub(crate) async fn create_pods(
        &self,
        pods: impl Iterator<Item = Value>,
        rate: u32,
    ) -> anyhow::Result<()> {
        let mut turns = tokio::time::interval(Duration::from_secs(1) / rate);
        let mut creations = JoinSet::new();
        for pod in pods {
            let pod: Pod = serde_json::from_value(pod)?;
            let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
            let api = Api::<Pod>::namespaced(self.0.clone(), namespace);
            turns.tick().await;
            creations.spawn(async move { api.create(&PostParams::default(), &pod).await });
        }
        while let Some(created) = creations.join_next().await {
            created??;
        }
        Ok(())
    }

    /// Creates pods in the namespace [`WAITING`], as fast as the server accepts them.
    pub(crate) async fn create_at_once(
        &self,
        pods: impl Iterator<Item = Value>,
    ) -> anyhow::Result<()> {
        self.create_all(|client| Api::<Pod>::namespaced(client, WAITING), pods).await
    }

    /// Deletes pods of the namespace [`WAITING`] without a grace period.
    pub(crate) async fn delete_pods(
        &self,
        names: impl Iterator<Item = String>,
    ) -> anyhow::Result<()> {
        let pods = &Api::<Pod>::namespaced(self.0.clone(), WAITING);
        let now = &DeleteParams::default().grace_period(0);
        let deletions =
            stream::iter(names).map(|name| async move { pods.delete(&name, now).await.map(drop) });
        Ok(deletions.buffer_unordered(REQUESTS).try_collect().await?)
    }

    /// Returns the number of pods in a namespace.
    pub(crate) async fn count_pods(&self, namespace: &str) -> anyhow::Result<usize> {
        number_of(&Api::<Pod>::namespaced(self.0.clone(), namespace)).await
    }

    /// Updates the conditions of nodes and of running pods in turn, as kubelets do.
    pub(crate) async fn renew_conditions(
        &self,
        rounds: usize,
        nodes: usize,
        pods: usize,
    ) -> anyhow::Result<()> {
        let renewals = stream::iter(0..rounds).map(|round| async move {
            self.renew_node(&node_name(round % nodes), round).await?;
            self.renew_pod(&pod_name(round % pods), round).await
        });
        Ok(renewals.buffer_unordered(REQUESTS).try_collect().await?)
    }

    async fn renew_node(&self, name: &str, round: usize) -> kube::Result<()> {
        let patch = Patch::Strategic(condition("lastHeartbeatTime", round));
        let nodes = Api::<Node>::all(self.0.clone());
        nodes.patch_status(name, &PatchParams::default(), &patch).await.map(drop)
    }

    async fn renew_pod(&self, name: &str, round: usize) -> kube::Result<()> {
        let patch = Patch::Strategic(condition("lastProbeTime", round));
        let pods = Api::<Pod>::namespaced(self.0.clone(), "apps");
        pods.patch_status(name, &PatchParams::default(), &patch).await.map(drop)
    }
}

async fn number_of<K>(objects: &Api<K>) -> anyhow::Result<usize>
where
    K: Clone + Debug + DeserializeOwned,
{
    let page = objects.list(&ListParams::default().limit(1)).await?;
    let remaining = page.metadata.remaining_item_count.unwrap_or_default();
    Ok(page.items.len() + usize::try_from(remaining)?)
}

async fn until_bound(pods: &Api<Pod>) -> anyhow::Result<()> {
    let unbound = ListParams::default().fields("spec.nodeName=").limit(1);
    for _ in 0..LOOKS {
        if pods.list(&unbound).await?.items.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
    bail!("some pods are not bound")
}

/// Returns the heartbeat of a kubelet: only the time differs.
fn condition(when: &str, round: usize) -> Value {
    let (hours, minutes, seconds) = (round / 3600 % 24, round / 60 % 60, round % 60);
    let time = format!("2026-11-21T{hours:02}:{minutes:02}:{seconds:02}Z");
    json!({ "status": { "conditions": [{ "type": "Ready", "status": "True", when: time }] } })
}
