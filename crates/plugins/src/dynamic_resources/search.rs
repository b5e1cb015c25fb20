//! The data of a pod for Filter, Score and Reserve: its claims, and the devices that are taken.

use std::sync::Arc;

use framework::device::{Allocation, DeviceRequest, RequestBody, RequestKind, ResourceClaim};
use framework::{Cluster, Handle, NodeView, Pod, Status};
use structured::{Gates, Overlay};

use super::DynamicResources;
use super::extended::{ExtendedResources, RequestMapping, ThroughDevices, stable_hash};
use super::score::has_alternatives;
use super::tracker::TrackedClaims;

/// The claims of a pod, prepared by PreFilter.
#[derive(Debug, Clone)]
pub(super) struct Search {
    /// The claims that the pod names, in its order. A claim in flight for its group has the
    /// allocation that is not written yet.
    pub(super) claims: Vec<Arc<ResourceClaim>>,
    /// The claims in flight for its group, without that allocation.
    pub(super) in_flight: Vec<Arc<ResourceClaim>>,
    /// The extended resources that devices may provide.
    pub(super) extended: Option<ExtendedResources>,
    /// The devices that are allocated beyond the stored claims; none after Reserve.
    pub(super) overlay: Arc<Overlay>,
    /// Whether the allocation of a node has a score.
    pub(super) has_alternatives: bool,
    /// The seed of the identities of shares: another one for other claims, so that no two claims of
    /// a pod get the same identity.
    pub(super) seed: u64,
}

/// The wanted allocations on a node.
pub(super) struct Wanted {
    /// The claims of the pod, then the claim for extended resources.
    pub(super) claims: Vec<Arc<ResourceClaim>>,
    /// Which container uses which request of the claim for extended resources; `None` without the
    /// claim.
    pub(super) mappings: Option<Vec<RequestMapping>>,
}

/// The devices of a node for the claims of a pod.
pub(super) struct NodeAllocation {
    pub(super) wanted: Wanted,
    /// One allocation for each wanted claim.
    pub(super) allocations: Vec<Allocation>,
}

impl Search {
    /// Prepares the claims of a pod; `None` if it has none.
    ///
    /// # Errors
    /// Returns the status that rejects the pod.
    pub(super) fn prepare(
        plugin: &DynamicResources,
        pod: &Pod,
        handle: &Handle<'_>,
    ) -> Result<Option<Self>, Status> {
        let cluster = handle.cluster;
        let mut tracked = plugin.shared.tracker.lock();
        let mut claims = plugin.claims_of(pod, cluster, &tracked).map_err(Status::unresolvable)?;
        let extended = plugin.extended_resources.then(|| ExtendedResources::of(pod, cluster));
        let extended = extended.flatten();
        if claims.is_empty() && extended.is_none() {
            return Ok(None);
        }
        let in_flight = match pod.pod_group() {
            Some(group) => tracked.take_shared(&mut claims, &group),
            None => Vec::new(),
        };
        for claim in &claims {
            check_claim(claim, cluster, &tracked, plugin.gates)?;
        }
        let has_alternatives = plugin.gates.prioritized_list && has_alternatives(&claims);
        let overlay = tracked.overlay(cluster);
        let mut identity = pod.uid.to_string();
        for claim in claims.iter().filter(|claim| claim.allocation.is_none()) {
            identity += &format!(" {}", claim.uid);
        }
        let seed = stable_hash(&identity);
        Ok(Some(Self { claims, in_flight, extended, overlay, has_alternatives, seed }))
    }

    /// Returns the claims that are not allocated.
    pub(super) fn unallocated(&self) -> impl Iterator<Item = &Arc<ResourceClaim>> {
        self.claims.iter().filter(|claim| claim.allocation.is_none())
    }

    /// Returns which extended resources devices have to provide on a node.
    ///
    /// # Errors
    /// Returns the status that rejects the node.
    pub(super) fn through_devices(&self, node: &NodeView<'_>) -> Result<ThroughDevices, Status> {
        let Some(extended) = &self.extended else { return Ok(ThroughDevices::default()) };
        if extended.is_left_over() {
            return Err(Status::unresolvable("cannot schedule extended resource claim"));
        }
        extended.through_devices(node).map_err(Status::unresolvable)
    }

    /// Returns what is to be allocated on the nodes where devices provide these resources.
    pub(super) fn wanted(&self, pod: &Pod, through: &ThroughDevices) -> Wanted {
        let mut claims: Vec<_> = self.unallocated().cloned().collect();
        // Rule dynamic-resources-empty-extended-claim of docs/differences.toml: 1.36 makes a claim
        // even if the node offers all resources itself.
        let extended = self.extended.as_ref().filter(|_| !through.is_empty());
        let mappings = extended.map(|extended| {
            let (claim, mappings) = extended.claim_for(pod, through);
            claims.push(claim);
            mappings
        });
        Wanted { claims, mappings }
    }

    /// Whether a claim is allocated for other nodes only, or its devices failed to become ready.
    ///
    /// # Errors
    /// Returns the status of a claim whose node selector is invalid.
    pub(super) fn is_unavailable(
        &self,
        node: &NodeView<'_>,
        is_failed: impl Fn(&ResourceClaim) -> bool,
    ) -> Result<bool, Status> {
        for claim in &self.claims {
            if !can_use(claim, node)? || is_failed(claim) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a node can use the devices of a claim; true for a claim that is not allocated.
///
/// # Errors
/// Returns the status of a claim whose node selector is invalid.
pub(super) fn can_use(claim: &ResourceClaim, node: &NodeView<'_>) -> Result<bool, Status> {
    let selector = claim.allocation.as_ref().and_then(|own| own.node_selector.as_ref());
    match selector {
        None => Ok(true),
        Some(selector) => {
            selector.matches(node).map_err(|error| Status::error(error.messages().join("; ")))
        }
    }
}

/// Checks what holds for all nodes: a claim that is not allocated must not be in flight, and its
/// classes must exist.
fn check_claim(
    claim: &ResourceClaim,
    cluster: &Cluster,
    tracked: &TrackedClaims,
    gates: Gates,
) -> Result<(), Status> {
    if let Some(allocation) = &claim.allocation {
        let selector = allocation.node_selector.as_ref();
        return match selector.and_then(|selector| selector.compiled.as_ref().err()) {
            Some(error) => Err(Status::error(error.messages().join("; "))),
            None => Ok(()),
        };
    }
    let name = format!("{}/{}", claim.namespace, claim.name);
    if tracked.is_in_flight(&claim.uid) {
        let text = format!("resource claim {name} is in the process of being allocated");
        return Err(Status::unresolvable(text));
    }
    for request in &claim.spec.requests {
        check_request(request, &name, cluster, gates)?;
    }
    Ok(())
}

fn check_request(
    request: &DeviceRequest,
    claim: &str,
    cluster: &Cluster,
    gates: Gates,
) -> Result<(), Status> {
    match &request.kind {
        RequestKind::Exactly(body) => check_class(body, &request.name, cluster),
        RequestKind::FirstAvailable(_) if !gates.prioritized_list => {
            Err(Status::unresolvable(format!(
                "resource claim {claim}, request {}: has subrequests, but the DRAPrioritizedList \
                 feature is disabled",
                request.name
            )))
        }
        RequestKind::FirstAvailable(alternatives) => alternatives.iter().try_for_each(|body| {
            check_class(body, &format!("{}/{}", request.name, body.name), cluster)
        }),
        RequestKind::Unknown => Err(Status::unresolvable(format!(
            "resource claim {claim}, request {}: unknown request type",
            request.name
        ))),
    }
}

fn check_class(body: &RequestBody, name: &str, cluster: &Cluster) -> Result<(), Status> {
    if body.class.is_empty() {
        return Err(Status::error(format!("request {name}: unsupported request type")));
    }
    if cluster.device_class(&body.class).is_none() {
        let text = format!("request {name}: device class {} does not exist", body.class);
        return Err(Status::unresolvable(text));
    }
    Ok(())
}
