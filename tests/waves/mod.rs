//! Waves of pods of higher and higher priority come over a full cluster, until it is quiet.
//!
//! The scheduler and the store of the sandbox, with its controllers and kubelets, live under a
//! virtual clock. Pods belong to ReplicaSets, so that whoever is evicted comes back and waits, or
//! evicts others in turn; most of them have PodDisruptionBudgets.
//!
//! - `world`: the scheduler and its cluster in virtual time.
//! - `cluster`: what is in it at first, and the waves.
//! - `preemptions`, `at_rest`: what must hold of every preemption, and once it is quiet.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod at_rest;
mod cluster;
mod preemptions;
mod world;

use cluster::WAVES;
use world::World;

/// All waves, with so many pods of each size, over a cluster of so many nodes. The configuration has
/// these fields.
fn run(nodes: usize, replicas: usize, fields: &str) -> World {
    let mut world = World::new(nodes, fields);
    for wave in &WAVES {
        world.create(cluster::wave(wave, replicas));
        world.until_quiet();
        world.assert_every_preemption_served();
        world.assert_waves_bound();
        world.assert_nothing_overcommitted();
    }
    world
}

/// Not a rule, but without it the rules say little.
fn assert_waves_met(world: &World) {
    let mut preemptions = world.preemptions.iter();
    assert!(preemptions.any(|one| one.violations > 0), "no budget was ever in the way");
    let mut victims = world.preemptions.iter().flat_map(|one| &one.victims);
    assert!(victims.any(|pod| pod.priority() > 0), "no wave hit another");
}

#[test]
fn three_waves_over_a_thousand_nodes_come_to_rest() {
    assert_waves_met(&run(1000, 30, ""));
}

#[test]
fn where_every_node_is_looked_at_the_least_important_pods_go() {
    let args = "profiles: [{pluginConfig: [{name: DefaultPreemption, args: \
                {minCandidateNodesPercentage: 100}}]}]";
    let world = run(200, 10, args);
    assert_waves_met(&world);
    for preemption in &world.preemptions {
        preemption.assert_no_less_important_victims_elsewhere();
    }
}
