//! Dry runs over the nodes on which evicting pods might help.

use super::{Attempt, Candidate, Evaluator, Pause};
use crate::{
    Cluster, Code, DryRun, Handle, NodeIx, NominatingInfo, PostFilterResult, Status, Verdicts,
};

const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const PAUSED: &str = "Preemption is paused since it led to no binding";

/// The result of the dry runs.
pub(super) struct Search {
    /// Candidates that violate no PodDisruptionBudget.
    non_violating: Vec<Candidate>,
    violating: Vec<Candidate>,
    /// How many candidates of either kind are kept.
    wanted: usize,
    /// Whether a node on which no pod has to be evicted is a candidate.
    keeps_without_victims: bool,
    /// The reasons that evictions do not help on the other nodes.
    verdicts: Verdicts,
    errors: Vec<String>,
    /// The pause that ends first on a potential node, which is left out until then.
    pause: Option<Pause>,
}

impl Search {
    /// Tries the potential nodes one after the other until there are enough candidates, of which at
    /// least one violates no budget.
    pub(super) fn over(
        attempt: &Attempt<'_>,
        evaluator: &dyn Evaluator,
        dry_run: &mut dyn DryRun,
    ) -> Self {
        let mut search = Self {
            non_violating: Vec::new(),
            violating: Vec::new(),
            wanted: 0,
            keeps_without_victims: dry_run.has_interested_preempting_extender(),
            verdicts: Verdicts::default(),
            errors: Vec::new(),
            pause: None,
        };
        search.verdicts.set_absent(Status::unresolvable(NOT_HELPFUL));
        let mut nodes = potential_nodes(attempt);
        search.leave_out_paused(attempt, &mut nodes);
        search.wanted = evaluator.candidates_wanted(nodes.len()).min(nodes.len());
        let start = if nodes.is_empty() { 0 } else { dry_run.offset(nodes.len()) };
        let (behind, ahead) = nodes.split_at(start.min(nodes.len()));
        for node in ahead.iter().chain(behind) {
            search.try_node(attempt, evaluator, dry_run, *node);
            if search.is_over() {
                break;
            }
        }
        search
    }

    /// Removes from `nodes`, which ascend, the nodes on which preemption is paused.
    fn leave_out_paused(&mut self, attempt: &Attempt<'_>, nodes: &mut Vec<NodeIx>) {
        let Handle { cluster, preemptions, now, .. } = attempt.handle;
        for (name, pause) in preemptions.fruitless().paused_nodes(attempt.pod, now) {
            let Some(node) = cluster.node_named(name) else { continue };
            let Ok(place) = nodes.binary_search(&node) else { continue };
            nodes.remove(place);
            self.verdicts.record(node, Status::unresolvable(PAUSED));
            if self.pause.as_ref().is_none_or(|first| pause.until < first.until) {
                self.pause = Some(pause);
            }
        }
    }

    /// Returns the pause that ends first, if nodes were left out.
    pub(super) const fn take_pause(&mut self) -> Option<Pause> {
        self.pause.take()
    }

    fn try_node(
        &mut self,
        attempt: &Attempt<'_>,
        evaluator: &dyn Evaluator,
        dry_run: &mut dyn DryRun,
        node: NodeIx,
    ) {
        let mut trial = dry_run.trial(attempt.state, node);
        let status = match evaluator.select_victims_on_node(attempt, node, &mut *trial) {
            Ok(victims) if self.keeps_without_victims || !victims.pods.is_empty() => {
                return self.keep(Candidate { node, victims });
            }
            Ok(_) => Status::unresolvable(NO_VICTIMS),
            Err(status) => status,
        };
        if !status.is_rejection() {
            self.errors.push(status.message());
        }
        self.verdicts.record(node, status);
    }

    fn keep(&mut self, candidate: Candidate) {
        let list = match candidate.victims.pdb_violations {
            0 => &mut self.non_violating,
            _ => &mut self.violating,
        };
        if list.len() < self.wanted {
            list.push(candidate);
        }
    }

    fn is_over(&self) -> bool {
        let found = self.non_violating.len() + self.violating.len();
        !self.non_violating.is_empty() && found >= self.wanted
    }

    /// Returns all candidates, those that violate no budget first. Errors on some nodes are ignored if
    /// there is a candidate.
    ///
    /// # Errors
    /// The result of PostFilter if there is no candidate. It clears the nomination of the pod.
    pub(super) fn into_candidates(
        mut self,
        cluster: &Cluster,
    ) -> Result<Vec<Candidate>, PostFilterResult> {
        self.non_violating.append(&mut self.violating);
        if !self.non_violating.is_empty() {
            return Ok(self.non_violating);
        }
        if let Some(text) = aggregate(self.errors) {
            return Err(Status::error(text).into());
        }
        Err(PostFilterResult {
            nominating: NominatingInfo::Override("".into()),
            status: Status::unschedulable(self.verdicts.fit_error(cluster.node_count())),
        })
    }
}

/// Returns the nodes whose rejection evictions may lift (code Unschedulable).
fn potential_nodes(attempt: &Attempt<'_>) -> Vec<NodeIx> {
    let nodes = attempt.cluster().nodes().iter();
    nodes.filter(|node| attempt.verdicts.get(*node).code() == Code::Unschedulable).collect()
}

/// Joins errors without duplicates, in the format of Kubernetes (`NewAggregate`).
fn aggregate(mut errors: Vec<String>) -> Option<String> {
    let mut seen = std::collections::BTreeSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match errors.len() {
        0 => None,
        1 => errors.pop(),
        _ => Some(format!("[{}]", errors.join(", "))),
    }
}
