//! The pass over one node of each group.

use framework::{ExtensionPoint, NodeGroup, NodeIx, PluginName, ScoreScope, Status};

use super::ranked::{Scoped, Unusable};
use super::score::FeasibleNodes;
use super::{Cycle, Form};
use crate::plugin_call::HasCode;
use crate::profile::ScorePlugin;
use crate::ranking::Reads;

impl Cycle<'_, '_> {
    /// Returns what is added to the scores of each group; `None` for a group whose nodes are not feasible.
    pub(super) fn decide_groups(
        &mut self,
        groups: &[NodeGroup],
        scoped: &Scoped<'_>,
    ) -> Result<Vec<Option<i64>>, Unusable> {
        let mut feasible: Vec<(usize, NodeGroup)> = groups.iter().copied().enumerate().collect();
        self.start(ExtensionPoint::Filter);
        let filtered = scoped
            .group_filters
            .iter()
            .try_for_each(|(own, _)| self.retain_by(own, &mut feasible, |(_, group)| group.node));
        self.stop(ExtensionPoint::Filter, filtered.code());
        filtered?;
        let (places, feasible): (Vec<usize>, Vec<NodeGroup>) = feasible.into_iter().unzip();
        let scores = self.score_groups(&feasible, scoped)?;
        let mut added = vec![None; groups.len()];
        places.into_iter().zip(scores).for_each(|(place, score)| added[place] = Some(score));
        Ok(added)
    }

    /// Returns what is added to the scores of each feasible group. A single feasible node needs no score.
    fn score_groups(
        &mut self,
        groups: &[NodeGroup],
        scoped: &Scoped<'_>,
    ) -> Result<Vec<i64>, Status> {
        let mut added = vec![0; groups.len()];
        if groups.iter().map(|group| group.len).sum::<usize>() < 2 {
            return Ok(added);
        }
        let by_groups = |reads: &Reads<ScoreScope>| reads.scope == ScoreScope::Group;
        if scoped.group_scores.iter().any(|(_, reads)| by_groups(reads)) {
            let is_grouped = |name: &PluginName| {
                let mut own = scoped.group_scores.iter();
                own.any(|(own, reads)| own.name == *name && by_groups(reads))
            };
            let skip = self.run_pre_score(FeasibleNodes::Groups(groups), is_grouped)?;
            let scored = scoped.group_scores.iter().filter(|(own, _)| !skip.contains(&own.name));
            self.add_scores(groups, scored, &mut added)?;
        } else {
            self.add_scores(groups, scoped.group_scores.iter(), &mut added)?;
        }
        Ok(added)
    }

    fn add_scores<'p>(
        &mut self,
        groups: &[NodeGroup],
        plugins: impl Iterator<Item = &'p (&'p ScorePlugin, Reads<ScoreScope>)>,
        added: &mut [i64],
    ) -> Result<(), Status> {
        let nodes: Vec<NodeIx> = groups.iter().map(|group| group.node).collect();
        let mut scores = vec![0; nodes.len()];
        for (own, reads) in plugins {
            let form = match reads.scope {
                ScoreScope::Group => Form::Set,
                _ => self.scorer().form_for(&nodes),
            };
            self.score_by(own, form, &nodes, &mut scores, added)?;
        }
        Ok(())
    }
}
