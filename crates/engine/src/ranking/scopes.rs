//! The plugins of a decision, by what their answers depend on.

use std::collections::BTreeSet;

use framework::{
    Attempt, AttemptMut, Dependence, Filter, FilterScope, PluginName, PodPart, Score, ScoreScope,
};

use super::local::LocalKey;
use super::reads::{Basis, FilterScopes};
use crate::cycle::{Keyed, Subject};
use crate::plugin_call::call_beside;
use crate::profile::Named;

/// The scopes of the plugins that may take part, by their places in the profile.
pub(super) struct Scopes {
    pub(super) filters: FilterScopes,
    pub(super) scores: Vec<Dependence<ScoreScope>>,
}

/// The plugins of a decision, by what they depend on.
pub(super) struct Scoped<'p> {
    pub(super) basis: Basis,
    /// Filter plugins that look at one node at a time, with the pods on it.
    pub(super) local_filters: Vec<&'p Named<dyn Filter>>,
    /// Score plugins that look at one node at a time, without normalisation.
    pub(super) local_scores: Vec<&'p Named<dyn Score>>,
    /// The requests whose lanes share the answers of these two; `None` if a score reads more than
    /// requests.
    pub(super) shared: Option<LocalKey>,
    /// Further filter plugins of the first kind, which read more than requests, so that their
    /// answers are not shared.
    pub(super) own_filters: Vec<&'p Named<dyn Filter>>,
    /// Filter plugins that look at one node at a time, without the pods on it.
    pub(super) object_filters: Vec<&'p Named<dyn Filter>>,
    /// Filter plugins that give all nodes of a tier the same verdict.
    pub(super) tier_filters: Vec<(&'p Named<dyn Filter>, Dependence<FilterScope>)>,
    /// Score plugins that give all nodes of a tier the same score.
    pub(super) tier_scores: Vec<(&'p Named<dyn Score>, Dependence<ScoreScope>)>,
}

/// Returns what the Filter plugins depend on; `None` if one depends on the whole cluster.
pub(super) fn filter_scopes(subject: &mut Subject<'_, '_>) -> Option<FilterScopes> {
    let handle = subject.handle();
    let attempt = Attempt::new(&subject.state, subject.pod, &handle);
    let probe = &mut *subject.cx.probe;
    let mut filters = Vec::with_capacity(subject.profile.filter.len());
    for own in &subject.profile.filter {
        if attempt.state.skips_filter(&own.name) {
            filters.push(None);
            continue;
        }
        let dependence = call_beside("Filter", &own.name, probe, || own.dependence(&attempt)).ok();
        filters.push(Some(dependence.filter(|own| own.scope != FilterScope::Cluster)?));
    }
    Some(filters)
}

/// Returns what the Score plugins depend on; `None` if one depends on the whole cluster.
pub(super) fn score_scopes(subject: &mut Subject<'_, '_>) -> Option<Vec<Dependence<ScoreScope>>> {
    let handle = subject.handle();
    let probe = &mut *subject.cx.probe;
    let mut scores = Vec::with_capacity(subject.profile.score.len());
    for own in &subject.profile.score {
        let attempt = AttemptMut::new(&mut subject.state, subject.pod, &handle);
        let dependence = call_beside("Score", &own.name, probe, || own.plugin.dependence(attempt));
        let dependence = dependence.ok().flatten();
        scores.push(dependence.filter(|own| own.scope != ScoreScope::Cluster)?);
    }
    Some(scores)
}

impl<'p> Scoped<'p> {
    /// Divides the plugins that take part. The scores of `skip` do not.
    pub(super) fn of(
        subject: &Subject<'p, '_>,
        scopes: &Scopes,
        skip: &BTreeSet<PluginName>,
    ) -> Self {
        let (filters, scores) = (&subject.profile.filter, &subject.profile.score);
        let scored = scores.iter().zip(&scopes.scores);
        let scored = scored.map(|(own, reads)| (!skip.contains(&own.name)).then_some(*reads));
        let basis = Basis { filters: scopes.filters.clone(), scores: scored.collect() };
        let filtering = filters.iter().zip(&basis.filters).enumerate();
        let filtering = filtering.filter_map(|(place, (own, reads))| Some((place, own, (*reads)?)));
        let scoring = scores.iter().zip(&basis.scores).enumerate();
        let scoring = scoring.filter_map(|(place, (own, reads))| Some((place, own, (*reads)?)));

        let (by_tier, by_node): (Vec<_>, Vec<_>) =
            filtering.partition(|(.., reads)| reads.scope == FilterScope::Tier);
        let (local, of_objects): (Vec<_>, Vec<_>) =
            by_node.into_iter().partition(|(.., reads)| reads.pods);
        let (tier_scores, local_scores): (Vec<_>, Vec<_>) = scoring.partition(|(_, own, reads)| {
            own.registered.normalize_score.is_some() || reads.scope != ScoreScope::Node
        });
        let mut parts = local_scores.iter().map(|(.., reads)| reads.part);
        let is_shared = parts.all(|part| part == PodPart::Requests);
        let (local, own): (Vec<_>, Vec<_>) = local
            .into_iter()
            .partition(|(.., reads)| !is_shared || reads.part == PodPart::Requests);
        let shared = is_shared.then(|| LocalKey {
            scheduler_name: subject.profile.scheduler_name.clone(),
            filters: local.iter().map(|(place, ..)| *place).collect(),
            scores: local_scores.iter().map(|(place, ..)| *place).collect(),
            requests: subject.pod.requests.clone(),
        });
        Self {
            local_filters: local.into_iter().map(|(_, own, _)| own).collect(),
            local_scores: local_scores.into_iter().map(|(_, own, _)| own).collect(),
            shared,
            own_filters: own.into_iter().map(|(_, own, _)| own).collect(),
            object_filters: of_objects.into_iter().map(|(_, own, _)| own).collect(),
            tier_filters: by_tier.into_iter().map(|(_, own, reads)| (own, reads)).collect(),
            tier_scores: tier_scores.into_iter().map(|(_, own, reads)| (own, reads)).collect(),
            basis,
        }
    }

    /// Returns the plugins that give nodes keys, and whether the keys depend on the pods of a node.
    pub(super) fn keyed(&self) -> impl ExactSizeIterator<Item = (Keyed<'p>, bool)> {
        let keyed = |index: usize| match self.tier_filters.get(index) {
            Some((own, reads)) => (Keyed::Filter(own), reads.pods),
            None => {
                let (own, reads) = self.tier_scores[index - self.tier_filters.len()];
                let keyed = match reads.scope {
                    ScoreScope::Key | ScoreScope::Tier => Keyed::ScoreKey(own),
                    ScoreScope::Node | ScoreScope::Cluster => Keyed::Score(own),
                };
                (keyed, reads.pods)
            }
        };
        (0..self.tier_filters.len() + self.tier_scores.len()).map(keyed)
    }
}
