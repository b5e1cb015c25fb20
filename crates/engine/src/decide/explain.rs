//! Explanations: the decision that the engine would make about a pod now, and why. An explanation
//! changes nothing.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use foldhash::HashMap;
use framework::preemption::{Candidate, Candidates, Preemption};
use framework::{
    Attempt, Cluster, Command, Commands, Detail, ExtensionPoint, NodeBits, NodeIx, PluginName, Pod,
    PostFilterResult, Status, Verdicts,
};

use super::decider::{Answer, Decider, find, message_of};
use super::decision::{Course, Decision, Found};
use crate::context::Context;
use crate::cycle::{
    FitError, Form, NO_NODES, NodeScores, Question, Report, ScheduleError, Scratch, Subject,
    run_post_filter,
};
use crate::plugin_call::{call_beside, call_plugin};
use crate::profile::Profile;
use crate::world::World;

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
    /// Details of plugins about nodes that they rejected, beyond their verdict, in profile order.
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
    /// For each filter plugin that was not skipped, the nodes that pass this plugin alone, in
    /// profile order. Empty if PreFilter rejected the pod. Nominated pods are left out.
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

    /// Returns every distinct rejection with its nodes, the rejection of the most nodes first.
    pub fn rejections(&self, nodes: &NodeBits) -> Vec<(&Status, NodeBits)> {
        let mut place: HashMap<&Status, usize> = HashMap::default();
        let mut by_status: Vec<(&Status, NodeBits)> = Vec::new();
        for node in nodes.iter() {
            let status = self.verdicts.get(node);
            if status.is_success() {
                continue;
            }
            let entry = *place.entry(status).or_insert_with(|| {
                by_status.push((status, NodeBits::default()));
                by_status.len() - 1
            });
            by_status[entry].1.insert(node);
        }
        by_status.sort_by_key(|(_, nodes)| Reverse(nodes.count()));
        by_status
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

/// The outcome of PostFilter for a pod that fits nowhere.
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

impl From<Decision> for Trial {
    fn from(Decision { found, commands, .. }: Decision) -> Self {
        match found {
            Found::Node(chosen) => Self::Fits { node: chosen.node, feasible: chosen.feasible },
            Found::Failed(status) => Self::Failed(status),
            Found::Unfit(unfit) => {
                preemption(&commands).map_or(Self::Rejected(unfit.fit), Self::Preempts)
            }
        }
    }
}

/// Returns the evictions that plugins have asked for.
fn preemption(commands: &Commands) -> Option<Preemption> {
    commands.take().into_iter().find_map(|command| match command {
        Command::Preempt(preemption) => Some(preemption),
        _ => None,
    })
}

/// Questions without any effect.
impl Decider {
    /// Tries a pod, and evictions for it if it fits nowhere.
    pub(crate) fn try_pod(&self, question: Question<'_>, cx: &mut Context<'_>) -> Trial {
        match gate(question.world, question.profile, question.pod, cx) {
            Some(status) => Trial::Gated(status),
            None => self.decide_aside(question, cx).into(),
        }
    }

    /// Finds out everything that an explanation shows, by this form of the plugins. With `start`, a
    /// sampled search starts there.
    pub(crate) fn evaluate(
        &self,
        question: Question<'_>,
        form: Form,
        start: Option<usize>,
        cx: &mut Context<'_>,
    ) -> Evaluation {
        let next_start = start.unwrap_or(self.course.next_start);
        let mut course = Course { next_start, ..self.course.clone() };
        let (commands, mut report) = (Commands::default(), Report::default());
        let subject = &mut Subject::new(question, &self.settings, &commands, cx);
        subject.form = form;
        let mut scratch = Scratch::default();
        let found = find(subject, None, &mut scratch, &mut course, Some(&mut report));
        let mut evaluation = Evaluation::default();
        evaluation.take_in(found);
        evaluation.next_start = course.next_start;
        evaluation.scores = report.scores;
        if evaluation.fit_error.is_none() {
            evaluation.verdicts = report.verdicts;
            evaluation.rejectors = report.rejectors;
        }
        evaluation.passed = report.passed;
        evaluation.details = details(&evaluation, subject);
        evaluation.passes = passes(&evaluation, subject);
        if let Some(fit) = &mut evaluation.fit_error
            && !subject.profile.post_filter.is_empty()
        {
            let verdicts = &fit.diagnosis.verdicts;
            let result = run_post_filter(subject, verdicts, false, &mut course.rng);
            fit.diagnosis.post_filter_message = message_of(&result, subject.pod, subject.world);
            let candidates = subject.state.read::<Candidates>().cloned().unwrap_or_default().0;
            let preemption = preemption(&commands);
            evaluation.post_filter = Some(PostFilterEvaluation { result, preemption, candidates });
        }
        evaluation
    }
}

impl Evaluation {
    /// Notes the findings of the search.
    fn take_in(&mut self, found: Result<Answer<'_>, ScheduleError>) {
        match found {
            Ok(Answer::Ranked(chosen)) => self.feasible = vec![(chosen.node, chosen.total)],
            Ok(Answer::Scored(scored)) => {
                let total = |place| scored.totals.get(place).copied();
                let nodes = scored.nodes.iter().enumerate();
                self.feasible = nodes.map(|(place, node)| (*node, total(place))).collect();
            }
            Err(ScheduleError::NoNodes) => self.error = Some(Status::unresolvable(NO_NODES)),
            Err(ScheduleError::Error(status)) => self.error = Some(status),
            Err(ScheduleError::Fit(fit)) => {
                self.verdicts = (*fit.diagnosis.verdicts).clone();
                self.rejectors.clone_from(&fit.diagnosis.unschedulable_plugins);
                self.fit_error = Some(*fit);
            }
        }
    }
}

/// Returns the status of the first PreEnqueue plugin that gates the pod.
pub(crate) fn gate(
    world: &World,
    profile: &Profile,
    pod: &Pod,
    cx: &mut Context<'_>,
) -> Option<Status> {
    let handle = world.handle(cx.now);
    profile.pre_enqueue.iter().find_map(|gate| {
        let status = call_plugin(ExtensionPoint::PreEnqueue, &gate.name, cx.probe, || {
            gate.plugin.pre_enqueue(pod, &handle)
        });
        let status = status.unwrap_or_else(|status| status);
        (!status.is_success()).then(|| status.by(&gate.name))
    })
}

/// Runs each filter plugin alone over all nodes.
fn passes(evaluation: &Evaluation, subject: &mut Subject<'_, '_>) -> Vec<(PluginName, NodeBits)> {
    let pre_filter = evaluation.fit_error.as_ref().map(|fit| &fit.diagnosis.pre_filter);
    if evaluation.error.is_some() || pre_filter.is_some_and(|status| !status.is_success()) {
        return Vec::new();
    }
    let handle = subject.handle();
    let attempt = Attempt::new(&subject.state, subject.pod, &handle);
    let mut passes = Vec::new();
    let filters = subject.profile.filter.iter();
    for plugin in filters.filter(|plugin| !attempt.state.skips_filter(&plugin.name)) {
        let mut left = handle.cluster.nodes().clone();
        let ran = call_plugin(ExtensionPoint::Filter, &plugin.name, subject.cx.probe, || {
            plugin.plugin.filter_set(&attempt, &mut left)
        });
        if ran.flatten().is_ok() {
            passes.push((plugin.name.clone(), left));
        }
    }
    passes
}

/// Asks the filter plugins for details about the nodes that they rejected.
fn details(evaluation: &Evaluation, subject: &mut Subject<'_, '_>) -> Vec<(PluginName, Detail)> {
    let handle = subject.handle();
    let attempt = Attempt::new(&subject.state, subject.pod, &handle);
    let verdicts = &evaluation.verdicts;
    let rejects = |status: &Status, plugin: &PluginName| {
        status.is_rejection() && status.plugin() == Some(plugin)
    };
    let statuses = verdicts.counts();
    let mut details = Vec::new();
    for plugin in &subject.profile.filter {
        if !statuses.iter().any(|(status, _)| rejects(status, &plugin.name)) {
            continue;
        }
        let is_rejected = |node: &NodeIx| {
            verdicts.explicit(*node).is_some_and(|status| rejects(status, &plugin.name))
        };
        let rejected: NodeBits = handle.cluster.nodes().iter().filter(is_rejected).collect();
        let own = call_beside("Details", &plugin.name, subject.cx.probe, || {
            plugin.plugin.details(&attempt, &rejected)
        });
        details.extend(own.unwrap_or_default().into_iter().map(|own| (plugin.name.clone(), own)));
    }
    details
}
