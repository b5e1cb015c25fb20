use framework::Labels;
use serde_json::{Value, json};
use supercluster::message::{CommitTarget, FreeResources, NodeSample, PodObject, Snapshot};
use supercluster::scheduler::PlacedPods;
use testkit::{cluster, node, pod};

use super::*;

fn registry() -> PipelineRegistry {
    let mut registry = PipelineRegistry::new();
    register(&mut registry).unwrap();
    registry
}

fn args(args: Value) -> PluginArgs {
    PluginArgs::new(args)
}

#[test]
fn small_sample_has_a_node_of_each_zone() {
    let zones = ["a", "a", "a", "a", "a", "a", "b", "c"];
    let nodes = zones.iter().enumerate();
    let nodes = nodes.map(|(n, zone)| node(&format!("n{n}")).label("zone", zone).build());
    let cluster = cluster(nodes, []);
    let strategy = registry().strategy("zones-in-turn", &args(json!({"label": "zone"}))).unwrap();
    let draw = |seed, count, seen: &NodeBits| {
        let mut drawn = NodeBits::default();
        let Source::Draw(mut draw) = strategy.start(seed) else { panic!("the strategy draws") };
        draw.draw(&cluster, count, seen, &mut drawn);
        drawn
    };
    for seed in 0..20 {
        let drawn = draw(seed, 3, &NodeBits::default());
        let zones: Vec<&str> =
            drawn.iter().map(|node| cluster.node(node).label("zone").unwrap()).collect();
        assert_eq!(zones, ["a", "b", "c"], "seed {seed}");
        let rest = draw(seed, 99, &drawn);
        assert_eq!(rest.count(), 5, "no node twice");
    }
    assert_ne!(draw(0, 3, &NodeBits::default()), draw(1, 3, &NodeBits::default()));
}

fn near(text: &str) -> PodObject {
    let object = json!({"metadata": {"name": "p", "annotations": {NEAR: text}}, "spec": {}});
    PodObject::from_json(object).unwrap()
}

fn at(location: &str) -> scheduler::Cluster {
    let properties = [("location".into(), location.into())].into();
    scheduler::Cluster {
        name: location.into(),
        labels: Labels::default(),
        properties,
        closed: None,
    }
}

#[test]
fn near_clusters_are_asked_and_the_nearest_is_preferred() {
    let plugin = registry().decision("GeoDistance", &args(json!({"maxKm": 600}))).unwrap();
    let vienna = near("48.2, 16.4");
    let pod =
        DecisionPod { object: &vienna, scheduling_retry_count: 0, placed: &PlacedPods::default() };
    let mut state = CycleState::new();
    assert!(plugin.pre_filter(&mut state, &pod).is_success());
    let (munich, zurich, madrid) = (at("48.1,11.6"), at("47.4,8.5"), at("40.4,-3.7"));
    let verdict = |cluster| plugin.filter_cluster(&state, &pod, cluster);
    assert!(verdict(&munich).is_success() && verdict(&zurich).is_success());
    assert_eq!(verdict(&madrid).message(), "it is 1812 km away");
    let nowhere = scheduler::Cluster::default();
    assert_eq!(verdict(&nowhere).message(), "it has no property \"location\"");
    let sampled = NodeSample {
        name: "n".into(),
        score: 0,
        free: FreeResources::default(),
        labels: [].into(),
    };
    let score = |cluster| plugin.score(&state, &pod, &DecisionNode { cluster, node: &sampled });
    assert_eq!((score(&munich), score(&zurich)), (40, 0));

    let invalid = near("Vienna");
    let status =
        plugin.pre_filter(&mut CycleState::new(), &DecisionPod { object: &invalid, ..pod });
    assert!(status.message().ends_with("\"Vienna\" is no place"), "{}", status.message());
    let error = registry().decision("GeoDistance", &args(json!({"maxKm": -1}))).map(|_| ());
    assert_eq!(error, Err("args: maxKm: -1 is not over 0".to_owned()));
}

#[test]
fn node_with_a_low_battery_is_a_conflict() {
    let check = registry().check("BatteryLevel", &args(json!({"label": "battery"}))).unwrap();
    let cluster = cluster(
        [
            node("full").label("battery", "90").build(),
            node("low").label("battery", "19").build(),
            node("mains").build(),
        ],
        [],
    );
    let pod = Arc::new(pod("p").build());
    let snapshot = Snapshot { incarnation: "life".into(), taken_ms: 0, revision: 0 };
    let verdict = |node: &str| {
        let target = CommitTarget { node: node.into(), best_of_at_least: None };
        check.check(&CommitView {
            pod: &pod,
            target: &target,
            node,
            snapshot: &snapshot,
            cluster: &cluster,
        })
    };
    assert_eq!((verdict("full"), verdict("mains")), (Ok(()), Ok(())));
    assert_eq!(verdict("low").unwrap_err().message, "BatteryLevel: node low has 19 %");
}
