//! NodeVolumeLimits: rejects nodes on which the volumes of the pod exceed the attach limit of a CSI
//! driver.

mod changes;
mod hints;
mod room;
#[cfg(test)]
mod tests;
mod volumes;

use std::borrow::Cow;
use std::sync::Arc;

use framework::storage::csi_translation::Migration;
use framework::{
    ActionType, ClusterEvent, CycleState, EventResource, Filter, Handle, NodeBits, NodeView,
    Plugin, PluginArgs, Pod, PodVolume, PodVolumeSource, PreFilter, PreFilterExtensions,
    PreFilterResult, Status, Verdicts,
};

use self::changes::VolumeChanges;
use self::room::Room;
use self::volumes::WantedVolumes;

/// Plugin name.
pub const NAME: &str = "NodeVolumeLimits";

const REASON: &str = "node(s) exceed max volume count";

/// The NodeVolumeLimits plugin.
#[derive(Debug)]
struct NodeVolumeLimits;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    use EventResource as R;
    let event = ClusterEvent::new;
    Ok(Plugin::new(NAME, NodeVolumeLimits)
        .pre_filter()
        .pre_filter_extensions()
        .filter()
        .read(R::PersistentVolume)
        .read(R::StorageClass)
        // Rule node-volume-limits-limit-gone-hint of docs/differences.toml: a deleted CSINode
        // removes its limits.
        .on(event(R::CsiNode, ActionType::ADD | ActionType::DELETE))
        .on_with_hint(event(R::CsiNode, ActionType::UPDATE), NodeVolumeLimits::after_limit_change)
        // Rule node-volume-limits-fewer-volumes-hint of docs/differences.toml: a new node has no
        // volumes, and a deleted volume is not attached.
        .on(event(R::Node, ActionType::ADD))
        .on(event(R::PersistentVolume, ActionType::DELETE))
        .on_with_hint(
            event(R::PersistentVolumeClaim, ActionType::DELETE),
            NodeVolumeLimits::after_claim_deletion,
        )
        .on_with_hint(event(R::Pod, ActionType::DELETE), NodeVolumeLimits::after_pod_deletion)
        .on_with_hint(
            event(R::PersistentVolumeClaim, ActionType::ADD),
            NodeVolumeLimits::after_claim_addition,
        )
        .on_with_hint(
            event(R::VolumeAttachment, ActionType::DELETE),
            NodeVolumeLimits::after_detachment,
        )
        .build())
}

/// Returns the migration of an inline volume if a CSI driver replaces its in-tree plugin.
fn migration_of_inline(volume: &PodVolume) -> Option<&'static Migration> {
    match &volume.source {
        PodVolumeSource::InTree(plugin, _) => Migration::of_plugin(*plugin),
        _ => None,
    }
}

/// Whether a CSI driver may have to attach some volume of the pod.
fn may_be_limited(pod: &Pod) -> bool {
    pod.spec.volumes.iter().any(|volume| match volume.source {
        PodVolumeSource::Claim(_) | PodVolumeSource::Ephemeral => true,
        PodVolumeSource::Csi(_) | PodVolumeSource::InTree(..) => {
            migration_of_inline(volume).is_some()
        }
    })
}

/// The volumes that a pod wants, and the what-if changes of the node.
#[derive(Debug, Clone)]
struct PreFilterState {
    wanted: Arc<WantedVolumes>,
    changes: VolumeChanges,
}

impl PreFilterState {
    /// Returns the state of PreFilter. Computes it if PreFilter did not run or returned Skip.
    ///
    /// # Errors
    /// Returns the status of the pod if one of its volumes cannot be counted on the node.
    fn of_cycle<'a>(
        state: &'a CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Result<Cow<'a, Self>, Status> {
        if let Some(left) = state.read() {
            return Ok(Cow::Borrowed(left));
        }
        let has_csi_node = node.cluster().csi_node(node.name()).is_some();
        let wanted = Arc::new(WantedVolumes::of(pod, node.cluster(), has_csi_node)?);
        Ok(Cow::Owned(Self { wanted, changes: VolumeChanges::on(node) }))
    }
}

impl PreFilter for NodeVolumeLimits {
    fn pre_filter(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        handle: &Handle<'_>,
    ) -> Result<PreFilterResult, Status> {
        if !may_be_limited(pod) {
            return Err(Status::skip());
        }
        // As in Kubernetes, Filter reports a volume that cannot be counted.
        if let Ok(wanted) = WantedVolumes::of(pod, handle.cluster, true) {
            let changes = VolumeChanges::default();
            state.write(PreFilterState { wanted: wanted.into(), changes });
        }
        Ok(PreFilterResult::default())
    }
}

impl PreFilterExtensions for NodeVolumeLimits {
    fn add_pod(&self, state: &mut CycleState, _: &Pod, other: &Pod, node: &NodeView<'_>) -> Status {
        count(state, other, 1, node)
    }

    fn remove_pod(
        &self,
        state: &mut CycleState,
        _: &Pod,
        other: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        count(state, other, -1, node)
    }
}

fn count(state: &mut CycleState, other: &Pod, sign: i64, node: &NodeView<'_>) -> Status {
    if let Some(PreFilterState { changes, .. }) = state.read_mut() {
        changes.count(other, sign, node);
    }
    Status::success()
}

impl Filter for NodeVolumeLimits {
    fn filter(
        &self,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
        _handle: &Handle<'_>,
    ) -> Status {
        let found = match PreFilterState::of_cycle(state, pod, node) {
            Ok(found) => found,
            Err(status) => return status,
        };
        let fits = |room: Room<'_>| room.suffices(node.ix(), &found.changes);
        match found.wanted.rooms(node.cluster()).all(fits) {
            true => Status::success(),
            false => Status::unschedulable(REASON),
        }
    }

    fn filter_set(
        &self,
        state: &CycleState,
        pod: &Pod,
        handle: &Handle<'_>,
        nodes: &mut NodeBits,
    ) -> Result<(), Status> {
        let Some(PreFilterState { wanted, changes }) = state.read() else {
            return self.filter_each(state, pod, handle, nodes);
        };
        for room in wanted.rooms(handle.cluster) {
            nodes.retain(|node| room.suffices(node, changes));
        }
        Ok(())
    }

    fn explain_set(
        &self,
        state: &CycleState,
        pod: &Pod,
        handle: &Handle<'_>,
        rejected: &NodeBits,
        verdicts: &mut Verdicts,
    ) {
        match state.read::<PreFilterState>() {
            Some(_) => verdicts.record_all(rejected, Status::unschedulable(REASON)),
            None => rejected.iter().for_each(|node| {
                verdicts.record(node, self.filter(state, pod, &handle.cluster.node(node), handle));
            }),
        }
    }
}
