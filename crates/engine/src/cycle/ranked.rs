//! The ranked search: finds the best nodes in the ranking of the pod's class, and looks only at nodes that
//! have changed since the last decision for that class.

use std::collections::BTreeSet;

use framework::{
    Code, ExtensionPoint, Filter, FilterScope, NodeIx, PluginName, ScoreScope, Status,
};

use super::score::FeasibleNodes;
use super::{Cycle, Depth, Form, PreFiltered, Sampling, TieBreak};
use crate::plugin_call::call_beside;
use crate::ports::Count;
use crate::profile::{Named, ScorePlugin};
use crate::ranking::{Basis, Known, Overflow, Ranking};

/// One decision in so many is made again by a full pass.
const CHECK_EVERY: u64 = 1024;

/// A ranking cannot be repaired or used: a plugin failed, or there is no room. The full pass decides, and
/// reports a failure.
#[derive(Debug)]
pub(super) struct Unusable;

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

/// The plugins of a decision, by what they depend on.
pub(super) struct Scoped<'p> {
    /// Filter plugins that look at each node by itself.
    pub(super) node_filters: Vec<&'p Named<dyn Filter>>,
    /// Filter plugins that give all nodes of a group the same verdict.
    pub(super) group_filters: Vec<&'p Named<dyn Filter>>,
    /// Score plugins that score each node by itself, without normalisation.
    pub(super) node_scores: Vec<&'p ScorePlugin>,
    /// Score plugins that give all nodes of a group the same score.
    pub(super) group_scores: Vec<(&'p ScorePlugin, ScoreScope)>,
}

/// The scopes of the plugins that may take part, by their places in the profile.
struct Scopes {
    filters: Vec<Option<FilterScope>>,
    scores: Vec<ScoreScope>,
}

impl<'a> Cycle<'a, '_> {
    /// Returns one of the best nodes from the ranking of the pod's class; `None` if the plugins have to
    /// look at all nodes, also because no node is feasible.
    pub(super) fn search_ranking(&mut self, pre_filtered: &PreFiltered) -> Option<NodeIx> {
        if !self.may_rank(pre_filtered) {
            return None;
        }
        let mut known = self.known.take()?;
        let best = self.search_known(&mut known, pre_filtered);
        self.known = Some(known);
        best
    }

    fn search_known(&mut self, known: &mut Known, pre_filtered: &PreFiltered) -> Option<NodeIx> {
        let scopes = self.scopes();
        if self.state.take_regrouped() {
            known.drop_ranking();
        }
        let scopes = scopes?;
        let mut ranking = known.take_ranking()?;
        let Ok(best) = self.best_of(&mut ranking, &scopes) else {
            known.refuse();
            return None;
        };
        known.keep_ranking(ranking);
        let best = best?;
        let decisions = self.ranker.as_mut()?.rankings.count_decision();
        if decisions.is_multiple_of(CHECK_EVERY) && !self.is_confirmed(&best, pre_filtered) {
            known.distrust();
            return None;
        }
        Some(best.node)
    }

    /// Whether a full pass finds as many best nodes, and this one among them. The plugins start without what
    /// they have kept.
    fn is_confirmed(&mut self, best: &Best, pre_filtered: &PreFiltered) -> bool {
        let own = std::mem::take(self.state);
        let succeeds = self.run_pre_filter().is_ok()
            && self.filter(pre_filtered, None).is_ok()
            && (self.scratch.feasible.nodes.len() < 2 || self.score().is_ok());
        *self.state = own;
        let ties: Vec<NodeIx> = self.scratch.feasible.best().collect();
        let agrees = succeeds && ties.len() as u64 == best.ties && ties.contains(&best.node);
        self.scratch.feasible.nodes.clear();
        self.scratch.feasible.totals.clear();
        self.cx.probe.count(Count::RankingCheck { pod: &self.pod.key, agrees });
        agrees
    }

    /// Whether a ranking can hold what decides about this pod, apart from its plugins.
    fn may_rank(&self, pre_filtered: &PreFiltered) -> bool {
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
    }

    /// Returns the scopes of all plugins; `None` if one depends on the whole cluster.
    fn scopes(&mut self) -> Option<Scopes> {
        let (profile, handle, pod) = (self.profile, self.handle(), &**self.pod);
        let (state, probe) = (&mut *self.state, &mut *self.cx.probe);
        let mut scopes = Scopes { filters: Vec::new(), scores: Vec::new() };
        for own in &profile.filter {
            if state.skips_filter(&own.name) {
                scopes.filters.push(None);
                continue;
            }
            let scope = || own.plugin.scope(state, pod, &handle);
            match call_beside("Filter", &own.name, probe, scope) {
                Ok(scope) if scope != FilterScope::Cluster => scopes.filters.push(Some(scope)),
                _ => return None,
            }
        }
        for own in &profile.score {
            let scope = || own.plugin.scope(state, pod, &handle);
            match call_beside("Score", &own.name, probe, scope) {
                Ok(scope) if scope != ScoreScope::Cluster => scopes.scores.push(scope),
                _ => return None,
            }
        }
        Some(scopes)
    }

    /// Repairs the ranking and returns one of the best nodes.
    fn best_of(
        &mut self,
        ranking: &mut Ranking,
        scopes: &Scopes,
    ) -> Result<Option<Best>, Unusable> {
        let skip = self.pre_score_unless_grouped(scopes)?;
        let changed = self.catch_up(ranking, scopes, &skip)?;
        let scoped = self.scoped(scopes, &skip);
        self.start(ExtensionPoint::Filter);
        let passed = self.filter_changed(changed.as_deref(), &scoped);
        self.stop(ExtensionPoint::Filter, code_of(&passed));
        let passed = passed?;
        changed.iter().flatten().for_each(|node| ranking.remove(*node));
        self.start(ExtensionPoint::Score);
        let scored = self.score_changed(ranking, &passed, &scoped);
        self.stop(ExtensionPoint::Score, code_of(&scored));
        scored?;
        self.leave_out_nominated(ranking)?;
        if ranking.is_empty() {
            return Ok(None);
        }
        let added = self.decide_groups(&ranking.groups(), &scoped)?;
        let ties = ranking.best(&added);
        let count = ties.count();
        if count == 0 {
            return Ok(None);
        }
        let place = self.rng.usize(..usize::try_from(count).map_err(|_| Unusable)?);
        Ok(ties.nth(place as u64).map(|node| Best { node, ties: count }))
    }

    /// Runs PreScore, apart from plugins that need the groups. Returns the plugins whose Score is skipped.
    fn pre_score_unless_grouped(
        &mut self,
        scopes: &Scopes,
    ) -> Result<BTreeSet<PluginName>, Status> {
        let scored = self.profile.score.iter().zip(&scopes.scores);
        let grouped = scored.filter(|(_, scope)| **scope == ScoreScope::Group);
        let grouped: Vec<&PluginName> = grouped.map(|(own, _)| &own.name).collect();
        self.run_pre_score(FeasibleNodes::List(&[]), |name| !grouped.contains(&name))
    }

    /// Returns the nodes to look at; `None` for all of them.
    fn catch_up(
        &self,
        ranking: &mut Ranking,
        scopes: &Scopes,
        skip: &BTreeSet<PluginName>,
    ) -> Result<Option<Vec<NodeIx>>, Unusable> {
        let scored = self.profile.score.iter().zip(&scopes.scores);
        let scores = scored.map(|(own, scope)| (!skip.contains(&own.name)).then_some(*scope));
        let basis = Basis { filters: scopes.filters.clone(), scores: scores.collect() };
        let log = self.ranker.as_ref().ok_or(Unusable)?.log;
        Ok(ranking.catch_up(&basis, log))
    }

    fn scoped(&self, scopes: &Scopes, skip: &BTreeSet<PluginName>) -> Scoped<'a> {
        let all = self.profile.score.iter().zip(scopes.scores.iter().copied());
        let (group_scores, node_scores): (Vec<_>, Vec<_>) = all
            .filter(|(own, _)| !skip.contains(&own.name))
            .partition(|(own, scope)| own.normalize.is_some() || *scope != ScoreScope::Node);
        let filters = |wanted: FilterScope| {
            let all = self.profile.filter.iter().zip(&scopes.filters);
            all.filter(move |(_, scope)| **scope == Some(wanted)).map(|(own, _)| own).collect()
        };
        Scoped {
            node_filters: filters(FilterScope::Node),
            group_filters: filters(FilterScope::Group),
            node_scores: node_scores.into_iter().map(|(own, _)| own).collect(),
            group_scores,
        }
    }

    /// Leaves out nodes that do not fit the pod beside the pods that are nominated to them.
    fn leave_out_nominated(&mut self, ranking: &mut Ranking) -> Result<(), Unusable> {
        let all = self.view.cluster().nodes();
        let rejected = self.filter_nominated(all).map_err(|_| Unusable)?;
        rejected.iter().for_each(|(node, _)| ranking.leave_out(*node));
        Ok(())
    }
}
