//! The change log: the latest changes of nodes and of the pods on them.

use std::collections::VecDeque;
use std::sync::Arc;

use framework::{ChangedNodes, NodeBits, NodeChange, NodeIx, PodIx};

/// Minimum number of entries that are kept. In a larger cluster it is one for each node: a reader
/// that is further behind does as well to look at every node.
const MIN_CAPACITY: usize = 65_536;

/// A list with fewer than one entry for this many nodes is sorted by comparisons. Otherwise a set
/// of all nodes sorts it.
const MANY: usize = 64;
/// A list with fewer entries than this is sorted by comparisons in any cluster.
const FEW: usize = 16;

/// One change of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    /// The node.
    pub node: NodeIx,
    /// The change of the node.
    pub change: LoggedChange,
}

/// A change of a node.
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
///
/// A savepoint that is undone takes its entries out of the log again. The number of a
/// [state](Self::state) may then belong to two states. A [revision](Self::revision) belongs to one:
/// a reader that has read the log inside a savepoint is given the nodes of the entries that were
/// taken out.
#[derive(Debug, Default)]
pub struct ChangeLog {
    entries: VecDeque<LogEntry>,
    /// State number of the first entry that is kept.
    first: u64,
    /// The length of the table of nodes.
    nodes: usize,
    /// Number of open savepoints.
    savepoints: usize,
    rollbacks: Rollbacks,
}

/// The start of a savepoint.
#[derive(Debug)]
pub(super) struct LogMark {
    state: u64,
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

    /// Returns the changes that led from `state` to the present state, or `None` if some of them
    /// are no longer kept.
    pub fn since(&self, state: u64) -> Option<impl ExactSizeIterator<Item = LogEntry>> {
        let start = usize::try_from(state.checked_sub(self.first)?).ok()?;
        (start <= self.entries.len()).then(|| self.entries.range(start..).copied())
    }

    /// Returns the number of the present state, or a higher one. Unlike that number it is never
    /// used again.
    pub fn revision(&self) -> u64 {
        self.state() + self.rollbacks.skipped
    }

    /// Returns the nodes that have changed since `revision`, or `None` if some of the changes are
    /// no longer kept.
    pub fn changed_since(&self, revision: u64) -> Option<ChangedNodes> {
        let mut changed = ChangedNodes::default();
        let state = self.rollbacks.state_of(revision, |entry| add(&mut changed, entry))?;
        self.since(state)?.for_each(|entry| add(&mut changed, entry));
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
        self.entries.push_back(LogEntry { node, change });
        if self.savepoints == 0 {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        while self.entries.len() > self.nodes.max(MIN_CAPACITY) {
            self.entries.pop_front();
            self.first += 1;
        }
    }
}

/// Savepoints. Until the last one ends, no old entry is dropped.
impl ChangeLog {
    pub(super) fn begin_savepoint(&mut self) -> LogMark {
        self.savepoints += 1;
        LogMark { state: self.state(), nodes: self.nodes }
    }

    /// Keeps the entries since the start of the savepoint.
    pub(super) fn keep_savepoint(&mut self) {
        self.savepoints -= 1;
        if self.savepoints == 0 {
            self.drop_oldest();
        }
    }

    /// Takes out the entries since the start of the savepoint.
    pub(super) fn undo_savepoint(&mut self, LogMark { state, nodes }: LogMark) {
        self.savepoints -= 1;
        let kept = usize::try_from(state - self.first).unwrap_or(usize::MAX);
        let undone = self.entries.drain(kept..).collect();
        self.rollbacks.push(state, undone);
        self.nodes = nodes;
    }
}

/// The latest savepoints that were undone after changes, the oldest first.
#[derive(Debug, Default)]
struct Rollbacks {
    list: VecDeque<Rollback>,
    /// Number of entries in the list.
    entries: usize,
    /// How far revisions are ahead of state numbers.
    skipped: u64,
    /// The lowest revision whose state is known.
    first: u64,
}

/// A savepoint that was undone.
#[derive(Debug)]
struct Rollback {
    /// How far revisions were ahead of state numbers before it.
    skipped: u64,
    /// The first revision after it.
    revision: u64,
    /// The number of the state that came back.
    state: u64,
    /// The entries that were taken out.
    undone: Box<[LogEntry]>,
}

impl Rollbacks {
    fn push(&mut self, state: u64, undone: Box<[LogEntry]>) {
        if undone.is_empty() {
            return;
        }
        let skipped = self.skipped;
        self.skipped += undone.len() as u64 + 1;
        self.entries += undone.len();
        self.list.push_back(Rollback { skipped, revision: state + self.skipped, state, undone });
        while self.entries > MIN_CAPACITY {
            let Some(oldest) = self.list.pop_front() else { return };
            self.entries -= oldest.undone.len();
            self.first = oldest.revision;
        }
    }

    /// Returns the number of the latest state of the log that is part of its present and of this
    /// revision. Visits the entries that led from it to the revision, and that were taken out.
    fn state_of(&self, revision: u64, mut visit: impl FnMut(LogEntry)) -> Option<u64> {
        if revision < self.first {
            return None;
        }
        let later = self.list.partition_point(|rollback| rollback.revision <= revision);
        let skipped = self.list.get(later).map_or(self.skipped, |rollback| rollback.skipped);
        let mut state = revision.checked_sub(skipped)?;
        for rollback in self.list.range(later..) {
            let within = state.saturating_sub(rollback.state);
            let within = usize::try_from(within).unwrap_or(usize::MAX);
            rollback.undone.iter().take(within).copied().for_each(&mut visit);
            state = state.min(rollback.state);
        }
        Some(state)
    }
}

fn add(changed: &mut ChangedNodes, LogEntry { node, change }: LogEntry) {
    match change {
        LoggedChange::Node(_) => {
            changed.nodes.push(node);
            changed.objects.push(node);
        }
        LoggedChange::PodPlaced(_) | LoggedChange::PodGone(_) => changed.nodes.push(node),
        LoggedChange::PodStarted(_) => changed.starts.push(node),
    }
}

/// Reads the log for one attempt. The memory of a lane mostly shows one revision, since which
/// the log is read once.
#[derive(Debug)]
pub(crate) struct LogReader<'l> {
    log: &'l ChangeLog,
    /// The revision that was asked for last, and the answer.
    last: Option<(u64, Arc<ChangedNodes>)>,
}

impl LogReader<'_> {
    /// Returns the present [revision](ChangeLog::revision).
    pub(crate) fn revision(&self) -> u64 {
        self.log.revision()
    }

    /// Returns the nodes that have changed since `revision`, or `None` if some of the changes are
    /// no longer kept.
    pub(crate) fn changed_since(&mut self, revision: u64) -> Option<Arc<ChangedNodes>> {
        if let Some((known, changed)) = &self.last
            && *known == revision
        {
            return Some(changed.clone());
        }
        let changed = Arc::new(self.log.changed_since(revision)?);
        self.last = Some((revision, changed.clone()));
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

    use proptest::prelude::*;
    use testkit::{cluster, node, pod};

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
            for revision in [start as u64, start as u64, log.revision(), start as u64] {
                let changed = reader.changed_since(revision);
                prop_assert_eq!(changed, log.changed_since(revision).map(Arc::new));
            }
            prop_assert_eq!(log.changed_since(start as u64), Some(expected));
        }
    }

    /// A step of a log with savepoints.
    #[derive(Debug, Clone)]
    enum Step {
        Push(usize),
        Read,
        Savepoint { steps: Vec<Step>, kept: bool },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let leaf = prop_oneof![(0..50_usize).prop_map(Step::Push), Just(Step::Read)];
        let step = leaf.prop_recursive(4, 60, 8, |inner| {
            (prop::collection::vec(inner, 0..8), any::<bool>())
                .prop_map(|(steps, kept)| Step::Savepoint { steps, kept })
        });
        prop::collection::vec(step, 0..24)
    }

    /// Carries out the steps on the log, and on a list of the nodes of its entries. `reads` has
    /// each revision that was read, with the list at that time.
    fn carry_out(
        steps: &[Step],
        log: &mut ChangeLog,
        list: &mut Vec<usize>,
        reads: &mut Vec<(u64, Vec<usize>)>,
    ) {
        for step in steps {
            match step {
                Step::Push(node) => {
                    log.push_for_test(NodeIx::new(*node));
                    list.push(*node);
                }
                Step::Read => reads.push((log.revision(), list.clone())),
                Step::Savepoint { steps, kept } => {
                    let (mark, len) = (log.begin_savepoint(), list.len());
                    carry_out(steps, log, list, reads);
                    match kept {
                        true => log.keep_savepoint(),
                        false => {
                            log.undo_savepoint(mark);
                            list.truncate(len);
                        }
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn readers_of_savepoints_get_the_entries_that_were_taken_out(steps in steps()) {
            let (mut log, mut list, mut reads) = (ChangeLog::default(), Vec::new(), Vec::new());
            carry_out(&steps, &mut log, &mut list, &mut reads);
            let entries = log.since(0).unwrap().map(|entry| entry.node.index());
            prop_assert_eq!(entries.collect::<Vec<_>>(), list.clone());
            prop_assert_eq!(log.state(), list.len() as u64);
            for (revision, read) in reads {
                let changed = log.changed_since(revision).unwrap().nodes;
                let changed: BTreeSet<usize> = changed.into_iter().map(NodeIx::index).collect();
                let common = read.iter().zip(&list).take_while(|(a, b)| a == b).count();
                let differing = read[common..].iter().chain(&list[common..]).copied();
                let differing: BTreeSet<usize> = differing.collect();
                prop_assert!(changed.is_superset(&differing), "{changed:?} {differing:?}");
            }
        }
    }

    #[test]
    fn savepoint_of_which_nothing_was_read_costs_its_readers_nothing() {
        let mut log = ChangeLog::default();
        log.push_for_test(NodeIx::new(0));
        let before = log.revision();
        let mark = log.begin_savepoint();
        log.push_for_test(NodeIx::new(1));
        log.undo_savepoint(mark);
        assert_eq!(log.changed_since(before), Some(ChangedNodes::default()));
        log.push_for_test(NodeIx::new(2));
        assert_eq!(log.changed_since(before).unwrap().nodes, [NodeIx::new(2)]);
    }

    #[test]
    fn full_log_drops_no_entry_before_the_last_savepoint_ends() {
        let mut log = ChangeLog::default();
        (0..MIN_CAPACITY).for_each(|_| log.push_for_test(NodeIx::new(0)));
        let mark = log.begin_savepoint();
        (0..MIN_CAPACITY).for_each(|_| log.push_for_test(NodeIx::new(1)));
        let inside = log.revision();
        log.undo_savepoint(mark);
        assert_eq!(log.since(0).unwrap().len(), MIN_CAPACITY);
        assert_eq!(log.changed_since(inside).unwrap().nodes, [NodeIx::new(1)]);
        let mark = log.begin_savepoint();
        log.push_for_test(NodeIx::new(2));
        log.undo_savepoint(mark);
        assert_eq!(log.changed_since(inside), None, "too many entries were taken out since");
        log.begin_savepoint();
        log.push_for_test(NodeIx::new(3));
        log.keep_savepoint();
        assert!(log.since(0).is_none() && log.since(1).is_some());
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
