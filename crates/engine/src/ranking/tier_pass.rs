//! The pass over one node of each tier.

use framework::{
    Dependence, ExtensionPoint, NodeIx, NodeTier, PluginName, Score, ScoreScope, Status,
};

use super::repair::retain_by;
use super::scopes::Scoped;
use super::unusable::Unusable;
use crate::cycle::{FeasibleNodes, Form, Scorer, Subject, Totals, run_pre_score, score_by};
use crate::profile::Named;

/// Returns what is added to the scores of each tier; `None` for a tier whose nodes are not
/// feasible.
pub(super) fn decide_tiers(
    subject: &mut Subject<'_, '_>,
    tiers: &[NodeTier],
    scoped: &Scoped<'_>,
) -> Result<Vec<Option<i64>>, Unusable> {
    let mut feasible: Vec<(usize, NodeTier)> = tiers.iter().copied().enumerate().collect();
    subject.measure(ExtensionPoint::Filter, |subject| {
        scoped
            .tier_filters
            .iter()
            .try_for_each(|(own, _)| retain_by(subject, own, &mut feasible, |(_, tier)| tier.node))
    })?;
    let (places, feasible): (Vec<usize>, Vec<NodeTier>) = feasible.into_iter().unzip();
    let scores = score_tiers(subject, &feasible, scoped)?;
    let mut added = vec![None; tiers.len()];
    places.into_iter().zip(scores).for_each(|(place, score)| added[place] = Some(score));
    Ok(added)
}

/// Returns what is added to the scores of each feasible tier. A single feasible node needs no
/// score.
fn score_tiers(
    subject: &mut Subject<'_, '_>,
    tiers: &[NodeTier],
    scoped: &Scoped<'_>,
) -> Result<Vec<i64>, Status> {
    let mut added = vec![0; tiers.len()];
    if tiers.iter().map(|tier| tier.len).sum::<usize>() < 2 {
        return Ok(added);
    }
    let by_tiers = |reads: &Dependence<ScoreScope>| reads.scope == ScoreScope::Tier;
    if scoped.tier_scores.iter().any(|(_, reads)| by_tiers(reads)) {
        let takes_part = |name: &PluginName| {
            let mut own = scoped.tier_scores.iter();
            own.any(|(own, reads)| own.name == *name && by_tiers(reads))
        };
        let skip = run_pre_score(subject, FeasibleNodes::Tiers(tiers), takes_part)?;
        let scored = scoped.tier_scores.iter().filter(|(own, _)| !skip.contains(&own.name));
        add_scores(subject, tiers, scored, &mut added)?;
    } else {
        add_scores(subject, tiers, scoped.tier_scores.iter(), &mut added)?;
    }
    Ok(added)
}

fn add_scores<'p>(
    subject: &mut Subject<'_, '_>,
    tiers: &[NodeTier],
    plugins: impl Iterator<Item = &'p (&'p Named<dyn Score>, Dependence<ScoreScope>)>,
    totals: &mut [i64],
) -> Result<(), Status> {
    let nodes: Vec<NodeIx> = tiers.iter().map(|tier| tier.node).collect();
    let scores = &mut vec![0; nodes.len()][..];
    for (own, reads) in plugins {
        let form = match reads.scope {
            ScoreScope::Tier => Form::Set,
            _ => Scorer::of(subject).form_for(&nodes),
        };
        let totals = Totals { scores, totals, report: None };
        score_by(subject, own, form, &nodes, totals)?;
    }
    Ok(())
}
