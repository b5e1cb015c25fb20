//! NodeVolumeLimits: a node can attach only so many volumes of a CSI driver.

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

/// The plugin.
#[derive(Debug)]
struct NodeVolumeLimits;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// None.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    use EventResource as R;
    let event = ClusterEvent::new;
    Ok(Plugin::new(NAME, NodeVolumeLimits)
        .pre_filter()
        .pre_filter_extensions()
        .filter()
        .read(R::PersistentVolume)
        .read(R::StorageClass)
        // Difference node-volume-limits-limit-gone-hint: with the CSINode, its limits go.
        .on(event(R::CsiNode, ActionType::ADD | ActionType::DELETE))
        .on_with_hint(event(R::CsiNode, ActionType::UPDATE), NodeVolumeLimits::after_limit_change)
        // Difference node-volume-limits-fewer-volumes-hint: a node without volumes has room, and what
        // is gone is not attached.
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

/// The migration of the plugin of an inline volume, if a CSI driver has replaced it.
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

/// What a pod wants, and what a what-if changes about the node that it looks at.
#[derive(Debug, Clone)]
struct PreFilterState {
    wanted: Arc<WantedVolumes>,
    changes: VolumeChanges,
}

impl PreFilterState {
    /// What PreFilter left; where it did not run, or there was nothing to leave, the same from
    /// scratch.
    ///
    /// # Errors
    /// Some volume of the pod cannot be counted on the node.
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
        // As in Kubernetes, a volume that cannot be counted is told of by Filter.
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
