//! Storage objects as the volume plugins read them: claims, volumes, classes and what CSI drivers say.
//!
//! They are compact and are made once, when an object arrives. What of an object cannot be read is
//! left out of it: one bad object never keeps others from being read.

mod claim;
mod class;
mod csi;
pub mod csi_translation;
pub mod default_class;
#[cfg(test)]
mod tests;
mod volume;

pub use self::claim::{AccessMode, PersistentVolumeClaim, VolumeMode};
pub use self::class::{StorageClass, VolumeBindingMode};
pub use self::csi::{CsiDriver, CsiNode, CsiStorageCapacity, VolumeAttachment};
pub use self::volume::{ClaimRef, InTreePlugin, PersistentVolume, VolumeSource};

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::{QuantityText, ResourceList};
use crate::{Quantity, Uid};

/// The annotation that names the class of a claim or volume, older than the field and stronger.
pub const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// The annotation of a claim whose binding is complete.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation of a volume that was not bound by hand.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The annotation of a claim that names the node for which its volume is to be made.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The annotation of a CSINode that lists the in-tree plugins replaced by CSI drivers.
pub const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// An amount of storage, exact to the billionth of a byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageSize(i128);

impl StorageSize {
    const PER_BYTE: i128 = 1_000_000_000;

    /// So many bytes.
    pub const fn bytes(bytes: i64) -> Self {
        Self(bytes as i128 * Self::PER_BYTE)
    }

    /// Whole bytes, rounded up; the limits of `i64` stand for what lies beyond them.
    pub fn to_bytes(self) -> i64 {
        let rounding = if self.0 > 0 { Self::PER_BYTE - 1 } else { 0 };
        let bytes = self.0.saturating_add(rounding) / Self::PER_BYTE;
        i64::try_from(bytes).unwrap_or(if bytes < 0 { i64::MIN } else { i64::MAX })
    }

    fn read(text: &QuantityText) -> Result<Self, String> {
        let quantity: Quantity =
            text.0.parse().map_err(|error| format!("{:?}: {error}", text.0))?;
        Ok(Self(quantity.nanos()))
    }

    /// Reads the entry `storage` of a list.
    fn of_list(list: &ResourceList) -> Result<Option<Self>, String> {
        list.get("storage").map(Self::read).transpose()
    }
}

/// The class of a claim or volume: the annotation where there is one, even an empty one, else the
/// field. An empty name stands for no class.
fn class_name(annotations: &BTreeMap<String, String>, field: Option<&str>) -> Arc<str> {
    annotations.get(BETA_STORAGE_CLASS).map(String::as_str).or(field).unwrap_or_default().into()
}

/// `None` for an empty text.
fn named(text: &str) -> Option<Arc<str>> {
    (!text.is_empty()).then(|| text.into())
}

/// `None` for an empty UID.
fn identified(uid: &str) -> Option<Uid> {
    (!uid.is_empty()).then(|| uid.into())
}
