//! Leases of the members, and the pods of clusters that are lost.
//!
//! Each member has a Lease in the management cluster. A scheduler that hears from the agent renews
//! it there, and then tells the agent which answer it has heard:
//!
//! ```text
//!  stamp of the agent ─▶ Lease is renewed (resourceVersion as a precondition) ─▶ agent: renewed at the stamp
//! ```
//!
//! So the agent never counts a lease as renewed later than the management cluster does. Once a
//! Lease was not renewed for the time of a pod, a scheduler *fences* it by a write with the same
//! precondition. When that has succeeded, no scheduler has renewed the Lease in this time, so the
//! agent has deleted the delegate: the pod may be placed elsewhere. A fence holds for the pods that
//! the scheduler knew in the cluster when it sent the write, and for no pod that it gets to know
//! later: the cluster may be back by then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::ports::Ports;
use framework::{Time, Uid};

use super::clusters::ClusterIx;
use super::placement::{Intent, OriginalPod, SHORTEST_FENCE};
use super::{CallId, Scheduler, SchedulerOutput, WriteAnswer, WriteId};
use crate::message::{LeaseTerms, RenewRequest, Request, Response, Stamp};

/// Time between two renewals of a lease.
const INTERVAL: Duration = Duration::from_secs(5);
/// Time after which the answer of an agent counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(5);
/// Shortest time without a renewal after which a commit that was not answered is given up: an agent
/// refuses a commit that rests on an older sample.
const UNANSWERED_AFTER: Duration = Duration::from_secs(90);

/// A Lease as the API server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Its UID.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: u64,
    /// Number of renewals.
    pub renewals: u64,
    /// Number of times that it was fenced.
    pub fences: u64,
}

/// A read or write of the Lease of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseOperation {
    /// Read it, or create it without renewals.
    Read,
    /// Write this record, in which the renewals are one more. Its resourceVersion is the
    /// precondition.
    Renew(LeaseRecord),
    /// The same for the fences.
    Fence(LeaseRecord),
}

/// The answer to a [`LeaseOperation`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// The Lease as it is now.
    Record(LeaseRecord),
    /// The Lease has changed.
    Conflict,
    /// The operation failed, or its outcome is unknown.
    Failed(String),
}

/// The request that is under way for a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Idle,
    /// The agent is asked for a stamp. `renews` says that it was also told of a renewal.
    Calling {
        id: CallId,
        renews: bool,
    },
    Reading,
    Renewing,
    /// With the pods for which it holds.
    Fencing(Vec<Lost>),
}

/// A pod of a lost cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Lost {
    /// It is placed there; UIDs of the pod and its delegate.
    Placed(Uid, Arc<str>),
    /// This attempt may have placed it there.
    Intended(Uid, u32),
    /// It is deleted, and waits for its delegate to be gone.
    Deleted(Uid),
}

impl Lost {
    fn pod(&self) -> &Uid {
        match self {
            Self::Placed(pod, _) | Self::Intended(pod, _) | Self::Deleted(pod) => pod,
        }
    }
}

/// The lease of a cluster.
#[derive(Debug)]
struct Lease {
    /// The record; `None` if it is to be read.
    record: Option<LeaseRecord>,
    /// The UID and the number of renewals that were seen last.
    seen: Option<(Arc<str>, u64)>,
    /// The time from which on no other renewal was seen.
    since: Time,
    /// The deleted pods that wait for this cluster, and the time without a renewal that they wait
    /// for.
    deleted: BTreeMap<Uid, Duration>,
    /// An answer of the agent that no renewal rests on yet.
    stamp: Option<Stamp>,
    /// Whether the agent has agreed to the last renewal.
    is_agreed: bool,
    step: Step,
    /// The time of the next step, or at which a call counts as lost.
    due: Time,
}

/// The leases by name of the cluster. They are only in use once a pod may be replaced.
#[derive(Debug, Default)]
pub(super) struct Leases {
    by_cluster: BTreeMap<Arc<str>, Lease>,
    calls: BTreeMap<CallId, Arc<str>>,
    writes: BTreeMap<WriteId, Arc<str>>,
    /// Writes that take a pod out of its cluster.
    replacing: BTreeMap<WriteId, (Uid, Intent)>,
    /// Attempts that have placed no pod in a cluster, because that is lost.
    given_up: BTreeMap<Uid, BTreeMap<Arc<str>, u32>>,
}

impl Leases {
    fn ensure(&mut self, cluster: &Arc<str>, now: Time) -> &mut Lease {
        self.by_cluster.entry(cluster.clone()).or_insert(Lease {
            record: None,
            seen: None,
            since: now,
            deleted: BTreeMap::new(),
            stamp: None,
            is_agreed: false,
            step: Step::Idle,
            due: now,
        })
    }

    /// Whether no pod may be replaced.
    pub(super) fn is_unused(&self) -> bool {
        self.by_cluster.is_empty()
    }

    /// Adds the lease of a cluster.
    pub(super) fn add(&mut self, cluster: &Arc<str>, now: Time) {
        self.ensure(cluster, now);
    }

    /// Returns the terms for a delegate in a cluster; `None` if its agent has not agreed to a
    /// lease.
    pub(super) fn terms(&self, cluster: &str, fence_after_s: u32) -> Option<LeaseTerms> {
        let lease = self.by_cluster.get(cluster).filter(|lease| lease.is_agreed)?;
        let (uid, _) = lease.seen.as_ref()?;
        Some(LeaseTerms { lease: uid.clone(), fence_after_s })
    }

    /// Whether the commits of this attempt, and of earlier ones, were not made in the cluster, or
    /// their delegate is deleted.
    pub(super) fn is_given_up(&self, pod: &Uid, cluster: &str, attempt: u32) -> bool {
        let given_up = self.given_up.get(pod).and_then(|clusters| clusters.get(cluster));
        given_up.is_some_and(|last| *last >= attempt)
    }

    /// Forgets a pod that is placed or gone.
    pub(super) fn forget(&mut self, pod: &Uid) {
        self.given_up.remove(pod);
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.by_cluster.values().map(|lease| lease.due).min()
    }

    fn is_being_replaced(&self, pod: &Uid) -> bool {
        self.replacing.values().any(|(own, _)| own == pod)
    }
}

/// Returns the time after which a commit that was not answered is given up.
pub(super) fn unanswered(replace_after: Duration) -> Duration {
    replace_after.max(UNANSWERED_AFTER)
}

impl Lease {
    /// Handles the record as the API server has it.
    fn read(&mut self, record: LeaseRecord, now: Time) {
        let seen = Some((record.uid.clone(), record.renewals));
        if self.seen != seen {
            self.since = now;
            self.is_agreed &= self.seen.as_ref().is_some_and(|(uid, _)| *uid == record.uid);
        }
        (self.record, self.seen, self.due) = (Some(record), seen, now);
    }

    /// The agent does not answer or agree. Another scheduler may hear from it.
    fn no_answer(&mut self, now: Time) {
        (self.stamp, self.is_agreed) = (None, false);
        self.failed(now + INTERVAL);
    }

    /// Reads the record before the next step.
    fn failed(&mut self, due: Time) {
        (self.record, self.due) = (None, due);
    }
}

/// Inputs.
impl Scheduler {
    /// Handles the answer to a read or write of a Lease.
    pub fn lease_answered(
        &mut self,
        id: WriteId,
        answer: LeaseAnswer,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        if let Some(cluster) = self.leases.writes.remove(&id) {
            self.lease_written(&cluster, answer, now);
            self.renew_leases(now);
        }
        self.advance(now, ports);
    }

    /// Takes a pod out of its cluster, where this delegate of it is gone, and puts it into the
    /// queue. It is left alone unless it may be replaced.
    pub fn replace(&mut self, uid: &Uid, delegate: &str) {
        let Some(original) = self.pods.get(uid) else { return };
        let placement = original.placement.as_ref().filter(|_| original.placed_for().is_some());
        let is_there = placement.is_some_and(|own| *own.committed.uid == *delegate);
        if !is_there || self.leases.is_being_replaced(uid) {
            return;
        }
        let intent = Intent {
            attempt: original.latest_attempt() + 1,
            scheduler: self.config.name.clone(),
            clusters: Vec::new(),
            fence_after_s: None,
        };
        let (pod, resource_version) = (original.object.pod.key.clone(), original.version);
        let id = WriteId(self.next_id());
        self.leases.replacing.insert(id, (uid.clone(), intent.clone()));
        let uid = uid.clone();
        self.outputs.push(SchedulerOutput::WriteIntent { id, pod, uid, resource_version, intent });
    }

    /// Notes that a deleted pod waits for its delegate in this cluster to be gone, and does so
    /// until the lease was not renewed for this time.
    pub fn await_end(&mut self, cluster: &Arc<str>, pod: &Uid, gone_after: Duration, now: Time) {
        self.leases.ensure(cluster, now).deleted.insert(pod.clone(), gone_after);
    }
}

impl Scheduler {
    /// Begins to renew leases once a pod may be replaced.
    pub(super) fn lease_wanted(&mut self, original: &OriginalPod, now: Time) {
        let named = original.clusters().filter(|_| original.waits_for().is_some());
        let named: Vec<Arc<str>> = named.cloned().collect();
        let default = self.config.replace_after;
        let may_be_replaced = matches!(original.fence_after_s(default), Ok(Some(_)));
        let known = self.leases.by_cluster.len();
        for cluster in &named {
            self.leases.ensure(cluster, now);
        }
        if may_be_replaced || !named.is_empty() {
            for (_, member) in self.members.iter() {
                self.leases.ensure(&member.cluster.name, now);
            }
        }
        if self.leases.by_cluster.len() > known {
            self.renew_leases(now);
        }
    }

    /// Handles an answer of an agent to a renewal. Returns whether it was one.
    pub(super) fn lease_called(
        &mut self,
        call: CallId,
        answer: &Result<Response, String>,
        now: Time,
    ) -> bool {
        let Some(cluster) = self.leases.calls.remove(&call) else { return false };
        let Some(lease) = self.leases.by_cluster.get_mut(&cluster) else { return true };
        let Step::Calling { id, renews } = lease.step else { return true };
        if id != call {
            return true;
        }
        lease.step = Step::Idle;
        match answer {
            Ok(Response::Renew(Ok(renewed))) => {
                lease.stamp = Some(renewed.stamp.clone());
                lease.is_agreed |= renews;
                // A first stamp is used at once.
                lease.due = if renews { now + INTERVAL } else { now };
            }
            _ => lease.no_answer(now),
        }
        self.renew_leases(now);
        true
    }

    fn lease_written(&mut self, cluster: &Arc<str>, answer: LeaseAnswer, now: Time) {
        let call = CallId(self.next_id());
        let Some(lease) = self.leases.by_cluster.get_mut(cluster) else { return };
        let step = std::mem::replace(&mut lease.step, Step::Idle);
        let record = match answer {
            LeaseAnswer::Record(record) => record,
            LeaseAnswer::Conflict => return lease.failed(now),
            LeaseAnswer::Failed(_) => return lease.failed(now + INTERVAL),
        };
        let uid = record.uid.clone();
        lease.read(record, now);
        if step == Step::Renewing
            && let Some(ix) = self.members.named(cluster)
        {
            let heard = lease.stamp.take();
            return self.call_for_lease(cluster, ix, call, RenewRequest { lease: uid, heard }, now);
        }
        if let Step::Fencing(lost) = step {
            // Its pods count as lost until the writes that follow are answered.
            lease.due = now + INTERVAL;
            lost.into_iter().for_each(|lost| self.lost(cluster, lost));
        }
    }

    /// Goes on with a pod whose delegate in a lost cluster is gone.
    fn lost(&mut self, cluster: &Arc<str>, lost: Lost) {
        match lost {
            Lost::Placed(pod, delegate) => self.replace(&pod, &delegate),
            Lost::Intended(pod, attempt) => {
                let clusters = self.leases.given_up.entry(pod).or_default();
                clusters.insert(cluster.clone(), attempt);
            }
            Lost::Deleted(pod) => {
                if let Some(lease) = self.leases.by_cluster.get_mut(cluster) {
                    lease.deleted.remove(&pod);
                }
                let cluster = cluster.clone();
                self.outputs.push(SchedulerOutput::Released { cluster, pod });
            }
        }
    }

    /// Notes that a write took a pod out of its cluster, or that it did not. Returns whether it
    /// was such a write.
    pub(super) fn replacement_written(
        &mut self,
        id: WriteId,
        answer: &WriteAnswer,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> bool {
        let Some((uid, intent)) = self.leases.replacing.remove(&id) else { return false };
        let WriteAnswer::Done(version) = answer else { return true };
        self.stats.replaced += 1;
        // Unless the watch was faster.
        if let Some(known) = self.pods.get(&uid).filter(|known| known.version < *version) {
            let object = known.object.clone();
            let (intent, version) = (Some(intent), *version);
            let original = OriginalPod { object, intent, placement: None, version };
            self.original(original, now, ports);
        }
        true
    }

    /// Does the steps that are due.
    pub(super) fn renew_leases(&mut self, now: Time) {
        let due = self.leases.by_cluster.iter().filter(|(_, lease)| lease.due <= now);
        let due: Vec<Arc<str>> = due.map(|(cluster, _)| cluster.clone()).collect();
        due.iter().for_each(|cluster| self.renew_lease(cluster, now));
    }

    fn renew_lease(&mut self, cluster: &Arc<str>, now: Time) {
        let lost = self.lost_pods(cluster, now);
        let member = self.members.named(cluster);
        let (write, call) = (WriteId(self.next_id()), CallId(self.next_id()));
        let Some(lease) = self.leases.by_cluster.get_mut(cluster) else { return };
        match lease.step {
            Step::Idle => {}
            Step::Calling { id, .. } => {
                self.leases.calls.remove(&id);
                lease.step = Step::Idle;
                return lease.no_answer(now);
            }
            // Writes are always answered.
            Step::Reading | Step::Renewing | Step::Fencing(_) => {
                lease.due = now + INTERVAL;
                return;
            }
        }
        let (step, operation) = match lease.record.clone() {
            None => (Step::Reading, LeaseOperation::Read),
            Some(record) if !lost.is_empty() => {
                let fences = record.fences + 1;
                let fenced = LeaseRecord { fences, ..record };
                (Step::Fencing(lost), LeaseOperation::Fence(fenced))
            }
            Some(record) => match member {
                // It is read again after a while.
                None => return lease.failed(now + INTERVAL),
                Some(_) if lease.stamp.is_some() => {
                    let renewals = record.renewals + 1;
                    let renewed = LeaseRecord { renewals, ..record };
                    (Step::Renewing, LeaseOperation::Renew(renewed))
                }
                Some(ix) => {
                    let request = RenewRequest { lease: record.uid, heard: None };
                    return self.call_for_lease(cluster, ix, call, request, now);
                }
            },
        };
        (lease.step, lease.due) = (step, now + INTERVAL);
        self.leases.writes.insert(write, cluster.clone());
        let cluster = cluster.clone();
        self.outputs.push(SchedulerOutput::Lease { id: write, cluster, operation });
    }

    /// Returns the pods of a cluster whose lease was not renewed for their time.
    fn lost_pods(&self, cluster: &Arc<str>, now: Time) -> Vec<Lost> {
        let Some(lease) = self.leases.by_cluster.get(cluster) else { return Vec::new() };
        let unrenewed = now.since(lease.since);
        if unrenewed < SHORTEST_FENCE {
            return Vec::new();
        }
        let lost = |(uid, original): (&Uid, &OriginalPod)| {
            let after = original.gone_after(cluster)?;
            if after > unrenewed || !original.clusters().any(|own| own == cluster) {
                return None;
            }
            match &original.placement {
                Some(placement) => Some(Lost::Placed(uid.clone(), placement.committed.uid.clone())),
                None => {
                    let attempt = original.latest_attempt();
                    let is_known = self.leases.is_given_up(uid, cluster, attempt);
                    (!is_known).then(|| Lost::Intended(uid.clone(), attempt))
                }
            }
        };
        let mut all: Vec<Lost> = self.pods.iter().filter_map(lost).collect();
        let deleted = lease.deleted.iter().filter(|(_, after)| **after <= unrenewed);
        all.extend(deleted.map(|(pod, _)| Lost::Deleted(pod.clone())));
        // The pods are in the order of a hash map.
        all.sort_unstable_by(|one, other| one.pod().cmp(other.pod()));
        all
    }

    fn call_for_lease(
        &mut self,
        cluster: &Arc<str>,
        ix: ClusterIx,
        id: CallId,
        request: RenewRequest,
        now: Time,
    ) {
        let Some(lease) = self.leases.by_cluster.get_mut(cluster) else { return };
        let renews = request.heard.is_some();
        (lease.step, lease.due) = (Step::Calling { id, renews }, now + LOST_AFTER);
        self.leases.calls.insert(id, cluster.clone());
        let request = Request::Renew(request);
        self.outputs.push(SchedulerOutput::Call { id, cluster: ix, request });
    }
}
