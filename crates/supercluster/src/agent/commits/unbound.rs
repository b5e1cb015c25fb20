//! Delegates as the watch shows them, and the deletion of unbound ones.

use std::sync::Arc;

use engine::ports::Ports;
use framework::{Pod, Time, Uid};

use super::{Purpose, Undoing};
use crate::agent::journal::{Commit, State};
use crate::agent::{Agent, WriteAnswer};
use crate::delegate::DelegateMark;
use crate::message::{CommitOutcome, Committed, Refusal, RefusalCode};

impl Agent {
    /// Applies a delegate as the watch shows it.
    pub(in crate::agent) fn delegate_seen(
        &mut self,
        pod: &Arc<Pod>,
        mark: &DelegateMark,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        if pod.terminal {
            return;
        }
        if let Some(node) = &pod.node_name {
            return self.bound_seen(&pod.uid, mark, node, now);
        }
        if pod.terminating || self.undoing.contains_key(&pod.uid) {
            return;
        }
        let own = self.is_own(mark, &mark.key);
        if let Some(commit) = self.journal.commit_mut(&mark.key.pod)
            && commit.key == mark.key
            && own
        {
            match &commit.state {
                State::Creating { .. } => return self.created(&mark.key, pod, now, ports),
                State::Binding { pod: own } if own.uid == pod.uid => return,
                State::Undoing { uid, .. } if *uid == pod.uid => return,
                _ => {}
            }
        }
        // Made by an earlier incarnation, or by a creation that arrived late.
        if self.engine.hold(pod, &mark.node).is_ok() {
            self.adopt(pod, mark);
        }
    }

    /// Deletes an unbound delegate that no commit of this incarnation wants.
    fn adopt(&mut self, pod: &Arc<Pod>, mark: &DelegateMark) {
        let key = &mark.key;
        let text = "an earlier incarnation of the agent left the delegate unbound";
        let then = CommitOutcome::Rejected(Refusal::new(RefusalCode::Sealed, text));
        if self.journal.commit_mut(&key.pod).is_none() {
            let state = State::Undoing { uid: pod.uid.clone(), then };
            self.journal.begin(Commit::new(key.clone(), state));
            self.journal.set_delegate(pod.uid.clone(), &key.pod);
        }
        self.undo_unbound(pod, mark.clone());
    }

    fn bound_seen(&mut self, uid: &Uid, mark: &DelegateMark, node: &Arc<str>, now: Time) {
        self.undoing.remove(uid);
        let commit = self.journal.commit_mut(&mark.key.pod);
        let is_known = commit.is_some_and(|commit| match &commit.state {
            // The engine learns of it from its own watch.
            State::Binding { pod } => pod.uid == *uid,
            State::Committed { committed, exists } => *exists && *committed.uid == *uid.to_string(),
            State::Undoing { uid: own, .. } => own != uid,
            State::Creating { .. } => true,
            State::Refused(_) => false,
        });
        if is_known {
            return;
        }
        self.journal.set_delegate(uid.clone(), &mark.key.pod);
        if self.journal.commit_mut(&mark.key.pod).is_none_or(|commit| commit.is_closed()) {
            let committed = Committed {
                key: mark.key.clone(),
                uid: uid.to_string().into(),
                node: node.clone(),
                fence_after_s: mark.terms.as_ref().map(|terms| terms.fence_after_s),
            };
            let state = State::Committed { committed, exists: true };
            self.journal.begin(Commit::new(mark.key.clone(), state));
            return;
        }
        let key = self.journal.commit_mut(&mark.key.pod).map(|commit| commit.key.clone());
        key.iter().for_each(|key| self.committed(key, uid, node.clone(), now));
    }

    /// Notes that a pod is gone or has ended.
    pub(in crate::agent) fn delegate_gone(&mut self, uid: &Uid, now: Time, ports: &mut Ports<'_>) {
        if self.undoing.contains_key(uid) {
            self.undone(uid, now, ports);
        }
        let Some(commit) = self.journal.commit_of(uid) else { return };
        let key = commit.key.clone();
        match &mut commit.state {
            State::Committed { committed, exists } if *committed.uid == *uid.to_string() => {
                *exists = false;
            }
            State::Undoing { uid: own, .. } if own == uid => return self.undone(uid, now, ports),
            _ => return,
        }
        self.journal.remove_delegate(uid);
        self.journal.expire(&key.pod, now);
    }

    /// Deletes the delegate of a commit, and tells the outcome when it is gone.
    pub(super) fn undo(&mut self, pod: &Arc<Pod>, mark: DelegateMark, then: CommitOutcome) {
        if let Some(commit) = self.journal.commit_of(&pod.uid) {
            commit.state = State::Undoing { uid: pod.uid.clone(), then };
        }
        self.undo_unbound(pod, mark);
    }

    fn undo_unbound(&mut self, pod: &Arc<Pod>, mark: DelegateMark) {
        let undoing =
            Undoing { pod: pod.key.clone(), mark, resource_version: pod.resource_version };
        self.undoing.insert(pod.uid.clone(), undoing);
        self.write(Purpose::Delete(pod.uid.clone()));
    }

    pub(super) fn delete_answered(
        &mut self,
        uid: Uid,
        answer: WriteAnswer,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        match answer {
            WriteAnswer::Done | WriteAnswer::NotFound => self.undone(&uid, now, ports),
            WriteAnswer::Conflict | WriteAnswer::Pod(..) => self.write(Purpose::ReadUnbound(uid)),
            WriteAnswer::Refused(_) | WriteAnswer::Unknown(_) => {
                self.retry(Purpose::ReadUnbound(uid), now);
            }
        }
    }

    pub(super) fn unbound_read(
        &mut self,
        uid: Uid,
        answer: WriteAnswer,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let Some(undoing) = self.undoing.get_mut(&uid) else { return };
        match answer {
            WriteAnswer::Pod(pod, _) if pod.uid != uid => self.undone(&uid, now, ports),
            WriteAnswer::NotFound => self.undone(&uid, now, ports),
            WriteAnswer::Pod(pod, mark) => match &pod.node_name {
                // A bind was under way.
                Some(node) => {
                    let mark = mark.unwrap_or_else(|| undoing.mark.clone());
                    self.bound_seen(&uid, &mark, node, now);
                }
                None => {
                    undoing.resource_version = pod.resource_version;
                    self.write(Purpose::Delete(uid));
                }
            },
            _ => self.retry(Purpose::ReadUnbound(uid), now),
        }
    }

    /// An unbound delegate is gone: frees its room and tells the outcome of its commit.
    fn undone(&mut self, uid: &Uid, now: Time, ports: &mut Ports<'_>) {
        self.undoing.remove(uid);
        self.engine.release(uid, now, ports);
        let Some(commit) = self.journal.commit_of(uid) else { return };
        let State::Undoing { uid: own, then } = &commit.state else { return };
        if own != uid {
            return;
        }
        let (key, then) = (commit.key.clone(), then.clone());
        self.journal.remove_delegate(uid);
        self.not_made(&key, then, now);
    }
}
