//! The room that victims of a preemption leave.

use super::demand::{Demand, Request};
use super::topology::{Policy, Topology};

/// Number of ways in which victims may lie on the NUMA nodes that are looked at.
const LIMIT: usize = 64;

/// Returns what the NUMA nodes may have without pods for which the report accounts. The report does
/// not say which NUMA node a pod is on: there is a topology for each way in which the pods may lie
/// on those that are in use. If these are too many, or the policy lets pods spread, no room counts.
pub(super) fn without(topology: &Topology, victims: &[Demand]) -> Vec<Topology> {
    let mut ways = vec![topology.clone()];
    if topology.config.policy != Policy::SingleNumaNode {
        return ways;
    }
    for victim in victims {
        for mut part in victim.exclusive_parts(topology.config.scope) {
            // Other devices are not of a NUMA node.
            part.retain(|request| topology.lists(&request.name));
            if part.is_empty() {
                continue;
            }
            ways = ways.iter().flat_map(|way| without_part(way, &part)).collect();
            ways.sort_unstable_by_key(available);
            ways.dedup_by_key(|way| available(way));
            if ways.len() > LIMIT {
                return vec![topology.clone()];
            }
        }
    }
    ways
}

/// Returns the topologies without a part of a pod, on each NUMA node on which it may lie. A part
/// that may lie on none leaves no room.
fn without_part(topology: &Topology, part: &[Request]) -> Vec<Topology> {
    let places = (0..topology.zones.len()).filter(|place| topology.zones[*place].may_hold(part));
    let ways: Vec<Topology> = places
        .map(|place| {
            let mut way = topology.clone();
            part.iter().for_each(|request| way.zones[place].add(&request.name, request.amount));
            way
        })
        .collect();
    if ways.is_empty() { vec![topology.clone()] } else { ways }
}

fn available(topology: &Topology) -> Vec<i64> {
    let zones = topology.zones.iter();
    zones.flat_map(|zone| zone.resources.iter().map(|own| own.available)).collect()
}
