//! TargetLoadPacking and LoadVariationRiskBalancing: measurements come, stay away and expire, and
//! decisions that look only at changed nodes are those of full passes.

use engine::cycle::Form;
use framework::Time;
use loadmaster_scheduler_plugins::load::{load_variation_risk_balancing, target_load_packing};
use proptest::prelude::*;
use serde_json::json;

use crate::world::{Placements, World};

const KIND: &str = "nodes.v1beta1.metrics.k8s.io";

#[derive(Debug, Clone)]
enum Step {
    Measured { node: usize, cpu: i64, age: i64 },
    Pod { cpu: i64 },
    Delete(usize),
    Pass { rounds: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0usize..4, 0i64..70, 0i64..200)
            .prop_map(|(node, cpu, age)| Step::Measured { node, cpu, age }),
        6 => (1i64..5).prop_map(|cpu| Step::Pod { cpu }),
        2 => (0usize..20).prop_map(Step::Delete),
        3 => (1usize..6).prop_map(|rounds| Step::Pass { rounds }),
    ]
}

/// Returns the node of each pod after each step.
fn placements(form: Form, name: &str, steps: &[Step]) -> Vec<Placements> {
    let mut world = World::new(form, name, json!({"maximumAgeSeconds": 60}));
    let name = |node: usize| format!("n{node}");
    (0..4).for_each(|node| world.node(&name(node)));
    let mut pods = 0;
    let mut history = Vec::new();
    for step in steps {
        match step {
            Step::Measured { node, cpu, age } => {
                let taken = world.now.as_nanos() / 1_000_000_000 - age;
                let metrics = json!({
                    "metadata": {"name": name(*node)},
                    "timestamp": Time::from_secs(taken).to_string(),
                    "window": "20s",
                    "usage": {"cpu": cpu.to_string(), "memory": "1Gi"},
                });
                world.object(KIND, metrics);
            }
            Step::Pod { cpu } => {
                world.pod(&format!("p{pods}"), *cpu);
                pods += 1;
            }
            Step::Delete(pod) => world.delete(&format!("p{pod}")),
            Step::Pass { rounds } => (0..*rounds).for_each(|_| world.pass()),
        }
        world.settle();
        history.push(world.placements());
    }
    history
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn decisions_on_changed_nodes_are_those_of_full_passes(
        steps in prop::collection::vec(step(), 1..40),
        name in prop::sample::select(vec![
            target_load_packing::NAME,
            load_variation_risk_balancing::NAME,
        ]),
    ) {
        let ranked = placements(Form::Ranked, name, &steps);
        prop_assert_eq!(&ranked, &placements(Form::Set, name, &steps));
        prop_assert_eq!(&ranked, &placements(Form::OneNode, name, &steps));
    }
}

#[test]
fn expired_measurements_decide_nothing() {
    let mut world = World::new(Form::Ranked, target_load_packing::NAME, json!({}));
    for name in ["a", "b"] {
        world.node(name);
    }
    let now = Time::from_secs(1000).to_string();
    for (name, cpu) in [("a", "60"), ("b", "20")] {
        let metrics = json!({"metadata": {"name": name}, "timestamp": now, "usage": {"cpu": cpu}});
        world.object(KIND, metrics);
    }
    for name in ["early", "again"] {
        world.pod(name, 1);
        world.settle();
        assert_eq!(world.node_of(name), Some("b"), "{name}");
    }
    // After 195 seconds the in-tree plugins decide: the node without pods has more room.
    (0..13).for_each(|_| world.pass());
    world.pod("late", 1);
    world.settle();
    assert_eq!(world.node_of("late"), Some("a"));
}
