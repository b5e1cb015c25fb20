use framework::{Cluster, DomainIx};
use proptest::prelude::*;
use testkit::{cluster, node};

use super::*;

/// Builds a node in each of these zones.
fn zones(zones: &[&str]) -> Cluster {
    let nodes = zones.iter().enumerate();
    cluster(nodes.map(|(n, zone)| node(&format!("n{n}")).label("zone", zone).build()), [])
}

fn domain(cluster: &Cluster, zone: &str) -> DomainIx {
    cluster.topology("zone").unwrap().domain_named(zone).unwrap()
}

const fn share(domain: DomainIx, amount: i64) -> Option<Share> {
    Some(Share { domain: Some(domain), amount })
}

/// Counts pods on nodes, given as zone and number.
fn counts(cluster: &Cluster, pods: &[(&str, i64)]) -> DomainCounts {
    let mut tally = DomainTally::new(true);
    for (node, (zone, pods)) in pods.iter().enumerate() {
        tally.insert(NodeIx::new(node), Some(domain(cluster, zone)), *pods);
    }
    tally.into()
}

#[test]
fn smallest_domain_is_exact_after_changes() {
    let cluster = zones(&["a", "b", "c", "d"]);
    let counts = counts(&cluster, &[("a", 1), ("b", 2), ("c", 1), ("c", 2), ("d", 4)]);
    let rows: [(&[(&str, i64)], i64); 6] = [
        (&[], 1),
        (&[("a", 1)], 2),
        (&[("a", 5)], 2),
        (&[("a", 5), ("b", 5)], 3),
        (&[("a", 5), ("b", 5), ("c", 5), ("d", -4)], 0),
        (&[("d", -2), ("d", -3)], -1),
    ];
    for (made, expected) in rows {
        let mut changes = Changes::default();
        made.iter().for_each(|(zone, pods)| changes.add(domain(&cluster, zone), *pods));
        assert_eq!(counts.min(&changes), Some(expected), "{made:?}");
    }
    assert_eq!(DomainCounts::from(DomainTally::new(true)).min(&Changes::default()), None);
}

#[test]
fn domains_without_pods_are_the_smallest_if_all_nodes_are_eligible() {
    let cluster = zones(&["a", "b", "c"]);
    let (a, c) = (domain(&cluster, "a"), domain(&cluster, "c"));
    let mut counts = DomainCounts::of_all(DomainTally::new(true), 3);
    let min = |counts: &DomainCounts, changes: &[(DomainIx, i64)]| {
        let mut made = Changes::default();
        changes.iter().for_each(|(domain, pods)| made.add(*domain, *pods));
        counts.min(&made)
    };
    counts.replace(NodeIx::new(0), share(a, 2));
    counts.replace(NodeIx::new(1), share(domain(&cluster, "b"), 3));
    assert_eq!((counts.known(), min(&counts, &[])), (3, Some(0)), "no pod is in c");
    assert_eq!(min(&counts, &[(c, 5)]), Some(2));
    assert_eq!(min(&counts, &[(c, 5), (a, 2)]), Some(3));
    counts.follow_domains(2);
    assert_eq!((counts.known(), min(&counts, &[])), (2, Some(2)), "c has no node any more");
}

proptest! {
    /// Each node has a zone, and is eligible.
    #[test]
    fn counts_of_all_nodes_equal_those_of_eligible_ones(
        zones_of in prop::collection::vec(0_usize..3, 6),
        steps in prop::collection::vec((0_usize..6, 0_i64..3), 1..40),
        changes in prop::collection::vec((0_usize..3, -2_i64..3), 0..3),
    ) {
        let names = ["a", "b", "c"];
        let cluster = zones(&zones_of.iter().map(|zone| names[*zone]).collect::<Vec<_>>());
        let zone_of = |node: usize| domain(&cluster, names[zones_of[node]]);
        let nodes = (0..6).map(|node| (NodeIx::new(node), Some(zone_of(node))));
        let mut tallied = DomainCounts::from(DomainTally::of(nodes, true));
        let domains = cluster.topology("zone").unwrap().domain_count();
        let mut all = DomainCounts::of_all(DomainTally::new(true), domains);
        let mut made = Changes::default();
        let there = changes.iter().filter(|(zone, _)| zones_of.contains(zone));
        there.clone().for_each(|(zone, pods)| made.add(domain(&cluster, names[*zone]), *pods));
        for (node, pods) in steps {
            for counts in [&mut tallied, &mut all] {
                counts.replace(NodeIx::new(node), share(zone_of(node), pods));
            }
            prop_assert_eq!(tallied.known(), all.known());
            prop_assert_eq!(&tallied.by_pods, &all.by_pods);
            prop_assert_eq!(tallied.min(&made), all.min(&made));
            for node in 0..6 {
                prop_assert_eq!(tallied.get(zone_of(node), &made), all.get(zone_of(node), &made));
            }
        }
    }

    #[test]
    fn replaced_nodes_count_like_new_ones(
        steps in prop::collection::vec((0_usize..6, prop::option::of((0_usize..3, 0_i64..3))), 1..40),
    ) {
        let names = ["a", "b", "c"];
        let cluster = zones(&names);
        let mut followed = counts(&cluster, &[]);
        let mut nodes = BTreeMap::new();
        for (node, counted) in steps {
            let counted = counted.map(|(zone, pods)| (domain(&cluster, names[zone]), pods));
            followed.replace(NodeIx::new(node), counted.and_then(|(domain, pods)| share(domain, pods)));
            match counted {
                Some(counted) => drop(nodes.insert(node, counted)),
                None => drop(nodes.remove(&node)),
            }
            let mut tally = DomainTally::of(nodes.iter().map(|(node, (domain, _))| (NodeIx::new(*node), Some(*domain))), false);
            nodes.iter().for_each(|(node, (domain, pods))| tally.add(NodeIx::new(*node), Some(*domain), *pods));
            let fresh = DomainCounts::from(tally);
            prop_assert_eq!(followed.known(), fresh.known());
            prop_assert_eq!(&followed.by_pods, &fresh.by_pods);
            for zone in names {
                let domain = domain(&cluster, zone);
                let mut changes = Changes::default();
                changes.add(domain, 1);
                prop_assert_eq!(followed.get(domain, &changes), fresh.get(domain, &changes));
                prop_assert_eq!(followed.min(&changes), fresh.min(&changes));
            }
        }
    }
}
