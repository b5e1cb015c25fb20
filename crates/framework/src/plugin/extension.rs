//! The extension points: one trait each, named as in the Kubernetes scheduling framework.
//!
//! Plugins take `&self` and hand data from one point to the next in the
//! [`CycleState`](crate::CycleState). Between attempts a plugin keeps no state of its own, except
//! metrics, caches of values it can compute again, and what [`Reserve`] records about pods that are
//! being bound.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::{
    Answer, Attempt, AttemptMut, Binding, Dependence, Detail, DryRun, FilterScope, Handle,
    NodeBits, NodeIx, NodeTier, NodeView, ObjectKey, PerNode, Pod, PodGroupKey, PodGroupTrial,
    PodKey, PodQuery, QueuedEntity, ScoreScope, Status, Uid, Verdicts, Write,
};

/// Decides whether a pod may enter the active queue.
pub trait PreEnqueue: Send + Sync {
    /// Returns success to admit the pod. Any other status gates it, until the hint of an event that
    /// this plugin registered answers Queue.
    fn pre_enqueue(&self, pod: &Pod, handle: &Handle<'_>) -> Status;
}

/// How far the decision about a pod group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodGroupProgress {
    /// Number of members that are still to be placed.
    pub remaining: u32,
    /// Number of members with a node: those that run, and those that were placed.
    pub scheduled: u32,
}

/// Decides whether a pod group can be placed with the members that fit.
pub trait PlacementFeasible: Send + Sync {
    /// Runs before the first member is placed and after each. Returns success if the members with a
    /// node are enough, [`Code::Wait`](crate::Code::Wait) if the remaining ones may make them
    /// enough, or a rejection, which ends the decision. A rejection must hold for fewer remaining
    /// members, too: placements that can hold no more are then not tried.
    fn placement_feasible(
        &self,
        group: &PodGroupKey,
        progress: PodGroupProgress,
        handle: &Handle<'_>,
    ) -> Status;
}

/// Orders the active queue. All profiles of a scheduler use the same QueueSort plugin.
pub trait QueueSort: Send + Sync {
    /// Whether `a` leaves the queue before `b`. The answer for two entities must stay the same
    /// while they are queued: the queue does not sort again when the cluster changes.
    fn less(&self, a: &QueuedEntity, b: &QueuedEntity, handle: &Handle<'_>) -> bool;
}

/// The answer of a PreFilter plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PreFilterResult {
    /// The only nodes that can take the pod; `None` for no restriction.
    pub node_names: Option<BTreeSet<Arc<str>>>,
}

/// Prepares the filters of a cycle, or rejects the pod before any node is filtered.
pub trait PreFilter: Send + Sync {
    /// Runs once per cycle.
    ///
    /// # Errors
    /// - [`Status::skip`] leaves out this plugin's Filter for the cycle.
    /// - UnschedulableAndUnresolvable ends the attempt at once, Unschedulable ends it after the
    ///   remaining PreFilter plugins.
    /// - Any other status fails the attempt with an error.
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status>;
}

/// Updates the data of a PreFilter when a dry run adds pods to a node or removes pods from it.
pub trait PreFilterExtensions: Send + Sync {
    /// Takes `other` to run on `node`. Any status but success ends the dry run on this node.
    fn add_pod(&self, attempt: AttemptMut<'_>, other: &Pod, node: &NodeView<'_>) -> Status;

    /// Takes `other` to be removed from `node`. Any status but success ends the dry run on this
    /// node.
    fn remove_pod(&self, attempt: AttemptMut<'_>, other: &Pod, node: &NodeView<'_>) -> Status;
}

/// Decides which nodes can take the pod.
pub trait Filter: Send + Sync {
    /// One-node form: returns the verdict on `node`.
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status;

    /// Set form: keeps in `nodes` the nodes that pass. The default [loops](Self::filter_each) over
    /// the one-node form.
    ///
    /// # Errors
    /// A status that is not a rejection. It ends the attempt.
    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        self.filter_each(attempt, nodes)
    }

    /// Keeps in `nodes` the nodes that pass the one-node form. Set forms call it where they have no
    /// better algorithm; do not replace it.
    ///
    /// # Errors
    /// The first status of the one-node form that is neither success nor a rejection.
    fn filter_each(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        let mut failed = Ok(());
        nodes.retain(|node| {
            let status = self.filter(attempt, &attempt.handle.cluster.node(node));
            if !status.is_success() && !status.is_rejection() && failed.is_ok() {
                failed = Err(status);
                return false;
            }
            status.is_success()
        });
        failed
    }

    /// Returns what the verdict on a node depends on, so that the scheduler can keep verdicts for
    /// the next pod of the [template](crate::Template). The scheduler asks after PreFilter in each
    /// attempt; for whether [pods](Dependence::pods) matter it may also ask before.
    ///
    /// `None`, the default, leaves it to [what the plugin
    /// registered](crate::Plugin::inferred_dependence), and makes the scheduler filter every node
    /// for each pod of the profile.
    fn dependence(&self, _attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        None
    }

    /// Writes the key of each node; see [`FilterScope::Tier`]. The nodes are in ascending order.
    ///
    /// # Errors
    /// Any status. The attempt then filters every node. The default has no keys.
    fn key_set(&self, _attempt: &Attempt<'_>, _keys: PerNode<'_>) -> Result<(), Status> {
        Err(Status::error("the plugin has no keys"))
    }

    /// Returns the status of every rejection if there is only one. Explanations then need no pass
    /// over the rejected nodes.
    fn only_rejection(&self) -> Option<Status> {
        None
    }

    /// Records in `verdicts` why the set form rejected each of `rejected`. It runs only when
    /// reasons are needed. The default records the [only rejection](Self::only_rejection), or runs
    /// the one-node form again.
    fn explain_set(&self, attempt: &Attempt<'_>, rejected: &NodeBits, verdicts: &mut Verdicts) {
        match self.only_rejection() {
            Some(status) => verdicts.record_all(rejected, status),
            None => rejected.iter().for_each(|node| {
                let status = self.filter(attempt, &attempt.handle.cluster.node(node));
                verdicts.record(node, status);
            }),
        }
    }

    /// Returns details that the verdicts on `rejected` leave out because kube-scheduler's texts
    /// have no room for them. Only explanations ask for it, never a decision, a condition or an
    /// event. A node may be left out.
    fn details(&self, _attempt: &Attempt<'_>, _rejected: &NodeBits) -> Vec<Detail> {
        Vec::new()
    }
}

/// Names the placed pods that a plugin counts, so that the cluster updates the counts as pods come
/// and go instead of on each request.
pub trait StandingQueries: Send + Sync {
    /// Returns the queries that a cycle of `pod` uses. It runs before the cycle; the plugin reads
    /// the counts with [`Cluster::matching_pods`](crate::Cluster::matching_pods). The cluster drops
    /// queries that have not been used for a long time.
    fn queries(&self, pod: &Pod, handle: &Handle<'_>) -> Vec<PodQuery>;
}

/// A change of `status.nominatedNodeName` of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NominatingInfo {
    /// Leaves the field as it is (`ModeNoop`).
    #[default]
    Noop,
    /// Sets the field; an empty name clears it (`ModeOverride`).
    Override(Arc<str>),
}

/// The answer of a PostFilter plugin.
#[derive(Debug, Clone, Default)]
pub struct PostFilterResult {
    /// The nomination to apply.
    pub nominating: NominatingInfo,
    /// Success if the pod can become schedulable, otherwise the reason it cannot.
    pub status: Status,
    /// What was found, for the condition and the event of the pod; empty for nothing. A status that
    /// is no success has its own reason.
    pub found: String,
}

/// A status that leaves the nomination as it is.
impl From<Status> for PostFilterResult {
    fn from(status: Status) -> Self {
        Self { status, ..Self::default() }
    }
}

/// Tries to make room for a pod that no node can take.
pub trait PostFilter: Send + Sync {
    /// Runs after every node was rejected. `verdicts` holds the rejection of each node, and
    /// `dry_run` filters nodes with other pods on them. The plugin requests evictions through
    /// `handle`, with [`Command::Preempt`](crate::Command::Preempt).
    fn post_filter(
        &self,
        attempt: AttemptMut<'_>,
        verdicts: &Verdicts,
        dry_run: &mut dyn DryRun,
    ) -> PostFilterResult;
}

/// A node for a member of a pod group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberNomination {
    /// Namespace and name of the member.
    pub pod: PodKey,
    /// Its UID.
    pub uid: Uid,
    /// The node.
    pub node: Arc<str>,
}

/// The answer of a PodGroupPostFilter plugin.
#[derive(Debug, Clone, Default)]
pub struct PodGroupPostFilterResult {
    /// The members to nominate, with their nodes. The other members lose their nomination. It
    /// counts only with success.
    pub nominations: Vec<MemberNomination>,
    /// Success if the group can become schedulable, otherwise the reason it cannot.
    pub status: Status,
    /// What was found, for the condition of the group; empty for nothing. A status that is no
    /// success has its own reason.
    pub found: String,
}

/// A status without nominations.
impl From<Status> for PodGroupPostFilterResult {
    fn from(status: Status) -> Self {
        Self { status, ..Self::default() }
    }
}

/// Tries to make room for a pod group that does not fit.
pub trait PodGroupPostFilter: Send + Sync {
    /// Runs after a group was rejected. `trial` has the group and the views, and decides about the
    /// group as if other pods were gone. The plugin requests evictions through the handle of the
    /// trial, with [`Command::PreemptForGroup`](crate::Command::PreemptForGroup).
    fn pod_group_post_filter(&self, trial: &mut dyn PodGroupTrial) -> PodGroupPostFilterResult;
}

/// Prepares the scores of a cycle.
pub trait PreScore: Send + Sync {
    /// Runs once per cycle with the feasible nodes. [`Status::skip`] leaves out this plugin's
    /// Score, any other failure ends the attempt.
    fn pre_score(&self, attempt: AttemptMut<'_>, nodes: &[NodeIx]) -> Status;

    /// Runs instead of [`pre_score`](Self::pre_score) with the feasible nodes in tiers, if the
    /// score has the scope [`ScoreScope::Tier`]. The default passes a node of each tier, which is
    /// enough for scores that depend on the keys of feasible nodes but not on their number.
    fn pre_score_tiers(&self, attempt: AttemptMut<'_>, tiers: &[NodeTier]) -> Status {
        let nodes: Vec<NodeIx> = tiers.iter().map(|tier| tier.node).collect();
        self.pre_score(attempt, &nodes)
    }
}

/// Scores feasible nodes.
pub trait Score: Send + Sync {
    /// One-node form: returns the score of `node`. After [`NormalizeScore`] it must be within
    /// [`MIN_NODE_SCORE`](crate::MIN_NODE_SCORE) and [`MAX_NODE_SCORE`](crate::MAX_NODE_SCORE).
    ///
    /// # Errors
    /// Any status ends the attempt.
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status>;

    /// Set form: writes the score of each node. The default loops over the one-node form.
    ///
    /// # Errors
    /// Any status ends the attempt.
    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        for (node, score) in scores.nodes.iter().zip(scores.values) {
            *score = self.score(attempt, &attempt.handle.cluster.node(*node))?;
        }
        Ok(())
    }

    /// Returns what the score of a node depends on. The scheduler asks after PreFilter in each
    /// attempt, also if PreScore is going to return Skip. With the scopes [`ScoreScope::Node`] and
    /// [`ScoreScope::Key`], PreScore must not depend on the nodes that it gets.
    ///
    /// `None`, the default, stands for the whole cluster: the scheduler scores every node for each
    /// pod of the profile.
    fn dependence(&self, _attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        None
    }

    /// Writes the key of each node; see [`ScoreScope::Key`] and [`ScoreScope::Tier`]. The nodes
    /// are in ascending order. The default is the score before it is normalised.
    ///
    /// # Errors
    /// Any status. The attempt then scores every node.
    fn key_set(&self, attempt: &Attempt<'_>, keys: PerNode<'_>) -> Result<(), Status> {
        self.score_set(attempt, keys)
    }

    /// Returns what the score of a node consists of, as a text. Only explanations ask for it.
    fn explain(&self, _attempt: &Attempt<'_>, _node: &NodeView<'_>) -> Option<String> {
        None
    }
}

/// Scales the scores of one plugin to 0 to 100.
pub trait NormalizeScore: Send + Sync {
    /// Rewrites the score of each node. Any status but success ends the attempt.
    fn normalize_score(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Status;
}

/// Reserves what the pod needs beyond the node, until the pod is bound.
pub trait Reserve: Send + Sync {
    /// Runs when the pod is assumed on `node`. Any status but success fails the attempt, and
    /// [`unreserve`](Self::unreserve) runs for all Reserve plugins.
    fn reserve(&self, attempt: AttemptMut<'_>, node: &str) -> Status;

    /// Releases what [`reserve`](Self::reserve) took, because the attempt failed. It must be
    /// idempotent: it may run without an earlier reserve, and more than once. The node may not
    /// exist any more.
    fn unreserve(&self, attempt: AttemptMut<'_>, node: &str);

    /// Undoes a [`reserve`](Self::reserve) that was tried for a while, so that the plugin is as it
    /// was before. No request was made for the pod, and commands that the plugin gives are dropped.
    ///
    /// By default this is [`unreserve`](Self::unreserve). A plugin implements it if its Unreserve
    /// does more, for example frees what an earlier attempt of the pod has written.
    fn undo_reserve(&self, attempt: AttemptMut<'_>, node: &str) {
        self.unreserve(attempt, node);
    }
}

/// The answer of a Permit plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermitVerdict {
    /// Continues the attempt.
    Allow,
    /// Waits until the pod is allowed or rejected, or until the timeout, which rejects it.
    Wait {
        /// Longest wait; the engine cuts it to 15 minutes.
        timeout: Duration,
        /// The reason, shown to people.
        reason: String,
    },
    /// Fails the attempt.
    Reject(Status),
}

/// Allows, delays or rejects the binding of a pod.
pub trait Permit: Send + Sync {
    /// Runs after Reserve. The plugin can allow or reject other waiting pods through `handle`, with
    /// [`Command::Allow`](crate::Command::Allow) and [`Command::Reject`](crate::Command::Reject).
    fn permit(&self, attempt: AttemptMut<'_>, node: &str) -> PermitVerdict;
}

/// The answer of a PreBind plugin before anything is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreBindPreFlight {
    /// Its PreBind has nothing to do for this pod.
    Skip {
        /// Whether it may run in parallel with its neighbours.
        allow_parallel: bool,
    },
    /// Its PreBind is to run.
    Run {
        /// Whether it may run in parallel with its neighbours.
        allow_parallel: bool,
    },
    /// The pod cannot be bound.
    Fail(Status),
}

/// The reason for a call of PreBind.
#[derive(Debug)]
#[non_exhaustive]
pub enum PreBindInput<'a> {
    /// The first call.
    Start,
    /// The answer to the write of the last step.
    Answer(&'a Answer),
    /// An object of the last step's wait changed.
    Changed,
    /// The wait of the last step timed out.
    Deadline,
}

/// The next step of a PreBind.
#[derive(Debug)]
pub enum PreBindStep {
    /// Ends the PreBind of this plugin, with success or a failure.
    Done(Status),
    /// Performs a write, then calls again with [`PreBindInput::Answer`].
    Write(Write),
    /// Waits for a change of an object, then calls again with [`PreBindInput::Changed`], or with
    /// [`PreBindInput::Deadline`] after `timeout`. A plugin that keeps waiting after a change keeps
    /// its first deadline; otherwise repeated changes could postpone it forever.
    Wait {
        /// Longest wait, from now.
        timeout: Duration,
        /// The objects whose addition, change or deletion ends the wait; any object if the list is
        /// empty.
        objects: Vec<ObjectKey>,
    },
}

/// Writes the objects that must be in place before the pod is bound.
pub trait PreBind: Send + Sync {
    /// Decides, before anything is written, whether PreBind has work to do.
    fn pre_flight(&self, attempt: &Attempt<'_>, node: &str) -> PreBindPreFlight;

    /// Performs one step. The engine calls it again with the outcome of the step, until it returns
    /// [`PreBindStep::Done`].
    fn pre_bind(&self, attempt: AttemptMut<'_>, node: &str, input: PreBindInput<'_>)
    -> PreBindStep;
}

/// The answer of a Bind plugin.
#[derive(Debug)]
pub enum BindStep {
    /// Leaves the pod to the next plugin.
    Skip,
    /// Posts this Binding. Its answer is the outcome of the plugin.
    Bind(Binding),
    /// Reports a failure, or success if the plugin bound the pod by itself.
    Done(Status),
}

/// Binds the pod to its node.
pub trait Bind: Send + Sync {
    /// Runs plugin by plugin, until one does not skip.
    fn bind(&self, attempt: &Attempt<'_>, node: &str) -> BindStep;
}

/// Is notified of bound pods.
pub trait PostBind: Send + Sync {
    /// Runs after the pod is bound.
    fn post_bind(&self, attempt: &Attempt<'_>, node: &str);
}

/// Runs at times the plugin sets. Not an extension point of a profile: it runs wherever the plugin
/// is enabled.
pub trait Timer: Send + Sync {
    /// Runs at the time of a [`Command::SetTimer`](crate::Command::SetTimer) with this token.
    fn fire(&self, token: u64, handle: &Handle<'_>);
}

/// Is notified of pods that are gone. Not an extension point of a profile: it runs wherever the
/// plugin is enabled.
pub trait PodDeleted: Send + Sync {
    /// Runs once per pod, pending or placed, after the scheduler learned of its deletion. `pod` is
    /// its last known state.
    fn pod_deleted(&self, pod: &Pod, handle: &Handle<'_>);
}
