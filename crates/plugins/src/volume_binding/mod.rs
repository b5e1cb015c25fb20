//! VolumeBinding: rejects nodes that cannot have the volumes of a pod, and binds the volumes after
//! a node is chosen.
//!
//! `claims` separates bound claims from claims with delayed binding. For a delayed claim a node
//! must have a matching volume (`matching`) or allow provisioning (`capacity`). `find` checks one
//! node and `conflicts` checks sets of nodes. The changes for the chosen node are assumed
//! (`assumed`) and then written (`bind`).

mod affinity;
mod args;
mod assumed;
mod bind;
mod capacity;
mod claims;
mod conflicts;
mod find;
mod hints;
mod matching;
mod partition;
mod score;
#[cfg(test)]
mod tests;
mod usable_nodes;

use std::sync::Arc;
use std::time::Duration;

use framework::{
    Attempt, AttemptMut, Cluster, CycleState, Dependence, Filter, FilterScope, NodeBits, NodeIx,
    NodeView, Plugin, PluginArgs, PreBind, PreBindInput, PreBindPreFlight, PreBindStep, PreFilter,
    PreFilterResult, PreScore, Reserve, Score, ScoreScope, Status, Verdicts,
};

use self::args::Args;
use self::assumed::AssumeCaches;
use self::bind::VolumeBinder;
use self::claims::PodVolumeClaims;
use self::conflicts::Conflicts;
use self::find::{ConflictReason, find_pod_volumes};
use crate::shape::Ratings;

/// Plugin name.
pub const NAME: &str = "VolumeBinding";

/// The VolumeBinding plugin.
#[derive(Debug)]
pub struct VolumeBinding {
    caches: Arc<AssumeCaches>,
    bind_timeout: Duration,
    ratings: Option<Ratings>,
}

/// Makes the plugin from `VolumeBindingArgs`, with its own assume caches.
///
/// # Errors
/// Returns all invalid arguments.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    plugin_with(args, &Arc::default())
}

/// Makes the plugin with assume caches shared with other profiles.
///
/// # Errors
/// Returns all invalid arguments.
pub(crate) fn plugin_with(args: &PluginArgs, caches: &Arc<AssumeCaches>) -> Result<Plugin, String> {
    let args = Args::decode(args)?;
    let plugin = VolumeBinding {
        caches: caches.clone(),
        bind_timeout: args.bind_timeout(),
        ratings: args.ratings(),
    };
    let plugin = Plugin::new(NAME, plugin)
        .pre_filter()
        .filter()
        .pre_score()
        .score()
        .reserve()
        .pre_bind()
        .debug()
        .args(&args);
    Ok(hints::register(plugin).build())
}

/// The cycle state of PreFilter: the claims of the pod; `None` if it has none.
#[derive(Debug, Clone)]
struct Claims(Option<Arc<PodVolumeClaims>>);

/// The cycle state of Reserve: the work left for the volumes of a pod on the chosen node.
#[derive(Debug, Clone)]
enum Reserved {
    /// All volumes are bound.
    AllBound,
    /// The volumes are being bound.
    Binding(VolumeBinder),
}

/// Returns the claims that PreFilter found.
fn claims_in(state: &CycleState) -> Result<Option<&Arc<PodVolumeClaims>>, Status> {
    match state.read() {
        Some(Claims(claims)) => Ok(claims.as_ref()),
        None => Err(Status::error("not found")),
    }
}

impl PreFilter for VolumeBinding {
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        let AttemptMut { state, pod, handle, .. } = attempt;
        if pod.spec.volumes.is_empty() {
            state.write(Claims(None));
            return Err(Status::skip());
        }
        let claims = PodVolumeClaims::of(pod, handle.cluster, &self.caches.lock())?;
        let is_skipped = claims.is_none();
        state.write(Claims(claims.map(Arc::new)));
        if is_skipped { Err(Status::skip()) } else { Ok(PreFilterResult::default()) }
    }
}

impl VolumeBinding {
    fn conflicts(
        &self,
        state: &CycleState,
        cluster: &Cluster,
        nodes: &NodeBits,
    ) -> Result<Conflicts, Status> {
        match claims_in(state)? {
            Some(claims) => Conflicts::of(claims, nodes, cluster, &self.caches.lock()),
            None => Ok(Conflicts::default()),
        }
    }
}

impl Filter for VolumeBinding {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let claims = match claims_in(attempt.state) {
            Ok(Some(claims)) => claims,
            Ok(None) => return Status::success(),
            Err(status) => return status,
        };
        match find_pod_volumes(claims, node, &self.caches.lock()) {
            Ok(Ok(_)) => Status::success(),
            Ok(Err(reasons)) => ConflictReason::status(reasons),
            Err(status) => status,
        }
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        self.conflicts(attempt.state, attempt.handle.cluster, nodes)?.remove_from(nodes);
        Ok(())
    }

    /// Which volumes are free for claims that are not bound yet depends on other pods.
    fn dependence(&self, attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        let scope = match claims_in(attempt.state) {
            Ok(Some(claims)) if claims.delayed.is_empty() => {
                FilterScope::NodeAsOf(attempt.handle.cluster.storage_changes())
            }
            _ => FilterScope::Cluster,
        };
        Some(Dependence::on(scope).without_pods())
    }

    fn explain_set(&self, attempt: &Attempt<'_>, rejected: &NodeBits, verdicts: &mut Verdicts) {
        match self.conflicts(attempt.state, attempt.handle.cluster, rejected) {
            Ok(conflicts) => conflicts.record(verdicts),
            Err(status) => verdicts.record_all(rejected, status),
        }
    }
}

/// Runs only with the gate StorageCapacityScoring.
impl PreScore for VolumeBinding {
    fn pre_score(&self, _attempt: AttemptMut<'_>, _nodes: &[NodeIx]) -> Status {
        if self.ratings.is_some() { Status::success() } else { Status::skip() }
    }
}

impl Score for VolumeBinding {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        let (Some(claims), Some(ratings)) = (claims_in(attempt.state)?, &self.ratings) else {
            return Ok(0);
        };
        let volumes = find_pod_volumes(claims, node, &self.caches.lock())?;
        Ok(volumes.map_or(0, |volumes| score::score(&volumes, ratings)))
    }

    fn dependence(&self, _attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        let scope = if self.ratings.is_none() { ScoreScope::Node } else { ScoreScope::Cluster };
        Some(Dependence::on(scope))
    }
}

impl VolumeBinding {
    /// Assumes the changes. Finds the volumes again, on the chosen node only.
    fn assume(
        &self,
        claims: &PodVolumeClaims,
        node: &str,
        cluster: &Cluster,
    ) -> Result<Reserved, Status> {
        if claims.delayed.is_empty() {
            return Ok(Reserved::AllBound);
        }
        let node = cluster
            .node_named(node)
            .ok_or_else(|| Status::error(format!("node {node:?} not found")))?;
        let node = cluster.node(node);
        let mut assumed = self.caches.lock();
        let volumes = find_pod_volumes(claims, &node, &assumed)?;
        let volumes = volumes.map_err(ConflictReason::status)?;
        let binder = VolumeBinder::assume(volumes, node.name(), cluster, &mut assumed)?;
        Ok(Reserved::Binding(binder))
    }
}

impl Reserve for VolumeBinding {
    fn reserve(&self, attempt: AttemptMut<'_>, node: &str) -> Status {
        let reserved = match claims_in(attempt.state) {
            Ok(Some(claims)) => self.assume(claims, node, attempt.handle.cluster),
            Ok(None) => Ok(Reserved::AllBound),
            Err(status) => Err(status),
        };
        match reserved {
            Ok(reserved) => {
                attempt.state.write(reserved);
                Status::success()
            }
            Err(status) => status,
        }
    }

    fn unreserve(&self, attempt: AttemptMut<'_>, _node: &str) {
        if let Some(Reserved::Binding(binder)) = attempt.state.read() {
            binder.revert(&mut self.caches.lock());
        }
    }
}

impl PreBind for VolumeBinding {
    fn pre_flight(&self, attempt: &Attempt<'_>, node: &str) -> PreBindPreFlight {
        match (claims_in(attempt.state), attempt.state.read()) {
            (Err(status), _) => PreBindPreFlight::Fail(status),
            (_, None) => PreBindPreFlight::Fail(no_volumes(node)),
            (_, Some(Reserved::AllBound)) => PreBindPreFlight::Skip { allow_parallel: true },
            (_, Some(Reserved::Binding(_))) => PreBindPreFlight::Run { allow_parallel: true },
        }
    }

    fn pre_bind(
        &self,
        attempt: AttemptMut<'_>,
        node: &str,
        input: PreBindInput<'_>,
    ) -> PreBindStep {
        let binder = match attempt.state.read_mut() {
            Some(Reserved::Binding(binder)) => binder,
            Some(Reserved::AllBound) => return PreBindStep::Done(Status::success()),
            None => return PreBindStep::Done(no_volumes(node)),
        };
        let step = binder.step(attempt.pod, attempt.handle.cluster, self.bind_timeout, &input);
        if matches!(&step, PreBindStep::Done(status) if status.is_success()) {
            binder.forget(&mut self.caches.lock());
        }
        step
    }
}

fn no_volumes(node: &str) -> Status {
    Status::error(format!("no pod volume found for node {node:?}"))
}
