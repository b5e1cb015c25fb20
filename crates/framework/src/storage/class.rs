//! StorageClasses.

use std::sync::Arc;

use crate::{TopologySelector, api};

/// When claims of a class get their volumes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VolumeBindingMode {
    /// At once.
    Immediate,
    /// When a pod that uses them has a node.
    WaitForFirstConsumer,
    /// Anything else, as written; counts as at once.
    Other(Arc<str>),
}

/// A class of volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageClass {
    /// Name.
    pub name: Arc<str>,
    /// Who makes volumes; empty or [`NOT_SUPPORTED`](Self::NOT_SUPPORTED) where nobody does.
    pub provisioner: Arc<str>,
    /// When claims get their volumes; `None` where it is not said, which is an error.
    pub binding_mode: Option<VolumeBindingMode>,
    /// Where volumes may be made.
    pub allowed_topologies: TopologySelector,
}

impl StorageClass {
    /// The provisioner of classes whose volumes are made by hand.
    pub const NOT_SUPPORTED: &str = "kubernetes.io/no-provisioner";

    /// Converts the API object.
    pub fn from_api(class: &api::StorageClass) -> Self {
        let mode = class.volume_binding_mode.as_deref().map(|mode| match mode {
            "Immediate" => VolumeBindingMode::Immediate,
            "WaitForFirstConsumer" => VolumeBindingMode::WaitForFirstConsumer,
            other => VolumeBindingMode::Other(other.into()),
        });
        Self {
            name: class.metadata.name.as_str().into(),
            provisioner: class.provisioner.as_str().into(),
            binding_mode: mode,
            allowed_topologies: TopologySelector::compile(&class.allowed_topologies),
        }
    }

    /// Whether claims wait for a pod that uses them.
    pub fn waits_for_first_consumer(&self) -> bool {
        self.binding_mode == Some(VolumeBindingMode::WaitForFirstConsumer)
    }

    /// Whether somebody makes volumes of this class.
    pub fn provisions(&self) -> bool {
        !self.provisioner.is_empty() && &*self.provisioner != Self::NOT_SUPPORTED
    }
}
