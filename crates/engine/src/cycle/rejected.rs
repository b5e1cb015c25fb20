//! The answer for a pod whose class fits nowhere: looks again only at nodes that have changed since the last
//! failed attempt.

use std::sync::Arc;

use framework::{Code, ExtensionPoint, Filter, FilterScope, NodeIx, PluginName, Status, Verdicts};

use super::ranked::Unusable;
use super::{Cycle, Diagnosis, FitError, PreFiltered, ScheduleError};
use crate::plugin_call::call_plugin;
use crate::ports::Count;
use crate::profile::Named;
use crate::ranking::{FilterScopes, GroupKey, Known, Reads, Rejections};

/// A node to decide on, with its keys for the group filters that it has reached.
struct Open {
    node: NodeIx,
    keys: Vec<i64>,
}

impl Cycle<'_, '_> {
    /// Returns why the pod fits nowhere, if the verdicts that are known of its class say so after they are
    /// repaired; `None` if some node may take it.
    pub(super) fn repeat_rejection(
        &mut self,
        known: &mut Known,
        pre_filtered: &PreFiltered,
    ) -> Option<ScheduleError> {
        let filters = self.filter_scopes.clone()?;
        let mut rejections = known.failures.take_rejections()?;
        self.start(ExtensionPoint::Filter);
        let repaired = self.repair_rejections(&mut rejections, &filters);
        let rejected = match repaired {
            Ok(()) => rejections.reject_all(self.view.cluster().node_count()),
            Err(Unusable) => false,
        };
        let code = if rejected { Code::Unschedulable } else { Code::Success };
        self.stop(ExtensionPoint::Filter, code);
        repaired.ok()?;
        let verdicts = rejections.verdicts().clone();
        known.failures.keep(rejections);
        if !rejected {
            return None;
        }
        self.ranker.as_mut()?.rankings.count_repeated_rejection();
        let mut diagnosis = Diagnosis { verdicts, ..Diagnosis::default() };
        diagnosis.record_verdicts();
        let error = self.rejected(diagnosis);
        if self.is_check_due() && !self.is_rejection_confirmed(&error, pre_filtered) {
            known.distrust();
            return None;
        }
        Some(error)
    }

    /// Whether a full pass finds the same verdicts. The plugins start without what they have kept.
    fn is_rejection_confirmed(
        &mut self,
        error: &ScheduleError,
        pre_filtered: &PreFiltered,
    ) -> bool {
        let own = std::mem::take(self.state);
        let full = self.run_pre_filter().and_then(|_| self.filter(pre_filtered, None));
        *self.state = own;
        self.scratch.feasible.nodes.clear();
        let agrees = match (error, full) {
            (ScheduleError::Fit(own), Err(ScheduleError::Fit(full))) => self.equal(own, &full),
            _ => false,
        };
        self.cx.probe.count(Count::RankingCheck { pod: &self.pod.key, agrees });
        agrees
    }

    fn equal(&self, own: &FitError, full: &FitError) -> bool {
        let (own, full) = (&own.diagnosis, &full.diagnosis);
        let mut nodes = self.view.cluster().nodes().iter();
        own.unschedulable_plugins == full.unschedulable_plugins
            && own.pending_plugins == full.pending_plugins
            && own.verdicts.explicit_count() == full.verdicts.explicit_count()
            && nodes.all(|node| own.verdicts.get(node) == full.verdicts.get(node))
    }

    /// Keeps the verdicts of a full pass that found no node, for the next pod of the class.
    pub(super) fn keep_rejections(&mut self, error: &ScheduleError) {
        let Some(mut known) = self.known.take() else { return };
        known.failures.last = true;
        if let ScheduleError::Fit(fit) = error
            && let Some(filters) = self.filter_scopes.take()
            && known.failures.may_keep()
        {
            match self.rejections_of(&fit.diagnosis.verdicts, filters) {
                Ok(rejections) => known.failures.keep(rejections),
                Err(Unusable) => known.failures.refuse(),
            }
        }
        self.known = Some(known);
    }

    fn rejections_of(
        &mut self,
        verdicts: &Arc<Verdicts>,
        filters: FilterScopes,
    ) -> Result<Rejections, Unusable> {
        let state = self.ranker.as_ref().ok_or(Unusable)?.log.state();
        let cluster = self.view.cluster();
        let first_group = filters.iter().position(is_of_groups);
        let mut rejections = Rejections::new(verdicts.clone(), filters, state);
        if let Some(place) = first_group {
            let before: Vec<&PluginName> =
                self.profile.filter[..place].iter().map(|own| &own.name).collect();
            let is_final = |node: &NodeIx| {
                let plugin = verdicts.explicit(*node).and_then(Status::plugin);
                plugin.is_some_and(|plugin| before.contains(&plugin))
            };
            let open = cluster.nodes().iter().filter(|node| !is_final(node)).collect();
            self.decide_on(open, &mut rejections)?;
        }
        let nominated = self.view.nominator().nodes();
        rejections.look_again(nominated.filter_map(|name| cluster.node_named(name)));
        Ok(rejections)
    }

    /// Looks again at the nodes that have changed, at one node of each group, and at nodes with nominated pods.
    fn repair_rejections(
        &mut self,
        rejections: &mut Rejections,
        filters: &FilterScopes,
    ) -> Result<(), Unusable> {
        let log = &mut self.ranker.as_mut().ok_or(Unusable)?.log;
        let cluster = self.view.cluster();
        let changed = rejections.catch_up(filters, log).ok_or(Unusable)?;
        if changed.len() > 64 + cluster.table_len() / 8 {
            // The set forms of a full pass are faster.
            return Err(Unusable);
        }
        let (there, gone): (Vec<_>, Vec<_>) =
            changed.into_iter().partition(|node| cluster.nodes().contains(*node));
        gone.into_iter().for_each(|node| rejections.remove(node));
        self.decide_on(there, rejections)?;
        for group in rejections.groups() {
            let status = self.verdict_of_group(filters, group.node, &group.key)?;
            rejections.decide(&group, status);
        }
        let nominated = self.filter_nominated(cluster.nodes()).map_err(|_| Unusable)?;
        nominated.into_iter().for_each(|(node, status)| rejections.set_once(node, status));
        Ok(())
    }

    /// Runs the filters on nodes in the one-node form, one plugin after the other. Of group filters it takes the
    /// keys.
    fn decide_on(
        &mut self,
        nodes: Vec<NodeIx>,
        rejections: &mut Rejections,
    ) -> Result<(), Unusable> {
        let mut open: Vec<Open> =
            nodes.into_iter().map(|node| Open { node, keys: Vec::new() }).collect();
        let filters = rejections.filters().clone();
        for (own, scope) in self.profile.filter.iter().zip(filters) {
            match scope.map(|reads| reads.scope) {
                _ if open.is_empty() => break,
                None => {}
                Some(FilterScope::Group) => self.add_keys(own, &mut open)?,
                Some(_) => self.reject_some(own, &mut open, rejections)?,
            }
        }
        for Open { node, keys } in open {
            rejections.set(node, GroupKey { keys, otherwise: Status::success() })?;
        }
        Ok(())
    }

    fn add_keys(&mut self, own: &Named<dyn Filter>, open: &mut [Open]) -> Result<(), Unusable> {
        let nodes: Vec<NodeIx> = open.iter().map(|open| open.node).collect();
        let mut keys = vec![0; nodes.len()];
        let (state, pod, handle) = (&*self.state, self.pod, self.handle());
        call_plugin(ExtensionPoint::Filter, &own.name, self.cx.probe, || {
            own.plugin.key_set(state, pod, &handle, &nodes, &mut keys)
        })
        .flatten()?;
        open.iter_mut().zip(keys).for_each(|(open, key)| open.keys.push(key));
        Ok(())
    }

    /// Removes the nodes that a filter rejects, and sets their verdict.
    fn reject_some(
        &mut self,
        own: &Named<dyn Filter>,
        open: &mut Vec<Open>,
        rejections: &mut Rejections,
    ) -> Result<(), Unusable> {
        let (state, pod, handle) = (&*self.state, &**self.pod, self.handle());
        call_plugin(ExtensionPoint::Filter, &own.name, self.cx.probe, || {
            let mut failed = Ok(());
            open.retain_mut(|Open { node, keys }| {
                let view = handle.cluster.node(*node);
                let status = own.plugin.filter(state, pod, &view, &handle);
                if status.is_success() {
                    return true;
                }
                let key =
                    GroupKey { keys: std::mem::take(keys), otherwise: attribute(status, own) };
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

    /// Returns the verdict on the nodes of a group, of which `node` is one.
    fn verdict_of_group(
        &mut self,
        filters: &FilterScopes,
        node: NodeIx,
        key: &GroupKey,
    ) -> Result<Status, Unusable> {
        let (state, pod, handle) = (&*self.state, &**self.pod, self.handle());
        let view = handle.cluster.node(node);
        let scoped = self.profile.filter.iter().zip(filters);
        let of_groups = scoped.filter(|(_, scope)| is_of_groups(scope));
        for (own, _) in of_groups.take(key.keys.len()) {
            let status = call_plugin(ExtensionPoint::Filter, &own.name, self.cx.probe, || {
                own.plugin.filter(state, pod, &view, &handle)
            })?;
            if status.is_rejection() {
                return Ok(attribute(status, own));
            }
            status.ok()?;
        }
        Ok(key.otherwise.clone())
    }
}

fn is_of_groups(filter: &Option<Reads<FilterScope>>) -> bool {
    filter.is_some_and(|reads| reads.scope == FilterScope::Group)
}

/// Attributes a status to the plugin that returned it, unless it names one.
fn attribute(status: Status, own: &Named<dyn Filter>) -> Status {
    if status.plugin().is_some() { status } else { status.by(&own.name) }
}
