//! StorageClasses.

use std::sync::Arc;

use crate::{TopologySelector, TopologySelectorTerm, api};

/// When the claims of a class are bound.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VolumeBindingMode {
    /// Immediately.
    Immediate,
    /// Once a pod that uses the claim has a node.
    WaitForFirstConsumer,
    /// An unknown mode, as written; treated as immediate.
    Other(Arc<str>),
}

/// A StorageClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageClass {
    /// Name.
    pub name: Arc<str>,
    /// The provisioner; empty or [`NOT_SUPPORTED`](Self::NOT_SUPPORTED) for a class without one.
    pub provisioner: Arc<str>,
    /// When claims are bound; `None` if absent, which is an error.
    pub binding_mode: Option<VolumeBindingMode>,
    /// The topologies in which volumes may be provisioned.
    pub allowed_topologies: TopologySelector,
    /// The same as written: kube-scheduler compares the terms and values in their order.
    pub topology_terms: Box<[TopologySelectorTerm]>,
}

impl StorageClass {
    /// The provisioner of classes whose volumes are created by hand.
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
            topology_terms: class.allowed_topologies.as_slice().into(),
        }
    }

    /// Returns whether the binding of claims waits for a pod that uses them.
    pub fn waits_for_first_consumer(&self) -> bool {
        self.binding_mode == Some(VolumeBindingMode::WaitForFirstConsumer)
    }

    /// Returns whether the class has a provisioner.
    pub fn provisions(&self) -> bool {
        !self.provisioner.is_empty() && &*self.provisioner != Self::NOT_SUPPORTED
    }
}
