use framework::testing::pod;
use framework::{CycleState, NodeIx};

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
    let lanes = ["a", "b", "c"].map(lane);
    for lane in lanes.iter().chain(&lanes) {
        let (log, mut state) = (ChangeLog::default(), CycleState::new());
        rankings.recall(lane, &log, &mut state);
        state.keep(0_u8, MAX_BYTES / 16);
        rankings.suspend(lane, &mut state);
    }
    let bytes = lanes.each_ref().map(|lane| rankings.lanes[lane].bytes);
    assert_eq!(bytes, [0, MAX_BYTES / 2, MAX_BYTES / 2]);
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
