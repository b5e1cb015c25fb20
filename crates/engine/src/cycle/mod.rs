//! The scheduling cycle of one pod: which nodes can take it, and which of them is best.
//!
//! `Cycle::run` reads the cluster and changes nothing but its own `CycleState`; assuming,
//! reserving and failing are the engine's.

mod diagnosis;
mod dry_run;
mod extender;
mod extender_preemption;
mod filter;
mod sampling;
mod score;

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{
    Code, CycleState, ExtensionPoint, NodeBits, NodeIx, PluginName, Pod, Status, Time, Verdicts,
};

pub use self::diagnosis::{Diagnosis, FitError};
pub(crate) use self::dry_run::{NodeFilters, Panics, ProfileDryRun};
pub use self::extender::Extender;
pub(crate) use self::extender_preemption::PreemptingExtenders;
pub use self::sampling::{Sampling, num_feasible_nodes_to_find};
pub use self::score::NodeScores;

use crate::cache::Cache;
use crate::guard::{HasCode, ask};
use crate::ports::{Ports, Span};
use crate::profile::Profile;
use crate::queue::Nominator;

/// Which form of Filter and Score is run. The decision is the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// All nodes at once.
    #[default]
    Set,
    /// Node by node: the reference the set form is held to.
    OneNode,
}

/// How far an attempt looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Depth {
    /// As far as the decision needs.
    #[default]
    Decide,
    /// Every verdict on every node and every score, for explanations.
    Explain,
}

/// Why an attempt found no node.
#[derive(Debug, Clone)]
pub enum ScheduleError {
    /// There is no node at all.
    NoNodes,
    /// No node can take the pod.
    Fit(Box<FitError>),
    /// Something failed that says nothing about the pod.
    Error(Status),
}

impl HasCode for ScheduleError {
    fn code(&self) -> Code {
        match self {
            Self::NoNodes => Code::UnschedulableAndUnresolvable,
            Self::Fit(fit) if !fit.diagnosis.pre_filter.is_success() => {
                fit.diagnosis.pre_filter.code()
            }
            Self::Fit(_) => Code::Unschedulable,
            Self::Error(status) => status.code(),
        }
    }
}

/// Reason of a pod that waits for the first node.
pub const NO_NODES: &str = "no nodes available to schedule pods";

/// The outcome of an attempt that found nodes.
#[derive(Debug, Default)]
pub(crate) struct Feasible {
    /// The nodes in question, ascending by id where all were looked at.
    pub nodes: Vec<NodeIx>,
    /// Total score of `nodes[i]`; empty where a single node made scoring idle.
    pub totals: Vec<i64>,
}

/// Buffers that attempts take turns to use, so that a decision allocates nothing per node.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    candidates: NodeBits,
    /// What was left after each filter plugin, by its place in the profile.
    passed: Vec<NodeBits>,
    feasible: Feasible,
    scores: Vec<i64>,
}

impl Scratch {
    /// Nodes and totals of the last successful attempt.
    pub(crate) const fn feasible(&self) -> &Feasible {
        &self.feasible
    }
}

/// One attempt to find a node for one pod.
pub(crate) struct Cycle<'a, 'p> {
    pub profile: &'a Profile,
    pub cache: &'a Cache,
    pub nominator: &'a Nominator,
    pub extenders: &'a [Extender],
    pub sampling: Sampling,
    /// Where a sampled search starts in the node order; moved on by the search.
    pub next_start: &'a mut usize,
    pub form: Form,
    pub depth: Depth,
    pub pod: &'a Arc<Pod>,
    pub now: &'a mut Time,
    pub state: &'a mut CycleState,
    pub ports: &'a mut Ports<'p>,
    pub scratch: &'a mut Scratch,
    /// Filled where an explanation was asked for.
    pub report: Report,
}

/// Everything an explanation shows of an attempt.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The verdict on every node, absent for those that can take the pod.
    pub verdicts: Verdicts,
    /// The nodes that can take the pod, also when it is nominated to one of them.
    pub passed: NodeBits,
    /// Plugins that turned some node down, as far as it was in question.
    pub rejectors: BTreeSet<PluginName>,
    /// The scores of each plugin, in profile order.
    pub scores: Vec<NodeScores>,
}

/// What PreFilter left to do.
struct PreFiltered {
    /// Names of the nodes PreFilter narrowed the search to, and the plugins that did.
    restriction: Option<(BTreeSet<Arc<str>>, Vec<PluginName>)>,
}

/// What came of trying the node a pod is nominated to.
#[derive(Default)]
enum Tried {
    /// There is none, or nothing can be said of it.
    #[default]
    Nothing,
    /// It cannot take the pod.
    TurnedDown(NodeIx, Status),
    /// It can take the pod.
    Passed(NodeIx),
}

impl Cycle<'_, '_> {
    /// Finds the nodes that can take the pod and rates them; the outcome is left in the scratch.
    ///
    /// # Errors
    /// No node can take the pod, or something failed.
    pub(crate) fn run(&mut self) -> Result<(), ScheduleError> {
        self.scratch.feasible.nodes.clear();
        self.scratch.feasible.totals.clear();
        if self.cache.cluster().node_count() == 0 {
            return Err(ScheduleError::NoNodes);
        }
        self.refuse_unreadable_pod()?;
        self.find_feasible_nodes()?;
        if self.scratch.feasible.nodes.len() > 1 {
            self.score().map_err(ScheduleError::Error)?;
        }
        Ok(())
    }

    /// A pod that could not be read in full is not placed on half of what it asks for.
    fn refuse_unreadable_pod(&self) -> Result<(), ScheduleError> {
        let Some(problems) = &self.pod.problems else { return Ok(()) };
        let reasons = problems.iter().map(|problem| format!("invalid pod: {problem}").into());
        let status = Status::with_reasons(Code::UnschedulableAndUnresolvable, reasons.collect());
        Err(self.rejected(Diagnosis::by_pre_filter(status)))
    }

    fn find_feasible_nodes(&mut self) -> Result<(), ScheduleError> {
        let pre_filtered = self.pre_filter()?;
        // An error over the nominated node leaves it to the full search, as in kube-scheduler.
        match self.try_nominated_node().unwrap_or_default() {
            Tried::Passed(node) => {
                if self.depth == Depth::Explain {
                    self.explain_others(node, &pre_filtered);
                }
                self.scratch.feasible.nodes.clear();
                self.scratch.feasible.nodes.push(node);
                Ok(())
            }
            Tried::TurnedDown(node, status) => self.filter(&pre_filtered, Some((node, status))),
            Tried::Nothing => self.filter(&pre_filtered, None),
        }
    }

    /// Reports on all nodes, although `chosen` alone is in question and the search stays where it is.
    fn explain_others(&mut self, chosen: NodeIx, pre_filtered: &PreFiltered) {
        let start = *self.next_start;
        if let Err(ScheduleError::Fit(fit)) = self.filter(pre_filtered, None) {
            self.report.verdicts = fit.diagnosis.verdicts;
        }
        *self.next_start = start;
        self.report.passed.insert(chosen);
        let restricting = pre_filtered.restriction.iter().flat_map(|(_, plugins)| plugins);
        self.report.rejectors = restricting.cloned().collect();
    }

    fn rejected(&self, diagnosis: Diagnosis) -> ScheduleError {
        ScheduleError::Fit(Box::new(FitError {
            num_all_nodes: self.cache.cluster().node_count(),
            diagnosis,
        }))
    }

    fn pre_filter(&mut self) -> Result<PreFiltered, ScheduleError> {
        self.ports
            .probe
            .start(Span::Point(ExtensionPoint::PreFilter, &self.profile.scheduler_name));
        let outcome = self.run_pre_filter();
        let code = outcome.as_ref().map_or_else(ScheduleError::code, |_| Code::Success);
        self.ports
            .probe
            .stop(Span::Point(ExtensionPoint::PreFilter, &self.profile.scheduler_name), code);
        outcome
    }

    fn run_pre_filter(&mut self) -> Result<PreFiltered, ScheduleError> {
        let profile = self.profile;
        let mut outcome = PreFiltered { restriction: None };
        let (mut rejection, mut skipped) = (None, BTreeSet::new());
        for plugin in &profile.pre_filter {
            let cluster = self.cache.cluster();
            let (state, pod) = (&mut *self.state, self.pod);
            let answer = ask(ExtensionPoint::PreFilter, &plugin.name, self.ports.probe, || {
                plugin.plugin.pre_filter(state, pod, cluster)
            });
            let status = match answer.unwrap_or_else(Err) {
                Ok(result) => {
                    self.narrow(&mut outcome, &plugin.name, result)?;
                    continue;
                }
                Err(status) => status.by(&plugin.name),
            };
            match status.code() {
                Code::Success => {}
                Code::Skip => {
                    skipped.insert(plugin.name.clone());
                }
                Code::UnschedulableAndUnresolvable => {
                    return Err(self.rejected(Diagnosis::by_pre_filter(status)));
                }
                Code::Unschedulable => rejection = Some(status),
                _ => {
                    let text =
                        format!("running PreFilter plugin {:?}: {}", plugin.name, status.message());
                    return Err(ScheduleError::Error(Status::error(text).by(&plugin.name)));
                }
            }
        }
        self.state.skip_filters(skipped);
        match rejection {
            None => Ok(outcome),
            Some(status) => {
                let mut diagnosis = Diagnosis::by_pre_filter(status);
                diagnosis.record_restriction(&outcome);
                Err(self.rejected(diagnosis))
            }
        }
    }

    /// Intersects the restriction of one plugin with those before it.
    fn narrow(
        &self,
        outcome: &mut PreFiltered,
        plugin: &PluginName,
        result: framework::PreFilterResult,
    ) -> Result<(), ScheduleError> {
        let Some(mut names) = result.node_names else { return Ok(()) };
        let mut plugins = Vec::new();
        if let Some((before, earlier)) = outcome.restriction.take() {
            names.retain(|name| before.contains(name));
            plugins = earlier;
        }
        plugins.push(plugin.clone());
        if names.is_empty() {
            return Err(self.rejected(Diagnosis::by_contradiction(plugins)));
        }
        outcome.restriction = Some((names, plugins));
        Ok(())
    }

    /// Tries the node the pod is nominated to. If it can take the pod it is the only one in question.
    fn try_nominated_node(&mut self) -> Result<Tried, ScheduleError> {
        let nominated = self.pod.nominated_node_name.as_ref();
        let Some(node) = nominated.and_then(|name| self.cache.cluster().node_named(name)) else {
            return Ok(Tried::Nothing);
        };
        let status = self.filter_one(node)?;
        if !status.is_success() {
            return Ok(Tried::TurnedDown(node, status));
        }
        let (mut nodes, mut verdicts) = (vec![node], Verdicts::default());
        self.filter_by_extenders(&mut nodes, &mut verdicts).map_err(ScheduleError::Error)?;
        if nodes.is_empty() {
            let status = verdicts.explicit(node).cloned();
            return Ok(status.map_or(Tried::Nothing, |status| Tried::TurnedDown(node, status)));
        }
        Ok(Tried::Passed(node))
    }
}
