use framework::{ExtensionPoint, Metric, Node};
use serde_json::{Value, json};
use testkit::{Harness, NodeBuilder, node, pod};

use super::*;

fn made(args: Value) -> Result<Plugin, String> {
    plugin(&PluginArgs::new(args))
}

fn by_zone() -> Plugin {
    made(json!({"zones": {"a": 0.5, "b": 1.5, "c": 2}})).unwrap()
}

fn typed(node: NodeBuilder, instance_type: &str) -> Node {
    node.label(INSTANCE_TYPE, instance_type).build()
}

fn scores(plugin: Plugin, nodes: impl IntoIterator<Item = Node>) -> Vec<(String, i64)> {
    let harness = nodes.into_iter().fold(Harness::new(plugin), Harness::node);
    harness.run(&pod("p").build()).scores.into_iter().collect()
}

fn named<const N: usize>(scores: [(&str, i64); N]) -> Vec<(String, i64)> {
    scores.map(|(name, score)| (name.to_owned(), score)).into()
}

#[test]
fn cheapest_zone_scores_highest() {
    let nodes = [node("dear").zone("c"), node("cheap").zone("a"), node("middle").zone("b")];
    let scores = scores(by_zone(), nodes.map(NodeBuilder::build));
    assert_eq!(scores, named([("cheap", 100), ("dear", 0), ("middle", 33)]));
}

#[test]
fn instance_type_takes_precedence_over_zone() {
    let plugin = made(json!({"zones": {"a": 1, "b": 3}, "instanceTypes": {"spot": 2}})).unwrap();
    let nodes = [
        node("a").zone("a").build(),
        typed(node("a-spot").zone("a"), "spot"),
        typed(node("b-other").zone("b"), "other"),
        typed(node("b-spot").zone("b"), "spot"),
    ];
    let expected = named([("a", 100), ("a-spot", 50), ("b-other", 0), ("b-spot", 50)]);
    assert_eq!(scores(plugin, nodes), expected);
}

#[test]
fn rankings_stay_on() {
    let harness = Harness::new(by_zone()).node(node("a").zone("a").build());
    assert_eq!(harness.ranking_problem(&pod("p").build()), None);
}

#[test]
fn equal_prices_score_equally() {
    let same = || [node("x").zone("b").build(), node("y").zone("b").build()];
    assert_eq!(scores(by_zone(), same()), named([("x", 100), ("y", 100)]));
    assert_eq!(scores(by_zone(), []), []);
}

#[test]
fn nodes_without_a_price_cost_the_default_and_are_counted() {
    let nodes = || [node("listed").zone("b").build(), node("nowhere").build()];
    let plugin = by_zone();
    let Metric::Counter(unpriced) = plugin.metrics[0].clone() else { panic!("it is a counter") };
    assert_eq!(scores(plugin, nodes()), named([("listed", 100), ("nowhere", 0)]));
    // The harness runs both forms.
    assert_eq!(unpriced.get(), 2);
    let plugin = made(json!({"zones": {"b": 1.5}, "defaultPrice": 1})).unwrap();
    assert_eq!(scores(plugin, nodes()), named([("listed", 0), ("nowhere", 100)]));
}

#[test]
fn shown_arguments_include_the_default() {
    let plugin = by_zone();
    let shown = json!({
        "zones": {"a": 0.5, "b": 1.5, "c": 2.0}, "instanceTypes": {}, "defaultPrice": 2.0,
    });
    assert_eq!(plugin.args, Some(shown));
    let points = ExtensionPoint::ALL.into_iter().filter(|point| plugin.extends(*point));
    assert_eq!(points.collect::<Vec<_>>(), [ExtensionPoint::Score]);
}

#[test]
fn invalid_arguments_are_reported_field_by_field() {
    let error = |args| made(args).unwrap_err();
    assert_eq!(error(json!({})), "zones, instanceTypes: at least one price is required");
    assert_eq!(plugin(&PluginArgs::default()).unwrap_err(), error(json!({})));
    assert_eq!(
        error(json!({"zones": {"a": -1}, "instanceTypes": {"m": 2e6}, "defaultPrice": -0.5})),
        "zones[a]: must be from 0 to 1000000, got -1; \
         instanceTypes[m]: must be from 0 to 1000000, got 2000000; \
         defaultPrice: must be from 0 to 1000000, got -0.5"
    );
    let unknown = error(json!({"zone": {"a": 1}}));
    assert!(unknown.starts_with("unknown field `zone`, expected one of `zones`"), "{unknown}");
    let mistyped = error(json!({"zones": {"a": "cheap"}}));
    assert!(mistyped.starts_with("invalid type: string \"cheap\", expected f64"), "{mistyped}");
}

#[test]
fn plugin_can_be_registered_only_once() {
    let mut registry = Registry::new();
    register(&mut registry).unwrap();
    assert_eq!(register(&mut registry), Err(RegistryError(NAME.into())));
}
