//! Rules in `config validate`, `simulate --compare`, `whatif` and `replay`.

use std::time::Duration;

use serde_json::json;
use testkit::pod;

use super::replay::Recorded;
use super::{loadmaster, written};

/// Writes a configuration with a filter on the names of nodes, and returns its path.
fn configuration(name: &str, expression: &str) -> String {
    let rule = json!({"name": "place", "expression": expression});
    let profile = json!({
        "plugins": {"multiPoint": {"enabled": [{"name": "Rules"}]}},
        "pluginConfig": [{"name": "Rules", "args": {"filters": [rule]}}],
    });
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    });
    written(name, config.to_string().as_bytes())
}

#[test]
fn wrong_rules_are_named_with_line_and_column() {
    let dear = "node.metadata.labels.all(a, node.metadata.labels.all(b, \
                node.metadata.labels.all(c, a == c)))";
    for (expression, expected) in [
        ("true &&\n  node.spec.taint == \"\"", "<input>:2:12: 'node.spec.taint' is not readable"),
        (dear, "<input>:1:25: costs up to "),
    ] {
        let file = configuration("rules-wrong.yaml", expression);
        let error = loadmaster(&["config", "validate", &file]).refused(1);
        assert!(error.contains("filters[0].expression: ERROR: "), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn simulations_with_and_without_a_rule_are_compared() {
    let file = configuration("rules-compare.yaml", r#"node.metadata.name != "a""#);
    let dump = ["whatif", "--dump", "whatif/dump.yaml", "--config-after", &file, "-o", "json"];
    let answer = loadmaster(&dump).json();
    assert_eq!(answer["summary"]["pendingAnyway"], 1, "{answer:#}");
    let change = "apiVersion: whatif.loadmaster.io/v1\nkind: Changes\ndrain: [b]\n";
    let change = written("rules-drain.yaml", change.as_bytes());
    let answer = loadmaster(&[&dump[..], &["-f", &change]].concat()).json();
    assert_eq!(answer["moved"], json!([]), "the rule rejects the only other node");
    let pending: Vec<_> =
        answer["pending"].as_array().unwrap().iter().map(|own| &own["name"]).collect();
    assert_eq!(pending, ["web-1-y"]);

    let compare = ["simulate", "-f", "whatif/dump.yaml", "--compare", &file, "-o", "json"];
    let answer = loadmaster(&compare).json();
    assert_eq!(answer["configurations"].as_array().unwrap().len(), 2);
    let differing = answer["differing"].as_array().unwrap();
    assert!(differing.iter().all(|pod| pod["nodes"][1] != "a"), "{differing:?}");
}

#[test]
fn new_rules_are_recorded_and_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let rule = |node: &str| format!("node.metadata.name == \"{node}\"");
    let file = configuration("rules-recorded.yaml", &rule("a"));
    let mut recorded = Recorded::of(&file, 3);
    ["a", "b"].iter().for_each(|name| recorded.add_node(name));
    recorded.add_pod(pod("first").cpu("1"));
    recorded.pass(Duration::from_secs(10));
    recorded.new_rules(&rule("b"));
    recorded.add_pod(pod("second").cpu("1"));
    recorded.write(directory.path());

    let text = loadmaster(&["replay", path]).text();
    assert!(text.contains("the replay makes the same decisions"), "{text}");
    for (pod, node) in [("first", "a"), ("second", "b")] {
        let text = loadmaster(&["replay", path, "--find", &format!("pod {pod} bound")]).text();
        assert!(text.contains(&format!("on {node} since")), "{text}");
    }
    let other = configuration("rules-other.yaml", r#"node.metadata.creationTimestamp < now()"#);
    let answer = loadmaster(&["replay", path, "--config", &other]);
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    assert!(answer.err.contains("/metadata/creationTimestamp of nodes"), "{}", answer.err);
}
