//! Dry runs for tests, without an engine.

use framework::{Cluster, CycleState, DryRun, NodeIx, NodeView, Overlay, PodIx, Status, Trial};

/// Dry runs with one function in place of the filters of a profile, and without PreFilter
/// extensions.
pub struct FakeDryRun<'a, F> {
    cluster: &'a Cluster,
    filter: F,
    exceptions: Option<Vec<NodeIx>>,
}

impl<'a, F: Fn(&NodeView<'_>) -> Status> FakeDryRun<'a, F> {
    /// Creates dry runs in `cluster`. `filter` receives the node with the pods of the dry run.
    pub const fn new(cluster: &'a Cluster, filter: F) -> Self {
        Self { cluster, filter, exceptions: None }
    }

    /// Lets outcomes depend only on the node and the pods on it, but for these nodes.
    #[must_use]
    pub fn with_exceptions(self, exceptions: Vec<NodeIx>) -> Self {
        Self { exceptions: Some(exceptions), ..self }
    }
}

impl<F: Fn(&NodeView<'_>) -> Status> DryRun for FakeDryRun<'_, F> {
    /// Every search begins with the first node.
    fn offset(&mut self, _count: usize) -> usize {
        0
    }

    fn exceptions(&self) -> Option<Vec<NodeIx>> {
        self.exceptions.clone()
    }

    fn trial<'a>(&'a mut self, state: &CycleState, node: NodeIx) -> Box<dyn Trial + 'a> {
        let (cluster, filter, state) = (self.cluster, &self.filter, state.clone());
        Box::new(FakeTrial { cluster, filter, node, overlay: Overlay::default(), state })
    }
}

struct FakeTrial<'a, F> {
    cluster: &'a Cluster,
    filter: &'a F,
    node: NodeIx,
    overlay: Overlay,
    state: CycleState,
}

impl<F: Fn(&NodeView<'_>) -> Status> Trial for FakeTrial<'_, F> {
    fn remove_pod(&mut self, pod: PodIx) -> Result<(), Status> {
        self.overlay.remove(self.cluster, pod);
        Ok(())
    }

    fn add_pod(&mut self, pod: PodIx) -> Result<(), Status> {
        self.overlay.restore(self.cluster, pod);
        Ok(())
    }

    fn run_filters(&mut self) -> Status {
        (self.filter)(&self.cluster.node(self.node).with(&self.overlay))
    }

    fn state(&self) -> &CycleState {
        &self.state
    }
}
