//! Random histories: the allocator agrees with the naive one.

use std::collections::BTreeMap;

use fastrand::Rng;

use crate::simulation::history;

#[test]
fn allocator_finds_what_the_naive_search_finds() {
    let mut seen = BTreeMap::<&str, usize>::new();
    for seed in 0..600 {
        let mut trace = Vec::new();
        let ends = history(&mut Rng::with_seed(seed), &mut trace);
        let ends = ends.unwrap_or_else(|text| panic!("seed {seed}: {text}\n{}", trace.join("\n")));
        ends.into_iter().for_each(|end| *seen.entry(end).or_default() += 1);
    }
    for (kind, least) in [("found", 200), ("nothing", 200), ("error", 40), ("node", 4)] {
        let cases = seen.get(kind).copied().unwrap_or_default();
        assert!(cases >= least, "{kind}: {seen:?}");
    }
}
