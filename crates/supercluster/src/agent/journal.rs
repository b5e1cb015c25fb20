//! The outcome of the commits of each pod.
//!
//! A record stays while its delegate exists or its commit is under way, and for [`RETENTION`] after
//! that: longer than a commit may be delayed, because a commit that rests on an older sample is
//! refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use framework::{Pod, Time, Uid};

use super::CallId;
use crate::message::{CommitKey, CommitOutcome, CommitRequest, Committed, TryNumber};

/// Time for which a closed record is kept; several times the longest age of a sample.
pub(super) const RETENTION: Duration = Duration::from_mins(5);

/// The state of a commit.
#[derive(Debug)]
pub(super) enum State {
    /// The room is held, and the delegate is being created.
    Creating {
        request: Arc<CommitRequest>,
        node: Arc<str>,
        hold: Uid,
        /// Number of creations with unknown outcome.
        tries: u32,
    },
    /// The engine binds the delegate.
    Binding { pod: Arc<Pod> },
    /// The agent deletes the delegate, and reports the outcome when the delegate is gone.
    Undoing { uid: Uid, then: CommitOutcome },
    /// A delegate runs, or ran.
    Committed { committed: Committed, exists: bool },
    /// The commit was not made, and will not be.
    Refused(CommitOutcome),
}

/// The latest commit for a pod.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) key: CommitKey,
    pub(super) state: State,
    /// Repetitions of the commit that wait for its outcome.
    pub(super) waiting: Vec<CallId>,
    /// Seal requests that wait for it.
    pub(super) sealing: Vec<(CallId, TryNumber)>,
}

impl Commit {
    pub(super) const fn new(key: CommitKey, state: State) -> Self {
        Self { key, state, waiting: Vec::new(), sealing: Vec::new() }
    }

    /// Whether the outcome is known.
    pub(super) const fn is_closed(&self) -> bool {
        matches!(self.state, State::Committed { .. } | State::Refused(_))
    }
}

/// The known state of a pod.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Tries up to this one are refused.
    pub(super) sealed: Option<TryNumber>,
    pub(super) commit: Option<Commit>,
    /// The time after which the record is forgotten, if nothing happens before.
    expires: Option<Time>,
}

/// The records by UID of the original pod.
#[derive(Debug, Default)]
pub(super) struct Journal {
    records: BTreeMap<Arc<str>, Record>,
    by_delegate: BTreeMap<Uid, Arc<str>>,
    expiring: BTreeSet<(Time, Arc<str>)>,
}

impl Journal {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn get_mut(&mut self, pod: &str) -> Option<&mut Record> {
        self.records.get_mut(pod)
    }

    /// Returns the latest commit for a pod.
    pub(super) fn commit_mut(&mut self, pod: &str) -> Option<&mut Commit> {
        self.records.get_mut(pod)?.commit.as_mut()
    }

    /// Returns the commit that created this delegate.
    pub(super) fn commit_of(&mut self, delegate: &Uid) -> Option<&mut Commit> {
        let pod = self.by_delegate.get(delegate)?;
        self.records.get_mut(pod)?.commit.as_mut()
    }

    /// Notes the commit that created a delegate.
    pub(super) fn set_delegate(&mut self, delegate: Uid, pod: &Arc<str>) {
        self.by_delegate.insert(delegate, pod.clone());
    }

    /// Forgets a delegate that does not exist any more.
    pub(super) fn remove_delegate(&mut self, delegate: &Uid) {
        self.by_delegate.remove(delegate);
    }

    /// Replaces the latest commit for a pod.
    pub(super) fn begin(&mut self, commit: Commit) {
        let record = self.records.entry(commit.key.pod.clone()).or_default();
        if let Some(time) = record.expires.take() {
            self.expiring.remove(&(time, commit.key.pod.clone()));
        }
        record.commit = Some(commit);
    }

    /// Refuses the tries for a pod up to this one.
    pub(super) fn seal(&mut self, pod: &Arc<str>, number: TryNumber, now: Time) {
        let record = self.records.entry(pod.clone()).or_default();
        record.sealed = record.sealed.max(Some(number));
        self.expire(pod, now);
    }

    /// Lets the record be forgotten, unless its commit is under way or its delegate exists.
    pub(super) fn expire(&mut self, pod: &Arc<str>, now: Time) {
        let Some(record) = self.records.get_mut(pod) else { return };
        let is_needed = record.commit.as_ref().is_some_and(|commit| {
            !commit.is_closed() || matches!(commit.state, State::Committed { exists: true, .. })
        });
        if let Some(time) = record.expires.take() {
            self.expiring.remove(&(time, pod.clone()));
        }
        if !is_needed {
            let time = now + RETENTION;
            record.expires = Some(time);
            self.expiring.insert((time, pod.clone()));
        }
    }

    /// Forgets the records that have expired.
    pub(super) fn forget_closed(&mut self, now: Time) {
        while let Some((time, pod)) =
            self.expiring.first().cloned().filter(|(time, _)| *time <= now)
        {
            self.expiring.remove(&(time, pod.clone()));
            self.records.remove(&pod);
        }
    }
}

/// Returns the UID under which the room of a commit is held.
pub(super) fn hold_of(key: &CommitKey) -> Uid {
    Uid::from(&*format!("hold:{key}"))
}

/// Returns the pod that holds the room.
pub(super) fn held_pod(pod: &Pod, hold: &Uid) -> Pod {
    Pod { uid: hold.clone(), ..pod.clone() }
}
