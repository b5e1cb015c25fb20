//! Whether the topology manager of a kubelet admits a pod.

use framework::{ContainerKind, NodeView, Status};

use super::combinations;
use super::demand::{Demand, Request};
use super::topology::{Policy, Scope, Topology, Zone};

const POD: &str = "cannot align pod";
const INIT_CONTAINER: &str = "cannot align init container";
const CONTAINER: &str = "cannot align container";

/// Returns success if a kubelet with this topology admits the pod under `policy`.
pub(super) fn check(
    topology: &Topology,
    policy: Policy,
    demand: &Demand,
    node: &NodeView<'_>,
) -> Status {
    let rejected = |reason| Status::unschedulable(reason);
    if topology.config.scope == Scope::Pod {
        return match place(&topology.zones, policy, &demand.whole, node) {
            Some(_) => Status::success(),
            None => rejected(POD),
        };
    }
    let mut zones = None;
    for container in &demand.containers {
        let current: &[Zone] = zones.as_deref().unwrap_or(&topology.zones);
        let Some(places) = place(current, policy, &container.requests, node) else {
            return rejected(match container.kind {
                ContainerKind::App => CONTAINER,
                ContainerKind::Init | ContainerKind::Sidecar => INIT_CONTAINER,
            });
        };
        // An init container ends before the next container starts.
        if container.kind != ContainerKind::Init && !places.is_empty() {
            let zones = zones.get_or_insert_with(|| topology.zones.clone());
            subtract(zones, &places, &container.requests);
        }
    }
    Status::success()
}

/// Subtracts the requests from each of the places: how the kubelet divides them is not known.
pub(super) fn subtract(zones: &mut [Zone], places: &[usize], requests: &[Request]) {
    for place in places {
        for request in requests {
            zones[*place].subtract(&request.name, request.amount);
        }
    }
}

/// Returns the places of the NUMA nodes that the kubelet takes for these requests; none of them if
/// no request has to do with NUMA nodes. Returns `None` if the kubelet does not admit them.
fn place(
    zones: &[Zone],
    policy: Policy,
    requests: &[Request],
    node: &NodeView<'_>,
) -> Option<Vec<usize>> {
    let mut bound = Vec::with_capacity(requests.len());
    for request in requests {
        // Devices are known to the node as well.
        if !request.is_native && node.scalar(&request.name).allocatable == 0 {
            return None;
        }
        let is_listed = zones.iter().any(|zone| zone.resource(&request.name).is_some());
        match is_listed {
            true => bound.push(request),
            false if request.may_be_elsewhere() => {}
            false => return None,
        }
    }
    if bound.is_empty() {
        return Some(Vec::new());
    }
    match policy {
        Policy::SingleNumaNode => {
            // The kubelet takes the first one that fits.
            let fits = |zone: &Zone| bound.iter().all(|request| takes(zone, request));
            zones.iter().position(fits).map(|place| vec![place])
        }
        Policy::Restricted | Policy::BestEffort => narrowest(zones, &bound),
        Policy::None => Some(Vec::new()),
    }
}

fn takes(zone: &Zone, request: &Request) -> bool {
    let own = zone.resource(&request.name);
    own.is_some_and(|own| request.is_soft || own.available >= request.amount)
}

/// Returns the first NUMA nodes that give each resource in as few of them as an empty node would.
///
/// Under the policy `restricted` a kubelet admits a container only then: the fewest NUMA nodes are
/// the same number for each resource, and so many of them have enough of all resources.
fn narrowest(zones: &[Zone], requests: &[&Request]) -> Option<Vec<usize>> {
    let hard: Vec<&Request> = requests.iter().copied().filter(|request| !request.is_soft).collect();
    let mut fewest = hard.iter().map(|request| {
        let capacities =
            zones.iter().filter_map(|zone| Some(zone.resource(&request.name)?.capacity));
        combinations::fewest(capacities.collect(), request.amount)
    });
    let Some(first) = fewest.next() else { return Some(Vec::new()) };
    let len = first?;
    if fewest.any(|other| other != Some(len)) {
        return None;
    }
    let has_enough = |chosen: &[usize]| {
        hard.iter().all(|request| {
            let own = chosen.iter().filter_map(|place| zones[*place].resource(&request.name));
            own.map(|own| own.available).fold(0, i64::saturating_add) >= request.amount
        })
    };
    let mut found = None;
    combinations::visit(zones.len(), len, |chosen| {
        if has_enough(chosen) {
            found = Some(chosen.to_vec());
        }
        found.is_none()
    });
    found
}
