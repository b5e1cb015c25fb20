//! A pod that a rule rejected is tried again after an event that changes what the rule reads and
//! makes it true, and after no other.

use engine::cycle::Form;
use serde_json::{Value, json};

use plugin_trial::World;

use crate::world::{namespace, reload, with_rules};

struct Row {
    rule: &'static str,
    /// Prepares the cluster. The rule then rejects the only node `n`.
    before: fn(&mut World),
    /// Changes that wake no pod.
    others: &'static [fn(&mut World)],
    /// The change after which the pod fits.
    change: fn(&mut World),
}

fn plain(world: &mut World) {
    world.add_node("n", json!({}));
}

fn label(world: &mut World, value: &str) {
    world.add_node("n", json!({"metadata": {"labels": {"tier": value}}}));
}

fn annotated(annotations: Value) -> Value {
    json!({"metadata": {"annotations": annotations}})
}

fn placed(world: &mut World, name: &str, app: &str) {
    world.add_pod(name, json!({"metadata": {"labels": {"app": app}}, "spec": {"nodeName": "n"}}));
}

const ROWS: &[Row] = &[
    Row {
        rule: r#"node.metadata.labels[?"tier"].orValue("") == "gold""#,
        before: plain,
        others: &[
            |world| world.add_node("n", json!({"metadata": {"labels": {"other": "gold"}}})),
            |world| label(world, "tin"),
            |world| placed(world, "there", "web"),
            |world| world.delete("there"),
        ],
        change: |world| label(world, "gold"),
    },
    Row {
        rule: r#"node.metadata.annotations[?"team"].orValue("") == "b""#,
        before: plain,
        others: &[
            |world| world.add_node("n", annotated(json!({"other": "b"}))),
            |world| world.add_node("n", annotated(json!({"team": "a"}))),
        ],
        change: |world| world.add_node("n", annotated(json!({"team": "b"}))),
    },
    Row {
        rule: r#"!node.spec.taints.exists(t, t.key == "old")"#,
        before: |world| {
            let old = json!({"key": "old", "effect": "PreferNoSchedule"});
            world.add_node("n", json!({"spec": {"taints": [old]}}));
        },
        others: &[|world| {
            let old = json!({"key": "old", "effect": "PreferNoSchedule"});
            let labels = json!({"a": "b"});
            world.add_node("n", json!({"metadata": {"labels": labels}, "spec": {"taints": [old]}}));
        }],
        change: plain,
    },
    Row {
        rule: r#"node.status.nodeInfo.kubeletVersion == "v2""#,
        before: |world| {
            world.add_node("n", json!({"status": {"nodeInfo": {"kubeletVersion": "v1"}}}))
        },
        others: &[|world| {
            let info = json!({"kubeletVersion": "v1", "osImage": "v2"});
            world.add_node("n", json!({"status": {"nodeInfo": info}}));
        }],
        change: |world| {
            world.add_node("n", json!({"status": {"nodeInfo": {"kubeletVersion": "v2"}}}))
        },
    },
    Row {
        rule: r#"node.status.conditions.exists(c, c.type == "Disk" && c.status == "True")"#,
        before: |world| {
            world.add_node(
                "n",
                json!({"status": {"conditions": [{"type": "Disk", "status": "False"}]}}),
            );
        },
        others: &[|world| {
            let disk = json!({"type": "Disk", "status": "False", "lastHeartbeatTime": "later"});
            world.add_node("n", json!({"status": {"conditions": [disk]}}));
        }],
        change: |world| {
            world.add_node(
                "n",
                json!({"status": {"conditions": [{"type": "Disk", "status": "True"}]}}),
            );
        },
    },
    Row {
        rule: r#"node.status.allocatable["cpu"].asInteger() >= 16"#,
        before: plain,
        others: &[|world| {
            world.add_node("n", json!({"status": {"allocatable": {"memory": "64Gi"}}}))
        }],
        change: |world| world.add_node("n", json!({"status": {"allocatable": {"cpu": "16"}}})),
    },
    Row {
        rule: r#"usage.free["cpu"].asInteger() >= 7"#,
        before: |world| {
            plain(world);
            placed(world, "one", "web");
            placed(world, "two", "web");
        },
        others: &[|world| label(world, "gold")],
        change: |world| world.delete("one"),
    },
    Row {
        rule: r#"podsOnNode("app=web") == 0"#,
        before: |world| {
            plain(world);
            placed(world, "web", "web");
            placed(world, "db", "db");
        },
        others: &[|world| world.delete("db"), |world| label(world, "gold")],
        change: |world| world.delete("web"),
    },
    Row {
        rule: r#"podsOnNode("app=cache") == 1"#,
        before: plain,
        others: &[|world| placed(world, "db", "db")],
        change: |world| placed(world, "cache", "cache"),
    },
    Row {
        rule: r#"podsInDomain("tier", "app=web") < 2"#,
        before: |world| {
            label(world, "gold");
            world.add_node(
                "m",
                json!({
                    "metadata": {"labels": {"tier": "gold"}},
                    "spec": {"unschedulable": true}
                }),
            );
            placed(world, "db", "db");
            placed(world, "one", "web");
            let labels = json!({"app": "web"});
            world
                .add_pod("two", json!({"metadata": {"labels": labels}, "spec": {"nodeName": "m"}}));
        },
        others: &[|world| world.delete("db")],
        change: |world| world.delete("two"),
    },
    Row {
        rule: r#"namespaceObject.metadata.labels[?"team"].orValue("") == "b""#,
        before: |world| {
            plain(world);
            namespace(world, "default", json!({"team": "a"}));
        },
        others: &[|world| namespace(world, "other", json!({"team": "b"}))],
        change: |world| namespace(world, "default", json!({"team": "b"})),
    },
    Row {
        rule: r#"pod.metadata.labels[?"ready"].orValue("") == "yes" || size(node.spec.taints) > 5"#,
        before: plain,
        others: &[],
        change: |world| world.add_pod("p", json!({"metadata": {"labels": {"ready": "yes"}}})),
    },
    Row {
        rule: r#"now() >= timestamp("1970-01-12T13:50:00Z") && size(node.spec.taints) == 0"#,
        before: plain,
        others: &[|world| world.pass(60), |world| label(world, "gold")],
        change: |world| world.pass(200),
    },
];

#[test]
fn events_that_make_a_rule_true_wake_the_pod() {
    for form in [Form::Ranked, Form::Set] {
        for Row { rule, before, others, change } in ROWS {
            let args = json!({"filters": [{"name": "rule", "expression": rule, "message": "no"}]});
            let mut world = with_rules(form, args);
            before(&mut world);
            world.add_pod("p", json!({}));
            world.settle();
            assert_eq!(world.node_of("p"), None, "{rule}");
            let message = world.message("p");
            assert!(
                message.contains("nodes are available: ") && message.contains(" no"),
                "{message}"
            );
            // The backoff ends.
            world.pass(20);
            let attempts = world.attempts;
            for (place, other) in others.iter().enumerate() {
                other(&mut world);
                world.settle();
                world.pass(2);
                assert_eq!(world.attempts, attempts, "{rule}: other change {place}");
            }
            change(&mut world);
            world.settle();
            world.pass(2);
            assert_eq!(world.node_of("p"), Some("n"), "{rule}");
            assert_eq!(world.attempts, attempts + 1, "{rule}");
        }
    }
}

/// New rules arrive as an object of a kind of the scheduler. They decide about the next pods, and
/// wake those that they let onto a node; wrong ones change nothing.
#[test]
fn new_rules_replace_the_old_ones() {
    let rules = |tier: &str, price: i64| {
        let filter = format!(r#"node.metadata.labels[?"tier"].orValue("") == "{tier}""#);
        let score = format!(r#"node.metadata.name == "n{price}" ? 100 : 0"#);
        json!({
            "filters": [{"name": "tier", "expression": filter, "message": "no"}],
            "scores": [{"name": "price", "expression": score}],
        })
    };
    for form in [Form::Ranked, Form::Set, Form::OneNode] {
        let began_with = rules("gold", 1);
        let mut world = with_rules(form, began_with.clone());
        for (name, tier) in [("n1", "gold"), ("n2", "gold"), ("n3", "tin")] {
            world.add_node(name, json!({"metadata": {"labels": {"tier": tier}}}));
        }
        let place = |world: &mut World, name: &str| {
            world.add_pod(name, json!({"metadata": {"labels": {"app": "web"}}}));
            world.settle();
            world.node_of(name).map(str::to_owned)
        };
        for name in ["a", "b", "c"] {
            assert_eq!(place(&mut world, name).as_deref(), Some("n1"));
        }
        reload(&mut world, &began_with, rules("gold", 2));
        for name in ["d", "e", "f"] {
            assert_eq!(place(&mut world, name).as_deref(), Some("n2"), "{form:?}");
        }
        reload(&mut world, &began_with, rules("lead", 2));
        assert_eq!(place(&mut world, "g"), None);
        world.pass(20);
        let attempts = world.attempts;
        reload(&mut world, &began_with, rules("bronze", 2));
        world.pass(2);
        assert_eq!(world.attempts, attempts, "no node passes the new rules");
        reload(&mut world, &began_with, rules("tin", 2));
        world.pass(2);
        assert_eq!(world.node_of("g"), Some("n3"), "{form:?}");
        for name in ["h", "i"] {
            assert_eq!(place(&mut world, name).as_deref(), Some("n3"), "{form:?}");
        }
    }
}
