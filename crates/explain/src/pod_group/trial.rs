//! Trials of the pending pods of a PodGroup, together.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use engine::{Supposition, Trial};
use framework::{NodeBits, NodeIx, Pod, PodGroupKey, Prospect, Template};

use crate::lab::Lab;

/// Number of domains in which pods are tried.
const TRIED: usize = 200;

/// A pending member, and the trial of it beside the members before it.
pub(crate) struct Tried {
    pub(crate) pod: Arc<Pod>,
    /// The node that it would get, or why it gets none.
    pub(crate) outcome: Result<Arc<str>, String>,
}

/// The trials of the pending members in one domain of the topology.
pub(crate) struct Domain {
    pub(crate) name: Arc<str>,
    pub(crate) nodes: Vec<NodeIx>,
    /// Number of members that fit there; without trials a maximum.
    pub(crate) fit: usize,
    /// `None` if the members were not tried there.
    pub(crate) tried: Option<Vec<Tried>>,
}

/// A level of the topology that a group asks for.
pub(crate) struct Level {
    pub(crate) key: Arc<str>,
    /// Its domains, the one where most members fit first.
    pub(crate) domains: Vec<Domain>,
}

/// The trials of the pending members of a group.
pub(crate) enum Trials {
    /// On all nodes.
    Anywhere(Vec<Tried>),
    /// In each domain of the topology of the group, the one where most members fit first.
    InDomains(Vec<Domain>),
    /// By the levels that the group asks for, of which one is preferred or divides the members.
    ByLevels { tried: Vec<Tried>, levels: Vec<Level> },
    /// There is no domain, for this reason.
    Nowhere(String),
}

impl Trials {
    /// Tries the members one after the other, each beside those that fit before it, on all nodes or
    /// in each domain.
    pub(crate) fn of(lab: &mut Lab<'_>, group: &PodGroupKey, members: &[Arc<Pod>]) -> Self {
        let is_over = lab.is_over();
        lab.suppose(|supposed| {
            match supposed.levels(group, members) {
                Err(status) => return Self::Nowhere(status.message()),
                Ok(levels) if levels.is_empty() => {}
                Ok(levels) => {
                    let tried = try_by_levels(supposed, group, members);
                    let levels = levels.into_iter().map(|own| {
                        let domains = try_in_domains(supposed, members, own.prospects, is_over);
                        Level { key: own.key, domains }
                    });
                    return Self::ByLevels { tried, levels: levels.collect() };
                }
            }
            match supposed.prospects(group, members) {
                Err(status) => Self::Nowhere(status.message()),
                Ok(None) => Self::Anywhere(try_together(supposed, members, None)),
                Ok(Some(prospects)) => {
                    Self::InDomains(try_in_domains(supposed, members, prospects, is_over))
                }
            }
        })
    }

    /// Returns the trials in the best place: on all nodes, or in the first domain.
    pub(crate) fn best(&self) -> &[Tried] {
        match self {
            Self::Anywhere(tried) | Self::ByLevels { tried, .. } => tried,
            Self::InDomains(domains) => match domains.first() {
                Some(first) => first.tried.as_deref().unwrap_or_default(),
                None => &[],
            },
            Self::Nowhere(_) => &[],
        }
    }
}

/// Tries the members in each domain. Returns the domains, the one where most members fit first.
fn try_in_domains(
    supposed: &mut Supposition<'_, '_, '_>,
    members: &[Arc<Pod>],
    mut prospects: Vec<Prospect>,
    is_over: &dyn Fn() -> bool,
) -> Vec<Domain> {
    prospects.sort_by_key(|own| (Reverse(own.most), own.placement.name.clone()));
    let domains = prospects.into_iter().enumerate().map(|(place, prospect)| {
        let Prospect { placement, most } = prospect;
        let tried = (place < TRIED && !is_over()).then(|| {
            let nodes: NodeBits = placement.nodes.iter().copied().collect();
            supposed.suppose(|supposed| try_together(supposed, members, Some(&nodes)))
        });
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let fit = tried.as_deref().map_or(most, fitting);
        let (name, nodes) = (placement.name.clone(), placement.nodes.clone());
        Domain { name, nodes, fit, tried }
    });
    let mut domains: Vec<Domain> = domains.collect();
    domains.sort_by_key(|own| (own.tried.is_none(), Reverse(own.fit)));
    domains
}

/// Tries the members by the levels that their group asks for.
pub(crate) fn try_by_levels(
    supposed: &mut Supposition<'_, '_, '_>,
    group: &PodGroupKey,
    members: &[Arc<Pod>],
) -> Vec<Tried> {
    let outcomes = supposed.try_members(group, members).into_iter();
    members.iter().zip(outcomes).map(|(pod, outcome)| Tried { pod: pod.clone(), outcome }).collect()
}

/// Returns the number of members that fit together.
pub(crate) fn fitting(tried: &[Tried]) -> usize {
    tried.iter().filter(|own| own.outcome.is_ok()).count()
}

/// Tries the members one after the other, each beside those that fit before it. Members like one
/// that does not fit are not tried again.
pub(crate) fn try_together(
    supposed: &mut Supposition<'_, '_, '_>,
    members: &[Arc<Pod>],
    within: Option<&NodeBits>,
) -> Vec<Tried> {
    let mut unfit: HashMap<Template, String> = HashMap::new();
    let tried = members.iter().map(|pod| {
        let template = Template::describes(pod).then(|| Template::of(pod));
        if let Some(reason) = template.as_ref().and_then(|template| unfit.get(template)) {
            return Tried { pod: pod.clone(), outcome: Err(reason.clone()) };
        }
        let outcome = match supposed.place_member(pod, within) {
            Some(Trial::Fits { node, .. }) => Ok(supposed.cluster().node_name(node).clone()),
            Some(Trial::Rejected(fit)) => Err(fit.message()),
            Some(Trial::Gated(status) | Trial::Failed(status)) => Err(status.message()),
            Some(Trial::Preempts(_)) => Err("it fits only after evictions".to_owned()),
            None => Err("no profile is responsible for the pod".to_owned()),
        };
        if let (Some(template), Err(reason)) = (template, &outcome) {
            unfit.insert(template, reason.clone());
        }
        Tried { pod: pod.clone(), outcome }
    });
    tried.collect()
}
