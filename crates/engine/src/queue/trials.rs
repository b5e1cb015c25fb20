//! Trials: one pod of a class is tried for all of them.
//!
//! An event that may help a class of pods moves one of them. If its attempt is rejected, the others
//! would be rejected too and go on waiting. If it finds a node, the next one is tried.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use framework::{PodKey, Uid};

use super::hint::QueueingStrategy;
use super::unschedulable::Group;

/// The trial of a class.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) class: Arc<Group>,
    /// The pod that is tried.
    pub(super) pod: PodKey,
    /// How the event requeues the pods of the class.
    pub(super) strategy: QueueingStrategy,
    /// The label of the event.
    pub(super) label: Arc<str>,
}

/// The trials under way, at most one for each class.
#[derive(Debug, Default)]
pub(super) struct Trials {
    /// Never iterated.
    by_pod: HashMap<Uid, Trial>,
    pods: BTreeMap<Arc<Group>, Uid>,
}

impl Trials {
    /// Number of trials.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether the pod is tried for a class.
    pub(super) fn contains(&self, pod: &Uid) -> bool {
        self.by_pod.contains_key(pod)
    }

    /// Returns the trial of a class.
    pub(super) fn of(&self, class: &Group) -> Option<&Trial> {
        self.by_pod.get(self.pods.get(class)?)
    }

    /// Returns the pod that is tried for a class.
    pub(super) fn pod_of(&self, class: &Group) -> Option<&Uid> {
        self.pods.get(class)
    }

    /// Begins a trial. An earlier one of the class ends.
    pub(super) fn begin(&mut self, uid: &Uid, trial: Trial) {
        if let Some(before) = self.pods.insert(trial.class.clone(), uid.clone()) {
            self.by_pod.remove(&before);
        }
        self.by_pod.insert(uid.clone(), trial);
    }

    /// Ends the trial of this pod, if there is one.
    pub(super) fn end(&mut self, uid: &Uid) -> Option<Trial> {
        let trial = self.by_pod.remove(uid)?;
        self.pods.remove(&trial.class);
        Some(trial)
    }
}
