//! The score pass.

use std::collections::BTreeSet;

use framework::{Code, ExtensionPoint, NodeGroup, NodeIx, PluginName, Status};

use super::{Cycle, Depth, Form};
use crate::plugin_call::{HasCode, call_plugin};
use crate::ports::Point;
use crate::profile::{MAX_NODE_SCORE, ScorePlugin};

/// The scores of one plugin.
#[derive(Debug, Clone)]
pub struct NodeScores {
    /// The plugin.
    pub plugin: PluginName,
    /// Before normalising, for plugins that normalise.
    pub raw: Option<Vec<(NodeIx, i64)>>,
    /// Normalised and weighted.
    pub weighted: Vec<(NodeIx, i64)>,
}

/// The feasible nodes that PreScore gets.
#[derive(Clone, Copy)]
pub(super) enum FeasibleNodes<'n> {
    List(&'n [NodeIx]),
    Groups(&'n [NodeGroup]),
}

impl Cycle<'_, '_> {
    /// Computes the total score of each feasible node, into the scratch.
    pub(super) fn score(&mut self) -> Result<(), Status> {
        let nodes = std::mem::take(&mut self.scratch.feasible.nodes);
        let mut totals = std::mem::take(&mut self.scratch.feasible.totals);
        totals.resize(nodes.len(), 0);
        let scored = self.score_nodes(&nodes, &mut totals);
        self.scratch.feasible.nodes = nodes;
        self.scratch.feasible.totals = totals;
        scored
    }

    fn score_nodes(&mut self, nodes: &[NodeIx], totals: &mut [i64]) -> Result<(), Status> {
        if self.profile.score.is_empty() && self.settings.extenders.is_empty() {
            totals.fill(1);
            return Ok(());
        }
        let skip = self.run_pre_score(FeasibleNodes::List(nodes), |_| true)?;
        let mut scores = std::mem::take(&mut self.scratch.scores);
        scores.resize(nodes.len(), 0);
        let profile = self.profile;
        self.start(ExtensionPoint::Score);
        let mut outcome = Ok(());
        for plugin in profile.score.iter().filter(|plugin| !skip.contains(&plugin.name)) {
            outcome = self.score_by(plugin, self.form, nodes, &mut scores, totals);
            if outcome.is_err() {
                break;
            }
        }
        self.scratch.scores = scores;
        self.stop(ExtensionPoint::Score, outcome.code());
        outcome?;
        self.prioritize_by_extenders(nodes, totals);
        Ok(())
    }

    /// Runs PreScore of the plugins that take part. Returns the plugins whose Score is skipped.
    pub(super) fn run_pre_score(
        &mut self,
        nodes: FeasibleNodes<'_>,
        takes_part: impl Fn(&PluginName) -> bool,
    ) -> Result<BTreeSet<PluginName>, Status> {
        self.start(ExtensionPoint::PreScore);
        let skip = self.pre_score(nodes, takes_part);
        let code = skip.as_ref().map_or_else(Status::code, |_| Code::Success);
        self.stop(ExtensionPoint::PreScore, code);
        skip
    }

    fn pre_score(
        &mut self,
        nodes: FeasibleNodes<'_>,
        takes_part: impl Fn(&PluginName) -> bool,
    ) -> Result<BTreeSet<PluginName>, Status> {
        let profile = self.profile;
        let mut skip = BTreeSet::new();
        for plugin in profile.pre_score.iter().filter(|plugin| takes_part(&plugin.name)) {
            let handle = self.handle();
            let (state, pod) = (&mut *self.state, self.pod);
            let status =
                call_plugin(
                    ExtensionPoint::PreScore,
                    &plugin.name,
                    self.cx.probe,
                    || match nodes {
                        FeasibleNodes::List(nodes) => {
                            plugin.plugin.pre_score(state, pod, &handle, nodes)
                        }
                        FeasibleNodes::Groups(groups) => {
                            plugin.plugin.pre_score_groups(state, pod, &handle, groups)
                        }
                    },
                )
                .unwrap_or_else(|status| status);
            match status.code() {
                Code::Success => {}
                Code::Skip => {
                    skip.insert(plugin.name.clone());
                }
                _ => {
                    let name = &plugin.name;
                    let text = format!("running PreScore plugin {name:?}: {}", status.message());
                    return Err(Status::error(text).by(name));
                }
            }
        }
        Ok(skip)
    }

    /// Adds the weighted scores of one plugin to the totals.
    pub(super) fn score_by(
        &mut self,
        plugin: &ScorePlugin,
        form: Form,
        nodes: &[NodeIx],
        scores: &mut [i64],
        totals: &mut [i64],
    ) -> Result<(), Status> {
        self.scorer().score(plugin, form, nodes, scores)?;
        let raw = (self.depth == Depth::Explain && plugin.normalize.is_some())
            .then(|| nodes.iter().copied().zip(scores.iter().copied()).collect());
        self.normalize(plugin, nodes, scores)?;
        for (score, total) in scores.iter().zip(totals) {
            if !(0..=MAX_NODE_SCORE).contains(score) {
                return Err(out_of_range(plugin, *score));
            }
            *total += score * plugin.weight;
        }
        if self.depth == Depth::Explain {
            let weighted = scores.iter().map(|score| score * plugin.weight);
            let weighted = nodes.iter().copied().zip(weighted).collect();
            self.report.scores.push(NodeScores { plugin: plugin.name.clone(), raw, weighted });
        }
        Ok(())
    }

    fn normalize(
        &mut self,
        plugin: &ScorePlugin,
        nodes: &[NodeIx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        let Some(normalize) = &plugin.normalize else { return Ok(()) };
        let (state, pod, handle) = (&*self.state, self.pod, self.handle());
        let point = Point::ScoreExtensionNormalize;
        let status = call_plugin(point, &plugin.name, self.cx.probe, || {
            normalize.normalize_score(state, pod, nodes, scores, &handle)
        })
        .unwrap_or_else(|status| status);
        status.ok().map_err(|status| {
            let name = &plugin.name;
            let message = status.message();
            let text = format!(
                "running Normalize on Score plugins: plugin {name:?} failed with: {message}"
            );
            Status::error(text).by(name)
        })
    }
}

fn out_of_range(plugin: &ScorePlugin, score: i64) -> Status {
    let name = &plugin.name;
    Status::error(format!(
        "applying score defaultWeights on Score plugins: plugin {name:?} returns an invalid score \
         {score}, it should in the range of [0, 100] after normalizing"
    ))
    .by(name)
}
