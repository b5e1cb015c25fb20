//! Equal inputs in equal order with an equal seed give equal effects, in all forms of the plugins.

use engine::cycle::Form;
use engine::{Effect, TieBreak};
use framework::{PermitVerdict, PreBindPreFlight, PreBindStep};
use testkit::{node, pod};

use crate::harness::*;

fn plugins() -> [Fake; 4] {
    [
        gates(),
        fit(),
        fake("Packed").score(|_, node| Ok(node.requested().milli_cpu * 100 / 64_000)),
        fake("Slow")
            .permit(|pod, _| match pod.labels.get("slow") {
                Some(_) => PermitVerdict::Wait {
                    timeout: std::time::Duration::from_secs(3),
                    reason: String::new(),
                },
                None => PermitVerdict::Allow,
            })
            .pre_flight(|pod| match pod.priority() {
                0 => PreBindPreFlight::Skip { allow_parallel: true },
                _ => PreBindPreFlight::Run { allow_parallel: true },
            })
            .pre_bind(|_, _| PreBindStep::Done(yes())),
    ]
}

/// The effects of a random history: pods and nodes come and go, time passes.
fn effects(seed: u64, form: Form, percentage: i32) -> Vec<Effect> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut setup = Setup::new(plugins());
    (setup.seed, setup.form) = (seed, form);
    (setup.tie_break, setup.percentage) = (TieBreak::Random, percentage);
    let mut world = setup.build();
    for step in 0..150 {
        let name = format!("p{}", random.u8(..40));
        let host = format!("n{}", random.u8(..12));
        match random.u8(..10) {
            0..5 => {
                let pod = pod(&name).uid(&step.to_string()).priority(random.i32(..3));
                let pod = pod.cpu(&random.u8(1..5).to_string());
                let pod = if random.u8(..5) == 0 { pod.label("slow", "yes") } else { pod };
                let pod = if random.u8(..5) == 0 { pod.gate("hold") } else { pod };
                if !world.server.contains_key(&key(&name)) {
                    world.pod(if random.bool() { pod } else { pod.nominated(&host) });
                }
            }
            5 if world.server.contains_key(&key(&name)) => world.delete(&name),
            6 if world.server.contains_key(&key(&name)) => {
                world.update(&name, |pod| pod.spec.scheduling_gates.clear());
            }
            7 => world.delete_node(&host),
            8 | 9 => world.node(node(&host).zone(&random.u8(..3).to_string())),
            _ => {}
        }
        world.run_for(u64::from(random.u8(..2)));
    }
    world.run_for(20);
    assert!(world.history.len() > 50, "something happened");
    world.history
}

#[test]
fn equal_seeds_give_equal_effects() {
    for seed in 0..4 {
        for percentage in [0, 50] {
            let [first, second] = [(); 2].map(|()| effects(seed, Form::Set, percentage));
            assert_eq!(first, second, "seed {seed}");
        }
    }
}

#[test]
fn all_forms_give_equal_effects() {
    for seed in 0..6 {
        for percentage in [0, 50] {
            let set = effects(seed, Form::Set, percentage);
            for form in [Form::OneNode, Form::Ranked] {
                assert_eq!(effects(seed, form, percentage), set, "seed {seed}, {form:?}");
            }
        }
    }
}

#[test]
fn another_seed_breaks_ties_differently() {
    let nodes = |seed| -> Vec<String> {
        let mut setup = Setup::new([fit()]);
        (setup.seed, setup.tie_break) = (seed, TieBreak::Random);
        let mut world = setup.nodes(&["a", "b", "c", "d"]);
        for i in 0..8 {
            world.pod(pod(&i.to_string()));
        }
        world.run();
        (0..8).filter_map(|i| world.node_of(&i.to_string())).collect()
    };
    assert_eq!(nodes(1).len(), 8);
    assert_ne!(nodes(1), nodes(2));
}
