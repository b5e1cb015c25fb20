//! The recorded decisions the project carries.

use std::path::Path;

use super::golden::{self, Options};

#[test]
fn decisions_are_those_of_kube_scheduler() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/corpus");
    let report = golden::run(&corpus, &Options::default(), &|_| {});
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.is_success(), "{report}");
}
