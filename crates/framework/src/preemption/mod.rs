//! Preemption: which pods to evict so that a pod of higher priority fits.
//!
//! The steps are those of kube-scheduler's preemption package. A PostFilter plugin implements
//! [`Evaluator`], whose steps behave like DefaultPreemption unless they are replaced, and calls
//! [`preempt`]. [`preempt`] finds candidates in dry runs, which change nothing, and requests the
//! evictions with [`Command::Preempt`].

mod candidate;
mod eligibility;
mod findings;
mod fruitless;
mod groups;
mod progress;
pub mod reclaim;
mod search;
#[cfg(test)]
mod tests;
mod units;
mod victims;

use std::borrow::Cow;
use std::sync::Arc;

pub use self::candidate::{Candidate, ORDERED_SCORE_FUNCTIONS, ScoreFunction, Victims};
pub use self::eligibility::pod_eligible_to_preempt_others;
pub use self::fruitless::{FruitlessPreemptions, LONGEST_PAUSE, Pause};
pub use self::groups::preempt_for_group;
pub use self::progress::PreemptionProgress;
pub use self::victims::select_victims_on_node;

use self::candidate::best;
use self::search::Search;
use crate::{
    AttemptMut, Cluster, Command, CycleState, DryRun, Handle, MemberNomination, NodeIx,
    NominatingInfo, PluginName, Pod, PodGroupKey, PodKey, PostFilterResult, Status, Trial, Uid,
    Verdicts,
};

/// The evictions that make room for one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemption {
    /// The pod that gets the room.
    pub preemptor: PodKey,
    /// Its UID.
    pub uid: Uid,
    /// The plugin that requests the evictions.
    pub plugin: PluginName,
    /// The node of the victims.
    pub node: Arc<str>,
    /// The pods to evict, the most important first.
    pub victims: Vec<Arc<Pod>>,
}

/// The evictions that make room for a pod group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodGroupPreemption {
    /// The group that gets the room.
    pub group: PodGroupKey,
    /// The UID of its PodGroup.
    pub uid: Uid,
    /// The plugin that requests the evictions.
    pub plugin: PluginName,
    /// The members that get the room, with their nodes.
    pub members: Vec<MemberNomination>,
    /// The pods to evict, the most important first.
    pub victims: Vec<Arc<Pod>>,
}

/// The failed attempt for which [`preempt`] makes room.
pub struct FailedAttempt<'a> {
    /// The pod that no node can take.
    pub pod: &'a Pod,
    /// The state that PreFilter left. [`preempt`] adds its [`Candidates`].
    pub state: &'a mut CycleState,
    /// The rejection of each node.
    pub verdicts: &'a Verdicts,
    /// The views of the call. A pod without start time counts as started at its time.
    pub handle: &'a Handle<'a>,
}

impl<'a> FailedAttempt<'a> {
    /// Creates a failed attempt from the attempt of PostFilter.
    pub const fn new(attempt: AttemptMut<'a>, verdicts: &'a Verdicts) -> Self {
        let AttemptMut { state, pod, handle } = attempt;
        Self { pod, state, verdicts, handle }
    }

    /// Returns the nodes and the pods placed on them.
    pub const fn cluster(&self) -> &'a Cluster {
        self.handle.cluster
    }
}

/// The steps of a preemption (`preemption.Interface`).
pub trait Evaluator {
    /// Returns the name of the plugin that preempts.
    fn plugin(&self) -> &PluginName;

    /// Returns how many candidates are enough if dry runs may help on `nodes` nodes
    /// (`GetOffsetAndNumCandidates`).
    fn candidates_wanted(&self, nodes: usize) -> usize;

    /// Decides whether the pod may preempt others now.
    ///
    /// # Errors
    /// The reason it may not.
    fn pod_eligible_to_preempt_others(
        &self,
        attempt: &FailedAttempt<'_>,
    ) -> Result<(), Cow<'static, str>> {
        pod_eligible_to_preempt_others(attempt)
    }

    /// Returns the pods of `node` to evict so that the pod fits, found with `trial`.
    ///
    /// # Errors
    /// The reason evictions do not help on this node.
    fn select_victims_on_node(
        &self,
        attempt: &FailedAttempt<'_>,
        node: NodeIx,
        trial: &mut dyn Trial,
    ) -> Result<Victims, Status> {
        select_victims_on_node(attempt, node, trial)
    }

    /// Whether [`select_victims_on_node`](Self::select_victims_on_node) decides from nothing but
    /// the priority of the pod, the pods on the node with their start times and
    /// PodDisruptionBudgets, and the [`Trial`], so that its finding holds until one of them
    /// changes. Budgets may only matter for the selection of victims, not for whether there are
    /// any.
    fn repeats_findings(&self) -> bool {
        false
    }

    /// Returns the criteria that choose among candidates, the most important first.
    fn ordered_score_functions(&self) -> &[ScoreFunction] {
        &ORDERED_SCORE_FUNCTIONS
    }
}

/// The candidates of a preemption. [`preempt`] leaves them in the [`CycleState`] for explanations.
#[derive(Debug, Clone, Default)]
pub struct Candidates(pub Vec<Candidate>);

/// Finds the best node on which evictions make room, nominates the pod to it and requests the
/// evictions. After too many [preemptions without a binding](FruitlessPreemptions) it requests a
/// pause instead.
pub fn preempt(
    evaluator: &dyn Evaluator,
    attempt: &mut FailedAttempt<'_>,
    dry_run: &mut dyn DryRun,
) -> PostFilterResult {
    let (pod, handle) = (attempt.pod, attempt.handle);
    if let Err(reason) = evaluator.pod_eligible_to_preempt_others(attempt) {
        return Status::unschedulable(reason).into();
    }
    if let Some(pause) = handle.preemptions.fruitless().pause_of(&pod.uid, handle.now) {
        let reason = format!("not eligible because {pause}.");
        pause_preemption(pod, pause, handle);
        return Status::unschedulable(reason).into();
    }
    let mut search = Search::over(attempt, evaluator, dry_run);
    let pause = search.take_pause();
    let found = search.into_candidates(handle.cluster, attempt.state);
    let (chosen, candidates) = match choose(found, evaluator, dry_run, handle) {
        Ok(choice) => choice,
        Err(result) => {
            if let Some(pause) = pause {
                pause_preemption(pod, pause, handle);
            }
            return result;
        }
    };
    let node = handle.cluster.node_name(chosen.node).clone();
    let found = format!(
        "found a potential placement for pod on node {node}, preempting {} victims",
        chosen.victims.pods.len()
    );
    handle.command(Command::Preempt(Preemption {
        preemptor: pod.key.clone(),
        uid: pod.uid.clone(),
        plugin: evaluator.plugin().clone(),
        node: node.clone(),
        victims: chosen.victims.pods,
    }));
    attempt.state.write(Candidates(candidates));
    PostFilterResult { nominating: NominatingInfo::Override(node), found, ..Default::default() }
}

/// Returns the best candidate, and all candidates that the extenders left.
///
/// # Errors
/// The result of PostFilter if there is no candidate.
fn choose(
    found: Result<Vec<Candidate>, PostFilterResult>,
    evaluator: &dyn Evaluator,
    dry_run: &mut dyn DryRun,
    handle: &Handle<'_>,
) -> Result<(Candidate, Vec<Candidate>), PostFilterResult> {
    let candidates = dry_run.process_preemption(found?)?;
    match best(&candidates, evaluator.ordered_score_functions(), handle.wall_time()) {
        Some(chosen) => Ok((chosen.clone(), candidates)),
        None => Err(Status::unschedulable("no candidate node for preemption").into()),
    }
}

fn pause_preemption(pod: &Pod, pause: Pause, handle: &Handle<'_>) {
    let (preemptor, uid) = (pod.key.clone(), pod.uid.clone());
    handle.command(Command::PausePreemption { preemptor, uid, pause });
}
