//! What the engine would decide about a pod now, and why. Nothing is changed by it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use framework::preemption::{Candidate, Candidates, Preemption};
use framework::{
    Cluster, Command, CycleState, Detail, ExtensionPoint, NodeBits, NodeIx, PluginName, Pod,
    PostFilterResult, Status, Verdicts,
};

use crate::context::Context;
use crate::cycle::{
    Cycle, FitError, Form, NO_NODES, NodeScores, PostFilter, ScheduleError, Scratch, Search,
    Settings, Subject,
};
use crate::plugin_call::{call_beside, call_plugin};
use crate::profile::Profile;
use crate::world::View;

/// An attempt in full, on the state of the cluster at the time of the question.
#[derive(Debug, Default)]
pub struct Evaluation {
    /// The nodes that can take the pod, with their total scores; a single node is not scored.
    pub feasible: Vec<(NodeIx, Option<i64>)>,
    /// The nodes that pass every filter. If the pod is nominated to one of them, only that one is
    /// feasible.
    pub passed: NodeBits,
    /// The verdict on every node that cannot take the pod.
    pub verdicts: Verdicts,
    /// What plugins say about nodes that they rejected beyond their verdict, in profile order.
    pub details: Vec<(PluginName, Detail)>,
    /// Plugins that rejected the pod or some candidate.
    pub rejectors: BTreeSet<PluginName>,
    /// The scores of each plugin that was not skipped, in profile order.
    pub scores: Vec<NodeScores>,
    /// The reasons why the pod fits nowhere.
    pub fit_error: Option<FitError>,
    /// The result of PostFilter.
    pub post_filter: Option<PostFilterEvaluation>,
    /// The error that ended the attempt.
    pub error: Option<Status>,
    /// For each filter plugin that was not skipped, the nodes that pass it by itself, in profile order. Empty if
    /// PreFilter rejected the pod. Nominated pods are left out.
    pub passes: Vec<(PluginName, NodeBits)>,
    /// Where the next sampled search would start.
    pub next_start: usize,
}

impl Evaluation {
    /// Returns the feasible nodes with their totals, the best first, equally good ones by name.
    pub fn best_first(&self, cluster: &Cluster) -> Vec<(NodeIx, Option<i64>)> {
        let mut ranked = self.feasible.clone();
        ranked.sort_by(|(a, a_total), (b, b_total)| {
            b_total.cmp(a_total).then_with(|| cluster.node_name(*a).cmp(cluster.node_name(*b)))
        });
        ranked
    }

    /// Returns every distinct rejection with its nodes, that of the most nodes first.
    pub fn rejections(&self, nodes: &NodeBits) -> Vec<(&Status, NodeBits)> {
        let mut place: HashMap<&Status, usize> = HashMap::new();
        let mut groups: Vec<(&Status, NodeBits)> = Vec::new();
        for node in nodes.iter() {
            let status = self.verdicts.get(node);
            if status.is_success() {
                continue;
            }
            let group = *place.entry(status).or_insert_with(|| {
                groups.push((status, NodeBits::default()));
                groups.len() - 1
            });
            groups[group].1.insert(node);
        }
        groups.sort_by_key(|(_, nodes)| Reverse(nodes.count()));
        groups
    }
}

/// The outcome of trying a pod without any effect.
#[derive(Debug, Clone)]
pub enum Trial {
    /// A PreEnqueue plugin gates the pod.
    Gated(Status),
    /// A node can take the pod.
    Fits {
        /// One of the best nodes.
        node: NodeIx,
        /// Number of feasible nodes.
        feasible: usize,
    },
    /// Evictions make room for the pod.
    Preempts(Preemption),
    /// No node can take the pod.
    Rejected(Box<FitError>),
    /// The trial ended with an error.
    Failed(Status),
}

impl Trial {
    /// Whether the pod gets a node, possibly after evictions.
    pub const fn succeeds(&self) -> bool {
        matches!(self, Self::Fits { .. } | Self::Preempts(_))
    }
}

/// What PostFilter would do for a pod that fits nowhere.
#[derive(Debug, Default)]
pub struct PostFilterEvaluation {
    /// The result of the PostFilter plugins together.
    pub result: PostFilterResult,
    /// The preemption that they ask for.
    pub preemption: Option<Preemption>,
    /// The candidates among which they chose.
    pub candidates: Vec<Candidate>,
}

impl Evaluation {
    /// Returns the nodes with the highest total, in the order of `feasible`.
    pub fn best(&self) -> Vec<NodeIx> {
        let best = self.feasible.iter().map(|(_, total)| *total).max();
        let is_best = |total: Option<i64>| Some(total) == best;
        self.feasible.iter().filter(|(_, total)| is_best(*total)).map(|(node, _)| *node).collect()
    }
}

/// An evaluation to be made.
pub(crate) struct Explanation<'a> {
    pub(crate) view: &'a View,
    pub(crate) settings: &'a Settings,
    /// A copy, so that the question leaves later decisions as they are.
    pub(crate) rng: fastrand::Rng,
    pub(crate) next_start: usize,
}

impl Explanation<'_> {
    pub(crate) fn evaluate(
        mut self,
        profile: &Profile,
        pod: &Arc<Pod>,
        form: Form,
        cx: &mut Context<'_>,
    ) -> Evaluation {
        let (mut state, mut scratch) = (CycleState::new(), Scratch::default());
        let subject = Subject { profile, pod, state: &mut state };
        let search = Search {
            scratch: &mut scratch,
            next_start: &mut self.next_start,
            ranker: None,
            rng: &mut self.rng,
        };
        let cycle = Cycle::new(self.view, self.settings, subject, search, cx);
        let (outcome, report) = cycle.explain(form);
        let mut evaluation = Evaluation {
            verdicts: report.verdicts,
            passed: report.passed,
            rejectors: report.rejectors,
            scores: report.scores,
            next_start: self.next_start,
            ..Evaluation::default()
        };
        match outcome {
            Ok(()) => {
                let feasible = scratch.feasible();
                let total = |place| feasible.totals.get(place).copied();
                evaluation.feasible =
                    feasible.nodes.iter().enumerate().map(|(i, node)| (*node, total(i))).collect();
            }
            Err(ScheduleError::NoNodes) => evaluation.error = Some(Status::unresolvable(NO_NODES)),
            Err(ScheduleError::Error(status)) => evaluation.error = Some(status),
            Err(ScheduleError::Fit(fit)) => {
                evaluation.verdicts = (*fit.diagnosis.verdicts).clone();
                evaluation.rejectors.clone_from(&fit.diagnosis.unschedulable_plugins);
                evaluation.fit_error = Some(*fit);
            }
        }
        evaluation.details = self.details(&evaluation, profile, (pod, &state), cx);
        evaluation.passes = self.passes(&evaluation, profile, (pod, &state), cx);
        if let Some(fit) = &mut evaluation.fit_error {
            let subject = Subject { profile, pod, state: &mut state };
            evaluation.post_filter = self.post_filter(fit, subject, cx);
        }
        evaluation
    }

    /// Returns the status of the first PreEnqueue plugin that gates the pod.
    pub(crate) fn gate(
        &self,
        profile: &Profile,
        pod: &Pod,
        cx: &mut Context<'_>,
    ) -> Option<Status> {
        let handle = self.view.handle(cx.now);
        profile.pre_enqueue.iter().find_map(|gate| {
            let status = call_plugin(ExtensionPoint::PreEnqueue, &gate.name, cx.probe, || {
                gate.plugin.pre_enqueue(pod, &handle)
            });
            let status = status.unwrap_or_else(|status| status);
            (!status.is_success()).then(|| status.by(&gate.name))
        })
    }

    /// Tries a pod, and evictions for it if it fits nowhere.
    pub(crate) fn try_pod(
        mut self,
        profile: &Profile,
        pod: &Arc<Pod>,
        cx: &mut Context<'_>,
    ) -> Trial {
        if let Some(status) = self.gate(profile, pod, cx) {
            return Trial::Gated(status);
        }
        let (mut state, mut scratch) = (CycleState::new(), Scratch::default());
        let subject = Subject { profile, pod, state: &mut state };
        let search = Search {
            scratch: &mut scratch,
            next_start: &mut self.next_start,
            ranker: None,
            rng: &mut self.rng,
        };
        match Cycle::new(self.view, self.settings, subject, search, cx).run() {
            Ok(chosen) => {
                Trial::Fits { node: chosen.node, feasible: scratch.feasible().nodes.len() }
            }
            Err(ScheduleError::NoNodes) => Trial::Failed(Status::unresolvable(NO_NODES)),
            Err(ScheduleError::Error(status)) => Trial::Failed(status),
            Err(ScheduleError::Fit(mut fit)) => {
                let subject = Subject { profile, pod, state: &mut state };
                let made = self.post_filter(&mut fit, subject, cx);
                match made.and_then(|made| made.preemption) {
                    Some(preemption) => Trial::Preempts(preemption),
                    None => Trial::Rejected(fit),
                }
            }
        }
    }

    /// Runs each filter plugin over all nodes by itself.
    fn passes(
        &self,
        evaluation: &Evaluation,
        profile: &Profile,
        (pod, state): (&Pod, &CycleState),
        cx: &mut Context<'_>,
    ) -> Vec<(PluginName, NodeBits)> {
        let pre_filter = evaluation.fit_error.as_ref().map(|fit| &fit.diagnosis.pre_filter);
        if evaluation.error.is_some() || pre_filter.is_some_and(|status| !status.is_success()) {
            return Vec::new();
        }
        let handle = self.view.handle(cx.now);
        let mut passes = Vec::new();
        for plugin in profile.filter.iter().filter(|plugin| !state.skips_filter(&plugin.name)) {
            let mut left = handle.cluster.nodes().clone();
            let ran = call_plugin(ExtensionPoint::Filter, &plugin.name, cx.probe, || {
                plugin.plugin.filter_set(state, pod, &handle, &mut left)
            });
            if ran.flatten().is_ok() {
                passes.push((plugin.name.clone(), left));
            }
        }
        passes
    }

    /// Asks the filter plugins for details about the nodes that they rejected.
    fn details(
        &self,
        evaluation: &Evaluation,
        profile: &Profile,
        (pod, state): (&Pod, &CycleState),
        cx: &mut Context<'_>,
    ) -> Vec<(PluginName, Detail)> {
        let handle = self.view.handle(cx.now);
        let verdicts = &evaluation.verdicts;
        let rejects = |status: &Status, plugin: &PluginName| {
            status.is_rejection() && status.plugin() == Some(plugin)
        };
        let statuses = verdicts.counts();
        let mut details = Vec::new();
        for plugin in &profile.filter {
            if !statuses.iter().any(|(status, _)| rejects(status, &plugin.name)) {
                continue;
            }
            let is_rejected = |node: &NodeIx| {
                verdicts.explicit(*node).is_some_and(|status| rejects(status, &plugin.name))
            };
            let rejected: NodeBits = handle.cluster.nodes().iter().filter(is_rejected).collect();
            let own = call_beside("Details", &plugin.name, cx.probe, || {
                plugin.plugin.details(state, pod, &handle, &rejected)
            });
            details
                .extend(own.unwrap_or_default().into_iter().map(|own| (plugin.name.clone(), own)));
        }
        details
    }

    /// Runs the PostFilter plugins, if there are any, and drops their commands.
    fn post_filter(
        &mut self,
        fit: &mut FitError,
        mut subject: Subject<'_>,
        cx: &mut Context<'_>,
    ) -> Option<PostFilterEvaluation> {
        if subject.profile.post_filter.is_empty() {
            return None;
        }
        let (view, settings) = (self.view, self.settings);
        let mut post_filter = PostFilter { view, settings, rng: &mut self.rng, are_local: false };
        let result = post_filter.run(&mut subject, &fit.diagnosis.verdicts, cx);
        fit.diagnosis.post_filter_message = result.status.message();
        let preemption = view.commands().take().into_iter().find_map(|command| match command {
            Command::Preempt(preemption) => Some(preemption),
            _ => None,
        });
        let candidates = subject.state.read_mut::<Candidates>().map(std::mem::take);
        let candidates = candidates.unwrap_or_default().0;
        Some(PostFilterEvaluation { result, preemption, candidates })
    }
}
