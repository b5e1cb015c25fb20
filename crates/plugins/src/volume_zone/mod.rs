//! VolumeZone: rejects nodes outside the zones and regions in the labels of the pod's volumes.

mod hints;
#[cfg(test)]
mod tests;
mod topology;

use std::borrow::Cow;
use std::sync::Arc;

use framework::{
    ActionType, Attempt, AttemptMut, Cluster, ClusterEvent, CycleState, Dependence, EventResource,
    Filter, FilterScope, NodeBits, NodeView, Plugin, PluginArgs, Pod, PodVolume, PreFilter,
    PreFilterResult, Status, Verdicts,
};

use self::topology::{LABELS, VolumeTopology};
use crate::lookup;

/// Plugin name.
pub const NAME: &str = "VolumeZone";

const REASON: &str = "node(s) had no available volume zone";

/// The VolumeZone plugin.
#[derive(Debug)]
struct VolumeZone;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    use EventResource as R;
    let event = ClusterEvent::new;
    let changes = ActionType::ADD | ActionType::UPDATE;
    let nodes = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
    Ok(Plugin::new(NAME, VolumeZone)
        .pre_filter()
        .filter()
        .on_with_hint(event(R::StorageClass, ActionType::ADD), VolumeZone::after_class_addition)
        .on(event(R::Node, nodes))
        .on_with_hint(event(R::PersistentVolumeClaim, changes), VolumeZone::after_claim_change)
        .on_with_hint(event(R::PersistentVolume, changes), VolumeZone::after_volume_change)
        .build())
}

/// The cycle state of PreFilter: the zones and regions of the pod's volumes.
#[derive(Debug, Clone)]
struct PreFilterState(Arc<[VolumeTopology]>);

impl PreFilterState {
    fn new(pod: &Pod, cluster: &Cluster) -> Result<Self, Status> {
        let mut topologies = Vec::new();
        for claim in pod.spec.volumes.iter().filter_map(PodVolume::named_claim) {
            let volume = volume_of_claim(pod, claim, cluster).map_err(Status::unresolvable)?;
            if let Some(name) = volume {
                let volume = lookup::volume(cluster, &name).map_err(Status::unresolvable)?;
                topologies.extend(topology::of_labels(|label| volume.labels.get(label)));
            }
        }
        Ok(Self(topologies.into()))
    }

    /// Returns the state of PreFilter. Computes it if PreFilter did not run.
    fn of_cycle<'a>(
        state: &'a CycleState,
        pod: &Pod,
        cluster: &Cluster,
    ) -> Result<Cow<'a, Self>, Status> {
        match state.read() {
            Some(topologies) => Ok(Cow::Borrowed(topologies)),
            None => Self::new(pod, cluster).map(Cow::Owned),
        }
    }
}

/// Returns the name of the volume that a claim of the pod is bound to; `None` for an unbound claim
/// with delayed binding.
fn volume_of_claim(
    pod: &Pod,
    claim: &str,
    cluster: &Cluster,
) -> Result<Option<Arc<str>>, Cow<'static, str>> {
    if claim.is_empty() {
        return Err("PersistentVolumeClaim had no name".into());
    }
    let claim = lookup::claim(cluster, &pod.key.namespace, claim)?;
    if let Some(volume) = &claim.volume_name {
        return Ok(Some(volume.clone()));
    }
    if claim.class.is_empty() {
        return Err("PersistentVolumeClaim had no pv name and storageClass name".into());
    }
    let class = lookup::storage_class(cluster, &claim.class)?;
    match &class.binding_mode {
        None => Err(format!("VolumeBindingMode not set for StorageClass {:?}", claim.class).into()),
        Some(_) if class.waits_for_first_consumer() => Ok(None),
        Some(_) => Err("PersistentVolume had no name".into()),
    }
}

impl PreFilter for VolumeZone {
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        let topologies = PreFilterState::new(attempt.pod, attempt.handle.cluster)?;
        if topologies.0.is_empty() {
            return Err(Status::skip());
        }
        attempt.state.write(topologies);
        Ok(PreFilterResult::default())
    }
}

impl Filter for VolumeZone {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let topologies = match PreFilterState::of_cycle(attempt.state, attempt.pod, node.cluster())
        {
            Ok(topologies) => topologies,
            Err(status) => return status,
        };
        if LABELS.iter().all(|label| node.label(label.key).is_none()) {
            return Status::success();
        }
        match topologies.0.iter().all(|topology| topology.contains(node)) {
            true => Status::success(),
            false => Status::unresolvable(REASON),
        }
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        let Attempt { state, pod, handle, .. } = *attempt;
        match PreFilterState::of_cycle(state, pod, handle.cluster) {
            Ok(topologies) => topology::retain_inside(&topologies.0, handle.cluster, nodes),
            Err(_missing_volumes) => nodes.clear(),
        }
        Ok(())
    }

    fn dependence(&self, attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        let scope = match attempt.state.read::<PreFilterState>() {
            Some(_) => FilterScope::NodeAsOf(attempt.handle.cluster.storage_changes()),
            None => FilterScope::Cluster,
        };
        Some(Dependence::on(scope).without_pods())
    }

    fn explain_set(&self, attempt: &Attempt<'_>, rejected: &NodeBits, verdicts: &mut Verdicts) {
        let missing_volumes =
            PreFilterState::of_cycle(attempt.state, attempt.pod, attempt.handle.cluster).err();
        verdicts.record_all(rejected, missing_volumes.unwrap_or(Status::unresolvable(REASON)));
    }
}
