//! Snapshots of the cache for endpoints and debugging.
//!
//! The scheduling loop copies a few references per round, so that a snapshot of a large cluster
//! delays no decision noticeably. The parts of a snapshot may therefore differ in time.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use control::scheduler::Scheduler;
use engine::queue::PendingPodCounts;
use framework::{Behaviours, Handle, NodeIx, Pod, PodKey, Resources, Time, Uid};
use tokio::sync::oneshot;

/// Number of pods and nodes copied per round of the loop. A node is copied with all its pods.
const SLICE: usize = 256;

/// The pods and nodes in the cache, at slightly different times.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The nodes and their pods. A node that was deleted is listed as long as it has pods.
    pub nodes: Vec<NodeSnapshot>,
    /// The pods without a node that a profile is responsible for, as the API server has them. An
    /// assumed pod is also on its node.
    pub pending: Vec<Arc<Pod>>,
    /// The numbers of pods in the queue at the end of the copy.
    pub queue: PendingPodCounts,
    /// The number of pods in groups whose PodGroup does not exist.
    pub incomplete_members: usize,
    /// The behaviours of the level that is followed.
    pub behaviours: Behaviours,
    /// Whether every watch has synced.
    pub synced: bool,
    /// Whether this replica leads at the end of the copy, or there is no leader election.
    pub leads: bool,
}

/// A node and its pods.
#[derive(Debug)]
pub struct NodeSnapshot {
    /// Name.
    pub name: Arc<str>,
    /// Whether the node exists.
    pub exists: bool,
    /// The sum of the requests of the pods.
    pub requested: Resources,
    /// The allocatable resources.
    pub allocatable: Resources,
    /// Maximum number of pods.
    pub allowed_pods: i64,
    /// The pods on the node, assumed pods among them.
    pub pods: Vec<Arc<Pod>>,
    /// The pods that are nominated to the node.
    pub nominated: Vec<Arc<Pod>>,
}

impl NodeSnapshot {
    /// Returns `None` for an id that is not in use.
    fn of(node: NodeIx, handle: &Handle<'_>) -> Option<Self> {
        let cluster = handle.cluster;
        let (view, exists) = (cluster.node(node), cluster.nodes().contains(node));
        let pods: Vec<_> = view.pods().cloned().collect();
        if !exists && pods.is_empty() {
            return None;
        }
        let object = cluster.to_node(node);
        let requested = |name: &Arc<str>| (name.clone(), view.scalar(name).requested);
        let scalars = object.allocatable.scalars.iter().map(|(name, _)| requested(name)).collect();
        Some(Self {
            exists,
            requested: Resources { scalars, ..view.requested() },
            allocatable: object.allocatable,
            allowed_pods: object.allowed_pods,
            pods,
            nominated: handle.nominated.nominated_to(&object.name),
            name: object.name,
        })
    }
}

impl Snapshot {
    /// Returns each pod once. Of two versions of a pod, returns the newer one, and the pending one
    /// if the pod is only assumed on its node.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        let placed = || self.nodes.iter().flat_map(|node| &node.pods);
        let pending: HashMap<&Uid, u64> =
            self.pending.iter().map(|pod| (&pod.uid, pod.resource_version)).collect();
        let is_newer = move |pod: &Arc<Pod>| {
            pending.get(&pod.uid).map(|version| *version < pod.resource_version)
        };
        let bound: HashSet<&Uid> =
            placed().filter(|pod| is_newer(pod) == Some(true)).map(|pod| &pod.uid).collect();
        let pending = self.pending.iter().filter(move |pod| !bound.contains(&pod.uid));
        placed().filter(move |pod| is_newer(pod) != Some(false)).chain(pending)
    }
}

/// A snapshot in progress. Pending pods are copied first, so that a pod that is bound meanwhile is
/// not missed.
#[derive(Debug, Default)]
struct Copying {
    snapshot: Snapshot,
    /// The last pending pod that was copied.
    last_pending: Option<PodKey>,
    all_pending: bool,
    /// Index of the next node to copy.
    next_node: usize,
}

impl Copying {
    /// Copies a slice. Returns whether the snapshot is complete.
    fn advance(&mut self, handle: &Handle<'_>) -> bool {
        match self.all_pending {
            false => self.copy_pending(handle),
            true => self.copy_nodes(handle),
        }
        self.all_pending && self.next_node >= handle.cluster.table_len()
    }

    fn copy_pending(&mut self, handle: &Handle<'_>) {
        let start = self.last_pending.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = handle.pending.range((start, Bound::Unbounded));
        let copied = self.snapshot.pending.len();
        self.snapshot.pending.extend(rest.by_ref().take(SLICE).map(|(_, pod)| pod.clone()));
        self.all_pending = rest.next().is_none();
        self.last_pending = self.snapshot.pending[copied..]
            .last()
            .map(|pod| pod.key.clone())
            .or(self.last_pending.take());
    }

    fn copy_nodes(&mut self, handle: &Handle<'_>) {
        let mut copied = 0;
        while copied < SLICE && self.next_node < handle.cluster.table_len() {
            let node = NodeSnapshot::of(NodeIx::new(self.next_node), handle);
            copied += 1 + node.as_ref().map_or(0, |node| node.pods.len());
            self.snapshot.nodes.extend(node);
            self.next_node += 1;
        }
    }
}

/// The channel to the receiver of a snapshot.
type Receiver = oneshot::Sender<Arc<Snapshot>>;

/// The requested snapshots. At most one is in progress; requests that arrive meanwhile share the
/// next.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    waiting: Vec<Receiver>,
    current: Option<(Copying, Vec<Receiver>)>,
}

impl Snapshots {
    pub(super) fn request(&mut self, receiver: Receiver) {
        self.waiting.push(receiver);
    }

    /// Returns whether all requests have been answered.
    pub(super) const fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.current.is_none()
    }

    /// Copies a slice of the snapshot in progress, if there is one.
    pub(super) fn advance(&mut self, scheduler: &Scheduler, now: Time) {
        if self.is_idle() {
            return;
        }
        let waiting = &mut self.waiting;
        let (copying, _) =
            self.current.get_or_insert_with(|| (Copying::default(), std::mem::take(waiting)));
        if copying.advance(&scheduler.engine().handle(now))
            && let Some((copying, receivers)) = self.current.take()
        {
            let (queue, world) = (scheduler.engine().queue(), scheduler.engine().world());
            let snapshot = Snapshot {
                queue: queue.counts(),
                incomplete_members: queue.incomplete_members(world.cluster()),
                behaviours: scheduler.engine().profiles().behaviours(),
                synced: scheduler.has_synced(),
                leads: scheduler.may_act(now),
                ..copying.snapshot
            };
            let snapshot = Arc::new(snapshot);
            for receiver in receivers {
                // The receiver may have given up.
                let _ = receiver.send(snapshot.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use framework::{Cluster, PendingPods};
    use testkit::{HandleParts, PodBuilder, cluster, node, pod};

    use super::*;

    const PENDING: usize = 3 * SLICE + 1;

    fn of_version(pod: PodBuilder, version: u64) -> Pod {
        Pod { resource_version: version, ..pod.build() }
    }

    fn pending(pods: impl IntoIterator<Item = Pod>) -> PendingPods {
        pods.into_iter().map(|pod| (pod.key.clone(), Arc::new(pod))).collect()
    }

    fn parts(pods: impl IntoIterator<Item = Pod>) -> HandleParts {
        HandleParts { pending: pending(pods), ..HandleParts::default() }
    }

    fn copy(parts: &HandleParts, cluster: &Cluster) -> Snapshot {
        let mut copying = Copying::default();
        while !copying.advance(&parts.handle(cluster)) {}
        copying.snapshot
    }

    #[test]
    fn slices_add_up_to_all_pods_and_nodes() {
        let nodes = (0..300).map(|number| node(&format!("n{number}")).build());
        let pods = (0..700).map(|number| {
            pod(&format!("p{number}")).on(&format!("n{}", number % 310)).cpu("1").build()
        });
        let cluster = cluster(nodes, pods);
        let parts = parts((0..PENDING).map(|number| pod(&format!("w{number}")).build()));
        let (mut copying, mut slices) = (Copying::default(), 1);
        while !copying.advance(&parts.handle(&cluster)) {
            slices += 1;
        }
        assert!(slices >= 4 + (700 + 300) / SLICE, "{slices} slices");
        let snapshot = copying.snapshot;
        assert_eq!((snapshot.nodes.len(), snapshot.pending.len()), (310, PENDING));
        assert_eq!(snapshot.pods().count(), 700 + PENDING);
        let node = |name: &str| snapshot.nodes.iter().find(|node| &*node.name == name).unwrap();
        assert!(node("n7").exists && !node("n307").exists);
        assert_eq!(node("n7").requested.milli_cpu, 3000);
    }

    #[test]
    fn newer_version_of_a_pod_counts_and_a_pending_one_if_equal() {
        let placed =
            [of_version(pod("assumed").on("n"), 5), of_version(pod("bound-meanwhile").on("n"), 6)];
        let cluster = cluster([node("n").build()], placed);
        let parts =
            parts(["assumed", "bound-meanwhile", "waits"].map(|name| of_version(pod(name), 5)));
        let snapshot = copy(&parts, &cluster);
        let mut nodes: Vec<_> =
            snapshot.pods().map(|pod| (&*pod.key.name, pod.node_name.as_deref())).collect();
        nodes.sort_unstable();
        assert_eq!(nodes, [("assumed", None), ("bound-meanwhile", Some("n")), ("waits", None)]);
    }

    #[test]
    fn pod_that_is_bound_between_slices_is_not_missed() {
        let cluster_before = cluster([node("n").build()], []);
        let before = parts((0..=SLICE).map(|number| of_version(pod(&format!("w{number:04}")), 1)));
        let mut copying = Copying::default();
        assert!(!copying.advance(&before.handle(&cluster_before)));
        // The last pod, which is not copied yet, and the first one, which is, are bound.
        let bound = ["w0000", &format!("w{SLICE:04}")].map(|name| of_version(pod(name).on("n"), 2));
        let after =
            parts(before.pending.values().skip(1).take(SLICE - 1).map(|pod| Pod::clone(pod)));
        let cluster_after = cluster([node("n").build()], bound);
        while !copying.advance(&after.handle(&cluster_after)) {}
        let names: HashSet<_> = copying.snapshot.pods().map(|pod| pod.key.name.clone()).collect();
        assert_eq!((names.len(), copying.snapshot.pods().count()), (SLICE + 1, SLICE + 1));
    }

    #[test]
    fn empty_cluster_has_an_empty_snapshot() {
        let snapshot = copy(&HandleParts::default(), &Cluster::default());
        assert!(snapshot.nodes.is_empty() && snapshot.pods().next().is_none());
    }
}
