//! The state of a recording without its beginning.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::cycle::Form;
use engine::ports::Ports;
use engine::{Change, Engine, Input, Output};
use framework::{Pod, PodKey, Time, Uid, WallOffset};

use crate::operation::{Decided, Operation};

/// How the recorded decisions compare with what the rebuilt state leads to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Pods on one of the best nodes, and pods without a node that no node can take.
    pub same: u64,
    /// Pods on a node that can take them and is not among the best.
    pub fitting: u64,
    /// All others.
    pub different: u64,
    /// Decisions that are not judged: about pods that the state does not have as pending.
    pub unjudged: u64,
}

/// An engine that knows what a recorded engine knew. It makes no decisions itself.
///
/// The state begins with a checkpoint and follows the recorded changes. A pod counts on its node
/// from the recorded decision on, as in the recorded engine. Waiting times, backoffs, evictions
/// under way and what plugins keep are not in it, so decisions are judged, not compared to the
/// byte: see [`Agreement`].
#[derive(Debug)]
pub struct Rebuilder {
    engine: Engine,
    now: Time,
    wall_offset: WallOffset,
    count: u64,
    is_complete: bool,
    /// The pods that a recorded decision gave a node, as they were before.
    assumed: BTreeMap<PodKey, Arc<Pod>>,
    agreement: Agreement,
}

impl Rebuilder {
    /// Creates the state of an engine that knows nothing.
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            now: Time::ZERO,
            wall_offset: WallOffset::default(),
            count: 0,
            is_complete: false,
            assumed: BTreeMap::new(),
            agreement: Agreement::default(),
        }
    }

    /// Returns the engine.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the time of the last call.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Returns the wall time of the last call.
    pub const fn wall_time(&self) -> Time {
        self.wall_offset.wall_time(self.now)
    }

    /// Returns the number of operations, without the parts of the checkpoint.
    pub const fn operations(&self) -> u64 {
        self.count
    }

    /// Whether everything is known that the recorded engine knew.
    pub const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns how the decisions since the checkpoint compare.
    pub const fn agreement(&self) -> Agreement {
        self.agreement
    }

    /// Takes the next operation.
    pub fn step(&mut self, operation: Operation) {
        let is_part = matches!(operation, Operation::Known(_) | Operation::Checkpoint);
        self.count += u64::from(!is_part);
        self.now = operation.time().unwrap_or(self.now);
        match operation {
            Operation::Input { input: Input::WallOffset(offset), .. } => {
                self.wall_offset = offset;
                self.input(Input::WallOffset(offset));
            }
            Operation::Known(change) | Operation::Input { input: Input::Change(change), .. } => {
                self.change(change);
            }
            Operation::Checkpoint => self.is_complete = true,
            Operation::Attempt { pod, outcome } => self.decided(&pod, &outcome),
            _ => {}
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Pod(pod) => self.pod(*pod),
            change => {
                if let Change::PodDeleted { key, uid } = &change
                    && self.is_assumed(key, uid)
                {
                    self.assumed.remove(key);
                }
                self.apply(change);
            }
        }
    }

    fn pod(&mut self, pod: Pod) {
        let cluster = self.engine.cluster();
        let placed = self.engine.world().placed(&pod.uid);
        let placed = placed.map(|placed| cluster.node_name(placed.node).clone());
        match (pod.node_name.clone(), placed) {
            // An update of a pod whose bind is under way.
            (None, Some(node)) => {
                if self.is_assumed(&pod.key, &pod.uid) {
                    self.assumed.insert(pod.key.clone(), Arc::new(pod.clone()));
                }
                self.apply(Change::Pod(Box::new(Pod { node_name: Some(node), ..pod })));
            }
            (Some(node), Some(known)) if node != known => {
                self.assumed.remove(&pod.key);
                self.replace(&pod);
            }
            (shown, _) => {
                if shown.is_some() && self.is_assumed(&pod.key, &pod.uid) {
                    self.assumed.remove(&pod.key);
                }
                self.apply(Change::Pod(Box::new(pod)));
            }
        }
    }

    fn is_assumed(&self, key: &PodKey, uid: &Uid) -> bool {
        self.assumed.get(key).is_some_and(|own| own.uid == *uid)
    }

    /// Carries a decision out. Judges it if everything is known.
    fn decided(&mut self, key: &PodKey, outcome: &Decided) {
        if *outcome == Decided::Skipped {
            return;
        }
        // The bind of its last decision failed.
        if let Some(pod) = self.assumed.remove(key) {
            self.replace(&pod);
        }
        let Some(pod) = self.engine.pending_pod(key).cloned() else {
            self.agreement.unjudged += u64::from(self.is_complete);
            return;
        };
        if self.is_complete {
            self.judge(&pod, outcome);
        }
        if let Decided::Assumed(node) = outcome {
            let placed = Pod { node_name: Some(node.clone()), ..Pod::clone(&pod) };
            self.apply(Change::Pod(Box::new(placed)));
            self.assumed.insert(key.clone(), pod);
        }
    }

    fn judge(&mut self, pod: &Arc<Pod>, outcome: &Decided) {
        let evaluation = Input::Evaluate { pod: pod.clone(), form: Form::Set, start: None };
        let evaluation = self.input(evaluation).evaluation();
        let node_named = |name: &str| self.engine.cluster().node_named(name);
        let agreement = &mut self.agreement;
        let count = match (evaluation, outcome) {
            (None, _) | (_, Decided::Error) => &mut agreement.unjudged,
            (Some(found), Decided::Assumed(node)) => match node_named(node) {
                Some(node) if found.best().contains(&node) => &mut agreement.same,
                Some(node) if found.feasible.iter().any(|(own, _)| *own == node) => {
                    &mut agreement.fitting
                }
                _ => &mut agreement.different,
            },
            (Some(found), _) if found.feasible.is_empty() => &mut agreement.same,
            _ => &mut agreement.different,
        };
        *count += 1;
    }

    /// Replaces a placed pod.
    fn replace(&mut self, pod: &Pod) {
        self.apply(Change::PodDeleted { key: pod.key.clone(), uid: pod.uid.clone() });
        self.apply(Change::Pod(Box::new(pod.clone())));
    }

    fn apply(&mut self, change: Change) {
        self.input(Input::Change(change));
        // Nothing is carried out.
        self.engine.take_effects();
    }

    fn input(&mut self, input: Input) -> Output {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.engine.step(input, self.now, ports)
    }
}
