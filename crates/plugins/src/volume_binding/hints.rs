//! Queueing hints for pods whose volumes did not fit.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::storage::{
    ClaimRef, CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim,
    StorageClass,
};
use framework::{
    ActionType, Cluster, ClusterEvent, EventForPod, EventObjects, EventResource, HintResult,
    PluginBuilder, Pod, PodVolumeSource, QueueingHint, TypedObject,
};

use super::VolumeBinding;
use crate::hint::{queue_if, queue_on_claim};

/// Registers the events of the plugin.
pub(super) fn register(plugin: PluginBuilder<VolumeBinding>) -> PluginBuilder<VolumeBinding> {
    use EventResource as R;
    let changes = ActionType::ADD | ActionType::UPDATE;
    let nodes = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
    let driver_changes = ActionType::UPDATE | ActionType::DELETE;
    plugin
        .on_with_hint(ClusterEvent::new(R::StorageClass, changes), after_class_change)
        .on_with_hint(ClusterEvent::new(R::PersistentVolumeClaim, changes), after_claim_change)
        .on(ClusterEvent::new(R::PersistentVolume, changes))
        .on_with_hint(
            ClusterEvent::new(R::PersistentVolume, ActionType::DELETE),
            after_volume_deletion,
        )
        .on(ClusterEvent::new(R::Node, nodes))
        .on_with_hint(
            ClusterEvent::new(R::CsiNode, changes | ActionType::DELETE),
            after_csi_node_change,
        )
        .on_with_hint(ClusterEvent::new(R::CsiDriver, driver_changes), after_driver_change)
        .on_with_hint(ClusterEvent::new(R::CsiStorageCapacity, changes), after_capacity_change)
        .on_with_hint(ClusterEvent::new(R::AssignedPod, ActionType::DELETE), after_pod_deletion)
}

/// Requeues if a class allows other topologies.
fn after_class_change(_plugin: &VolumeBinding, event: EventForPod<'_>) -> HintResult {
    let (old, new) = updated::<StorageClass>(event.objects)?;
    Ok(queue_if(old.is_none_or(|old| old.topology_terms != new.topology_terms)))
}

/// Requeues if the claim belongs to the pod.
fn after_claim_change(_plugin: &VolumeBinding, event: EventForPod<'_>) -> HintResult {
    queue_on_claim(event, |volume| volume.claim_name(&event.pod.key.name))
}

/// Requeues if the deleted volume was reserved for a claim of the pod, which may then get another
/// volume. Rule volume-binding-reserved-volume-gone-hint of docs/differences.toml.
fn after_volume_deletion(_plugin: &VolumeBinding, event: EventForPod<'_>) -> HintResult {
    let (old, _) = event.objects.typed::<PersistentVolume>()?;
    let claim = old.and_then(|volume| volume.claim_ref.as_ref());
    let is_of_pod = |claim: &ClaimRef| {
        let mut names =
            event.pod.spec.volumes.iter().filter_map(|own| own.claim_name(&event.pod.key.name));
        claim.namespace == event.pod.key.namespace && names.any(|name| *name == *claim.name)
    };
    Ok(queue_if(claim.is_some_and(is_of_pod)))
}

/// Requeues if other in-tree volumes are translated for the node. A deleted CSINode ends all
/// translation: rule volume-binding-csi-node-gone-hint of docs/differences.toml.
fn after_csi_node_change(_plugin: &VolumeBinding, event: EventForPod<'_>) -> HintResult {
    let (old, new) = event.objects.typed::<CsiNode>()?;
    let migrated = |node: Option<&CsiNode>| -> BTreeSet<Arc<str>> {
        let plugins = node.into_iter().flat_map(|node| &node.migrated_plugins);
        plugins.filter(|plugin| !plugin.is_empty()).cloned().collect()
    };
    Ok(queue_if(old.is_none() || migrated(old) != migrated(new)))
}

/// Requeues pods with volumes of a driver that stops reporting its capacity.
fn after_driver_change(_plugin: &VolumeBinding, event: EventForPod<'_>) -> HintResult {
    let (Some(driver), _) = event.objects.others()? else { return Ok(QueueingHint::Skip) };
    let (old, new) = event.objects.typed::<CsiDriver>()?;
    let reports = |driver: Option<&CsiDriver>| driver.is_some_and(|own| own.storage_capacity);
    let stops = reports(old) && !reports(new);
    Ok(queue_if(stops && uses_driver(event.pod, driver.name(), event.handle.cluster)))
}

/// Whether the driver serves a volume of the pod, inline or to be provisioned. Rule
/// volume-binding-driver-hint of docs/differences.toml adds provisioned volumes.
fn uses_driver(pod: &Pod, driver: &str, cluster: &Cluster) -> bool {
    let inline =
        pod.spec.volumes.iter().any(
            |volume| matches!(&volume.source, PodVolumeSource::Csi(name) if **name == *driver),
        );
    let is_made = |claim: &Arc<PersistentVolumeClaim>| {
        cluster.storage_class(&claim.class).is_some_and(|class| *class.provisioner == *driver)
    };
    inline || unbound_claims(pod, cluster).flatten().any(is_made)
}

/// Requeues if the deleted pod may have been being bound: its assumed changes are reverted. Another
/// pod may have bound its claims meanwhile, to other volumes than the assumed ones. A pod that has
/// run has no assumed changes. Rule volume-binding-assumed-hint of docs/differences.toml.
fn after_pod_deletion(_plugin: &VolumeBinding, event: EventForPod<'_>) -> HintResult {
    let (gone, _) = event.objects.pods()?;
    let has_claims =
        |pod: &Pod| pod.spec.volumes.iter().any(|own| own.claim_name(&pod.key.name).is_some());
    let may_assume = |gone: &Pod| gone.start_time.get().is_none() && has_claims(gone);
    let waits = unbound_claims(event.pod, event.handle.cluster).next().is_some();
    Ok(queue_if(waits && gone.is_some_and(may_assume)))
}

/// Returns the unbound claims of the pod; `None` for a missing claim.
fn unbound_claims<'a>(
    pod: &'a Pod,
    cluster: &'a Cluster,
) -> impl Iterator<Item = Option<&'a Arc<PersistentVolumeClaim>>> {
    let names = pod.spec.volumes.iter().filter_map(|own| own.claim_name(&pod.key.name));
    let claims = names.map(|name| cluster.claim(&pod.key.namespace, &name));
    claims.filter(|claim| !claim.is_some_and(|claim| claim.is_fully_bound()))
}

/// Requeues if the reported capacity grows.
fn after_capacity_change(_plugin: &VolumeBinding, event: EventForPod<'_>) -> HintResult {
    let (old, new) = updated::<CsiStorageCapacity>(event.objects)?;
    let Some(old) = old else { return Ok(QueueingHint::Queue) };
    Ok(queue_if(new.limit > old.limit))
}

/// Returns the object of an event: the old state if there was one, and the new state.
fn updated<'a, T: TypedObject>(
    objects: EventObjects<'a>,
) -> Result<(Option<&'a T>, &'a T), String> {
    let (old, new) = objects.typed()?;
    Ok((old, new.ok_or("the object is gone")?))
}
