//! The unclaimed volumes of a class, by their properties and by the nodes that can use
//! them.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;
use smallvec::SmallVec;

use super::labels::{LabelIndex, LabelIx};
use super::slab::Slab;
use crate::{DomainIx, LabelKeyIx};
use api::storage::{AccessMode, PersistentVolume, PersistentVolumeClaim, StorageSize, VolumeMode};
use api::{NodeSelector, NodeSelectorTerm, Operator, Requirement};

/// The id of a set of free volumes, valid while the set is not empty.
pub type VolumeSetIx = u32;

/// The properties of a volume other than name, labels and size.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VolumeKind {
    /// The nodes that can use the volume; `None` for all nodes.
    pub node_selector: Option<Arc<NodeSelector>>,
    /// File system or block device.
    pub volume_mode: VolumeMode,
    /// The VolumeAttributesClass; empty if the volume has none.
    pub attributes_class: Arc<str>,
    /// The access modes of the volume.
    pub access_modes: Box<[AccessMode]>,
}

impl VolumeKind {
    fn of(volume: &PersistentVolume) -> Self {
        Self {
            node_selector: volume.node_selector.clone(),
            volume_mode: volume.volume_mode.clone(),
            attributes_class: volume.attributes_class.clone(),
            access_modes: volume.access_modes.clone(),
        }
    }
}

/// Free volumes of a class with equal properties.
#[derive(Debug, Clone)]
pub struct VolumeSet {
    kind: VolumeKind,
    /// The node labels under which the set is indexed; `None` if labels do not restrict it.
    labels: Option<Box<[LabelIx]>>,
    label_decides: bool,
    by_size: BTreeMap<StorageSize, BTreeMap<Arc<str>, Arc<PersistentVolume>>>,
}

impl VolumeSet {
    /// Returns the properties of the volumes.
    pub const fn kind(&self) -> &VolumeKind {
        &self.kind
    }

    /// Returns the nodes that can use the volumes; `None` for all nodes.
    pub fn node_selector(&self) -> Option<&NodeSelector> {
        self.kind.node_selector.as_deref()
    }

    /// Returns whether a node with one of the labels of the set can always use the volumes.
    pub const fn label_decides(&self) -> bool {
        self.label_decides
    }

    /// Returns the volumes of at least this size, by size and then by name.
    pub fn at_least(&self, size: StorageSize) -> impl Iterator<Item = &Arc<PersistentVolume>> {
        self.by_size.range(size..).flat_map(|(_, volumes)| volumes.values())
    }
}

type FewSets = SmallVec<[VolumeSetIx; 2]>;

/// The free volumes of a class: those in phase `Available` without a claim.
///
/// A set is indexed under every node label value that gives access to it, or is unlabelled.
#[derive(Debug, Clone, Default)]
pub struct FreeVolumes {
    sets: Slab<VolumeSet>,
    by_kind: HashMap<VolumeKind, VolumeSetIx>,
    by_label: BTreeMap<LabelKeyIx, BTreeMap<DomainIx, FewSets>>,
    unlabelled: Vec<VolumeSetIx>,
}

impl FreeVolumes {
    /// Returns a set.
    ///
    /// # Panics
    /// Panics if the set does not exist.
    pub fn get(&self, set: VolumeSetIx) -> &VolumeSet {
        self.sets.get(set)
    }

    /// Returns the sets that only nodes with certain labels can use, by key and then by value. A
    /// set may be listed under several labels.
    pub fn labelled(
        &self,
    ) -> impl Iterator<Item = (LabelKeyIx, impl Iterator<Item = (DomainIx, &[VolumeSetIx])>)> {
        self.by_label
            .iter()
            .map(|(key, values)| (*key, values.iter().map(|(value, sets)| (*value, &sets[..]))))
    }

    /// Returns the sets that a node may be able to use. `value` looks up the labels of the node.
    /// A set may occur more than once.
    pub fn candidates(
        &self,
        value: impl Fn(LabelKeyIx) -> Option<DomainIx>,
    ) -> impl Iterator<Item = VolumeSetIx> {
        let by_label = self.by_label.iter();
        let labelled = by_label.filter_map(move |(key, values)| values.get(&value(*key)?));
        labelled.flatten().chain(&self.unlabelled).copied()
    }

    /// Returns the sets without a label.
    pub fn unlabelled(&self) -> &[VolumeSetIx] {
        &self.unlabelled
    }

    /// Returns the smallest volume that fits the claim and matches its selector, on any node. Of
    /// equally small volumes it returns the first by name.
    pub fn smallest_for(&self, claim: &PersistentVolumeClaim) -> Option<&Arc<PersistentVolume>> {
        let fits =
            |volume: &&Arc<PersistentVolume>| volume.suits(claim) && volume.is_selected_by(claim);
        let size = claim.request.unwrap_or_default();
        let of_sets = self.sets.iter().filter_map(|(_, set)| set.at_least(size).find(fits));
        of_sets.min_by_key(|volume| (volume.capacity, &volume.name))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sets.len() == 0
    }

    pub(super) fn insert(&mut self, volume: &Arc<PersistentVolume>, labels: &mut LabelIndex) {
        let kind = VolumeKind::of(volume);
        let set = match self.by_kind.get(&kind) {
            Some(set) => *set,
            None => self.open(kind, labels),
        };
        let volumes = &mut self.sets.get_mut(set).by_size;
        volumes.entry(volume.capacity).or_default().insert(volume.name.clone(), volume.clone());
    }

    pub(super) fn remove(&mut self, volume: &PersistentVolume, labels: &mut LabelIndex) {
        let Some(set) = self.by_kind.get(&VolumeKind::of(volume)).copied() else { return };
        let by_size = &mut self.sets.get_mut(set).by_size;
        if let Some(volumes) = by_size.get_mut(&volume.capacity) {
            volumes.remove(&volume.name);
            if volumes.is_empty() {
                by_size.remove(&volume.capacity);
            }
        }
        if by_size.is_empty() {
            self.close(set, labels);
        }
    }

    fn open(&mut self, kind: VolumeKind, index: &mut LabelIndex) -> VolumeSetIx {
        let selector = kind.node_selector.as_deref();
        let labels = selector.and_then(|selector| labels_of(selector, index));
        let is_single = |term: &NodeSelectorTerm| term.expressions.len() == 1;
        let mut terms = selector.iter().flat_map(|selector| selector.terms()).flatten();
        let set = self.sets.insert(VolumeSet {
            label_decides: terms.all(is_single),
            kind: kind.clone(),
            labels: labels.clone(),
            by_size: BTreeMap::new(),
        });
        self.by_kind.insert(kind, set);
        match labels {
            None => self.unlabelled.push(set),
            Some(labels) => {
                for (key, value) in labels {
                    self.by_label.entry(key).or_default().entry(value).or_default().push(set);
                }
            }
        }
        set
    }

    fn close(&mut self, set: VolumeSetIx, index: &mut LabelIndex) {
        let VolumeSet { kind, labels, .. } = self.sets.remove(set);
        for label @ (key, value) in labels.into_iter().flatten() {
            index.release(label);
            let Some(values) = self.by_label.get_mut(&key) else { continue };
            if let Some(sets) = values.get_mut(&value) {
                sets.retain(|other| *other != set);
                if sets.is_empty() {
                    values.remove(&value);
                }
            }
            if values.is_empty() {
                self.by_label.remove(&key);
            }
        }
        self.unlabelled.retain(|other| *other != set);
        self.by_kind.remove(&kind);
    }
}

/// Returns node labels of which every node that the selector matches has at least one, and acquires
/// them in `index`. Returns `None` if there are no such labels.
fn labels_of(selector: &NodeSelector, index: &mut LabelIndex) -> Option<Box<[LabelIx]>> {
    let terms = selector.terms().iter().flatten();
    let narrowing: Vec<_> = terms.map(narrowing).collect::<Option<_>>()?;
    let labels = narrowing.into_iter().flat_map(|own| own.values().iter().map(|v| (own.key(), v)));
    Some(labels.map(|(key, value)| index.acquire(key, value)).collect())
}

/// Returns a requirement of the term that lists the values of a label.
fn narrowing(term: &NodeSelectorTerm) -> Option<&Requirement> {
    term.expressions.iter().find(|own| own.operator() == Operator::In)
}
