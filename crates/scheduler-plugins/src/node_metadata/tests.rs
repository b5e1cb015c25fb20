use framework::Node;
use proptest::prelude::*;
use serde_json::json;
use testkit::{Harness, node, pod};

use super::*;

fn numbers(strategy: &str) -> Value {
    json!({"metadataKey": "example.com/rank", "metadataSource": "Label", "metadataType": "Number",
        "scoringStrategy": strategy})
}

fn harness(args: Value) -> Harness {
    Harness::new(plugin(&PluginArgs::new(args)).unwrap())
}

fn ranked(name: &str, rank: &str) -> Node {
    node(name).label("example.com/rank", rank).build()
}

fn scores<const N: usize>(harness: &Harness, names: [&str; N]) -> [i64; N] {
    let run = harness.run(&pod("p").build());
    names.map(|name| run.scores[name])
}

#[test]
fn numbers_are_spread_over_1_to_100_and_other_nodes_get_0() {
    for (strategy, expected) in [("Highest", [1, 50, 100, 0, 0]), ("Lowest", [100, 50, 1, 0, 0])] {
        let harness = harness(numbers(strategy))
            .node(ranked("a", "10"))
            .node(ranked("b", "20.9"))
            .node(ranked("c", "30"))
            .node(ranked("d", "many"))
            .node(node("e").build());
        assert_eq!(scores(&harness, ["a", "b", "c", "d", "e"]), expected, "{strategy}");
        assert_eq!(harness.ranking_problem(&pod("p").build()), None);
    }
}

#[test]
fn equal_values_score_1_and_no_value_scores_0() {
    let equal = harness(numbers("Highest")).node(ranked("a", "7")).node(ranked("b", "7.5"));
    assert_eq!(scores(&equal.node(node("c").build()), ["a", "b", "c"]), [1, 1, 0]);
    let none = harness(numbers("Highest")).node(node("a").build());
    assert_eq!(scores(&none, ["a"]), [0]);
    let odd = harness(numbers("Lowest")).node(ranked("a", "NaN")).node(ranked("b", "-1"));
    assert_eq!(scores(&odd, ["a", "b"]), [0, 1]);
}

#[test]
fn times_are_read_from_an_annotation() {
    let args = |strategy: &str| {
        json!({"metadataKey": "example.com/built~at", "metadataSource": "Annotation",
            "metadataType": "Timestamp", "scoringStrategy": strategy})
    };
    let built = |name: &str, at: &str| json!({"metadata": {"name": name, "annotations": {"example.com/built~at": at}}});
    for (strategy, expected) in [("Newest", [1, 34, 100, 0]), ("Oldest", [100, 67, 1, 0])] {
        let harness = harness(args(strategy))
            .node_from_json(&built("a", "2026-01-01T00:00:00Z"))
            .node_from_json(&built("b", "2026-01-02T00:00:00Z"))
            .node_from_json(&built("c", "2026-01-04T01:00:00+01:00"))
            .node_from_json(&built("d", "last week"));
        assert_eq!(scores(&harness, ["a", "b", "c", "d"]), expected, "{strategy}");
    }
}

#[test]
fn default_value_counts_for_nodes_without_the_key() {
    let mut args = numbers("Highest");
    args["defaultValue"] = json!("20");
    let harness = harness(args)
        .node(ranked("a", "10"))
        .node(node("b").build())
        .node(ranked("c", "30"))
        .node(ranked("d", "?"));
    assert_eq!(scores(&harness, ["a", "b", "c", "d"]), [1, 50, 100, 0]);
}

#[test]
fn wrong_arguments_are_reported() {
    let error = |args| plugin(&PluginArgs::new(args)).map(|_| ()).unwrap_err();
    let none = error(json!({}));
    assert!(
        none.starts_with(
            "invalid NodeMetadataArgs: [metadataKey: Invalid value: \"\": metadataKey cannot be \
             empty, metadataSource: Invalid value: \"\": "
        ),
        "{none}"
    );
    assert_eq!(
        error(numbers("Newest")),
        "invalid NodeMetadataArgs: scoringStrategy: Invalid value: \"Newest\": scoringStrategy \
         \"Newest\" and \"Oldest\" are only valid for metadataType \"Timestamp\""
    );
    let mut zoned = numbers("Newest");
    zoned["metadataType"] = json!("Timestamp");
    zoned["timestampFormat"] = json!("15:04 MST");
    assert!(error(zoned).starts_with("timestampFormat: \"MST\" in the layout"));
}

proptest! {
    #[test]
    fn scores_agree_with_the_naive_formula(
        ranks in prop::collection::vec(prop::option::of(-1000i32..1000), 1..8),
        lowest: bool,
    ) {
        let mut harness = harness(numbers(if lowest { "Lowest" } else { "Highest" }));
        for (place, rank) in ranks.iter().enumerate() {
            let name = format!("n{place}");
            harness = harness.node(match rank {
                Some(rank) => ranked(&name, &rank.to_string()),
                None => node(&name).build(),
            });
        }
        let run = harness.run(&pod("p").build());
        let raw = |rank: i32| i64::from(if lowest { -rank } else { rank });
        let known: Vec<i64> = ranks.iter().flatten().map(|rank| raw(*rank)).collect();
        let (low, high) = (known.iter().min(), known.iter().max());
        for (place, rank) in ranks.iter().enumerate() {
            let expected = match (rank, low, high) {
                (Some(rank), Some(low), Some(high)) if low < high => {
                    (raw(*rank) - low) * 99 / (high - low) + 1
                }
                (Some(_), ..) => 1,
                (None, ..) => 0,
            };
            prop_assert_eq!(run.scores[&format!("n{place}")], expected);
        }
    }
}
