//! Dry runs: filtering a node as if other pods ran on it.

use crate::preemption::Candidate;
use crate::{CycleState, NodeIx, PodIx, Status};

/// Filters nodes for the pod of an attempt, with the plugins of its profile and with other pods on
/// the node. It changes neither the cluster nor the state of the attempt.
pub trait DryRun {
    /// Returns the index, below `count`, at which a search of `count` nodes begins. It is random,
    /// so that preemptors do not all choose the same nodes.
    fn offset(&mut self, count: usize) -> usize;

    /// Begins a trial of `node`, with its pods as they are and a copy of the state of the attempt.
    fn trial<'a>(&'a mut self, state: &CycleState, node: NodeIx) -> Box<dyn Trial + 'a>;

    /// If the outcome of a trial depends only on the node, the pods on it and those nominated to
    /// it, returns the exceptions among the nodes, for example the node that the pod itself is
    /// nominated to. An evaluator may keep the outcome on the other nodes for the next pod of the
    /// [template](crate::Template), until they are among the [changed ones](crate::ChangedNodes).
    /// The default is `None`: outcomes depend on more.
    fn exceptions(&self) -> Option<Vec<NodeIx>> {
        None
    }

    /// Whether an extender with the preempt verb is interested in the pod. Nodes on which the pod
    /// fits without evictions are then candidates too: the extender may know which pods to evict
    /// there.
    fn has_interested_preempting_extender(&self) -> bool {
        false
    }

    /// Returns what the extenders leave of the candidates: they may drop nodes and choose other
    /// victims. Every candidate that is returned has victims. By default there are no extenders.
    ///
    /// # Errors
    /// An extender that is not ignorable fails.
    fn process_preemption(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Candidate>, Status> {
        Ok(candidates)
    }
}

/// A dry run on one node: pods are removed and added again, then the node is filtered.
pub trait Trial {
    /// Takes a pod of the node to be removed.
    ///
    /// # Errors
    /// The failure of a PreFilter extension (`RemovePod`).
    fn remove_pod(&mut self, pod: PodIx) -> Result<(), Status>;

    /// Takes a removed pod to be on the node again.
    ///
    /// # Errors
    /// The failure of a PreFilter extension (`AddPod`).
    fn add_pod(&mut self, pod: PodIx) -> Result<(), Status>;

    /// Filters the node for the pod of the attempt (`RunFilterPluginsWithNominatedPods`): it must
    /// pass with the nominated pods of equal or higher priority, and without them.
    fn run_filters(&mut self) -> Status;

    /// Returns the state of the trial: the state of the attempt, with the changes of the PreFilter
    /// extensions for the removed pods.
    fn state(&self) -> &CycleState;
}
