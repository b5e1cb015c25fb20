use std::collections::BTreeMap;

use framework::NodeIx;
use framework::testing::pod;
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
            let groups: Vec<i64> =
                ranking.representatives().iter().map(|node| added_to(plain[&node.index()].0)).collect();
            let ties = ranking.best(&groups);
            let expected = best(&plain, added_to);
            prop_assert_eq!(ties.count(), expected.len() as u64);
            prop_assert_eq!(ranking.len(), plain.len());
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
    let basis = Basis { filters: vec![true], scores: vec![true, false] };
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
    let other = Basis { filters: vec![false], ..basis };
    assert_eq!((ranking.catch_up(&other, &log), ranking.len()), (None, 0));
}

fn class(name: &str) -> Class {
    let template = Template::of(&pod("p").label("app", name).build());
    Class { scheduler_name: "loadmaster".into(), template }
}

#[test]
fn class_gets_a_ranking_with_its_second_pod() {
    let (mut rankings, web) = (Rankings::default(), class("web"));
    assert!(rankings.take(&web).is_none());
    let mut ranking = rankings.take(&web).unwrap();
    ranking.insert(NodeIx::new(9), &[], 0).unwrap();
    rankings.keep(&web, ranking);
    assert_eq!(rankings.nodes, 10);
    assert_eq!(rankings.take(&web).map(|ranking| ranking.len()), Some(1));
    assert_eq!(rankings.nodes, 0);
    rankings.refuse(&web);
    let refused = (0..2 * PODS_AFTER_REFUSAL).take_while(|_| rankings.take(&web).is_none());
    assert_eq!(refused.count(), PODS_AFTER_REFUSAL as usize);
}

#[test]
fn least_recently_used_classes_are_forgotten() {
    let mut rankings = Rankings::default();
    for number in 0..2 * MAX_CLASSES {
        let class = class(&number.to_string());
        rankings.take(&class);
        rankings.keep(&class, Ranking::default());
    }
    assert!(rankings.classes.len() <= MAX_CLASSES);
    assert!(rankings.classes.contains_key(&class(&(2 * MAX_CLASSES - 1).to_string())));
    assert!(!rankings.classes.contains_key(&class("0")));
}
