//! Questions that the scheduling loop answers beside its work: facts about a pod at once, and copies of the cluster
//! in slices.

use std::collections::VecDeque;

use client::scheduler::Scheduler;
use explain::{ClusterCopy, PodFacts};
use framework::{PodKey, Time, Uid};
use tokio::sync::oneshot;

/// A question to the scheduling loop. An answer that nobody waits for any more is dropped.
#[derive(Debug)]
pub enum Question {
    /// What is known of the pod of this name and UID.
    Facts(PodKey, Uid, oneshot::Sender<Option<PodFacts>>),
    /// A copy of the cluster.
    Copy(oneshot::Sender<Copied>),
}

/// A copy of the cluster.
#[derive(Debug)]
pub struct Copied {
    /// The copy.
    pub cluster: ClusterCopy,
    /// The time of its end.
    pub now: Time,
    /// Whether this replica leads, or there is no leader election.
    pub leads: bool,
}

/// The requested copies. One at a time is in progress.
#[derive(Debug, Default)]
pub(super) struct Copies {
    waiting: VecDeque<oneshot::Sender<Copied>>,
    current: ClusterCopy,
}

impl Copies {
    /// Answers a question, or begins to.
    pub(super) fn ask(&mut self, question: Question, scheduler: &Scheduler, now: Time) {
        match question {
            Question::Facts(pod, uid, receiver) => {
                let facts = explain::facts_by_uid(scheduler.engine(), &pod, &uid, now);
                let _ = receiver.send(facts);
            }
            Question::Copy(receiver) => self.waiting.push_back(receiver),
        }
    }

    /// Returns whether all copies are complete.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Copies a slice for the first receiver that still waits.
    pub(super) fn advance(&mut self, scheduler: &Scheduler, now: Time) {
        while self.waiting.front().is_some_and(oneshot::Sender::is_closed) {
            self.waiting.pop_front();
        }
        if self.waiting.is_empty() {
            // The receiver has given up.
            if !self.current.is_empty() {
                self.current = ClusterCopy::default();
            }
            return;
        }
        if self.current.advance(scheduler.engine(), now)
            && let Some(receiver) = self.waiting.pop_front()
        {
            let cluster = std::mem::take(&mut self.current);
            let _ = receiver.send(Copied { cluster, now, leads: scheduler.may_act(now) });
        }
    }
}
