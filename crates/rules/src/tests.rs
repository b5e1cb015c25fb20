//! Rules against small clusters.

use framework::{PluginArgs, Remedy};
use serde_json::{Value, json};
use testkit::{Harness, node, pod};

use crate::plugin;

mod page;
mod readable;

/// The harness of these rules.
pub(crate) fn harness(args: Value) -> Harness {
    Harness::new(plugin(&PluginArgs::new(args)).unwrap())
}

fn filter(expression: &str) -> Value {
    json!({"filters": [{"name": "rule", "expression": expression, "message": "node is refused"}]})
}

fn score(expression: &str) -> Value {
    json!({"scores": [{"name": "rule", "expression": expression}]})
}

fn error(args: Value) -> String {
    plugin(&PluginArgs::new(args)).map(|_| ()).unwrap_err()
}

#[test]
fn filter_rejects_with_its_message() {
    let run = harness(filter(r#"node.metadata.labels["tier"] == "gold""#))
        .node(node("a").label("tier", "gold").build())
        .node(node("b").label("tier", "tin").build())
        .node(node("c").build())
        .run(&pod("p").build());
    assert_eq!(run.feasible(), ["a"]);
    assert_eq!(run.verdicts["b"].message(), "node is refused");
    assert_eq!(run.verdicts["c"].message(), "the rule rule failed: no such key: tier");
}

#[test]
fn error_is_ignored_on_request() {
    let args = json!({"filters": [{"name": "rule", "onError": "Ignore",
        "expression": r#"node.metadata.labels["tier"] == "gold""#}]});
    let run = harness(args)
        .node(node("b").label("tier", "tin").build())
        .node(node("c").build())
        .run(&pod("p").build());
    assert_eq!(run.feasible(), ["c"]);
    assert_eq!(run.verdicts["b"].message(), "node(s) didn't pass the rule rule");
}

#[test]
fn rule_applies_to_the_pods_that_match() {
    let args = json!({"filters": [{"name": "rule", "expression": "false",
        "match": r#"pod.metadata.namespace == "team-b""#}]});
    let harness = harness(args).node(node("a").build());
    assert_eq!(harness.run(&pod("p").namespace("team-a").build()).feasible(), ["a"]);
    assert!(harness.run(&pod("p").namespace("team-b").build()).feasible().is_empty());
}

#[test]
fn scores_are_weighted_and_limited() {
    let args = json!({"scores": [
        {"name": "cheap", "weight": 3,
            "expression": r#"100 - int(node.metadata.labels[?"price"].orValue("100"))"#},
        {"name": "big", "expression": r#"usage.allocatable["cpu"].asApproximateFloat() * 10.0"#}
    ]});
    let run = harness(args)
        .node(node("a").label("price", "30").allocatable("cpu", "4").build())
        .node(node("b").label("price", "-100").allocatable("cpu", "64").build())
        .node(node("c").label("price", "much").allocatable("cpu", "2").build())
        .node(node("d").allocatable("cpu", "8").build())
        .run(&pod("p").build());
    let scores = ["a", "b", "c", "d"].map(|name| run.scores[name]);
    assert_eq!(scores, [(70 * 3 + 40) / 4, 100, 20 / 4, 80 / 4]);
}

#[test]
fn wrong_rules_are_reported_with_line_and_column() {
    let rows = [
        (
            "node.metadata.label == \"x\"",
            "ERROR: <input>:1:14: 'node.metadata.label' is not readable: the readable fields of 'node.metadata' are name, labels, annotations, creationTimestamp",
        ),
        (
            "node.metadata.name > 3",
            "ERROR: <input>:1:20: found no matching overload for '_>_' applied to '(string, int)'",
        ),
        (
            "true &&\n  nod.metadata.name == \"\"",
            "ERROR: <input>:2:3: undeclared reference to 'nod' (in container '')",
        ),
        ("node.metadata.name", "ERROR: <input>:1:1: must evaluate to bool, not string"),
        (
            "node.metadata == node.metadata",
            "ERROR: <input>:1:1: 'node' is no value: select one of its fields",
        ),
        ("node == node", "ERROR: <input>:1:1: 'node' is no value: select one of its fields"),
        (
            "node.spec.taints.all(t, t.name == \"\")",
            "ERROR: <input>:1:26: undefined field 'name': the fields of Taint are key, value, effect",
        ),
        (
            "podsOnNode(node.metadata.name) < 1",
            "the arguments of podsOnNode must be the same for all nodes",
        ),
        ("node.metadata.name.matches(\"(\")", "invalid matches argument"),
        ("true true", "ERROR: <input>:1:6: Syntax error"),
    ];
    for (expression, expected) in rows {
        let error = error(filter(expression));
        assert!(error.starts_with("filters[0].expression: "), "{error}");
        assert!(error.contains(expected), "{expression}: {error}");
    }
    let both = json!({
        "filters": [{"name": "X", "expression": "true"}, {"name": "a", "expression": "1"}],
        "scores": [{"name": "a", "expression": "1", "weight": 0, "match": "node.metadata.name == \"\""}]
    });
    let error = error(both);
    for expected in [
        "filters[0].name: must have",
        "filters[1].expression: ",
        "scores[0].name: \"a\" is the name of another",
        "scores[0].weight: must be 1 to 100",
        "scores[0].match: ERROR: <input>:1:1: undeclared reference to 'node'",
    ] {
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn requests_of_pods_on_the_node_are_read() {
    let rule = r#"usage.free["memory"].sub(requests["memory"]).asInteger()
        >= usage.allocatable["memory"].asInteger() / 10"#;
    let harness = harness(filter(rule))
        .node(node("a").allocatable("memory", "10Gi").build())
        .node(node("b").allocatable("memory", "10Gi").build())
        .pod(pod("there").memory("7Gi").on("b").build());
    assert_eq!(harness.run(&pod("p").memory("2Gi").build()).feasible(), ["a", "b"]);
    assert_eq!(harness.run(&pod("p").memory("2100Mi").build()).feasible(), ["a"]);
    assert_eq!(harness.ranking_problem(&pod("p").build()), None);
}

#[test]
fn pods_are_counted_on_the_node_and_in_its_domain() {
    let args = json!({"filters": [
        {"name": "node", "expression": r#"podsOnNode("app=" + pod.metadata.labels["app"]) < 1"#},
        {"name": "rack", "expression": r#"podsInDomain("rack", "app=web", "*") < 2"#}
    ]});
    let web = |name: &str, node: &str| pod(name).label("app", "web").on(node);
    let harness = harness(args)
        .node(node("a").label("rack", "1").build())
        .node(node("b").label("rack", "1").build())
        .node(node("c").label("rack", "2").build())
        .node(node("d").label("rack", "2").build())
        .node(node("e").build())
        .pod(web("1", "a").build())
        .pod(web("2", "c").build())
        .pod(web("3", "c").namespace("other").build());
    let run = harness.run(&pod("p").label("app", "web").build());
    assert_eq!(run.feasible(), ["b"]);
    assert_eq!(run.verdicts["e"].message(), "the rule rack failed: the node has no label rack");
    let run = harness.run(&pod("p").label("app", "db").build());
    assert_eq!(run.feasible(), ["a", "b"]);
}

#[test]
fn explanations_have_the_values_that_rules_read() {
    let args = json!({"filters": [
        {"name": "tier", "expression": r#"node.metadata.labels["tier"] == "gold""#},
        {"name": "free", "expression": r#"usage.free["cpu"].asApproximateFloat() >= 2.0"#},
        {"name": "apart", "expression": r#"podsOnNode("app=web") == 0"#}
    ]});
    let plugin = plugin(&PluginArgs::new(args.clone())).unwrap();
    let harness = harness(args)
        .node(node("a").label("tier", "gold").allocatable("cpu", "4").build())
        .node(node("b").label("tier", "tin").allocatable("cpu", "4").build())
        .node(node("c").allocatable("cpu", "1500m").build())
        .node(node("d").label("tier", "gold").allocatable("cpu", "4").build())
        .pod(pod("there").label("app", "web").on("d").build());
    let (p, handle) = (pod("p").build(), harness.handle());
    let state = framework::CycleState::new();
    let attempt = framework::Attempt::new(&state, &p, &handle);
    let rejected = ["b", "c", "d"].map(|name| harness.cluster().node_named(name).unwrap());
    let rejected = rejected.into_iter().collect();
    let details = plugin.filter.as_ref().unwrap().details(&attempt, &rejected);
    let texts: Vec<_> =
        details.iter().map(|own| (own.text.as_str(), own.nodes.iter().count())).collect();
    assert_eq!(
        texts,
        [
            (r#"rule tier is false: node.metadata.labels["tier"] is "tin""#, 1),
            ("rule tier: no such key: tier", 1),
            (r#"rule tier is true on the node a: node.metadata.labels["tier"] is "gold""#, 2),
            (r#"rule free is false: usage.free["cpu"] is 1500m"#, 1),
            (r#"rule free is true on the node a: usage.free["cpu"] is 4"#, 1),
            ("rule apart is false: 1 pods are counted", 1),
            ("rule apart is true on the node a: 0 pods are counted", 1),
        ]
    );
    let label =
        |value: Option<&str>| Remedy::Label { key: "tier".into(), value: value.map(Into::into) };
    assert_eq!(details[0].remedies, [label(Some("gold")), label(Some("true")), label(None)]);
    assert!(details[3..].iter().all(|own| own.remedies.is_empty()));
}

#[test]
fn explanations_have_the_value_of_each_score() {
    let args = json!({"scores": [
        {"name": "cheap", "expression": r#"100 - int(node.metadata.labels["price"])"#},
        {"name": "big", "expression": r#"usage.allocatable["cpu"].asInteger() * 10"#}
    ]});
    let plugin = plugin(&PluginArgs::new(args.clone())).unwrap();
    let harness = harness(args)
        .node(node("a").label("price", "30").allocatable("cpu", "64").build())
        .node(node("b").allocatable("cpu", "2").build());
    let (p, handle) = (pod("p").build(), harness.handle());
    let state = framework::CycleState::new();
    let attempt = framework::Attempt::new(&state, &p, &handle);
    let text = |name: &str| {
        let node = handle.cluster.node_named(name).unwrap();
        plugin.score.as_ref().unwrap().explain(&attempt, &handle.cluster.node(node))
    };
    assert_eq!(text("a").as_deref(), Some("cheap 70, big 100"));
    assert_eq!(text("b").as_deref(), Some("cheap 0: no such key: price, big 20"));
}

#[test]
fn rules_that_are_too_dear_for_usual_objects_are_refused() {
    let labels = "node.metadata.labels";
    let thrice = format!("{labels}.all(k, {labels}.all(l, {labels}.all(m, k != m)))");
    for (expression, column) in [(&*thrice, 25), ("true && lists.range(100000).all(i, i >= 0)", 20)]
    {
        let error = error(filter(expression));
        let at = format!("filters[0].expression: ERROR: <input>:1:{column}: costs up to ");
        assert!(error.starts_with(&at) && error.contains("the limit is 10000"), "{error}");
    }
    for expression in [
        "node.spec.taints.all(t, pod.spec.tolerations.exists(u, u.key == t.key && u.value == t.value))",
        r#"node.status.conditions.exists(c, c.type.startsWith("Kernel") && c.status == "True")"#,
        r#"node.metadata.labels.exists(k, k.matches("^example.com/[a-z]+$"))"#,
        r#"node.metadata.annotations[?"zones"].orValue("").split(",").exists(z, z == "a")"#,
    ] {
        assert!(plugin(&PluginArgs::new(filter(expression))).is_ok(), "{expression}");
    }
    let mut args = filter(r#"node.spec.taints.all(t, t.key != "a")"#);
    args["costLimit"] = json!(50);
    assert!(error(args).contains("the limit is 50"));
}

/// What these expressions are depends on no form of evaluation.
#[test]
fn loops_and_arithmetic_have_their_values() {
    let expressions = [
        r#"node.spec.taints.exists(t, t.key == "k" && t.effect == "NoSchedule")"#,
        r#"!node.spec.taints.all(t, t.value == "other")"#,
        r#"node.spec.taints.all(t, pod.spec.tolerations.exists(u, u.key == t.key))"#,
        r#"size(node.spec.taints) == 1 && !("x" in node.metadata.labels)"#,
        r#"node.metadata.labels[?"a"].hasValue() && !node.metadata.labels[?"x"].hasValue()"#,
        r#"node.metadata.labels["a"] in ["c", "b"] && node.metadata.labels["a"].matches("^b$")"#,
        r#"usage.free["cpu"].asInteger() / 2 == 1 && usage.free["cpu"].sign() == 1"#,
        r#"usage.free["cpu"].sub(quantity("3500m")).asApproximateFloat() == -0.5"#,
        r#"usage.free["cpu"].compareTo(quantity("3001m")) == -1"#,
        r#"(now() - timestamp(node.metadata.labels["at"])).getHours() == 2"#,
        r#"double(3) > 2.5 && -usage.free["cpu"].asInteger() == -3"#,
    ];
    for expression in expressions {
        let harness = harness(filter(expression))
            .at(framework::Time::from_secs(7_200))
            .node(
                node("n")
                    .label("a", "b")
                    .label("at", "1970-01-01T00:00:00Z")
                    .taint("k", "v", "NoSchedule")
                    .allocatable("cpu", "4")
                    .build(),
            )
            .pod(pod("there").cpu("1").on("n").build());
        let tolerant = json!({"metadata": {"name": "p", "namespace": "default"},
            "spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}});
        let run = harness.run(&harness.pod_from_json(&tolerant));
        assert_eq!(run.feasible(), ["n"], "{expression}: {run}");
    }
}

#[test]
fn score_without_a_result_is_zero() {
    let run = harness(score(r#"int(node.metadata.labels["price"])"#))
        .node(node("a").build())
        .run(&pod("p").build());
    assert_eq!(run.scores["a"], 0);
}

mod hostile {
    use framework::PluginArgs;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use crate::facts::FACTS;
    use crate::plugin;

    /// Pieces of expressions, in any order.
    fn soup() -> impl Strategy<Value = String> {
        const PIECES: &[&str] = &[
            "(",
            ")",
            "[",
            "]",
            "[?",
            "{",
            "}",
            ".",
            ".?",
            ",",
            "?",
            ":",
            "&&",
            "||",
            "!",
            "==",
            "<",
            "+",
            "-",
            "in",
            "has(",
            "now()",
            "podsOnNode(",
            "podsInDomain(",
            "\"a\"",
            "1",
            "1.5",
            "true",
            "null",
            "duration(\"1h\")",
            "quantity(\"1Gi\")",
            ".all(x, ",
            ".map(x, ",
            "x",
            ".exists(x, ",
            ".orValue(",
            "size(",
            "cel.bind(x, ",
            "node",
            "pod",
            "usage",
            "node.metadata",
            ".labels",
            "int(",
            "string(",
            "dyn(",
            "type(",
            "requests",
        ];
        let fact = (0..FACTS.len()).prop_map(|place| FACTS[place].path.to_owned());
        let piece = prop::sample::select(PIECES.to_vec()).prop_map(str::to_owned);
        let pieces = prop_oneof![3 => piece, 1 => fact];
        prop::collection::vec(pieces, 0..14).prop_map(|pieces| pieces.join(" "))
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z\\-]{0,8}".prop_map(Value::from),
            soup().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 6, |inner| {
            let keys = prop::sample::select(vec![
                "filters",
                "scores",
                "name",
                "match",
                "expression",
                "message",
                "onError",
                "weight",
                "nowStepSeconds",
                "costLimit",
                "podCostLimit",
            ]);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(keys.prop_map(str::to_owned), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Whatever compiles can be evaluated, and both forms agree.
        #[test]
        fn no_expression_panics(filter in soup(), score in soup(), applies in soup()) {
            for args in [
                json!({"filters": [{"name": "a", "expression": filter, "match": applies}]}),
                json!({"filters": [{"name": "a", "expression": filter}]}),
                json!({"scores": [{"name": "b", "expression": score}]}),
            ] {
                let Ok(plugin) = plugin(&PluginArgs::new(args)) else { continue };
                let harness = testkit::Harness::new(plugin)
                    .node(testkit::node("n").label("a", "b").taint("k", "v", "NoSchedule").build())
                    .pod(testkit::pod("there").label("a", "b").on("n").build());
                harness.run(&testkit::pod("p").label("x", "1").build());
            }
        }

        #[test]
        fn no_arguments_panic(args in json()) {
            let _ = plugin(&PluginArgs::new(args));
        }

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = plugin(&PluginArgs::new(json!({"filters": [{"name": "a", "expression": text}]})));
        }
    }
}
