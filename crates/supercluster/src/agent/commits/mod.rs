//! The binding pipeline: checks, hold, creation of the delegate, bind.
//!
//! ```text
//!  commit ─▶ check ─▶ hold room ─▶ create delegate ─▶ engine binds it ─▶ committed
//!              │                     │ refused            │ failed
//!              ▼                     ▼                    ▼
//!           conflict              rejected       delete delegate ─▶ conflict
//! ```
//!
//! A delegate is bound only by the incarnation that created it and still wants it. So a creation
//! that arrives late does no harm: the delegate stays unbound and is deleted. A delete names the
//! resourceVersion of the unbound pod, so it never hits a delegate that a late bind has bound in
//! the meantime; that delegate counts as committed. The room of an unbound delegate is held on its
//! node until it is gone, because such a bind may be under way.

mod unbound;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use engine::catch_panic;
use engine::decide::{Selection, WantedSample};
use engine::ports::Ports;
use framework::{Pod, PodKey, Status, Time, Uid};

use super::checks::{CommitView, conflict_of};
use super::journal::{Commit, State, held_pod, hold_of};
use super::sampling::millis;
use super::{Agent, AgentOutput, CallId, WriteAnswer};
use crate::delegate::DelegateMark;
use crate::message::{
    CommitKey, CommitOutcome, CommitRequest, Committed, Conflict, ConflictCode, Refusal,
    RefusalCode, Response, SealOutcome,
};

/// Pause before a write of unknown outcome is repeated.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of creations of unknown outcome. A creation that arrives later leaves an unbound
/// pod, which is deleted.
const MAX_TRIES: u32 = 5;

/// Time that a commit may take; its lease must not end earlier.
const COMMIT_TIME: Duration = Duration::from_secs(5);

/// The purpose of a write or a read.
#[derive(Debug, Clone)]
pub(super) enum Purpose {
    /// Creates the delegate of a commit.
    Create(CommitKey),
    /// Reads the pod that has the name of the delegate.
    ReadName(CommitKey),
    /// Deletes an unbound delegate.
    Delete(Uid),
    /// Reads an unbound delegate that is to be deleted.
    ReadUnbound(Uid),
    /// Deletes a delegate whose lease has ended.
    Fence(Uid),
    /// Stores when the leases were renewed.
    KeepLeases,
}

/// An unbound delegate that is being deleted.
#[derive(Debug)]
pub(super) struct Undoing {
    pod: PodKey,
    mark: DelegateMark,
    resource_version: u64,
}

/// Requests.
impl Agent {
    pub(super) fn commit(
        &mut self,
        call: CallId,
        request: &Arc<CommitRequest>,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let outcome = match self.find_commit(call, request, now) {
            Found::Waits => return,
            Found::Closed(outcome) => outcome,
            Found::New => match self.admit(request, now, ports) {
                Ok(node) => {
                    self.begin(call, request, node, now);
                    return;
                }
                Err(outcome) => {
                    self.remember(&request.key, &outcome, now);
                    outcome
                }
            },
            Found::Busy => {
                // The scheduler goes on, so a copy of the request must not be carried out later.
                self.journal.seal(&request.key.pod, request.key.number, now);
                let text = "another commit for the pod is under way";
                CommitOutcome::Rejected(Refusal::new(RefusalCode::Busy, text))
            }
        };
        self.reply(call, Response::Commit(outcome));
    }

    /// Remembers a commit that was not made, so that a copy of the request gets the same answer.
    /// The answer to a sample of another life, or one that is too old, is the same without that.
    fn remember(&mut self, key: &CommitKey, outcome: &CommitOutcome, now: Time) {
        let is_stable = matches!(
            outcome,
            CommitOutcome::Rejected(Refusal {
                code: RefusalCode::OtherIncarnation | RefusalCode::StaleSample,
                ..
            })
        );
        if !is_stable {
            self.journal.begin(Commit::new(key.clone(), State::Refused(outcome.clone())));
            self.journal.expire(&key.pod, now);
        }
    }

    /// Looks the commit up in the journal.
    fn find_commit(&mut self, call: CallId, request: &CommitRequest, now: Time) -> Found {
        let rejected =
            |code, text: &str| Found::Closed(CommitOutcome::Rejected(Refusal::new(code, text)));
        let key = &request.key;
        if self.ends_now(key) {
            // A copy of the request must not be carried out when the delegate is gone.
            self.journal.seal(&key.pod, key.number, now);
            let message = "an earlier delegate of the pod ends".to_owned();
            let conflict = Conflict { code: ConflictCode::NameTaken, message };
            return Found::Closed(CommitOutcome::Conflict(conflict));
        }
        let Some(record) = self.journal.get_mut(&key.pod) else { return Found::New };
        if let Some(commit) = &mut record.commit {
            match &commit.state {
                State::Committed { committed, exists } if *exists || commit.key == *key => {
                    return Found::Closed(CommitOutcome::Committed(committed.clone()));
                }
                State::Refused(outcome) if commit.key == *key => {
                    return Found::Closed(outcome.clone());
                }
                State::Committed { .. } | State::Refused(_) => {}
                _ if commit.key == *key => {
                    commit.waiting.push(call);
                    return Found::Waits;
                }
                _ => return Found::Busy,
            }
            if commit.key > *key {
                return rejected(RefusalCode::Sealed, "a later commit for the pod was made");
            }
        }
        if record.sealed >= Some(key.number) {
            return rejected(RefusalCode::Sealed, "the commit is sealed");
        }
        Found::New
    }

    /// Whether the delegate of an earlier commit for the pod exists and is being deleted.
    fn ends_now(&mut self, key: &CommitKey) -> bool {
        let Some(Commit { key: earlier, state, .. }) = self.journal.commit_mut(&key.pod) else {
            return false;
        };
        let State::Committed { committed, exists: true } = state else { return false };
        *earlier < *key && self.ending.contains(&Uid::from(&*committed.uid))
    }

    /// Checks a new commit. Returns its node.
    fn admit(
        &mut self,
        request: &CommitRequest,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Result<Arc<str>, CommitOutcome> {
        let rejected = |code, text: &str| CommitOutcome::Rejected(Refusal::new(code, text));
        let (snapshot, pod) = (&request.snapshot, &request.pod.pod);
        if snapshot.incarnation != self.config.incarnation {
            return Err(rejected(RefusalCode::OtherIncarnation, "the agent has been started anew"));
        }
        let age = millis(now).saturating_sub(snapshot.taken_ms);
        if u128::from(age) > self.config.max_sample_age.as_millis() {
            return Err(rejected(RefusalCode::StaleSample, &format!("the sample is {age} ms old")));
        }
        if let Some(terms) = &request.terms
            && !self.leases.allow(terms, now + COMMIT_TIME)
        {
            return Err(rejected(RefusalCode::NoLease, "the lease of the delegate is not renewed"));
        }
        let node = match request.target.best_of_at_least {
            None => self.check_node(request, now, ports)?,
            Some(floor) => self.best_node(request, floor, now, ports)?,
        };
        let cluster = self.engine.cluster();
        let view = CommitView { pod, target: &request.target, node: &node, snapshot, cluster };
        for own in &self.config.checks {
            let checked = catch_panic(&own.name, ports.probe, || own.plugin.check(&view));
            let checked = checked.map_err(|panicked| outcome_of(&panicked))?;
            checked.map_err(CommitOutcome::Conflict)?;
        }
        Ok(node)
    }

    fn check_node(
        &mut self,
        request: &CommitRequest,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Result<Arc<str>, CommitOutcome> {
        let (pod, node) = (&request.pod.pod, &request.target.node);
        if self.cluster().node_named(node).is_none() {
            let message = format!("node {node:?} does not exist");
            return Err(CommitOutcome::Conflict(Conflict {
                code: ConflictCode::NodeGone,
                message,
            }));
        }
        let verdict = self.engine.check(&self.config.profile, pod, node, now, ports);
        verdict.map(|()| node.clone()).map_err(|status| outcome_of(&status))
    }

    /// Returns the best node at this time, if its score is at least `floor`.
    fn best_node(
        &mut self,
        request: &CommitRequest,
        floor: i64,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Result<Arc<str>, CommitOutcome> {
        let best = WantedSample { selection: Selection::Best, count: 1 };
        let (profile, pod) = (&self.config.profile, &request.pod.pod);
        let sample = self.engine.sample(profile, pod, best, now, ports);
        let sample = sample.map_err(|status| match outcome_of(&status) {
            CommitOutcome::Conflict(conflict) => {
                CommitOutcome::Conflict(Conflict { code: ConflictCode::ScoreFell, ..conflict })
            }
            failed => failed,
        })?;
        let best = sample.nodes.first().filter(|best| best.score >= floor);
        best.map(|best| self.cluster().node_name(best.node).clone()).ok_or_else(|| {
            let message = format!("no node has a score of at least {floor}");
            CommitOutcome::Conflict(Conflict { code: ConflictCode::ScoreFell, message })
        })
    }

    /// Holds the room and creates the delegate.
    fn begin(&mut self, call: CallId, request: &Arc<CommitRequest>, node: Arc<str>, now: Time) {
        let (key, hold) = (request.key.clone(), hold_of(&request.key));
        if let Err(message) = self.engine.hold(&held_pod(&request.pod.pod, &hold), &node) {
            let refusal = CommitOutcome::Rejected(Refusal::new(RefusalCode::Failed, message));
            self.remember(&key, &refusal, now);
            return self.reply(call, Response::Commit(refusal));
        }
        let state = State::Creating { request: request.clone(), node, hold, tries: 0 };
        let mut commit = Commit::new(key.clone(), state);
        commit.waiting.push(call);
        self.journal.begin(commit);
        self.write(Purpose::Create(key));
    }

    /// Answers what became of a commit. A commit that is under way is answered when its outcome is
    /// known; one that was not made is refused from now on.
    pub(super) fn seal(&mut self, call: CallId, key: &CommitKey, now: Time) {
        if let Some(commit) = self.journal.commit_mut(&key.pod) {
            match &commit.state {
                State::Committed { committed, exists } if *exists || commit.key >= *key => {
                    let outcome = SealOutcome::Committed(committed.clone());
                    return self.reply(call, Response::Seal(outcome));
                }
                State::Committed { .. } | State::Refused(_) => {}
                _ => return commit.sealing.push((call, key.number)),
            }
        }
        self.journal.seal(&key.pod, key.number, now);
        self.reply(call, Response::Seal(SealOutcome::Sealed));
    }
}

/// The state of a commit in the journal.
enum Found {
    New,
    Waits,
    Busy,
    Closed(CommitOutcome),
}

/// A rejection is a conflict; the failure of a plugin is none.
fn outcome_of(status: &Status) -> CommitOutcome {
    match status.is_rejection() {
        true => CommitOutcome::Conflict(conflict_of(status)),
        false => CommitOutcome::Rejected(Refusal::new(RefusalCode::Failed, status.message())),
    }
}

/// Steps of commits.
impl Agent {
    /// Goes on after the answer to a write or read.
    pub(super) fn resume(
        &mut self,
        purpose: Purpose,
        answer: WriteAnswer,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        match purpose {
            Purpose::Create(key) => self.create_answered(&key, answer, now, ports),
            Purpose::ReadName(key) => self.name_read(&key, answer, now, ports),
            Purpose::Delete(uid) => self.delete_answered(uid, answer, now, ports),
            Purpose::ReadUnbound(uid) => self.unbound_read(uid, answer, now, ports),
            Purpose::Fence(uid) => self.fence_answered(uid, &answer, now),
            Purpose::KeepLeases => self.leases_kept(&answer, now),
        }
    }

    fn create_answered(
        &mut self,
        key: &CommitKey,
        answer: WriteAnswer,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let Some(Commit { key: current, state: State::Creating { tries, .. }, .. }) =
            self.journal.commit_mut(&key.pod)
        else {
            return;
        };
        if current != key {
            return;
        }
        match answer {
            WriteAnswer::Pod(pod, _) => self.created(key, &pod, now, ports),
            WriteAnswer::Conflict => self.write(Purpose::ReadName(key.clone())),
            WriteAnswer::Unknown(text) => {
                *tries += 1;
                if *tries < MAX_TRIES {
                    return self.retry(Purpose::Create(key.clone()), now);
                }
                let text = format!("the outcome of creating the pod is unknown: {text}");
                self.refuse(key, Refusal::new(RefusalCode::Failed, text), now, ports);
            }
            WriteAnswer::Refused(text) => {
                self.refuse(key, Refusal::new(RefusalCode::Failed, text), now, ports);
            }
            WriteAnswer::Done | WriteAnswer::NotFound => {
                let text = "the API server gave no object for the pod that it created";
                self.refuse(key, Refusal::new(RefusalCode::Failed, text), now, ports);
            }
        }
    }

    /// A pod of the name exists: the delegate, if the answer to an earlier creation was lost, or
    /// another pod.
    fn name_read(
        &mut self,
        key: &CommitKey,
        answer: WriteAnswer,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let commit = self.journal.commit_mut(&key.pod);
        let is_creating = commit.is_some_and(|commit| {
            commit.key == *key && matches!(commit.state, State::Creating { .. })
        });
        if !is_creating {
            return;
        }
        match answer {
            WriteAnswer::Pod(pod, mark)
                if mark.as_ref().is_some_and(|mark| self.is_own(mark, key)) =>
            {
                self.created(key, &pod, now, ports);
            }
            WriteAnswer::Pod(pod, Some(mark))
                if mark.key.pod == key.pod && pod.node_name.is_some() =>
            {
                // An earlier commit for the pod succeeded.
                let (node, uid) = (pod.node_name.clone().unwrap_or_default(), &pod.uid);
                self.release_hold(key, now, ports);
                self.journal.set_delegate(uid.clone(), &key.pod);
                self.committed(key, uid, node, now);
            }
            WriteAnswer::Pod(pod, _) => {
                let message = format!("another pod has the name {}", pod.key);
                let conflict = Conflict { code: ConflictCode::NameTaken, message };
                self.end_creation(key, CommitOutcome::Conflict(conflict), now, ports);
            }
            WriteAnswer::NotFound => self.write(Purpose::Create(key.clone())),
            _ => self.retry(Purpose::ReadName(key.clone()), now),
        }
    }

    /// Whether this incarnation created a delegate for this commit.
    fn is_own(&self, mark: &DelegateMark, key: &CommitKey) -> bool {
        mark.key == *key && mark.incarnation == self.config.incarnation
    }

    /// Binds the delegate.
    fn created(&mut self, key: &CommitKey, pod: &Arc<Pod>, now: Time, ports: &mut Ports<'_>) {
        let Some(commit) = self.journal.commit_mut(&key.pod) else { return };
        let State::Creating { request, node, hold, .. } = &commit.state else { return };
        let (node, hold) = (node.clone(), hold.clone());
        let (origin, terms) = (request.origin.clone(), request.terms.clone());
        if !request.copies.is_empty() {
            let (delegate, request) = (pod.uid.clone(), request.clone());
            self.outputs.push(AgentOutput::Copy { delegate, request });
        }
        commit.state = State::Binding { pod: pod.clone() };
        self.journal.set_delegate(pod.uid.clone(), &key.pod);
        let may_run = terms.as_ref().is_none_or(|terms| self.leases.allow(terms, now));
        if let Some(terms) = &terms {
            self.leases.add(&pod.uid, &pod.key, terms);
        }
        let placed = match may_run {
            true => self.engine.place(pod, &node, &hold, now, ports).map_err(|s| outcome_of(&s)),
            false => {
                self.engine.release(&hold, now, ports);
                let text = "the lease of the delegate has ended";
                Err(CommitOutcome::Rejected(Refusal::new(RefusalCode::NoLease, text)))
            }
        };
        if let Err(outcome) = placed {
            let incarnation = self.config.incarnation.clone();
            let mark = DelegateMark { key: key.clone(), node, incarnation, origin, terms };
            self.undo(pod, mark, outcome);
        }
    }

    /// Handles the end of the binding cycle of a delegate.
    pub(super) fn binding_settled(
        &mut self,
        uid: &Uid,
        outcome: Result<Arc<str>, String>,
        now: Time,
    ) {
        let Some(commit) = self.journal.commit_of(uid) else { return };
        let State::Binding { pod } = &commit.state else { return };
        let (key, pod) = (commit.key.clone(), pod.clone());
        match outcome {
            Ok(node) => self.committed(&key, uid, node, now),
            Err(message) => {
                let conflict = Conflict { code: ConflictCode::Binding, message };
                let (node, incarnation) = ("".into(), self.config.incarnation.clone());
                let mark = DelegateMark { key, node, incarnation, origin: None, terms: None };
                self.undo(&pod, mark, CommitOutcome::Conflict(conflict));
            }
        }
    }

    fn committed(&mut self, key: &CommitKey, uid: &Uid, node: Arc<str>, now: Time) {
        let fence_after_s = self.leases.fence_after_s(uid);
        let uid = uid.to_string().into();
        let committed = Committed { key: key.clone(), uid, node, fence_after_s };
        let Some(commit) = self.journal.commit_mut(&key.pod) else { return };
        commit.state = State::Committed { committed: committed.clone(), exists: true };
        self.close(key, CommitOutcome::Committed(committed), now);
    }

    /// Ends a commit whose delegate was not created.
    fn refuse(&mut self, key: &CommitKey, refusal: Refusal, now: Time, ports: &mut Ports<'_>) {
        self.end_creation(key, CommitOutcome::Rejected(refusal), now, ports);
    }

    fn end_creation(
        &mut self,
        key: &CommitKey,
        outcome: CommitOutcome,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        self.release_hold(key, now, ports);
        self.not_made(key, outcome, now);
    }

    fn release_hold(&mut self, key: &CommitKey, now: Time, ports: &mut Ports<'_>) {
        let commit = self.journal.commit_mut(&key.pod);
        if let Some(Commit { state: State::Creating { hold, .. }, .. }) = commit {
            let hold = hold.clone();
            self.engine.release(&hold, now, ports);
        }
    }

    fn not_made(&mut self, key: &CommitKey, outcome: CommitOutcome, now: Time) {
        let Some(commit) = self.journal.commit_mut(&key.pod) else { return };
        commit.state = State::Refused(outcome.clone());
        self.close(key, outcome, now);
    }

    /// Answers the requests that wait for the outcome of a commit.
    fn close(&mut self, key: &CommitKey, outcome: CommitOutcome, now: Time) {
        let Some(commit) = self.journal.commit_mut(&key.pod) else { return };
        let (waiting, sealing) =
            (std::mem::take(&mut commit.waiting), std::mem::take(&mut commit.sealing));
        for call in waiting {
            self.reply(call, Response::Commit(outcome.clone()));
        }
        for (call, number) in sealing {
            let outcome = match &outcome {
                CommitOutcome::Committed(committed) => SealOutcome::Committed(committed.clone()),
                _ => {
                    self.journal.seal(&key.pod, number, now);
                    SealOutcome::Sealed
                }
            };
            self.reply(call, Response::Seal(outcome));
        }
        self.journal.expire(&key.pod, now);
    }
}
