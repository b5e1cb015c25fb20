//! The fields of a node that few decisions read.

use std::sync::Arc;

use super::PodIx;
use super::images::RowImages;
use super::labels::RowLabels;
use api::{Extra, Taint};

/// The fields of a node that are not columns.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    pub(super) name: Arc<str>,
    /// Shared by nodes with equal fields.
    pub(super) kind: Arc<RowKind>,
    pub(super) images: RowImages,
    pub(super) pods: Vec<PodIx>,
    pub(super) conditions: u64,
    pub(super) annotations: u64,
    pub(super) extra: Extra,
}

/// The fields that the nodes of a pool have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct RowKind {
    pub(super) labels: RowLabels,
    pub(super) taints: Box<[Taint]>,
    pub(super) declared_features: Box<[Arc<str>]>,
    /// Names of the scalar resources that the node offers, sorted.
    pub(super) scalars: Box<[Arc<str>]>,
}
