//! Preemption: which pods to evict so that a pod of higher priority fits.
//!
//! The steps are those of kube-scheduler's preemption package. A PostFilter plugin implements
//! [`Evaluator`], whose steps behave like DefaultPreemption unless they are replaced, and calls
//! [`preempt`]. Nothing is changed by it: candidates are found in dry runs, and what is to be evicted
//! is asked for with [`Command::Preempt`].

mod candidate;
mod eligibility;
mod fruitless;
mod search;
#[cfg(test)]
mod tests;
mod victims;

use std::borrow::Cow;
use std::sync::Arc;

pub use self::candidate::{Candidate, ORDERED_SCORE_FUNCTIONS, ScoreFunction, Victims};
pub use self::eligibility::pod_eligible_to_preempt_others;
pub use self::fruitless::{FruitlessPreemptions, Pause};
pub use self::victims::select_victims_on_node;

use self::candidate::best;
use self::search::Search;
use crate::{
    Cluster, Command, CycleState, DryRun, Handle, NodeIx, NominatingInfo, PluginName, Pod, PodKey,
    PostFilterResult, Status, Time, Trial, Uid, Verdicts,
};

/// Evictions that make room for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemption {
    /// The pod room is made for.
    pub preemptor: PodKey,
    /// Its UID.
    pub uid: Uid,
    /// The plugin that asks for it.
    pub plugin: PluginName,
    /// The node on which room is made.
    pub node: Arc<str>,
    /// The pods to evict, the most important first.
    pub victims: Vec<Arc<Pod>>,
}

/// The attempt that failed, as the steps of an evaluator see it.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// The pod that fits nowhere.
    pub pod: &'a Pod,
    /// What PreFilter left.
    pub state: &'a CycleState,
    /// Why each node was turned down.
    pub verdicts: &'a Verdicts,
    /// Nodes and the pods placed on them.
    pub cluster: &'a Cluster,
    /// The time of the attempt. A pod without start time counts as started now.
    pub now: Time,
}

/// The steps of a preemption (`preemption.Interface`).
pub trait Evaluator {
    /// How many candidates suffice if `nodes` nodes are worth a dry run.
    fn candidates_wanted(&self, nodes: usize) -> usize;

    /// Whether the pod may evict others now.
    ///
    /// # Errors
    /// Why not.
    fn pod_eligible_to_preempt_others(
        &self,
        attempt: &Attempt<'_>,
    ) -> Result<(), Cow<'static, str>> {
        pod_eligible_to_preempt_others(attempt)
    }

    /// The pods of `node` to evict so that the pod fits, found with `trial`.
    ///
    /// # Errors
    /// Why evicting pods does not help on this node.
    fn select_victims_on_node(
        &self,
        attempt: &Attempt<'_>,
        node: NodeIx,
        trial: &mut dyn Trial,
    ) -> Result<Victims, Status> {
        select_victims_on_node(attempt, node, trial)
    }

    /// What makes one candidate better than another, the most important first.
    fn ordered_score_functions(&self) -> &[ScoreFunction] {
        &ORDERED_SCORE_FUNCTIONS
    }
}

/// What a preemption had to choose from; [`preempt`] leaves it in the [`CycleState`] for explanations.
#[derive(Debug, Clone, Default)]
pub struct Candidates(pub Vec<Candidate>);

/// Finds the best node on which evicting pods makes room, nominates the pod to it and asks for the
/// evictions on behalf of `plugin`. Where too many [preemptions](FruitlessPreemptions) led to no binding
/// it asks for a pause instead.
pub fn preempt(
    evaluator: &dyn Evaluator,
    plugin: &PluginName,
    state: &mut CycleState,
    pod: &Pod,
    verdicts: &Verdicts,
    dry_run: &mut dyn DryRun,
    handle: &mut Handle<'_>,
) -> PostFilterResult {
    let (cluster, now) = (handle.cluster, handle.now);
    let attempt = Attempt { pod, state, verdicts, cluster, now };
    if let Err(reason) = evaluator.pod_eligible_to_preempt_others(&attempt) {
        return Status::unschedulable(reason).into();
    }
    if let Some(pause) = cluster.fruitless_preemptions().pause_of(&pod.uid, now) {
        let reason = format!("not eligible because {pause}.");
        put_off(pod, pause, handle);
        return Status::unschedulable(reason).into();
    }
    let mut search = Search::over(&attempt, evaluator, dry_run);
    let pause = search.take_pause();
    let (chosen, candidates) = match choose(search, evaluator, dry_run, cluster, now) {
        Ok(choice) => choice,
        Err(result) => {
            if let Some(pause) = pause {
                put_off(pod, pause, handle);
            }
            return result;
        }
    };
    let node = cluster.node_name(chosen.node).clone();
    handle.command(Command::Preempt(Preemption {
        preemptor: pod.key.clone(),
        uid: pod.uid.clone(),
        plugin: plugin.clone(),
        node: node.clone(),
        victims: chosen.victims.pods,
    }));
    state.write(Candidates(candidates));
    PostFilterResult { nominating: NominatingInfo::Override(node), status: Status::success() }
}

/// The best candidate, and all there are after extenders had their say.
///
/// # Errors
/// There are none: what PostFilter says then.
fn choose(
    search: Search,
    evaluator: &dyn Evaluator,
    dry_run: &mut dyn DryRun,
    cluster: &Cluster,
    now: Time,
) -> Result<(Candidate, Vec<Candidate>), PostFilterResult> {
    let candidates = search.into_candidates(cluster)?;
    let candidates = dry_run.process_preemption(candidates)?;
    match best(&candidates, evaluator.ordered_score_functions(), now) {
        Some(chosen) => Ok((chosen.clone(), candidates)),
        None => Err(Status::unschedulable("no candidate node for preemption").into()),
    }
}

fn put_off(pod: &Pod, pause: Pause, handle: &mut Handle<'_>) {
    let (preemptor, uid) = (pod.key.clone(), pod.uid.clone());
    handle.command(Command::PutOffPreemption { preemptor, uid, pause });
}
