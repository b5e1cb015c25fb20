//! Waves of pods with rising priority arrive in a full cluster, until nothing moves.
//!
//! The scheduler and the store of the sandbox, with its controllers and kubelets, run under a
//! virtual clock. Pods belong to ReplicaSets, so an evicted pod is replaced by one that waits or
//! evicts others; most pods have PodDisruptionBudgets.
//!
//! - `world`: the scheduler and its cluster in virtual time.
//! - `cluster`: the initial cluster, and the waves.
//! - `preemptions`, `at_rest`: invariants of every preemption, and at rest.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod at_rest;
mod cluster;
mod preemptions;
mod world;

use cluster::WAVES;
use world::World;

/// Runs all waves, with this number of pods of each size, over a cluster of this number of nodes.
/// The configuration has these fields.
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

/// A condition for the test to be meaningful.
fn assert_waves_met(world: &World) {
    let mut preemptions = world.preemptions.iter();
    assert!(preemptions.any(|one| one.violations > 0), "no budget was ever in the way");
    let mut victims = world.preemptions.iter().flat_map(|one| &one.victims);
    assert!(victims.any(|pod| pod.priority() > 0), "no wave hit another");
}

#[test]
fn three_waves_over_five_hundred_nodes_come_to_rest() {
    assert_waves_met(&run(500, 20, ""));
}

#[test]
fn with_all_nodes_as_candidates_the_least_important_pods_are_evicted() {
    let args = "profiles: [{pluginConfig: [{name: DefaultPreemption, args: \
                {minCandidateNodesPercentage: 100}}]}]";
    let world = run(200, 10, args);
    assert_waves_met(&world);
    for preemption in &world.preemptions {
        preemption.assert_no_less_important_victims_elsewhere();
    }
}
