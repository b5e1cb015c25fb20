//! NodeVolumeLimits: a node can attach only so many volumes of a CSI driver.

mod hints;
#[cfg(test)]
mod tests;
mod volumes;

use framework::storage::csi_translation::Migration;
use framework::{
    ActionType, Cluster, ClusterEvent, CycleState, EventResource, Filter, NodeBits, NodeColumn,
    NodeView, Plugin, PluginArgs, Pod, PodVolume, PodVolumeSource, PreFilter, PreFilterResult,
    Status, Verdicts, VolumeUses,
};

use self::volumes::CsiVolumes;

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

/// Whether the node can attach `wanted` beside what it has.
fn has_room(wanted: &CsiVolumes<'_>, node: &NodeView<'_>) -> bool {
    let csi_node = node.cluster().csi_node(node.name());
    let limit = |driver: &str| csi_node?.drivers.get(driver).copied().flatten();
    if wanted.drivers().into_iter().all(|driver| limit(driver).is_none()) {
        return true;
    }
    let mut attached = CsiVolumes::of_pods_on(node);
    let new = wanted.without(&attached);
    // A volume that is attached to the node, but used by no pod on it, counts once more for the pod
    // that wants it, as in Kubernetes.
    attached.add_attachments_of(node);
    let fits = |driver| {
        limit(driver).is_none_or(|limit| attached.count(driver) + new.count(driver) <= limit)
    };
    new.drivers().into_iter().all(fits)
}

/// Takes out of `nodes` those that cannot attach the volumes of this driver among `wanted` beside
/// what they have: the same as [`has_room`], by what is counted already.
fn retain_with_room(
    wanted: &CsiVolumes<'_>,
    driver: &str,
    cluster: &Cluster,
    nodes: &mut NodeBits,
) {
    let Some(limits) = cluster.attach_limits(driver) else { return };
    let attached = cluster.attached_counts(driver);
    let wanted_count = wanted.count(driver);
    let in_use: Vec<_> =
        wanted.of_driver(driver).filter_map(|volume| cluster.uses_of(volume)).collect();
    for (node, limit) in limits.iter() {
        let is_used = |uses: &&&NodeColumn<VolumeUses>| uses.get(node).by_pods > 0;
        let new = in_use.iter().filter(is_used).fold(wanted_count, |count, _| count - 1);
        if new > 0 && limit.is_some_and(|limit| attached.get(node) + new > limit) {
            nodes.remove(node);
        }
    }
}

impl PreFilter for NodeVolumeLimits {
    fn pre_filter(
        &self,
        _state: &mut CycleState,
        pod: &Pod,
        _cluster: &Cluster,
    ) -> Result<PreFilterResult, Status> {
        match may_be_limited(pod) {
            true => Ok(PreFilterResult::default()),
            false => Err(Status::skip()),
        }
    }
}

impl Filter for NodeVolumeLimits {
    fn filter(&self, _state: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Status {
        let has_csi_node = node.cluster().csi_node(node.name()).is_some();
        match CsiVolumes::wanted_by(pod, node.cluster(), has_csi_node) {
            Ok(wanted) if has_room(&wanted, node) => Status::success(),
            Ok(_) => Status::unschedulable(REASON),
            Err(status) => status,
        }
    }

    fn filter_set(
        &self,
        state: &CycleState,
        pod: &Pod,
        cluster: &Cluster,
        nodes: &mut NodeBits,
    ) -> Result<(), Status> {
        let Ok(wanted) = CsiVolumes::wanted_by(pod, cluster, true) else {
            return self.filter_each(state, pod, cluster, nodes);
        };
        for driver in wanted.drivers() {
            retain_with_room(&wanted, driver, cluster, nodes);
        }
        Ok(())
    }

    fn explain_set(
        &self,
        state: &CycleState,
        pod: &Pod,
        cluster: &Cluster,
        rejected: &NodeBits,
        verdicts: &mut Verdicts,
    ) {
        match CsiVolumes::wanted_by(pod, cluster, true) {
            Ok(_) => verdicts.record_all(rejected, Status::unschedulable(REASON)),
            Err(_) => rejected.iter().for_each(|node| {
                verdicts.record(node, self.filter(state, pod, &cluster.node(node)));
            }),
        }
    }
}
