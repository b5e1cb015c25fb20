use framework::testing::{cluster, node};
use framework::{Cluster, DomainIx};
use proptest::prelude::*;

use super::*;

/// Builds a node in each of these zones.
fn zones(zones: &[&str]) -> Cluster {
    let nodes = zones.iter().enumerate();
    cluster(nodes.map(|(n, zone)| node(&format!("n{n}")).label("zone", zone).build()), [])
}

fn domain(cluster: &Cluster, zone: &str) -> DomainIx {
    cluster.topology("zone").unwrap().domain_named(zone).unwrap()
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

proptest! {
    #[test]
    fn replaced_nodes_count_like_new_ones(
        steps in prop::collection::vec((0_usize..6, prop::option::of((0_usize..3, 0_i64..3))), 1..40),
    ) {
        let names = ["a", "b", "c"];
        let cluster = zones(&names);
        let mut followed = counts(&cluster, &[]);
        let mut nodes = BTreeMap::new();
        for (node, share) in steps {
            let share = share.map(|(zone, pods)| (domain(&cluster, names[zone]), pods));
            followed.replace(NodeIx::new(node), share);
            match share {
                Some(share) => drop(nodes.insert(node, share)),
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
