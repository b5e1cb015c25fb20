//! Rating nodes by how full the storage for a pod gets there (gate StorageCapacityScoring).

use std::collections::BTreeMap;

use super::find::PodVolumes;
use crate::shape::{Ratings, rounded};

/// What is asked of the storage of a class, and what it has, in bytes.
#[derive(Debug, Default, Clone, Copy)]
struct StorageResource {
    requested: i64,
    capacity: i64,
}

/// The score of a node on which the pod gets these volumes: the mean over their classes.
///
/// Volumes to be made count only where there are no others, and where it is known how much room
/// there is. That room is the same for all volumes of a class.
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
    /// In percent; what does not fit makes it full.
    fn utilization(self) -> i64 {
        match (i128::from(self.requested), i128::from(self.capacity)) {
            (_, 0) => 100,
            (requested, capacity) if requested > capacity => 100,
            (requested, capacity) => i64::try_from(requested * 100 / capacity).unwrap_or(100),
        }
    }
}
