//! The pods as a watch shows them: which are scheduled, which were tried.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::bail;
use futures::TryStreamExt;
use kube::core::WatchEvent;
use serde::Deserialize;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::api::{Api, List, Place};

/// Pause before a watch that broke starts again.
const RETRY: Duration = Duration::from_millis(100);
/// Number of failed lists and watches in a row after which the API server counts as gone.
const FAILURES: usize = 50;

/// Labels that a pod must have.
pub(crate) type Labels = BTreeMap<String, String>;

/// A pod, as far as it matters here.
#[derive(Debug, Clone, Deserialize)]
struct ObservedPod {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: String,
    resource_version: String,
    #[serde(default)]
    labels: Labels,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    message: String,
}

/// The pods of the cluster, followed in the background until dropped.
pub(crate) struct Pods {
    state: Arc<Mutex<State>>,
    following: JoinHandle<()>,
}

impl Drop for Pods {
    fn drop(&mut self) {
        self.following.abort();
    }
}

#[derive(Default)]
struct State {
    namespaces: HashMap<String, HashMap<String, Known>>,
    counter: Option<Counter>,
    steady: Option<(String, UnboundedSender<String>)>,
    failure: Option<String>,
}

/// A known pod.
struct Known {
    labels: Labels,
    progress: Progress,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    Waiting,
    /// The message of its condition `PodScheduled`.
    Attempted(String),
    Scheduled,
}

/// Counts the pods that are scheduled during a measurement.
#[derive(Debug, Clone)]
pub(crate) struct Counter {
    namespaces: Vec<String>,
    labels: Labels,
    /// Number of scheduled pods.
    pub(crate) scheduled: usize,
    /// When the last one was seen.
    pub(crate) last: Option<Instant>,
}

/// Numbers of pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) scheduled: usize,
    pub(crate) attempted: usize,
    /// A pod without a node, and why.
    pub(crate) example: Option<String>,
}

impl Pods {
    /// Follows the pods of the cluster.
    pub(crate) async fn follow(api: Api) -> anyhow::Result<Self> {
        let state = Arc::new(Mutex::new(State::default()));
        let place = api.kind("v1", "Pod").await?.everywhere();
        let following = tokio::spawn(follow(api, place, state.clone()));
        Ok(Self { state, following })
    }

    /// Counts the pods of a namespace with these labels.
    pub(crate) fn count(&self, namespace: &str, labels: &Labels) -> anyhow::Result<Counts> {
        let state = lock(&self.state);
        if let Some(failure) = &state.failure {
            bail!("{failure}");
        }
        let mut counts = Counts::default();
        let pods = state.namespaces.get(namespace).into_iter().flatten();
        for (name, pod) in pods.filter(|(_, pod)| has(&pod.labels, labels)) {
            let why = match &pod.progress {
                Progress::Scheduled => {
                    counts.scheduled += 1;
                    continue;
                }
                Progress::Attempted(message) => {
                    counts.attempted += 1;
                    message
                }
                Progress::Waiting => "not tried",
            };
            counts.example.get_or_insert_with(|| format!("{namespace}/{name}: {why}"));
        }
        Ok(counts)
    }

    /// Starts to count.
    pub(crate) fn start_counter(&self, namespaces: Vec<String>, labels: Labels) {
        let counter = Counter { namespaces, labels, scheduled: 0, last: None };
        lock(&self.state).counter = Some(counter);
    }

    /// Returns what has been counted.
    pub(crate) fn counter(&self) -> Option<Counter> {
        lock(&self.state).counter.clone()
    }

    /// Returns the names of the pods of a namespace that get a node from now on.
    pub(crate) fn scheduled_in(&self, namespace: &str) -> UnboundedReceiver<String> {
        let (sender, receiver) = unbounded_channel();
        lock(&self.state).steady = Some((namespace.to_owned(), sender));
        receiver
    }
}

impl State {
    fn see(&mut self, pod: ObservedPod) {
        let Metadata { name, namespace, labels, .. } = pod.metadata;
        let is_scheduled = pod.spec.node_name.is_some_and(|node| !node.is_empty());
        let untrue =
            |condition: &Condition| condition.kind == "PodScheduled" && condition.status == "False";
        let progress = match pod.status.conditions.into_iter().find(untrue) {
            _ if is_scheduled => Progress::Scheduled,
            Some(condition) => Progress::Attempted(condition.message),
            None => Progress::Waiting,
        };
        let pods = self.namespaces.entry(namespace.clone()).or_default();
        let before = pods.get(&name).map(|pod| pod.progress == Progress::Scheduled);
        if is_scheduled && before != Some(true) {
            if let Some(counter) = &mut self.counter
                && counter.namespaces.contains(&namespace)
                && has(&labels, &counter.labels)
            {
                counter.scheduled += 1;
                counter.last = Some(Instant::now());
            }
            if let Some((wanted, sender)) = &self.steady
                && *wanted == namespace
                && sender.send(name.clone()).is_err()
            {
                self.steady = None;
            }
        }
        pods.insert(name, Known { labels, progress });
    }

    fn forget(&mut self, pod: &ObservedPod) {
        if let Some(pods) = self.namespaces.get_mut(&pod.metadata.namespace) {
            pods.remove(&pod.metadata.name);
        }
    }
}

async fn follow(api: Api, place: Place, state: Arc<Mutex<State>>) {
    let mut failures = 0;
    while failures < FAILURES {
        match list_and_watch(&api, &place, &state, &mut failures).await {
            Ok(()) => failures = 0,
            Err(error) => {
                failures += 1;
                lock(&state).failure = (failures == FAILURES).then(|| format!("{error:#}"));
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Lists the pods, and watches them until the API server asks for another list.
async fn list_and_watch(
    api: &Api,
    place: &Place,
    state: &Mutex<State>,
    failures: &mut usize,
) -> anyhow::Result<()> {
    let list: List<ObservedPod> = api.list(place, &Labels::new()).await?;
    let mut version = list.metadata.resource_version;
    {
        let mut state = lock(state);
        let mut before = std::mem::take(&mut state.namespaces);
        for pod in list.items {
            let Metadata { name, namespace, .. } = &pod.metadata;
            if let Some(known) = before.get_mut(namespace).and_then(|pods| pods.remove(name)) {
                state.namespaces.entry(namespace.clone()).or_default().insert(name.clone(), known);
            }
            state.see(pod);
        }
    }
    loop {
        let events = api.watch::<ObservedPod>(place, &version).await?;
        *failures = 0;
        let mut events = std::pin::pin!(events);
        while let Ok(Some(event)) = events.try_next().await {
            match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                    version.clone_from(&pod.metadata.resource_version);
                    lock(state).see(pod);
                }
                WatchEvent::Deleted(pod) => {
                    version.clone_from(&pod.metadata.resource_version);
                    lock(state).forget(&pod);
                }
                WatchEvent::Bookmark(mark) => version = mark.metadata.resource_version,
                WatchEvent::Error(_) => return Ok(()),
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn has(labels: &Labels, wanted: &Labels) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Locks the state. A panic leaves it usable.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
