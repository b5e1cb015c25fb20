//! The scheduling cycle of one pod: which nodes can take it, and which of them is best.
//!
//! A `Cycle` reads the `View` and changes nothing but its own `CycleState`. `PostFilter` finds out
//! how a pod that fits nowhere could be helped, and `Placement` runs Reserve and Permit on the chosen
//! node.

mod diagnosis;
mod dry_run;
mod extender;
mod extender_preemption;
mod filter;
mod group_pass;
mod node_pass;
mod placement;
mod post_filter;
mod ranked;
mod rejected;
mod sample;
mod sampling;
mod score;
mod scorer;

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{
    Code, CycleState, ExtensionPoint, Handle, NodeBits, NodeIx, PluginName, Pod, Status, Verdicts,
};

pub use self::diagnosis::{Diagnosis, FitError};
pub(crate) use self::dry_run::{NodeFilters, Panics, ProfileDryRun};
pub use self::extender::Extender;
pub(crate) use self::extender_preemption::PreemptingExtenders;
pub(crate) use self::placement::Placement;
pub(crate) use self::post_filter::PostFilter;
pub use self::sample::{DrawNodes, MAX_DRAWS, Sample, SampledNode, Selection};
pub use self::sampling::{Sampling, num_feasible_nodes_to_find};
pub use self::score::NodeScores;

use crate::context::Context;
use crate::plugin_call::{HasCode, call_plugin};
use crate::ports::{Parallelizer, Span};
use crate::profile::Profile;
use crate::ranking::{Class, FilterScopes, Known, Rankings};
use crate::world::{LogReader, View};

/// How one of several best nodes is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TieBreak {
    /// By the seeded generator.
    #[default]
    Random,
    /// The first by name; for tests.
    FirstByName,
}

/// The settings that every cycle shares.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Percentage of nodes to score; 0 means all.
    pub(crate) percentage_of_nodes_to_score: i32,
    /// Gives a percentage of 0 the meaning it has in kube-scheduler.
    pub(crate) adaptive_sampling: bool,
    /// The extenders, the ignorable ones last.
    pub(crate) extenders: Arc<[Extender]>,
    pub(crate) tie_break: TieBreak,
    pub(crate) form: Form,
    pub(crate) check_rankings_one_in: u64,
    pub(crate) parallelizer: Box<dyn Parallelizer>,
}

impl Settings {
    pub(crate) fn sampling(&self, profile: &Profile) -> Sampling {
        Sampling::of(
            profile.percentage_of_nodes_to_score,
            self.percentage_of_nodes_to_score,
            self.adaptive_sampling,
        )
    }
}

/// Which form of Filter and Score runs. The decision is the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// The set form: all nodes at once.
    Set,
    /// The one-node form: the reference for the set form.
    OneNode,
    /// Only the nodes that have changed since the last pod of the same class, where the plugins allow it;
    /// otherwise the set form.
    #[default]
    Ranked,
}

/// How much a cycle finds out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Depth {
    /// What the decision needs.
    #[default]
    Decide,
    /// Every verdict on every node and every score, for explanations.
    Explain,
}

/// Why an attempt found no node.
#[derive(Debug, Clone)]
pub enum ScheduleError {
    /// The cluster has no node.
    NoNodes,
    /// No node can take the pod.
    Fit(Box<FitError>),
    /// A plugin or an extender failed.
    Error(Status),
}

impl ScheduleError {
    /// Returns the error as a status.
    pub(crate) fn into_status(self) -> Status {
        match self {
            Self::NoNodes => Status::unresolvable(NO_NODES),
            Self::Fit(fit) if fit.diagnosis.pre_filter.is_success() => {
                Status::unschedulable(fit.message())
            }
            Self::Fit(fit) => fit.diagnosis.pre_filter,
            Self::Error(status) => status,
        }
    }
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

/// Message for a pod in a cluster without nodes.
pub const NO_NODES: &str = "no nodes available to schedule pods";

/// The nodes that a cycle found.
#[derive(Debug, Default)]
pub(crate) struct Feasible {
    /// The feasible nodes; ascending by id unless the search was sampled.
    pub nodes: Vec<NodeIx>,
    /// Total score of `nodes[i]`; empty for a single node, which needs no score.
    pub totals: Vec<i64>,
    /// Number of nodes that were looked at.
    pub evaluated: usize,
}

impl Feasible {
    /// Returns the highest total, if nodes were scored, and the nodes that have it, in order.
    fn best(&self) -> (Option<i64>, impl Iterator<Item = NodeIx> + Clone) {
        let best = self.totals.iter().max();
        let nodes = self.nodes.iter().enumerate().filter_map(move |(place, node)| {
            (best.is_none() || self.totals.get(place) == best).then_some(*node)
        });
        (best.copied(), nodes)
    }
}

/// The node that a cycle chose, with what the search knows of the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) node: NodeIx,
    /// Number of nodes that are as good, this one included.
    pub(crate) ties: usize,
    /// Total score; `None` for a single feasible node, which needs no score.
    pub(crate) total: Option<i64>,
    /// Number of feasible nodes.
    pub(crate) feasible: usize,
    /// Number of nodes that were looked at, or whose verdict the ranking knows.
    pub(crate) evaluated: usize,
}

/// Buffers that cycles reuse, so that a decision allocates nothing per node.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    candidates: NodeBits,
    /// The nodes left after each filter plugin, by its index in the profile.
    passed: Vec<NodeBits>,
    feasible: Feasible,
    scores: Vec<i64>,
    /// For rankings.
    columns: node_pass::Columns,
}

impl Scratch {
    /// Returns nodes and totals of the last successful cycle.
    pub(crate) const fn feasible(&self) -> &Feasible {
        &self.feasible
    }
}

/// What a search keeps from one pod to the next.
pub(crate) struct Search<'a> {
    pub(crate) scratch: &'a mut Scratch,
    /// Where a sampled search starts in the node order.
    pub(crate) next_start: &'a mut usize,
    /// `None` for explanations.
    pub(crate) ranker: Option<Ranker<'a>>,
    /// Draws one of several best nodes.
    pub(crate) rng: &'a mut fastrand::Rng,
}

/// The rankings, and the changes that they have not taken in.
pub(crate) struct Ranker<'a> {
    pub(crate) rankings: &'a mut Rankings,
    pub(crate) log: LogReader<'a>,
}

/// The pod of a cycle, the profile that decides about it, and the state of its plugins.
pub(crate) struct Subject<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) pod: &'a Arc<Pod>,
    pub(crate) state: &'a mut CycleState,
}

/// One attempt to find a node for one pod.
pub(crate) struct Cycle<'a, 'c> {
    view: &'a View,
    settings: &'a Settings,
    profile: &'a Profile,
    pod: &'a Arc<Pod>,
    sampling: Sampling,
    form: Form,
    depth: Depth,
    /// Moved on by a sampled search.
    next_start: &'a mut usize,
    ranker: Option<Ranker<'a>>,
    /// What is known of the class of the pod.
    known: Option<Known>,
    /// The scopes of the filters, if the verdicts of this attempt may be kept for the class.
    filter_scopes: Option<FilterScopes>,
    rng: &'a mut fastrand::Rng,
    state: &'a mut CycleState,
    scratch: &'a mut Scratch,
    cx: &'a mut Context<'c>,
    /// Filled for explanations.
    report: Report,
}

/// The details of a cycle that an explanation shows.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The verdict on every node that cannot take the pod.
    pub verdicts: Verdicts,
    /// The nodes that can take the pod, also those beside the node that it is nominated to.
    pub passed: NodeBits,
    /// Plugins that rejected some candidate.
    pub rejectors: BTreeSet<PluginName>,
    /// The scores of each plugin, in profile order.
    pub scores: Vec<NodeScores>,
}

/// The result of PreFilter.
struct PreFiltered {
    /// The nodes to which PreFilter plugins restrict the search, by name, and these plugins.
    restriction: Option<(BTreeSet<Arc<str>>, Vec<PluginName>)>,
}

/// The result of filtering the node that the pod is nominated to.
#[derive(Default)]
enum NominatedNode {
    /// The pod is not nominated to a node of the cluster, or an extender gave no reason.
    #[default]
    Unknown,
    Rejected(NodeIx, Status),
    Feasible(NodeIx),
}

impl<'a, 'c> Cycle<'a, 'c> {
    pub(crate) fn new(
        view: &'a View,
        settings: &'a Settings,
        subject: Subject<'a>,
        search: Search<'a>,
        cx: &'a mut Context<'c>,
    ) -> Self {
        Self {
            view,
            settings,
            profile: subject.profile,
            pod: subject.pod,
            sampling: settings.sampling(subject.profile),
            form: settings.form,
            depth: Depth::Decide,
            next_start: search.next_start,
            ranker: search.ranker,
            known: None,
            filter_scopes: None,
            rng: search.rng,
            state: subject.state,
            scratch: search.scratch,
            cx,
            report: Report::default(),
        }
    }

    /// Finds out everything that an explanation shows, by this form of the plugins.
    pub(crate) fn explain(mut self, form: Form) -> (Result<(), ScheduleError>, Report) {
        (self.form, self.depth) = (form, Depth::Explain);
        let outcome = self.find_best_nodes().map(drop);
        (outcome, self.report)
    }

    /// The handle for the plugins of this cycle.
    fn handle(&self) -> Handle<'a> {
        self.view.handle(self.cx.now)
    }

    fn start(&mut self, point: ExtensionPoint) {
        self.cx.probe.start(Span::Point(point.into(), &self.profile.scheduler_name));
    }

    fn stop(&mut self, point: ExtensionPoint, code: Code) {
        self.cx.probe.stop(Span::Point(point.into(), &self.profile.scheduler_name), code);
    }
}

impl Cycle<'_, '_> {
    /// Returns one of the best nodes that can take the pod.
    ///
    /// # Errors
    /// No node can take the pod, or a plugin or extender failed.
    pub(crate) fn run(&mut self) -> Result<Chosen, ScheduleError> {
        let class = self.resume_class();
        let ranked = self.find_best_nodes();
        if let Some(class) = class {
            self.suspend_class(&class);
        }
        Ok(ranked?.unwrap_or_else(|| self.select_host()))
    }

    /// Takes up what is known of the pod's class: its ranking, and what its plugins have kept.
    fn resume_class(&mut self) -> Option<Class> {
        let Ranker { rankings, log } = self.ranker.as_mut()?;
        let class = Class::of(self.profile, self.pod)?;
        let mut known = rankings.take(&class);
        self.state.resume(known.resume(log));
        self.known = Some(known);
        Some(class)
    }

    fn suspend_class(&mut self, class: &Class) {
        let Some(mut known) = self.known.take() else { return };
        known.suspend(self.state.suspend());
        if let Some(ranker) = &mut self.ranker {
            ranker.rankings.put_back(class, known);
        }
    }

    /// Returns one of the best nodes from a ranking. Without a ranking it finds the nodes that can take the
    /// pod and scores them, into the scratch.
    fn find_best_nodes(&mut self) -> Result<Option<Chosen>, ScheduleError> {
        self.scratch.feasible.nodes.clear();
        self.scratch.feasible.totals.clear();
        if self.view.cluster().node_count() == 0 {
            return Err(ScheduleError::NoNodes);
        }
        self.reject_invalid_pod()?;
        let ranked = self.find_feasible_nodes()?;
        if self.scratch.feasible.nodes.len() > 1 {
            self.score().map_err(ScheduleError::Error)?;
        }
        Ok(ranked)
    }

    /// Returns one of the best nodes in the scratch.
    fn select_host(&mut self) -> Chosen {
        let feasible = &self.scratch.feasible;
        let (total, mut ties) = feasible.best();
        let count = ties.clone().count();
        let node = match self.settings.tie_break {
            TieBreak::FirstByName => {
                let cluster = self.view.cluster();
                ties.min_by_key(|node| cluster.node_name(*node))
            }
            TieBreak::Random => ties.nth(self.rng.usize(..count.max(1))),
        };
        Chosen {
            node: node.expect("a cycle without error leaves a feasible node"),
            ties: count,
            total,
            feasible: feasible.nodes.len(),
            evaluated: feasible.evaluated,
        }
    }

    /// Rejects a pod that could not be decoded in full: some of its requirements are unknown.
    fn reject_invalid_pod(&self) -> Result<(), ScheduleError> {
        let problems = self.pod.problems();
        if problems.is_empty() {
            return Ok(());
        }
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let status = Status::unresolvable(format!(
            "the pod is invalid, and an API server refuses it: {}",
            problems.join(", ")
        ));
        let diagnosis = Diagnosis::by_pre_filter(status);
        Err(self.rejected(Diagnosis { is_of_invalid_pod: true, ..diagnosis }))
    }

    fn find_feasible_nodes(&mut self) -> Result<Option<Chosen>, ScheduleError> {
        let pre_filtered = self.pre_filter()?;
        // An error over the nominated node leaves it to the full search, as in kube-scheduler.
        match self.filter_nominated_node().unwrap_or_default() {
            NominatedNode::Feasible(node) => {
                if self.depth == Depth::Explain {
                    self.explain_others(node, &pre_filtered);
                }
                self.scratch.feasible.nodes.clear();
                self.scratch.feasible.nodes.push(node);
                self.scratch.feasible.evaluated = 1;
            }
            NominatedNode::Rejected(node, status) => {
                return self.search_all(&pre_filtered, Some((node, status)));
            }
            NominatedNode::Unknown => return self.search_all(&pre_filtered, None),
        }
        Ok(None)
    }

    /// Searches the ranking, or else finds the nodes that can take the pod. `own` is the verdict on the node that
    /// the pod is nominated to, if that node has rejected it.
    fn search_all(
        &mut self,
        pre_filtered: &PreFiltered,
        own: Option<(NodeIx, Status)>,
    ) -> Result<Option<Chosen>, ScheduleError> {
        if let Some(best) = self.search_ranking(pre_filtered)? {
            return Ok(Some(best));
        }
        self.filter_all(pre_filtered, own).map(|()| None)
    }

    /// Finds the nodes that can take the pod by a full pass, whose verdicts are kept if there is none.
    fn filter_all(
        &mut self,
        pre_filtered: &PreFiltered,
        own: Option<(NodeIx, Status)>,
    ) -> Result<(), ScheduleError> {
        let filtered = self.filter(pre_filtered, own);
        if let Err(error) = &filtered {
            self.keep_rejections(error);
        }
        filtered
    }

    /// Reports on all nodes, although the nominated node `chosen` decides. A sampled search does not move
    /// on.
    fn explain_others(&mut self, chosen: NodeIx, pre_filtered: &PreFiltered) {
        let start = *self.next_start;
        if let Err(ScheduleError::Fit(fit)) = self.filter(pre_filtered, None) {
            self.report.verdicts = Arc::unwrap_or_clone(fit.diagnosis.verdicts);
        }
        *self.next_start = start;
        self.report.passed.insert(chosen);
        let restricting = pre_filtered.restriction.iter().flat_map(|(_, plugins)| plugins);
        self.report.rejectors = restricting.cloned().collect();
    }

    fn rejected(&self, diagnosis: Diagnosis) -> ScheduleError {
        ScheduleError::Fit(Box::new(FitError {
            num_all_nodes: self.view.cluster().node_count(),
            diagnosis,
        }))
    }

    fn pre_filter(&mut self) -> Result<PreFiltered, ScheduleError> {
        self.start(ExtensionPoint::PreFilter);
        let outcome = self.run_pre_filter();
        let code = outcome.as_ref().map_or_else(ScheduleError::code, |_| Code::Success);
        self.stop(ExtensionPoint::PreFilter, code);
        outcome
    }

    fn run_pre_filter(&mut self) -> Result<PreFiltered, ScheduleError> {
        let profile = self.profile;
        let mut outcome = PreFiltered { restriction: None };
        let (mut rejection, mut skipped) = (None, BTreeSet::new());
        for plugin in &profile.pre_filter {
            let handle = self.handle();
            let (state, pod) = (&mut *self.state, self.pod);
            let answer =
                call_plugin(ExtensionPoint::PreFilter, &plugin.name, self.cx.probe, || {
                    plugin.plugin.pre_filter(state, pod, &handle)
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

    /// Intersects the restriction of one plugin with the earlier restrictions.
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

    /// Filters the node that the pod is nominated to. If it passes, no other node is considered.
    fn filter_nominated_node(&mut self) -> Result<NominatedNode, ScheduleError> {
        let nominated = self.pod.nominated_node_name();
        let Some(node) = nominated.and_then(|name| self.view.cluster().node_named(name)) else {
            return Ok(NominatedNode::Unknown);
        };
        let status = self.filter_one(node)?;
        if !status.is_success() {
            return Ok(NominatedNode::Rejected(node, status));
        }
        let (mut nodes, mut verdicts) = (vec![node], Verdicts::default());
        self.filter_by_extenders(&mut nodes, &mut verdicts).map_err(ScheduleError::Error)?;
        if nodes.is_empty() {
            let status = verdicts.explicit(node).cloned();
            return Ok(status
                .map_or(NominatedNode::Unknown, |status| NominatedNode::Rejected(node, status)));
        }
        Ok(NominatedNode::Feasible(node))
    }
}
