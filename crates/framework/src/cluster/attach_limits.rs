//! How many volumes of each CSI driver nodes can attach, and how many they may have by now.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Cluster, NodeColumn, NodeIx};
use crate::Pod;
use crate::storage::CsiNode;

/// Kept per row, so that the nodes with too little room are found without looking at their pods.
#[derive(Debug, Clone, Default)]
pub(super) struct AttachLimits {
    limits: BTreeMap<Arc<str>, NodeColumn<Option<i64>>>,
    /// How many volumes the pods of a node have, whether drivers attach them or not.
    pod_volumes: NodeColumn<i64>,
    attachments: NodeColumn<i64>,
}

impl AttachLimits {
    /// Counts the volumes of a pod in (1) or out (-1).
    pub(super) fn count(&mut self, node: NodeIx, pod: &Pod, sign: i64) {
        let volumes = i64::try_from(pod.spec.volumes.len()).unwrap_or(i64::MAX);
        if volumes != 0 {
            self.pod_volumes.change(node, |sum| *sum += volumes * sign);
        }
    }

    /// Storage objects say this of the node.
    pub(super) fn set(&mut self, node: NodeIx, csi_node: Option<&CsiNode>, attachments: usize) {
        self.limits.retain(|_, column| {
            column.change(node, |limit| *limit = None);
            !column.is_unused()
        });
        for (driver, limit) in csi_node.into_iter().flat_map(|node| &node.drivers) {
            if limit.is_some() {
                let column = self.limits.entry(driver.clone()).or_default();
                column.change(node, |own| *own = *limit);
            }
        }
        let attachments = i64::try_from(attachments).unwrap_or(i64::MAX);
        self.attachments.change(node, |own| *own = attachments);
    }
}

/// Attached volumes.
impl Cluster {
    /// How many volumes of this CSI driver nodes can attach, where that is limited.
    pub fn attach_limits(&self, driver: &str) -> Option<&NodeColumn<Option<i64>>> {
        self.attach_limits.limits.get(driver)
    }

    /// A number of volumes that a node has at most, whatever their driver: those of its pods, and
    /// those that VolumeAttachments name.
    pub fn attached_at_most(&self, node: NodeIx) -> i64 {
        let AttachLimits { pod_volumes, attachments, .. } = &self.attach_limits;
        pod_volumes.get(node).saturating_add(attachments.get(node))
    }

    /// Takes over what storage objects say of the node of a row.
    pub(super) fn read_attach_limits(&mut self, ix: NodeIx) {
        let name = &self.rows[ix.index()].name;
        let attachments = self.storage.attachment_count(name);
        self.attach_limits.set(ix, self.storage.csi_node(name), attachments);
    }
}
