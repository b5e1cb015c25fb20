//! Nodes by zone, and the order that takes nodes in turn from each zone.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use foldhash::HashMap;
use framework::{Labels, NodeIx};

/// Region and zone of the node labels, both empty for nodes without either.
type ZoneKey = (String, String);

/// The number of a zone. Zones are numbered in the order in which their first nodes came.
type ZoneNumber = NonZeroU32;

/// Zones in the order in which their first nodes came, and their nodes in order of arrival.
#[derive(Debug, Default)]
pub(super) struct NodeTree {
    /// Never iterated.
    numbers: HashMap<Arc<ZoneKey>, ZoneNumber>,
    zones: BTreeMap<ZoneNumber, Zone>,
    last_number: u32,
    /// By index of the node.
    places: Vec<Place>,
    order: Vec<NodeIx>,
    stale: bool,
}

#[derive(Debug)]
struct Zone {
    key: Arc<ZoneKey>,
    /// The nodes by [`Place::index`]. Other entries belong to nodes that are gone.
    nodes: Vec<NodeIx>,
    /// Number of nodes in the zone.
    len: usize,
}

/// The position of a node in its zone, if it has one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Place {
    zone: Option<ZoneNumber>,
    index: u32,
}

impl Place {
    fn new(zone: ZoneNumber, index: usize) -> Self {
        let index = u32::try_from(index).expect("fewer than 2^32 nodes");
        Self { zone: Some(zone), index }
    }
}

impl NodeTree {
    /// Adds a node, or moves it to the end of its new zone if the zone has changed.
    pub(super) fn set(&mut self, node: NodeIx, labels: &Labels) {
        let key = zone_key(labels);
        if self.places.len() <= node.index() {
            self.places.resize(node.index() + 1, Place::default());
        }
        if let Some(zone) = self.places[node.index()].zone {
            if *self.zones[&zone].key == key {
                return;
            }
            self.remove(node);
        }
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None => self.add_zone(key),
        };
        let zone = self.zones.get_mut(&number).expect("a number is that of a zone");
        self.places[node.index()] = Place::new(number, zone.nodes.len());
        zone.nodes.push(node);
        zone.len += 1;
        self.stale = true;
    }

    fn add_zone(&mut self, key: ZoneKey) -> ZoneNumber {
        self.last_number += 1;
        let number = ZoneNumber::new(self.last_number).expect("fewer than 2^32 zones");
        let key = Arc::new(key);
        self.numbers.insert(key.clone(), number);
        self.zones.insert(number, Zone { key, nodes: Vec::new(), len: 0 });
        number
    }

    pub(super) fn remove(&mut self, node: NodeIx) {
        let Some(place) = self.places.get_mut(node.index()).map(std::mem::take) else { return };
        let Some(number) = place.zone else { return };
        let zone = self.zones.get_mut(&number).expect("a node is in the zone on record");
        zone.len -= 1;
        self.stale = true;
        if zone.len == 0 {
            self.numbers.remove(&zone.key);
            self.zones.remove(&number);
        } else if zone.len * 2 < zone.nodes.len() {
            zone.compact(number, &mut self.places);
        }
    }

    pub(super) fn refresh(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        for (number, zone) in &mut self.zones {
            zone.compact(*number, &mut self.places);
        }
        self.order.clear();
        let longest = self.zones.values().map(|zone| zone.len).max().unwrap_or(0);
        for turn in 0..longest {
            self.order.extend(self.zones.values().filter_map(|zone| zone.nodes.get(turn)));
        }
    }

    /// Returns the order as of the last [`refresh`](Self::refresh).
    pub(super) fn order(&self) -> &[NodeIx] {
        &self.order
    }
}

impl Zone {
    /// Removes the entries of nodes that are gone. A removal calls it only when more than half of
    /// the entries are, so that a removal takes constant time on average.
    fn compact(&mut self, number: ZoneNumber, places: &mut [Place]) {
        if self.len == self.nodes.len() {
            return;
        }
        let (mut index, mut kept) = (0, 0);
        self.nodes.retain(|node| {
            let place = &mut places[node.index()];
            let stays = *place == Place::new(number, index);
            index += 1;
            if stays {
                *place = Place::new(number, kept);
                kept += 1;
            }
            stays
        });
    }
}

fn zone_key(labels: &Labels) -> ZoneKey {
    let either = |old: &str, new: &str| {
        labels.get(old).or_else(|| labels.get(new)).unwrap_or_default().to_owned()
    };
    (
        either("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
        either("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn zone(name: &str) -> Labels {
        [("topology.kubernetes.io/zone", name)].into_iter().collect()
    }

    fn order(tree: &mut NodeTree) -> Vec<usize> {
        tree.refresh();
        tree.order().iter().map(|node| node.index()).collect()
    }

    #[test]
    fn nodes_are_taken_in_turn_from_each_zone() {
        let mut tree = NodeTree::default();
        for (id, name) in [(0, "b"), (1, "a"), (2, "b"), (3, "b"), (4, "a")] {
            tree.set(NodeIx::new(id), &zone(name));
        }
        assert_eq!(order(&mut tree), [0, 1, 2, 4, 3]);
        tree.set(NodeIx::new(0), &zone("c"));
        assert_eq!(order(&mut tree), [2, 1, 0, 3, 4]);
        tree.remove(NodeIx::new(1));
        tree.remove(NodeIx::new(4));
        assert_eq!(order(&mut tree), [2, 0, 3]);
    }

    /// Zones and nodes as plain lists, in the order in which they came.
    #[derive(Default)]
    struct Lists(Vec<(&'static str, Vec<usize>)>);

    impl Lists {
        fn remove(&mut self, node: usize) {
            self.0.iter_mut().for_each(|(_, nodes)| nodes.retain(|other| *other != node));
            self.0.retain(|(_, nodes)| !nodes.is_empty());
        }

        fn set(&mut self, node: usize, zone: &'static str) {
            if self.0.iter().any(|(name, nodes)| *name == zone && nodes.contains(&node)) {
                return;
            }
            self.remove(node);
            match self.0.iter_mut().find(|(name, _)| *name == zone) {
                Some((_, nodes)) => nodes.push(node),
                None => self.0.push((zone, vec![node])),
            }
        }

        fn order(&self) -> Vec<usize> {
            let turns = (0..50).flat_map(|turn| self.0.iter().map(move |(_, nodes)| (turn, nodes)));
            turns.filter_map(|(turn, nodes)| nodes.get(turn).copied()).collect()
        }
    }

    proptest! {
        #[test]
        fn agrees_with_plain_lists(
            steps in prop::collection::vec((0..40_usize, 0..5_usize, prop::bool::weighted(0.1)), 0..300),
        ) {
            let (mut tree, mut lists) = (NodeTree::default(), Lists::default());
            for (node, step, refresh) in steps {
                match ["a", "b", "c"].get(step) {
                    Some(name) => {
                        tree.set(NodeIx::new(node), &zone(name));
                        lists.set(node, name);
                    }
                    None => {
                        tree.remove(NodeIx::new(node));
                        lists.remove(node);
                    }
                }
                if refresh {
                    prop_assert_eq!(order(&mut tree), lists.order());
                }
            }
            prop_assert_eq!(order(&mut tree), lists.order());
        }
    }
}
