//! Storage objects as the volume plugins read them: claims, volumes, classes and the objects of CSI
//! drivers.
//!
//! The types are compact and are built once, when an object arrives. A field that cannot be read is
//! left out; the other fields and objects stay usable.

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
pub use self::volume::{ClaimRef, InTreePlugin, InTreeVolume, PersistentVolume, VolumeSource};

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::{QuantityText, ResourceList};
use crate::{Quantity, Uid};

/// The annotation that names the class of a claim or volume. It is older than the field and takes
/// precedence.
pub const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// The annotation of a claim whose binding is complete.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation of a volume that a controller bound.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The annotation of a claim that names the node for which a volume should be provisioned.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The annotation of a CSINode that lists the in-tree plugins replaced by CSI drivers.
pub const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// An amount of storage, exact to a billionth of a byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageSize(i128);

impl StorageSize {
    const PER_BYTE: i128 = 1_000_000_000;

    /// Returns this number of bytes.
    pub const fn bytes(bytes: i64) -> Self {
        Self(bytes as i128 * Self::PER_BYTE)
    }

    /// Returns whole bytes, rounded up. Saturates at the limits of `i64`.
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

    /// Reads the entry `storage` of a list. An error describes a value that is not a quantity.
    fn of_list(list: &ResourceList) -> Result<Option<Self>, String> {
        list.get("storage").map(Self::read).transpose()
    }
}

/// Returns the class of a claim or volume: the annotation if present, even if empty, else the
/// field. An empty name means no class.
fn class_name(annotations: &BTreeMap<String, String>, field: Option<&str>) -> Arc<str> {
    annotations.get(BETA_STORAGE_CLASS).map(String::as_str).or(field).unwrap_or_default().into()
}

/// Returns the name, or `None` for an empty text.
fn named(text: &str) -> Option<Arc<str>> {
    (!text.is_empty()).then(|| text.into())
}

/// Returns the UID, or `None` for an empty text.
fn identified(uid: &str) -> Option<Uid> {
    (!uid.is_empty()).then(|| uid.into())
}
