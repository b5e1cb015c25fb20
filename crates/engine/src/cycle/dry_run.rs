//! The filters of a profile on one node: as it is, or with other pods on it.

use std::borrow::Cow;
use std::sync::Arc;

use framework::preemption::Candidate;
use framework::{
    Attempt, AttemptMut, CycleState, DryRun, ExtensionPoint, Filter, Handle, NodeIx, NodeView,
    Overlay, PluginName, Pod, PodIx, PreFilterExtensions, Status, Trial,
};

use super::extender_preemption::PreemptingExtenders;
use super::settings::TieBreak;
use crate::plugin_call::{call_beside, call_plugin};
use crate::ports::{Count, Point, Probe};
use crate::profile::{Named, Profile};

/// The filters that decide about a pod on one node: the plugins that did not skip in its PreFilter.
pub(crate) struct NodeFilters<'a> {
    handle: Handle<'a>,
    pod: &'a Pod,
    filters: Vec<&'a Named<dyn Filter>>,
    /// The filters whose verdict depends on the pods of the node.
    depending_on_pods: Vec<&'a Named<dyn Filter>>,
    extensions: Vec<(&'a PluginName, &'a dyn PreFilterExtensions)>,
}

/// Which filters run on a node.
#[derive(Clone, Copy)]
pub(super) enum FilterSubset {
    All,
    /// Filters whose verdict depends on the pods of the node; the node has passed the others.
    DependingOnPods,
}

/// A node to filter.
pub(super) struct FilteredNode<'a> {
    pub(super) node: NodeIx,
    /// The pods added and removed in a dry run.
    pub(super) overlay: Option<&'a Overlay>,
    pub(super) filters: FilterSubset,
}

/// An extension of PreFilter.
#[derive(Clone, Copy)]
enum Extension {
    AddPod,
    RemovePod,
}

impl Extension {
    const fn name(self) -> &'static str {
        match self {
            Self::AddPod => "AddPod",
            Self::RemovePod => "RemovePod",
        }
    }

    const fn point(self) -> Point {
        match self {
            Self::AddPod => Point::PreFilterExtensionAddPod,
            Self::RemovePod => Point::PreFilterExtensionRemovePod,
        }
    }

    fn call(
        self,
        extensions: &dyn PreFilterExtensions,
        attempt: AttemptMut<'_>,
        other: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        match self {
            Self::AddPod => extensions.add_pod(attempt, other, node),
            Self::RemovePod => extensions.remove_pod(attempt, other, node),
        }
    }
}

impl<'a> NodeFilters<'a> {
    /// Returns the filters for an attempt of `pod` whose PreFilter has left `state`.
    pub(crate) fn new(
        profile: &'a Profile,
        handle: Handle<'a>,
        pod: &'a Pod,
        state: &CycleState,
    ) -> Self {
        let filters = profile.filter.iter().filter(|plugin| !state.skips_filter(&plugin.name));
        let filters: Vec<_> = filters.collect();
        let attempt = Attempt::new(state, pod, &handle);
        let depending_on_pods = filters.iter().filter(|plugin| depends_on_pods(plugin, &attempt));
        let depending_on_pods = depending_on_pods.copied().collect();
        let extensions = profile.pre_filter.iter().filter_map(|plugin| {
            let extensions = plugin.registered.pre_filter_extensions.as_deref()?;
            (!state.skips_filter(&plugin.name)).then_some((&plugin.name, extensions))
        });
        Self { handle, pod, depending_on_pods, filters, extensions: extensions.collect() }
    }

    /// Returns the nominated pods that take precedence over this one on the node.
    pub(super) fn nominated_before(&self, node: NodeIx) -> Vec<Arc<Pod>> {
        let mut pods = self.handle.nominated.nominated_to(self.handle.cluster.node_name(node));
        pods.retain(|pod| pod.priority() >= self.pod.priority() && pod.uid != self.pod.uid);
        pods
    }

    /// Returns the verdict on a node: beside the pods [nominated](Self::nominated_before) to it,
    /// then without them.
    ///
    /// # Errors
    /// A status that is not a rejection.
    pub(super) fn run_with_nominated(
        &self,
        nominated: &[Arc<Pod>],
        state: &CycleState,
        trial: &FilteredNode<'_>,
        probe: &mut dyn Probe,
    ) -> Result<Status, Status> {
        let view = self.handle.cluster.node(trial.node);
        let mut filters = trial.filters;
        if !nominated.is_empty() {
            let mut overlay = trial.overlay.cloned().unwrap_or_default();
            let mut beside = Cow::Borrowed(state);
            for pod in nominated {
                overlay.add(pod.clone());
                if !self.extensions.is_empty() {
                    let node = view.with(&overlay);
                    self.extend(Extension::AddPod, beside.to_mut(), pod, &node, probe)?;
                }
            }
            let status = self.run(&beside, &view.with(&overlay), filters, probe)?;
            if !status.is_success() {
                return Ok(status);
            }
            filters = FilterSubset::DependingOnPods;
        }
        match trial.overlay {
            Some(overlay) => self.run(state, &view.with(overlay), filters, probe),
            None => self.run(state, &view, filters, probe),
        }
    }

    /// Notifies every PreFilter plugin that did not skip of a pod that is added or removed.
    fn extend(
        &self,
        extension: Extension,
        state: &mut CycleState,
        other: &Pod,
        node: &NodeView<'_>,
        probe: &mut dyn Probe,
    ) -> Result<(), Status> {
        for (name, extensions) in &self.extensions {
            let status = call_plugin(extension.point(), name, probe, || {
                let attempt = AttemptMut::new(state, self.pod, &self.handle);
                extension.call(*extensions, attempt, other, node)
            })
            .unwrap_or_else(|status| status);
            if !status.is_success() {
                let (point, text) = (extension.name(), status.message());
                let text = format!("running {point} on PreFilter plugin {name:?}: {text}");
                return Err(Status::error(text).by(name));
            }
        }
        Ok(())
    }

    /// The one-node forms in order; the first that fails decides.
    fn run(
        &self,
        state: &CycleState,
        node: &NodeView<'_>,
        subset: FilterSubset,
        probe: &mut dyn Probe,
    ) -> Result<Status, Status> {
        let filters = match subset {
            FilterSubset::All => &self.filters,
            FilterSubset::DependingOnPods => &self.depending_on_pods,
        };
        let attempt = Attempt::new(state, self.pod, &self.handle);
        for plugin in filters {
            let status = call_plugin(ExtensionPoint::Filter, &plugin.name, probe, || {
                plugin.plugin.filter(&attempt, node)
            })
            .unwrap_or_else(|status| status);
            if status.is_rejection() {
                return Ok(status.by(&plugin.name));
            }
            if !status.is_success() {
                return Err(filter_error(plugin, &status));
            }
        }
        Ok(Status::success())
    }
}

/// Whether verdicts of the plugin depend on the pods of a node. A plugin that panics counts as one
/// whose verdicts do.
pub(super) fn depends_on_pods(own: &Named<dyn Filter>, attempt: &Attempt<'_>) -> bool {
    let dependence = call_beside("Filter", &own.name, &mut (), || own.dependence(attempt));
    dependence.map_or(true, |dependence| dependence.pods)
}

pub(super) fn filter_error(plugin: &Named<dyn Filter>, status: &Status) -> Status {
    let text = format!("running {:?} filter plugin: {}", plugin.name, status.message());
    Status::error(text).by(&plugin.name)
}

/// Dry runs for the pod of an attempt.
pub(crate) struct ProfileDryRun<'a, 'c> {
    pub filters: NodeFilters<'a>,
    pub rng: &'a mut fastrand::Rng,
    pub tie_break: TieBreak,
    /// Whether the verdict on each node depends only on the node, the pods on it and those
    /// nominated to it.
    pub are_local: bool,
    /// The node that the pod is nominated to.
    pub own_nomination: Option<NodeIx>,
    pub extenders: PreemptingExtenders<'a, 'c>,
    /// Plugins that panicked in the dry runs, which are not measured otherwise.
    pub panics: Panics,
}

/// Names of plugins that panicked.
#[derive(Default)]
pub(crate) struct Panics(Vec<PluginName>);

impl Probe for Panics {
    fn count(&mut self, count: Count<'_>) {
        if let Count::Panic { plugin } = count {
            self.0.push(plugin.clone());
        }
    }
}

impl Panics {
    /// Counts the panics.
    pub(crate) fn report(&self, probe: &mut dyn Probe) {
        self.0.iter().for_each(|plugin| probe.count(Count::Panic { plugin }));
    }
}

impl DryRun for ProfileDryRun<'_, '_> {
    fn offset(&mut self, count: usize) -> usize {
        match self.tie_break {
            TieBreak::FirstByName => 0,
            TieBreak::Random => self.rng.usize(..count.max(1)),
        }
    }

    fn trial<'a>(&'a mut self, state: &CycleState, node: NodeIx) -> Box<dyn Trial + 'a> {
        Box::new(NodeTrial {
            filters: &self.filters,
            node,
            nominated: self.filters.nominated_before(node),
            overlay: Overlay::default(),
            state: state.clone(),
            subset: FilterSubset::All,
            panics: &mut self.panics,
        })
    }

    fn exceptions(&self) -> Option<Vec<NodeIx>> {
        let are_kept = self.are_local && !self.has_interested_preempting_extender();
        are_kept.then(|| self.own_nomination.into_iter().collect())
    }

    fn has_interested_preempting_extender(&self) -> bool {
        self.extenders.has_interested(self.filters.pod)
    }

    fn process_preemption(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Candidate>, Status> {
        let NodeFilters { pod, handle, .. } = &self.filters;
        self.extenders.process_preemption(pod, handle.cluster, candidates)
    }
}

/// A dry run on one node.
struct NodeTrial<'a> {
    filters: &'a NodeFilters<'a>,
    node: NodeIx,
    nominated: Vec<Arc<Pod>>,
    overlay: Overlay,
    state: CycleState,
    subset: FilterSubset,
    panics: &'a mut Panics,
}

impl NodeTrial<'_> {
    /// Whether a pod is on the node. Others are removed with the pods of their group.
    fn is_here(&self, pod: PodIx) -> bool {
        self.filters.handle.cluster.pod(pod).node == self.node
    }

    /// Notifies the plugins of a pod that was added or removed.
    fn extend(&mut self, extension: Extension, pod: PodIx) -> Result<(), Status> {
        let cluster = self.filters.handle.cluster;
        let placed = cluster.pod(pod);
        let view = cluster.node(placed.node);
        let view = if self.is_here(pod) { view.with(&self.overlay) } else { view };
        self.filters.extend(extension, &mut self.state, &placed.pod, &view, self.panics)
    }
}

impl Trial for NodeTrial<'_> {
    fn remove_pod(&mut self, pod: PodIx) -> Result<(), Status> {
        if self.is_here(pod) {
            self.overlay.remove(self.filters.handle.cluster, pod);
        }
        self.extend(Extension::RemovePod, pod)
    }

    fn add_pod(&mut self, pod: PodIx) -> Result<(), Status> {
        self.overlay.restore(self.filters.handle.cluster, pod);
        self.extend(Extension::AddPod, pod)
    }

    fn state(&self) -> &CycleState {
        &self.state
    }

    fn run_filters(&mut self) -> Status {
        let node =
            FilteredNode { node: self.node, overlay: Some(&self.overlay), filters: self.subset };
        let verdict =
            self.filters.run_with_nominated(&self.nominated, &self.state, &node, self.panics);
        let status = verdict.unwrap_or_else(|error| error);
        if status.is_success() {
            self.subset = FilterSubset::DependingOnPods;
        }
        status
    }
}
