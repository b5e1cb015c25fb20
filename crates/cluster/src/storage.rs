//! Storage objects, and indexes that find volumes without a scan.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;

use super::free_volumes::FreeVolumes;
use super::labels::LabelIndex;
use super::object::Indexed;
use super::object_state::ObjectState;
use super::short_set::ShortSet;
use super::{Cluster, PodIx};
use api::storage::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeAttachment,
};
use api::{ObjectKey, Pod, PodVolume};

/// Claims, volumes, classes, and the objects of CSI drivers.
#[derive(Debug, Clone, Default)]
pub(super) struct Storage {
    claims: Namespaced<Arc<PersistentVolumeClaim>>,
    /// The placed pods that use this claim, which need not exist.
    claim_users: Namespaced<ShortSet<PodIx>>,
    /// The claims that name this volume, which need not exist.
    claims_naming: HashMap<Arc<str>, ShortSet<Name>>,
    volumes: HashMap<Arc<str>, Arc<PersistentVolume>>,
    free_volumes: HashMap<Arc<str>, FreeVolumes>,
    /// Names of the volumes that are bound to this claim or reserved for it.
    reserved_volumes: Namespaced<BTreeSet<Arc<str>>>,
    classes: HashMap<Arc<str>, Arc<StorageClass>>,
    csi_nodes: HashMap<Arc<str>, Arc<CsiNode>>,
    csi_drivers: HashMap<Arc<str>, Arc<CsiDriver>>,
    /// CSIStorageCapacities by class and then by namespace and name.
    capacities: BTreeMap<Arc<str>, BTreeMap<Name, Arc<CsiStorageCapacity>>>,
    capacity_classes: HashMap<Name, Arc<str>>,
    attachments: HashMap<Arc<str>, Arc<VolumeAttachment>>,
    /// Names of the attachments that name this volume, which need not exist.
    attachments_of: HashMap<Arc<str>, ShortSet<Arc<str>>>,
    /// Names of the attachments to this node.
    attached: HashMap<Arc<str>, ShortSet<Arc<str>>>,
}

/// Namespace and name.
pub(super) type Name = (Arc<str>, Arc<str>);

/// A map by namespace and name.
#[derive(Debug, Clone)]
pub(super) struct Namespaced<T>(HashMap<Arc<str>, HashMap<Arc<str>, T>>);

impl<T> Default for Namespaced<T> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<T> Namespaced<T> {
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&T> {
        self.0.get(namespace)?.get(name)
    }

    pub(super) fn insert(&mut self, namespace: &Arc<str>, name: &Arc<str>, value: T) {
        self.0.entry(namespace.clone()).or_default().insert(name.clone(), value);
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) -> Option<T> {
        let names = self.0.get_mut(namespace)?;
        let value = names.remove(name);
        if names.is_empty() {
            self.0.remove(namespace);
        }
        value
    }

    /// Returns all values, in no particular order.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.values().flat_map(HashMap::values)
    }

    pub(super) fn entry(&mut self, namespace: &str, name: &str) -> &mut T
    where
        T: Default,
    {
        self.0.entry(namespace.into()).or_default().entry(name.into()).or_default()
    }
}

impl Storage {
    /// Adds or removes an object of storage, and ignores others. `labels` is used to index free
    /// volumes by node labels.
    pub(super) fn set(&mut self, object: Indexed<'_>, labels: &mut LabelIndex) {
        let name = &object.key.name;
        match object.state {
            ObjectState::PersistentVolumeClaim(claim) => {
                self.set_claim(object.key, object.present(claim));
            }
            ObjectState::PersistentVolume(volume) => {
                self.set_volume(name, object.present(volume), labels);
            }
            ObjectState::StorageClass(class) => {
                set(&mut self.classes, name, object.present(class));
            }
            ObjectState::CsiNode(node) => set(&mut self.csi_nodes, name, object.present(node)),
            ObjectState::CsiDriver(driver) => {
                set(&mut self.csi_drivers, name, object.present(driver));
            }
            ObjectState::CsiStorageCapacity(capacity) => {
                self.set_capacity(object.key, object.present(capacity));
            }
            ObjectState::VolumeAttachment(attachment) => {
                self.set_attachment(name, object.present(attachment));
            }
            _ => {}
        }
    }

    /// Returns the CSINode with this name.
    pub(super) fn csi_node(&self, node: &str) -> Option<&CsiNode> {
        self.csi_nodes.get(node).map(AsRef::as_ref)
    }

    /// Returns the VolumeAttachment with this name.
    pub(super) fn attachment(&self, name: &str) -> Option<&VolumeAttachment> {
        self.attachments.get(name).map(AsRef::as_ref)
    }

    /// Returns the names of the VolumeAttachments to this node.
    pub(super) fn attachments_to(&self, node: &str) -> impl Iterator<Item = &Arc<str>> {
        self.attached.get(node).map(ShortSet::iter).into_iter().flatten()
    }

    /// Returns the names of the VolumeAttachments that name this volume.
    pub(super) fn attachments_of(&self, volume: &str) -> impl Iterator<Item = &Arc<str>> {
        self.attachments_of.get(volume).map(ShortSet::iter).into_iter().flatten()
    }

    /// Returns the claims that name this volume.
    pub(super) fn claims_naming(&self, volume: &str) -> impl Iterator<Item = &Name> {
        self.claims_naming.get(volume).map(ShortSet::iter).into_iter().flatten()
    }

    /// Returns the placed pods that use this claim.
    pub(super) fn claim_users(&self, namespace: &str, name: &str) -> Option<&ShortSet<PodIx>> {
        self.claim_users.get(namespace, name)
    }

    fn set_claim(&mut self, key: &ObjectKey, claim: Option<Arc<PersistentVolumeClaim>>) {
        let ObjectKey { namespace, name, .. } = key;
        let key: Name = (namespace.clone(), name.clone());
        let old = self.claims.remove(namespace, name);
        if let Some(volume) = old.as_ref().and_then(|old| old.volume_name.as_ref()) {
            remove_from(&mut self.claims_naming, volume, &key);
        }
        if let Some(claim) = claim {
            if let Some(volume) = &claim.volume_name {
                self.claims_naming.entry(volume.clone()).or_default().insert(key);
            }
            self.claims.insert(namespace, name, claim);
        }
    }

    fn set_volume(
        &mut self,
        name: &Arc<str>,
        volume: Option<Arc<PersistentVolume>>,
        labels: &mut LabelIndex,
    ) {
        if let Some(old) = self.volumes.remove(name) {
            self.forget_volume(&old, labels);
        }
        if let Some(volume) = volume {
            self.index_volume(&volume, labels);
            self.volumes.insert(name.clone(), volume);
        }
    }

    fn index_volume(&mut self, volume: &Arc<PersistentVolume>, labels: &mut LabelIndex) {
        let name = &volume.name;
        if volume.is_free() {
            self.free_volumes.entry(volume.class.clone()).or_default().insert(volume, labels);
        }
        if let Some(claim) = &volume.claim_ref {
            self.reserved_volumes.entry(&claim.namespace, &claim.name).insert(name.clone());
        }
    }

    fn forget_volume(&mut self, volume: &PersistentVolume, labels: &mut LabelIndex) {
        if volume.is_free()
            && let Some(class) = self.free_volumes.get_mut(&volume.class)
        {
            class.remove(volume, labels);
            if class.is_empty() {
                self.free_volumes.remove(&volume.class);
            }
        }
        if let Some(claim) = &volume.claim_ref {
            let names = self.reserved_volumes.entry(&claim.namespace, &claim.name);
            names.remove(&volume.name);
            if names.is_empty() {
                self.reserved_volumes.remove(&claim.namespace, &claim.name);
            }
        }
    }

    fn set_capacity(&mut self, key: &ObjectKey, capacity: Option<Arc<CsiStorageCapacity>>) {
        let key: Name = (key.namespace.clone(), key.name.clone());
        if let Some(class) = self.capacity_classes.remove(&key)
            && let Some(capacities) = self.capacities.get_mut(&class)
        {
            capacities.remove(&key);
            if capacities.is_empty() {
                self.capacities.remove(&class);
            }
        }
        if let Some(capacity) = capacity {
            self.capacity_classes.insert(key.clone(), capacity.class.clone());
            self.capacities.entry(capacity.class.clone()).or_default().insert(key, capacity);
        }
    }

    fn set_attachment(&mut self, name: &Arc<str>, attachment: Option<Arc<VolumeAttachment>>) {
        if let Some(old) = self.attachments.remove(name) {
            remove_from(&mut self.attached, &old.node_name, name);
            if let Some(volume) = &old.volume_name {
                remove_from(&mut self.attachments_of, volume, name);
            }
        }
        if let Some(attachment) = attachment {
            let VolumeAttachment { node_name, volume_name, .. } = &*attachment;
            self.attached.entry(node_name.clone()).or_default().insert(name.clone());
            if let Some(volume) = volume_name {
                self.attachments_of.entry(volume.clone()).or_default().insert(name.clone());
            }
            self.attachments.insert(name.clone(), attachment);
        }
    }

    /// Records that a placed pod uses its claims.
    pub(super) fn add_claim_user(&mut self, ix: PodIx, pod: &Pod) {
        for claim in claim_names(pod) {
            self.claim_users.entry(&pod.key.namespace, &claim).insert(ix);
        }
    }

    /// Records that a removed pod no longer uses its claims.
    pub(super) fn remove_claim_user(&mut self, ix: PodIx, pod: &Pod) {
        let namespace = &*pod.key.namespace;
        for claim in claim_names(pod) {
            let users = self.claim_users.entry(namespace, &claim);
            users.remove(&ix);
            if users.is_empty() {
                self.claim_users.remove(namespace, &claim);
            }
        }
    }
}

/// Returns the names of the claims of the pod, including those of ephemeral volumes.
fn claim_names(pod: &Pod) -> impl Iterator<Item = Cow<'_, str>> {
    pod.spec.volumes.iter().filter_map(|volume| volume.claim_name(&pod.key.name))
}

fn remove_from<T: Ord>(index: &mut HashMap<Arc<str>, ShortSet<T>>, key: &str, value: &T) {
    if let Some(values) = index.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            index.remove(key);
        }
    }
}

fn set<T>(objects: &mut HashMap<Arc<str>, T>, name: &Arc<str>, object: Option<T>) {
    match object {
        Some(object) => drop(objects.insert(name.clone(), object)),
        None => drop(objects.remove(name)),
    }
}

/// Storage.
impl Cluster {
    /// Returns how often claims, volumes, classes of storage and objects of CSI drivers have
    /// changed.
    pub const fn storage_changes(&self) -> u64 {
        self.storage_changes
    }

    /// Returns the claim with this name.
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&Arc<PersistentVolumeClaim>> {
        self.storage.claims.get(namespace, name)
    }

    /// Returns the placed pods that use this claim, directly or through an ephemeral volume.
    pub fn pods_with_claim(&self, namespace: &str, name: &str) -> impl Iterator<Item = &Arc<Pod>> {
        let users = self.storage.claim_users(namespace, name).map(ShortSet::iter);
        users.into_iter().flatten().map(|user| &self.pods.get(*user).pod)
    }

    /// Returns whether a placed pod names this claim. Claims of ephemeral volumes do not count.
    pub fn is_claim_in_use(&self, namespace: &str, name: &str) -> bool {
        let names_it = |volume: &PodVolume| volume.named_claim().is_some_and(|own| **own == *name);
        self.pods_with_claim(namespace, name).any(|user| user.spec.volumes.iter().any(names_it))
    }

    /// Returns the PersistentVolume with this name.
    pub fn volume(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.storage.volumes.get(name)
    }

    /// Returns the volumes of a class that are `Available` and have no claim, if there are any.
    pub fn free_volumes(&self, class: &str) -> Option<&FreeVolumes> {
        self.storage.free_volumes.get(class)
    }

    /// Returns the volumes that are bound to, or reserved for, a claim with this name, by name. Use
    /// [`PersistentVolume::is_for`] to check the UID.
    pub fn volumes_reserved_for(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Iterator<Item = &Arc<PersistentVolume>> {
        let names = self.storage.reserved_volumes.get(namespace, name).into_iter().flatten();
        names.filter_map(|name| self.volume(name))
    }

    /// Returns the StorageClass with this name.
    pub fn storage_class(&self, name: &str) -> Option<&Arc<StorageClass>> {
        self.storage.classes.get(name)
    }

    /// Returns the CSINode with this name.
    pub fn csi_node(&self, node: &str) -> Option<&CsiNode> {
        self.storage.csi_node(node)
    }

    /// Returns the CSIDriver with this name.
    pub fn csi_driver(&self, name: &str) -> Option<&CsiDriver> {
        self.storage.csi_drivers.get(name).map(AsRef::as_ref)
    }

    /// Returns the CSIStorageCapacities of a class, by namespace and name.
    pub fn storage_capacities(&self, class: &str) -> impl Iterator<Item = &CsiStorageCapacity> {
        let of_class = self.storage.capacities.get(class);
        of_class.into_iter().flat_map(BTreeMap::values).map(AsRef::as_ref)
    }

    /// Returns the VolumeAttachments of this node, by name.
    pub fn volume_attachments(&self, node: &str) -> impl Iterator<Item = &VolumeAttachment> {
        let names = self.storage.attachments_to(node);
        names.filter_map(|name| self.storage.attachment(name))
    }
}
