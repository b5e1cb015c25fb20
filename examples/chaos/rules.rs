//! The rules that hold after every change, checked on a watch of all pods.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::bail;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use tokio_util::task::AbortOnDropHandle;

/// The label of a node with its zone.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
const RESOURCE: &str = "cpu";
const PAUSE: Duration = Duration::from_millis(50);
/// Longest time without a list.
const WATCH: Duration = Duration::from_secs(10);
/// The names of pods that another scheduler has bound begin with this.
pub(crate) const FOREIGN: &str = "foreign-";
/// Annotations of delegates begin with this.
pub(crate) const GROUP: &str = "supercluster.loadmaster.io";

/// A pod as the last event showed it.
#[derive(Debug, Clone)]
struct Seen {
    name: String,
    node: Option<String>,
    milli_cpu: u64,
    has_ended: bool,
    /// What pods of its kind may not share with each other.
    alone: Option<Alone>,
    /// Whether another scheduler has bound it, which checks nothing.
    is_foreign: bool,
    delegate: Option<Mark>,
}

/// What the annotations of a delegate say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// UID of the pod whose delegate it is.
    pub(crate) origin: String,
    /// The number of the attempt and of the candidate.
    pub(crate) number: String,
    /// Whether the pod may be placed anew if its cluster is lost.
    pub(crate) may_be_replaced: bool,
}

/// A delegate that was bound.
#[derive(Debug, Clone)]
pub(crate) struct Delegate {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) mark: Mark,
    /// Whether it exists and has not ended.
    pub(crate) runs: bool,
}

/// The kinds of which a node may have one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alone {
    AntiAffinity,
    HostPort,
}

/// What the watch has shown so far.
#[derive(Debug, Default)]
struct State {
    /// CPU of each node.
    nodes: BTreeMap<String, u64>,
    /// Pods by UID.
    pods: BTreeMap<String, Seen>,
    bound: u64,
    /// Delegates that were bound, by UID.
    delegates: BTreeMap<String, (String, Mark)>,
    violations: Vec<String>,
}

/// A watch of all pods. It ends when dropped.
pub(crate) struct Watcher {
    state: Arc<Mutex<State>>,
    _watching: AbortOnDropHandle<()>,
}

impl Watcher {
    pub(crate) async fn start(client: Client) -> anyhow::Result<Self> {
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items;
        let room = |node: &Node| {
            let room = node.status.as_ref()?.allocatable.as_ref()?.get(RESOURCE)?;
            Some((node.metadata.name.clone()?, milli(room)))
        };
        let state = State { nodes: nodes.iter().filter_map(room).collect(), ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let watching = tokio::spawn(watch(Api::all(client), state.clone()));
        Ok(Self { state, _watching: AbortOnDropHandle::new(watching) })
    }

    /// Fails if a rule is broken.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        match &lock(&self.state).violations[..] {
            [] => Ok(()),
            violations => bail!("{}", violations.join("; ")),
        }
    }

    /// Returns all delegates that were ever seen with a node.
    pub(crate) fn delegates(&self) -> Vec<Delegate> {
        let state = lock(&self.state);
        let delegates = state.delegates.iter().map(|(uid, (name, mark))| Delegate {
            name: name.clone(),
            uid: uid.clone(),
            mark: mark.clone(),
            runs: state.pods.get(uid).is_some_and(|pod| !pod.has_ended),
        });
        delegates.collect()
    }

    pub(crate) fn summary(&self) -> String {
        let state = lock(&self.state);
        let placed = state.pods.values().filter(|pod| pod.node.is_some()).count();
        format!("{} pods bound, {placed} of them still there", state.bound)
    }
}

async fn watch(pods: Api<Pod>, state: Arc<Mutex<State>>) {
    loop {
        // Trouble of the API server ends a list or a watch. The next list catches up.
        // So does the time limit: a watch that went silent shows nothing more.
        let _ = tokio::time::timeout(WATCH, list_and_watch(&pods, &state)).await;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn list_and_watch(pods: &Api<Pod>, state: &Mutex<State>) -> Result<(), kube::Error> {
    let listed = pods.list(&ListParams::default()).await?;
    let version = listed.metadata.resource_version.unwrap_or_default();
    lock(state).relist(&listed.items);
    let mut events = pin!(pods.watch(&WatchParams::default(), &version).await?);
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => lock(state).see(&pod),
            WatchEvent::Deleted(pod) => lock(state).forget(&pod),
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(_) => break,
        }
    }
    Ok(())
}

impl State {
    fn relist(&mut self, pods: &[Pod]) {
        let listed: Vec<_> = pods.iter().filter_map(|pod| pod.metadata.uid.clone()).collect();
        self.pods.retain(|uid, _| listed.contains(uid));
        // Nodes are checked last: a pod further down the list may have ended before this one was
        // bound.
        let bound: Vec<String> = pods.iter().filter_map(|pod| self.take_in(pod)).collect();
        bound.iter().for_each(|node| self.check_node(node));
    }

    fn forget(&mut self, pod: &Pod) {
        self.pods.remove(pod.metadata.uid.as_deref().unwrap_or_default());
    }

    fn see(&mut self, pod: &Pod) {
        if let Some(node) = self.take_in(pod) {
            self.check_node(&node);
        }
    }

    /// Handles the state of a pod. Returns the node to which it has been bound since the last one.
    fn take_in(&mut self, pod: &Pod) -> Option<String> {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let now = Seen::of(pod);
        if let (Some(mark), Some(_)) = (&now.delegate, &now.node) {
            self.delegates.insert(uid.clone(), (now.name.clone(), mark.clone()));
        }
        let before = self.pods.insert(uid, now.clone());
        let node_before = before.and_then(|before| before.node);
        match (&node_before, &now.node) {
            (Some(before), after) if after.as_ref() != Some(before) => {
                self.violations.push(format!("{} moved from {before} to {after:?}", now.name));
                None
            }
            (None, Some(node)) => {
                self.bound += 1;
                Some(node.clone())
            }
            _ => None,
        }
    }

    /// Checks a node to which a pod has been bound.
    fn check_node(&mut self, node: &str) {
        let placed = self.pods.values().filter(|pod| pod.node.as_deref() == Some(node));
        let live: Vec<&Seen> = placed.filter(|pod| !pod.has_ended && !pod.is_foreign).collect();
        let used: u64 = live.iter().map(|pod| pod.milli_cpu).sum();
        let room = self.nodes.get(node).copied().unwrap_or(0);
        let names = || live.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>().join(", ");
        if used > room {
            self.violations
                .push(format!("{node} has {room}m and is asked for {used}m by {}", names()));
        }
        for alone in [Alone::AntiAffinity, Alone::HostPort] {
            if live.iter().filter(|pod| pod.alone == Some(alone)).count() > 1 {
                self.violations.push(format!("{node} has two pods with {alone:?}: {}", names()));
            }
        }
    }
}

impl Seen {
    fn of(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let anti_affinity = spec
            .and_then(|spec| spec.affinity.as_ref())
            .is_some_and(|affinity| affinity.pod_anti_affinity.is_some());
        let mut containers = spec.into_iter().flat_map(|spec| &spec.containers);
        let host_port = containers.any(|container| container.ports.is_some());
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            node: node_of(pod).map(str::to_owned),
            milli_cpu: milli_cpu(pod),
            has_ended: matches!(phase, Some("Succeeded" | "Failed")),
            alone: match (anti_affinity, host_port) {
                (true, _) => Some(Alone::AntiAffinity),
                (_, true) => Some(Alone::HostPort),
                _ => None,
            },
            is_foreign: pod.metadata.name.as_deref().is_some_and(|name| name.starts_with(FOREIGN)),
            delegate: Mark::of(pod),
        }
    }
}

impl Mark {
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        Some(Self {
            origin: annotation(pod, "origin-uid")?.to_owned(),
            number: annotation(pod, "try")?.to_owned(),
            may_be_replaced: annotation(pod, "fence-after").is_some(),
        })
    }
}

/// Returns an annotation of a pod over many clusters, or of a delegate.
pub(crate) fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(&format!("{GROUP}/{name}")).map(String::as_str)
}

/// Returns the node of a pod, if it is bound.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Returns the CPU that a pod requests, in thousandths.
pub(crate) fn milli_cpu(pod: &Pod) -> u64 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let requests = containers.filter_map(|container| {
        container.resources.as_ref()?.requests.as_ref()?.get(RESOURCE).map(milli)
    });
    requests.sum()
}

/// Returns a quantity of the forms `4` and `500m` in thousandths.
fn milli(quantity: &Quantity) -> u64 {
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    match quantity.0.strip_suffix('m') {
        Some(milli) => number(milli),
        None => number(&quantity.0) * 1000,
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pods::typed;

    /// A node with room for four pods of one CPU.
    fn state() -> State {
        State { nodes: [("node-1".to_owned(), 4000)].into(), ..State::default() }
    }

    fn pod(number: u32, node: Option<&str>, phase: &str) -> Pod {
        typed(json!({
            "metadata": {"name": format!("pod-{number}"), "uid": number.to_string()},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
            },
            "status": {"phase": phase},
        }))
        .unwrap()
    }

    fn running(number: u32) -> Pod {
        pod(number, Some("node-1"), "Running")
    }

    #[test]
    fn node_with_more_pods_than_room_is_reported() {
        let mut state = state();
        (1..=4).for_each(|number| state.see(&running(number)));
        assert_eq!(state.violations, [""; 0]);

        state.see(&running(5));

        assert_eq!(
            state.violations,
            ["node-1 has 4000m and is asked for 5000m by pod-1, pod-2, pod-3, pod-4, pod-5"]
        );
    }

    #[test]
    fn pod_that_ended_further_down_a_list_takes_no_room() {
        let mut state = state();
        (2..=5).for_each(|number| state.see(&running(number)));

        // The watch did not show that pod-5 ended and that pod-1 got its room.
        let ended = pod(5, Some("node-1"), "Succeeded");
        state.relist(&[running(1), running(2), running(3), running(4), ended]);

        assert_eq!(state.violations, [""; 0]);
    }

    #[test]
    fn overcommitted_node_is_found_in_a_list() {
        let mut state = state();
        state.relist(&(1..=5).map(running).collect::<Vec<_>>());
        assert!(!state.violations.is_empty());
    }

    #[test]
    fn pod_that_left_its_node_is_reported() {
        let mut state = state();
        state.see(&running(1));
        state.see(&pod(1, None, "Pending"));
        assert_eq!(state.violations, ["pod-1 moved from node-1 to None"]);
    }
}
