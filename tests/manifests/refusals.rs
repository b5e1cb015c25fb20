//! Values that the chart refuses, with messages that say what to do.

use std::collections::BTreeMap;

use serde_json::Value;

use super::read;

/// Each set of refused values, with a part of the message.
fn cases() -> BTreeMap<String, Value> {
    yaml::decode(&read("tests/manifests/refused.yaml")).unwrap()
}

/// Returns the whole messages that `deploy/render.py` got from Helm.
fn messages() -> BTreeMap<String, String> {
    let text = read("tests/manifests/refusals.txt");
    let lines = text.lines().map(|line| line.split_once(": ").unwrap());
    lines.map(|(name, message)| (name.to_owned(), message.to_owned())).collect()
}

#[test]
fn refused_values_give_the_expected_message() {
    let messages = messages();
    let cases = cases();
    assert!(cases.keys().eq(messages.keys()), "run `make render-chart`");
    for (name, case) in cases {
        let expected = case["message"].as_str().unwrap();
        assert!(messages[&name].contains(expected), "{name}: {}", messages[&name]);
    }
}

/// A guard that no case reaches could refuse too much or nothing.
#[test]
fn every_guard_of_the_chart_refuses_some_values() {
    let guards = read("charts/loadmaster/templates/guards.yaml");
    let lines = guards.lines().enumerate().filter(|(_, line)| line.contains("{{- fail "));
    let messages: Vec<String> = messages().into_values().collect();
    let mut count = 0;
    for (index, line) in lines {
        let place = format!("guards.yaml:{}:", index + 1);
        assert!(messages.iter().any(|message| message.contains(&place)), "no case reaches {line}");
        count += 1;
    }
    assert!(count > 10, "{count}");
}
