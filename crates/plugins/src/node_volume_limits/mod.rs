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
    ActionType, Attempt, AttemptMut, ClusterEvent, CycleState, Dependence, EventResource, Filter,
    FilterScope, NodeBits, NodeView, Plugin, PluginArgs, PluginGates, Pod, PodVolume,
    PodVolumeSource, PreFilter, PreFilterExtensions, PreFilterResult, Status, Verdicts,
};

use self::changes::VolumeChanges;
use self::room::Room;
use self::volumes::WantedVolumes;

/// Plugin name.
pub const NAME: &str = "NodeVolumeLimits";

const REASON: &str = "node(s) exceed max volume count";

/// The NodeVolumeLimits plugin.
#[derive(Debug)]
struct NodeVolumeLimits {
    gates: PluginGates,
}

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    use EventResource as R;
    let event = ClusterEvent::new;
    let gates = args.gates();
    let plugin = Plugin::new(NAME, NodeVolumeLimits { gates })
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
        .on_with_hint(event(R::AssignedPod, ActionType::ADD), NodeVolumeLimits::after_pod_addition)
        .on_with_hint(
            event(R::PersistentVolumeClaim, ActionType::ADD),
            NodeVolumeLimits::after_claim_addition,
        )
        .on_with_hint(
            event(R::VolumeAttachment, ActionType::ADD),
            NodeVolumeLimits::after_attachment,
        )
        .on_with_hint(
            event(R::VolumeAttachment, ActionType::DELETE),
            NodeVolumeLimits::after_detachment,
        );
    // Rule node-volume-limits-missing-driver-hint of docs/differences.toml: a driver that is gone
    // or changed may no longer be needed on the node.
    let changes = ActionType::UPDATE | ActionType::DELETE;
    Ok(match gates.volume_limit_scaling {
        true => plugin.on(event(R::CsiDriver, changes)).build(),
        false => plugin.build(),
    })
}

/// Returns the migration of an inline volume if a CSI driver replaces its in-tree plugin.
fn migration_of_inline(volume: &PodVolume) -> Option<&'static Migration> {
    match &volume.source {
        PodVolumeSource::InTree(inline) => Migration::of_plugin(inline.plugin),
        _ => None,
    }
}

/// Whether a CSI driver may have to attach some volume of the pod.
fn may_be_limited(pod: &Pod) -> bool {
    pod.spec.volumes.iter().any(|volume| match volume.source {
        PodVolumeSource::Claim(_) | PodVolumeSource::Ephemeral => true,
        PodVolumeSource::Csi(_) | PodVolumeSource::InTree(_) => {
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
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        let AttemptMut { state, pod, handle, .. } = attempt;
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
    fn add_pod(&self, attempt: AttemptMut<'_>, other: &Pod, node: &NodeView<'_>) -> Status {
        count(attempt.state, other, 1, node)
    }

    fn remove_pod(&self, attempt: AttemptMut<'_>, other: &Pod, node: &NodeView<'_>) -> Status {
        count(attempt.state, other, -1, node)
    }
}

fn count(state: &mut CycleState, other: &Pod, sign: i64, node: &NodeView<'_>) -> Status {
    if let Some(PreFilterState { changes, .. }) = state.read_mut() {
        changes.count(other, sign, node);
    }
    Status::success()
}

impl NodeVolumeLimits {
    /// Whether nodes must have the drivers of the volumes.
    fn checks_drivers(&self, wanted: &WantedVolumes) -> bool {
        self.gates.volume_limit_scaling && wanted.needs_drivers()
    }
}

impl Filter for NodeVolumeLimits {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let found = match PreFilterState::of_cycle(attempt.state, attempt.pod, node) {
            Ok(found) => found,
            Err(status) => return status,
        };
        if self.gates.volume_limit_scaling
            && let Some(driver) = found.wanted.missing_driver(node.cluster(), node.name())
        {
            let text = format!("{driver} CSI driver is not installed on the node");
            return Status::unschedulable(text);
        }
        let fits = |room: Room<'_>| room.suffices(node.ix(), &found.changes);
        match found.wanted.rooms(node.cluster()).all(fits) {
            true => Status::success(),
            false => Status::unschedulable(REASON),
        }
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        let Some(PreFilterState { wanted, changes }) = attempt.state.read() else {
            return self.filter_each(attempt, nodes);
        };
        let cluster = attempt.handle.cluster;
        if self.checks_drivers(wanted) {
            nodes.retain(|node| wanted.missing_driver(cluster, cluster.node_name(node)).is_none());
        }
        for room in wanted.rooms(cluster) {
            nodes.retain(|node| room.suffices(node, changes));
        }
        Ok(())
    }

    fn dependence(&self, attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        let scope = match attempt.state.read::<PreFilterState>() {
            Some(_) => FilterScope::NodeAsOf(attempt.handle.cluster.storage_changes()),
            None => FilterScope::Cluster,
        };
        Some(Dependence::on(scope))
    }

    fn explain_set(&self, attempt: &Attempt<'_>, rejected: &NodeBits, verdicts: &mut Verdicts) {
        let Attempt { state, handle, .. } = *attempt;
        match state.read::<PreFilterState>() {
            Some(state) if !self.checks_drivers(&state.wanted) => {
                verdicts.record_all(rejected, Status::unschedulable(REASON));
            }
            _ => rejected.iter().for_each(|node| {
                verdicts.record(node, self.filter(attempt, &handle.cluster.node(node)));
            }),
        }
    }
}
