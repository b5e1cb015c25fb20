//! Questions that the scheduling loop answers beside its work: facts about a pod at once, and
//! copies of the cluster in slices.

use std::collections::VecDeque;
use std::sync::Arc;

use control::scheduler::Scheduler;
use engine::Engine;
use explain::{ClusterCopy, CopiedNodes, DecisionsAnswer, PodFacts};
use framework::{PodKey, Time, Uid};
use tokio::sync::oneshot;

/// A question to the scheduling loop. An answer that nobody waits for any more is dropped.
#[derive(Debug)]
pub enum Question {
    /// The facts about the pod of this name and UID.
    Facts(PodKey, Uid, oneshot::Sender<Option<PodFacts>>),
    /// The decisions after the first ones of this number.
    Decisions(u64, oneshot::Sender<DecisionsAnswer>),
    /// A copy of the cluster, or of what differs from an earlier copy.
    Copy(Option<Arc<CopiedNodes>>, oneshot::Sender<Copied>),
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
    waiting: VecDeque<(ClusterCopy, oneshot::Sender<Copied>)>,
    /// Copies whose receiver has given up. To free a large one at once would delay decisions.
    discarded: Vec<ClusterCopy>,
}

impl Copies {
    /// Answers a question, or begins to.
    pub(super) fn ask(&mut self, question: Question, scheduler: &Scheduler, now: Time) {
        match question {
            Question::Facts(pod, uid, receiver) => {
                let facts = explain::facts_by_uid(scheduler.engine(), &pod, &uid, now);
                let _ = receiver.send(facts);
            }
            Question::Decisions(after, receiver) => {
                let _ = receiver.send(explain::decisions(scheduler.engine(), after, now));
            }
            Question::Copy(base, receiver) => {
                let copy = base.map_or_else(ClusterCopy::default, ClusterCopy::since);
                self.waiting.push_back((copy, receiver));
            }
        }
    }

    /// Returns whether all copies are complete.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.discarded.is_empty()
    }

    /// Copies a slice for the first receiver that still waits, or frees a slice of a copy without a
    /// receiver.
    pub(super) fn advance(&mut self, scheduler: &Scheduler, now: Time) {
        let engine = scheduler.engine();
        self.advance_with(engine, now, |cluster| Copied {
            cluster,
            now,
            leads: scheduler.may_act(now),
        });
    }

    fn advance_with(
        &mut self,
        engine: &Engine,
        now: Time,
        copied: impl FnOnce(ClusterCopy) -> Copied,
    ) {
        if self.discarded.last_mut().is_some_and(ClusterCopy::discard) {
            self.discarded.pop();
        }
        if !self.discarded.is_empty() {
            return;
        }
        let Some((copy, receiver)) = self.waiting.front_mut() else { return };
        let is_over = receiver.is_closed() || copy.advance(engine, now);
        if is_over && let Some((copy, receiver)) = self.waiting.pop_front() {
            match receiver.is_closed() {
                true => self.discarded.push(copy),
                false => {
                    // The receiver may give up at this moment.
                    let refused = receiver.send(copied(copy)).err();
                    self.discarded.extend(refused.map(|own| own.cluster));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::ports::Ports;
    use engine::{Change, EngineConfig, Input};
    use testkit::{node, pod};

    use super::*;

    fn engine(nodes: usize, pods: usize) -> Engine {
        let config = crate::config::defaults(&crate::config::Gates::default());
        let profiles = config.build_profiles(&plugins::registry()).unwrap();
        let mut engine = Engine::new(EngineConfig::new(profiles));
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        for number in 0..nodes {
            let node = node(&format!("n{number}")).build();
            engine.step(Input::Change(Change::Node(node)), Time::ZERO, ports);
        }
        for number in 0..pods {
            let pod = pod(&format!("p{number}")).on(&format!("n{}", number % nodes)).build();
            engine.step(Input::Change(Change::Pod(Box::new(pod))), Time::ZERO, ports);
        }
        engine
    }

    /// Advances until nothing is left to do. Returns the number of slices.
    fn run(copies: &mut Copies, engine: &Engine) -> usize {
        let mut slices = 0;
        while !copies.is_idle() {
            let now = Time::ZERO;
            copies.advance_with(engine, now, |cluster| Copied { cluster, now, leads: true });
            slices += 1;
        }
        slices
    }

    fn ask(copies: &mut Copies) -> oneshot::Receiver<Copied> {
        let (sender, receiver) = oneshot::channel();
        copies.waiting.push_back((ClusterCopy::default(), sender));
        receiver
    }

    #[test]
    fn copy_whose_receiver_has_given_up_is_freed_in_slices() {
        let engine = engine(40, 4_000);
        let mut copies = Copies::default();
        let receiver = ask(&mut copies);
        let whole = run(&mut copies, &engine);
        drop(receiver);
        let receiver = ask(&mut copies);
        for _ in 1..whole {
            let now = Time::ZERO;
            copies.advance_with(&engine, now, |cluster| Copied { cluster, now, leads: true });
        }
        drop(receiver);
        let slices = run(&mut copies, &engine);
        assert!(slices > 4_000 / 512, "{slices} slices free 4,000 pods");
    }

    #[test]
    fn receivers_that_have_given_up_hold_up_no_other_one() {
        let engine = engine(2, 10);
        let mut copies = Copies::default();
        let gone: Vec<_> = (0..3).map(|_| ask(&mut copies)).collect();
        let mut receiver = ask(&mut copies);
        drop(gone);
        run(&mut copies, &engine);
        assert_eq!(receiver.try_recv().unwrap().cluster.into_parts().1.len(), 10);
    }
}
