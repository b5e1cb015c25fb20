//! The answer for a pod whose lane fits nowhere: plugins look again only at nodes that have changed
//! since the last failed attempt.

use std::sync::Arc;

use framework::{
    Attempt, Code, Dependence, ExtensionPoint, Filter, FilterScope, NodeIx, PerNode, PluginName,
    Status, Verdicts,
};

use super::reads::FilterScopes;
use super::rejections::{Rejections, TierKey};
use super::unusable::Unusable;
use crate::cycle::{
    Diagnosis, ScheduleError, Subject, rejections_beside, rejections_beside_nominated,
};
use crate::plugin_call::call_plugin;
use crate::profile::Named;
use crate::world::LogReader;

/// A node to decide on, with its keys for the tier filters that it has reached.
struct Open {
    node: NodeIx,
    keys: Vec<i64>,
}

/// Repairs the verdicts, and returns why the pod fits nowhere if they say so; `None` if some node
/// may take it.
pub(super) fn repeat(
    subject: &mut Subject<'_, '_>,
    rejections: &mut Rejections,
    filters: &FilterScopes,
    log: &mut LogReader<'_>,
) -> Result<Option<ScheduleError>, Unusable> {
    subject.start(ExtensionPoint::Filter);
    let repaired = repair(subject, rejections, filters, log);
    let nodes = subject.cluster().node_count();
    let rejected = repaired.is_ok() && rejections.reject_all(nodes);
    let code = if rejected { Code::Unschedulable } else { Code::Success };
    subject.stop(ExtensionPoint::Filter, code);
    repaired?;
    if !rejected {
        return Ok(None);
    }
    let verdicts = rejections.verdicts().clone();
    let mut diagnosis = Diagnosis { verdicts, ..Diagnosis::default() };
    diagnosis.record_verdicts();
    Ok(Some(subject.rejected(diagnosis)))
}

/// Takes over the verdicts of a full pass that found no node, in this state of the change log.
pub(super) fn rejections_of(
    subject: &mut Subject<'_, '_>,
    verdicts: &Arc<Verdicts>,
    filters: FilterScopes,
    state: u64,
) -> Result<Rejections, Unusable> {
    let cluster = subject.cluster();
    let first_tier = filters.iter().position(is_of_tiers);
    let nominator = subject.world.nominator();
    let mut rejections = Rejections::new(verdicts.clone(), filters, state, nominator.revision());
    if let Some(place) = first_tier {
        let before: Vec<&PluginName> =
            subject.profile.filter[..place].iter().map(|own| &own.name).collect();
        let is_final = |node: &NodeIx| {
            let plugin = verdicts.explicit(*node).and_then(Status::plugin);
            plugin.is_some_and(|plugin| before.contains(&plugin))
        };
        let open = cluster.nodes().iter().filter(|node| !is_final(node)).collect();
        decide_on(subject, open, &mut rejections)?;
    }
    if rejections.are_local() {
        rejections.look_again(subject.own_nomination());
    } else {
        rejections.look_again(nominator.nodes().filter_map(|name| cluster.node_named(name)));
    }
    Ok(rejections)
}

/// Looks again at the nodes that have changed, at one node of each tier, and at nodes whose
/// nominations have changed. If there are tiers, looks at all nodes with nominated pods.
///
/// The verdict on the node that the pod itself is nominated to is one for this pod alone.
fn repair(
    subject: &mut Subject<'_, '_>,
    rejections: &mut Rejections,
    filters: &FilterScopes,
    log: &mut LogReader<'_>,
) -> Result<(), Unusable> {
    let cluster = subject.cluster();
    let mut changed = rejections.catch_up(filters, log).ok_or(Unusable)?;
    let are_local = rejections.are_local();
    let own = subject.own_nomination();
    if are_local {
        let names = rejections.catch_up_nominations(subject.world.nominator()).ok_or(Unusable)?;
        changed.extend(names.filter_map(|name| cluster.node_named(name)).chain(own));
        changed.sort_unstable();
        changed.dedup();
    }
    if changed.len() > 64 + cluster.table_len() / 8 {
        // The set forms of a full pass are faster.
        return Err(Unusable);
    }
    let (there, gone): (Vec<_>, Vec<_>) =
        changed.into_iter().partition(|node| cluster.nodes().contains(*node));
    gone.into_iter().for_each(|node| rejections.remove(node));
    decide_on(subject, there.clone(), rejections)?;
    if are_local {
        let beside = rejections_beside(subject, there).map_err(|_| Unusable)?;
        for (node, otherwise) in beside {
            rejections.set(node, TierKey { keys: Vec::new(), otherwise })?;
        }
        rejections.look_again(own);
        return Ok(());
    }
    for tier in rejections.tiers() {
        let status = verdict_of_tier(subject, filters, tier.node, &tier.key)?;
        rejections.decide(&tier, status);
    }
    let nominated = rejections_beside_nominated(subject, cluster.nodes());
    let nominated = nominated.map_err(|_| Unusable)?;
    nominated.into_iter().for_each(|(node, status)| rejections.set_once(node, status));
    Ok(())
}

/// Runs the filters on nodes in the one-node form, one plugin after the other. Of tier filters it
/// takes the keys.
fn decide_on(
    subject: &mut Subject<'_, '_>,
    nodes: Vec<NodeIx>,
    rejections: &mut Rejections,
) -> Result<(), Unusable> {
    let mut open: Vec<Open> =
        nodes.into_iter().map(|node| Open { node, keys: Vec::new() }).collect();
    let filters = rejections.filters().clone();
    for (own, scope) in subject.profile.filter.iter().zip(filters) {
        match scope.map(|reads| reads.scope) {
            _ if open.is_empty() => break,
            None => {}
            Some(FilterScope::Tier) => add_keys(subject, own, &mut open)?,
            Some(_) => reject_some(subject, own, &mut open, rejections)?,
        }
    }
    for Open { node, keys } in open {
        rejections.set(node, TierKey { keys, otherwise: Status::success() })?;
    }
    Ok(())
}

fn add_keys(
    subject: &mut Subject<'_, '_>,
    own: &Named<dyn Filter>,
    open: &mut [Open],
) -> Result<(), Unusable> {
    let nodes: Vec<NodeIx> = open.iter().map(|open| open.node).collect();
    let mut keys = vec![0; nodes.len()];
    let handle = subject.handle();
    let attempt = Attempt::new(&subject.state, subject.pod, &handle);
    call_plugin(ExtensionPoint::Filter, &own.name, subject.cx.probe, || {
        own.plugin.key_set(&attempt, PerNode::new(&nodes, &mut keys))
    })
    .flatten()?;
    open.iter_mut().zip(keys).for_each(|(open, key)| open.keys.push(key));
    Ok(())
}

/// Removes the nodes that a filter rejects, and sets their verdict.
fn reject_some(
    subject: &mut Subject<'_, '_>,
    own: &Named<dyn Filter>,
    open: &mut Vec<Open>,
    rejections: &mut Rejections,
) -> Result<(), Unusable> {
    let handle = subject.handle();
    let attempt = Attempt::new(&subject.state, subject.pod, &handle);
    call_plugin(ExtensionPoint::Filter, &own.name, subject.cx.probe, || {
        let mut failed = Ok(());
        open.retain_mut(|Open { node, keys }| {
            let view = handle.cluster.node(*node);
            let status = own.plugin.filter(&attempt, &view);
            if status.is_success() {
                return true;
            }
            let key = TierKey { keys: std::mem::take(keys), otherwise: attribute(status, own) };
            if !key.otherwise.is_rejection() || rejections.set(*node, key).is_err() {
                failed = Err(Status::error("the verdict cannot be kept"));
            }
            false
        });
        failed
    })
    .flatten()?;
    Ok(())
}

/// Returns the verdict on the nodes of a tier, of which `node` is one.
fn verdict_of_tier(
    subject: &mut Subject<'_, '_>,
    filters: &FilterScopes,
    node: NodeIx,
    key: &TierKey,
) -> Result<Status, Unusable> {
    let handle = subject.handle();
    let attempt = Attempt::new(&subject.state, subject.pod, &handle);
    let view = handle.cluster.node(node);
    let scoped = subject.profile.filter.iter().zip(filters);
    let of_tiers = scoped.filter(|(_, scope)| is_of_tiers(scope));
    for (own, _) in of_tiers.take(key.keys.len()) {
        let status = call_plugin(ExtensionPoint::Filter, &own.name, subject.cx.probe, || {
            own.plugin.filter(&attempt, &view)
        })?;
        if status.is_rejection() {
            return Ok(attribute(status, own));
        }
        status.ok()?;
    }
    Ok(key.otherwise.clone())
}

fn is_of_tiers(filter: &Option<Dependence<FilterScope>>) -> bool {
    filter.is_some_and(|reads| reads.scope == FilterScope::Tier)
}

/// Attributes a status to the plugin that returned it, unless it names one.
fn attribute(status: Status, own: &Named<dyn Filter>) -> Status {
    if status.plugin().is_some() { status } else { status.by(&own.name) }
}
