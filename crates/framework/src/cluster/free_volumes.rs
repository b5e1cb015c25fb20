//! The volumes of a class that no claim has, grouped by what they are like and by the nodes they
//! can be used on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use smallvec::SmallVec;

use super::labels::{LabelIndex, LabelIx};
use super::slab::Slab;
use crate::storage::{
    AccessMode, PersistentVolume, PersistentVolumeClaim, StorageSize, VolumeMode,
};
use crate::{DomainIx, LabelKeyIx, NodeSelector, NodeSelectorTerm, Operator, Requirement};

/// A group of free volumes, as long as it has any.
pub type VolumeGroupIx = u32;

/// What a volume is like, but for its name, labels and size.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VolumeKind {
    /// The nodes it can be used on; `None` for all.
    pub node_selector: Option<Arc<NodeSelector>>,
    /// File system or block device.
    pub volume_mode: VolumeMode,
    /// The VolumeAttributesClass; empty where nothing is said.
    pub attributes_class: Arc<str>,
    /// The access modes it has.
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

/// Free volumes of a class that are alike.
#[derive(Debug, Clone)]
pub struct VolumeGroup {
    kind: VolumeKind,
    /// What it is filed under; `None` if that cannot be said by labels.
    labels: Option<Box<[LabelIx]>>,
    label_decides: bool,
    by_size: BTreeMap<StorageSize, BTreeMap<Arc<str>, Arc<PersistentVolume>>>,
}

impl VolumeGroup {
    /// What the volumes are like.
    pub const fn kind(&self) -> &VolumeKind {
        &self.kind
    }

    /// The nodes they can be used on; `None` for all.
    pub fn node_selector(&self) -> Option<&NodeSelector> {
        self.kind.node_selector.as_deref()
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

type FewGroups = SmallVec<[VolumeGroupIx; 2]>;

/// The free volumes of a class: those that are `Available` and that no claim has.
///
/// A group is filed under every label value that a node can have it by, or else under none.
#[derive(Debug, Clone, Default)]
pub struct FreeVolumes {
    groups: Slab<VolumeGroup>,
    by_kind: HashMap<VolumeKind, VolumeGroupIx>,
    by_label: BTreeMap<LabelKeyIx, BTreeMap<DomainIx, FewGroups>>,
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

    /// The groups that only nodes with certain labels can have, by key and then by value. A group
    /// may be under more than one.
    pub fn labelled(
        &self,
    ) -> impl Iterator<Item = (LabelKeyIx, impl Iterator<Item = (DomainIx, &[VolumeGroupIx])>)>
    {
        self.by_label
            .iter()
            .map(|(key, values)| (*key, values.iter().map(|(value, groups)| (*value, &groups[..]))))
    }

    /// The groups for which a node may qualify whose values of labels are looked up by `value`. A
    /// group may come more than once.
    pub fn candidates(
        &self,
        value: impl Fn(LabelKeyIx) -> Option<DomainIx>,
    ) -> impl Iterator<Item = VolumeGroupIx> {
        let by_label = self.by_label.iter();
        let labelled = by_label.filter_map(move |(key, values)| values.get(&value(*key)?));
        labelled.flatten().chain(&self.unlabelled).copied()
    }

    /// The groups that are under no label.
    pub fn unlabelled(&self) -> &[VolumeGroupIx] {
        &self.unlabelled
    }

    /// The smallest volume that suits the claim and has the labels it asks for, on whatever node;
    /// of equally small ones the first by name.
    pub fn smallest_for(&self, claim: &PersistentVolumeClaim) -> Option<&Arc<PersistentVolume>> {
        let will_do =
            |volume: &&Arc<PersistentVolume>| volume.suits(claim) && volume.is_selected_by(claim);
        let size = claim.request.unwrap_or_default();
        let of_groups =
            self.groups.iter().filter_map(|(_, group)| group.at_least(size).find(will_do));
        of_groups.min_by_key(|volume| (volume.capacity, &volume.name))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.len() == 0
    }

    pub(super) fn insert(&mut self, volume: &Arc<PersistentVolume>, labels: &mut LabelIndex) {
        let kind = VolumeKind::of(volume);
        let group = match self.by_kind.get(&kind) {
            Some(group) => *group,
            None => self.open(kind, labels),
        };
        let volumes = &mut self.groups.get_mut(group).by_size;
        volumes.entry(volume.capacity).or_default().insert(volume.name.clone(), volume.clone());
    }

    pub(super) fn remove(&mut self, volume: &PersistentVolume, labels: &mut LabelIndex) {
        let Some(group) = self.by_kind.get(&VolumeKind::of(volume)).copied() else { return };
        let by_size = &mut self.groups.get_mut(group).by_size;
        if let Some(volumes) = by_size.get_mut(&volume.capacity) {
            volumes.remove(&volume.name);
            if volumes.is_empty() {
                by_size.remove(&volume.capacity);
            }
        }
        if by_size.is_empty() {
            self.close(group, labels);
        }
    }

    fn open(&mut self, kind: VolumeKind, index: &mut LabelIndex) -> VolumeGroupIx {
        let selector = kind.node_selector.as_deref();
        let labels = selector.and_then(|selector| labels_of(selector, index));
        let is_single = |term: &NodeSelectorTerm| term.expressions.len() == 1;
        let mut terms = selector.iter().flat_map(|selector| selector.terms()).flatten();
        let group = self.groups.insert(VolumeGroup {
            label_decides: terms.all(is_single),
            kind: kind.clone(),
            labels: labels.clone(),
            by_size: BTreeMap::new(),
        });
        self.by_kind.insert(kind, group);
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

    fn close(&mut self, group: VolumeGroupIx, index: &mut LabelIndex) {
        let VolumeGroup { kind, labels, .. } = self.groups.remove(group);
        for label @ (key, value) in labels.into_iter().flatten() {
            index.release(label);
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
        self.by_kind.remove(&kind);
    }
}

/// Labels of which a node has one if the selector matches it, held in `index`; `None` if there are
/// no such labels.
fn labels_of(selector: &NodeSelector, index: &mut LabelIndex) -> Option<Box<[LabelIx]>> {
    let terms = selector.terms().iter().flatten();
    let narrowing: Vec<_> = terms.map(narrowing).collect::<Option<_>>()?;
    let labels = narrowing.into_iter().flat_map(|own| own.values().iter().map(|v| (own.key(), v)));
    Some(labels.map(|(key, value)| index.hold(key, value)).collect())
}

/// A requirement of the term that names the values of a label.
fn narrowing(term: &NodeSelectorTerm) -> Option<&Requirement> {
    term.expressions.iter().find(|own| own.operator() == Operator::In)
}
