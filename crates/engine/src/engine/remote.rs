//! Decisions that are made elsewhere: samples of nodes, placements on a node that a caller names, and pods of
//! the queue that a caller decides about.
//!
//! An agent of a member cluster answers with samples and carries out placements. A scheduler over many clusters
//! takes pods from the queue and reports what became of them.

use std::sync::Arc;

use framework::{CycleState, NodeIx, Pod, QueuedPod, Status, Time, Uid};

use super::Engine;
use crate::attempt::Outcome;
use crate::context::Context;
use crate::cycle::{Cycle, NO_NODES, Ranker, Sample, ScheduleError, Search, Selection, Subject};
use crate::failure::Failure;
use crate::ports::Ports;
use crate::profile::Profile;
use crate::record::Choice;

/// The end of a binding cycle that [`Engine::place`] began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// UID of the pod.
    pub uid: Uid,
    /// The node that the pod is bound to; otherwise why it is not bound, and will not be by this engine.
    pub outcome: Result<Arc<str>, String>,
}

/// Samples and placements.
impl Engine {
    /// Returns up to `count` nodes that can take `pod` by the profile of this scheduler name. Changes nothing.
    ///
    /// # Errors
    /// No node of the cluster can take the pod, the profile is unknown, or a plugin or extender failed.
    pub fn sample(
        &mut self,
        (profile, pod): (&str, &Arc<Pod>),
        selection: Selection<'_>,
        count: usize,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Result<Sample, Status> {
        self.run(now, ports, |engine, cx| {
            let profile = engine.profile_named(profile)?;
            let mut state = CycleState::new();
            engine
                .with_cycle(pod, &profile, &mut state, cx, |cycle| cycle.sample(selection, count))
                .map_err(ScheduleError::into_status)
        })
    }

    /// Checks whether the node can take `pod` by the profile of this scheduler name. Changes nothing.
    ///
    /// # Errors
    /// The verdict of the first plugin that rejects the node, or the failure of a plugin or extender. The
    /// status names the plugin.
    pub fn check(
        &mut self,
        (profile, pod): (&str, &Arc<Pod>),
        node: &str,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Result<(), Status> {
        self.run(now, ports, |engine, cx| {
            let profile = engine.profile_named(profile)?;
            engine.check_node(pod, &profile, node, &mut CycleState::new(), cx).map(drop)
        })
    }

    /// Places a pod on a node for the time until it exists, so that its room is taken. The UID must be one
    /// that no pod has.
    ///
    /// # Errors
    /// The UID is known already.
    pub fn hold(&mut self, pod: &Pod, node: &Arc<str>) -> Result<(), String> {
        self.world.assume(pod, node).map(drop).map_err(|error| error.to_string())
    }

    /// Ends a [hold](Self::hold). Ignores a UID that is not held.
    pub fn release(&mut self, hold: &Uid, now: Time, ports: &mut Ports<'_>) {
        self.run(now, ports, |engine, cx| engine.end_hold(hold, cx));
    }

    /// Ends the hold, checks the node once more and starts the binding cycle of `pod` on it, with Reserve,
    /// Permit and PreBind. Its end is reported by [`take_settled`](Self::take_settled).
    ///
    /// # Errors
    /// The node no longer takes the pod, or Reserve or Permit rejected it. Its room is free again.
    pub fn place(
        &mut self,
        pod: &Arc<Pod>,
        node: &str,
        hold: &Uid,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Result<(), Status> {
        self.run(now, ports, |engine, cx| {
            engine.world.forget(hold);
            let placed = engine.try_place(pod, node, cx);
            if placed.is_err() {
                engine.room_freed(pod, cx);
            }
            placed
        })
    }

    /// Returns how the binding cycles ended since the last call, of pods that were [placed](Self::place).
    pub fn take_settled(&mut self) -> Vec<Settled> {
        std::mem::take(&mut self.settled)
    }

    fn try_place(
        &mut self,
        pod: &Arc<Pod>,
        node: &str,
        cx: &mut Context<'_>,
    ) -> Result<(), Status> {
        let profile = self.profile_named(&pod.spec.scheduler_name)?;
        let mut state = CycleState::new();
        let ix = self.check_node(pod, &profile, node, &mut state, cx)?;
        state.end_search();
        let node = self.cache().cluster().node_name(ix).clone();
        self.placed.insert(pod.uid.clone());
        let queued = QueuedPod::new(pod.clone(), cx.now);
        let choice = Choice { node, ties: 1, total: None, feasible: 1, evaluated: 1 };
        match self.assume_and_bind(queued, &profile, choice, state, cx) {
            Outcome::Assumed(_) => Ok(()),
            Outcome::Unschedulable(message) | Outcome::Error(message) => {
                self.placed.remove(&pod.uid);
                Err(Status::unschedulable(message))
            }
            Outcome::Skipped => {
                self.placed.remove(&pod.uid);
                Err(Status::unschedulable("the pod was replaced by another of its name"))
            }
        }
    }

    /// Reports the end of a binding cycle, if a placement began it.
    pub(super) fn settle(&mut self, uid: &Uid, outcome: Result<Arc<str>, String>) {
        if self.placed.remove(uid) {
            self.settled.push(Settled { uid: uid.clone(), outcome });
        }
    }

    fn end_hold(&mut self, hold: &Uid, cx: &mut Context<'_>) {
        let Some(placed) = self.cache().placed(hold) else { return };
        let pod = placed.pod.clone();
        self.world.forget(hold);
        self.room_freed(&pod, cx);
    }

    fn check_node(
        &mut self,
        pod: &Arc<Pod>,
        profile: &Profile,
        node: &str,
        state: &mut CycleState,
        cx: &mut Context<'_>,
    ) -> Result<NodeIx, Status> {
        let Some(ix) = self.cache().cluster().node_named(node) else {
            return Err(Status::unresolvable(NO_NODES));
        };
        self.with_cycle(pod, profile, state, cx, |cycle| cycle.check_node(ix)).map(|()| ix)
    }

    fn with_cycle<T>(
        &mut self,
        pod: &Arc<Pod>,
        profile: &Profile,
        state: &mut CycleState,
        cx: &mut Context<'_>,
        run: impl FnOnce(&mut Cycle<'_, '_>) -> T,
    ) -> T {
        self.register_queries(pod, profile, cx);
        let subject = Subject { profile, pod, state };
        let ranker = Ranker { rankings: &mut self.rankings, log: self.world.log().reader() };
        let search = Search {
            scratch: &mut self.scratch,
            next_start: &mut self.next_start,
            ranker: Some(ranker),
            rng: &mut self.rng,
        };
        run(&mut Cycle::new(self.world.view(), &self.settings, subject, search, cx))
    }

    fn profile_named(&self, scheduler_name: &str) -> Result<Arc<Profile>, Status> {
        let profile = self.profiles().get(scheduler_name).cloned();
        profile.ok_or_else(|| Status::error(format!("no profile is named {scheduler_name:?}")))
    }
}

/// Pods of the queue that a caller decides about.
impl Engine {
    /// Takes the next pod from the queue, which is then in flight. Pods for which an attempt makes no sense are
    /// skipped. Each pod is passed to [`delegated`](Self::delegated), [`retry`](Self::retry) or
    /// [`failed`](Self::failed) later.
    pub fn pop(&mut self, now: Time, ports: &mut Ports<'_>) -> Option<QueuedPod> {
        self.run(now, ports, |engine, cx| {
            loop {
                let queued = engine.world.pop(cx)?;
                if engine.profile_to_try(&queued.pod, cx).is_some() {
                    return Some(queued);
                }
                engine.world.done(&queued.pod.uid);
                engine.world.attempt_ended(&queued.pod, cx);
            }
        })
    }

    /// Ends the flight of a popped pod that needs no further attempt.
    pub fn delegated(&mut self, pod: &Pod, now: Time, ports: &mut Ports<'_>) {
        self.run(now, ports, |engine, cx| {
            engine.world.done(&pod.uid);
            engine.world.attempt_ended(pod, cx);
        });
    }

    /// Puts a popped pod back into the queue, to be tried again at once.
    pub fn retry(&mut self, queued: QueuedPod, now: Time, ports: &mut Ports<'_>) {
        self.run(now, ports, |engine, cx| {
            let pod = queued.pod.clone();
            engine.world.requeue_outdated(queued, cx);
            engine.world.attempt_ended(&pod, cx);
        });
    }

    /// Puts a popped pod back into the queue with a backoff, and reports the failure as condition and event.
    pub fn failed(&mut self, queued: QueuedPod, status: &Status, now: Time, ports: &mut Ports<'_>) {
        self.run(now, ports, |engine, cx| {
            let pod = queued.pod.clone();
            if let Some(profile) = engine.world.view().profile_of(&pod).cloned() {
                Failure::error(status).handle(queued, &profile, &mut engine.world, cx);
            } else {
                engine.world.done(&pod.uid);
            }
            engine.world.attempt_ended(&pod, cx);
        });
    }
}
