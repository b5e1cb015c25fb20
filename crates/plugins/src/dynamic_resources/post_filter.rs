//! Frees claims that are allocated for nodes that cannot take the pod or the pods of a group.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::device::ResourceClaim;
use framework::{
    Code, Command, Handle, NodeIx, Pod, PodGroupTrial, QueuedPod, Status, Uid, Verdicts,
};

use super::search::{Search, can_use};
use super::{DynamicResources, NAME, UNAVAILABLE, bind};

/// Deallocates the first claim that keeps the pod off a node and that no other pod uses, or deletes
/// the claim for extended resources that an earlier attempt left.
pub(super) fn run(
    plugin: &DynamicResources,
    search: &Search,
    pod: &Pod,
    verdicts: &Verdicts,
    handle: &Handle<'_>,
) -> Status {
    let write = |write| {
        handle.command(Command::Write { pod: pod.key.clone(), uid: pod.uid.clone(), write });
    };
    let is_own = |claim: &ResourceClaim| claim.reserved_for.iter().all(|user| user.uid == pod.uid);
    if let Some(claim) = unusable_claim(plugin, search, verdicts, handle, is_own) {
        // The pod may be tried again before the request is carried out, and must not rely on its
        // reservation then.
        plugin.shared.tracker.lock().releases.begin(claim, &pod.uid, handle.now);
        write(bind::deallocation(claim));
        return Status::unschedulable("deallocation of ResourceClaim completed");
    }
    if let Some(extended) = search.extended.as_ref().filter(|own| own.is_left_over()) {
        bind::deletion(&extended.claim).into_iter().for_each(write);
        return Status::unschedulable("deletion of ResourceClaim completed");
    }
    // A release that was refused left the reservation. Other pods may wait for the claim, too, and
    // the last one with a reservation deallocates it.
    let is_shared = |claim: &ResourceClaim| claim.is_reserved_for(&pod.uid) && !is_own(claim);
    if let Some(claim) = unusable_claim(plugin, search, verdicts, handle, is_shared) {
        plugin.shared.tracker.lock().releases.begin(claim, &pod.uid, handle.now);
        write(bind::release(claim, &pod.uid));
    }
    Status::unschedulable("still not schedulable")
}

/// Deallocates the first claim of a group that was rejected that is not available on all nodes, and
/// that only the group uses and no pod of it with a node, or only pods of it without one. No pod is
/// evicted for the group then: it may fit once it is allocated anew.
pub(super) fn run_for_group(plugin: &DynamicResources, trial: &dyn PodGroupTrial) -> Status {
    let handle = trial.handle();
    let cluster = handle.cluster;
    let mut waiting: BTreeSet<&Uid> = trial.members().iter().map(|own| &own.pod.uid).collect();
    let state = cluster.pod_group_state(trial.group());
    if state.is_none_or(|state| state.scheduled_count() == 0) {
        waiting.extend(cluster.pod_group(trial.group()).map(|group| &group.uid));
    }
    let is_free = |claim: &ResourceClaim| {
        claim.allocation.is_some()
            && claim.reserved_for.iter().all(|user| waiting.contains(&user.uid))
            && (plugin.is_failed(claim, &handle)
                || cluster.nodes().iter().any(|node| {
                    let is_usable = can_use(claim, &cluster.node(node));
                    !is_usable.unwrap_or(true)
                }))
    };
    for QueuedPod { pod, .. } in trial.members() {
        if pod.spec.resource_claims.is_empty() {
            continue;
        }
        let mut tracked = plugin.shared.tracker.lock();
        let Ok(claims) = plugin.claims_of(pod, cluster, &tracked) else { continue };
        if let Some(claim) = claims.iter().find(|claim| is_free(claim)) {
            for user in &claim.reserved_for {
                tracked.releases.begin(claim, &user.uid, handle.now);
            }
            let (pod, uid, write) = (pod.key.clone(), pod.uid.clone(), bind::deallocation(claim));
            handle.command(Command::Write { pod, uid, write });
            return Status::unresolvable("deallocation of ResourceClaim completed");
        }
    }
    Status::with_reasons(Code::Unschedulable, Vec::new())
}

/// Returns the first wanted claim, in the order of the pod, that is allocated and not available on
/// a node which has no other fault.
fn unusable_claim<'a>(
    plugin: &DynamicResources,
    search: &'a Search,
    verdicts: &Verdicts,
    handle: &Handle<'_>,
    is_wanted: impl Fn(&ResourceClaim) -> bool,
) -> Option<&'a Arc<ResourceClaim>> {
    let may_free = |claim: &&Arc<ResourceClaim>| claim.allocation.is_some() && is_wanted(claim);
    let mut candidates = search.claims.iter().filter(may_free).peekable();
    candidates.peek()?;
    let is_kept_off = |node: &NodeIx| {
        let status = verdicts.get(*node);
        status.plugin().is_some_and(|plugin| **plugin == *NAME)
            && status.reasons().iter().any(|reason| *reason == UNAVAILABLE)
    };
    let nodes: Vec<NodeIx> = handle.cluster.nodes().iter().filter(is_kept_off).collect();
    candidates.find(|claim| {
        let unusable = |node: &NodeIx| {
            !can_use(claim, &handle.cluster.node(*node)).unwrap_or(true)
                || plugin.is_failed(claim, handle)
        };
        nodes.iter().any(unusable)
    })
}
