//! The volumes of a class that no claim has, grouped by the nodes they can be used on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::slab::Slab;
use crate::storage::{PersistentVolume, StorageSize};
use crate::{NodeSelector, NodeSelectorTerm, Operator, Requirement};

/// A group of free volumes, as long as it has any.
pub type VolumeGroupIx = u32;

/// Free volumes of a class that can be used on the same nodes.
#[derive(Debug, Clone)]
pub struct VolumeGroup {
    selector: Option<Arc<NodeSelector>>,
    label_decides: bool,
    by_size: BTreeMap<StorageSize, BTreeMap<Arc<str>, Arc<PersistentVolume>>>,
}

impl VolumeGroup {
    /// The node affinity they share; `None` if they can be used on every node.
    pub fn selector(&self) -> Option<&NodeSelector> {
        self.selector.as_deref()
    }

    /// Whether every node with a label that the group is under can have the volumes.
    pub const fn label_decides(&self) -> bool {
        self.label_decides
    }

    /// The volumes of at least this size, the smallest first, those of one size by name.
    pub fn at_least(&self, size: StorageSize) -> impl Iterator<Item = &Arc<PersistentVolume>> {
        self.by_size.range(size..).flat_map(|(_, volumes)| volumes.values())
    }
}

/// The free volumes of a class: those that are `Available` and that no claim has.
///
/// A group is filed under every label value that a node can have it by, or else under none.
#[derive(Debug, Clone, Default)]
pub struct FreeVolumes {
    groups: Slab<VolumeGroup>,
    by_selector: HashMap<Option<Arc<NodeSelector>>, VolumeGroupIx>,
    by_label: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Vec<VolumeGroupIx>>>,
    unlabelled: Vec<VolumeGroupIx>,
}

impl FreeVolumes {
    /// A group.
    ///
    /// # Panics
    /// There is no such group.
    pub fn group(&self, group: VolumeGroupIx) -> &VolumeGroup {
        self.groups.get(group)
    }

    /// The groups that only nodes with certain labels can have, by key and value. A group may be under
    /// more than one.
    pub fn labelled(&self) -> impl Iterator<Item = (&str, &str, &[VolumeGroupIx])> {
        self.by_label.iter().flat_map(|(key, values)| {
            values.iter().map(|(value, groups)| (&**key, &**value, &groups[..]))
        })
    }

    /// The groups for which a node may qualify whose labels are looked up by `label`. A group may come
    /// more than once.
    pub fn candidates<'a>(
        &'a self,
        label: impl Fn(&str) -> Option<&'a str>,
    ) -> impl Iterator<Item = VolumeGroupIx> {
        let by_label = self.by_label.iter();
        let labelled = by_label.filter_map(move |(key, values)| values.get(label(key)?));
        labelled.flatten().chain(&self.unlabelled).copied()
    }

    /// The groups that are under no label.
    pub fn unlabelled(&self) -> &[VolumeGroupIx] {
        &self.unlabelled
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.len() == 0
    }

    pub(super) fn insert(&mut self, volume: &Arc<PersistentVolume>) {
        let group = match self.by_selector.get(&volume.node_selector) {
            Some(group) => *group,
            None => self.open(volume.node_selector.clone()),
        };
        let volumes = &mut self.groups.get_mut(group).by_size;
        volumes.entry(volume.capacity).or_default().insert(volume.name.clone(), volume.clone());
    }

    pub(super) fn remove(&mut self, volume: &PersistentVolume) {
        let Some(group) = self.by_selector.get(&volume.node_selector).copied() else { return };
        let by_size = &mut self.groups.get_mut(group).by_size;
        if let Some(volumes) = by_size.get_mut(&volume.capacity) {
            volumes.remove(&volume.name);
            if volumes.is_empty() {
                by_size.remove(&volume.capacity);
            }
        }
        if by_size.is_empty() {
            self.close(group);
        }
    }

    fn open(&mut self, selector: Option<Arc<NodeSelector>>) -> VolumeGroupIx {
        let labels = selector.as_deref().and_then(labels_of);
        let is_single = |term: &NodeSelectorTerm| term.expressions.len() == 1;
        let mut terms = selector.iter().flat_map(|selector| selector.terms()).flatten();
        let group = self.groups.insert(VolumeGroup {
            selector: selector.clone(),
            label_decides: terms.all(is_single),
            by_size: BTreeMap::new(),
        });
        self.by_selector.insert(selector, group);
        match labels {
            None => self.unlabelled.push(group),
            Some(labels) => {
                for (key, value) in labels {
                    self.by_label.entry(key).or_default().entry(value).or_default().push(group);
                }
            }
        }
        group
    }

    fn close(&mut self, group: VolumeGroupIx) {
        let VolumeGroup { selector, .. } = self.groups.remove(group);
        for (key, value) in selector.as_deref().and_then(labels_of).into_iter().flatten() {
            let Some(values) = self.by_label.get_mut(&key) else { continue };
            if let Some(groups) = values.get_mut(&value) {
                groups.retain(|other| *other != group);
                if groups.is_empty() {
                    values.remove(&value);
                }
            }
            if values.is_empty() {
                self.by_label.remove(&key);
            }
        }
        self.unlabelled.retain(|other| *other != group);
        self.by_selector.remove(&selector);
    }
}

/// Labels of which a node has one if the selector matches it; `None` if there are no such labels.
fn labels_of(selector: &NodeSelector) -> Option<Vec<(Arc<str>, Arc<str>)>> {
    let mut labels = Vec::new();
    for term in selector.terms().iter().flatten() {
        let requirement = narrowing(term)?;
        let values = requirement.values().iter();
        labels.extend(values.map(|value| (requirement.key().clone(), value.clone())));
    }
    Some(labels)
}

/// A requirement of the term that names the values of a label.
fn narrowing(term: &NodeSelectorTerm) -> Option<&Requirement> {
    let mut requirements = term.expressions.iter();
    requirements.find(|own| matches!(own.operator(), Operator::In | Operator::Equals))
}
