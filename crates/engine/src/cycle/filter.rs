//! The filter pass.

use std::sync::Arc;

use framework::{CycleState, ExtensionPoint, Filter, NodeBits, NodeIx, Pod, Status, Verdicts};

use super::dry_run::{FilterSubset, FilteredNode, NodeFilters, filter_error};
use super::sampling::{Sampling, num_feasible_nodes_to_find};
use super::{Cycle, Depth, Diagnosis, Form, Panics, PreFiltered, ScheduleError};
use crate::plugin_call::{HasCode, call_beside, call_plugin};
use crate::ports::Probe;
use crate::profile::{EXTENDER, Named};

impl<'a> Cycle<'a, '_> {
    /// Finds the nodes that can take the pod, into the scratch. `own` is the verdict on the node that the
    /// pod is nominated to, if that node has rejected it.
    pub(super) fn filter(
        &mut self,
        pre_filtered: &PreFiltered,
        own: Option<(NodeIx, Status)>,
    ) -> Result<(), ScheduleError> {
        let candidates = self.candidates(pre_filtered);
        self.start(ExtensionPoint::Filter);
        let passed = self.filter_set(&candidates);
        self.stop(ExtensionPoint::Filter, passed.code());
        passed.map_err(ScheduleError::Error)?;
        let nominated = self.filter_nominated(&candidates)?;
        let own_node = own.as_ref().map(|(node, _)| *node);
        let visited = self.collect_feasible(&candidates, own_node);
        self.scratch.feasible.evaluated = visited.as_ref().unwrap_or(&candidates).count();

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
        let mut diagnosis = Diagnosis { verdicts: verdicts.into(), ..Diagnosis::default() };
        diagnosis.record_restriction(pre_filtered);
        if extenders_rejected {
            diagnosis.unschedulable_plugins.insert(EXTENDER.into());
        }
        self.explain_rejections(
            visited.as_ref().unwrap_or(&candidates),
            &nominated,
            Arc::make_mut(&mut diagnosis.verdicts),
        );
        if let Some(status) = restriction_status(pre_filtered) {
            Arc::make_mut(&mut diagnosis.verdicts).set_absent(status);
        }
        diagnosis.record_verdicts();
        if !found {
            return Err(self.rejected(diagnosis));
        }
        self.report.passed = self.scratch.feasible.nodes.iter().copied().collect();
        self.report.rejectors = diagnosis.unschedulable_plugins;
        self.report.verdicts = Arc::unwrap_or_clone(diagnosis.verdicts);
        Ok(())
    }

    /// Returns the nodes to filter: all, or those to which PreFilter restricts the search.
    pub(super) fn candidates(&self, pre_filtered: &PreFiltered) -> NodeBits {
        let cluster = self.view.cluster();
        match &pre_filtered.restriction {
            None => cluster.nodes().clone(),
            Some((names, _)) => names.iter().filter_map(|name| cluster.node_named(name)).collect(),
        }
    }

    /// Runs every filter plugin over all candidates, and keeps the nodes left after each.
    pub(super) fn filter_set(&mut self, candidates: &NodeBits) -> Result<(), Status> {
        let profile = self.profile;
        self.scratch.candidates.copy_from(candidates);
        self.scratch.passed.resize(profile.filter.len(), NodeBits::default());
        for (place, plugin) in profile.filter.iter().enumerate() {
            if !self.state.skips_filter(&plugin.name) {
                self.filter_left(plugin)?;
            }
            self.scratch.passed[place].copy_from(&self.scratch.candidates);
        }
        Ok(())
    }

    /// Runs a filter plugin over the candidates that are left.
    pub(super) fn filter_left(&mut self, own: &Named<dyn Filter>) -> Result<(), Status> {
        if self.scratch.candidates.is_empty() {
            return Ok(());
        }
        let (handle, pod, form) = (self.handle(), &**self.pod, self.form);
        let (state, left) = (&*self.state, &mut self.scratch.candidates);
        call_plugin(ExtensionPoint::Filter, &own.name, self.cx.probe, || match form {
            Form::Set | Form::Ranked => own.plugin.filter_set(state, pod, &handle, left),
            Form::OneNode => filter_each(left, |node| {
                own.plugin.filter(state, pod, &handle.cluster.node(node), &handle)
            }),
        })
        .flatten()
        .map_err(|status| filter_error(own, &status))
    }

    /// Filters again the nodes to which other pods of at least this priority are nominated: the pod must
    /// fit beside them, and without them. Returns the verdicts that replace those of the set pass.
    ///
    /// The set pass measures the plugins. Here only their panics are counted: in a wave of preemptors, thousands of
    /// short calls would cost less than their measurement.
    pub(super) fn filter_nominated(
        &mut self,
        candidates: &NodeBits,
    ) -> Result<Vec<(NodeIx, Status)>, ScheduleError> {
        let mut verdicts = Vec::new();
        let nominator = self.view.nominator();
        if nominator.is_empty() {
            return Ok(verdicts);
        }
        let filters = self.node_filters();
        let mut panics = Panics::default();
        let mut failed = Ok(());
        for name in nominator.nodes() {
            let node = self.view.cluster().node_named(name);
            let Some(node) = node.filter(|node| candidates.contains(*node)) else { continue };
            let nominated = filters.nominated_before(node);
            if nominated.is_empty() {
                continue;
            }
            match run_filters(&filters, node, &nominated, self.state, &mut panics) {
                Ok(status) if status.is_success() => {}
                Ok(status) => {
                    self.scratch.candidates.remove(node);
                    verdicts.push((node, status));
                }
                Err(error) => {
                    failed = Err(error);
                    break;
                }
            }
        }
        panics.report(self.cx.probe);
        failed.map(|()| verdicts)
    }

    /// Returns the verdict on one node: beside the pods nominated to it, then without them.
    pub(super) fn filter_one(&mut self, node: NodeIx) -> Result<Status, ScheduleError> {
        let filters = self.node_filters();
        let nominated = filters.nominated_before(node);
        run_filters(&filters, node, &nominated, self.state, self.cx.probe)
    }

    fn node_filters(&self) -> NodeFilters<'a> {
        NodeFilters::new(self.profile, self.handle(), self.pod, self.state)
    }

    /// Lists the feasible nodes: all, or the number that the sample asks for. In a sampled search returns
    /// the nodes that were visited, and moves the start of the next search on by the number of nodes that
    /// passed or have a verdict, the node that the pod is nominated to (`own`) included.
    fn collect_feasible(&mut self, candidates: &NodeBits, own: Option<NodeIx>) -> Option<NodeBits> {
        let passed = &self.scratch.candidates;
        let feasible = &mut self.scratch.feasible.nodes;
        let Sampling::Percentage(percentage) = self.sampling else {
            feasible.extend(passed.iter());
            return None;
        };
        let order = self.view.cache().node_order();
        let order: Vec<NodeIx> =
            order.iter().copied().filter(|node| candidates.contains(*node)).collect();
        let scores = !self.profile.score.is_empty()
            || self.settings.extenders.iter().any(|extender| extender.prioritize);
        let filters_outside = self.settings.extenders.iter().any(|extender| extender.filter);
        let limit = match scores || filters_outside {
            true => num_feasible_nodes_to_find(order.len(), percentage),
            false => 1,
        };
        let mut visited = NodeBits::default();
        let start = if order.is_empty() { 0 } else { *self.next_start % order.len() };
        let (behind, ahead) = order.split_at(start);
        for node in ahead.iter().chain(behind) {
            if passed.contains(*node) {
                if feasible.len() == limit {
                    break;
                }
                feasible.push(*node);
            }
            visited.insert(*node);
        }
        let rejected = |node| visited.contains(node) && !passed.contains(node);
        let apart = own.is_some_and(|node| !rejected(node));
        let processed = visited.count() + usize::from(apart);
        *self.next_start = (*self.next_start + processed) % self.view.cluster().node_count().max(1);
        Some(visited)
    }

    /// Records the reason of each plugin for the nodes that it rejected.
    fn explain_rejections(
        &mut self,
        visited: &NodeBits,
        nominated: &[(NodeIx, Status)],
        verdicts: &mut Verdicts,
    ) {
        let profile = self.profile;
        let (handle, pod, form) = (self.handle(), &**self.pod, self.form);
        let state = &*self.state;
        let mut before = visited.clone();
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
            verdicts.attribute_to(&plugin.name);
            let explained = call_beside("Filter", &plugin.name, self.cx.probe, || match form {
                Form::Set | Form::Ranked => {
                    plugin.plugin.explain_set(state, pod, &handle, &rejected, verdicts);
                }
                Form::OneNode => rejected.iter().for_each(|node| {
                    let status =
                        plugin.plugin.filter(state, pod, &handle.cluster.node(node), &handle);
                    verdicts.record(node, status);
                }),
            });
            if let Err(status) = explained {
                verdicts.record_all(&rejected, status);
            }
        }
        for (node, status) in nominated.iter().filter(|(node, _)| visited.contains(*node)) {
            verdicts.record(*node, status.clone());
        }
    }
}

fn run_filters(
    filters: &NodeFilters<'_>,
    node: NodeIx,
    nominated: &[Arc<Pod>],
    state: &CycleState,
    probe: &mut dyn Probe,
) -> Result<Status, ScheduleError> {
    let node = FilteredNode { node, overlay: None, filters: FilterSubset::All };
    filters.run_with_nominated(nominated, state, &node, probe).map_err(ScheduleError::Error)
}

/// Runs the one-node form over a set, also for plugins that have a set form.
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

/// Returns the verdict on nodes to which PreFilter does not restrict the search.
fn restriction_status(pre_filtered: &PreFiltered) -> Option<Status> {
    let (_, plugins) = pre_filtered.restriction.as_ref()?;
    let mut names: Vec<&str> = plugins.iter().map(AsRef::as_ref).collect();
    names.sort_unstable();
    Some(Status::unresolvable(format!("node(s) didn't satisfy plugin(s) [{}]", names.join(" "))))
}
