//! PersistentVolumeClaims.

use std::sync::Arc;

use super::{BIND_COMPLETED, SELECTED_NODE, StorageSize, class_name, named};
use crate::{LabelSelector, Pod, SelectorError, Uid, api};

/// How a volume can be mounted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the modes of these names")]
pub enum AccessMode {
    ReadWriteOnce,
    ReadOnlyMany,
    ReadWriteMany,
    ReadWriteOncePod,
    /// An unknown mode, as written.
    Other(Arc<str>),
}

impl From<&str> for AccessMode {
    fn from(text: &str) -> Self {
        match text {
            "ReadWriteOnce" => Self::ReadWriteOnce,
            "ReadOnlyMany" => Self::ReadOnlyMany,
            "ReadWriteMany" => Self::ReadWriteMany,
            "ReadWriteOncePod" => Self::ReadWriteOncePod,
            other => Self::Other(other.into()),
        }
    }
}

pub(super) fn access_modes(texts: &[String]) -> Box<[AccessMode]> {
    texts.iter().map(|text| text.as_str().into()).collect()
}

/// How a container sees a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum VolumeMode {
    /// A file system; also the default.
    #[default]
    Filesystem,
    /// A block device.
    Block,
    /// An unknown mode, as written.
    Other(Arc<str>),
}

impl VolumeMode {
    pub(super) fn of(text: Option<&str>) -> Self {
        match text {
            None | Some("Filesystem") => Self::Filesystem,
            Some("Block") => Self::Block,
            Some(other) => Self::Other(other.into()),
        }
    }
}

/// A PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistentVolumeClaim {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Uid,
    /// Version of the object.
    pub resource_version: Arc<str>,
    /// UID of the controller, which owns the claim.
    pub controller: Option<Uid>,
    /// Whether the claim is being deleted.
    pub terminating: bool,
    /// Whether the volume it is bound to no longer exists (phase `Lost`).
    pub lost: bool,
    /// The name of the volume that the claim is bound to, or should be bound to.
    pub volume_name: Option<Arc<str>>,
    /// Whether the claim has the annotation [`BIND_COMPLETED`], with any value.
    pub bind_completed: bool,
    /// The node for which a volume should be provisioned (annotation [`SELECTED_NODE`]); may be
    /// empty.
    pub selected_node: Option<Arc<str>>,
    /// Whether the claim has any annotation.
    pub annotated: bool,
    /// The StorageClass; empty for none.
    pub class: Arc<str>,
    /// The requested access modes.
    pub access_modes: Box<[AccessMode]>,
    /// The requested size.
    pub request: Option<StorageSize>,
    /// File system or block device.
    pub volume_mode: VolumeMode,
    /// The selector on the labels of volumes; `None` if absent.
    pub selector: Option<Result<LabelSelector, SelectorError>>,
    /// The VolumeAttributesClass; empty if absent.
    pub attributes_class: Arc<str>,
    /// The error of the first field that could not be read.
    pub problem: Option<Arc<str>>,
}

impl PersistentVolumeClaim {
    /// Converts the API object.
    pub fn from_api(claim: &api::PersistentVolumeClaim) -> Self {
        let api::PersistentVolumeClaim { metadata, spec, status } = claim;
        let controller = metadata.owner_references.iter().find(|owner| owner.controller);
        let request = StorageSize::of_list(&spec.resources.requests)
            .map_err(|error| format!("spec.resources.requests.storage: {error}"));
        let selector = spec.selector.as_ref();
        let attributes_class = spec.volume_attributes_class_name.as_deref();
        Self {
            namespace: metadata.namespace.as_str().into(),
            name: metadata.name.as_str().into(),
            uid: metadata.uid.as_str().into(),
            resource_version: metadata.resource_version.as_str().into(),
            controller: controller.map(|owner| owner.uid.as_str().into()),
            terminating: metadata.deletion_timestamp.is_some(),
            lost: status.phase == "Lost",
            volume_name: named(&spec.volume_name),
            bind_completed: metadata.annotations.contains_key(BIND_COMPLETED),
            selected_node: metadata.annotations.get(SELECTED_NODE).map(|node| node.as_str().into()),
            annotated: !metadata.annotations.is_empty(),
            class: class_name(&metadata.annotations, spec.storage_class_name.as_deref()),
            access_modes: access_modes(&spec.access_modes),
            request: request.clone().unwrap_or_default(),
            volume_mode: VolumeMode::of(spec.volume_mode.as_deref()),
            selector: selector.map(|selector| LabelSelector::compile(Some(selector))),
            attributes_class: attributes_class.unwrap_or_default().into(),
            problem: request.err().map(Into::into),
        }
    }

    /// Returns whether the claim is bound to its volume and the binding is complete.
    pub const fn is_fully_bound(&self) -> bool {
        self.volume_name.is_some() && self.bind_completed
    }

    /// Returns whether the claim belongs to an ephemeral volume of this pod: the pod is its
    /// controller.
    pub fn is_made_for(&self, pod: &Pod) -> bool {
        self.controller.as_ref() == Some(&pod.uid)
    }

    /// Returns whether only one pod at a time may use the claim.
    pub fn is_for_one_pod(&self) -> bool {
        self.access_modes.contains(&AccessMode::ReadWriteOncePod)
    }
}
