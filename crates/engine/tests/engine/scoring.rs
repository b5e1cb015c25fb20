//! PreScore, Score, normalising, weights, and which of the best nodes is taken.

use std::collections::BTreeSet;

use engine::{Outcome, TieBreak};
use framework::{Code, Status};
use testkit::pod;

use crate::harness::*;

/// A plugin that gives nodes `a`, `b` and `c` these scores.
fn scores(name: &'static str, scores: [i64; 3]) -> Fake {
    fake(name).score(move |_, node| match &**node.name() {
        "a" => Ok(scores[0]),
        "b" => Ok(scores[1]),
        _ => Ok(scores[2]),
    })
}

fn full() -> Fake {
    fake("Full").filter(|pod, node| match pod.labels.get("only") {
        Some(only) if **node.name() != *only => no("full"),
        _ => yes(),
    })
}

#[track_caller]
fn check_node(plugins: impl IntoIterator<Item = Fake>, node: &str) {
    assert_eq!(world(plugins).schedule(pod("p")), Outcome::Assumed(node.into()));
}

#[track_caller]
fn check_error(plugins: impl IntoIterator<Item = Fake>, message: &str) {
    let mut world = world(plugins);
    assert_eq!(world.schedule(pod("p")), Outcome::Error(message.to_owned()));
    assert_eq!(world.place("p"), "error backoff");
    assert!(world.probe.open().is_empty(), "all spans ended: {:?}", world.probe.open());
}

#[test]
fn highest_weighted_sum_wins() {
    let small = || scores("Small", [10, 0, 9]);
    check_node([small()], "a");
    check_node([small(), scores("Other", [0, 0, 2])], "c");
    check_node([small(), scores("Other", [0, 1, 0]).weight(11)], "b");
    check_node([small().weight(3), scores("Other", [0, 20, 0])], "a");
}

#[test]
fn scores_are_normalised_before_they_are_weighted() {
    let reverse = |scores: &mut [i64]| {
        scores.iter_mut().for_each(|score| *score = 100 - *score / 10);
        yes()
    };
    let distant = || scores("Distance", [900, 100, 500]).normalize(reverse);
    check_node([distant()], "b");
    check_node([scores("Liking", [100, 0, 0]), distant()], "a");
    check_node([scores("Liking", [100, 0, 0]), distant().weight(2)], "b");
}

#[test]
fn plugin_that_skips_pre_score_does_not_score() {
    let mut world = world([
        scores("Idle", [-1, -1, -1]).pre_score(|_| Status::skip()),
        scores("Busy", [0, 0, 1]).pre_score(|_| yes()),
    ]);
    assert_eq!(world.schedule(pod("p")), Outcome::Assumed("c".into()));
    let expected = [
        "PreScore Idle a,b,c",
        "PreScore Busy a,b,c",
        "Score Busy p on a",
        "Score Busy p on b",
        "Score Busy p on c",
    ];
    assert_eq!(world.log.take(), expected);
}

#[test]
fn every_failure_while_scoring_is_an_error() {
    for code in [Code::Error, Code::Unschedulable, Code::Wait] {
        check_error(
            [scores("A", [0; 3]).pre_score(move |_| status(code, "x"))],
            "running PreScore plugin \"A\": x",
        );
        check_error(
            [fake("A").score(move |_, _| Err(status(code, "x")))],
            "running Score plugins: plugin \"A\" failed with: x",
        );
        check_error(
            [scores("A", [0; 3]).normalize(move |_| status(code, "x"))],
            "running Normalize on Score plugins: plugin \"A\" failed with: x",
        );
    }
}

#[test]
fn score_out_of_range_is_an_error() {
    for score in [-1, 101] {
        let text = format!(
            "applying score defaultWeights on Score plugins: plugin \"A\" returns an invalid score \
             {score}, it should in the range of [0, 100] after normalizing"
        );
        check_error([scores("A", [0, score, 0])], &text);
    }
    check_node([scores("A", [0, 100, 0])], "b");
}

#[test]
fn single_feasible_node_is_not_scored() {
    let mut world = world([full(), scores("A", [0; 3]).pre_score(|_| yes())]);
    assert_eq!(world.schedule(pod("p").label("only", "b")), Outcome::Assumed("b".into()));
    assert_eq!(world.log.take_of(&["PreScore", "Score"]), [""; 0]);
}

#[test]
fn without_score_plugins_all_feasible_nodes_are_alike() {
    let mut taken = BTreeSet::new();
    for seed in 0..40 {
        let mut setup = Setup::new([full()]);
        (setup.seed, setup.tie_break) = (seed, TieBreak::Random);
        let mut world = setup.nodes(&["a", "b", "c"]);
        let Outcome::Assumed(node) = world.schedule(pod("p")) else { panic!("it fits") };
        taken.insert(node.to_string());
    }
    assert_eq!(taken.len(), 3, "the seed decides: {taken:?}");
}

#[test]
fn only_the_best_nodes_take_part_in_the_draw() {
    for seed in 0..40 {
        let mut setup = Setup::new([scores("A", [7, 3, 7])]);
        (setup.seed, setup.tie_break) = (seed, TieBreak::Random);
        let mut world = setup.nodes(&["a", "b", "c"]);
        let Outcome::Assumed(node) = world.schedule(pod("p")) else { panic!("it fits") };
        assert_ne!(&*node, "b");
    }
}
