//! Scores nodes by the utilization of the storage for a pod (gate StorageCapacityScoring).

use std::collections::BTreeMap;

use super::find::PodVolumes;
use crate::shape::{Ratings, rounded};

/// The requested size and the capacity of the storage of a class, in bytes.
#[derive(Debug, Default, Clone, Copy)]
struct StorageResource {
    requested: i64,
    capacity: i64,
}

/// Returns the score of a node with these volumes for the pod: the mean over their classes.
///
/// Provisioned volumes count only if there are no existing volumes and the capacity is known. All
/// volumes of a class share this capacity.
pub(super) fn score(volumes: &PodVolumes, ratings: &Ratings) -> i64 {
    let mut classes: BTreeMap<&str, StorageResource> = BTreeMap::new();
    for binding in &volumes.static_bindings {
        let class = classes.entry(&binding.volume.class).or_default();
        let requested = binding.claim.request.unwrap_or_default().to_bytes();
        class.requested = class.requested.saturating_add(requested);
        class.capacity = class.capacity.saturating_add(binding.volume.capacity.to_bytes());
    }
    if classes.is_empty() {
        for provision in &volumes.dynamic_provisions {
            let Some(capacity) = provision.capacity else { continue };
            let class = classes.entry(&provision.claim.class).or_default();
            let requested = provision.claim.request.unwrap_or_default().to_bytes();
            class.requested = class.requested.saturating_add(requested);
            class.capacity = capacity.to_bytes();
        }
    }
    let Ok(count @ 1..) = i64::try_from(classes.len()) else { return 0 };
    let sum = classes.values().map(|class| ratings.get(class.utilization())).sum();
    rounded(sum, count)
}

impl StorageResource {
    /// Returns the utilization in percent, at most 100.
    fn utilization(self) -> i64 {
        match (i128::from(self.requested), i128::from(self.capacity)) {
            (_, 0) => 100,
            (requested, capacity) if requested > capacity => 100,
            (requested, capacity) => i64::try_from(requested * 100 / capacity).unwrap_or(100),
        }
    }
}
