//! Decisions that are made elsewhere: samples of nodes, placements on a node that a caller names,
//! and pods of the queue that a caller decides about.
//!
//! An agent of a member cluster answers with samples and carries out placements. A scheduler over
//! many clusters takes pods from the queue and reports what became of them.

use std::sync::Arc;

use framework::{Pod, QueuedEntity, QueuedPod, Status, Time, Uid};

use super::Engine;
use crate::context::Context;
use crate::cycle::{NO_NODES, Question, ScheduleError};
use crate::decide::{Decision, Sample, WantedSample};
use crate::failure::Failure;
use crate::placements::Settled;
use crate::ports::Ports;
use crate::profile::Profile;

/// Samples and placements.
impl Engine {
    /// Returns nodes that can take `pod` by the profile of this scheduler name, as many as wanted
    /// at most. Changes nothing.
    ///
    /// # Errors
    /// No node of the cluster can take the pod, the profile is unknown, or a plugin or extender
    /// failed.
    pub fn sample(
        &mut self,
        profile: &str,
        pod: &Arc<Pod>,
        wanted: WantedSample<'_>,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Result<Sample, Status> {
        self.run(now, ports, |engine, cx| {
            let profile = &*engine.profile_named(profile)?;
            engine.world.register_queries(pod, profile, cx);
            let Self { world, decider, .. } = engine;
            let question = Question { world, profile, pod, within: None, as_member: false };
            decider.sample(question, wanted, world.log(), cx).map_err(ScheduleError::into_status)
        })
    }

    /// Checks whether the node can take `pod` by the profile of this scheduler name. Changes
    /// nothing.
    ///
    /// # Errors
    /// The verdict of the first plugin that rejects the node, or the failure of a plugin or
    /// extender. The status names the plugin.
    pub fn check(
        &mut self,
        profile: &str,
        pod: &Arc<Pod>,
        node: &str,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Result<(), Status> {
        self.run(now, ports, |engine, cx| {
            let profile = engine.profile_named(profile)?;
            engine.check_node(pod, &profile, node, cx).map(drop)
        })
    }

    /// Places a pod on a node for the time until it exists, so that its room is taken. The UID must
    /// be one that no pod has.
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

    /// Ends the hold, checks the node once more and starts the binding cycle of `pod` on it, with
    /// Reserve, Permit and PreBind. Its end is reported by [`take_settled`](Self::take_settled).
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
                engine.world.room_freed(pod, cx);
            }
            placed
        })
    }

    /// Returns how the binding cycles ended since the last call, of pods that were
    /// [placed](Self::place).
    pub fn take_settled(&mut self) -> Vec<Settled> {
        self.attempts.placements_mut().drain()
    }

    fn try_place(
        &mut self,
        pod: &Arc<Pod>,
        node: &str,
        cx: &mut Context<'_>,
    ) -> Result<(), Status> {
        let profile = self.profile_named(&pod.spec.scheduler_name)?;
        let decision = self.check_node(pod, &profile, node, cx)?;
        self.attempts.place(pod, &profile, decision, &mut self.world, cx)
    }

    fn end_hold(&mut self, hold: &Uid, cx: &mut Context<'_>) {
        let Some(placed) = self.world.placed(hold) else { return };
        let pod = placed.pod.clone();
        self.world.forget(hold);
        self.world.room_freed(&pod, cx);
    }

    /// Decides for one node.
    fn check_node(
        &mut self,
        pod: &Arc<Pod>,
        profile: &Profile,
        node: &str,
        cx: &mut Context<'_>,
    ) -> Result<Decision, Status> {
        let Some(node) = self.world.cluster().node_named(node) else {
            return Err(Status::unresolvable(NO_NODES));
        };
        self.world.register_queries(pod, profile, cx);
        let question =
            Question { world: &self.world, profile, pod, within: None, as_member: false };
        self.decider.check(question, node, cx)
    }

    fn profile_named(&self, scheduler_name: &str) -> Result<Arc<Profile>, Status> {
        let profile = self.profiles().get(scheduler_name).cloned();
        profile.ok_or_else(|| Status::error(format!("no profile is named {scheduler_name:?}")))
    }
}

/// Pods of the queue that a caller decides about.
impl Engine {
    /// Takes the next pod from the queue, which is then in flight. Pods for which an attempt makes
    /// no sense are skipped. Each pod is passed to [`delegated`](Self::delegated),
    /// [`retry`](Self::retry) or [`failed`](Self::failed) later.
    pub fn pop(&mut self, now: Time, ports: &mut Ports<'_>) -> Option<QueuedPod> {
        self.run(now, ports, |engine, cx| {
            engine.quota_statuses.write_due(&mut engine.world, cx);
            loop {
                let queued = match engine.world.pop(cx)? {
                    QueuedEntity::Pod(queued) => queued,
                    // The pods of a group are not decided elsewhere.
                    QueuedEntity::Group(group) => {
                        engine.refuse_group(group, cx);
                        continue;
                    }
                };
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

    /// Puts a popped pod back into the queue with a backoff, and reports the failure as condition
    /// and event.
    pub fn failed(&mut self, queued: QueuedPod, status: &Status, now: Time, ports: &mut Ports<'_>) {
        self.run(now, ports, |engine, cx| {
            let pod = queued.pod.clone();
            if let Some(profile) = engine.world.profile_of(&pod).cloned() {
                Failure::error(status).handle(queued, &profile, &mut engine.world, cx);
            } else {
                engine.world.done(&pod.uid);
            }
            engine.world.attempt_ended(&pod, cx);
        });
    }
}
