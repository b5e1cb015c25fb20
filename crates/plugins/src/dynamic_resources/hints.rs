//! Queueing hints for pods whose claims could not be allocated.

use std::sync::Arc;

use framework::device::{DEVICE_TAINT_RULES, ResourceClaim, ResourceSlice};
use framework::{
    ActionType, ClusterEvent, EventForPod, EventResource, Handle, HintResult, PluginBuilder,
    PluginGates, Pod, QueueingHint, pod_group_key,
};

use super::DynamicResources;
use crate::hint::{own_update, queue_if};

/// Registers the events of the plugin. 1.36 leaves out the deletion of a claim, because a claim is
/// usually deallocated before, and that of a slice. Rules dynamic-resources-deleted-claim-hint and
/// dynamic-resources-deleted-slice-hint of docs/differences.toml.
pub(super) fn register(
    plugin: PluginBuilder<DynamicResources>,
    gates: PluginGates,
) -> PluginBuilder<DynamicResources> {
    use EventResource as R;
    let changes = ActionType::ADD | ActionType::UPDATE;
    let nodes =
        ActionType::ADD | ActionType::UPDATE_NODE_LABEL | ActionType::UPDATE_NODE_ALLOCATABLE;
    let generated = ActionType::UPDATE_POD_GENERATED_RESOURCE_CLAIM;
    let plugin = match gates.device_taint_rules {
        // In 1.36 a rule that changes is a change of the slices whose devices it selects.
        true => plugin.on(ClusterEvent::new(R::Custom(DEVICE_TAINT_RULES.into()), ActionType::ALL)),
        false => plugin,
    };
    let plugin = match gates.workload_claims {
        true => plugin.on_with_hint(
            ClusterEvent::new(R::PodGroup, ActionType::ADD),
            after_pod_group_addition,
        ),
        false => plugin,
    };
    plugin
        .on(ClusterEvent::new(R::Node, nodes))
        .on_with_hint(
            ClusterEvent::new(R::ResourceClaim, changes | ActionType::DELETE),
            after_claim_change,
        )
        .on_with_hint(ClusterEvent::new(R::Pod, generated), after_pod_change)
        .on(ClusterEvent::new(R::DeviceClass, changes))
        .on(ClusterEvent::new(R::ResourceSlice, changes))
        .on_with_hint(ClusterEvent::new(R::ResourceSlice, ActionType::DELETE), after_slice_deletion)
}

/// Returns the claims of the pod; `None` if one of them cannot be used, so that no event about
/// another object helps.
fn usable_claims(
    plugin: &DynamicResources,
    pod: &Pod,
    handle: &Handle<'_>,
) -> Option<Vec<Arc<ResourceClaim>>> {
    plugin.claims_of(pod, handle.cluster, &plugin.shared.tracker.lock()).ok()
}

/// Requeues if devices became free, also with their claim, if the status of a claim of the pod
/// changed, or if the claim is gone that an earlier attempt left and that keeps the pod off every
/// node.
fn after_claim_change(plugin: &DynamicResources, event: EventForPod<'_>) -> HintResult {
    let (old, new) = event.objects.others()?;
    plugin.resolve_doubts(event.handle);
    let Some(claims) = usable_claims(plugin, event.pod, event.handle) else {
        return Ok(QueueingHint::Skip);
    };
    let (before, after) = event.objects.typed::<ResourceClaim>()?;
    let is_allocated = |claim: &ResourceClaim| claim.allocation.is_some();
    if before.is_some_and(is_allocated) && !after.is_some_and(is_allocated) {
        return Ok(QueueingHint::Queue);
    }
    let (Some(new), Some(after)) = (new, after) else {
        let is_left_over =
            |claim: &ResourceClaim| claim.is_for_extended_resources && claim.is_made_for(event.pod);
        return Ok(queue_if(before.is_some_and(is_left_over)));
    };
    if !claims.iter().any(|claim| claim.uid == after.uid) {
        return Ok(QueueingHint::Skip);
    }
    Ok(queue_if(old.is_none_or(|old| !old.has_same_section("status", new))))
}

/// Requeues if the rest of the pool may be complete or free of contradictions now that the slice is
/// gone.
fn after_slice_deletion(_plugin: &DynamicResources, event: EventForPod<'_>) -> HintResult {
    let (Some(old), None) = event.objects.typed::<ResourceSlice>()? else {
        return Ok(QueueingHint::Skip);
    };
    let pool = &old.pool.key;
    Ok(queue_if(event.handle.cluster.device_pools().slices(pool).next().is_some()))
}

/// Requeues if the claims generated for the pod are known now.
fn after_pod_change(plugin: &DynamicResources, event: EventForPod<'_>) -> HintResult {
    let Some(updated) = own_update(event)? else { return Ok(QueueingHint::Skip) };
    Ok(queue_if(usable_claims(plugin, updated, event.handle).is_some()))
}

/// Requeues if the PodGroup is there now for which the claims of the pod were made.
fn after_pod_group_addition(plugin: &DynamicResources, event: EventForPod<'_>) -> HintResult {
    let (_, new) = event.objects.others()?;
    let is_own = new.is_some_and(|new| Some(pod_group_key(new.key())) == event.pod.pod_group());
    Ok(queue_if(is_own && usable_claims(plugin, event.pod, event.handle).is_some()))
}
