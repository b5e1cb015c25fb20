//! Leases: how long delegates may run without word from the management cluster.
//!
//! A delegate that may be replaced when its cluster is lost has [`LeaseTerms`]. If its lease is not
//! renewed for the time in them, the agent deletes it, so that the management cluster, which waits
//! longer, may place its pod elsewhere. A lease is renewed by a stamp of the agent's own clock that
//! a scheduler has received, so neither a difference of clocks nor a delay of messages lengthens
//! it. The renewal is stored before it counts: the next incarnation knows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use framework::{PodKey, Time, Uid};

use super::commits::Purpose;
use super::sampling::millis;
use super::{Agent, CallId, WriteAnswer};
use crate::message::{
    LeaseTerms, Refusal, RefusalCode, RenewRequest, RenewResponse, Response, Stamp,
};

/// Maximum number of leases: of management clusters with a member name each. Callers choose the
/// UIDs of leases.
const MAX_LEASES: usize = 64;

/// A lease.
#[derive(Debug, Default)]
struct Lease {
    /// The last renewal, on the agent's clock; `None` if there was none.
    renewed: Option<Time>,
    /// The delegates by the time without a renewal after which they are deleted.
    delegates: BTreeSet<(u32, Uid)>,
}

/// A renewal that is being stored.
#[derive(Debug, Clone)]
struct Renewal {
    call: CallId,
    lease: Arc<str>,
    time: Time,
}

/// The leases by UID.
#[derive(Debug, Default)]
pub(super) struct Leases {
    leases: BTreeMap<Arc<str>, Lease>,
    delegates: BTreeMap<Uid, (PodKey, LeaseTerms)>,
    /// Renewals in the write that is under way, and renewals that wait for the next write.
    keeping: Vec<Renewal>,
    waiting: Vec<Renewal>,
}

impl Leases {
    pub(super) fn new(renewed: &BTreeMap<Arc<str>, Time>) -> Self {
        let leases = renewed.iter().map(|(lease, time)| {
            (lease.clone(), Lease { renewed: Some(*time), delegates: BTreeSet::new() })
        });
        Self { leases: leases.collect(), ..Self::default() }
    }

    /// Adds a delegate.
    pub(super) fn add(&mut self, uid: &Uid, pod: &PodKey, terms: &LeaseTerms) {
        if self.delegates.contains_key(uid) {
            return;
        }
        self.delegates.insert(uid.clone(), (pod.clone(), terms.clone()));
        let lease = self.leases.entry(terms.lease.clone()).or_default();
        lease.delegates.insert((terms.fence_after_s, uid.clone()));
    }

    /// Removes a delegate that is gone or has ended.
    pub(super) fn remove(&mut self, uid: &Uid) {
        let Some((_, terms)) = self.delegates.remove(uid) else { return };
        if let Some(lease) = self.leases.get_mut(&terms.lease) {
            lease.delegates.remove(&(terms.fence_after_s, uid.clone()));
        }
    }

    /// Returns the name of a delegate.
    pub(super) fn pod(&self, uid: &Uid) -> Option<&PodKey> {
        self.delegates.get(uid).map(|(pod, _)| pod)
    }

    /// Returns the time in the terms of a delegate.
    pub(super) fn fence_after_s(&self, uid: &Uid) -> Option<u32> {
        self.delegates.get(uid).map(|(_, terms)| terms.fence_after_s)
    }

    /// Whether a delegate with these terms may run until this time.
    pub(super) fn allow(&self, terms: &LeaseTerms, until: Time) -> bool {
        let renewed = self.leases.get(&terms.lease).and_then(|lease| lease.renewed);
        renewed.is_some_and(|renewed| until < end_of(renewed, terms.fence_after_s))
    }

    /// Returns the time at which the first delegate is to be deleted.
    pub(super) fn next_end(&self) -> Option<Time> {
        self.leases.values().filter_map(Lease::next_end).min()
    }

    /// Takes the delegates whose lease has ended by now. A delegate is taken once: no later renewal
    /// saves it.
    fn take_ended(&mut self, now: Time) -> Vec<Uid> {
        let mut ended = Vec::new();
        for lease in self.leases.values_mut() {
            while lease.next_end().is_some_and(|end| end <= now) {
                ended.extend(lease.delegates.pop_first().map(|(_, uid)| uid));
            }
        }
        ended
    }

    /// Returns the renewals to store: the renewals that count, and the waiting ones.
    pub(super) fn to_keep(&self) -> BTreeMap<Arc<str>, Time> {
        let known = self.leases.iter();
        let mut renewed: BTreeMap<Arc<str>, Time> =
            known.filter_map(|(uid, lease)| Some((uid.clone(), lease.renewed?))).collect();
        for Renewal { lease, time, .. } in &self.keeping {
            let kept = renewed.entry(lease.clone()).or_insert(*time);
            *kept = (*kept).max(*time);
        }
        renewed
    }

    /// Makes room for another lease.
    fn admit(&mut self, lease: &Arc<str>) -> bool {
        if self.leases.len() >= MAX_LEASES && !self.leases.contains_key(lease) {
            let unused = self.leases.iter().filter(|(_, lease)| lease.delegates.is_empty());
            let oldest = unused.min_by_key(|(_, lease)| lease.renewed).map(|(uid, _)| uid.clone());
            oldest.iter().for_each(|uid| drop(self.leases.remove(uid)));
        }
        self.leases.len() < MAX_LEASES || self.leases.contains_key(lease)
    }
}

impl Lease {
    /// A lease that was never renewed has ended.
    fn next_end(&self) -> Option<Time> {
        let (after, _) = self.delegates.first()?;
        Some(self.renewed.map_or(Time::ZERO, |renewed| end_of(renewed, *after)))
    }
}

fn end_of(renewed: Time, fence_after_s: u32) -> Time {
    renewed + Duration::from_secs(u64::from(fence_after_s))
}

impl Agent {
    /// Answers a renewal once it is stored.
    pub(super) fn renew(&mut self, call: CallId, request: &RenewRequest, now: Time) {
        let Some(stamp) = &request.heard else { return self.reply_with_stamp(call, now) };
        let refused = |code, text: &str| Response::Renew(Err(Refusal::new(code, text)));
        let time = Time::from_nanos(
            i64::try_from(stamp.taken_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000),
        );
        if stamp.incarnation != self.config.incarnation {
            let refusal = refused(RefusalCode::OtherIncarnation, "the agent has been started anew");
            return self.reply(call, refusal);
        }
        if time > now {
            return self.reply(call, refused(RefusalCode::Malformed, "heard: is in the future"));
        }
        if !self.leases.admit(&request.lease) {
            return self.reply(call, refused(RefusalCode::Busy, "there are too many leases"));
        }
        self.leases.waiting.push(Renewal { call, lease: request.lease.clone(), time });
        self.keep_leases();
    }

    fn reply_with_stamp(&mut self, call: CallId, now: Time) {
        let incarnation = self.config.incarnation.clone();
        let stamp = Stamp { incarnation, taken_ms: millis(now) };
        let cluster = self.config.cluster.clone();
        self.reply(call, Response::Renew(Ok(RenewResponse { cluster, stamp })));
    }

    /// Stores the renewals that wait, unless a write is under way.
    fn keep_leases(&mut self) {
        if self.leases.keeping.is_empty() && !self.leases.waiting.is_empty() {
            self.leases.keeping = std::mem::take(&mut self.leases.waiting);
            self.write(Purpose::KeepLeases);
        }
    }

    pub(super) fn leases_kept(&mut self, answer: &WriteAnswer, now: Time) {
        // A delegate whose lease has ended is not saved.
        self.fence_ended(now);
        let error = match answer {
            WriteAnswer::Done => None,
            WriteAnswer::Refused(text) | WriteAnswer::Unknown(text) => Some(text.clone()),
            _ => Some("the object with the leases is in use".to_owned()),
        };
        for Renewal { call, lease, time } in std::mem::take(&mut self.leases.keeping) {
            if let Some(text) = &error {
                let text = format!("the lease could not be stored: {text}");
                let refusal = Refusal::new(RefusalCode::Failed, text);
                self.reply(call, Response::Renew(Err(refusal)));
                continue;
            }
            let lease = self.leases.leases.entry(lease).or_default();
            lease.renewed = lease.renewed.max(Some(time));
            self.reply_with_stamp(call, now);
        }
        self.keep_leases();
    }

    /// Deletes the delegates whose lease has ended.
    pub(super) fn fence_ended(&mut self, now: Time) {
        if !self.synced {
            return;
        }
        for uid in self.leases.take_ended(now) {
            self.ending.insert(uid.clone());
            self.write(Purpose::Fence(uid));
        }
    }

    pub(super) fn fence_answered(&mut self, uid: Uid, answer: &WriteAnswer, now: Time) {
        match answer {
            // The watch shows when it is gone.
            WriteAnswer::Done => {}
            WriteAnswer::NotFound | WriteAnswer::Conflict => self.leases.remove(&uid),
            _ => self.retry(Purpose::Fence(uid), now),
        }
    }
}
