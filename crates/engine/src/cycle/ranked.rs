//! The ranked search: finds the best nodes in the ranking of the pod's class, and looks only at nodes that
//! have changed since the last decision for that class.

use std::collections::BTreeSet;

use framework::{Code, ExtensionPoint, NodeIx, PluginName, ScoreScope, Status};

use super::{Cycle, Depth, Form, PreFiltered, Sampling, TieBreak};
use crate::plugin_call::{call_beside, call_plugin};
use crate::ports::Count;
use crate::profile::{MAX_NODE_SCORE, ScorePlugin};
use crate::ranking::{Basis, Class, Overflow, Ranking};

/// One decision in so many is made again by a full pass.
const CHECK_EVERY: u64 = 1024;
/// Maximum number of groups in a ranking. Every decision scores one node of each.
const MAX_GROUPS: usize = 1024;

/// A ranking cannot be repaired or used: a plugin failed, or there is no room. The full pass decides, and
/// reports a failure.
#[derive(Debug)]
struct Unusable;

impl From<Status> for Unusable {
    fn from(_: Status) -> Self {
        Self
    }
}

impl From<Overflow> for Unusable {
    fn from(_: Overflow) -> Self {
        Self
    }
}

const fn code_of<T, E>(result: &Result<T, E>) -> Code {
    if result.is_ok() { Code::Success } else { Code::Error }
}

/// The node that a ranking chose.
struct Best {
    node: NodeIx,
    /// Number of nodes that are as good, this one included.
    ties: u64,
}

/// The scores of changed nodes.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// The scores of one plugin.
    raw: Vec<i64>,
    /// For each node the weighted sum of the scores of plugins that score it by itself.
    sums: Vec<i64>,
    /// The keys of one node after the other.
    keys: Vec<i64>,
}

/// The Score plugins of a decision.
struct Scorers<'p> {
    /// Plugins that score each node by itself, without normalisation.
    of_nodes: Vec<&'p ScorePlugin>,
    /// Plugins that give all nodes of a group the same score.
    of_groups: Vec<(&'p ScorePlugin, ScoreScope)>,
}

impl<'a> Cycle<'a, '_> {
    /// Returns one of the best nodes from the ranking of the pod's class; `None` if the plugins have to
    /// look at all nodes, also because no node is feasible.
    pub(super) fn search_ranking(&mut self, pre_filtered: &PreFiltered) -> Option<NodeIx> {
        if !self.may_rank(pre_filtered) {
            return None;
        }
        let scopes = self.score_scopes()?;
        let class = Class::of(self.profile, self.pod)?;
        let mut ranking = self.ranker.as_mut()?.rankings.take(&class)?;
        let best = self.best_of(&mut ranking, &scopes);
        let rankings = &mut self.ranker.as_mut()?.rankings;
        let Ok(best) = best else {
            rankings.refuse(&class);
            return None;
        };
        let is_checked = best.is_some() && rankings.count_decision().is_multiple_of(CHECK_EVERY);
        rankings.keep(&class, ranking);
        let best = best?;
        if is_checked && !self.is_confirmed(&best, pre_filtered) {
            self.ranker.as_mut()?.rankings.refuse(&class);
            return None;
        }
        Some(best.node)
    }

    /// Whether a full pass finds as many best nodes, and this one among them.
    fn is_confirmed(&mut self, best: &Best, pre_filtered: &PreFiltered) -> bool {
        let succeeds = self.filter(pre_filtered, None).is_ok()
            && (self.scratch.feasible.nodes.len() < 2 || self.score().is_ok());
        let ties: Vec<NodeIx> = self.scratch.feasible.best().collect();
        let agrees = succeeds && ties.len() as u64 == best.ties && ties.contains(&best.node);
        self.scratch.feasible.nodes.clear();
        self.scratch.feasible.totals.clear();
        self.cx.probe.count(Count::RankingCheck { pod: &self.pod.key, agrees });
        agrees
    }

    /// Whether a ranking can hold what decides about this pod, apart from the scores.
    fn may_rank(&mut self, pre_filtered: &PreFiltered) -> bool {
        let profile = self.profile;
        let is_scored = |name: &PluginName| profile.score.iter().any(|own| own.name == *name);
        self.form == Form::Ranked
            && self.depth == Depth::Decide
            && self.sampling == Sampling::All
            && self.settings.tie_break == TieBreak::Random
            && self.settings.extenders.is_empty()
            && pre_filtered.restriction.is_none()
            && !profile.score.is_empty()
            && profile.pre_score.iter().all(|own| is_scored(&own.name))
            && self.filters_are_local()
    }

    fn filters_are_local(&mut self) -> bool {
        let (profile, handle, pod) = (self.profile, self.handle(), &**self.pod);
        let (state, probe) = (&*self.state, &mut *self.cx.probe);
        profile.filter.iter().all(|own| {
            let is_local = || own.plugin.is_local(state, pod, &handle);
            state.skips_filter(&own.name)
                || call_beside("Filter", &own.name, probe, is_local).unwrap_or(false)
        })
    }

    /// Returns the scope of each Score plugin; `None` if one depends on the whole cluster.
    fn score_scopes(&mut self) -> Option<Vec<ScoreScope>> {
        let (profile, handle, pod) = (self.profile, self.handle(), &**self.pod);
        let (state, probe) = (&*self.state, &mut *self.cx.probe);
        let scopes = profile.score.iter().map(|own| {
            let scope = || own.plugin.scope(state, pod, &handle);
            let scope = call_beside("Score", &own.name, probe, scope).unwrap_or_default();
            (scope != ScoreScope::Cluster).then_some(scope)
        });
        scopes.collect()
    }

    /// Repairs the ranking and returns one of the best nodes.
    fn best_of(
        &mut self,
        ranking: &mut Ranking,
        scopes: &[ScoreScope],
    ) -> Result<Option<Best>, Unusable> {
        let skip = self.run_pre_score(&[])?;
        let changed = self.catch_up(ranking, &skip)?;
        let scorers = self.scorers(scopes, &skip);
        self.start(ExtensionPoint::Filter);
        let passed = self.filter_changed(changed.as_deref());
        self.stop(ExtensionPoint::Filter, code_of(&passed));
        let passed = passed?;
        changed.iter().flatten().for_each(|node| ranking.remove(*node));
        self.start(ExtensionPoint::Score);
        let scored = self.score_changed(ranking, &passed, &scorers);
        self.stop(ExtensionPoint::Score, code_of(&scored));
        scored?;
        self.leave_out_nominated(ranking)?;
        if ranking.len() == 0 {
            return Ok(None);
        }
        let added = self.score_groups(ranking, &scorers)?;
        let ties = ranking.best(&added);
        let count = ties.count();
        let place = self.rng.usize(..usize::try_from(count).map_err(|_| Unusable)?);
        Ok(ties.nth(place as u64).map(|node| Best { node, ties: count }))
    }

    /// Returns the nodes to look at; `None` for all of them.
    fn catch_up(
        &self,
        ranking: &mut Ranking,
        skip: &BTreeSet<PluginName>,
    ) -> Result<Option<Vec<NodeIx>>, Unusable> {
        let (profile, state) = (self.profile, &*self.state);
        let basis = Basis {
            filters: profile.filter.iter().map(|own| !state.skips_filter(&own.name)).collect(),
            scores: profile.score.iter().map(|own| !skip.contains(&own.name)).collect(),
        };
        let log = self.ranker.as_ref().ok_or(Unusable)?.log;
        Ok(ranking.catch_up(&basis, log))
    }

    fn scorers(&self, scopes: &[ScoreScope], skip: &BTreeSet<PluginName>) -> Scorers<'a> {
        let all = self.profile.score.iter().zip(scopes.iter().copied());
        let (of_groups, of_nodes): (Vec<_>, Vec<_>) = all
            .filter(|(own, _)| !skip.contains(&own.name))
            .partition(|(own, scope)| own.normalize.is_some() || *scope == ScoreScope::Key);
        Scorers { of_nodes: of_nodes.into_iter().map(|(own, _)| own).collect(), of_groups }
    }

    /// Whether the one-node form is faster for so many nodes than the set form, which looks at all words
    /// of a bit set.
    fn are_few(&self, nodes: &[NodeIx]) -> bool {
        nodes.len() < self.view.cluster().table_len() / 64
    }

    fn form_for(&self, nodes: &[NodeIx]) -> Form {
        if self.are_few(nodes) { Form::OneNode } else { Form::Set }
    }

    /// Returns the nodes that pass the filters, out of these, or out of all.
    fn filter_changed(&mut self, changed: Option<&[NodeIx]>) -> Result<Vec<NodeIx>, Status> {
        let all = self.view.cluster().nodes();
        match changed {
            Some(nodes) if self.are_few(nodes) => return self.filter_few(nodes),
            Some(nodes) => {
                let there = nodes.iter().copied().filter(|node| all.contains(*node));
                self.filter_set(&there.collect())?;
            }
            None => self.filter_set(all)?,
        }
        let passed = &self.scratch.candidates;
        let mut nodes = Vec::with_capacity(passed.count());
        nodes.extend(passed.iter());
        Ok(nodes)
    }

    fn filter_few(&mut self, nodes: &[NodeIx]) -> Result<Vec<NodeIx>, Status> {
        let (profile, handle, pod) = (self.profile, self.handle(), &**self.pod);
        let state = &*self.state;
        let all = handle.cluster.nodes();
        let mut left: Vec<_> = nodes.iter().copied().filter(|node| all.contains(*node)).collect();
        for own in profile.filter.iter().filter(|own| !state.skips_filter(&own.name)) {
            call_plugin(ExtensionPoint::Filter, &own.name, self.cx.probe, || {
                let mut failed = Ok(());
                left.retain(|node| {
                    let node = handle.cluster.node(*node);
                    let status = own.plugin.filter(state, pod, &node, &handle);
                    let passes = status.is_success();
                    if !passes && !status.is_rejection() {
                        failed = Err(status);
                    }
                    passes
                });
                failed
            })
            .flatten()?;
        }
        Ok(left)
    }

    /// Adds feasible nodes to the ranking.
    fn score_changed(
        &mut self,
        ranking: &mut Ranking,
        nodes: &[NodeIx],
        scorers: &Scorers<'_>,
    ) -> Result<(), Unusable> {
        let mut columns = std::mem::take(&mut self.scratch.columns);
        let scored = self.score_columns(&mut columns, ranking, nodes, scorers);
        self.scratch.columns = columns;
        scored
    }

    fn score_columns(
        &mut self,
        Columns { raw, sums, keys }: &mut Columns,
        ranking: &mut Ranking,
        nodes: &[NodeIx],
        scorers: &Scorers<'_>,
    ) -> Result<(), Unusable> {
        let form = self.form_for(nodes);
        let width = scorers.of_groups.len();
        for (column, length) in [(&mut *raw, 1), (&mut *sums, 1), (&mut *keys, width)] {
            column.clear();
            column.resize(nodes.len() * length, 0);
        }
        for own in &scorers.of_nodes {
            self.score_raw(own, form, nodes, raw)?;
            for (sum, score) in sums.iter_mut().zip(&*raw) {
                if !(0..=MAX_NODE_SCORE).contains(score) {
                    return Err(Unusable);
                }
                *sum += score * own.weight;
            }
        }
        for (place, (own, scope)) in scorers.of_groups.iter().enumerate() {
            match scope {
                ScoreScope::Key => self.find_keys(own, nodes, raw)?,
                _ => self.score_raw(own, form, nodes, raw)?,
            }
            let keys = keys.iter_mut().skip(place).step_by(width);
            keys.zip(&*raw).for_each(|(key, own)| *key = *own);
        }
        ranking.reserve(nodes);
        for (place, (node, sum)) in nodes.iter().zip(&*sums).enumerate() {
            ranking.insert(*node, &keys[place * width..][..width], *sum)?;
        }
        if ranking.group_count() > MAX_GROUPS { Err(Unusable) } else { Ok(()) }
    }

    fn find_keys(
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

    /// Leaves out nodes that do not fit the pod beside the pods that are nominated to them.
    fn leave_out_nominated(&mut self, ranking: &mut Ranking) -> Result<(), Unusable> {
        let all = self.view.cluster().nodes();
        let rejected = self.filter_nominated(all).map_err(|_| Unusable)?;
        rejected.iter().for_each(|(node, _)| ranking.leave_out(*node));
        Ok(())
    }

    /// Returns what is added to the scores of each group. A single feasible node needs no score.
    fn score_groups(
        &mut self,
        ranking: &Ranking,
        scorers: &Scorers<'_>,
    ) -> Result<Vec<i64>, Unusable> {
        let nodes = ranking.representatives();
        let (mut scores, mut added) = (vec![0; nodes.len()], vec![0; nodes.len()]);
        if ranking.len() > 1 {
            let form = self.form_for(&nodes);
            for (own, _) in &scorers.of_groups {
                self.score_by(own, form, &nodes, &mut scores, &mut added)?;
            }
        }
        Ok(added)
    }
}
