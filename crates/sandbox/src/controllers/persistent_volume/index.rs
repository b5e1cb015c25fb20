//! An index of volumes for binding.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::storage::{PersistentVolume, PersistentVolumeClaim, StorageSize};

use crate::controllers::work_queue::Key;

/// All volumes, with the free ones by class and size and the reserved ones by claim.
#[derive(Debug, Default)]
pub(super) struct VolumeIndex {
    volumes: BTreeMap<Arc<str>, PersistentVolume>,
    free: BTreeMap<Arc<str>, BTreeSet<(StorageSize, Arc<str>)>>,
    reserved: BTreeMap<Key, BTreeSet<Arc<str>>>,
}

impl VolumeIndex {
    /// Adds a volume or replaces its entry.
    pub(super) fn insert(&mut self, volume: PersistentVolume) {
        self.remove(&volume.name);
        let name = volume.name.clone();
        if let Some(claim) = claim_of(&volume) {
            self.reserved.entry(claim).or_default().insert(name.clone());
        } else if volume.is_free() {
            let of_class = self.free.entry(volume.class.clone()).or_default();
            of_class.insert((volume.capacity, name.clone()));
        }
        self.volumes.insert(name, volume);
    }

    /// Removes a volume.
    pub(super) fn remove(&mut self, name: &str) {
        let Some(volume) = self.volumes.remove(name) else { return };
        if let Some(of_class) = self.free.get_mut(&volume.class) {
            of_class.remove(&(volume.capacity, volume.name.clone()));
        }
        if let Some(claim) = claim_of(&volume)
            && let Some(reserved) = self.reserved.get_mut(&claim)
        {
            reserved.remove(name);
            if reserved.is_empty() {
                self.reserved.remove(&claim);
            }
        }
    }

    /// Returns the volume of this name.
    pub(super) fn get(&self, name: &str) -> Option<&PersistentVolume> {
        self.volumes.get(name)
    }

    /// Returns the names of the volumes that are reserved for a claim of this name.
    pub(super) fn reserved_for(&self, claim: &Key) -> impl Iterator<Item = &str> {
        self.reserved.get(claim).into_iter().flatten().map(|name| &**name)
    }

    /// Returns a volume that is reserved for the claim.
    pub(super) fn for_claim(&self, claim: &PersistentVolumeClaim) -> Option<&PersistentVolume> {
        let key = (claim.namespace.to_string(), claim.name.to_string());
        let mut volumes = self.reserved_for(&key).filter_map(|name| self.get(name));
        volumes.find(|volume| !volume.terminating && volume.is_for(claim) && volume.suits(claim))
    }

    /// Returns the smallest free volume of its class that satisfies the claim.
    pub(super) fn smallest(&self, claim: &PersistentVolumeClaim) -> Option<&PersistentVolume> {
        let large_enough = (claim.request.unwrap_or_default(), Arc::from(""))..;
        let mut volumes = self.free.get(&claim.class)?.range(large_enough);
        volumes.find_map(|(_, name)| {
            self.get(name).filter(|volume| volume.suits(claim) && volume.is_selected_by(claim))
        })
    }
}

fn claim_of(volume: &PersistentVolume) -> Option<Key> {
    let claim = volume.claim_ref.as_ref()?;
    Some((claim.namespace.to_string(), claim.name.to_string()))
}
