use std::collections::BTreeMap;

use framework::testing::pod;
use framework::{CycleState, FilterScope, NodeIx, ScoreScope};
use proptest::prelude::*;

use super::*;
use crate::world::ChangeLog;

/// The best nodes of a plain map, in order.
fn best(nodes: &BTreeMap<usize, (i64, i64)>, added: impl Fn(i64) -> i64) -> Vec<usize> {
    let total = |(key, score): &(i64, i64)| score + added(*key);
    let highest = nodes.values().map(total).max();
    let is_best = |(_, place): &(&usize, &(i64, i64))| Some(total(place)) == highest;
    nodes.iter().filter(is_best).map(|(node, _)| *node).collect()
}

proptest! {
    #[test]
    fn equals_a_plain_map(
        steps in prop::collection::vec((0_usize..200_000, prop::option::of((0_i64..3, -2_i64..3))), 1..200),
        added in [0_i64..4, 0_i64..4, 0_i64..4],
    ) {
        let (mut ranking, mut plain) = (Ranking::default(), BTreeMap::new());
        let added_to = |key: i64| added[usize::try_from(key).unwrap()];
        // Few numbers, so that nodes come back; far apart, so that several containers are used.
        for (node, place) in steps.into_iter().map(|(node, place)| (node / 1000 * 1000, place)) {
            ranking.remove(NodeIx::new(node));
            plain.remove(&node);
            if let Some((key, score)) = place {
                ranking.insert(NodeIx::new(node), &[key, 7], score).unwrap();
                plain.insert(node, (key, score));
            }
            let groups = ranking.groups();
            prop_assert_eq!(groups.iter().map(|group| group.len).sum::<usize>(), plain.len());
            let groups: Vec<Option<i64>> =
                groups.iter().map(|group| Some(added_to(plain[&group.node.index()].0))).collect();
            let ties = ranking.best(&groups);
            let expected = best(&plain, added_to);
            prop_assert_eq!(ties.count(), expected.len() as u64);
            prop_assert_eq!(ranking.is_empty(), plain.is_empty());
            let found: Vec<_> = (0..ties.count()).filter_map(|n| ties.nth(n)).map(NodeIx::index).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(ties.nth(ties.count()), None);
        }
        let keys: std::collections::BTreeSet<_> = plain.values().map(|(key, _)| key).collect();
        prop_assert_eq!(ranking.group_count(), keys.len());
    }
}

#[test]
fn ranking_catches_up_with_the_log_unless_other_plugins_take_part() {
    let (mut ranking, mut log) = (Ranking::default(), ChangeLog::default());
    let filters = vec![Some(FilterScope::Node)];
    let basis = Basis { filters, scores: vec![Some(ScoreScope::Key), None] };
    assert_eq!(ranking.catch_up(&basis, &log), None, "a new ranking needs all nodes");
    ranking.insert(NodeIx::new(3), &[], 1).unwrap();
    assert_eq!(ranking.catch_up(&basis, &log), Some(vec![]));
    for node in [5, 3, 5] {
        log.push_for_test(NodeIx::new(node));
    }
    ranking.leave_out(NodeIx::new(3));
    ranking.leave_out(NodeIx::new(9));
    let nodes = [3, 5, 9].map(NodeIx::new).to_vec();
    assert_eq!(ranking.catch_up(&basis, &log), Some(nodes));
    ranking.insert(NodeIx::new(3), &[], 1).unwrap();
    let other = Basis { filters: vec![None], ..basis };
    assert_eq!((ranking.catch_up(&other, &log), ranking.is_empty()), (None, true));
}

fn class(name: &str) -> Class {
    let template = Template::of(&pod("p").label("app", name).build());
    Class { scheduler_name: "loadmaster".into(), template }
}

#[test]
fn group_that_is_not_feasible_has_no_best_node() {
    let mut ranking = Ranking::default();
    for (node, key, score) in [(0, 1, 5), (1, 2, 3), (2, 2, 4), (3, 2, 4)] {
        ranking.insert(NodeIx::new(node), &[key], score).unwrap();
    }
    let groups: Vec<_> = ranking.groups().iter().map(|group| group.len).collect();
    assert_eq!(groups, [1, 3]);
    assert_eq!(ranking.best(&[Some(0), Some(0)]).nth(0), Some(NodeIx::new(0)));
    let second = ranking.best(&[None, Some(0)]);
    assert_eq!((second.count(), second.nth(1)), (2, Some(NodeIx::new(3))));
    assert_eq!(ranking.best(&[None, None]).count(), 0);
}

#[test]
fn class_gets_a_ranking_with_its_second_pod() {
    let (mut rankings, web) = (Rankings::default(), class("web"));
    assert!(rankings.take(&web).is_none());
    let mut known = rankings.take(&web).unwrap();
    let mut ranking = known.take_ranking().unwrap();
    ranking.insert(NodeIx::new(9), &[], 0).unwrap();
    known.keep_ranking(ranking);
    rankings.put_back(&web, known);
    assert_eq!(rankings.words, 10);
    let mut known = rankings.take(&web).unwrap();
    assert_eq!(rankings.words, 0);
    assert!(known.take_ranking().is_some_and(|ranking| !ranking.is_empty()));
    known.refuse();
    let refused = (0..2 * PODS_AFTER_REFUSAL).take_while(|_| known.take_ranking().is_none());
    assert_eq!(refused.count(), PODS_AFTER_REFUSAL as usize);
}

#[test]
fn values_of_plugins_are_kept_with_the_nodes_that_changed_since() {
    let (mut known, mut log) = (Known::default(), ChangeLog::default());
    let mut state = CycleState::new();
    state.resume(known.resume(&log));
    state.keep(7_u8, 3);
    known.suspend(state.suspend());
    assert_eq!(known.words(), 3);
    for node in [5, 3, 5] {
        log.push_for_test(NodeIx::new(node));
    }
    state.resume(known.resume(&log));
    let (value, changed) = state.take_kept::<u8>().unwrap();
    assert_eq!((value, &*changed), (7, &[3, 5].map(NodeIx::new)[..]));
    known.suspend(state.suspend());
    state.resume(known.resume(&log));
    assert!(state.take_kept::<u8>().is_none(), "the plugin did not keep it again");
}

#[test]
fn ranking_is_dropped_if_groups_change_in_an_attempt_that_does_not_use_it() {
    let (mut known, log) = (Known::default(), ChangeLog::default());
    let mut state = CycleState::new();
    for regroups in [false, true] {
        let mut ranking = Ranking::default();
        ranking.insert(NodeIx::new(9), &[], 0).unwrap();
        known.keep_ranking(ranking);
        // For example, the pod is nominated to a node, and a Service has changed its constraints.
        state.resume(known.resume(&log));
        if regroups {
            state.regroup();
        }
        known.suspend(state.suspend());
        assert_eq!(known.take_ranking().is_some_and(|ranking| ranking.is_empty()), regroups);
    }
}

#[test]
fn oldest_class_is_emptied_if_all_hold_too_much() {
    let mut rankings = Rankings::default();
    let classes = ["a", "b", "c"].map(class);
    for class in classes.iter().chain(&classes) {
        if let Some(mut known) = rankings.take(class) {
            let mut state = CycleState::new();
            state.resume(known.resume(&ChangeLog::default()));
            state.keep(0_u8, MAX_WORDS / 2);
            known.suspend(state.suspend());
            rankings.put_back(class, known);
        }
    }
    let words = classes.each_ref().map(|class| rankings.classes[class].words());
    assert_eq!(words, [0, MAX_WORDS / 2, MAX_WORDS / 2]);
}

#[test]
fn least_recently_used_classes_are_forgotten() {
    let mut rankings = Rankings::default();
    for number in 0..2 * MAX_CLASSES {
        rankings.take(&class(&number.to_string()));
    }
    assert!(rankings.classes.len() <= MAX_CLASSES);
    assert!(rankings.classes.contains_key(&class(&(2 * MAX_CLASSES - 1).to_string())));
    assert!(!rankings.classes.contains_key(&class("0")));
}
