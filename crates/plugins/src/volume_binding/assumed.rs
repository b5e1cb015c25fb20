//! The assume caches: volumes and claims as they will be once what a pod needs is written.
//!
//! They lie above the objects of the cluster. An assumed version counts as long as the cluster has
//! the very version it was made from, so whatever the API server says of an object takes its place.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use framework::storage::{PersistentVolume, PersistentVolumeClaim};
use framework::{Cluster, Uid};

/// The assumed volumes and claims of a scheduler, shared by its profiles.
#[derive(Debug, Default)]
pub(crate) struct AssumeCaches(Mutex<AssumedObjects>);

impl AssumeCaches {
    /// The caches, for the duration of one call.
    pub(super) fn lock(&self) -> MutexGuard<'_, AssumedObjects> {
        // Every change to the caches is a single one, so a panic leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Assumed volumes and claims.
#[derive(Debug, Default)]
pub(super) struct AssumedObjects {
    pub(super) volumes: AssumeCache<PersistentVolume>,
    pub(super) claims: AssumeCache<PersistentVolumeClaim>,
}

/// An object that can be assumed.
pub(super) trait Assumable: Sized {
    /// Namespace and name, or name.
    type Key: Clone + Eq + Hash;
    /// The plural name of the resource.
    const RESOURCE: &'static str;

    fn key(&self) -> Self::Key;
    fn uid(&self) -> &Uid;
    fn resource_version(&self) -> &Arc<str>;
    /// The key as people read it.
    fn name(&self) -> String;
    /// The object of this key in the cluster.
    fn stored<'a>(&self, cluster: &'a Cluster) -> Option<&'a Arc<Self>>;

    /// The object of this key in the cluster.
    ///
    /// # Errors
    /// There is none.
    fn must_be_stored<'a>(&self, cluster: &'a Cluster) -> Result<&'a Arc<Self>, String> {
        let stored = self.stored(cluster);
        stored.ok_or_else(|| format!("{} {:?} not found", Self::RESOURCE, self.name()))
    }

    /// Whether it is the version of an object that the cluster has.
    fn is_current(&self, cluster: &Cluster) -> bool {
        self.stored(cluster).is_some_and(|stored| self.is_version_of(stored))
    }

    /// Whether both are the same version of the same object.
    fn is_version_of(&self, other: &Self) -> bool {
        self.resource_version() == other.resource_version() && self.uid() == other.uid()
    }
}

/// Assumed versions of objects of one kind.
#[derive(Debug)]
pub(super) struct AssumeCache<T: Assumable> {
    /// The last one of an object is the one to go by. Each pod with a claim assumes what becomes of
    /// it, so that none takes back what another has assumed.
    assumed: HashMap<T::Key, Vec<Arc<T>>>,
    /// The number of entries at which those are looked for that do not count any more.
    sweep_at: usize,
}

impl<T: Assumable> Default for AssumeCache<T> {
    fn default() -> Self {
        Self { assumed: HashMap::new(), sweep_at: Self::MIN_SWEEP }
    }
}

impl<T: Assumable> AssumeCache<T> {
    const MIN_SWEEP: usize = 64;

    /// The assumed version of `stored`, an object of the cluster, if there is one that counts.
    pub(super) fn get(&self, stored: &T) -> Option<&Arc<T>> {
        if self.assumed.is_empty() {
            return None;
        }
        self.assumed.get(&stored.key())?.last().filter(|assumed| assumed.is_version_of(stored))
    }

    /// The version of `stored`, an object of the cluster, that counts.
    pub(super) fn latest(&self, stored: &Arc<T>) -> Arc<T> {
        self.get(stored).unwrap_or(stored).clone()
    }

    /// Every assumed version that counts, in no order.
    pub(super) fn iter<'a>(&'a self, cluster: &'a Cluster) -> impl Iterator<Item = &'a Arc<T>> {
        self.assumed.values().filter_map(|assumed| last_current(assumed, cluster))
    }

    /// Takes `object` for what is stored, of which it must be a version.
    ///
    /// # Errors
    /// The object is gone, or has changed.
    pub(super) fn assume(&mut self, object: Arc<T>, cluster: &Cluster) -> Result<(), String> {
        let stored = object.must_be_stored(cluster)?;
        if !object.is_version_of(stored) {
            return Err(format!(
                "{:?} is out of sync (stored: {}, assume: {})",
                object.name(),
                stored.resource_version(),
                object.resource_version()
            ));
        }
        self.sweep(cluster);
        let assumed = self.assumed.entry(object.key()).or_default();
        assumed.retain(|other| other.is_version_of(stored));
        assumed.push(object);
        Ok(())
    }

    /// Forgets that `object` is assumed. What else is assumed of the object stays.
    pub(super) fn restore(&mut self, object: &Arc<T>) {
        let key = object.key();
        if let Some(assumed) = self.assumed.get_mut(&key) {
            assumed.retain(|other| !Arc::ptr_eq(other, object));
            if assumed.is_empty() {
                self.assumed.remove(&key);
            }
        }
    }

    /// The number of objects with assumed versions, be it such as do not count any more.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.assumed.len()
    }

    /// Drops what does not count any more, whenever that may be half of all.
    fn sweep(&mut self, cluster: &Cluster) {
        if self.assumed.len() >= self.sweep_at {
            self.assumed.retain(|_, assumed| last_current(assumed, cluster).is_some());
            self.sweep_at = Self::MIN_SWEEP.max(2 * self.assumed.len());
        }
    }
}

fn last_current<'a, T: Assumable>(assumed: &'a [Arc<T>], cluster: &Cluster) -> Option<&'a Arc<T>> {
    assumed.last().filter(|assumed| assumed.is_current(cluster))
}

impl Assumable for PersistentVolume {
    type Key = Arc<str>;
    const RESOURCE: &str = "persistentvolumes";

    fn key(&self) -> Arc<str> {
        self.name.clone()
    }

    fn uid(&self) -> &Uid {
        &self.uid
    }

    fn resource_version(&self) -> &Arc<str> {
        &self.resource_version
    }

    fn name(&self) -> String {
        self.name.to_string()
    }

    fn stored<'a>(&self, cluster: &'a Cluster) -> Option<&'a Arc<Self>> {
        cluster.volume(&self.name)
    }
}

impl Assumable for PersistentVolumeClaim {
    type Key = (Arc<str>, Arc<str>);
    const RESOURCE: &str = "persistentvolumeclaims";

    fn key(&self) -> (Arc<str>, Arc<str>) {
        (self.namespace.clone(), self.name.clone())
    }

    fn uid(&self) -> &Uid {
        &self.uid
    }

    fn resource_version(&self) -> &Arc<str> {
        &self.resource_version
    }

    fn name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    fn stored<'a>(&self, cluster: &'a Cluster) -> Option<&'a Arc<Self>> {
        cluster.claim(&self.namespace, &self.name)
    }
}
