use framework::{CycleState, NodeIx};
use testkit::pod;

use super::super::local::LocalScore;
use super::super::nodes::Ranking;
use super::*;

fn lane(name: &str) -> Lane {
    Lane::of_template_for_test(&pod("p").label("app", name).build())
}

/// Returns a ranking of one node.
fn ranked() -> Ranking {
    let mut ranking = Ranking::default();
    ranking.insert(NodeIx::new(9), &[1], LocalScore::of(0).unwrap()).unwrap();
    ranking
}

/// Uses a lane once. Returns whether it held a ranking.
fn use_once(rankings: &mut Rankings, lane: &Lane) -> bool {
    let (log, mut state) = (ChangeLog::default(), CycleState::new());
    let known = rankings.recall(lane, &log, &mut state).known;
    let (ranking, _) = known.ranking_mut().unwrap();
    let held = !ranking.is_empty();
    *ranking = ranked();
    rankings.suspend(lane, &mut state);
    held
}

#[test]
fn lane_keeps_its_ranking_and_counts_its_memory_once() {
    let (mut rankings, web) = (Rankings::default(), lane("web"));
    assert!(!use_once(&mut rankings, &web));
    assert_eq!(rankings.bytes, ranked().bytes());
    assert!(use_once(&mut rankings, &web));
    assert_eq!(rankings.bytes, ranked().bytes());
}

#[test]
fn memory_of_a_ranking_that_was_wrong_is_given_back() {
    let (mut rankings, web, log) = (Rankings::default(), lane("web"), ChangeLog::default());
    use_once(&mut rankings, &web);
    assert!(rankings.bytes > 0);
    let mut state = CycleState::new();
    rankings.recall(&web, &log, &mut state).known.distrust();
    rankings.suspend(&web, &mut state);
    assert_eq!(rankings.bytes, 0);
}

#[test]
fn lanes_of_single_pods_hold_little() {
    let mut rankings = Rankings::default();
    let twice = lane("twice");
    assert!(!use_once(&mut rankings, &twice) && use_once(&mut rankings, &twice));
    for number in 0..100 {
        assert!(!use_once(&mut rankings, &lane(&number.to_string())));
    }
    let holding = rankings.lanes.values().filter(|known| known.bytes > 0);
    assert_eq!(holding.count(), MAX_NEW + 1);
    assert!(use_once(&mut rankings, &twice));
}

#[test]
fn what_was_used_least_recently_is_emptied_if_all_hold_too_much() {
    let mut rankings = Rankings::default();
    let part = MAX_BYTES_OF_SMALL_CLUSTER / 16;
    let lanes: Vec<Lane> = (0..20).map(|number| lane(&number.to_string())).collect();
    // Some are used twice, so that they are not new.
    for lane in lanes.iter().take(10).chain(&lanes) {
        let (log, mut state) = (ChangeLog::default(), CycleState::new());
        rankings.recall(lane, &log, &mut state);
        state.keep(0_u8, part / size_of::<u64>());
        rankings.suspend(lane, &mut state);
    }
    let holding = (0..20).filter(|number: &usize| rankings.lanes[&lanes[*number]].bytes > 0);
    assert_eq!(holding.collect::<Vec<_>>(), (6..20).collect::<Vec<_>>());
    assert_eq!(rankings.bytes, 14 * part);
}

#[test]
fn limit_follows_the_number_of_nodes() {
    let limit = |nodes| Rankings { nodes, ..Rankings::default() }.max_bytes();
    let small = 4 << 20;
    let expected = [small, small, small + 15_360_000, 3 << 30];
    assert_eq!([1, 5_000, 10_000, 1 << 30].map(limit), expected);
}

#[test]
fn least_recently_used_lanes_are_forgotten() {
    let mut rankings = Rankings::default();
    for number in 0..2 * MAX_LANES {
        use_once(&mut rankings, &lane(&number.to_string()));
    }
    assert!(rankings.lanes.len() <= MAX_LANES);
    assert!(rankings.lanes.contains_key(&lane(&(2 * MAX_LANES - 1).to_string())));
    assert!(!rankings.lanes.contains_key(&lane("0")));
    let bytes: usize = rankings.lanes.values().map(|known| known.bytes).sum();
    assert_eq!(rankings.bytes, bytes);
}
