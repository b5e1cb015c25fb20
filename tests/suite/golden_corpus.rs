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
    let counted = text.lines().filter_map(|line| line.strip_prefix("different on purpose: "));
    let counted = counted.filter_map(|line| line.split_once(' '));
    let counted: BTreeMap<&str, i64> =
        counted.map(|(id, cases)| (id, cases.parse().expect("a count"))).collect();
    let differences: toml::Table = include_str!("../../docs/differences.toml").parse().unwrap();
    let entries = differences["difference"].as_array().unwrap().iter();
    let told =
        entries.filter_map(|own| Some((own["id"].as_str()?, own.get("cases")?.as_integer()?)));
    assert_eq!(counted, told.collect(), "the cases named in docs/differences.toml");
}
