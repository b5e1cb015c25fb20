//! Trials: changes that are applied to an engine, tried, and taken back.

use std::sync::Arc;

use engine::cycle::Form;
use engine::ports::Ports;
use engine::{Change, Engine, Evaluation, Input, Supposition, Trial};
use framework::{Cluster, Pod, PodGroupKey, Status, Time};

use crate::copy::GroupWaits;

/// An engine of one's own, for trials. Its effects are dropped.
pub struct Lab<'e> {
    engine: &'e mut Engine,
    now: Time,
    left: usize,
    /// Says whether the time for the answer is over.
    is_over: &'e dyn Fn() -> bool,
    group_waits: GroupWaits,
}

/// Number of trials for one pod.
const TRIALS: usize = 300;

impl<'e> Lab<'e> {
    /// Creates a lab. `is_over` is asked before each trial.
    pub fn new(engine: &'e mut Engine, now: Time, is_over: &'e dyn Fn() -> bool) -> Self {
        Self { engine, now, left: TRIALS, is_over, group_waits: GroupWaits::new() }
    }

    /// Adds the times since which groups wait, which the queue of the engine does not know.
    pub fn with_group_waits(self, group_waits: GroupWaits) -> Self {
        Self { group_waits, ..self }
    }

    /// Returns the seconds for which a group has waited.
    pub(crate) fn seconds_of_wait(&self, group: &PodGroupKey) -> Option<f64> {
        let since = self.group_waits.get(group)?;
        Some(self.now.since(*since).as_secs_f64())
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Engine {
        self.engine
    }

    /// Returns the cluster.
    pub fn cluster(&self) -> &Cluster {
        self.engine.cluster()
    }

    /// Returns the time.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Whether no more trials are made.
    pub fn is_exhausted(&self) -> bool {
        self.left == 0 || (self.is_over)()
    }

    /// Returns what says whether the time for the answer is over.
    pub(crate) const fn is_over(&self) -> &'e dyn Fn() -> bool {
        self.is_over
    }

    /// Allows as many trials as at the start.
    pub fn renew(&mut self) {
        self.left = TRIALS;
    }

    /// Evaluates a pod in full.
    pub fn evaluate(&mut self, pod: &Arc<Pod>) -> Option<Evaluation> {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.engine
            .step(
                Input::Evaluate { pod: pod.clone(), form: Form::Set, start: None },
                self.now,
                ports,
            )
            .evaluation()
    }

    /// Returns the status of the first PreEnqueue plugin that gates the pod.
    pub fn gate(&mut self, pod: &Pod) -> Option<Status> {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.engine.gate(pod, self.now, ports)
    }

    /// Applies the changes, tries the pod, and takes the changes back. A change of the pod itself
    /// replaces the pod. Returns `None` if the trial was not made: no profile is responsible, or no
    /// trials are left.
    pub fn try_with(&mut self, pod: &Arc<Pod>, changes: &[Change]) -> Option<Trial> {
        if self.is_exhausted() {
            return None;
        }
        self.left -= 1;
        let (of_pods, others): (Vec<_>, Vec<_>) =
            changes.iter().cloned().partition(|change| self.is_of_placed_pod(change, pod));
        self.with(pod, &others, |lab, pod| {
            let ports = &mut Ports { extenders: &mut (), probe: &mut () };
            lab.engine.suppose(lab.now, ports, |supposed| {
                for change in &of_pods {
                    match change {
                        Change::Pod(changed) => supposed.put(changed),
                        Change::PodDeleted { uid, .. } => supposed.remove(uid),
                        _ => false,
                    };
                }
                supposed.try_pod(pod)
            })
        })
    }

    /// Whether the change puts a pod other than `pod` on its node, or takes it off.
    fn is_of_placed_pod(&self, change: &Change, pod: &Pod) -> bool {
        match change {
            Change::Pod(changed) => changed.key != pod.key && changed.node_name.is_some(),
            Change::PodDeleted { uid, .. } => self.engine.world().placed(uid).is_some(),
            _ => false,
        }
    }

    /// Applies the changes, asks about the pod, and takes the changes back. A change of the pod
    /// itself replaces the pod.
    pub fn with<T>(
        &mut self,
        pod: &Arc<Pod>,
        changes: &[Change],
        ask: impl FnOnce(&mut Self, &Arc<Pod>) -> T,
    ) -> T {
        let own = changes.iter().rev().find_map(|change| match change {
            Change::Pod(changed) if changed.key == pod.key => Some(Arc::new(Pod::clone(changed))),
            _ => None,
        });
        let is_other =
            |change: &&Change| !matches!(change, Change::Pod(changed) if changed.key == pod.key);
        let mut back: Vec<Change> = Vec::new();
        for change in changes.iter().filter(is_other) {
            back.extend(self.inverse(change));
            self.apply(change.clone());
        }
        let answer = ask(self, own.as_ref().unwrap_or(pod));
        back.into_iter().rev().for_each(|change| self.apply(change));
        answer
    }

    /// Asks about the cluster with other pods on it. Afterwards everything is as before.
    pub(crate) fn suppose<T>(&mut self, ask: impl FnOnce(&mut Supposition<'_, '_, '_>) -> T) -> T {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.engine.suppose(self.now, ports, ask)
    }

    /// Lends the engine to a question that leaves it as it was, with the time and what says whether
    /// the time for the answer is over.
    pub fn lend<T>(&mut self, ask: impl FnOnce(&mut Engine, Time, &dyn Fn() -> bool) -> T) -> T {
        ask(self.engine, self.now, self.is_over)
    }

    /// Adds a pod again, on its node if it has one.
    pub fn put_back(&mut self, pod: &Pod) {
        self.apply(Change::Pod(Box::new(pod.clone())));
    }

    /// Removes a pod that has a node, for a question about it.
    pub fn take_off(&mut self, pod: &Pod) {
        self.apply(Change::PodDeleted { key: pod.key.clone(), uid: pod.uid.clone() });
    }

    fn apply(&mut self, change: Change) {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.engine.step(Input::Change(change), self.now, ports);
        self.engine.take_effects();
    }

    fn inverse(&self, change: &Change) -> Option<Change> {
        let cluster = self.cluster();
        Some(match change {
            Change::Node(node) => match cluster.node_named(&node.name) {
                Some(known) => Change::Node(cluster.copy_of_node(known)),
                None => Change::NodeDeleted(node.name.clone()),
            },
            Change::NodeDeleted(name) => {
                Change::Node(cluster.copy_of_node(cluster.node_named(name)?))
            }
            Change::Pod(pod) => match self.engine.world().placed(&pod.uid) {
                Some(placed) => Change::Pod(Box::new(Pod::clone(&placed.pod))),
                None => Change::PodDeleted { key: pod.key.clone(), uid: pod.uid.clone() },
            },
            Change::PodDeleted { uid, .. } => {
                Change::Pod(Box::new(Pod::clone(&self.engine.world().placed(uid)?.pod)))
            }
            Change::Object(object) => match cluster.stored_object(object.key()) {
                Some(known) => Change::Object(Box::new(known)),
                None => Change::ObjectDeleted(object.key().clone()),
            },
            Change::ObjectDeleted(key) => Change::Object(Box::new(cluster.stored_object(key)?)),
        })
    }
}
