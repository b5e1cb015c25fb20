//! `docs/runbooks.md`.

use std::collections::BTreeSet;

use super::alerts::alerts;
use super::dashboard::{dashboard, panels};
use super::read;

#[test]
fn every_alert_has_an_entry_that_says_what_to_do() {
    let page = read("docs/runbooks.md");
    let mut entries = BTreeSet::new();
    for entry in page.split("\n## ").skip(1) {
        let (name, text) = entry.split_once('\n').unwrap();
        for part in ["**Meaning.**", "**Check.**", "**Do.**"] {
            assert!(text.contains(part), "{name} has no {part}");
        }
        assert!(page.contains(&format!("[{name}](#{})", name.to_lowercase())), "{name}: no link");
        entries.insert(name.to_owned());
    }
    assert_eq!(entries, alerts().into_keys().collect());
}

#[test]
fn links_within_the_page_lead_to_an_entry() {
    let page = read("docs/runbooks.md");
    let anchors: BTreeSet<String> = alerts().into_keys().map(|name| name.to_lowercase()).collect();
    for link in page.split("](#").skip(1) {
        let (anchor, _) = link.split_once(')').unwrap();
        assert!(anchors.contains(anchor), "{anchor}");
    }
}

#[test]
fn panels_that_the_entries_name_exist() {
    let dashboard = dashboard();
    let titles: BTreeSet<&str> =
        panels(&dashboard).into_iter().filter_map(|panel| panel["title"].as_str()).collect();
    let page = read("docs/runbooks.md").replace('\n', " ");
    let outside_code: String = page.split('`').step_by(2).collect();
    let mut named = outside_code.split('"').skip(1).step_by(2).peekable();
    assert!(named.peek().is_some());
    for title in named {
        assert!(titles.contains(title), "there is no panel {title:?}");
    }
}
