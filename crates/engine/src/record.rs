//! Decision records: what each attempt found, kept in bounded memory.
//!
//! The records of all attempts are a ring. The first and the last records of a pod that stays
//! pending are kept beside it, so that many decisions about other pods do not displace them.
//!
//! A record holds what the attempt knew anyway. The engine computes nothing for it: a decision from
//! a ranking scores only changed nodes, so the scores of other nodes are not in its record.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use framework::{
    Cluster, NodeIx, NominatingInfo, PluginName, PodKey, PostFilterResult, QueueTimes, QueuedPod,
    Status, Time, Uid, Verdicts,
};

use crate::cycle::{Chosen, FitError};

/// Number of records in the ring.
pub const RECENT: usize = 16_384;
/// Number of pending pods with records of their own.
pub const PENDING: usize = 8_192;
/// Number of the last records of a pending pod, beside its first.
const LAST: usize = 3;
/// Number of distinct rejections in a record: the rejections of the most nodes.
const REJECTIONS: usize = 6;
/// Number of nodes that a rejection names.
const NAMES: usize = 3;
/// Number of victims that a record names.
const VICTIMS: usize = 6;
/// Longest text in a record, in bytes.
const TEXT: usize = 256;
/// Number of rejections that the next pods of their templates may share.
const SHARED: usize = 16;

/// The record of one attempt.
#[derive(Debug, Clone)]
pub struct Record {
    /// The pod.
    pub pod: PodKey,
    /// UID of the pod.
    pub uid: Uid,
    /// Number of the state of the [change log](crate::world::ChangeLog) that the attempt read.
    pub state: u64,
    /// The time of the attempt.
    pub at: Time,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// When the pod first entered the active queue.
    pub since: Option<Time>,
    /// The time that the pod had spent in each part of the queue.
    pub times: QueueTimes,
    /// The finding of the attempt.
    pub finding: Finding,
}

/// The finding of an attempt.
#[derive(Debug, Clone)]
pub enum Finding {
    /// A node.
    Chosen(Choice),
    /// No node can take the pod.
    Rejected(Arc<Rejected>),
    /// The attempt failed after the search, or could not search; the message.
    Failed(Arc<str>),
}

/// The choice of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The node.
    pub node: Arc<str>,
    /// Number of nodes that were as good, this one included; the seeded generator chose among them.
    pub ties: u64,
    /// Total score; `None` for a single feasible node, which needs no score.
    pub total: Option<i64>,
    /// Number of feasible nodes.
    pub feasible: u32,
    /// Number of nodes that were looked at, or whose verdict a ranking knew.
    pub evaluated: u32,
}

impl Choice {
    /// Returns the choice of a node under its name.
    pub(crate) fn of(chosen: &Chosen, cluster: &Cluster) -> Self {
        Self {
            node: cluster.node_name(chosen.node).clone(),
            ties: chosen.ties as u64,
            total: chosen.total,
            feasible: small(chosen.feasible),
            evaluated: small(chosen.evaluated),
        }
    }
}

/// The rejection of all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rejected {
    /// Number of nodes.
    pub nodes: u32,
    /// The rejections of the most nodes.
    pub rejections: Vec<Rejection>,
    /// Number of distinct rejections beyond those.
    pub further: u32,
    /// Every plugin that rejected the pod or some node. The pod waits for their events.
    pub plugins: Vec<PluginName>,
    /// The message of PostFilter.
    pub post_filter: Box<str>,
    /// The node that PostFilter nominated.
    pub nominated: Option<Arc<str>>,
    /// The pods to evict there, the most important first.
    pub victims: Vec<PodKey>,
    /// Number of pods to evict beyond those.
    pub further_victims: u32,
}

/// A rejection that some nodes share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Code, plugin and reasons.
    pub status: Status,
    /// Number of nodes.
    pub count: u32,
    /// The first of these nodes.
    pub names: Vec<Arc<str>>,
}

impl Rejected {
    /// Summarises the reasons why a pod fits nowhere. `victims` are the evictions that PostFilter
    /// asked for.
    fn of(
        fit: &FitError,
        post_filter: &PostFilterResult,
        victims: &[PodKey],
        cluster: &Cluster,
    ) -> Self {
        let diagnosis = &fit.diagnosis;
        let verdicts = &diagnosis.verdicts;
        let mut rejections: Vec<_> = verdicts.examples::<NAMES>();
        let absent = fit.num_all_nodes.saturating_sub(verdicts.explicit_count());
        if absent > 0 && !verdicts.absent().is_success() {
            rejections.push((verdicts.absent(), absent, [None; NAMES]));
        }
        rejections.sort_by_key(|(_, count, _)| std::cmp::Reverse(*count));
        let further = rejections.len().saturating_sub(REJECTIONS);
        rejections.truncate(REJECTIONS);
        let name = |node: NodeIx| cluster.node_name(node).clone();
        let rejection = |(status, count, nodes): (&Status, usize, [Option<NodeIx>; NAMES])| {
            let names = nodes.into_iter().flatten().map(name).collect();
            Rejection { status: shortened(status), count: small(count), names }
        };
        Self {
            nodes: small(fit.num_all_nodes),
            rejections: rejections.into_iter().map(rejection).collect(),
            further: small(further),
            plugins: diagnosis.unschedulable_plugins.iter().cloned().collect(),
            post_filter: cut(&diagnosis.post_filter_message).into(),
            nominated: nominated(post_filter).cloned(),
            victims: victims.iter().take(VICTIMS).cloned().collect(),
            further_victims: small(victims.len().saturating_sub(VICTIMS)),
        }
    }

    /// Whether [`of`](Self::of) would return the same if the verdicts on nodes are the same.
    fn agrees(&self, fit: &FitError, post_filter: &PostFilterResult, victims: &[PodKey]) -> bool {
        let diagnosis = &fit.diagnosis;
        self.nodes == small(fit.num_all_nodes)
            && self.nominated.as_ref() == nominated(post_filter)
            && self.victims.is_empty()
            && victims.is_empty()
            && *self.post_filter == *cut(&diagnosis.post_filter_message)
            && self.plugins.iter().eq(&diagnosis.unschedulable_plugins)
    }

    /// Returns the memory beside the value itself, in bytes, without names that the cluster shares.
    fn heap_bytes(&self) -> usize {
        let rejection = |rejection: &Rejection| {
            let reasons = rejection.status.reasons();
            let texts: usize =
                reasons.iter().map(|reason| size_of_val(reason) + reason.len()).sum();
            size_of::<Rejection>() + 64 + texts + rejection.names.len() * size_of::<Arc<str>>()
        };
        self.rejections.iter().map(rejection).sum::<usize>()
            + self.plugins.len() * size_of::<PluginName>()
            + self.post_filter.len()
            + self.victims.len() * size_of::<PodKey>()
    }
}

/// Returns the node that PostFilter nominated.
fn nominated(post_filter: &PostFilterResult) -> Option<&Arc<str>> {
    match &post_filter.nominating {
        NominatingInfo::Override(node) if !node.is_empty() => Some(node),
        _ => None,
    }
}

/// Returns a status whose texts are cut to the length that a record keeps.
fn shortened(status: &Status) -> Status {
    if status.reasons().iter().map(|reason| reason.len()).sum::<usize>() <= TEXT {
        return status.clone();
    }
    let short = Status::new(status.code(), cut(&status.message()).to_owned());
    status.plugin().map_or(short.clone(), |plugin| short.by(plugin))
}

/// Cuts a text at a character boundary.
pub(crate) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT)]
}

/// Converts a number, or returns the highest one.
fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The part of a record about the pod, taken before its attempt.
#[derive(Debug)]
pub(crate) struct Head(Record);

impl Head {
    pub(crate) fn of(queued: &QueuedPod, state: u64, now: Time) -> Self {
        Self(Record {
            pod: queued.pod.key.clone(),
            uid: queued.pod.uid.clone(),
            state,
            at: now,
            attempt: queued.history.attempts,
            since: queued.history.initial_attempt,
            times: queued.history.times,
            finding: Finding::Failed(Arc::default()),
        })
    }

    pub(crate) fn found(self, finding: Finding) -> Record {
        Record { finding, ..self.0 }
    }

    pub(crate) fn failed(self, message: &str) -> Record {
        self.found(Finding::Failed(cut(message).into()))
    }
}

/// The records of the attempts of a pod that is pending.
#[derive(Debug)]
struct History {
    first: Arc<Record>,
    last: VecDeque<Arc<Record>>,
}

impl History {
    fn latest(&self) -> &Record {
        self.last.back().unwrap_or(&self.first)
    }
}

/// The records. They take at most 256 MiB: 16,384 attempts of any pod, and 4 attempts of each of
/// the first 8,192 pods that are pending.
#[derive(Debug, Default)]
pub struct Records {
    recent: VecDeque<Arc<Record>>,
    /// Number of records so far.
    number: u64,
    pending: BTreeMap<Uid, History>,
    /// The latest rejections, by the verdicts that they summarise. The pods of a template that fits
    /// nowhere have the same verdicts until a node changes. Changed verdicts move to a new
    /// allocation, so the references here never lead to verdicts of another time.
    shared: VecDeque<(Weak<Verdicts>, Arc<Rejected>)>,
}

impl Records {
    /// Returns the summary of the reasons why a pod fits nowhere. `victims` are the evictions that
    /// PostFilter asked for.
    pub(crate) fn rejected(
        &mut self,
        fit: &FitError,
        post_filter: &PostFilterResult,
        victims: &[PodKey],
        cluster: &Cluster,
    ) -> Arc<Rejected> {
        let verdicts = &fit.diagnosis.verdicts;
        let mut shared = self.shared.iter().rev();
        let known = shared.find(|(own, rejected)| {
            own.as_ptr() == Arc::as_ptr(verdicts) && rejected.agrees(fit, post_filter, victims)
        });
        if let Some((_, known)) = known {
            return known.clone();
        }
        let rejected = Arc::new(Rejected::of(fit, post_filter, victims, cluster));
        if self.shared.len() == SHARED {
            self.shared.pop_front();
        }
        self.shared.push_back((Arc::downgrade(verdicts), rejected.clone()));
        rejected
    }

    /// Keeps a record, of a pending pod also beside the pod.
    pub(crate) fn push(&mut self, record: Record, is_pending: bool) {
        let record = match record.finding {
            Finding::Rejected(_) | Finding::Failed(_) if is_pending => self.push_pending(record),
            _ => Arc::new(record),
        };
        self.number += 1;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(record);
    }

    /// Keeps a record beside its pod. An attempt that was rejected like the one before shares its
    /// rejection.
    fn push_pending(&mut self, mut record: Record) -> Arc<Record> {
        let has_room = self.pending.len() < PENDING;
        match self.pending.entry(record.uid.clone()) {
            Entry::Occupied(entry) => {
                let history = entry.into_mut();
                if let Finding::Rejected(rejected) = &mut record.finding
                    && let Finding::Rejected(last) = &history.latest().finding
                    && last == rejected
                {
                    *rejected = last.clone();
                }
                let record = Arc::new(record);
                if history.last.len() == LAST {
                    history.last.pop_front();
                }
                history.last.push_back(record.clone());
                record
            }
            Entry::Vacant(entry) => {
                let record = Arc::new(record);
                if has_room {
                    entry.insert(History { first: record.clone(), last: VecDeque::new() });
                }
                record
            }
        }
    }

    /// Forgets the records beside a pod that has left the queue; those in the ring stay. Returns
    /// the last one.
    pub(crate) fn forget(&mut self, pod: &Uid) -> Option<Arc<Record>> {
        let History { first, mut last } = self.pending.remove(pod)?;
        Some(last.pop_back().unwrap_or(first))
    }

    /// Returns the records of a pod, oldest first.
    pub fn of_pod(&self, pod: &Uid) -> Vec<Arc<Record>> {
        let history = self.pending.get(pod).into_iter();
        let own = history.flat_map(|history| std::iter::once(&history.first).chain(&history.last));
        let own: Vec<&Arc<Record>> = own.collect();
        let is_own = |record: &Arc<Record>| own.iter().any(|own| Arc::ptr_eq(own, record));
        let recent = self.recent.iter().filter(|record| record.uid == *pod && !is_own(record));
        let mut records: Vec<_> = own.iter().copied().chain(recent).cloned().collect();
        // A bind fails after its attempt, possibly at the same time.
        let failed = |record: &Record| !matches!(record.finding, Finding::Chosen(_));
        records.sort_by_key(|record| (record.at, record.attempt, failed(record)));
        records
    }

    /// Returns the latest records of all pods, oldest first.
    pub fn recent(&self) -> impl DoubleEndedIterator<Item = &Record> + ExactSizeIterator {
        self.recent.iter().map(AsRef::as_ref)
    }

    /// Returns the number of records so far.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the last record of each pending pod that has one, by UID.
    pub fn last_of_pending(&self) -> impl Iterator<Item = &Record> {
        self.pending.values().map(History::latest)
    }

    /// Returns an upper bound of the memory that the records take, in bytes. Memory that several of
    /// them share counts for each.
    pub fn bytes(&self) -> usize {
        let heap = |record: &Record| match &record.finding {
            Finding::Chosen(_) => 0,
            Finding::Rejected(rejected) => size_of::<Rejected>() + 16 + rejected.heap_bytes(),
            Finding::Failed(text) => 16 + text.len(),
        };
        let of = |record: &Arc<Record>| {
            size_of::<Arc<Record>>() + 16 + size_of::<Record>() + heap(record)
        };
        let histories = self.pending.values().map(|history| {
            size_of::<(Uid, History)>()
                + of(&history.first)
                + history.last.iter().map(of).sum::<usize>()
        });
        self.recent.iter().map(of).sum::<usize>() + histories.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use framework::Verdicts;
    use testkit::{cluster, node, pod};

    use super::*;
    use crate::cycle::Diagnosis;

    fn record(name: &str, attempt: u32, finding: Finding) -> Record {
        let mut queued = QueuedPod::new(Arc::new(pod(name).build()), Time::ZERO);
        queued.history.attempts = attempt;
        Head::of(&queued, 7, Time::from_secs(i64::from(attempt))).found(finding)
    }

    fn chosen() -> Finding {
        Finding::Chosen(Choice {
            node: "n".into(),
            ties: 1,
            total: None,
            feasible: 1,
            evaluated: 1,
        })
    }

    /// The largest rejection that a record can hold.
    fn large() -> Rejected {
        let (fit, result, victims, cluster) = large_parts();
        Rejected::of(&fit, &result, &victims, &cluster)
    }

    fn large_parts() -> (FitError, PostFilterResult, Vec<PodKey>, Cluster) {
        let names: Vec<String> = (0..99).map(|number| format!("node-{number:03}")).collect();
        let cluster = cluster(names.iter().map(|name| node(name).build()), []);
        let mut verdicts = Verdicts::default();
        for (index, node) in cluster.nodes().iter().enumerate() {
            let reason = format!("{:03}{}", index % 33, "é".repeat(400));
            verdicts.record(node, Status::unschedulable(reason).by(&"Plugin".into()));
        }
        let diagnosis = Diagnosis {
            verdicts: Arc::new(verdicts),
            unschedulable_plugins: (0..23).map(|n| format!("Plugin{n}").as_str().into()).collect(),
            post_filter_message: "preemption ".repeat(100),
            ..Diagnosis::default()
        };
        let victims: Vec<_> = (0..20).map(|n| PodKey::new("default", &format!("v{n}"))).collect();
        let nominating = NominatingInfo::Override("node-001".into());
        let result = PostFilterResult { nominating, ..PostFilterResult::default() };
        (FitError { num_all_nodes: 99, diagnosis }, result, victims, cluster)
    }

    #[test]
    fn rejection_names_some_nodes_and_counts_all() {
        let rejected = large();
        assert_eq!((rejected.nodes, rejected.further), (99, 27));
        let first = &rejected.rejections[0];
        assert_eq!((first.count, first.names.len()), (3, 3));
        assert_eq!(first.status.plugin(), Some(&"Plugin".into()));
        assert!(first.status.message().len() <= TEXT && first.status.message().starts_with("000é"));
        assert_eq!(rejected.nominated.as_deref(), Some("node-001"));
        assert_eq!((rejected.victims.len(), rejected.further_victims), (6, 14));
        assert_eq!(rejected.post_filter.len(), TEXT);
    }

    #[test]
    fn records_of_a_pending_pod_outlast_many_decisions_about_others() {
        let mut records = Records::default();
        for attempt in 1..=9 {
            records.push(record("waits", attempt, Finding::Rejected(Arc::new(large()))), true);
        }
        for number in 0..RECENT {
            records.push(record(&format!("p{number}"), 1, chosen()), true);
        }
        assert_eq!(records.recent().len(), RECENT);
        let waits = pod("waits").build().uid;
        let attempts = |records: &Records| -> Vec<u32> {
            records.of_pod(&waits).iter().map(|record| record.attempt).collect()
        };
        assert_eq!(attempts(&records), [1, 7, 8, 9]);
        records.push(record("waits", 10, chosen()), true);
        assert_eq!(attempts(&records), [1, 7, 8, 9, 10]);
        records.forget(&waits);
        assert_eq!(attempts(&records), [10]);
    }

    #[test]
    fn equal_rejections_share_their_memory() {
        let mut records = Records::default();
        for attempt in 1..=3 {
            records.push(record("waits", attempt, Finding::Rejected(Arc::new(large()))), true);
        }
        let of_pod = records.of_pod(&pod("waits").build().uid);
        let rejected = of_pod.iter().map(|record| match &record.finding {
            Finding::Rejected(rejected) => Arc::as_ptr(rejected),
            _ => panic!("{record:?}"),
        });
        let rejected: std::collections::BTreeSet<_> = rejected.collect();
        assert_eq!(rejected.len(), 1);
    }

    #[test]
    fn summary_is_shared_only_while_it_is_true() {
        let (mut fit, result, victims, cluster) = large_parts();
        let mut records = Records::default();
        let first = records.rejected(&fit, &result, &[], &cluster);
        let again = records.rejected(&fit, &result, &[], &cluster);
        assert!(Arc::ptr_eq(&first, &again));
        let preempting = records.rejected(&fit, &result, &victims, &cluster);
        assert_eq!(*preempting, Rejected::of(&fit, &result, &victims, &cluster));
        fit.diagnosis.post_filter_message = "another".to_owned();
        let other_message = records.rejected(&fit, &result, &[], &cluster);
        assert_eq!(&*other_message.post_filter, "another");
        Arc::make_mut(&mut fit.diagnosis.verdicts).clear(NodeIx::new(0));
        let changed = records.rejected(&fit, &result, &[], &cluster);
        assert_eq!(*changed, Rejected::of(&fit, &result, &[], &cluster));
        assert_ne!(changed.rejections, other_message.rejections);
    }

    #[test]
    fn memory_has_a_bound() {
        let mut records = Records::default();
        let rejected = large();
        for number in 0..RECENT + PENDING {
            for attempt in 1..=5 {
                // Each record has another rejection.
                let nodes = attempt + small(number);
                let rejected = Rejected { nodes, ..rejected.clone() };
                let name = format!("pod-{number}");
                records.push(record(&name, attempt, Finding::Rejected(Arc::new(rejected))), true);
            }
        }
        assert_eq!((records.recent.len(), records.pending.len()), (RECENT, PENDING));
        let mib = records.bytes() >> 20;
        assert!((32..256).contains(&mib), "{mib} MiB");
    }
}
