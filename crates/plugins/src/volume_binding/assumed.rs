//! The assume caches: volumes and claims with changes that are not yet written or observed.
//!
//! The caches overlay the objects of the cluster. An assumed version is valid while the cluster has
//! the version that it was derived from. Any newer version from the API server replaces it.

use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use framework::storage::{PersistentVolume, PersistentVolumeClaim};
use framework::{Cluster, Uid};

/// The assumed volumes and claims of a scheduler, shared by its profiles.
#[derive(Debug, Default)]
pub(crate) struct AssumeCaches(Mutex<AssumedObjects>);

impl AssumeCaches {
    /// Locks the caches for one call.
    pub(super) fn lock(&self) -> MutexGuard<'_, AssumedObjects> {
        // Each change to the caches is atomic, so a panic leaves them consistent.
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
    /// Namespace and name, or only the name.
    type Key: Clone + Eq + Hash;
    /// The plural name of the resource.
    const RESOURCE: &'static str;

    fn key(&self) -> Self::Key;
    /// Returns the value at the key of this object.
    fn entry_in<'a, V>(&self, values: &'a HashMap<Self::Key, V>) -> Option<&'a V> {
        values.get(&self.key())
    }
    fn uid(&self) -> &Uid;
    fn resource_version(&self) -> &Arc<str>;
    /// Returns the key for messages.
    fn name(&self) -> String;
    /// Returns the object of this key in the cluster.
    fn stored<'a>(&self, cluster: &'a Cluster) -> Option<&'a Arc<Self>>;

    /// Returns the object of this key in the cluster.
    ///
    /// # Errors
    /// Returns an error if the object does not exist.
    fn must_be_stored<'a>(&self, cluster: &'a Cluster) -> Result<&'a Arc<Self>, String> {
        let stored = self.stored(cluster);
        stored.ok_or_else(|| format!("{} {:?} not found", Self::RESOURCE, self.name()))
    }

    /// Whether the cluster has this version of the object.
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
    /// The last version of an object is the valid one. Each pod with a claim adds its own version,
    /// so a pod that reverts its version keeps the versions of other pods.
    assumed: HashMap<T::Key, Vec<Arc<T>>>,
    /// The number of entries at which the next sweep removes invalid entries.
    sweep_at: usize,
}

impl<T: Assumable> Default for AssumeCache<T> {
    fn default() -> Self {
        Self { assumed: HashMap::default(), sweep_at: Self::MIN_SWEEP }
    }
}

impl<T: Assumable> AssumeCache<T> {
    const MIN_SWEEP: usize = 64;

    /// Returns the valid assumed version of `stored`, an object of the cluster, if there is one.
    pub(super) fn get(&self, stored: &T) -> Option<&Arc<T>> {
        if self.assumed.is_empty() {
            return None;
        }
        let assumed = stored.entry_in(&self.assumed)?;
        assumed.last().filter(|assumed| assumed.is_version_of(stored))
    }

    /// Returns the assumed version of `stored` if there is a valid one, otherwise `stored`.
    pub(super) fn latest(&self, stored: &Arc<T>) -> Arc<T> {
        self.get(stored).unwrap_or(stored).clone()
    }

    /// Returns every valid assumed version that is `wanted`, in no order.
    pub(super) fn wanted<'a>(
        &'a self,
        cluster: &'a Cluster,
        wanted: impl Fn(&Arc<T>) -> bool + 'a,
    ) -> impl Iterator<Item = &'a Arc<T>> {
        // Few versions are wanted, and whether one is valid takes longer to say.
        let last = self.assumed.values().filter_map(|assumed| assumed.last());
        last.filter(move |assumed| wanted(assumed) && assumed.is_current(cluster))
    }

    /// Assumes `object`, which must be a version of the stored object.
    ///
    /// # Errors
    /// Returns an error if the stored object is gone or has changed.
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

    /// Removes the assumed version `object`. Other assumed versions of the object stay.
    pub(super) fn restore(&mut self, object: &Arc<T>) {
        let key = object.key();
        if let Some(assumed) = self.assumed.get_mut(&key) {
            assumed.retain(|other| !Arc::ptr_eq(other, object));
            if assumed.is_empty() {
                self.assumed.remove(&key);
            }
        }
    }

    /// Returns the number of objects with assumed versions, valid or not.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.assumed.len()
    }

    /// Removes invalid entries if up to half of all entries may be invalid.
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

    fn entry_in<'a, V>(&self, values: &'a HashMap<Arc<str>, V>) -> Option<&'a V> {
        values.get(&*self.name)
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
