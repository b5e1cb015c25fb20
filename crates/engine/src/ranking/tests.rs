use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{ChangedNodes, Dependence, FilterScope, NodeBits, NodeIx, ScoreScope};
use proptest::prelude::*;

use super::local::LocalScore;
use super::nodes::Ranking;
use super::order::Order;
use super::reads::Basis;
use super::{blocks, parts};
use crate::world::ChangeLog;

/// Tier and local score of a node; `None` if it is rejected by itself.
type Place = (i64, Option<i64>);

/// Whether there is a node, its two keys around its local score.
type Drawn = (bool, i64, Option<i64>, i64);

/// The best nodes of a plain map, in order.
fn best(nodes: &BTreeMap<usize, Place>, added: impl Fn(i64) -> Option<i64>) -> Vec<usize> {
    let total = |(key, score): &Place| Some((*score)? + added(*key)?);
    let highest = nodes.values().filter_map(total).max();
    let is_best = |(_, place): &(&usize, &Place)| total(place).is_some() && total(place) == highest;
    nodes.iter().filter(is_best).map(|(node, _)| *node).collect()
}

fn local(score: Option<i64>) -> LocalScore {
    score.map_or(LocalScore::REJECTED, |score| LocalScore::of(score).unwrap())
}

/// Ranks nodes, given as number, key and score.
fn ranked(nodes: &[(usize, i64, i64)]) -> Ranking {
    let mut ranking = Ranking::default();
    for (node, key, score) in nodes {
        ranking.insert(NodeIx::new(*node), &[*key], local(Some(*score))).unwrap();
    }
    ranking
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn equals_a_plain_map(
        steps in prop::collection::vec(
            (0_usize..200_000, prop::option::of((0_i64..3, prop::option::of(0_i64..3))), any::<bool>()),
            1..200,
        ),
        added in [0_i64..4, 0_i64..4, 0_i64..4],
        infeasible in 0_i64..6,
    ) {
        let (mut ranking, mut plain) = (Ranking::default(), BTreeMap::new());
        let added_to =
            |key: i64| (key != infeasible).then(|| added[usize::try_from(key).unwrap()]);
        // Few numbers, so that nodes come back; far apart, so that several blocks are used.
        for (node, place, rescores) in steps.into_iter().map(|(node, p, r)| (node / 1000 * 1000, p, r)) {
            let ix = NodeIx::new(node);
            match (place, plain.get_mut(&node)) {
                (Some((_, score)), Some((_, own))) if rescores => {
                    ranking.rescore(ix, local(score)).unwrap();
                    *own = score;
                }
                (Some((key, score)), _) => {
                    ranking.insert(ix, &[key, 7], local(score)).unwrap();
                    prop_assert_eq!(ranking.keys_of(ix), &[key, 7]);
                    plain.insert(node, (key, score));
                }
                (None, _) => {
                    ranking.remove(ix);
                    plain.remove(&node);
                }
            }
            prop_assert_eq!(ranking.contains(ix), plain.contains_key(&node));
            let tiers = ranking.tiers();
            let passing = plain.values().filter(|(_, score)| score.is_some()).count();
            prop_assert_eq!(tiers.iter().map(|tier| tier.len).sum::<usize>(), passing);
            let tiers: Vec<Option<i64>> =
                tiers.iter().map(|tier| added_to(plain[&tier.node.index()].0)).collect();
            let ties = ranking.best(&tiers);
            let expected = best(&plain, added_to);
            prop_assert_eq!(ties.count(), expected.len());
            prop_assert_eq!(ranking.is_empty(), passing == 0);
            let found: Vec<_> = (0..ties.count()).filter_map(|n| ties.nth(n)).map(NodeIx::index).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(ties.nth(ties.count()), None);
        }
        let keys: std::collections::BTreeSet<_> = plain.values().map(|(key, _)| key).collect();
        prop_assert_eq!(ranking.tier_count(), keys.len());
    }
}

proptest! {
    #[test]
    fn nodes_added_together_are_ranked_like_nodes_added_one_by_one(
        places in prop::collection::vec(
            (prop::bool::weighted(0.8), 0_i64..3, prop::option::of(0_i64..4), 0_i64..2),
            1..400,
        ),
        common in any::<i64>(),
        factor in prop::sample::select(vec![1_i64, -3, 1 << 40]),
    ) {
        let places: Vec<_> = (0..).map(NodeIx::new).zip(&places).filter(|(_, own)| own.0).collect();
        let score_of = |node: NodeIx| {
            let (_, own) = places.iter().find(|(other, _)| *other == node).unwrap();
            local(own.2)
        };
        let nodes: Vec<NodeIx> = places.iter().map(|(node, _)| *node).collect();
        let keys: [&dyn Fn(&Drawn) -> i64; 3] = [&|own| own.1 * factor, &|_| common, &|own| own.3];
        let columns: Vec<i64> =
            keys.iter().flat_map(|key| places.iter().map(|(_, own)| key(own))).collect();
        let (mut together, mut one_by_one) = (Ranking::default(), Ranking::default());
        together.insert_all(&nodes, &columns, score_of).unwrap();
        for (node, own) in &places {
            one_by_one.insert(*node, &keys.map(|key| key(own)), score_of(*node)).unwrap();
        }
        prop_assert_eq!(together.tiers(), one_by_one.tiers());
        for (node, _) in &places {
            prop_assert_eq!(together.keys_of(*node), one_by_one.keys_of(*node));
        }
        let added = vec![Some(0); together.tiers().len()];
        let ties = |ranking: &Ranking| {
            let ties = ranking.best(&added);
            (0..ties.count()).map(|place| ties.nth(place)).collect::<Vec<_>>()
        };
        prop_assert_eq!(ties(&together), ties(&one_by_one));
    }
}

#[test]
fn too_many_tiers_are_refused_at_once() {
    let (nodes, keys): (Vec<_>, Vec<_>) = (0..2000).map(NodeIx::new).zip(0_i64..).unzip();
    let ranked =
        |len: usize| Ranking::default().insert_all(&nodes[..len], &keys[..len], |_| local(Some(1)));
    assert!(ranked(1024).is_ok() && ranked(1025).is_err());
}

#[test]
fn ranking_catches_up_with_the_log_unless_other_plugins_take_part() {
    let (mut ranking, mut log) = (Ranking::default(), ChangeLog::default());
    let reads = Dependence::on(FilterScope::Node);
    let scored = Dependence::on(ScoreScope::Key).without_pods();
    let basis = Basis { filters: vec![Some(reads)], scores: vec![Some(scored), None] };
    assert_eq!(ranking.catch_up(&basis, &mut log.reader()), None, "a new ranking needs all nodes");
    ranking.insert(NodeIx::new(3), &[], local(Some(1))).unwrap();
    let changed = |nodes: &[usize], objects: &[usize]| {
        let [nodes, objects] = [nodes, objects].map(|all| all.iter().copied().map(NodeIx::new));
        let (nodes, objects) = (nodes.collect(), objects.collect());
        Some(Arc::new(ChangedNodes { nodes, objects, ..ChangedNodes::default() }))
    };
    assert_eq!(ranking.catch_up(&basis, &mut log.reader()), changed(&[], &[]));
    for node in [5, 3, 5] {
        log.push_for_test(NodeIx::new(node));
    }
    ranking.leave_out(NodeIx::new(3)).unwrap();
    ranking.leave_out(NodeIx::new(9)).unwrap();
    assert!(ranking.is_empty());
    assert_eq!(ranking.catch_up(&basis, &mut log.reader()), changed(&[3, 5, 9], &[3, 5]));
    ranking.insert(NodeIx::new(3), &[], local(Some(1))).unwrap();
    let other = Basis { filters: vec![None], ..basis };
    assert_eq!((ranking.catch_up(&other, &mut log.reader()), ranking.is_empty()), (None, true));
}

#[test]
fn tier_that_is_not_feasible_has_no_best_node() {
    let mut ranking = ranked(&[(0, 1, 5), (1, 2, 3), (2, 2, 4), (3, 2, 4)]);
    let tiers: Vec<_> = ranking.tiers().iter().map(|tier| tier.len).collect();
    assert_eq!(tiers, [1, 3]);
    assert_eq!(ranking.best(&[Some(0), Some(0)]).nth(0), Some(NodeIx::new(0)));
    let second = ranking.best(&[None, Some(0)]);
    assert_eq!((second.count(), second.nth(1)), (2, Some(NodeIx::new(3))));
    assert_eq!(ranking.best(&[None, None]).count(), 0);
}

proptest! {
    #[test]
    fn top_nodes_have_the_highest_totals(
        places in prop::collection::vec((0_i64..3, prop::option::weighted(0.8, 0_i64..4)), 1..60),
        added in prop::collection::vec(prop::option::of(0_i64..3), 3),
        count in 1_usize..70,
        seed in any::<u64>(),
    ) {
        let mut ranking = Ranking::default();
        for (number, (key, score)) in places.iter().enumerate() {
            ranking.insert(NodeIx::new(number), &[*key], local(*score)).unwrap();
        }
        let key_of = |node: NodeIx| usize::try_from(places[node.index()].0).unwrap();
        let by_tier: Vec<Option<i64>> =
            ranking.tiers().iter().map(|tier| added[key_of(tier.node)]).collect();
        let top = ranking.top(&by_tier, count, &mut fastrand::Rng::with_seed(seed));
        let total = |node: NodeIx| Some(added[key_of(node)]? + places[node.index()].1?);
        for (node, own) in &top {
            prop_assert_eq!(total(*node), Some(*own));
        }
        let mut expected: Vec<i64> =
            (0..places.len()).filter_map(|number| total(NodeIx::new(number))).collect();
        prop_assert_eq!(ranking.feasible_count(&by_tier), expected.len());
        expected.sort_by_key(|total| std::cmp::Reverse(*total));
        expected.truncate(count);
        prop_assert_eq!(top.iter().map(|(_, total)| *total).collect::<Vec<_>>(), expected);
        let distinct: std::collections::BTreeSet<NodeIx> = top.iter().map(|(node, _)| *node).collect();
        prop_assert_eq!(distinct.len(), top.len());
    }
}

proptest! {
    #[test]
    fn best_and_top_within_a_set_are_those_of_its_nodes(
        nodes in prop::collection::btree_map(0_usize..9_000, (0_i64..4, prop::option::of(0_i64..4)), 1..200),
        within in prop::collection::vec(any::<bool>(), 200),
        added in prop::array::uniform4(prop::option::of(0_i64..3)),
        count in 1_usize..9,
        seed: u64,
    ) {
        let mut ranking = Ranking::default();
        for (node, (key, score)) in &nodes {
            ranking.insert(NodeIx::new(*node), &[*key], local(*score)).unwrap();
        }
        let chosen: BTreeMap<_, _> =
            nodes.iter().zip(within).filter(|(_, own)| *own).map(|((n, p), _)| (*n, *p)).collect();
        // A node that is in no ranking is passed over.
        let set: NodeBits = chosen.keys().copied().chain([9_500]).map(NodeIx::new).collect();
        let added_to = |key: i64| added[usize::try_from(key).unwrap()];
        let order = || {
            let members = ranking.within(&set);
            let added: Vec<_> =
                members.tiers.iter().map(|tier| added_to(ranking.keys_of(tier.node)[0])).collect();
            Order::Within { totals: members.totals(&added), nodes: set.count() }
        };
        let expected = best(&chosen, added_to);
        let mut rng = fastrand::Rng::with_seed(seed);
        let place = rng.clone().usize(..expected.len().max(1));
        let found = order().best(&mut rng);
        prop_assert_eq!(found.map(|own| own.node.index()), expected.get(place).copied());
        prop_assert_eq!(found.map_or(0, |own| own.ties), expected.len());
        let total = |(key, score): &Place| Some((*score)? + added_to(*key)?);
        let mut totals: Vec<i64> = chosen.values().filter_map(total).collect();
        totals.sort_by_key(|total| std::cmp::Reverse(*total));
        prop_assert_eq!(found.map_or(0, |own| own.feasible), totals.len());
        let top = order().top(count, &mut rng);
        prop_assert_eq!(top.is_some(), totals.len() > 1);
        if let Some(top) = top {
            totals.truncate(count);
            prop_assert_eq!(top.iter().map(|(_, total)| *total).collect::<Vec<_>>(), totals);
            for (node, own) in &top {
                prop_assert_eq!(total(&chosen[&node.index()]), Some(*own));
            }
            let distinct: std::collections::BTreeSet<_> = top.iter().map(|(node, _)| node).collect();
            prop_assert_eq!(distinct.len(), top.len());
        }
    }
}

#[test]
fn equally_good_nodes_are_drawn_without_bias() {
    let mut ranking = Ranking::default();
    for node in 0..10 {
        ranking.insert(NodeIx::new(node), &[], local(Some(5))).unwrap();
    }
    let (mut rng, mut drawn) = (fastrand::Rng::with_seed(1), [0_u32; 10]);
    for _ in 0..3_000 {
        for (node, _) in ranking.top(&[Some(0)], 3, &mut rng) {
            drawn[node.index()] += 1;
        }
    }
    assert!(drawn.iter().all(|count| (800..1_000).contains(count)), "{drawn:?}");
}

#[test]
fn ranking_of_too_many_tiers_or_scores_is_refused() {
    let nodes = |count: i64| (0..count).map(|node| (usize::try_from(node).unwrap(), node, 0));
    assert!(ranked(&nodes(1024).collect::<Vec<_>>()).check_size(0).is_ok());
    assert!(ranked(&nodes(1025).collect::<Vec<_>>()).check_size(0).is_err());
    let (mut ranking, mut refused) = (Ranking::default(), 0);
    for node in 0..70_000 {
        let score = local(Some(i64::try_from(node).unwrap() % 65_000));
        let key = i64::try_from(node).unwrap() / 65_000;
        refused += usize::from(ranking.insert(NodeIx::new(node), &[key], score).is_err());
    }
    assert_eq!(refused, 70_000 - 65_535, "a node takes two bytes for its cell");
    assert!(LocalScore::of(65_535).is_err() && LocalScore::of(-1).is_err());
}

#[test]
fn ranking_takes_less_than_three_bytes_a_node_in_a_large_cluster() {
    let mut ranking = Ranking::default();
    for node in 0..1_000_000 {
        let number = i64::try_from(node).unwrap();
        let score = local(Some(number % 100));
        ranking.insert(NodeIx::new(node), &[number % 12], score).unwrap();
    }
    assert!(ranking.bytes() < 3_000_000, "{}", ranking.bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn nodes_ranked_in_parts_are_ranked_as_together(
        seed: u64,
        // Up to eight blocks.
        len in 1_usize..32_000,
        kinds in 1_i64..5,
    ) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let nodes = (0..len).filter(|_| rng.u8(..8) > 0).map(NodeIx::new);
        let nodes: Vec<NodeIx> = nodes.collect();
        // The first nodes are all alike, so that later parts find tiers and scores in another
        // order.
        let drawn = |node: &NodeIx, salt: u64| match node.index() {
            ..6000 => 1,
            index => fastrand::Rng::with_seed(index as u64 ^ seed ^ salt).i64(0..kinds),
        };
        let score_of = |node: NodeIx| local(Some(drawn(&node, 7)).filter(|score| *score > 0));
        let keys = |nodes: &[NodeIx]| {
            let first = nodes.iter().map(|node| drawn(node, 1));
            first.chain(nodes.iter().map(|node| drawn(node, 2))).collect::<Vec<_>>()
        };
        let mut together = Ranking::default();
        together.insert_all(&nodes, &keys(&nodes), score_of).unwrap();
        let tiers = together.tiers();
        let added: Vec<_> = tiers.iter().map(|tier| Some(tier.len as i64 % 3)).collect();
        let best = |ranking: &Ranking| {
            let ties = ranking.best(&added);
            (0..ties.count()).step_by(97).map(|place| ties.nth(place)).collect::<Vec<_>>()
        };
        let expected = best(&together);
        for count in [1, 2, 3, 7] {
            let mut in_parts = Ranking::default();
            let lists = parts::divide_in(&nodes, count);
            prop_assert_eq!(lists.concat(), &*nodes);
            in_parts.insert_parts(&lists, |parts| {
                // The last one first.
                lists.iter().zip(parts).rev().try_for_each(|(nodes, part)| {
                    let mut halves = [nodes.split_at(nodes.len() / 2)].into_iter().flat_map(|(a, b)| [a, b]);
                    halves.try_for_each(|nodes| part.insert_all(nodes, &keys(nodes), score_of))
                })
            }).unwrap();
            prop_assert_eq!(in_parts.tiers(), &*tiers);
            prop_assert_eq!(best(&in_parts), &*expected);
            for node in nodes.iter().step_by(13) {
                prop_assert_eq!(in_parts.keys_of(*node), together.keys_of(*node));
            }
            // It can be repaired.
            if let Some(node) = nodes.last() {
                in_parts.rescore(*node, local(None)).unwrap();
                in_parts.remove(nodes[0]);
                let left = in_parts.tiers().iter().map(|tier| tier.len).sum::<usize>();
                let passing = |node: &&NodeIx| score_of(**node) != LocalScore::REJECTED;
                let kept = nodes[1..].iter().filter(passing).filter(|other| *other != node);
                prop_assert_eq!(left, kept.count());
            }
        }
    }
}

#[test]
fn ranges_divide_the_table_at_blocks() {
    for (len, count) in [(0, 1), (5_000, 1), (32_767, 1), (32_768, 2), (100_000, 4), (1_000_000, 8)]
    {
        let ranges: Vec<_> = parts::ranges(len).collect();
        assert_eq!(ranges.len(), count, "{len} nodes");
        assert!(ranges[0].start == 0 && ranges[count - 1].end >= len);
        assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(ranges.iter().all(|range| range.start % blocks::BLOCK == 0));
    }
}
