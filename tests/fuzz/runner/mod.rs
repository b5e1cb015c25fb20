//! The corpus of a target, with random edits.

mod edits;

use std::env;
use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::sample::Index;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestError, TestRunner};

use self::edits::{Edit, edit};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/corpus");
/// Maximum number of edits of one input.
const MOST_EDITS: usize = 8;

/// Passes the corpus of a target to `read`, and then edited inputs.
pub(crate) fn fuzz(target: &str, read: impl Fn(&[u8])) {
    let corpus = corpus(target);
    corpus.iter().for_each(|input| read(input));
    let strategy = (proptest::arbitrary::any::<Index>(), vec(edit(), 1..MOST_EDITS))
        .prop_map(|(chosen, edits)| edited(&corpus, chosen, &edits));
    let config = Config { failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&strategy, |input| {
        read(&input);
        Ok(())
    });
    if let Err(TestError::Fail(reason, input)) = result {
        let path = env::temp_dir().join(format!("loadmaster-fuzz-{target}"));
        fs::write(&path, input).unwrap();
        panic!("{reason}; fix it and keep {} in {CORPUS}/{target}", path.display());
    }
    result.unwrap();
}

/// Returns the inputs of a target in the order of their names, so that a seed gives the same cases
/// everywhere.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(CORPUS).join(target);
    let mut paths: Vec<_> = fs::read_dir(&folder).unwrap().map(|it| it.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} has no input", folder.display());
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn edited(corpus: &[Vec<u8>], chosen: Index, edits: &[Edit]) -> Vec<u8> {
    edits.iter().fold(chosen.get(corpus).clone(), |input, edit| edit.apply(input, corpus))
}
