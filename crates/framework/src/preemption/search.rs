//! Dry runs over the nodes on which evicting pods might help.

use super::findings::Findings;
use super::{Candidate, Evaluator, FailedAttempt, Pause};
use crate::{
    Cluster, Code, CycleState, DryRun, Handle, NodeBits, NodeIx, NominatingInfo, PostFilterResult,
    Status,
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
    /// The other nodes, with the reasons that evictions do not help, and the victims that are
    /// known.
    findings: Findings,
    /// The nodes on which the findings do not hold, if findings are kept for the next pod of the
    /// template.
    exceptions: Option<Vec<NodeIx>>,
    errors: Vec<String>,
    /// The pause that ends first on a potential node, which is left out until then.
    pause: Option<Pause>,
}

impl Search {
    /// Tries the potential nodes one after the other until there are enough candidates, of which at
    /// least one violates no budget. Leaves out nodes on which evictions are known not to help.
    pub(super) fn over(
        attempt: &mut FailedAttempt<'_>,
        evaluator: &dyn Evaluator,
        dry_run: &mut dyn DryRun,
    ) -> Self {
        let Handle { preemptions, now, .. } = *attempt.handle;
        let paused = preemptions.fruitless().paused_nodes(attempt.pod, now).next().is_some();
        // Victims of a group that is evicted whole, or is elastic, depend on other nodes.
        let is_local = !attempt.cluster().disrupts_groups_across_nodes();
        let repeats = evaluator.repeats_findings() && !paused && is_local;
        let exceptions = dry_run.exceptions().filter(|_| repeats);
        let mut search = Self {
            non_violating: Vec::new(),
            violating: Vec::new(),
            // One candidate found again is enough for trying all nodes.
            wanted: 1,
            keeps_without_victims: dry_run.has_interested_preempting_extender(),
            findings: match &exceptions {
                Some(again) => Findings::take(attempt, evaluator.plugin(), again),
                None => Findings::new(evaluator.plugin(), attempt.cluster()),
            },
            exceptions,
            errors: Vec::new(),
            pause: None,
        };
        search.findings.verdicts.set_absent(Status::unresolvable(NOT_HELPFUL));
        let again = std::mem::take(&mut search.findings.again);
        if !search.findings.is_complete || !search.fails_again(attempt, evaluator, dry_run, &again)
        {
            search.try_all(attempt, evaluator, dry_run, again);
        }
        search
    }

    /// Tries the nodes on which evictions may help by now. Returns whether no node is a candidate,
    /// without an error.
    fn fails_again(
        &mut self,
        attempt: &FailedAttempt<'_>,
        evaluator: &dyn Evaluator,
        dry_run: &mut dyn DryRun,
        again: &[NodeIx],
    ) -> bool {
        let (nodes, verdicts) = (attempt.cluster().nodes(), attempt.verdicts);
        for node in again.iter().copied().filter(|node| nodes.contains(*node)) {
            if verdicts.get(node).code() == Code::Unschedulable {
                self.try_node(attempt, evaluator, dry_run, node);
            }
        }
        if self.found() > 0 || !self.errors.is_empty() {
            // The order of the nodes decides among several.
            self.non_violating.clear();
            self.violating.clear();
            self.errors.clear();
            self.findings.forget_verdicts(again);
            return false;
        }
        let count = verdicts.count_with(Code::Unschedulable, attempt.cluster().node_count());
        if count > 0 {
            dry_run.offset(count);
        }
        true
    }

    fn try_all(
        &mut self,
        attempt: &FailedAttempt<'_>,
        evaluator: &dyn Evaluator,
        dry_run: &mut dyn DryRun,
        again: Vec<NodeIx>,
    ) {
        let mut nodes = attempt.verdicts.unschedulable(attempt.cluster().nodes());
        self.leave_out_paused(attempt, &mut nodes);
        let count = nodes.count();
        self.wanted = evaluator.candidates_wanted(count).min(count);
        let start = if count == 0 { 0 } else { dry_run.offset(count) };
        let ahead = nodes.nth(start).into_iter().flat_map(|first| nodes.iter_from(first));
        for node in ahead.chain(nodes.iter().take(start)) {
            if self.findings.is_helpless(node) {
                continue;
            }
            self.try_node(attempt, evaluator, dry_run, node);
            if self.is_over() {
                // If the findings are not complete, the next search tries all nodes anyway.
                let again = self.findings.is_complete.then_some(again);
                self.findings.again.extend(again.into_iter().flatten());
                return;
            }
        }
        self.findings.is_complete = true;
    }

    /// Removes from `nodes` the nodes on which preemption is paused.
    fn leave_out_paused(&mut self, attempt: &FailedAttempt<'_>, nodes: &mut NodeBits) {
        let Handle { cluster, preemptions, now, .. } = *attempt.handle;
        for (name, pause) in preemptions.fruitless().paused_nodes(attempt.pod, now) {
            let Some(node) = cluster.node_named(name) else { continue };
            if !nodes.remove(node) {
                continue;
            }
            self.findings.verdicts.record(node, Status::unresolvable(PAUSED));
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
        attempt: &FailedAttempt<'_>,
        evaluator: &dyn Evaluator,
        dry_run: &mut dyn DryRun,
        node: NodeIx,
    ) {
        if let Some(victims) = self.findings.victims_on(node, attempt.cluster()) {
            self.findings.again.push(node);
            return self.keep(Candidate { node, victims });
        }
        let mut trial = dry_run.trial(attempt.state, node);
        let status = match evaluator.select_victims_on_node(attempt, node, &mut *trial) {
            Ok(victims) if self.keeps_without_victims || !victims.pods.is_empty() => {
                self.findings.again.push(node);
                if self.exceptions.is_some() {
                    self.findings.add_victims(attempt, node, &victims);
                }
                return self.keep(Candidate { node, victims });
            }
            Ok(_) => Status::unresolvable(NO_VICTIMS),
            Err(status) => status,
        };
        match status.is_rejection() {
            true => self.findings.verdicts.record(node, status),
            false => {
                self.errors.push(status.message());
                self.findings.again.push(node);
            }
        }
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

    const fn found(&self) -> usize {
        self.non_violating.len() + self.violating.len()
    }

    const fn is_over(&self) -> bool {
        !self.non_violating.is_empty() && self.found() >= self.wanted
    }

    /// Returns all candidates; candidates that violate no budget come first. Errors on some nodes
    /// are ignored if there is a candidate. Keeps in `state` what is worth keeping for the next pod
    /// of the template.
    ///
    /// # Errors
    /// The result of PostFilter if there is no candidate. It clears the nomination of the pod.
    pub(super) fn into_candidates(
        mut self,
        cluster: &Cluster,
        state: &mut CycleState,
    ) -> Result<Vec<Candidate>, PostFilterResult> {
        let candidates = self.take_candidates(cluster);
        if let Some(exceptions) = &self.exceptions {
            self.findings.keep(state, exceptions);
        }
        candidates
    }

    fn take_candidates(&mut self, cluster: &Cluster) -> Result<Vec<Candidate>, PostFilterResult> {
        self.non_violating.append(&mut self.violating);
        if !self.non_violating.is_empty() {
            return Ok(std::mem::take(&mut self.non_violating));
        }
        if let Some(text) = aggregate(std::mem::take(&mut self.errors)) {
            return Err(Status::error(text).into());
        }
        Err(PostFilterResult {
            nominating: NominatingInfo::Override("".into()),
            status: Status::unschedulable(self.findings.verdicts.fit_error(cluster.node_count())),
            ..PostFilterResult::default()
        })
    }
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
