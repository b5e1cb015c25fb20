//! The recorded decisions of the corpus in the repository.

use std::collections::BTreeMap;
use std::path::Path;

use super::golden::{self, Options};

#[test]
fn decisions_are_those_of_kube_scheduler() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/corpus");
    let report = golden::run(&corpus, &Options::default(), &|_| {});
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.is_success(), "{report}");
    let text = report.to_string();
    let differences: toml::Table = include_str!("../../docs/differences.toml").parse().unwrap();
    let entries = |kind: &str| differences[kind].as_array().unwrap().iter();
    let told = entries("difference")
        .filter_map(|own| Some((own["id"].as_str()?, own.get("cases")?.as_integer()?)));
    let named = "the cases named in docs/differences.toml";
    assert_eq!(counted(&text, "different on purpose: "), told.collect(), "{named}");
    let listed = entries("level").filter_map(|own| {
        let cases = own.get("cases")?.as_table()?.values().flat_map(|numbers| numbers.as_array());
        Some((own["id"].as_str()?, cases.map(Vec::len).sum::<usize>().try_into().ok()?))
    });
    assert_eq!(counted(&text, "different at level 1.37: "), listed.collect(), "{named}");
}

/// Returns the counts that lines of a report with this beginning give, by name.
fn counted<'a>(report: &'a str, beginning: &str) -> BTreeMap<&'a str, i64> {
    let lines = report.lines().filter_map(|line| line.strip_prefix(beginning));
    let counts = lines.filter_map(|line| line.split_once(' '));
    counts.map(|(id, cases)| (id, cases.parse().expect("a count"))).collect()
}
