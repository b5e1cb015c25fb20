//! The filter pass.

use std::sync::Arc;

use framework::{ExtensionPoint, NodeBits, NodeIx, Pod, Status, Verdicts};

use super::dry_run::{Asked, NodeFilters, filter_error};
use super::sampling::{Sampling, num_feasible_nodes_to_find};
use super::{Cycle, Depth, Diagnosis, Form, PreFiltered, ScheduleError};
use crate::guard::{HasCode, ask, guarded};
use crate::ports::Span;
use crate::profile::EXTENDER;

impl<'a> Cycle<'a, '_> {
    /// Leaves in the scratch the nodes that can take the pod. `own` is the verdict on the node the pod
    /// is nominated to, if that was tried before and turned it down.
    pub(super) fn filter(
        &mut self,
        pre_filtered: &PreFiltered,
        own: Option<(NodeIx, Status)>,
    ) -> Result<(), ScheduleError> {
        let candidates = self.candidates(pre_filtered);
        self.ports.probe.start(Span::Point(ExtensionPoint::Filter, &self.profile.scheduler_name));
        let passed = self.filter_set(&candidates);
        self.ports
            .probe
            .stop(Span::Point(ExtensionPoint::Filter, &self.profile.scheduler_name), passed.code());
        passed.map_err(ScheduleError::Error)?;
        let nominated = self.filter_nominated(&candidates)?;
        let own_node = own.as_ref().map(|(node, _)| *node);
        let looked_at = self.collect_feasible(&candidates, own_node);

        let mut verdicts = Verdicts::default();
        own.into_iter().for_each(|(node, status)| verdicts.record(node, status));
        let mut nodes = std::mem::take(&mut self.scratch.feasible.nodes);
        let before = nodes.len();
        let answered = self.filter_by_extenders(&mut nodes, &mut verdicts);
        let extenders_rejected = nodes.len() < before;
        self.scratch.feasible.nodes = nodes;
        answered.map_err(ScheduleError::Error)?;

        let found = !self.scratch.feasible.nodes.is_empty();
        if found && self.depth == Depth::Decide {
            return Ok(());
        }
        let mut diagnosis = Diagnosis { verdicts, ..Diagnosis::default() };
        diagnosis.record_restriction(pre_filtered);
        if extenders_rejected {
            diagnosis.unschedulable_plugins.insert(EXTENDER.into());
        }
        self.explain(looked_at.as_ref().unwrap_or(&candidates), &nominated, &mut diagnosis);
        if let Some(status) = restriction_status(pre_filtered) {
            diagnosis.verdicts.set_absent(status);
        }
        diagnosis.record_verdicts();
        if !found {
            return Err(self.rejected(diagnosis));
        }
        self.report.passed = self.scratch.feasible.nodes.iter().copied().collect();
        self.report.rejectors = diagnosis.unschedulable_plugins;
        self.report.verdicts = diagnosis.verdicts;
        Ok(())
    }

    /// The nodes in question: all, or those PreFilter narrowed the search to.
    fn candidates(&self, pre_filtered: &PreFiltered) -> NodeBits {
        let cluster = self.cache.cluster();
        match &pre_filtered.restriction {
            None => cluster.nodes().clone(),
            Some((names, _)) => names.iter().filter_map(|name| cluster.node_named(name)).collect(),
        }
    }

    /// Runs every filter plugin over all candidates and keeps what each of them left.
    fn filter_set(&mut self, candidates: &NodeBits) -> Result<(), Status> {
        let profile = self.profile;
        let (cluster, pod, form) = (self.cache.cluster(), &**self.pod, self.form);
        let state = &*self.state;
        let left = &mut self.scratch.candidates;
        left.copy_from(candidates);
        self.scratch.passed.resize(profile.filter.len(), NodeBits::default());
        for (plugin, passed) in profile.filter.iter().zip(&mut self.scratch.passed) {
            if !state.skips_filter(&plugin.name) && !left.is_empty() {
                ask(ExtensionPoint::Filter, &plugin.name, self.ports.probe, || match form {
                    Form::Set => plugin.plugin.filter_set(state, pod, cluster, left),
                    Form::OneNode => filter_each(left, |node| {
                        plugin.plugin.filter(state, pod, &cluster.node(node))
                    }),
                })
                .flatten()
                .map_err(|status| filter_error(plugin, &status))?;
            }
            passed.copy_from(left);
        }
        Ok(())
    }

    /// Redoes the nodes that other pods of at least this priority are nominated to: the pod must fit
    /// beside them, and without them. Returns the verdicts that replace those of the set pass.
    fn filter_nominated(
        &mut self,
        candidates: &NodeBits,
    ) -> Result<Vec<(NodeIx, Status)>, ScheduleError> {
        let mut verdicts = Vec::new();
        if self.nominator.is_empty() {
            return Ok(verdicts);
        }
        let filters = self.node_filters();
        for name in self.nominator.nodes() {
            let node = self.cache.cluster().node_named(name);
            let Some(node) = node.filter(|node| candidates.contains(*node)) else { continue };
            let nominated = filters.nominated_before(node);
            if nominated.is_empty() {
                continue;
            }
            let status = self.run_filters(&filters, node, &nominated)?;
            if !status.is_success() {
                self.scratch.candidates.remove(node);
                verdicts.push((node, status));
            }
        }
        Ok(verdicts)
    }

    /// The verdict on one node: with the pods nominated to it, then without.
    pub(super) fn filter_one(&mut self, node: NodeIx) -> Result<Status, ScheduleError> {
        let filters = self.node_filters();
        self.run_filters(&filters, node, &filters.nominated_before(node))
    }

    fn run_filters(
        &mut self,
        filters: &NodeFilters<'_>,
        node: NodeIx,
        nominated: &[Arc<Pod>],
    ) -> Result<Status, ScheduleError> {
        let (state, probe) = (&*self.state, &mut *self.ports.probe);
        let verdict = filters.run_with_nominated(nominated, state, node, None, Asked::All, probe);
        verdict.map_err(ScheduleError::Error)
    }

    fn node_filters(&self) -> NodeFilters<'a> {
        NodeFilters::new(self.profile, self.cache, self.nominator, self.pod, self.state)
    }

    /// Lists the nodes that passed: all, or as many as the sample asks for, in which case the nodes
    /// that were looked at are returned. The next search starts as far on as nodes passed or have a
    /// verdict, the one the pod is nominated to (`own`) among them.
    fn collect_feasible(&mut self, candidates: &NodeBits, own: Option<NodeIx>) -> Option<NodeBits> {
        let passed = &self.scratch.candidates;
        let feasible = &mut self.scratch.feasible.nodes;
        let Sampling::Percentage(percentage) = self.sampling else {
            feasible.extend(passed.iter());
            return None;
        };
        let order = self.cache.node_order();
        let order: Vec<NodeIx> =
            order.iter().copied().filter(|node| candidates.contains(*node)).collect();
        let scores = !self.profile.score.is_empty()
            || self.extenders.iter().any(|extender| extender.prioritize);
        let filters_outside = self.extenders.iter().any(|extender| extender.filter);
        let limit = match scores || filters_outside {
            true => num_feasible_nodes_to_find(order.len(), percentage),
            false => 1,
        };
        let mut looked_at = NodeBits::default();
        let start = if order.is_empty() { 0 } else { *self.next_start % order.len() };
        let (behind, ahead) = order.split_at(start);
        for node in ahead.iter().chain(behind) {
            if passed.contains(*node) {
                if feasible.len() == limit {
                    break;
                }
                feasible.push(*node);
            }
            looked_at.insert(*node);
        }
        let turned_down = |node| looked_at.contains(node) && !passed.contains(node);
        let apart = own.is_some_and(|node| !turned_down(node));
        let processed = looked_at.count() + usize::from(apart);
        *self.next_start =
            (*self.next_start + processed) % self.cache.cluster().node_count().max(1);
        Some(looked_at)
    }

    /// Asks each plugin why it turned down the nodes it did.
    fn explain(
        &mut self,
        looked_at: &NodeBits,
        nominated: &[(NodeIx, Status)],
        diagnosis: &mut Diagnosis,
    ) {
        let profile = self.profile;
        let (cluster, pod, form) = (self.cache.cluster(), &**self.pod, self.form);
        let state = &*self.state;
        let mut before = looked_at.clone();
        for (node, _) in nominated {
            before.remove(*node);
        }
        for (plugin, passed) in profile.filter.iter().zip(&self.scratch.passed) {
            let mut rejected = before.clone();
            rejected.subtract(passed);
            before.intersect(passed);
            if rejected.is_empty() {
                continue;
            }
            let verdicts = &mut diagnosis.verdicts;
            verdicts.attribute_to(&plugin.name);
            let explained = guarded(&plugin.name, self.ports.probe, || match form {
                Form::Set => plugin.plugin.explain_set(state, pod, cluster, &rejected, verdicts),
                Form::OneNode => rejected.iter().for_each(|node| {
                    verdicts.record(node, plugin.plugin.filter(state, pod, &cluster.node(node)));
                }),
            });
            if let Err(status) = explained {
                diagnosis.verdicts.record_all(&rejected, status);
            }
        }
        for (node, status) in nominated.iter().filter(|(node, _)| looked_at.contains(*node)) {
            diagnosis.verdicts.record(*node, status.clone());
        }
    }
}

/// The set form as a loop over the one-node form, also for plugins that have another.
fn filter_each(nodes: &mut NodeBits, filter: impl Fn(NodeIx) -> Status) -> Result<(), Status> {
    let mut failed = Ok(());
    nodes.retain(|node| {
        let status = filter(node);
        if !status.is_success() && !status.is_rejection() && failed.is_ok() {
            failed = Err(status);
            return false;
        }
        status.is_success()
    });
    failed
}

/// The verdict on nodes that PreFilter left out.
fn restriction_status(pre_filtered: &PreFiltered) -> Option<Status> {
    let (_, plugins) = pre_filtered.restriction.as_ref()?;
    let mut names: Vec<&str> = plugins.iter().map(AsRef::as_ref).collect();
    names.sort_unstable();
    Some(Status::unresolvable(format!("node(s) didn't satisfy plugin(s) [{}]", names.join(" "))))
}
