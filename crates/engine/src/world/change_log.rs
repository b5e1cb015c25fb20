//! The change log: the latest changes of nodes and of the pods on them.

use std::collections::VecDeque;
use std::sync::Arc;

use framework::{ChangedNodes, NodeBits, NodeChange, NodeIx, PodIx};

/// Minimum number of entries that are kept. In a larger cluster it is one for each node: a reader that is
/// further behind does as well to look at every node.
const MIN_CAPACITY: usize = 65_536;

/// A list with fewer than one entry for this many nodes is sorted by comparisons. Otherwise a set of all nodes sorts it.
const MANY: usize = 64;
/// A list with fewer entries than this is sorted by comparisons in any cluster.
const FEW: usize = 16;

/// One change of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    /// The node.
    pub node: NodeIx,
    /// What changed about it.
    pub change: LoggedChange,
}

/// What changed about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggedChange {
    /// The node object.
    Node(NodeChange),
    /// A pod was placed on the node.
    PodPlaced(PodIx),
    /// A pod left the node. Its id may belong to another pod by now.
    PodGone(PodIx),
    /// The start time of a pod on the node changed. Filters and scores do not read it.
    PodStarted(PodIx),
}

/// The latest changes of nodes and placed pods. An update that changes nothing leaves no entry.
#[derive(Debug, Default)]
pub struct ChangeLog {
    entries: VecDeque<LogEntry>,
    /// State number of the first entry that is kept.
    first: u64,
    /// The length of the table of nodes.
    nodes: usize,
}

impl ChangeLog {
    /// Returns the number of the present state, which is the number of changes since the start.
    pub fn state(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Returns the length of the table of nodes.
    pub(crate) const fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns the changes that led from `state` to the present state, or `None` if some of them are no
    /// longer kept.
    pub fn since(&self, state: u64) -> Option<impl ExactSizeIterator<Item = LogEntry>> {
        let start = usize::try_from(state.checked_sub(self.first)?).ok()?;
        (start <= self.entries.len()).then(|| self.entries.range(start..).copied())
    }

    /// Returns the nodes that have changed since `state`, or `None` if some of the changes are no longer kept.
    pub fn changed_since(&self, state: u64) -> Option<ChangedNodes> {
        let entries = self.since(state)?;
        let mut changed = ChangedNodes::default();
        for LogEntry { node, change } in entries {
            match change {
                LoggedChange::Node(_) => {
                    changed.nodes.push(node);
                    changed.objects.push(node);
                }
                LoggedChange::PodPlaced(_) | LoggedChange::PodGone(_) => changed.nodes.push(node),
                LoggedChange::PodStarted(_) => changed.starts.push(node),
            }
        }
        let ChangedNodes { nodes, objects, starts } = &mut changed;
        [nodes, objects, starts].into_iter().for_each(|nodes| sort(nodes, self.nodes));
        Some(changed)
    }

    /// Returns a reader for one attempt.
    pub(crate) const fn reader(&self) -> LogReader<'_> {
        LogReader { log: self, last: None }
    }

    /// Adds a change of a node.
    #[cfg(test)]
    pub(crate) fn push_for_test(&mut self, node: NodeIx) {
        self.push(node, LoggedChange::Node(NodeChange::LABELS));
    }

    pub(super) fn push(&mut self, node: NodeIx, change: LoggedChange) {
        self.nodes = self.nodes.max(node.index() + 1);
        if self.entries.len() >= self.nodes.max(MIN_CAPACITY) {
            self.entries.pop_front();
            self.first += 1;
        }
        self.entries.push_back(LogEntry { node, change });
    }
}

/// Reads the log for one attempt. What is kept for a class mostly shows one state, since which the log is read once.
#[derive(Debug)]
pub(crate) struct LogReader<'l> {
    log: &'l ChangeLog,
    /// The state that was asked for last, and the answer.
    last: Option<(u64, Arc<ChangedNodes>)>,
}

impl LogReader<'_> {
    /// Returns the number of the present state.
    pub(crate) fn state(&self) -> u64 {
        self.log.state()
    }

    /// Returns the nodes that have changed since `state`, or `None` if some of the changes are no longer kept.
    pub(crate) fn changed_since(&mut self, state: u64) -> Option<Arc<ChangedNodes>> {
        if let Some((known, changed)) = &self.last
            && *known == state
        {
            return Some(changed.clone());
        }
        let changed = Arc::new(self.log.changed_since(state)?);
        self.last = Some((state, changed.clone()));
        Some(changed)
    }
}

/// Sorts nodes of a table of this length, and drops repetitions.
fn sort(nodes: &mut Vec<NodeIx>, table_len: usize) {
    if nodes.len() < (table_len / MANY).max(FEW) {
        nodes.sort_unstable();
        nodes.dedup();
        return;
    }
    let mut set = NodeBits::with_len(table_len);
    for node in nodes.drain(..) {
        set.insert(node);
    }
    nodes.extend(set.iter());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use framework::testing::{cluster, node, pod};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn changed_nodes_are_those_of_the_entries(
            changes in prop::collection::vec((0_usize..3000, 0_u8..3), 1..200),
            recent in 0_usize..250,
        ) {
            let mut log = ChangeLog::default();
            let mut cluster = cluster([node("n").build()], []);
            let pod_ix = cluster.place_pod(pod("p").build().into(), "n");
            for (node, kind) in &changes {
                let change = match kind {
                    0 => LoggedChange::Node(NodeChange::LABELS),
                    1 => LoggedChange::PodGone(pod_ix),
                    _ => LoggedChange::PodStarted(pod_ix),
                };
                log.push(NodeIx::new(*node), change);
            }
            let start = changes.len().saturating_sub(recent);
            let nodes = |kinds: &[u8]| {
                let wanted = changes[start..].iter().filter(|(_, kind)| kinds.contains(kind));
                let nodes: BTreeSet<_> = wanted.map(|(node, _)| NodeIx::new(*node)).collect();
                nodes.into_iter().collect::<Vec<_>>()
            };
            let expected =
                ChangedNodes { nodes: nodes(&[0, 1]), objects: nodes(&[0]), starts: nodes(&[2]) };
            let mut reader = log.reader();
            for state in [start as u64, start as u64, log.state(), start as u64] {
                let changed = reader.changed_since(state);
                prop_assert_eq!(changed, log.changed_since(state).map(Arc::new));
            }
            prop_assert_eq!(log.changed_since(start as u64), Some(expected));
        }
    }

    #[test]
    fn reader_that_is_too_far_behind_gets_no_changes() {
        let mut log = ChangeLog::default();
        assert_eq!(log.since(0).unwrap().len(), 0);
        for index in 0..MIN_CAPACITY + 2 {
            log.push(NodeIx::new(index % 8), LoggedChange::Node(NodeChange::LABELS));
        }
        assert_eq!(log.state(), MIN_CAPACITY as u64 + 2);
        assert!(log.since(1).is_none() && log.since(log.state() + 1).is_none());
        let nodes: Vec<_> = log.since(log.state() - 2).unwrap().map(|entry| entry.node).collect();
        assert_eq!(nodes, [NodeIx::new(0), NodeIx::new(1)]);
        assert_eq!(log.since(2).unwrap().len(), MIN_CAPACITY);
    }

    #[test]
    fn large_cluster_has_room_for_a_change_of_each_node() {
        let mut log = ChangeLog::default();
        for index in 0..2 * MIN_CAPACITY {
            log.push(NodeIx::new(index), LoggedChange::Node(NodeChange::LABELS));
        }
        assert_eq!(log.since(0).unwrap().len(), 2 * MIN_CAPACITY);
    }
}
