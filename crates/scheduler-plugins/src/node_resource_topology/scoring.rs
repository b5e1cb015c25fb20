//! The scoring strategies.

use std::collections::BTreeMap;

use framework::{ContainerKind, MAX_NODE_SCORE};
use serde::{Deserialize, Serialize};

use super::demand::{Demand, Request, whole};
use super::topology::{Policy, Scope, Topology, Zone};
use super::{align, combinations};

/// The distance of NUMA nodes for which none is known.
const UNKNOWN_DISTANCE: i64 = 255;

/// The type of a scoring strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Strategy {
    LeastAllocated,
    MostAllocated,
    BalancedAllocation,
    #[serde(rename = "LeastNUMANodes")]
    LeastNumaNodes,
}

impl Strategy {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "LeastAllocated" => Some(Self::LeastAllocated),
            "MostAllocated" => Some(Self::MostAllocated),
            "BalancedAllocation" => Some(Self::BalancedAllocation),
            "LeastNUMANodes" => Some(Self::LeastNumaNodes),
            _ => None,
        }
    }
}

/// Scores nodes for Guaranteed pods.
#[derive(Debug)]
pub(super) struct Scorer {
    pub(super) strategy: Strategy,
    /// Weights; other resources have 1.
    pub(super) weights: BTreeMap<String, i64>,
}

impl Scorer {
    pub(super) fn score(&self, topology: &Topology, demand: &Demand) -> i64 {
        let config = topology.config;
        match (self.strategy, config.scope) {
            (Strategy::LeastNumaNodes, Scope::Pod) => fewest_for_pod(topology, demand),
            (Strategy::LeastNumaNodes, Scope::Container) => fewest_for_containers(topology, demand),
            _ if config.policy != Policy::SingleNumaNode => 0,
            (_, Scope::Pod) => self.worst(&topology.zones, &demand.whole),
            (_, Scope::Container) => {
                let containers = demand.containers.iter();
                let scores = containers.map(|own| self.worst(&topology.zones, &own.requests));
                scores.sum::<i64>() / (demand.containers.len() as i64).max(1)
            }
        }
    }

    /// Returns the lowest score of a NUMA node that is not 0: the kubelet chooses among them.
    fn worst(&self, zones: &[Zone], requests: &[Request]) -> i64 {
        let scores = zones.iter().map(|zone| self.score_of_zone(zone, requests));
        scores.filter(|score| *score != 0).min().unwrap_or(0)
    }

    fn score_of_zone(&self, zone: &Zone, requests: &[Request]) -> i64 {
        let free = |request: &Request| {
            let own = zone.resource(&request.name);
            own.map_or(0, |own| whole(&request.name, own.available))
        };
        if self.strategy == Strategy::BalancedAllocation {
            return balanced(
                requests
                    .iter()
                    .map(|request| Share { asked: request.whole(), free: free(request) }),
            );
        }
        let (mut sum, mut weights) = (0, 0);
        for request in requests {
            let (asked, free) = (i128::from(request.whole()), i128::from(free(request)));
            let score = match self.strategy {
                _ if free == 0 || asked > free => 0,
                Strategy::MostAllocated => asked * 100 / free,
                _ => (free - asked) * 100 / free,
            };
            let weight = i128::from(self.weights.get(&*request.name).copied().unwrap_or(1).max(1));
            sum += score * weight;
            weights += weight;
        }
        i64::try_from(sum / weights.max(1)).unwrap_or(MAX_NODE_SCORE)
    }
}

/// What is asked of a resource, and how much is free.
struct Share {
    asked: i64,
    free: i64,
}

/// Returns 100 minus the variance of the fractions that are asked for, in percent.
fn balanced(shares: impl Iterator<Item = Share>) -> i64 {
    let fractions: Vec<f64> = shares
        .map(|share| match share.free {
            0 => 1.0,
            free => share.asked as f64 / free as f64,
        })
        .collect();
    if fractions.iter().any(|fraction| *fraction > 1.0) {
        return 0;
    }
    if fractions.len() < 2 {
        return MAX_NODE_SCORE;
    }
    let mean = fractions.iter().sum::<f64>() / fractions.len() as f64;
    let squares: f64 = fractions.iter().map(|fraction| (fraction - mean).powi(2)).sum();
    ((1.0 - squares / (fractions.len() - 1) as f64) * 100.0) as i64
}

/// The NUMA nodes that a pod or container needs.
struct Needed {
    places: Vec<usize>,
    /// Whether no other so many of them are closer to each other.
    are_closest: bool,
}

fn fewest_for_pod(topology: &Topology, demand: &Demand) -> i64 {
    let requests = bound(&topology.zones, &demand.whole);
    if requests.is_empty() {
        return MAX_NODE_SCORE;
    }
    needed(&topology.zones, &requests)
        .map_or(0, |own| score_of_count(topology, own.places.len(), own.are_closest))
}

fn fewest_for_containers(topology: &Topology, demand: &Demand) -> i64 {
    let mut zones = topology.zones.clone();
    let (mut most, mut are_closest) = (0, true);
    for container in &demand.containers {
        let requests = bound(&zones, &container.requests);
        if requests.is_empty() {
            continue;
        }
        let Some(own) = needed(&zones, &requests) else { return 0 };
        most = most.max(own.places.len());
        are_closest &= own.are_closest;
        if container.kind != ContainerKind::Init {
            take(&mut zones, &own.places, &container.requests);
        }
    }
    if most == 0 { MAX_NODE_SCORE } else { score_of_count(topology, most, are_closest) }
}

/// Takes the requests from the places, from each as much as it has.
fn take(zones: &mut [Zone], places: &[usize], requests: &[Request]) {
    if let [_] = places {
        return align::subtract(zones, places, requests);
    }
    for request in requests {
        let mut left = request.amount;
        for place in places {
            let own = zones[*place].resource(&request.name).map_or(0, |own| own.available);
            zones[*place].subtract(&request.name, left);
            left = left.saturating_sub(own).max(0);
        }
    }
}

/// Returns the requests of resources that NUMA nodes list.
fn bound<'a>(zones: &[Zone], requests: &'a [Request]) -> Vec<&'a Request> {
    let is_listed = |request: &&Request| {
        !request.may_be_elsewhere()
            || zones.iter().any(|zone| zone.resource(&request.name).is_some())
    };
    let all: Vec<_> = requests.iter().filter(is_listed).collect();
    let any =
        all.iter().any(|request| zones.iter().any(|zone| zone.resource(&request.name).is_some()));
    if any { all } else { Vec::new() }
}

fn score_of_count(topology: &Topology, count: usize, are_closest: bool) -> i64 {
    let step = MAX_NODE_SCORE / i64::from(topology.config.max_numa);
    let score = MAX_NODE_SCORE - count as i64 * step + if are_closest { step / 2 } else { 0 };
    score.clamp(0, MAX_NODE_SCORE)
}

/// Returns the fewest NUMA nodes that have enough together, the closest first. If there are too
/// many sets to look at all, the first ones are looked at.
fn needed(zones: &[Zone], requests: &[&Request]) -> Option<Needed> {
    let suitable: Vec<usize> = (0..zones.len())
        .filter(|place| requests.iter().all(|own| zones[*place].resource(&own.name).is_some()))
        .collect();
    let available = |place: usize, request: &Request| {
        zones[place].resource(&request.name).map_or(0, |own| own.available)
    };
    let mut least = 1;
    for request in requests {
        let amounts = suitable.iter().map(|place| available(*place, request));
        least = least.max(combinations::fewest(amounts.collect(), request.amount)?);
    }
    let has_enough = |chosen: &[usize]| {
        requests.iter().all(|request| {
            let own = chosen.iter().map(|own| available(suitable[*own], request));
            own.fold(0, i64::saturating_add) >= request.amount
        })
    };
    for len in least..=suitable.len() {
        let mut best: Option<(i64, Vec<usize>)> = None;
        combinations::visit(suitable.len(), len, |chosen| {
            if has_enough(chosen) {
                let places: Vec<usize> = chosen.iter().map(|own| suitable[*own]).collect();
                let distance = distance(zones, &places);
                if best.as_ref().is_none_or(|(known, _)| distance < *known) {
                    best = Some((distance, places));
                }
            }
            true
        });
        if let Some((own, places)) = best {
            let mut closest = i64::MAX;
            combinations::visit(zones.len(), len, |chosen| {
                closest = closest.min(distance(zones, chosen));
                true
            });
            return Some(Needed { places, are_closest: own <= closest });
        }
    }
    None
}

/// Returns the sum of the distances between all pairs, each with itself included. For sets of one
/// size it orders as their mean.
fn distance(zones: &[Zone], places: &[usize]) -> i64 {
    let pairs = places.iter().flat_map(|from| places.iter().map(|to| (*from, *to)));
    pairs
        .map(|(from, to)| zones[from].costs.get(&zones[to].id).copied().unwrap_or(UNKNOWN_DISTANCE))
        .sum()
}
