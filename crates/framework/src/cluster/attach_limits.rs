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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::EventResource;
    use crate::testing::{StorageObject, csi_node, node, pod, volume_attachment};

    const DRIVER: &str = "disk.example.com";

    /// The limit of [`DRIVER`] on the node of this name, and the volumes it has at most.
    fn seen(cluster: &Cluster, name: &str) -> (Option<i64>, i64) {
        let node = cluster.node_named(name).unwrap();
        let limit = cluster.attach_limits(DRIVER).and_then(|limits| limits.get(node));
        (limit, cluster.attached_at_most(node))
    }

    fn remove(cluster: &mut Cluster, kind: EventResource, object: &StorageObject) {
        let name = object.json()["metadata"]["name"].as_str().unwrap();
        cluster.set_object(&kind, "", name, None);
    }

    #[test]
    fn limits_and_attachments_are_those_of_the_node_whichever_comes_first() {
        let mut cluster = Cluster::default();
        let limits = |limit| csi_node("n", &[(DRIVER, limit), ("other", None)]);
        let attachment =
            |node| volume_attachment(DRIVER, "pv", node).set("/metadata/name", json!("a"));
        limits(Some(3)).put(&mut cluster);
        attachment("n").put(&mut cluster);
        cluster.set_node(&node("m").build());
        cluster.set_node(&node("n").build());
        assert_eq!((seen(&cluster, "m"), seen(&cluster, "n")), ((None, 0), (Some(3), 1)));
        limits(Some(4)).put(&mut cluster);
        attachment("m").put(&mut cluster);
        assert_eq!((seen(&cluster, "m"), seen(&cluster, "n")), ((None, 1), (Some(4), 0)));
        cluster.remove_node("n");
        cluster.set_node(&node("o").build());
        assert_eq!(seen(&cluster, "o"), (None, 0));
        cluster.set_node(&node("n").build());
        assert_eq!(seen(&cluster, "n"), (Some(4), 0));
        remove(&mut cluster, EventResource::CsiNode, &limits(None));
        remove(&mut cluster, EventResource::VolumeAttachment, &attachment("m"));
        assert_eq!((seen(&cluster, "m"), seen(&cluster, "n")), ((None, 0), (None, 0)));
        assert!(cluster.attach_limits(DRIVER).is_none());
    }

    #[test]
    fn volumes_of_pods_come_and_go_with_them() {
        let mut cluster = Cluster::default();
        let user = pod("p").claim("a").claim("b").volume(json!({ "emptyDir": {} })).build();
        let placed = cluster.place_pod(Arc::new(user), "n");
        cluster.set_node(&node("n").build());
        assert_eq!(seen(&cluster, "n"), (None, 2));
        cluster.remove_pod(placed);
        assert_eq!(seen(&cluster, "n"), (None, 0));
    }

    #[test]
    fn a_disk_is_on_record_while_some_pod_of_the_node_uses_it() {
        let mut cluster = Cluster::default();
        let disk = |name| json!({ "gcePersistentDisk": { "pdName": name } });
        let user = |name| Arc::new(pod(name).volume(disk("d")).build());
        let wanted = pod("w").volume(disk("d")).volume(disk("e")).build().spec.volumes.clone();
        let placed = ["p", "q"].map(|name| cluster.place_pod(user(name), "n"));
        for pod in placed {
            assert!(cluster.using_disk(&wanted[0]).is_some());
            assert!(cluster.using_disk(&wanted[1]).is_none());
            cluster.remove_pod(pod);
        }
        assert!(cluster.using_disk(&wanted[0]).is_none());
    }
}
