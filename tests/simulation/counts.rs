//! Invariants of the state that the scheduler keeps: what it counts is what it has, and it has what
//! the watches have shown. Everything is counted again after each step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::Engine;
use framework::{NominatedPods, Uid};

use super::rules::{Checked, rule};

/// Checks the counts of each node against its pods.
pub(crate) fn of_nodes(engine: &Engine) -> Checked {
    let cluster = engine.cluster();
    let mut placed = 0;
    for node in cluster.nodes().iter() {
        let (mut amounts, mut scored) = ([0; 3], [0; 2]);
        let mut pods = 0;
        for pod in cluster.node(node).pods() {
            let taken = &pod.requests.placed;
            let own = [taken.milli_cpu, taken.memory, taken.ephemeral_storage];
            amounts.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            let taken = &pod.requests.placed_non_zero;
            let own = [taken.milli_cpu, taken.memory];
            scored.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            pods += 1;
            let ports = &pod.spec.host_ports;
            let is_known = |port| cluster.using_port(port).is_some_and(|own| own.contains(node));
            rule(ports.iter().all(is_known), || format!("a port of {} is not counted", pod.key))?;
        }
        let known = cluster.requested().get(node);
        let known = [known.milli_cpu, known.memory, known.ephemeral_storage];
        let known_scored = cluster.non_zero_requested().get(node);
        let known_scored = [known_scored.milli_cpu, known_scored.memory];
        let known_pods = cluster.pod_counts()[node.index()];
        let counted = (amounts, scored, pods);
        rule((known, known_scored, known_pods) == counted, || {
            let name = cluster.node_name(node);
            format!("{name} counts {known:?}, {known_scored:?}, {known_pods}, and has {counted:?}")
        })?;
        placed += pods;
    }
    let all = i64::try_from(cluster.pod_count()).unwrap_or(i64::MAX);
    rule(placed <= all, || format!("{placed} pods are on nodes, and there are {all}"))
}

/// Checks that the cache has the pods that the watch has `shown`, and besides them only assumed
/// pods.
pub(crate) fn of_pods(engine: &Engine, shown: &BTreeMap<Uid, Arc<str>>) -> Checked {
    let world = engine.world();
    let cluster = world.cluster();
    for (uid, node) in shown {
        let known = world.placed(uid).map(|placed| cluster.node_name(placed.node));
        rule(known == Some(node), || format!("{uid} is shown on {node}, and known on {known:?}"))?;
        rule(!world.is_assumed(uid), || format!("{uid} is shown on {node}, and assumed"))?;
    }
    let mut others = cluster.pods().filter(|placed| !shown.contains_key(&placed.pod.uid));
    let stray = others.find(|placed| !world.is_assumed(&placed.pod.uid));
    rule(stray.is_none(), || format!("{:?} has a node that no watch has shown", stray))?;
    let assumed = cluster.pods().filter(|placed| world.is_assumed(&placed.pod.uid)).count();
    rule(assumed == world.assumed_count(), || {
        format!("{assumed} pods are assumed, and {} are counted", world.assumed_count())
    })
}

/// Checks that only pending pods are nominated, each to one node, and that events are kept only for
/// pods that are being tried.
pub(crate) fn of_queue(engine: &Engine) -> Checked {
    let pending: BTreeSet<&Uid> = engine.pending().map(|pod| &pod.uid).collect();
    let nominator = engine.nominator();
    let mut nominated = BTreeSet::new();
    for node in nominator.nodes() {
        for pod in nominator.nominated_to(node) {
            let (key, uid) = (&pod.key, &pod.uid);
            rule(pending.contains(uid), || format!("{key} is nominated, and is not pending"))?;
            rule(nominated.insert(uid.clone()), || format!("{key} is nominated to two nodes"))?;
        }
    }
    let (counts, events) = (engine.queue().counts(), engine.queue().in_flight_events().len());
    rule(counts.in_flight > 0 || events == 0, || {
        format!("{events} events are kept, and no pod is being tried")
    })
}
