//! The filter pass.

use std::sync::Arc;

use framework::{
    Attempt, CycleState, ExtensionPoint, Filter, NodeBits, NodeIx, Pod, Status, Verdicts,
};

use super::diagnosis::Diagnosis;
use super::dry_run::{FilterSubset, FilteredNode, NodeFilters, Panics, filter_error};
use super::error::ScheduleError;
use super::extender::filter_by_extenders;
use super::prepare::Prepared;
use super::report::Report;
use super::sampling::{Sampling, num_feasible_nodes_to_find};
use super::settings::Form;
use super::subject::Subject;
use crate::plugin_call::{call_beside, call_plugin};
use crate::ports::Probe;
use crate::profile::{EXTENDER, Named};

/// Buffers of the filter pass, which decisions reuse.
#[derive(Debug, Default)]
pub(crate) struct FilterPass {
    /// The nodes that are left.
    left: NodeBits,
    /// The nodes left after each filter plugin, by its index in the profile.
    passed: Vec<NodeBits>,
    feasible: Vec<NodeIx>,
}

/// The nodes that can take the pod.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidates<'s> {
    /// Ascending by id unless the search was sampled.
    pub(crate) nodes: &'s [NodeIx],
    /// Number of nodes that were looked at.
    pub(crate) evaluated: usize,
}

/// A full pass over the nodes to search.
pub(crate) struct FullPass<'p> {
    pub(crate) prepared: &'p Prepared,
    /// The verdict on the node that the pod is nominated to, if that node has rejected it.
    pub(crate) own: Option<(NodeIx, Status)>,
    /// Where a sampled search starts in the node order. The search moves it on.
    pub(crate) next_start: &'p mut usize,
    /// Filled for explanations.
    pub(crate) report: Option<&'p mut Report>,
}

impl FilterPass {
    /// Finds the nodes that can take the pod.
    ///
    /// # Errors
    /// There is none, or a plugin or extender failed.
    pub(crate) fn run(
        &mut self,
        subject: &mut Subject<'_, '_>,
        pass: FullPass<'_>,
    ) -> Result<Candidates<'_>, ScheduleError> {
        let FullPass { prepared, own, next_start, report } = pass;
        let nodes = prepared.nodes(subject);
        let passed =
            subject.measure(ExtensionPoint::Filter, |subject| self.filter_set(subject, nodes));
        passed.map_err(ScheduleError::Error)?;
        let nominated = self.reject_beside_nominated(subject, nodes)?;
        let own_node = own.as_ref().map(|(node, _)| *node);
        let visited = self.collect_feasible(subject, nodes, own_node, next_start);
        let visited = visited.as_ref().unwrap_or(nodes);

        let mut verdicts = Verdicts::default();
        own.into_iter().for_each(|(node, status)| verdicts.record(node, status));
        let before = self.feasible.len();
        filter_by_extenders(subject, &mut self.feasible, &mut verdicts)
            .map_err(ScheduleError::Error)?;
        let found = !self.feasible.is_empty();
        if !found || report.is_some() {
            let mut diagnosis = Diagnosis { verdicts: verdicts.into(), ..Diagnosis::default() };
            diagnosis.record_restriction(&prepared.restricting);
            if self.feasible.len() < before {
                diagnosis.unschedulable_plugins.insert(EXTENDER.into());
            }
            let verdicts = Arc::make_mut(&mut diagnosis.verdicts);
            self.explain_rejections(subject, visited, &nominated, verdicts);
            if let Some(status) = prepared.outside() {
                verdicts.set_absent(status);
            }
            diagnosis.record_verdicts();
            if !found {
                return Err(subject.rejected(diagnosis));
            }
            if let Some(report) = report {
                report.passed = self.feasible.iter().copied().collect();
                report.rejectors = diagnosis.unschedulable_plugins;
                report.verdicts = Arc::unwrap_or_clone(diagnosis.verdicts);
            }
        }
        Ok(Candidates { nodes: &self.feasible, evaluated: visited.count() })
    }

    /// Returns one node that can take the pod, after a look at no other.
    pub(super) fn only(&mut self, node: NodeIx) -> Candidates<'_> {
        self.feasible.clear();
        self.feasible.push(node);
        Candidates { nodes: &self.feasible, evaluated: 1 }
    }

    /// Returns the nodes that pass every filter, in ascending order.
    ///
    /// # Errors
    /// A plugin or extender failed.
    pub(crate) fn passing(
        &mut self,
        subject: &mut Subject<'_, '_>,
        nodes: &NodeBits,
    ) -> Result<Vec<NodeIx>, ScheduleError> {
        self.filter_set(subject, nodes).map_err(ScheduleError::Error)?;
        self.reject_beside_nominated(subject, nodes)?;
        let mut passing: Vec<NodeIx> = self.left.iter().collect();
        let mut verdicts = Verdicts::default();
        filter_by_extenders(subject, &mut passing, &mut verdicts).map_err(ScheduleError::Error)?;
        Ok(passing)
    }

    /// Runs every filter plugin over all nodes, and keeps the nodes left after each.
    fn filter_set(
        &mut self,
        subject: &mut Subject<'_, '_>,
        nodes: &NodeBits,
    ) -> Result<(), Status> {
        let profile = subject.profile;
        self.left.copy_from(nodes);
        self.passed.resize(profile.filter.len(), NodeBits::default());
        for (plugin, passed) in profile.filter.iter().zip(&mut self.passed) {
            if !subject.state.skips_filter(&plugin.name) {
                retain_passing(subject, plugin, &mut self.left)?;
            }
            passed.copy_from(&self.left);
        }
        Ok(())
    }

    /// Removes the nodes that do not fit the pod beside the pods that are nominated to them.
    /// Returns the verdicts.
    fn reject_beside_nominated(
        &mut self,
        subject: &mut Subject<'_, '_>,
        nodes: &NodeBits,
    ) -> Result<Vec<(NodeIx, Status)>, ScheduleError> {
        let verdicts = rejections_beside_nominated(subject, nodes)?;
        verdicts.iter().for_each(|(node, _)| {
            self.left.remove(*node);
        });
        Ok(verdicts)
    }

    /// Lists the feasible nodes: all, or the number that the sample asks for. In a sampled search
    /// returns the nodes that were visited, and moves the start of the next search on by the number
    /// of nodes that passed or have a verdict, the node that the pod is nominated to (`own`)
    /// included.
    fn collect_feasible(
        &mut self,
        subject: &Subject<'_, '_>,
        nodes: &NodeBits,
        own: Option<NodeIx>,
        next_start: &mut usize,
    ) -> Option<NodeBits> {
        let Self { left: passed, feasible, .. } = self;
        let settings = subject.settings;
        feasible.clear();
        let Sampling::Percentage(percentage) = settings.sampling(subject.profile) else {
            feasible.extend(passed.iter());
            return None;
        };
        let order = subject.world.node_order();
        let order: Vec<NodeIx> =
            order.iter().copied().filter(|node| nodes.contains(*node)).collect();
        let scores = !subject.profile.score.is_empty()
            || settings.extenders.iter().any(|extender| extender.prioritize);
        let filters_outside = settings.extenders.iter().any(|extender| extender.filter);
        let limit = match scores || filters_outside {
            true => num_feasible_nodes_to_find(order.len(), percentage),
            false => 1,
        };
        let mut visited = NodeBits::default();
        let start = if order.is_empty() { 0 } else { *next_start % order.len() };
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
        *next_start = (*next_start + processed) % subject.cluster().node_count().max(1);
        Some(visited)
    }

    /// Records the reason of each plugin for the nodes that it rejected.
    fn explain_rejections(
        &self,
        subject: &mut Subject<'_, '_>,
        visited: &NodeBits,
        nominated: &[(NodeIx, Status)],
        verdicts: &mut Verdicts,
    ) {
        let (profile, form, handle) = (subject.profile, subject.form, subject.handle());
        let attempt = Attempt::new(&subject.state, subject.pod, &handle);
        let mut before = visited.clone();
        for (node, _) in nominated {
            before.remove(*node);
        }
        for (plugin, passed) in profile.filter.iter().zip(&self.passed) {
            let mut rejected = before.clone();
            rejected.subtract(passed);
            before.intersect(passed);
            if rejected.is_empty() {
                continue;
            }
            verdicts.attribute_to(&plugin.name);
            let explained = call_beside("Filter", &plugin.name, subject.cx.probe, || match form {
                Form::Set | Form::Ranked => {
                    plugin.plugin.explain_set(&attempt, &rejected, verdicts);
                }
                Form::OneNode => rejected.iter().for_each(|node| {
                    let status = plugin.plugin.filter(&attempt, &handle.cluster.node(node));
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

/// Retains the nodes that pass a filter plugin.
pub(crate) fn retain_passing(
    subject: &mut Subject<'_, '_>,
    own: &Named<dyn Filter>,
    nodes: &mut NodeBits,
) -> Result<(), Status> {
    if nodes.is_empty() {
        return Ok(());
    }
    let (form, handle) = (subject.form, subject.handle());
    let attempt = Attempt::new(&subject.state, subject.pod, &handle);
    call_plugin(ExtensionPoint::Filter, &own.name, subject.cx.probe, || match form {
        Form::Set | Form::Ranked => own.plugin.filter_set(&attempt, nodes),
        Form::OneNode => {
            filter_each(nodes, |node| own.plugin.filter(&attempt, &handle.cluster.node(node)))
        }
    })
    .flatten()
    .map_err(|status| filter_error(own, &status))
}

/// Filters again the nodes to which other pods of at least this priority are nominated: the pod
/// must fit beside them, and without them. Returns the verdicts that replace the verdicts of the
/// set pass.
///
/// The set pass measures the plugins. Here only their panics are counted: in a wave of preemptors,
/// thousands of short calls would cost less than their measurement.
pub(crate) fn rejections_beside_nominated(
    subject: &mut Subject<'_, '_>,
    nodes: &NodeBits,
) -> Result<Vec<(NodeIx, Status)>, ScheduleError> {
    let (nominator, cluster) = (subject.world.nominator(), subject.cluster());
    let nominated = nominator.nodes().filter_map(|name| cluster.node_named(name));
    rejections_beside(subject, nominated.filter(|node| nodes.contains(*node)))
}

/// Filters those of `nodes` again to which pods are [nominated](rejections_beside_nominated).
pub(crate) fn rejections_beside(
    subject: &mut Subject<'_, '_>,
    nodes: impl IntoIterator<Item = NodeIx>,
) -> Result<Vec<(NodeIx, Status)>, ScheduleError> {
    let mut verdicts = Vec::new();
    if subject.world.nominator().is_empty() {
        return Ok(verdicts);
    }
    let filters = node_filters(subject);
    let mut panics = Panics::default();
    let mut failed = Ok(());
    for node in nodes {
        let nominated = filters.nominated_before(node);
        if nominated.is_empty() {
            continue;
        }
        match run_filters(&filters, node, &nominated, &subject.state, &mut panics) {
            Ok(status) if status.is_success() => {}
            Ok(status) => verdicts.push((node, status)),
            Err(error) => {
                failed = Err(error);
                break;
            }
        }
    }
    panics.report(subject.cx.probe);
    failed.map(|()| verdicts)
}

/// Returns the verdict on one node: beside the pods nominated to it, then without them.
pub(crate) fn verdict_on(
    subject: &mut Subject<'_, '_>,
    node: NodeIx,
) -> Result<Status, ScheduleError> {
    let filters = node_filters(subject);
    let nominated = filters.nominated_before(node);
    run_filters(&filters, node, &nominated, &subject.state, subject.cx.probe)
}

fn node_filters<'a>(subject: &Subject<'a, '_>) -> NodeFilters<'a> {
    NodeFilters::new(subject.profile, subject.handle(), subject.pod, &subject.state)
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
