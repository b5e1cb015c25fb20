//! Nodes by zone, and the order that takes them in turn from each zone.

use std::sync::Arc;

use framework::{Labels, NodeIx};

/// A zone: region and zone of the node labels, both empty for nodes without either.
type ZoneKey = (String, String);

/// Zones in the order in which they were first seen, their nodes in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct NodeTree {
    zones: Vec<(Arc<ZoneKey>, Vec<NodeIx>)>,
    /// By index of the node.
    zone_of: Vec<Option<Arc<ZoneKey>>>,
    order: Vec<NodeIx>,
    stale: bool,
}

impl NodeTree {
    /// Adds a node, or moves it to the end of its new zone if the zone has changed.
    pub(super) fn set(&mut self, node: NodeIx, labels: &Labels) {
        let key = zone_key(labels);
        if self.zone_of.len() <= node.index() {
            self.zone_of.resize(node.index() + 1, None);
        }
        match &self.zone_of[node.index()] {
            Some(known) if **known == key => return,
            Some(_) => self.remove(node),
            None => {}
        }
        let place = self.zones.iter().position(|(known, _)| **known == key);
        let place = place.unwrap_or_else(|| {
            self.zones.push((Arc::new(key), Vec::new()));
            self.zones.len() - 1
        });
        let (key, nodes) = &mut self.zones[place];
        nodes.push(node);
        self.zone_of[node.index()] = Some(key.clone());
        self.stale = true;
    }

    pub(super) fn remove(&mut self, node: NodeIx) {
        let Some(key) = self.zone_of.get_mut(node.index()).and_then(Option::take) else { return };
        let place = self.zones.iter().position(|(known, _)| *known == key);
        let place = place.expect("a node is in the zone on record");
        let nodes = &mut self.zones[place].1;
        nodes.retain(|other| *other != node);
        if nodes.is_empty() {
            self.zones.remove(place);
        }
        self.stale = true;
    }

    pub(super) fn refresh(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        self.order.clear();
        let longest = self.zones.iter().map(|(_, nodes)| nodes.len()).max().unwrap_or(0);
        for turn in 0..longest {
            self.order.extend(self.zones.iter().filter_map(|(_, nodes)| nodes.get(turn)));
        }
    }

    /// The order as of the last [`refresh`](Self::refresh).
    pub(super) fn order(&self) -> &[NodeIx] {
        &self.order
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
    use super::*;

    fn zone(name: &str) -> Labels {
        [("topology.kubernetes.io/zone", name)].into_iter().collect()
    }

    #[test]
    fn nodes_are_taken_in_turn_from_each_zone() {
        let mut tree = NodeTree::default();
        for (id, name) in [(0, "b"), (1, "a"), (2, "b"), (3, "b"), (4, "a")] {
            tree.set(NodeIx::new(id), &zone(name));
        }
        let order = |tree: &mut NodeTree| {
            tree.refresh();
            tree.order().iter().map(|node| node.index()).collect::<Vec<_>>()
        };
        assert_eq!(order(&mut tree), [0, 1, 2, 4, 3]);
        tree.set(NodeIx::new(0), &zone("c"));
        assert_eq!(order(&mut tree), [2, 1, 0, 3, 4]);
        tree.remove(NodeIx::new(1));
        tree.remove(NodeIx::new(4));
        assert_eq!(order(&mut tree), [2, 0, 3]);
    }
}
