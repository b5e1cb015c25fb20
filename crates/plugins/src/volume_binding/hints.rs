//! What may help a pod whose volumes did not fit.

use framework::storage::{CsiDriver, CsiStorageCapacity, MIGRATED_PLUGINS, StorageClass};
use framework::{
    ActionType, Cluster, ClusterEvent, EventObjects, EventResource, PluginBuilder, Pod,
    PodVolumeSource, QueueingHint, api,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::VolumeBinding;
use crate::hint::{queue_if, queue_on_claim};

/// Registers the events.
pub(super) fn register(plugin: PluginBuilder<VolumeBinding>) -> PluginBuilder<VolumeBinding> {
    use EventResource as R;
    let changes = ActionType::ADD | ActionType::UPDATE;
    let nodes = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
    plugin
        .on_with_hint(ClusterEvent::new(R::StorageClass, changes), after_class_change)
        .on_with_hint(ClusterEvent::new(R::PersistentVolumeClaim, changes), after_claim_change)
        .on(ClusterEvent::new(R::PersistentVolume, changes))
        .on(ClusterEvent::new(R::Node, nodes))
        .on_with_hint(ClusterEvent::new(R::CsiNode, changes), after_csi_node_change)
        .on_with_hint(ClusterEvent::new(R::CsiDriver, ActionType::UPDATE), after_driver_change)
        .on_with_hint(ClusterEvent::new(R::CsiStorageCapacity, changes), after_capacity_change)
}

/// A change to a class helps if volumes can be made elsewhere.
fn after_class_change(
    _plugin: &VolumeBinding,
    _pod: &Pod,
    objects: &EventObjects<'_>,
    _cluster: &Cluster,
) -> Result<QueueingHint, String> {
    let (old, new) = decoded::<api::StorageClass>(objects)?;
    let topologies = |class: &api::StorageClass| StorageClass::from_api(class).allowed_topologies;
    Ok(queue_if(old.is_none_or(|old| topologies(&old) != topologies(&new))))
}

/// A claim helps if it is one of the pod.
fn after_claim_change(
    _plugin: &VolumeBinding,
    pod: &Pod,
    objects: &EventObjects<'_>,
    _cluster: &Cluster,
) -> Result<QueueingHint, String> {
    queue_on_claim(pod, objects, |volume| volume.claim_name(&pod.key.name))
}

/// A change to a CSINode helps if other in-tree volumes are translated for the node.
fn after_csi_node_change(
    _plugin: &VolumeBinding,
    _pod: &Pod,
    objects: &EventObjects<'_>,
    _cluster: &Cluster,
) -> Result<QueueingHint, String> {
    let (old, new) = decoded::<api::CsiNode>(objects)?;
    let migrated = |node: &api::CsiNode| node.metadata.annotations.get(MIGRATED_PLUGINS).cloned();
    let migrated = |node: &api::CsiNode| migrated(node).unwrap_or_default();
    Ok(queue_if(old.is_none_or(|old| migrated(&old) != migrated(&new))))
}

/// A driver that stops reporting room helps pods with inline volumes of it.
fn after_driver_change(
    _plugin: &VolumeBinding,
    pod: &Pod,
    objects: &EventObjects<'_>,
    _cluster: &Cluster,
) -> Result<QueueingHint, String> {
    let (old, new) = decoded::<api::CsiDriver>(objects)?;
    let uses_driver = pod.spec.volumes.iter().any(|volume| {
        matches!(&volume.source, PodVolumeSource::Csi(driver) if **driver == *new.metadata.name)
    });
    let reports = |driver: &api::CsiDriver| CsiDriver::from_api(driver).storage_capacity;
    let stops = old.is_some_and(|old| reports(&old)) && !reports(&new);
    Ok(queue_if(uses_driver && stops))
}

/// More room helps.
fn after_capacity_change(
    _plugin: &VolumeBinding,
    _pod: &Pod,
    objects: &EventObjects<'_>,
    _cluster: &Cluster,
) -> Result<QueueingHint, String> {
    let (old, new) = decoded::<api::CsiStorageCapacity>(objects)?;
    let Some(old) = old else { return Ok(QueueingHint::Queue) };
    let limit = |capacity: &api::CsiStorageCapacity| CsiStorageCapacity::from_api(capacity).limit;
    Ok(queue_if(limit(&new) > limit(&old)))
}

/// The object of an event before and after.
fn decoded<T: DeserializeOwned>(objects: &EventObjects<'_>) -> Result<(Option<T>, T), String> {
    let (old, new) = objects.others()?;
    let read = |object: &Value| T::deserialize(object).map_err(|error| error.to_string());
    let new = new.ok_or("the object is gone")?;
    Ok((old.map(read).transpose()?, read(new)?))
}
