//! A follower knows what the engine knows, whatever happens while it copies, and copies only what
//! has changed.

use engine::ports::Ports;
use engine::{Change, EffectKind, Engine, Input};
use explain::{ClusterCopy, Follower};
use fastrand::Rng;
use framework::{Answer, EventResource, ObjectKey, PodKey, Time};
use loadmaster_explain as explain;
use serde_json::json;
use testkit::{node, pod};

use crate::support::config;

const NODES: usize = 30;
const PODS: usize = 120;

fn apply(engine: &mut Engine, change: Change) {
    let ports = &mut Ports { extenders: &mut (), probe: &mut () };
    engine.step(Input::Change(change), Time::ZERO, ports);
}

/// Makes one random change: of a node, a pod or a claim, a decision, or its bind, which may fail.
fn change(engine: &mut Engine, rng: &mut Rng) {
    let ports = &mut Ports { extenders: &mut (), probe: &mut () };
    let name = |kind: &str, most: usize, rng: &mut Rng| format!("{kind}{}", rng.usize(0..most));
    match rng.u8(0..10) {
        0 => {
            let cpu = rng.u8(4..8).to_string();
            let node = node(&name("n", NODES, rng)).allocatable("cpu", &cpu);
            let node = node.allocatable("memory", "8Gi").allocatable("pods", "9").build();
            apply(engine, Change::Node(node));
        }
        1 if rng.bool() => apply(engine, Change::NodeDeleted(name("n", NODES, rng).into())),
        2..=4 => {
            let name = name("p", PODS, rng);
            if engine.pending_pod(&PodKey::new("default", &name)).is_none() {
                let uid = format!("{name}-{}", rng.u8(0..2));
                let own = pod(&name).uid(&uid).cpu("500m");
                // A pod ends before another one of its name begins.
                let placed = engine.cluster().pods().map(|placed| placed.pod.clone());
                let earlier =
                    placed.filter(|pod| *pod.key.name == *name && *pod.uid.to_string() != *uid);
                for pod in earlier.collect::<Vec<_>>() {
                    let (key, uid) = (pod.key.clone(), pod.uid.clone());
                    apply(engine, Change::PodDeleted { key, uid });
                }
                let own = match rng.u8(0..3) {
                    0 => own.on(&format!("n{}", rng.usize(0..NODES))),
                    1 => own.nominated(&format!("n{}", rng.usize(0..NODES))),
                    _ => own,
                };
                apply(engine, Change::Pod(Box::new(own.build())));
            }
        }
        5 => {
            let placed: Vec<_> = engine.cluster().pods().map(|placed| placed.pod.clone()).collect();
            if let Some(pod) = rng.choice(placed) {
                match rng.bool() {
                    true => {
                        let (key, uid) = (pod.key.clone(), pod.uid.clone());
                        apply(engine, Change::PodDeleted { key, uid });
                    }
                    // No count of the cluster changes by this.
                    false => {
                        let mut newer = framework::Pod::clone(&pod);
                        newer.resource_version += 1;
                        apply(engine, Change::Pod(Box::new(newer)));
                    }
                }
            }
        }
        6 => {
            let name = name("c", 5, rng);
            let object = rng
                .bool()
                .then(|| json!({"metadata": {"name": name, "namespace": "default"}, "spec": {}}));
            let kind = EventResource::PersistentVolumeClaim;
            let key = ObjectKey::namespaced(kind, "default".into(), name.as_str().into());
            apply(engine, Change::decode(key, object).expect("an object of its kind"));
        }
        7 | 8 => drop(engine.step(Input::Schedule, Time::ZERO, ports).attempt()),
        _ => {
            for effect in engine.take_effects() {
                let answer = match &effect.kind {
                    EffectKind::Bind { .. } if rng.bool() => Answer::Error("refused".to_owned()),
                    _ => Answer::ok(),
                };
                engine.step(
                    Input::Answer { effect: effect.id, answer: answer.clone() },
                    Time::ZERO,
                    ports,
                );
            }
        }
    }
}

/// Returns what is known, as text: nodes, pods with their nodes, versions and nominations, and
/// objects.
fn known(engine: &Engine) -> Vec<String> {
    let cluster = engine.cluster();
    let nodes = cluster.nodes().iter().map(|node| format!("{:?}", cluster.copy_of_node(node)));
    let placed = cluster.pods().map(|placed| {
        let pod = &placed.pod;
        let node = cluster.node_name(placed.node);
        format!("{} {} {} on {node}", pod.key, pod.uid, pod.resource_version)
    });
    let waiting = engine.pending().filter(|pod| engine.world().placed(&pod.uid).is_none());
    let waiting = waiting.map(|pod| {
        format!("{} {} waits, {:?}", pod.key, pod.uid, engine.nominator().node_of(&pod.uid))
    });
    let objects = cluster.stored_objects_after(None);
    let objects = objects.map(|own| format!("{:?} {:?}", own.key(), own.json()));
    let mut known: Vec<String> = nodes.chain(placed).chain(waiting).chain(objects).collect();
    known.sort_unstable();
    known
}

#[test]
fn follower_knows_what_the_engine_knows_after_any_changes() {
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let mut engine = Engine::new(config());
        let mut follower = Follower::new(config());
        for round in 0..25 {
            (0..rng.usize(0..40)).for_each(|_| change(&mut engine, &mut rng));
            // Things happen between the slices.
            let mut copy = ClusterCopy::since(follower.known().clone());
            while !copy.advance(&engine, Time::ZERO) {
                (0..rng.usize(0..6)).for_each(|_| change(&mut engine, &mut rng));
            }
            follower.follow(copy, Time::ZERO).expect("its own copy");
            let mut copy = ClusterCopy::since(follower.known().clone());
            while !copy.advance(&engine, Time::ZERO) {}
            follower.follow(copy, Time::ZERO).expect("its own copy");
            assert_eq!(known(follower.engine()), known(&engine), "seed {seed}, round {round}");
        }
    }
}

#[test]
fn later_copy_has_only_the_nodes_that_have_changed() {
    let mut engine = Engine::new(config());
    for number in 0..NODES {
        apply(&mut engine, Change::Node(node(&format!("n{number}")).build()));
    }
    for number in 0..PODS {
        let pod = pod(&format!("p{number}")).on(&format!("n{}", number % NODES));
        apply(&mut engine, Change::Pod(Box::new(pod.build())));
    }
    let mut follower = Follower::new(config());
    assert_eq!(
        follower.follow(ClusterCopy::of(&engine, Time::ZERO), Time::ZERO),
        Some(NODES + PODS)
    );
    apply(&mut engine, Change::Pod(Box::new(pod("late").on("n7").build())));
    let mut copy = ClusterCopy::since(follower.known().clone());
    while !copy.advance(&engine, Time::ZERO) {}
    assert!(copy.pod(&PodKey::new("default", "p3")).is_some(), "the base is known, too");
    let parts = |follower: &Follower| {
        let mut copy = ClusterCopy::since(follower.known().clone());
        while !copy.advance(&engine, Time::ZERO) {}
        let (nodes, pods, objects) = copy.into_parts();
        (nodes.len(), pods.len(), objects.len())
    };
    assert_eq!(parts(&follower), (1, PODS / NODES + 1, 0));
    assert_eq!(follower.follow(copy, Time::ZERO), Some(1));
    assert_eq!(parts(&follower), (0, 0, 0));
}

/// What the scheduling loop does for a question in one turn does not grow with the cluster.
#[test]
fn work_of_a_slice_is_bounded() {
    const ON_NODE: usize = 20;
    let mut engine = Engine::new(config());
    for number in 0..300 {
        apply(&mut engine, Change::Node(node(&format!("n{number}")).build()));
        for own in 0..ON_NODE {
            let pod = pod(&format!("p{number}-{own}")).on(&format!("n{number}"));
            apply(&mut engine, Change::Pod(Box::new(pod.build())));
        }
        apply(&mut engine, Change::Pod(Box::new(pod(&format!("w{number}")).build())));
        let (kind, name) = (EventResource::PersistentVolumeClaim, format!("c{number}"));
        let key = ObjectKey::namespaced(kind, "default".into(), name.into());
        apply(&mut engine, Change::decode(key, Some(json!({"spec": {}}))).unwrap());
    }
    let mut copy = ClusterCopy::default();
    let (mut copied, mut is_complete) = (0, false);
    while !is_complete {
        is_complete = copy.advance(&engine, Time::ZERO);
        let slice = copy.take_changes().len();
        assert!(slice <= 256 + ON_NODE, "{slice} objects in a slice");
        copied += slice;
    }
    assert_eq!(copied, 300 * (ON_NODE + 3));
    let mut follower = Follower::new(config());
    follower.follow(ClusterCopy::of(&engine, Time::ZERO), Time::ZERO);
    let mut copy = ClusterCopy::since(follower.known().clone());
    let slices = std::iter::from_fn(|| (!copy.advance(&engine, Time::ZERO)).then_some(())).count();
    assert_eq!(slices, 3, "pending pods, and nodes with 4,096 pods at a time");
    let mut copy = ClusterCopy::of(&engine, Time::ZERO);
    let freed = std::iter::from_fn(|| (!copy.discard()).then_some(())).count();
    assert!(freed >= 300 * ON_NODE / (256 + ON_NODE), "{freed} slices free the copy");
}

#[test]
fn copy_for_another_follower_is_refused() {
    let mut engine = Engine::new(config());
    apply(&mut engine, Change::Node(node("n").build()));
    let [mut first, mut second] = [(), ()].map(|()| Follower::new(config()));
    first.follow(ClusterCopy::of(&engine, Time::ZERO), Time::ZERO);
    second.follow(ClusterCopy::of(&engine, Time::ZERO), Time::ZERO);
    let mut copy = ClusterCopy::since(first.known().clone());
    while !copy.advance(&engine, Time::ZERO) {}
    assert_eq!(second.follow(copy, Time::ZERO), None);
}
