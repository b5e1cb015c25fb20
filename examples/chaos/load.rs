//! A load that changes all the time: pods with every kind of constraint come, end and are deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::bail;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::rules::{ZONE, milli_cpu, node_of};

const NAMESPACE: &str = "default";
const URGENT: &str = "chaos-urgent";
const CLASS: &str = "chaos-volumes";
/// The pool of half of the nodes, whose taint only some pods tolerate.
const POOL: &str = "chaos/pool";
/// CPU of a node.
const NODE_MILLI_CPU: u64 = 4000;
/// Number of pods at which no more are created, for each node.
const PODS_PER_NODE: usize = 14;
/// Time limit of a request of the load itself, which faults concern, too.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a pod demands beside CPU.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Plain,
    Tolerating,
    Selecting,
    Spread,
    Apart,
    HostPort,
    Urgent,
    Volume,
    Gated,
    Huge,
}

const KINDS: [Kind; 10] = [
    Kind::Plain,
    Kind::Tolerating,
    Kind::Selecting,
    Kind::Spread,
    Kind::Apart,
    Kind::HostPort,
    Kind::Urgent,
    Kind::Volume,
    Kind::Gated,
    Kind::Huge,
];

/// The creator of pods and nodes.
pub(crate) struct Load {
    client: Client,
    rng: fastrand::Rng,
    created: u64,
}

impl Load {
    pub(crate) fn new(client: Client, seed: u64) -> Self {
        Self { client, rng: fastrand::Rng::with_seed(seed), created: 0 }
    }

    /// Creates nodes in three zones, half of them tainted, and what the pods refer to.
    pub(crate) async fn create_nodes(&self, count: usize) -> anyhow::Result<()> {
        let post = PostParams::default();
        let class = typed::<StorageClass>(json!({
            "metadata": {"name": CLASS}, "provisioner": "chaos.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        }))?;
        Api::all(self.client.clone()).create(&post, &class).await?;
        let urgent = typed::<PriorityClass>(json!({"metadata": {"name": URGENT}, "value": 1000}))?;
        Api::all(self.client.clone()).create(&post, &urgent).await?;
        let nodes: Api<Node> = Api::all(self.client.clone());
        for number in 0..count {
            let name = format!("node-{number}");
            let pool = if number % 2 == 0 { "open" } else { "closed" };
            let node = typed::<Node>(json!({"metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, POOL: pool, ZONE: format!("zone-{}", number % 3),
            }}}))?;
            nodes.create(&post, &node).await?;
            let taints = match pool {
                "open" => json!([]),
                _ => json!([{"key": POOL, "value": pool, "effect": "NoSchedule"}]),
            };
            // The API server taints new nodes as not ready, and accepts their status only in a request
            // of its own.
            let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
            nodes.patch(&name, &PatchParams::default(), &patch).await?;
            let room =
                json!({"cpu": format!("{NODE_MILLI_CPU}m"), "memory": "64Gi", "pods": "110"});
            let ready = json!([{"type": "Ready", "status": "True", "reason": "KubeletReady"}]);
            let status =
                json!({"status": {"capacity": room, "allocatable": room, "conditions": ready}});
            nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
        }
        Ok(())
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

    /// Returns the pods that are neither bound nor explained, and those that would fit a node.
    pub(crate) async fn unsettled(&self) -> anyhow::Result<Vec<String>> {
        let all = ListParams::default();
        let pods = self.pods().list(&all).await?.items;
        let nodes = Api::<Node>::all(self.client.clone()).list(&all).await?.items;
        let mut free: BTreeMap<&str, u64> = nodes
            .iter()
            .filter(|node| label(node.metadata.labels.as_ref(), POOL) == Some("open"))
            .filter_map(|node| Some((node.metadata.name.as_deref()?, NODE_MILLI_CPU)))
            .collect();
        for pod in pods.iter().filter(|pod| !has_ended(pod)) {
            if let Some(free) = node_of(pod).and_then(|node| free.get_mut(node)) {
                *free = free.saturating_sub(milli_cpu(pod));
            }
        }
        let most = free.into_values().max().unwrap_or(0);
        let pending = pods.iter().filter(|pod| node_of(pod).is_none() && !has_ended(pod));
        let problems = pending.filter_map(|pod| {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            match explanation(pod) {
                None => Some(format!("{name} has no explanation")),
                Some(text) if is_plain(pod) && milli_cpu(pod) <= most => {
                    Some(format!("{name} would fit a node with {most}m free, but says {text:?}"))
                }
                Some(_) => None,
            }
        });
        Ok(problems.collect())
    }

    /// Checks that no pod has two `Scheduled` events.
    pub(crate) async fn assert_bound_once(&self) -> anyhow::Result<()> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut seen = BTreeSet::new();
        for event in events.list(&ListParams::default()).await?.items {
            let pod = event.regarding.and_then(|pod| pod.uid);
            if event.reason.as_deref() == Some("Scheduled") && !seen.insert(pod.clone()) {
                bail!("the pod with the UID {pod:?} has two events Scheduled");
            }
        }
        Ok(())
    }

    async fn create_pod(&mut self) -> anyhow::Result<()> {
        let kind = KINDS[self.rng.usize(..KINDS.len())];
        let name = format!("{}-{}", format!("{kind:?}").to_lowercase(), self.created);
        self.created += 1;
        let mut pod = json!({
            "metadata": {"name": name, "labels": {"kind": format!("{kind:?}")}},
            "spec": {
                "schedulerName": "loadmaster",
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "pause",
                    "image": "registry.k8s.io/pause:3.10",
                    "resources": {"requests": {"cpu": format!("{}m", self.rng.u64(1..=8) * 100)}},
                }],
            },
        });
        if self.rng.bool() {
            let seconds = self.rng.u64(2..40).to_string();
            pod["metadata"]["annotations"] = json!({"sandbox.loadmaster.dev/run-seconds": seconds});
        }
        if let Kind::Volume = kind {
            let claim = typed::<PersistentVolumeClaim>(json!({
                "metadata": {"name": name},
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": CLASS,
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }))?;
            let claims = Api::namespaced(self.client.clone(), NAMESPACE);
            claims.create(&PostParams::default(), &claim).await?;
        }
        constrain(&mut pod, kind);
        self.pods().create(&PostParams::default(), &typed(pod)?).await?;
        Ok(())
    }

    async fn delete_pod(&self, pod: &Pod) -> anyhow::Result<()> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
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

/// Adds the demands of this kind to a pod.
fn constrain(pod: &mut Value, kind: Kind) {
    let name = pod["metadata"]["name"].clone();
    let same_kind = json!({"matchLabels": {"kind": format!("{kind:?}")}});
    let spec = &mut pod["spec"];
    match kind {
        Kind::Plain => {}
        Kind::Tolerating => spec["tolerations"] = json!([{"key": POOL, "operator": "Exists"}]),
        Kind::Selecting => spec["nodeSelector"] = json!({ZONE: "zone-1"}),
        Kind::Spread => {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": same_kind,
            }]);
        }
        Kind::Apart => {
            spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": same_kind}]);
        }
        Kind::HostPort => {
            spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
        }
        Kind::Urgent => spec["priorityClassName"] = URGENT.into(),
        Kind::Volume => {
            spec["volumes"] =
                json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
        }
        Kind::Gated => spec["schedulingGates"] = json!([{"name": "example.com/quota"}]),
        Kind::Huge => spec["containers"][0]["resources"]["requests"]["cpu"] = "64".into(),
    }
}

/// Returns why the pod has no node, as `kubectl describe` shows it.
fn explanation(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|condition| condition.type_ == "PodScheduled")?;
    let message = scheduled.message.as_deref().filter(|text| !text.is_empty());
    message.filter(|_| scheduled.status == "False")
}

/// Whether the pod demands nothing but CPU on a node without taints.
fn is_plain(pod: &Pod) -> bool {
    label(pod.metadata.labels.as_ref(), "kind") == Some("Plain")
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn label<'a>(labels: Option<&'a BTreeMap<String, String>>, key: &str) -> Option<&'a str> {
    labels?.get(key).map(String::as_str)
}

fn typed<K: serde::de::DeserializeOwned>(object: Value) -> anyhow::Result<K> {
    Ok(serde_json::from_value(object)?)
}
