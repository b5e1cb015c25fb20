//! The extension points: one trait each.
//!
//! Plugins take `&self`; what one point hands to the next goes through the [`CycleState`]. Between
//! attempts they keep nothing but metrics and, for [`Reserve`], books about pods under way.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::{
    Answer, Binding, Cluster, CycleState, DryRun, Handle, NodeBits, NodeIx, NodeView, ObjectKey,
    Pod, PodQuery, QueuedPod, Status, Verdicts, Write,
};

/// Holds pods back before they enter the active queue.
pub trait PreEnqueue: Send + Sync {
    /// Any failing status gates the pod until an event this plugin registered passes its hint.
    fn pre_enqueue(&self, pod: &Pod, cluster: &Cluster) -> Status;
}

/// Orders the active queue.
pub trait QueueSort: Send + Sync {
    /// Whether `a` leaves the queue before `b`.
    fn less(&self, a: &QueuedPod, b: &QueuedPod) -> bool;
}

/// What PreFilter may narrow the search to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PreFilterResult {
    /// Only these nodes can take the pod; `None` for no restriction.
    pub node_names: Option<BTreeSet<Arc<str>>>,
}

/// Prepares the filters of a cycle, or rejects the pod at once.
pub trait PreFilter: Send + Sync {
    /// Runs once a cycle over the whole cluster.
    ///
    /// # Errors
    /// The status that keeps the pod from being filtered: [`Status::skip`] leaves this plugin's Filter
    /// out, UnschedulableAndUnresolvable ends the attempt at once, Unschedulable after the remaining
    /// plugins; everything else is an error.
    fn pre_filter(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        cluster: &Cluster,
    ) -> Result<PreFilterResult, Status>;
}

/// Keeps the data of a PreFilter right for a what-if with pods added to or removed from a node.
pub trait PreFilterExtensions: Send + Sync {
    /// `other` is taken to run on `node`.
    fn add_pod(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        other: &Pod,
        node: &NodeView<'_>,
    ) -> Status;

    /// `other` is taken to be gone from `node`.
    fn remove_pod(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        other: &Pod,
        node: &NodeView<'_>,
    ) -> Status;
}

/// Tells whether a node can take the pod.
pub trait Filter: Send + Sync {
    /// One-node form: the verdict on `node`.
    fn filter(&self, state: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Status;

    /// Set form: keeps in `nodes` those that pass. By default [loops](Self::filter_each) over the
    /// one-node form.
    ///
    /// # Errors
    /// A status that is no rejection ends the attempt.
    fn filter_set(
        &self,
        state: &CycleState,
        pod: &Pod,
        cluster: &Cluster,
        nodes: &mut NodeBits,
    ) -> Result<(), Status> {
        self.filter_each(state, pod, cluster, nodes)
    }

    /// Keeps in `nodes` those that pass the one-node form, for set forms that have no better way;
    /// not to be replaced.
    ///
    /// # Errors
    /// The one-node form gave a status that is no rejection.
    fn filter_each(
        &self,
        state: &CycleState,
        pod: &Pod,
        cluster: &Cluster,
        nodes: &mut NodeBits,
    ) -> Result<(), Status> {
        let mut failed = Ok(());
        nodes.retain(|node| {
            let status = self.filter(state, pod, &cluster.node(node));
            if !status.is_success() && !status.is_rejection() && failed.is_ok() {
                failed = Err(status);
                return false;
            }
            status.is_success()
        });
        failed
    }

    /// Whether the verdict on a node may change when pods come to it or leave it. Where it cannot, a
    /// dry run asks once per node.
    fn depends_on_pods(&self) -> bool {
        true
    }

    /// The status of every rejection, where there is only one: then nobody asks node by node.
    fn only_rejection(&self) -> Option<Status> {
        None
    }

    /// Says why the set form turned `rejected` down; asked only when reasons are wanted. By default
    /// gives the [only rejection](Self::only_rejection), or asks the one-node form again.
    fn explain_set(
        &self,
        state: &CycleState,
        pod: &Pod,
        cluster: &Cluster,
        rejected: &NodeBits,
        verdicts: &mut Verdicts,
    ) {
        match self.only_rejection() {
            Some(status) => verdicts.record_all(rejected, status),
            None => rejected.iter().for_each(|node| {
                verdicts.record(node, self.filter(state, pod, &cluster.node(node)));
            }),
        }
    }
}

/// Names the placed pods a plugin is going to count, so that the cluster counts them as they come and
/// go instead of when they are asked for.
pub trait StandingQueries: Send + Sync {
    /// Runs before a cycle of `pod`; the answers are read with [`Cluster::matching_pods`]. Queries
    /// not asked for in a long time are forgotten.
    fn queries(&self, pod: &Pod, cluster: &Cluster) -> Vec<PodQuery>;
}

/// How to change `status.nominatedNodeName` of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NominatingInfo {
    /// Leave it as it is.
    #[default]
    Noop,
    /// Set it; an empty name clears it.
    Override(Arc<str>),
}

/// Answer of a PostFilter plugin.
#[derive(Debug, Clone, Default)]
pub struct PostFilterResult {
    /// The nomination to apply.
    pub nominating: NominatingInfo,
    /// Success when the pod was made schedulable, else why not.
    pub status: Status,
}

/// A status that leaves the nomination as it is.
impl From<Status> for PostFilterResult {
    fn from(status: Status) -> Self {
        Self { nominating: NominatingInfo::Noop, status }
    }
}

/// Tries to make room for a pod that fits nowhere.
pub trait PostFilter: Send + Sync {
    /// `verdicts` tells for every node why it was turned down; with `dry_run` nodes are tried out
    /// with other pods on them. What is to be evicted is asked for through `handle`.
    fn post_filter(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        verdicts: &Verdicts,
        dry_run: &mut dyn DryRun,
        handle: &mut Handle<'_>,
    ) -> PostFilterResult;
}

/// Prepares the scores of a cycle.
pub trait PreScore: Send + Sync {
    /// Runs once over the feasible nodes. [`Status::skip`] leaves this plugin's Score out, any other
    /// failure ends the attempt.
    fn pre_score(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        cluster: &Cluster,
        nodes: &[NodeIx],
    ) -> Status;
}

/// Rates feasible nodes.
pub trait Score: Send + Sync {
    /// One-node form: the score of `node`, after normalising within 0 to 100.
    ///
    /// # Errors
    /// Any status ends the attempt.
    fn score(&self, state: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Result<i64, Status>;

    /// Set form: writes the score of `nodes[i]` to `scores[i]`. By default loops over the one-node form.
    ///
    /// # Errors
    /// Any status ends the attempt.
    fn score_set(
        &self,
        state: &CycleState,
        pod: &Pod,
        cluster: &Cluster,
        nodes: &[NodeIx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        for (node, score) in nodes.iter().zip(scores) {
            *score = self.score(state, pod, &cluster.node(*node))?;
        }
        Ok(())
    }
}

/// Brings the scores of one plugin into 0 to 100.
pub trait NormalizeScore: Send + Sync {
    /// Rewrites `scores[i]`, the score of `nodes[i]`.
    fn normalize_score(
        &self,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIx],
        scores: &mut [i64],
    ) -> Status;
}

/// Keeps books of its own about pods that are about to be bound.
pub trait Reserve: Send + Sync {
    /// The pod is assumed on `node`. A failure undoes the attempt.
    fn reserve(&self, state: &mut CycleState, pod: &Pod, node: &str, cluster: &Cluster) -> Status;

    /// The attempt failed; may be called without an earlier Reserve and more than once. The node may
    /// be gone by now. Through `handle` waiting pods that depend on this one can be rejected.
    fn unreserve(&self, state: &mut CycleState, pod: &Pod, node: &str, handle: &mut Handle<'_>);
}

/// Answer of a Permit plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermitVerdict {
    /// Go on.
    Allow,
    /// Wait until allowed, rejected, or `timeout` (at most 15 minutes) is over.
    Wait {
        /// How long to wait at most.
        timeout: Duration,
        /// Text for people.
        reason: String,
    },
    /// Undo the attempt.
    Reject(Status),
}

/// Has the last word before the binding cycle.
pub trait Permit: Send + Sync {
    /// Through `handle` other waiting pods can be allowed or rejected.
    fn permit(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        node: &str,
        handle: &mut Handle<'_>,
    ) -> PermitVerdict;
}

/// What a PreBind plugin says before anything is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreBindPreFlight {
    /// Its PreBind has nothing to do for this pod.
    Skip {
        /// Whether it may run beside its neighbours.
        allow_parallel: bool,
    },
    /// Its PreBind will write.
    Run {
        /// Whether it may run beside its neighbours.
        allow_parallel: bool,
    },
    /// The pod cannot be bound.
    Fail(Status),
}

/// What makes a PreBind continue.
#[derive(Debug)]
#[non_exhaustive]
pub enum PreBindInput<'a> {
    /// The first call.
    Start,
    /// The answer to the write it asked for.
    Answer(&'a Answer),
    /// Something that it waits for changed.
    Changed,
    /// The deadline of its wait is over.
    Deadline,
}

/// What a PreBind wants next.
#[derive(Debug)]
pub enum PreBindStep {
    /// It is done, well or not.
    Done(Status),
    /// Perform this write and come back with the answer.
    Write(Write),
    /// Come back after a change, or after `timeout` from now. Waiting on after a change ends no later
    /// than the wait before.
    Wait {
        /// How long to wait at most.
        timeout: Duration,
        /// The objects that may change, come or go; any object at all if none is named.
        objects: Vec<ObjectKey>,
    },
}

/// Writes what must be there before the pod is bound.
pub trait PreBind: Send + Sync {
    /// Looks at the pod before anything is written.
    fn pre_flight(
        &self,
        state: &CycleState,
        pod: &Pod,
        node: &str,
        cluster: &Cluster,
    ) -> PreBindPreFlight;

    /// One step; called again with the outcome of the step before until it is done.
    fn pre_bind(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        node: &str,
        cluster: &Cluster,
        input: PreBindInput<'_>,
    ) -> PreBindStep;
}

/// What a Bind plugin does.
#[derive(Debug)]
pub enum BindStep {
    /// Leave the pod to the next plugin.
    Skip,
    /// Post this Binding; its answer is the answer of the plugin.
    Bind(Binding),
    /// It failed, or has bound the pod by itself.
    Done(Status),
}

/// Binds the pod.
pub trait Bind: Send + Sync {
    /// The first plugin that does not skip decides.
    fn bind(&self, state: &CycleState, pod: &Pod, node: &str) -> BindStep;
}

/// Hears of bound pods.
pub trait PostBind: Send + Sync {
    /// The pod is bound.
    fn post_bind(&self, state: &CycleState, pod: &Pod, node: &str);
}
