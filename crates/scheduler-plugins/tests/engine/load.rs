//! The plugins that read the load: measurements come, stay away and expire, and decisions that look
//! only at changed nodes are those of full passes.

use engine::cycle::Form;
use framework::{PodKey, Time};
use loadmaster_scheduler_plugins::load::{
    load_aware_scheduling, load_variation_risk_balancing, low_risk_over_commitment,
    target_load_packing,
};
use plugin_trial::World;
use proptest::prelude::*;
use serde_json::json;

use crate::world::{NODES, Setting, forms_agree, node_name, steps, world};

const KIND: &str = "nodes.v1beta1.metrics.k8s.io";

/// Measures so many CPUs on a node now.
fn measure(world: &mut World, node: &str, cpu: &str) {
    let usage = json!({"cpu": cpu, "memory": "1Gi"});
    let metrics = json!({"metadata": {"name": node}, "timestamp": world.now.to_string(),
        "usage": usage});
    world.object(KIND, metrics);
}

/// A measurement of a node, of this age in seconds.
#[derive(Debug, Clone)]
struct Measured {
    node: usize,
    cpu: i64,
    age: i64,
}

fn measured() -> impl Strategy<Value = Measured> {
    (0..NODES, 0i64..70, 0i64..200).prop_map(|(node, cpu, age)| Measured { node, cpu, age })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn decisions_on_changed_nodes_are_those_of_full_passes(
        steps in steps(measured()),
        name in prop::sample::select(vec![
            target_load_packing::NAME,
            load_variation_risk_balancing::NAME,
            low_risk_over_commitment::NAME,
            load_aware_scheduling::NAME,
        ]),
    ) {
        let args = json!({"maximumAgeSeconds": 60});
        forms_agree(name, &args, &steps, |world, Measured { node, cpu, age }| {
            let taken = world.now.as_nanos() / 1_000_000_000 - age;
            world.object(KIND, json!({
                "metadata": {"name": node_name(*node)},
                "timestamp": Time::from_secs(taken).to_string(),
                "window": "20s",
                "usage": {"cpu": cpu.to_string(), "memory": "1Gi"},
            }));
        })?;
    }
}

#[test]
fn expired_measurements_decide_nothing() {
    let mut world = world(Form::Ranked, target_load_packing::NAME, json!({}));
    for name in ["a", "b"] {
        world.node(name);
    }
    measure(&mut world, "a", "60");
    measure(&mut world, "b", "20");
    for name in ["early", "again"] {
        world.pod(name, 1);
        world.settle();
        assert_eq!(world.node_of(name), Some("b"), "{name}");
    }
    // After 195 seconds the in-tree plugins decide: the node without pods has more room.
    (0..13).for_each(|_| world.pass(15));
    world.pod("late", 1);
    world.settle();
    assert_eq!(world.node_of("late"), Some("a"));
}

/// A pod that waits for the load of the only node is tried again when its measurement changes, and
/// when it expires.
#[test]
fn measurement_that_falls_or_expires_releases_a_waiting_pod() {
    let waiting = || {
        let args = json!({"maximumAgeSeconds": 60});
        let mut world = world(Form::Ranked, load_aware_scheduling::NAME, args);
        world.node("a");
        measure(&mut world, "a", "60");
        world.pod("p", 1);
        world.settle();
        let message = &world.messages[&PodKey::new("default", "p")];
        let expected = "0/1 nodes are available: 1 node(s) cpu usage exceed threshold.";
        assert!(message.starts_with(expected), "{message}");
        world
    };
    let mut world = waiting();
    measure(&mut world, "a", "50");
    world.pass(15);
    assert_eq!(world.node_of("p"), None, "the measurement does not help");
    measure(&mut world, "a", "20");
    world.pass(15);
    assert_eq!(world.node_of("p"), Some("a"));
    let mut world = waiting();
    (0..3).for_each(|_| world.pass(15));
    assert_eq!(world.node_of("p"), None, "the measurement counts for a minute");
    (0..2).for_each(|_| world.pass(15));
    assert_eq!(world.node_of("p"), Some("a"));
}
