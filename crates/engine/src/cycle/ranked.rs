//! The ranked search: finds the best nodes in the ranking of the pod's class, and looks only at nodes that
//! have changed since the last decision for that class.

use std::collections::BTreeSet;

use framework::{Filter, FilterScope, NodeIx, PluginName, PodPart, ScoreScope, Status};

use super::score::FeasibleNodes;
use super::{
    Chosen, Cycle, Depth, Form, PreFiltered, SampledNode, Sampling, ScheduleError, TieBreak,
};
use crate::plugin_call::call_beside;
use crate::ports::Count;
use crate::profile::{Named, ScorePlugin};
use crate::ranking::{Basis, FilterScopes, Known, LocalKey, Overflow, Ranking, Reads};

/// In a large cluster one decision for so many nodes is checked, because the full pass takes longer.
const NODES_PER_UNCHECKED: u64 = 16;

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

/// The plugins of a decision, by what they depend on.
pub(super) struct Scoped<'p> {
    pub(super) basis: Basis,
    /// Filter plugins that look at each node by itself, with the pods on it.
    pub(super) local_filters: Vec<&'p Named<dyn Filter>>,
    /// Score plugins that score each node by itself, without normalisation.
    pub(super) local_scores: Vec<&'p ScorePlugin>,
    /// What shares the answers of these two; `None` if a score reads more than requests.
    pub(super) shared: Option<LocalKey>,
    /// Further filter plugins of the first kind, which read more than requests, so that their answers are not shared.
    pub(super) own_filters: Vec<&'p Named<dyn Filter>>,
    /// Filter plugins that look at each node by itself, whatever pods are on it.
    pub(super) object_filters: Vec<&'p Named<dyn Filter>>,
    /// Filter plugins that give all nodes of a group the same verdict.
    pub(super) group_filters: Vec<(&'p Named<dyn Filter>, Reads<FilterScope>)>,
    /// Score plugins that give all nodes of a group the same score.
    pub(super) group_scores: Vec<(&'p ScorePlugin, Reads<ScoreScope>)>,
}

/// What the plugins that may take part depend on, by their places in the profile.
struct Scopes {
    filters: Vec<Option<Reads<FilterScope>>>,
    scores: Vec<Reads<ScoreScope>>,
}

impl<'a> Cycle<'a, '_> {
    /// Returns one of the best nodes from the ranking of the pod's class; `None` if the plugins have to
    /// look at all nodes.
    ///
    /// # Errors
    /// No node is feasible.
    pub(super) fn search_ranking(
        &mut self,
        pre_filtered: &PreFiltered,
    ) -> Result<Option<Chosen>, ScheduleError> {
        self.search_class(pre_filtered, |cycle, known, scopes| {
            cycle.search_nodes(known, scopes, pre_filtered)
        })
    }

    /// Returns up to `count` nodes with the highest totals from the ranking of the pod's class; `None` if the
    /// plugins have to look at all nodes.
    ///
    /// # Errors
    /// No node is feasible.
    pub(super) fn search_top(
        &mut self,
        pre_filtered: &PreFiltered,
        count: usize,
    ) -> Result<Option<Vec<SampledNode>>, ScheduleError> {
        self.search_class(pre_filtered, |cycle, known, scopes| {
            cycle.top_of_ranking(known, scopes, count)
        })
    }

    /// Searches what is known of the pod's class, if a ranking can decide about the pod. `search` searches the
    /// ranking.
    fn search_class<T>(
        &mut self,
        pre_filtered: &PreFiltered,
        search: impl FnOnce(&mut Self, &mut Known, &Scopes) -> Option<T>,
    ) -> Result<Option<T>, ScheduleError> {
        if !self.may_rank(pre_filtered) {
            return Ok(None);
        }
        let Some(mut known) = self.known.take() else { return Ok(None) };
        let found = self.search_known(&mut known, pre_filtered, search);
        self.known = Some(known);
        found
    }

    /// Looks first at what answered the last pod of the class: the verdicts, or the ranking.
    fn search_known<T>(
        &mut self,
        known: &mut Known,
        pre_filtered: &PreFiltered,
        search: impl FnOnce(&mut Self, &mut Known, &Scopes) -> Option<T>,
    ) -> Result<Option<T>, ScheduleError> {
        let (filters, scores) = self.scopes();
        if self.state.take_regrouped() {
            known.drop_keys();
        }
        let Some(filters) = filters else { return Ok(None) };
        self.filter_scopes = Some(filters.clone());
        let has_failed = known.failures.last;
        if has_failed && let Some(error) = self.repeat_rejection(known, pre_filtered) {
            return Err(error);
        }
        known.failures.last = false;
        let scopes = scores.map(|scores| Scopes { filters, scores });
        let found = scopes.and_then(|scopes| search(self, known, &scopes));
        if found.is_none()
            && !has_failed
            && let Some(error) = self.repeat_rejection(known, pre_filtered)
        {
            known.failures.last = true;
            return Err(error);
        }
        Ok(found)
    }

    fn search_nodes(
        &mut self,
        known: &mut Known,
        scopes: &Scopes,
        pre_filtered: &PreFiltered,
    ) -> Option<Chosen> {
        let mut ranking = known.take_ranking()?;
        let Ok(best) = self.best_of(&mut ranking, scopes) else {
            known.refuse();
            return None;
        };
        known.keep_ranking(ranking);
        let best = best?;
        if self.is_check_due() && !self.is_confirmed(&best, pre_filtered) {
            known.distrust();
            return None;
        }
        Some(best)
    }

    fn top_of_ranking(
        &mut self,
        known: &mut Known,
        scopes: &Scopes,
        count: usize,
    ) -> Option<Vec<SampledNode>> {
        let mut ranking = known.take_ranking()?;
        let Ok(added) = self.rank_groups(&mut ranking, scopes) else {
            known.refuse();
            return None;
        };
        // A single feasible node has not been scored by groups.
        let is_scored = ranking.feasible_count(&added) > 1;
        let top = is_scored.then(|| ranking.top(&added, count, self.rng));
        known.keep_ranking(ranking);
        Some(top?.into_iter().map(|(node, score)| SampledNode { node, score }).collect())
    }

    /// Counts a decision. Returns whether a full pass is to make it again.
    pub(super) fn is_check_due(&mut self) -> bool {
        let Some(ranker) = &mut self.ranker else { return false };
        let one_in = self.settings.check_rankings_one_in;
        let nodes = self.view.cluster().node_count() as u64;
        let one_in = if one_in > 1 { one_in.max(nodes / NODES_PER_UNCHECKED) } else { 1 };
        ranker.rankings.count_decision().is_multiple_of(one_in)
    }

    /// Whether a full pass finds as many best nodes, and this one among them. The plugins start without what
    /// they have kept.
    fn is_confirmed(&mut self, best: &Chosen, pre_filtered: &PreFiltered) -> bool {
        let own = std::mem::take(self.state);
        let succeeds = self.run_pre_filter().is_ok()
            && self.filter(pre_filtered, None).is_ok()
            && (self.scratch.feasible.nodes.len() < 2 || self.score().is_ok());
        *self.state = own;
        let ties: Vec<NodeIx> = self.scratch.feasible.best().1.collect();
        let agrees = succeeds && ties.len() == best.ties && ties.contains(&best.node);
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

    /// Returns what the Filter plugins depend on, and the Score plugins; `None` if one of the kind depends on the
    /// whole cluster.
    fn scopes(&mut self) -> (Option<FilterScopes>, Option<Vec<Reads<ScoreScope>>>) {
        let (profile, handle, pod) = (self.profile, self.handle(), &**self.pod);
        let (state, probe) = (&mut *self.state, &mut *self.cx.probe);
        let mut filters = Vec::with_capacity(profile.filter.len());
        for own in &profile.filter {
            if state.skips_filter(&own.name) {
                filters.push(None);
                continue;
            }
            let reads = || Reads {
                scope: own.plugin.scope(state, pod, &handle),
                pods: own.plugin.depends_on_pods(),
                part: own.plugin.reads(),
            };
            match call_beside("Filter", &own.name, probe, reads) {
                Ok(reads) if reads.scope != FilterScope::Cluster => filters.push(Some(reads)),
                _ => return (None, None),
            }
        }
        let mut scores = Vec::with_capacity(profile.score.len());
        for own in &profile.score {
            let reads = || Reads {
                scope: own.plugin.scope(state, pod, &handle),
                pods: own.plugin.depends_on_pods(),
                part: own.plugin.reads(),
            };
            match call_beside("Score", &own.name, probe, reads) {
                Ok(reads) if reads.scope != ScoreScope::Cluster => scores.push(reads),
                _ => return (Some(filters), None),
            }
        }
        (Some(filters), Some(scores))
    }

    /// Repairs the ranking and returns one of the best nodes.
    fn best_of(
        &mut self,
        ranking: &mut Ranking,
        scopes: &Scopes,
    ) -> Result<Option<Chosen>, Unusable> {
        let added = self.rank_groups(ranking, scopes)?;
        let ties = ranking.best(&added);
        let count = ties.count();
        if count == 0 {
            return Ok(None);
        }
        let place = self.rng.usize(..count);
        let total = ties.total();
        let (feasible, evaluated) =
            (ranking.feasible_count(&added), self.view.cluster().node_count());
        let chosen = |node| Chosen { node, ties: count, total, feasible, evaluated };
        Ok(ties.nth(place).map(chosen))
    }

    /// Repairs the ranking and returns what is added to the scores of each of its groups; `None` for a group
    /// that is not feasible.
    fn rank_groups(
        &mut self,
        ranking: &mut Ranking,
        scopes: &Scopes,
    ) -> Result<Vec<Option<i64>>, Unusable> {
        let skip = self.pre_score_unless_grouped(scopes)?;
        let scoped = self.scoped(scopes, &skip);
        self.repair(ranking, &scoped)?;
        self.leave_out_nominated(ranking)?;
        if ranking.is_empty() {
            return Ok(Vec::new());
        }
        self.decide_groups(&ranking.groups(), &scoped)
    }

    /// Runs PreScore, apart from plugins that need the groups. Returns the plugins whose Score is skipped.
    fn pre_score_unless_grouped(
        &mut self,
        scopes: &Scopes,
    ) -> Result<BTreeSet<PluginName>, Status> {
        let scored = self.profile.score.iter().zip(&scopes.scores);
        let grouped = scored.filter(|(_, reads)| reads.scope == ScoreScope::Group);
        let grouped: Vec<&PluginName> = grouped.map(|(own, _)| &own.name).collect();
        self.run_pre_score(FeasibleNodes::List(&[]), |name| !grouped.contains(&name))
    }

    fn scoped(&self, scopes: &Scopes, skip: &BTreeSet<PluginName>) -> Scoped<'a> {
        let (filters, scores) = (&self.profile.filter, &self.profile.score);
        let scored = scores.iter().zip(&scopes.scores);
        let scored = scored.map(|(own, reads)| (!skip.contains(&own.name)).then_some(*reads));
        let basis = Basis { filters: scopes.filters.clone(), scores: scored.collect() };
        let filtering = filters.iter().zip(&basis.filters).enumerate();
        let filtering = filtering.filter_map(|(place, (own, reads))| Some((place, own, (*reads)?)));
        let scoring = scores.iter().zip(&basis.scores).enumerate();
        let scoring = scoring.filter_map(|(place, (own, reads))| Some((place, own, (*reads)?)));

        let (grouped, by_node): (Vec<_>, Vec<_>) =
            filtering.partition(|(.., reads)| reads.scope == FilterScope::Group);
        let (local, of_objects): (Vec<_>, Vec<_>) =
            by_node.into_iter().partition(|(.., reads)| reads.pods);
        let (group_scores, local_scores): (Vec<_>, Vec<_>) =
            scoring.partition(|(_, own, reads)| {
                own.normalize.is_some() || reads.scope != ScoreScope::Node
            });
        let mut parts = local_scores.iter().map(|(.., reads)| reads.part);
        let is_shared = parts.all(|part| part == PodPart::Requests);
        let (local, own): (Vec<_>, Vec<_>) = local
            .into_iter()
            .partition(|(.., reads)| !is_shared || reads.part == PodPart::Requests);
        let shared = is_shared.then(|| LocalKey {
            scheduler_name: self.profile.scheduler_name.clone(),
            filters: local.iter().map(|(place, ..)| *place).collect(),
            scores: local_scores.iter().map(|(place, ..)| *place).collect(),
            requests: self.pod.requests.clone(),
        });
        Scoped {
            local_filters: local.into_iter().map(|(_, own, _)| own).collect(),
            local_scores: local_scores.into_iter().map(|(_, own, _)| own).collect(),
            shared,
            own_filters: own.into_iter().map(|(_, own, _)| own).collect(),
            object_filters: of_objects.into_iter().map(|(_, own, _)| own).collect(),
            group_filters: grouped.into_iter().map(|(_, own, reads)| (own, reads)).collect(),
            group_scores: group_scores.into_iter().map(|(_, own, reads)| (own, reads)).collect(),
            basis,
        }
    }

    /// Leaves out nodes that do not fit the pod beside the pods that are nominated to them.
    fn leave_out_nominated(&mut self, ranking: &mut Ranking) -> Result<(), Unusable> {
        let all = self.view.cluster().nodes();
        let rejected = self.filter_nominated(all).map_err(|_| Unusable)?;
        Ok(rejected.iter().try_for_each(|(node, _)| ranking.leave_out(*node))?)
    }
}
