use framework::testing::{cluster, node, pod};
use framework::{Cluster, LabelSelector, Namespaces, PodQuery};

use super::*;

/// Builds nodes by zone, each with a number of pods.
fn zones(zones: &[(&str, usize)]) -> Cluster {
    let named = || zones.iter().enumerate().map(|(n, zone)| (format!("n{n}"), zone));
    let nodes = named().map(|(name, (zone, _))| match *zone {
        "-" => node(&name).build(),
        zone => node(&name).label("zone", zone).build(),
    });
    let pods = named().flat_map(|(name, (_, pods))| {
        (0..*pods).map(move |number| pod(&format!("{name}-{number}")).on(&name).build())
    });
    cluster(nodes, pods)
}

fn counted(cluster: &Cluster, nodes: &[usize], eligible: &[usize]) -> DomainCounts {
    let query = PodQuery { namespaces: Namespaces::All, selector: LabelSelector::EVERYTHING };
    let eligible: NodeBits = eligible.iter().copied().map(NodeIx::new).collect();
    let nodes = nodes.iter().copied().map(NodeIx::new);
    DomainCounts::of(cluster.topology("zone"), nodes, &cluster.matching_pods(&query), &eligible)
}

fn by_value(cluster: &Cluster, counts: &DomainCounts) -> Vec<(String, u32)> {
    let topology = cluster.topology("zone").unwrap();
    let values = topology.domains().map(|domain| topology.value(domain).to_string());
    let known: Vec<_> = counts.iter().collect();
    let value = |(index, value)| {
        let (_, pods) = known.iter().find(|(known, _)| *known == index)?;
        Some((value, *pods))
    };
    values.enumerate().filter_map(value).collect()
}

#[test]
fn domains_come_from_all_nodes_and_counts_from_eligible_nodes() {
    let cluster = zones(&[("a", 1), ("a", 2), ("b", 4), ("c", 8)]);
    let counts = counted(&cluster, &[0, 2], &[0, 1, 3]);
    let expected = [("a".to_owned(), 3), ("b".to_owned(), 0)];
    assert_eq!(by_value(&cluster, &counts), expected);
    assert_eq!(counts.known(), 2);
}

#[test]
fn nodes_without_the_label_are_in_the_domain_of_the_empty_value() {
    let cluster = zones(&[("a", 1), ("", 2), ("-", 4)]);
    let counts = counted(&cluster, &[0, 1, 2], &[0, 1, 2]);
    assert_eq!(by_value(&cluster, &counts), [("a".to_owned(), 1), (String::new(), 6)]);
    assert_eq!(counts.known(), 2);
    let cluster = zones(&[("a", 1), ("-", 4)]);
    assert_eq!(counted(&cluster, &[0, 1], &[0, 1]).known(), 2);
    assert_eq!(counted(&Cluster::default(), &[], &[]).known(), 0);
}

#[test]
fn smallest_domain_is_exact_after_changes() {
    let cluster = zones(&[("a", 1), ("b", 2), ("c", 3), ("d", 4)]);
    let all = [0, 1, 2, 3];
    let counts = RankedCounts::from(counted(&cluster, &all, &all));
    let topology = cluster.topology("zone").unwrap();
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
        for (zone, pods) in made {
            changes.add(topology.domain_named(zone).unwrap(), *pods);
        }
        assert_eq!(counts.min(&changes), Some(expected), "{made:?}");
    }
    assert_eq!(RankedCounts::from(counted(&cluster, &[], &[])).min(&Changes::default()), None);
}
