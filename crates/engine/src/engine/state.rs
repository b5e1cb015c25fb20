//! The state of an engine that its owner can read.

use std::sync::Arc;

use framework::{Cluster, Handle, Pod, PodKey, Time, Uid, WaitingPods};

use super::Engine;
use crate::binding::BindingPhases;
use crate::group_notices;
use crate::nominator::Nominator;
use crate::ports::Outage;
use crate::profile::Profiles;
use crate::queue::Queue;
use crate::record::Records;
use crate::world::{ChangeLog, World};

impl Engine {
    /// The records of the latest attempts.
    pub const fn records(&self) -> &Records {
        self.attempts.records()
    }

    /// Returns the world, to read.
    pub const fn world(&self) -> &World {
        &self.world
    }

    /// Nodes and what is on them.
    pub const fn cluster(&self) -> &Cluster {
        self.world.cluster()
    }

    /// The scheduling queue.
    pub const fn queue(&self) -> &Queue {
        self.world.queue()
    }

    /// The nominations.
    pub const fn nominator(&self) -> &Nominator {
        self.world.nominator()
    }

    /// The changes of nodes and placed pods.
    pub const fn changes(&self) -> &ChangeLog {
        self.world.log()
    }

    /// Number of decisions that looked only at nodes that had changed; see
    /// [`Form::Ranked`](crate::cycle::Form::Ranked).
    pub const fn ranked_decisions(&self) -> u64 {
        self.decider.counts().decisions
    }

    /// Number of failed attempts that looked only at nodes that had changed. They are among the
    /// [ranked decisions](Self::ranked_decisions).
    pub const fn repeated_rejections(&self) -> u64 {
        self.decider.counts().repeated_rejections
    }

    /// Returns what is done to make room for a pod by moves of others, for people.
    pub fn moves_for(&self, pod: &Pod) -> Option<String> {
        self.mover.describe(pod, &self.world)
    }

    /// The profiles.
    pub const fn profiles(&self) -> &Profiles {
        self.world.profiles()
    }

    /// The pods that wait in Permit.
    pub const fn waiting_pods(&self) -> &WaitingPods {
        self.world.waiting_pods()
    }

    /// Number of pods in a binding cycle.
    pub fn binding_count(&self) -> usize {
        self.attempts.binding().len()
    }

    /// Number of pods in each phase of the binding cycle.
    pub fn binding_phases(&self) -> BindingPhases {
        self.attempts.binding().phases()
    }

    /// Whether the pod is in a binding cycle.
    pub fn is_binding(&self, pod: &Uid) -> bool {
        self.attempts.binding().contains(pod)
    }

    /// The name of each extender, and its outage if it does not answer.
    pub fn extender_outages(&self) -> impl Iterator<Item = (&str, Option<&Outage>)> {
        self.extender_health.outages()
    }

    /// The pods without a node that a profile is responsible for, as last seen.
    pub fn pending(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.world.pending().values()
    }

    /// The pod of this name without a node, as last seen.
    pub fn pending_pod(&self, pod: &PodKey) -> Option<&Arc<Pod>> {
        self.world.pending().get(pod)
    }

    /// Whether the gate of groups keeps a pending pod back.
    pub fn is_gated_by_group(&self, pod: &Pod) -> bool {
        group_notices::is_gated(pod, self.world.queue())
    }

    /// Whether victims of this pod are still to be evicted.
    pub fn is_preempting(&self, preemptor: &Uid) -> bool {
        self.world.preemptions().is_running(preemptor)
    }

    /// Returns whether a request to evict a pod waits for its answer, or was answered and the watch
    /// does not show the end of the pod yet.
    pub fn is_evicting(&self, victim: &Uid) -> bool {
        self.preemptions.is_evicting(victim)
    }

    /// Returns whether a preemption in progress has this pod as a victim, also if its eviction is
    /// not requested yet because it is the last one.
    pub fn is_victim(&self, pod: &Uid) -> bool {
        self.preemptions.is_victim(pod)
    }

    /// Returns the handle that a plugin would get at `now`. Commands given through it are applied
    /// with the next call into the engine.
    pub fn handle(&self, now: Time) -> Handle<'_> {
        self.world.handle(now)
    }
}
