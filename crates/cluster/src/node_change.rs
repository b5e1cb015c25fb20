//! Updates of nodes. An update touches only the fields that differ from the stored node.

use std::collections::BTreeMap;
use std::ops::{BitOr, BitOrAssign};
use std::sync::Arc;

use super::{Cluster, NodeIx, Posting, ScalarAmount};
use api::{Node, Resources};

/// The set of changed fields of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct NodeChange(u16);

impl NodeChange {
    /// The node is new. Implies all fields.
    pub const ADDED: Self = Self(1);
    /// The node is gone. Implies all fields.
    pub const REMOVED: Self = Self(1 << 1);
    /// Allocatable resources, or the number of pods the node can run.
    pub const ALLOCATABLE: Self = Self(1 << 2);
    /// Labels.
    pub const LABELS: Self = Self(1 << 3);
    /// Taints, or their order.
    pub const TAINTS: Self = Self(1 << 4);
    /// Whether the node is cordoned.
    pub const UNSCHEDULABLE: Self = Self(1 << 5);
    /// Condition types and statuses.
    pub const CONDITIONS: Self = Self(1 << 6);
    /// Annotations.
    pub const ANNOTATIONS: Self = Self(1 << 7);
    /// Features the kubelet declares.
    pub const DECLARED_FEATURES: Self = Self(1 << 8);
    /// Names of images, or the size on record of an image that only this node has.
    pub const IMAGES: Self = Self(1 << 9);
    /// Further fields that a plugin asked for.
    pub const EXTRA_FIELDS: Self = Self(1 << 10);

    /// Returns whether no field has changed.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether all fields of `other` have changed.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns `self` if `applies`, else the empty set.
    fn when(self, applies: bool) -> Self {
        if applies { self } else { Self::default() }
    }
}

impl BitOr for NodeChange {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for NodeChange {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// Changes of nodes, for the engine and for tests that build a cluster.
impl Cluster {
    /// Adds a node, or updates the node with the same name; returns the changed fields. Pods placed
    /// under that name count on the node.
    ///
    /// An update without a change keeps the [generation](crate::NodeView::generation) of the node.
    pub fn set_node(&mut self, node: &Node) -> (NodeIx, NodeChange) {
        let known = self.row_of(&node.name);
        let ix = known.unwrap_or_else(|| self.add_row(node.name.clone()));
        let change = self.replace_node(ix, node);
        let change = match self.nodes.insert(ix) {
            true => {
                self.node_count += 1;
                NodeChange::ADDED
            }
            false => change,
        };
        if !change.is_empty() {
            self.touch(ix);
        }
        (ix, change)
    }

    /// Returns whether the stored node equals `node`, so that [`set_node`](Self::set_node) would
    /// change no field. It does not allocate, because most updates of a node are heartbeats.
    pub fn has_node(&self, node: &Node) -> bool {
        let Some(ix) = self.node_named(&node.name) else { return false };
        let row = &self.rows[ix.index()];
        let numbers = Resources { scalars: Box::default(), ..node.allocatable };
        let offered = node.allocatable.scalars.iter().filter(|(_, amount)| *amount != 0);
        let known =
            row.kind.scalars.iter().map(|name| {
                (name, self.scalar(name).map_or(0, |column| column.get(ix).allocatable))
            });
        row.conditions == node.conditions
            && row.annotations == node.annotations
            && row.kind.taints == node.taints
            && row.kind.declared_features == node.declared_features
            && row.extra == node.extra
            && self.unschedulable.contains(ix) == node.unschedulable
            && self.allowed_pods[ix.index()] == node.allowed_pods
            && self.allocatable.get(ix) == numbers
            && row.kind.labels.len() == node.labels.len()
            && node.labels.iter().all(|(key, value)| self.label(ix, key) == Some(value))
            && known.eq(offered.map(|(name, amount)| (name, *amount)))
            && self.images.are(&row.images, &node.images)
    }

    /// Removes the node with this name; its pods stay on a ghost. Returns whether the node existed.
    pub fn remove_node(&mut self, name: &str) -> bool {
        let Some(ix) = self.node_named(name) else { return false };
        self.replace_node(ix, &Node::default());
        self.nodes.remove(ix);
        self.node_count -= 1;
        self.touch(ix);
        self.drop_if_empty_ghost(ix);
        true
    }

    /// Replaces the fields of a row, except its name and its pods, with those of `node`.
    fn replace_node(&mut self, ix: NodeIx, node: &Node) -> NodeChange {
        let row = &mut self.rows[ix.index()];
        let kind = Arc::make_mut(&mut row.kind);
        let mut change =
            NodeChange::LABELS.when(self.labels.replace(ix, &mut kind.labels, &node.labels))
                | NodeChange::TAINTS.when(replace(
                    &mut self.taints,
                    ix,
                    &mut kind.taints,
                    &node.taints,
                ))
                | NodeChange::IMAGES.when(self.images.replace(ix, &mut row.images, &node.images));
        let features = (&mut kind.declared_features, &node.declared_features);
        change |= NodeChange::DECLARED_FEATURES.when(replace(
            &mut self.features,
            ix,
            features.0,
            features.1,
        ));
        change |= NodeChange::CONDITIONS.when(row.conditions != node.conditions);
        change |= NodeChange::ANNOTATIONS.when(row.annotations != node.annotations);
        (row.conditions, row.annotations) = (node.conditions, node.annotations);
        if row.extra != node.extra {
            row.extra.clone_from(&node.extra);
            change |= NodeChange::EXTRA_FIELDS;
        }
        let is_new = match node.unschedulable {
            true => self.unschedulable.insert(ix),
            false => self.unschedulable.remove(ix),
        };
        change |= NodeChange::UNSCHEDULABLE.when(is_new);
        change |= NodeChange::ALLOCATABLE.when(self.replace_allocatable(ix, node));
        self.kinds.share(&mut self.rows[ix.index()].kind);
        change
    }

    fn replace_allocatable(&mut self, ix: NodeIx, node: &Node) -> bool {
        let wanted = &node.allocatable;
        let numbers = Resources { scalars: Box::default(), ..*wanted };
        let pods = &mut self.allowed_pods[ix.index()];
        let mut changed = *pods != node.allowed_pods || self.allocatable.get(ix) != numbers;
        *pods = node.allowed_pods;
        self.allocatable.set(ix, wanted);
        let kind = Arc::make_mut(&mut self.rows[ix.index()].kind);
        let known = std::mem::take(&mut kind.scalars);
        for name in known.iter().filter(|name| wanted.scalar(name) == 0) {
            self.change_scalar(ix, name, |scalar| scalar.allocatable = 0);
            changed = true;
        }
        let offered = wanted.scalars.iter().filter(|(_, amount)| *amount != 0);
        let offered = offered.map(|(name, amount)| {
            let old = self.scalar(name).map_or(0, |column| column.get(ix).allocatable);
            if old != *amount {
                self.change_scalar(ix, name, |scalar| scalar.allocatable = *amount);
                changed = true;
            }
            // Share the name that the column holds.
            self.scalars.get_key_value(name).map_or(name, |(shared, _)| shared).clone()
        });
        let offered = offered.collect();
        let kind = Arc::make_mut(&mut self.rows[ix.index()].kind);
        kind.scalars = if changed { offered } else { known };
        changed
    }

    pub(super) fn change_scalar(
        &mut self,
        ix: NodeIx,
        name: &Arc<str>,
        change: impl FnOnce(&mut ScalarAmount),
    ) {
        let column = match self.scalars.get_mut(name) {
            Some(column) => column,
            None => self.scalars.entry(name.clone()).or_default(),
        };
        column.change(ix, change);
        if column.is_unused() {
            self.scalars.remove(name);
        }
    }
}

/// Replaces the keys under which a node is indexed; returns whether any key has changed.
fn replace<K: Ord + Clone>(
    index: &mut BTreeMap<K, Posting>,
    node: NodeIx,
    row: &mut Box<[K]>,
    new: &[K],
) -> bool {
    if **row == *new {
        return false;
    }
    for gone in row.iter().filter(|key| !new.contains(key)) {
        remove_from(index, gone, node);
    }
    for key in new.iter().filter(|key| !row.contains(key)) {
        index.entry(key.clone()).or_default().insert(node);
    }
    *row = new.into();
    true
}

/// Removes a node from the set of a key, and removes the key with its last node.
pub(super) fn remove_from<K: Ord>(index: &mut BTreeMap<K, Posting>, key: &K, node: NodeIx) {
    if let Some(posting) = index.get_mut(key) {
        posting.remove(node);
        if posting.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NodeBuilder, node};

    fn full() -> NodeBuilder {
        node("n")
            .label("zone", "a")
            .taint("dedicated", "x", "NoSchedule")
            .allocatable("cpu", "4")
            .allocatable("example.com/gpu", "2")
            .image("web:1", 100)
            .image("web:2", 100)
            .feature("F")
    }

    fn annotated(builder: NodeBuilder) -> NodeBuilder {
        builder.with(|api| drop(api.metadata.annotations.insert("a".into(), "b".into())))
    }

    fn with_extra(builder: NodeBuilder) -> Node {
        let object = serde_json::json!({ "x": 1 });
        let extra = api::Extra::of(&object, &["/x".into()].into());
        Node { extra, ..builder.build() }
    }

    #[test]
    fn change_lists_the_fields_that_differ() {
        use NodeChange as C;
        let rows = [
            (full().label("zone", "b").build(), C::LABELS),
            (full().label("rack", "a").build(), C::LABELS),
            (full().taint("more", "", "NoSchedule").build(), C::TAINTS),
            (full().allocatable("cpu", "5").build(), C::ALLOCATABLE),
            (full().allocatable("example.com/gpu", "3").build(), C::ALLOCATABLE),
            (full().allocatable("example.com/gpu", "0").build(), C::ALLOCATABLE),
            (full().allocatable("example.com/fpga", "1").build(), C::ALLOCATABLE),
            (full().allocatable("example.com/fpga", "0").build(), C::default()),
            (full().allocatable("pods", "7").build(), C::ALLOCATABLE),
            (full().image("db:1", 100).build(), C::IMAGES),
            (full().feature("G").build(), C::DECLARED_FEATURES),
            (full().unschedulable().build(), C::UNSCHEDULABLE),
            (annotated(full()).build(), C::ANNOTATIONS),
            (with_extra(full()), C::EXTRA_FIELDS),
            (annotated(full().label("zone", "b")).build(), C::LABELS | C::ANNOTATIONS),
            (full().build(), C::default()),
        ];
        for (place, (other, expected)) in rows.into_iter().enumerate() {
            let mut cluster = Cluster::default();
            let (ix, added) = cluster.set_node(&full().build());
            assert_eq!(added, C::ADDED);
            for (node, back) in [(&other, false), (&full().build(), true)] {
                let before = cluster.node(ix).generation();
                assert_eq!(cluster.set_node(node), (ix, expected), "row {place}, {back}");
                let is_same = cluster.node(ix).generation() == before;
                assert_eq!(is_same, expected.is_empty(), "row {place}, {back}");
            }
        }
    }

    fn size(cluster: &Cluster, image: &str) -> Option<i64> {
        cluster.image(image).map(|image| image.size)
    }

    #[test]
    fn other_sizes_of_a_shared_image_are_ignored() {
        let mut cluster = Cluster::default();
        cluster.set_node(&node("a").image("web:1", 100).image("db:1", 5).build());
        let (ix, _) = cluster.set_node(&node("b").image("web:1", 200).build());
        let before = cluster.node(ix).generation();
        let resized = node("b").image("web:1", 300).build();
        assert_eq!(cluster.set_node(&resized), (ix, NodeChange::default()));
        assert_eq!((cluster.node(ix).generation(), size(&cluster, "web:1")), (before, Some(100)));
        let reordered = node("a").image("db:1", 5).image("web:1", 200).build();
        assert!(cluster.set_node(&reordered).1.is_empty());
    }

    #[test]
    fn only_node_with_an_image_determines_its_size() {
        let mut cluster = Cluster::default();
        cluster.set_node(&node("a").image("web:1", 100).build());
        cluster.set_node(&node("b").image("web:1", 200).build());
        cluster.remove_node("a");
        assert_eq!(size(&cluster, "web:1"), Some(100));
        let (_, change) = cluster.set_node(&node("b").image("web:1", 200).build());
        assert_eq!((change, size(&cluster, "web:1")), (NodeChange::IMAGES, Some(200)));
        let twice = node("b").image("web:1", 300).image("web:1", 400).build();
        let (_, change) = cluster.set_node(&twice);
        assert_eq!((change, size(&cluster, "web:1")), (NodeChange::IMAGES, Some(300)));
        assert!(cluster.set_node(&twice).1.is_empty());
        cluster.remove_node("b");
        assert_eq!(size(&cluster, "web:1"), None);
    }

    #[test]
    fn node_is_new_after_its_removal() {
        let mut cluster = Cluster::default();
        cluster.set_node(&full().build());
        cluster.remove_node("n");
        assert!(cluster.with_label("zone", "a").is_none() && cluster.taints().next().is_none());
        assert!(cluster.scalar("example.com/gpu").is_none() && cluster.declaring("F").is_none());
        assert_eq!(cluster.set_node(&full().build()).1, NodeChange::ADDED);
    }
}
