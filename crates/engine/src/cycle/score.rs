//! The score pass.

use std::collections::BTreeSet;

use framework::{
    Attempt, AttemptMut, Code, ExtensionPoint, NodeIx, NodeTier, PerNode, PluginName, Score, Status,
};

use super::extender::prioritize_by_extenders;
use super::filter::Candidates;
use super::report::NodeScores;
use super::scored::Scored;
use super::scorer::Scorer;
use super::settings::Form;
use super::subject::Subject;
use crate::plugin_call::{call_beside, call_plugin};
use crate::ports::Point;
use crate::profile::{MAX_NODE_SCORE, Named};

/// Buffers of the score pass, which decisions reuse.
#[derive(Debug, Default)]
pub(crate) struct ScorePass {
    totals: Vec<i64>,
    /// The scores of one plugin.
    own: Vec<i64>,
}

/// The feasible nodes that PreScore gets.
#[derive(Clone, Copy)]
pub(crate) enum FeasibleNodes<'n> {
    List(&'n [NodeIx]),
    Tiers(&'n [NodeTier]),
}

impl ScorePass {
    /// Scores the candidates, unless there is only one. `report` gets the scores of each plugin.
    pub(crate) fn run<'s>(
        &'s mut self,
        subject: &mut Subject<'_, '_>,
        Candidates { nodes, evaluated }: Candidates<'s>,
        report: Option<&mut Vec<NodeScores>>,
    ) -> Result<Scored<'s>, Status> {
        let totals = if nodes.len() > 1 { self.score(subject, nodes, report)? } else { &[] };
        Ok(Scored { nodes, totals, evaluated })
    }

    /// Returns the total score of each node.
    pub(crate) fn score(
        &mut self,
        subject: &mut Subject<'_, '_>,
        nodes: &[NodeIx],
        mut report: Option<&mut Vec<NodeScores>>,
    ) -> Result<&[i64], Status> {
        let Self { totals, own: scores } = self;
        totals.clear();
        totals.resize(nodes.len(), 0);
        if subject.profile.score.is_empty() && subject.settings.extenders.is_empty() {
            totals.fill(1);
            return Ok(totals);
        }
        let skip = run_pre_score(subject, FeasibleNodes::List(nodes), |_| true)?;
        scores.resize(nodes.len(), 0);
        let (profile, form) = (subject.profile, subject.form);
        subject.measure(ExtensionPoint::Score, |subject| {
            let mut plugins = profile.score.iter().filter(|own| !skip.contains(&own.name));
            plugins.try_for_each(|own| {
                let report = report.as_deref_mut();
                score_by(subject, own, form, nodes, Totals { scores, totals, report })
            })
        })?;
        prioritize_by_extenders(subject, nodes, totals);
        Ok(totals)
    }
}

/// Runs PreScore of the plugins that take part. Returns the plugins whose Score is skipped.
pub(crate) fn run_pre_score(
    subject: &mut Subject<'_, '_>,
    nodes: FeasibleNodes<'_>,
    takes_part: impl Fn(&PluginName) -> bool,
) -> Result<BTreeSet<PluginName>, Status> {
    subject.start(ExtensionPoint::PreScore);
    let skip = pre_score(subject, nodes, takes_part);
    let code = skip.as_ref().map_or_else(Status::code, |_| Code::Success);
    subject.stop(ExtensionPoint::PreScore, code);
    skip
}

fn pre_score(
    subject: &mut Subject<'_, '_>,
    nodes: FeasibleNodes<'_>,
    takes_part: impl Fn(&PluginName) -> bool,
) -> Result<BTreeSet<PluginName>, Status> {
    let mut skip = BTreeSet::new();
    for own in subject.profile.pre_score.iter().filter(|own| takes_part(&own.name)) {
        let handle = subject.handle();
        let attempt = AttemptMut::new(&mut subject.state, subject.pod, &handle);
        let status =
            call_plugin(ExtensionPoint::PreScore, &own.name, subject.cx.probe, || match nodes {
                FeasibleNodes::List(nodes) => own.plugin.pre_score(attempt, nodes),
                FeasibleNodes::Tiers(tiers) => own.plugin.pre_score_tiers(attempt, tiers),
            })
            .unwrap_or_else(|status| status);
        match status.code() {
            Code::Success => {}
            Code::Skip => {
                skip.insert(own.name.clone());
            }
            _ => {
                let (name, message) = (&own.name, status.message());
                let text = format!("running PreScore plugin {name:?}: {message}");
                return Err(Status::error(text).by(name));
            }
        }
    }
    Ok(skip)
}

/// Where the scores of a plugin go.
pub(crate) struct Totals<'t> {
    /// A buffer, as long as the list of nodes.
    pub(crate) scores: &'t mut [i64],
    pub(crate) totals: &'t mut [i64],
    /// Gets the scores of the plugin by themselves.
    pub(crate) report: Option<&'t mut Vec<NodeScores>>,
}

/// Adds the weighted scores of one plugin to the totals.
pub(crate) fn score_by(
    subject: &mut Subject<'_, '_>,
    plugin: &Named<dyn Score>,
    form: Form,
    nodes: &[NodeIx],
    Totals { scores, totals, report }: Totals<'_>,
) -> Result<(), Status> {
    Scorer::of(subject).score(plugin, form, nodes, scores)?;
    let raw = (report.is_some() && plugin.registered.normalize_score.is_some())
        .then(|| nodes.iter().copied().zip(scores.iter().copied()).collect());
    normalize(subject, plugin, nodes, scores)?;
    for (score, total) in scores.iter().zip(totals) {
        if !(0..=MAX_NODE_SCORE).contains(score) {
            return Err(out_of_range(plugin, *score));
        }
        *total += score * plugin.weight;
    }
    if let Some(report) = report {
        let weighted = scores.iter().map(|score| score * plugin.weight);
        let weighted = nodes.iter().copied().zip(weighted).collect();
        let handle = subject.handle();
        let attempt = Attempt::new(&subject.state, subject.pod, &handle);
        let own = call_beside("Explain", &plugin.name, subject.cx.probe, || {
            let text = |node| plugin.plugin.explain(&attempt, &handle.cluster.node(node));
            nodes.iter().filter_map(|node| Some((*node, text(*node)?))).collect()
        });
        let parts = own.unwrap_or_default();
        report.push(NodeScores { plugin: plugin.name.clone(), raw, weighted, parts });
    }
    Ok(())
}

fn normalize(
    subject: &mut Subject<'_, '_>,
    plugin: &Named<dyn Score>,
    nodes: &[NodeIx],
    scores: &mut [i64],
) -> Result<(), Status> {
    let Some(normalize) = &plugin.registered.normalize_score else { return Ok(()) };
    let handle = subject.handle();
    let attempt = Attempt::new(&subject.state, subject.pod, &handle);
    let point = Point::ScoreExtensionNormalize;
    let status = call_plugin(point, &plugin.name, subject.cx.probe, || {
        normalize.normalize_score(&attempt, PerNode::new(nodes, scores))
    })
    .unwrap_or_else(|status| status);
    status.ok().map_err(|status| {
        let (name, message) = (&plugin.name, status.message());
        let text =
            format!("running Normalize on Score plugins: plugin {name:?} failed with: {message}");
        Status::error(text).by(name)
    })
}

fn out_of_range(plugin: &Named<dyn Score>, score: i64) -> Status {
    let name = &plugin.name;
    Status::error(format!(
        "applying score defaultWeights on Score plugins: plugin {name:?} returns an invalid score \
         {score}, it should in the range of [0, 100] after normalizing"
    ))
    .by(name)
}
