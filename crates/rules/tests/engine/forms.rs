//! Decisions that look only at changed nodes are those of full passes, in both forms.

use std::collections::BTreeMap;

use engine::cycle::Form;
use proptest::prelude::*;
use serde_json::{Value, json};

use plugin_trial::World;

use crate::world::{namespace, with_rules};

/// Rules of every kind of read. Each is tried as a filter and, if it is a number, as a score.
const FILTERS: &[&str] = &[
    r#"node.metadata.labels[?"tier"].orValue("1") <= "2""#,
    r#"node.metadata.labels["tier"] != "3""#,
    r#"node.metadata.annotations[?"owner"].orValue("") != pod.metadata.labels["app"]"#,
    r#"usage.free["cpu"].asApproximateFloat() > 2.5"#,
    r#"podsOnNode("app=" + pod.metadata.labels["app"]) < 2"#,
    r#"podsInDomain("tier", "app=" + pod.metadata.labels["app"]) < 3"#,
    r#"namespaceObject.metadata.labels[?"open"].orValue("yes") == "yes" || node.metadata.name != "n1""#,
    r#"now().getMinutes() % 2 == 0 || node.metadata.name != "n0""#,
    r#"pod.metadata.name != "p3" || node.metadata.name == "n2""#,
    r#"size(node.spec.taints) == 0"#,
];

const SCORES: &[&str] = &[
    r#"100 - int(node.metadata.labels["tier"]) * 20"#,
    r#"usage.free["cpu"].asApproximateFloat() * 10.0"#,
    r#"podsOnNode("app=" + pod.metadata.labels["app"]) * 30"#,
    r#"podsInDomain("tier", "app=a") * 10"#,
    r#"namespaceObject.metadata.labels[?"open"].orValue("yes") == "yes" && node.metadata.name == "n3" ? 100 : 0"#,
    r#"now().getMinutes() % 3 == 0 && node.metadata.name == "n0" ? 90 : 10"#,
    r#"size(pod.metadata.name) > 2 && node.metadata.name == "n2" ? 80 : 5"#,
];

#[derive(Debug, Clone)]
enum Step {
    Node { node: usize, tier: Option<u8>, owner: Option<bool>, taint: bool },
    Pod { app: bool },
    Delete(usize),
    Namespace { open: bool },
    Pass(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node =
        (0usize..4, prop::option::of(1u8..4), prop::option::of(any::<bool>()), any::<bool>());
    let step = prop_oneof![
        3 => node.prop_map(|(node, tier, owner, taint)| Step::Node { node, tier, owner, taint }),
        6 => any::<bool>().prop_map(|app| Step::Pod { app }),
        2 => (0usize..20).prop_map(Step::Delete),
        1 => any::<bool>().prop_map(|open| Step::Namespace { open }),
        1 => (1usize..150).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..40)
}

fn app(first: bool) -> &'static str {
    if first { "a" } else { "b" }
}

fn node(world: &mut World, number: usize, tier: Option<u8>, owner: Option<bool>, taint: bool) {
    let labels = tier.map_or(json!({}), |tier| json!({"tier": tier.to_string()}));
    let annotations = owner.map_or(json!({}), |own| json!({"owner": app(own)}));
    let soft = json!({"key": "soft", "effect": "PreferNoSchedule"});
    let taints: Vec<Value> = taint.then_some(soft).into_iter().collect();
    world.add_node(
        &format!("n{number}"),
        json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": {"taints": taints}}),
    );
}

fn history(form: Form, args: &Value, steps: &[Step]) -> Vec<BTreeMap<String, Option<String>>> {
    let mut world = with_rules(form, args.clone());
    (0..4).for_each(|number| node(&mut world, number, Some(1), None, false));
    let mut pods = 0;
    let mut history = Vec::new();
    for step in steps {
        match step {
            Step::Node { node: number, tier, owner, taint } => {
                node(&mut world, *number, *tier, *owner, *taint);
            }
            Step::Pod { app: first } => {
                world.add_pod(
                    &format!("p{pods}"),
                    json!({"metadata": {"labels": {"app": app(*first)}}}),
                );
                pods += 1;
            }
            Step::Delete(pod) => world.delete(&format!("p{pod}")),
            Step::Namespace { open } => {
                namespace(&mut world, "default", json!({"open": if *open { "yes" } else { "no" }}));
            }
            Step::Pass(seconds) => world.pass(*seconds),
        }
        world.settle();
        history.push(world.placements());
    }
    history
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn decisions_on_changed_nodes_are_those_of_full_passes(
        steps in steps(),
        filters in prop::sample::subsequence(FILTERS.to_vec(), 0..4),
        scores in prop::sample::subsequence(SCORES.to_vec(), 0..3),
        ignores: bool,
    ) {
        let on_error = if ignores { "Ignore" } else { "Reject" };
        let rule = |kind: &str, place: usize, text: &str| {
            let mut rule = json!({"name": format!("{kind}-{place}"), "expression": text});
            if kind == "filter" {
                rule["onError"] = on_error.into();
            }
            if place == 1 {
                rule["match"] = r#"pod.metadata.labels["app"] == "a""#.into();
            }
            rule
        };
        let filters = filters.iter().enumerate().map(|(place, text)| rule("filter", place, text));
        let scores = scores.iter().enumerate().map(|(place, text)| rule("score", place, text));
        let args = json!({
            "filters": filters.collect::<Vec<_>>(),
            "scores": scores.collect::<Vec<_>>(),
        });
        let ranked = history(Form::Ranked, &args, &steps);
        prop_assert_eq!(&ranked, &history(Form::Set, &args, &steps));
        prop_assert_eq!(&ranked, &history(Form::OneNode, &args, &steps));
    }
}
