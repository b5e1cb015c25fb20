//! Trying out a node with other pods on it.

use crate::preemption::Candidate;
use crate::{CycleState, NodeIx, PodIx, Status};

/// Tries out nodes for the pod of an attempt with the plugins of its profile. Nothing is changed by
/// it, neither the cluster nor the state of the attempt.
pub trait DryRun {
    /// Where in a list of `count` nodes a search is to begin, below `count`: at random, so that
    /// preemptors do not all look at the same nodes.
    fn offset(&mut self, count: usize) -> usize;

    /// A trial of `node` as it is, on a copy of the state of the attempt.
    fn trial<'a>(&'a mut self, state: &CycleState, node: NodeIx) -> Box<dyn Trial + 'a>;

    /// What the extenders leave of the candidates: they may drop nodes and choose other victims. By
    /// default there are no extenders.
    ///
    /// # Errors
    /// An extender fails that must not be ignored.
    fn process_preemption(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Candidate>, Status> {
        Ok(candidates)
    }
}

/// One node whose pods are taken away and put back.
pub trait Trial {
    /// Takes a pod of the node to be gone.
    ///
    /// # Errors
    /// Some plugin cannot follow (`RemovePod` of its PreFilter extensions).
    fn remove_pod(&mut self, pod: PodIx) -> Result<(), Status>;

    /// Takes a pod that was removed to be there again.
    ///
    /// # Errors
    /// Some plugin cannot follow (`AddPod` of its PreFilter extensions).
    fn add_pod(&mut self, pod: PodIx) -> Result<(), Status>;

    /// Whether the node can take the pod of the attempt now: beside the pods of at least its priority
    /// that are nominated to the node, and without them.
    fn run_filters(&mut self) -> Status;
}
