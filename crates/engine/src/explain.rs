//! What the engine would decide about a pod now, and why: the decision in full, without acting on it.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::preemption::{Candidate, Candidates, Preemption};
use framework::{
    Command, CycleState, NodeBits, NodeIx, PluginName, Pod, PostFilterResult, Status, Time,
    Verdicts,
};

use crate::cycle::{
    Cycle, Depth, FitError, Form, NodeScores, Report, Sampling, ScheduleError, Scratch,
};
use crate::engine::Engine;
use crate::ports::Ports;
use crate::profile::Profile;

/// An attempt in full. It says what holds now, not what held when a decision was made.
#[derive(Debug, Default)]
pub struct Evaluation {
    /// Nodes that can take the pod, and their total scores; a single node is not scored.
    pub feasible: Vec<(NodeIx, Option<i64>)>,
    /// Nodes that pass every filter. They are more than the feasible ones if the pod is nominated to one
    /// of them: no other is then in question.
    pub passed: NodeBits,
    /// The verdict on every node that cannot.
    pub verdicts: Verdicts,
    /// Plugins that turned the pod down, or some node that was in question.
    pub rejectors: BTreeSet<PluginName>,
    /// The scores of each plugin that was not skipped, in profile order.
    pub scores: Vec<NodeScores>,
    /// Why the pod fits nowhere.
    pub fit_error: Option<FitError>,
    /// What PostFilter would do about it.
    pub post_filter: Option<Rescue>,
    /// The attempt failed for another reason.
    pub error: Option<Status>,
    /// Where the next sampled search would start.
    pub next_start: usize,
}

/// What PostFilter would do about a pod that fits nowhere.
#[derive(Debug, Default)]
pub struct Rescue {
    /// The answer of the PostFilter plugins together.
    pub result: PostFilterResult,
    /// The evictions they ask for.
    pub preemption: Option<Preemption>,
    /// What they had to choose from.
    pub candidates: Vec<Candidate>,
}

impl Evaluation {
    /// The nodes with the highest total, in the order of `feasible`.
    pub fn best(&self) -> Vec<NodeIx> {
        let best = self.feasible.iter().map(|(_, total)| *total).max();
        let is_best = |total: Option<i64>| Some(total) == best;
        self.feasible.iter().filter(|(_, total)| is_best(*total)).map(|(node, _)| *node).collect()
    }
}

impl Engine {
    /// Evaluates `pod` against the cluster as it is, by this form of the plugins. With `start` a
    /// sampled search starts there.
    ///
    /// Returns `None` if no profile is responsible for the pod.
    pub fn evaluate(
        &mut self,
        pod: &Arc<Pod>,
        form: Form,
        start: Option<usize>,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Option<Evaluation> {
        let profile = self.config.profiles.get(&pod.spec.scheduler_name)?.clone();
        let sampling = self.sampling(&profile);
        if sampling != Sampling::All {
            self.cache.refresh_order();
        }
        let (mut state, mut now) = (CycleState::new(), now);
        let mut scratch = Scratch::default();
        let mut next_start = start.unwrap_or(self.next_start);
        let mut cycle = Cycle {
            profile: &profile,
            cache: &self.cache,
            nominator: self.queue.nominator(),
            extenders: &self.config.extenders,
            sampling,
            next_start: &mut next_start,
            form,
            depth: Depth::Explain,
            pod,
            now: &mut now,
            state: &mut state,
            ports,
            scratch: &mut scratch,
            report: Report::default(),
        };
        let outcome = cycle.run();
        let Report { verdicts, passed, rejectors, scores } = cycle.report;
        let mut evaluation =
            Evaluation { verdicts, passed, rejectors, scores, ..Evaluation::default() };
        match outcome {
            Ok(()) => {
                let feasible = scratch.feasible();
                let total = |place| feasible.totals.get(place).copied();
                evaluation.feasible =
                    feasible.nodes.iter().enumerate().map(|(i, node)| (*node, total(i))).collect();
            }
            Err(ScheduleError::NoNodes) => {
                evaluation.error = Some(Status::unresolvable(crate::cycle::NO_NODES));
            }
            Err(ScheduleError::Error(status)) => evaluation.error = Some(status),
            Err(ScheduleError::Fit(mut fit)) => {
                evaluation.verdicts = fit.diagnosis.verdicts.clone();
                evaluation.rejectors.clone_from(&fit.diagnosis.unschedulable_plugins);
                evaluation.post_filter =
                    self.explain_post_filter(&mut fit, pod, &profile, &mut state, &mut now, ports);
                evaluation.fit_error = Some(*fit);
            }
        }
        evaluation.next_start = next_start;
        Some(evaluation)
    }

    /// Asks the PostFilter plugins, if there are any, without doing what they ask for.
    fn explain_post_filter(
        &mut self,
        fit: &mut FitError,
        pod: &Pod,
        profile: &Profile,
        state: &mut CycleState,
        now: &mut Time,
        ports: &mut Ports<'_>,
    ) -> Option<Rescue> {
        if profile.post_filter.is_empty() {
            return None;
        }
        let (commands, rng) = (std::mem::take(&mut self.commands), self.rng.clone());
        let result = self.run_post_filter(&fit.diagnosis.verdicts, pod, profile, state, now, ports);
        self.rng = rng;
        fit.diagnosis.post_filter_message = result.status.message();
        let asked = std::mem::replace(&mut self.commands, commands);
        let preemption = asked.into_iter().find_map(|command| match command {
            Command::Preempt(preemption) => Some(preemption),
            _ => None,
        });
        let candidates = state.read_mut::<Candidates>().map(std::mem::take).unwrap_or_default().0;
        Some(Rescue { result, preemption, candidates })
    }
}
