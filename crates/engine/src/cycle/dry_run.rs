//! The filters of a profile on one node: as it is, or with other pods on it.

use std::sync::Arc;

use framework::{
    CycleState, DryRun, ExtensionPoint, Filter, NodeIx, NodeView, NominatedPods, Overlay,
    PluginName, Pod, PodIx, PreFilterExtensions, Status, Trial,
};

use crate::cache::Cache;
use crate::engine::TieBreak;
use crate::guard::{ask, guarded};
use crate::ports::{Count, Probe};
use crate::profile::{Named, PreFilterPlugin, Profile};
use crate::queue::Nominator;

/// What decides about a pod on one node.
#[derive(Clone, Copy)]
pub(crate) struct NodeFilters<'a> {
    pub profile: &'a Profile,
    pub cache: &'a Cache,
    pub nominator: &'a Nominator,
    pub pod: &'a Pod,
}

/// Which filters are asked about a node.
#[derive(Clone, Copy)]
pub(super) enum Asked {
    All,
    /// Those whose verdict depends on the pods of the node. The others have let it pass before.
    DependingOnPods,
}

impl Asked {
    fn includes(self, plugin: &Named<dyn Filter>) -> bool {
        matches!(self, Self::All) || plugin.plugin.depends_on_pods()
    }
}

/// Which way a pod comes into the state of an attempt.
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

    fn call(
        self,
        extensions: &dyn PreFilterExtensions,
        state: &mut CycleState,
        pod: &Pod,
        other: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        match self {
            Self::AddPod => extensions.add_pod(state, pod, other, node),
            Self::RemovePod => extensions.remove_pod(state, pod, other, node),
        }
    }
}

impl NodeFilters<'_> {
    /// Pods nominated to the node that come before this one.
    pub(super) fn nominated_before(&self, node: &str) -> Vec<Arc<Pod>> {
        let mut pods = self.nominator.nominated_to(node);
        pods.retain(|pod| pod.priority() >= self.pod.priority() && pod.uid != self.pod.uid);
        pods
    }

    /// The verdict on a node that is as it is or, with an overlay, as in a what-if: beside the pods
    /// nominated to it, then without them.
    ///
    /// # Errors
    /// A status that is no rejection.
    pub(super) fn run_with_nominated(
        &self,
        state: &CycleState,
        node: NodeIx,
        what_if: Option<&Overlay>,
        asked: Asked,
        probe: &mut dyn Probe,
    ) -> Result<Status, Status> {
        let view = self.cache.cluster().node(node);
        let nominated = self.nominated_before(view.name());
        if !nominated.is_empty() {
            let mut overlay = what_if.cloned().unwrap_or_default();
            let mut state = state.clone();
            for pod in nominated {
                overlay.add(pod.clone());
                self.extend(Extension::AddPod, &mut state, &pod, &view.with(&overlay), probe)?;
            }
            let status = self.run(&state, &view.with(&overlay), asked, probe)?;
            if !status.is_success() {
                return Ok(status);
            }
        }
        match what_if {
            Some(overlay) => self.run(state, &view.with(overlay), asked, probe),
            None => self.run(state, &view, asked, probe),
        }
    }

    /// Tells every PreFilter plugin that did not skip of a pod that is added or removed.
    fn extend(
        &self,
        extension: Extension,
        state: &mut CycleState,
        other: &Pod,
        node: &NodeView<'_>,
        probe: &mut dyn Probe,
    ) -> Result<(), Status> {
        for PreFilterPlugin { name, extensions, .. } in &self.profile.pre_filter {
            let Some(extensions) = extensions.as_deref().filter(|_| !state.skips_filter(name))
            else {
                continue;
            };
            let status =
                guarded(name, probe, || extension.call(extensions, state, self.pod, other, node))
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
        asked: Asked,
        probe: &mut dyn Probe,
    ) -> Result<Status, Status> {
        for plugin in &self.profile.filter {
            if !asked.includes(plugin) || state.skips_filter(&plugin.name) {
                continue;
            }
            let status = ask(ExtensionPoint::Filter, &plugin.name, probe, || {
                plugin.plugin.filter(state, self.pod, node)
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

pub(super) fn filter_error(plugin: &Named<dyn Filter>, status: &Status) -> Status {
    let text = format!("running {:?} filter plugin: {}", plugin.name, status.message());
    Status::error(text).by(&plugin.name)
}

/// Dry runs for the pod of an attempt.
pub(crate) struct ProfileDryRun<'a> {
    pub filters: NodeFilters<'a>,
    pub rng: &'a mut fastrand::Rng,
    pub tie_break: TieBreak,
    /// Plugins that panicked meanwhile. Nothing else is measured of a dry run.
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
    /// Tells of them.
    pub(crate) fn tell(&self, probe: &mut dyn Probe) {
        self.0.iter().for_each(|plugin| probe.count(Count::Panic { plugin }));
    }
}

impl DryRun for ProfileDryRun<'_> {
    fn offset(&mut self, count: usize) -> usize {
        match self.tie_break {
            TieBreak::FirstByName => 0,
            TieBreak::Random => self.rng.usize(..count.max(1)),
        }
    }

    fn trial<'a>(&'a mut self, state: &CycleState, node: NodeIx) -> Box<dyn Trial + 'a> {
        Box::new(NodeTrial {
            filters: self.filters,
            node,
            overlay: Overlay::default(),
            state: state.clone(),
            asked: Asked::All,
            panics: &mut self.panics,
        })
    }
}

/// A node with some of its pods taken away.
struct NodeTrial<'a> {
    filters: NodeFilters<'a>,
    node: NodeIx,
    overlay: Overlay,
    state: CycleState,
    asked: Asked,
    panics: &'a mut Panics,
}

impl NodeTrial<'_> {
    /// Tells the plugins of a pod that the overlay has or lacks by now.
    fn extend(&mut self, extension: Extension, pod: PodIx) -> Result<(), Status> {
        let cluster = self.filters.cache.cluster();
        let (view, other) = (cluster.node(self.node), &cluster.pod(pod).pod);
        let (view, panics) = (view.with(&self.overlay), &mut *self.panics);
        self.filters.extend(extension, &mut self.state, other, &view, panics)
    }
}

impl Trial for NodeTrial<'_> {
    fn remove_pod(&mut self, pod: PodIx) -> Result<(), Status> {
        self.overlay.remove(self.filters.cache.cluster(), pod);
        self.extend(Extension::RemovePod, pod)
    }

    fn add_pod(&mut self, pod: PodIx) -> Result<(), Status> {
        self.overlay.restore(self.filters.cache.cluster(), pod);
        self.extend(Extension::AddPod, pod)
    }

    fn run_filters(&mut self) -> Status {
        let (filters, overlay, panics) = (self.filters, Some(&self.overlay), &mut *self.panics);
        let verdict =
            filters.run_with_nominated(&self.state, self.node, overlay, self.asked, panics);
        let status = verdict.unwrap_or_else(|error| error);
        if status.is_success() {
            self.asked = Asked::DependingOnPods;
        }
        status
    }
}
