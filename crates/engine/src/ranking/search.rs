//! The search of a ranking: plugins look only at nodes that have changed since the last decision
//! for a lane.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{ChangedNodes, NodeBits, NodeIx, PluginName, ScoreScope, Status};

use super::check::{is_confirmed, is_rejection_confirmed};
use super::known::Known;
use super::local::LocalScores;
use super::locals::Locals;
use super::nodes::Ranking;
use super::order::Order;
use super::reads::FilterScopes;
use super::rejection_pass::{rejections_of, repeat};
use super::repair::{Columns, Repair};
use super::scopes::{Scoped, Scopes, filter_scopes, score_scopes};
use super::tier_pass::decide_tiers;
use super::unusable::Unusable;
use crate::cycle::{
    Chosen, FeasibleNodes, FitError, Form, Prepared, Sampling, ScheduleError, Scratch, Subject,
    TieBreak, rejections_beside, rejections_beside_nominated, run_pre_score,
};
use crate::world::LogReader;

/// In a large cluster one decision for so many nodes is checked, because the full pass takes
/// longer.
const NODES_PER_UNCHECKED: u64 = 16;

/// Among fewer nodes than one in so many no ranking is made, because it would rank all nodes.
const NODES_PER_SMALL_SET: usize = 8;

/// Number of answers from rankings.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Number of decisions.
    pub(crate) decisions: u64,
    /// Number of failed attempts among them.
    pub(crate) repeated_rejections: u64,
}

/// The memory of the lane of a pod, for one attempt.
pub(crate) struct Recalled<'r> {
    pub(super) known: &'r mut Known,
    pub(super) locals: &'r mut Locals,
    pub(super) counts: &'r mut Counts,
    pub(super) columns: &'r mut Columns,
    /// The changes that the lane has not taken in.
    pub(super) log: LogReader<'r>,
    /// The scopes of the filters, if the verdicts of this attempt may be kept for the lane.
    pub(super) filters: Option<FilterScopes>,
}

/// Answers.
impl Recalled<'_> {
    /// Returns one of the best nodes; `None` if the plugins have to look at all nodes.
    ///
    /// # Errors
    /// No node is feasible.
    pub(crate) fn best(
        &mut self,
        subject: &mut Subject<'_, '_>,
        prepared: &Prepared,
        scratch: &mut Scratch,
        rng: &mut fastrand::Rng,
    ) -> Result<Option<Chosen>, ScheduleError> {
        self.search(subject, prepared, scratch, |own, subject, scratch, scopes| {
            let best = own.ask(subject, prepared, scopes, |order| order.best(rng))?;
            if own.is_check_due(subject) && !is_confirmed(&best, subject, scratch) {
                own.known.distrust();
                return None;
            }
            Some(best)
        })
    }

    /// Returns up to `count` nodes with the highest totals, the highest first; `None` if the
    /// plugins have to look at all nodes.
    ///
    /// # Errors
    /// No node is feasible.
    pub(crate) fn top(
        &mut self,
        subject: &mut Subject<'_, '_>,
        prepared: &Prepared,
        count: usize,
        scratch: &mut Scratch,
        rng: &mut fastrand::Rng,
    ) -> Result<Option<Vec<(NodeIx, i64)>>, ScheduleError> {
        self.search(subject, prepared, scratch, |own, subject, _, scopes| {
            own.ask(subject, prepared, scopes, |order| order.top(count, rng))
        })
    }

    /// Notes that a full pass found no node, and keeps its verdicts for the next pod of the
    /// lane.
    pub(crate) fn rejected(&mut self, subject: &mut Subject<'_, '_>, fit: &FitError) {
        self.known.failures.last = true;
        if let Some(filters) = self.filters.take()
            && self.known.failures.may_keep()
        {
            match rejections_of(subject, &fit.diagnosis.verdicts, filters, self.log.revision()) {
                Ok(rejections) => self.known.failures.keep(rejections),
                Err(Unusable) => self.known.failures.refuse(),
            }
        }
    }
}

/// Steps.
impl Recalled<'_> {
    /// Looks first at what answered the last pod of the lane: the verdicts, or the ranking, which
    /// `search` searches.
    fn search<T>(
        &mut self,
        subject: &mut Subject<'_, '_>,
        prepared: &Prepared,
        scratch: &mut Scratch,
        search: impl FnOnce(&mut Self, &mut Subject<'_, '_>, &mut Scratch, &Scopes) -> Option<T>,
    ) -> Result<Option<T>, ScheduleError> {
        if !may_rank(subject) || !self.is_worth(subject, prepared) {
            return Ok(None);
        }
        let filters = filter_scopes(subject);
        let scores = filters.as_ref().and_then(|_| score_scopes(subject));
        if subject.state.take_rekeyed() {
            self.known.drop_keys();
        }
        let Some(filters) = filters else { return Ok(None) };
        let scopes = scores.map(|scores| Scopes { filters: filters.clone(), scores });
        if !prepared.is_everywhere(subject) {
            return Ok(scopes.and_then(|scopes| search(self, subject, scratch, &scopes)));
        }
        self.filters = Some(filters);
        let has_failed = self.known.failures.last;
        if has_failed && let Some(error) = self.repeat_rejection(subject, scratch) {
            return Err(error);
        }
        self.known.failures.last = false;
        let found = scopes.and_then(|scopes| search(self, subject, scratch, &scopes));
        if found.is_none()
            && !has_failed
            && let Some(error) = self.repeat_rejection(subject, scratch)
        {
            self.known.failures.last = true;
            return Err(error);
        }
        Ok(found)
    }

    /// Whether a ranking answers faster than a full pass over the nodes to search.
    fn is_worth(&self, subject: &Subject<'_, '_>, prepared: &Prepared) -> bool {
        let all = subject.cluster().node_count();
        prepared.is_everywhere(subject)
            || self.known.has_ranking()
            || prepared.nodes(subject).count() * NODES_PER_SMALL_SET >= all
    }

    /// Repairs the ranking and asks it; `None` if the lane goes without a ranking.
    fn ask<T>(
        &mut self,
        subject: &mut Subject<'_, '_>,
        prepared: &Prepared,
        scopes: &Scopes,
        ask: impl FnOnce(Order<'_>) -> Option<T>,
    ) -> Option<T> {
        let Self { known, locals, columns, log, .. } = self;
        let clock = known.last_used;
        let (ranking, local) = known.ranking_mut()?;
        let memory = Memory { ranking, local, locals, columns, log, clock };
        match memory.order(subject, prepared, scopes).map(ask) {
            Ok(answer) => answer,
            Err(Unusable) => {
                self.known.refuse();
                None
            }
        }
    }

    /// Repairs the verdicts of the lane, and returns why the pod fits nowhere if they say so;
    /// `None` if some node may take it.
    fn repeat_rejection(
        &mut self,
        subject: &mut Subject<'_, '_>,
        scratch: &mut Scratch,
    ) -> Option<ScheduleError> {
        let filters = self.filters.as_ref()?;
        let rejections = self.known.failures.rejections_mut()?;
        let error = match repeat(subject, rejections, filters, &mut self.log) {
            Ok(error) => error?,
            Err(Unusable) => {
                self.known.failures.drop_verdicts();
                return None;
            }
        };
        self.counts.repeated_rejections += 1;
        if self.is_check_due(subject) && !is_rejection_confirmed(&error, subject, scratch) {
            self.known.distrust();
            return None;
        }
        Some(error)
    }

    /// Counts a decision. Returns whether a full pass is to make it again.
    fn is_check_due(&mut self, subject: &Subject<'_, '_>) -> bool {
        let one_in = subject.settings.check_rankings_one_in;
        let nodes = subject.cluster().node_count() as u64;
        let one_in = if one_in > 1 { one_in.max(nodes / NODES_PER_UNCHECKED) } else { 1 };
        self.counts.decisions += 1;
        self.counts.decisions.is_multiple_of(one_in)
    }
}

/// Whether a ranking can hold what decides about this pod, apart from its plugins.
fn may_rank(subject: &Subject<'_, '_>) -> bool {
    let Subject { profile, settings, form, .. } = subject;
    let is_scored = |name: &PluginName| profile.score.iter().any(|own| own.name == *name);
    *form == Form::Ranked
        && settings.sampling(profile) == Sampling::All
        && settings.tie_break == TieBreak::Random
        && settings.extenders.is_empty()
        && !profile.score.is_empty()
        && profile.pre_score.iter().all(|own| is_scored(&own.name))
}

/// A ranking, and all that repairs it.
struct Memory<'k, 'l> {
    ranking: &'k mut Ranking,
    local: &'k mut LocalScores,
    locals: &'k mut Locals,
    columns: &'k mut Columns,
    log: &'k mut LogReader<'l>,
    /// The number of this use.
    clock: u64,
}

impl<'k> Memory<'k, '_> {
    /// Repairs the ranking, and returns its feasible nodes.
    fn order(
        mut self,
        subject: &mut Subject<'_, '_>,
        prepared: &Prepared,
        scopes: &Scopes,
    ) -> Result<Order<'k>, Unusable> {
        let skip = pre_score_unless_by_tier(subject, scopes)?;
        let scoped = Scoped::of(subject, scopes, &skip);
        let nodes = prepared.nodes(subject);
        match scoped.tier_filters.is_empty() {
            true => self.repair_beside_nominated(subject, &scoped)?,
            false => {
                self.repair(subject, &scoped)?;
                leave_out_nominated(subject, nodes, self.ranking)?;
            }
        }
        let Self { ranking, .. } = self;
        if prepared.is_everywhere(subject) {
            let added = match ranking.is_empty() {
                true => Vec::new(),
                false => decide_tiers(subject, &ranking.tiers(), &scoped)?,
            };
            return Ok(Order::OfAll { ranking, added, nodes: subject.cluster().node_count() });
        }
        let members = ranking.within(nodes);
        let added = match members.tiers.is_empty() {
            true => Vec::new(),
            false => decide_tiers(subject, &members.tiers, &scoped)?,
        };
        Ok(Order::Within { totals: members.totals(&added), nodes: nodes.count() })
    }

    /// Brings the ranking up to date, and rejects the nodes that do not fit the pod beside the pods
    /// that are nominated to them. Each verdict depends on the node, the pods on it and those
    /// nominated to it, so that it holds until one of them changes. The verdict on the node that
    /// the pod itself is nominated to is one for this pod alone.
    fn repair_beside_nominated(
        &mut self,
        subject: &mut Subject<'_, '_>,
        scoped: &Scoped<'_>,
    ) -> Result<(), Unusable> {
        let (cluster, own) = (subject.cluster(), subject.own_nomination());
        self.ranking.catch_up_nominations(subject.world.nominator(), cluster);
        own.into_iter().for_each(|node| self.ranking.look_again(node));
        let rejected = match self.repair(subject, scoped)? {
            Some(changed) => {
                let nodes = changed.nodes.iter().copied();
                let there = nodes.filter(|node| cluster.nodes().contains(*node));
                rejections_beside(subject, there)
            }
            None => rejections_beside_nominated(subject, cluster.nodes()),
        };
        let rejected = rejected.map_err(|_| Unusable)?;
        rejected.iter().try_for_each(|(node, _)| self.ranking.reject(*node))?;
        own.into_iter().for_each(|node| self.ranking.look_again(node));
        Ok(())
    }

    /// Brings the ranking and its local scores up to date. Returns the nodes that it has looked at,
    /// or `None` for all.
    fn repair(
        &mut self,
        subject: &mut Subject<'_, '_>,
        scoped: &Scoped<'_>,
    ) -> Result<Option<Arc<ChangedNodes>>, Unusable> {
        let Self { ranking, local, locals, columns, log, clock } = self;
        let looked_at = ranking.catch_up(&scoped.basis, log);
        let missed = looked_at.as_deref();
        if missed.is_none() {
            **local = LocalScores::default();
        }
        match &scoped.shared {
            Some(key) => locals.repair(key, *clock, |local| {
                Repair { ranking, local, missed, columns }.run(subject, scoped, log)
            })?,
            None => Repair { ranking, local, missed, columns }.run(subject, scoped, log)?,
        }
        ranking.check_size(local.bytes())?;
        Ok(looked_at)
    }
}

/// Runs PreScore, apart from plugins that need the tiers. Returns the plugins whose Score is
/// skipped.
fn pre_score_unless_by_tier(
    subject: &mut Subject<'_, '_>,
    scopes: &Scopes,
) -> Result<BTreeSet<PluginName>, Status> {
    let scored = subject.profile.score.iter().zip(&scopes.scores);
    let by_tier = scored.filter(|(_, reads)| reads.scope == ScoreScope::Tier);
    let by_tier: Vec<&PluginName> = by_tier.map(|(own, _)| &own.name).collect();
    run_pre_score(subject, FeasibleNodes::List(&[]), |name| !by_tier.contains(&name))
}

/// Leaves out nodes that do not fit the pod beside the pods that are nominated to them.
fn leave_out_nominated(
    subject: &mut Subject<'_, '_>,
    nodes: &NodeBits,
    ranking: &mut Ranking,
) -> Result<(), Unusable> {
    let rejected = rejections_beside_nominated(subject, nodes).map_err(|_| Unusable)?;
    Ok(rejected.iter().try_for_each(|(node, _)| ranking.leave_out(*node))?)
}
