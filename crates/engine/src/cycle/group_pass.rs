//! The passes of a ranked search: over the nodes that have changed, and over one node of each group.

use framework::{Code, ExtensionPoint, Filter, NodeGroup, NodeIx, PluginName, ScoreScope, Status};

use super::ranked::{Scoped, Unusable};
use super::score::FeasibleNodes;
use super::{Cycle, Form};
use crate::plugin_call::call_plugin;
use crate::profile::{MAX_NODE_SCORE, Named, ScorePlugin};
use crate::ranking::Ranking;

/// Maximum number of groups in a ranking. Every decision looks at one node of each.
const MAX_GROUPS: usize = 1024;

/// The scores of changed nodes.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// The scores or keys of one plugin.
    raw: Vec<i64>,
    /// For each node the weighted sum of the scores of plugins that score it by itself.
    sums: Vec<i64>,
    /// The keys of one node after the other.
    keys: Vec<i64>,
}

/// Changed nodes.
impl Cycle<'_, '_> {
    /// Whether the one-node form is faster for so many nodes than the set form, which looks at all words
    /// of a bit set.
    fn are_few(&self, nodes: &[NodeIx]) -> bool {
        nodes.len() < self.view.cluster().table_len() / 64
    }

    fn form_for(&self, nodes: &[NodeIx]) -> Form {
        if self.are_few(nodes) { Form::OneNode } else { Form::Set }
    }

    /// Returns the nodes that pass the filters that look at single nodes, out of these, or out of all.
    pub(super) fn filter_changed(
        &mut self,
        changed: Option<&[NodeIx]>,
        scoped: &Scoped<'_>,
    ) -> Result<Vec<NodeIx>, Status> {
        let all = self.view.cluster().nodes();
        let is_local = |name: &PluginName| scoped.node_filters.iter().any(|own| own.name == *name);
        match changed {
            Some(nodes) if self.are_few(nodes) => return self.filter_few(nodes, scoped),
            Some(nodes) => {
                let there = nodes.iter().copied().filter(|node| all.contains(*node));
                self.filter_set_by(&there.collect(), is_local)?;
            }
            None => self.filter_set_by(all, is_local)?,
        }
        let passed = &self.scratch.candidates;
        let mut nodes = Vec::with_capacity(passed.count());
        nodes.extend(passed.iter());
        Ok(nodes)
    }

    fn filter_few(&mut self, nodes: &[NodeIx], scoped: &Scoped<'_>) -> Result<Vec<NodeIx>, Status> {
        let all = self.view.cluster().nodes();
        let mut left: Vec<_> = nodes.iter().copied().filter(|node| all.contains(*node)).collect();
        for own in &scoped.node_filters {
            self.retain_by(own, &mut left, |node| *node)?;
        }
        Ok(left)
    }

    /// Retains the entries whose node passes the one-node form of a plugin.
    fn retain_by<T>(
        &mut self,
        own: &Named<dyn Filter>,
        entries: &mut Vec<T>,
        node: impl Fn(&T) -> NodeIx,
    ) -> Result<(), Status> {
        let (handle, pod, state) = (self.handle(), &**self.pod, &*self.state);
        call_plugin(ExtensionPoint::Filter, &own.name, self.cx.probe, || {
            let mut failed = Ok(());
            entries.retain(|entry| {
                let node = handle.cluster.node(node(entry));
                let status = own.plugin.filter(state, pod, &node, &handle);
                let passes = status.is_success();
                if !passes && !status.is_rejection() {
                    failed = Err(status);
                }
                passes
            });
            failed
        })
        .flatten()
    }

    /// Adds nodes to the ranking.
    pub(super) fn score_changed(
        &mut self,
        ranking: &mut Ranking,
        nodes: &[NodeIx],
        scoped: &Scoped<'_>,
    ) -> Result<(), Unusable> {
        let mut columns = std::mem::take(&mut self.scratch.columns);
        let scored = self.score_columns(&mut columns, ranking, nodes, scoped);
        self.scratch.columns = columns;
        scored
    }

    fn score_columns(
        &mut self,
        Columns { raw, sums, keys }: &mut Columns,
        ranking: &mut Ranking,
        nodes: &[NodeIx],
        scoped: &Scoped<'_>,
    ) -> Result<(), Unusable> {
        let form = self.form_for(nodes);
        let width = scoped.group_filters.len() + scoped.group_scores.len();
        for (column, length) in [(&mut *raw, 1), (&mut *sums, 1), (&mut *keys, width)] {
            column.clear();
            column.resize(nodes.len() * length, 0);
        }
        for own in &scoped.node_scores {
            self.score_raw(own, form, nodes, raw)?;
            for (sum, score) in sums.iter_mut().zip(&*raw) {
                if !(0..=MAX_NODE_SCORE).contains(score) {
                    return Err(Unusable);
                }
                *sum += score * own.weight;
            }
        }
        let mut put = |place: usize, raw: &[i64]| {
            let keys = keys.iter_mut().skip(place).step_by(width);
            keys.zip(raw).for_each(|(key, own)| *key = *own);
        };
        for (place, own) in scoped.group_filters.iter().enumerate() {
            self.filter_keys(own, nodes, raw)?;
            put(place, raw);
        }
        for (place, (own, scope)) in (scoped.group_filters.len()..).zip(&scoped.group_scores) {
            match scope {
                ScoreScope::Key | ScoreScope::Group => self.score_keys(own, nodes, raw)?,
                _ => self.score_raw(own, form, nodes, raw)?,
            }
            put(place, raw);
        }
        ranking.reserve(nodes);
        for (place, (node, sum)) in nodes.iter().zip(&*sums).enumerate() {
            ranking.insert(*node, &keys[place * width..][..width], *sum)?;
        }
        if ranking.group_count() > MAX_GROUPS { Err(Unusable) } else { Ok(()) }
    }

    fn filter_keys(
        &mut self,
        own: &Named<dyn Filter>,
        nodes: &[NodeIx],
        keys: &mut [i64],
    ) -> Result<(), Status> {
        let (state, pod, handle) = (&*self.state, self.pod, self.handle());
        call_plugin(ExtensionPoint::Filter, &own.name, self.cx.probe, || {
            own.plugin.key_set(state, pod, &handle, nodes, keys)
        })
        .flatten()
    }

    fn score_keys(
        &mut self,
        own: &ScorePlugin,
        nodes: &[NodeIx],
        keys: &mut [i64],
    ) -> Result<(), Status> {
        let (state, pod, handle) = (&*self.state, self.pod, self.handle());
        call_plugin(ExtensionPoint::Score, &own.name, self.cx.probe, || {
            own.plugin.key_set(state, pod, &handle, nodes, keys)
        })
        .flatten()
    }
}

/// Groups.
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
            .try_for_each(|own| self.retain_by(own, &mut feasible, |(_, group)| group.node));
        self.stop(
            ExtensionPoint::Filter,
            filtered.as_ref().map_or(Code::Error, |()| Code::Success),
        );
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
        let by_groups = |scope: ScoreScope| scope == ScoreScope::Group;
        if scoped.group_scores.iter().any(|(_, scope)| by_groups(*scope)) {
            let is_grouped = |name: &PluginName| {
                let mut own = scoped.group_scores.iter();
                own.any(|(own, scope)| own.name == *name && by_groups(*scope))
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
        plugins: impl Iterator<Item = &'p (&'p ScorePlugin, ScoreScope)>,
        added: &mut [i64],
    ) -> Result<(), Status> {
        let nodes: Vec<NodeIx> = groups.iter().map(|group| group.node).collect();
        let mut scores = vec![0; nodes.len()];
        for (own, scope) in plugins {
            let form = match scope {
                ScoreScope::Group => Form::Set,
                _ => self.form_for(&nodes),
            };
            self.score_by(own, form, &nodes, &mut scores, added)?;
        }
        Ok(())
    }
}
