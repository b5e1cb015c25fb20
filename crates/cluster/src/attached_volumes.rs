//! The attach limit of each CSI driver on each node, and the volumes that count against it.
//!
//! A volume counts once per node, however many pods of the node use it, and whether or not a
//! VolumeAttachment names it. The volume of an unbound claim is counted under the StorageClass of
//! the claim. The provisioner of the class is looked up on read, so a change of the class changes
//! no count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;

use super::object::Indexed;
use super::short_set::ShortSet;
use super::{Cluster, CsiVolume, NodeColumn, NodeIx, PodIx};
use api::storage::CsiNode;
use api::{EventResource, ObjectKey};

/// The number of users of a volume on a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VolumeUses {
    /// Number of pod volumes on the node that refer to the volume.
    pub by_pods: u32,
    /// Number of VolumeAttachments that name the volume.
    pub by_attachments: u32,
}

/// A user of volumes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum VolumeUser {
    /// A placed pod.
    Pod(PodIx),
    /// The VolumeAttachment of this name.
    Attachment(Arc<str>),
}

/// Whether the volumes of a user are added to the counts or removed from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CountChange {
    Add,
    Remove,
}

impl CountChange {
    const fn apply(self, count: &mut u32) {
        *count = match self {
            Self::Add => count.saturating_add(1),
            Self::Remove => count.saturating_sub(1),
        };
    }
}

/// Limits and volumes of the nodes with a CSINode. Nodes without a CSINode take no memory.
#[derive(Debug, Clone, Default)]
pub(super) struct AttachedVolumes {
    limits: BTreeMap<Arc<str>, NodeColumn<Option<i64>>>,
    migrated: BTreeMap<Arc<str>, NodeColumn<bool>>,
    of_driver: BTreeMap<Arc<str>, NodeColumn<i64>>,
    of_class: BTreeMap<Arc<str>, NodeColumn<i64>>,
    uses: HashMap<CsiVolume, NodeColumn<VolumeUses>>,
}

impl AttachedVolumes {
    fn set_csi_node(&mut self, node: NodeIx, csi_node: Option<&CsiNode>) {
        self.set_limits(node, csi_node);
        self.migrated.retain(|_, column| {
            column.change(node, |migrated| *migrated = false);
            !column.is_unused()
        });
        for plugin in csi_node.into_iter().flat_map(|node| &node.migrated_plugins) {
            let column = self.migrated.entry(plugin.clone()).or_default();
            column.change(node, |migrated| *migrated = true);
        }
    }

    fn set_limits(&mut self, node: NodeIx, csi_node: Option<&CsiNode>) {
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
    }

    /// Changes the users of a volume on a node. Counts the volume while it has a user.
    fn change(&mut self, node: NodeIx, volume: &CsiVolume, change: impl FnOnce(&mut VolumeUses)) {
        let uses = match self.uses.get_mut(volume) {
            Some(uses) => uses,
            None => self.uses.entry(volume.clone()).or_default(),
        };
        let before = uses.get(node);
        uses.change(node, change);
        let after = uses.get(node);
        if uses.is_unused() {
            self.uses.remove(volume);
        }
        let none = VolumeUses::default();
        match (before == none, after == none) {
            (true, false) => self.count(node, volume, 1),
            (false, true) => self.count(node, volume, -1),
            _ => {}
        }
    }

    fn count(&mut self, node: NodeIx, volume: &CsiVolume, sign: i64) {
        let (columns, name) = match volume {
            CsiVolume::Existing { driver, .. } => (&mut self.of_driver, driver),
            CsiVolume::Unprovisioned { class, .. } => (&mut self.of_class, class),
        };
        let column = columns.entry(name.clone()).or_default();
        column.change(node, |count| *count += sign);
        if column.is_unused() {
            columns.remove(name);
        }
    }
}

/// The number of volumes that a driver has on each node.
#[derive(Debug, Clone)]
pub struct AttachedCounts<'a>(Vec<&'a NodeColumn<i64>>);

impl AttachedCounts<'_> {
    /// Returns the number of distinct volumes on a node with a CSINode; 0 for other nodes.
    #[inline]
    pub fn get(&self, node: NodeIx) -> i64 {
        self.0.iter().map(|column| column.get(node)).sum()
    }
}

/// Attached volumes.
impl Cluster {
    /// Returns the number of volumes that this CSI driver can attach to each node, where limited.
    pub fn attach_limits(&self, driver: &str) -> Option<&NodeColumn<Option<i64>>> {
        self.attached.limits.get(driver)
    }

    /// Returns the nodes whose CSINode says that a CSI driver has replaced this in-tree plugin.
    pub fn migrated_nodes(&self, plugin: &str) -> Option<&NodeColumn<bool>> {
        self.attached.migrated.get(plugin)
    }

    /// Returns the number of volumes of this CSI driver on each node with a CSINode. Volumes of
    /// pods, volumes still to be provisioned for pods, and volumes named by VolumeAttachments
    /// count.
    pub fn attached_counts(&self, driver: &str) -> AttachedCounts<'_> {
        let existing = self.attached.of_driver.get(driver);
        let classes = self.attached.of_class.iter();
        let own = classes.filter(|(class, _)| self.driver_of_class(class) == Some(driver));
        AttachedCounts(existing.into_iter().chain(own.map(|(_, column)| column)).collect())
    }

    /// Returns the nodes with a CSINode that have this volume.
    pub fn uses_of(&self, volume: &CsiVolume) -> Option<&NodeColumn<VolumeUses>> {
        self.attached.uses.get(volume)
    }

    /// Sets the limits of a new row without pods, and adds the volumes of its VolumeAttachments.
    pub(super) fn add_attached_row(&mut self, ix: NodeIx) {
        let name = self.rows[ix.index()].name.clone();
        self.attached.set_csi_node(ix, self.storage.csi_node(&name));
        self.count_users(&self.users_on(&name), CountChange::Add);
    }

    /// Removes the limits and VolumeAttachments of a row without pods before the row is removed.
    pub(super) fn remove_attached_row(&mut self, ix: NodeIx) {
        let name = self.rows[ix.index()].name.clone();
        self.count_users(&self.users_on(&name), CountChange::Remove);
        self.attached.set_csi_node(ix, None);
    }

    /// Stores an object of storage, and recounts the volumes that depend on it.
    pub(super) fn set_storage(&mut self, object: Indexed<'_>) {
        let ObjectKey { kind, name, .. } = object.key;
        self.storage_changes += 1;
        self.count_users(&self.users_of_object(object.key), CountChange::Remove);
        self.storage.set(object, &mut self.labels);
        self.count_users(&self.users_of_object(object.key), CountChange::Add);
        if *kind == EventResource::CsiNode
            && let Some(row) = self.row_of(name)
        {
            self.attached.set_csi_node(row, self.storage.csi_node(name));
        }
    }

    /// Returns the users whose volumes may count differently once this object changes.
    fn users_of_object(&self, key: &ObjectKey) -> BTreeSet<VolumeUser> {
        let ObjectKey { kind, namespace, name } = key;
        match kind {
            EventResource::CsiNode => self.users_on(name),
            EventResource::PersistentVolumeClaim => self.users_of_claim(namespace, name).collect(),
            EventResource::PersistentVolume => self.users_of_volume(name),
            EventResource::VolumeAttachment => [VolumeUser::Attachment(name.clone())].into(),
            _ => BTreeSet::new(),
        }
    }

    fn users_on(&self, node: &str) -> BTreeSet<VolumeUser> {
        let row = self.row_of(node).map(|ix| &self.rows[ix.index()]);
        let pods = row.into_iter().flat_map(|row| &row.pods).copied().map(VolumeUser::Pod);
        let attachments = self.storage.attachments_to(node).cloned().map(VolumeUser::Attachment);
        pods.chain(attachments).collect()
    }

    fn users_of_claim(&self, namespace: &str, name: &str) -> impl Iterator<Item = VolumeUser> {
        let pods = self.storage.claim_users(namespace, name).map(ShortSet::iter);
        pods.into_iter().flatten().copied().map(VolumeUser::Pod)
    }

    fn users_of_volume(&self, name: &str) -> BTreeSet<VolumeUser> {
        let claims = self.storage.claims_naming(name);
        let pods = claims.flat_map(|(namespace, name)| self.users_of_claim(namespace, name));
        let attachments = self.storage.attachments_of(name).cloned().map(VolumeUser::Attachment);
        pods.chain(attachments).collect()
    }

    /// Adds or removes the volumes of `users`, resolved against the current objects.
    fn count_users(&mut self, users: &BTreeSet<VolumeUser>, change: CountChange) {
        for user in users {
            match user {
                VolumeUser::Pod(pod) => self.count_volumes_of_pod(*pod, change),
                VolumeUser::Attachment(name) => self.count_attachment(name, change),
            }
        }
    }

    pub(super) fn count_volumes_of_pod(&mut self, ix: PodIx, change: CountChange) {
        let placed = self.pods.get(ix);
        let (pod, node) = (&placed.pod, placed.node);
        if pod.spec.volumes.is_empty() || self.csi_node(self.node_name(node)).is_none() {
            return;
        }
        let volumes: Vec<_> = self.counted_volumes(pod).collect();
        for volume in volumes {
            self.attached.change(node, &volume, |uses| change.apply(&mut uses.by_pods));
        }
    }

    fn count_attachment(&mut self, name: &str, change: CountChange) {
        let Some(attachment) = self.storage.attachment(name) else { return };
        let node = &attachment.node_name;
        let row = self.row_of(node).filter(|_| self.csi_node(node).is_some());
        if let Some((row, volume)) = row.zip(self.attached_volume(attachment)) {
            self.attached.change(row, &volume, |uses| change.apply(&mut uses.by_attachments));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{
        SetJson, StorageObject, bound_claim, claim, csi_node, node, pod, storage_class, volume,
        volume_attachment,
    };
    use api::storage::MIGRATED_PLUGINS;

    const DRIVER: &str = "disk.example.com";
    const EBS: &str = "ebs.csi.aws.com";

    fn remove(cluster: &mut Cluster, kind: EventResource, object: &StorageObject) {
        let text = |field| object.json()["metadata"][field].as_str().unwrap_or_default();
        cluster.set_json(&kind, text("namespace"), text("name"), None);
    }

    /// Returns the number of volumes of the driver on the node with this name.
    fn count(cluster: &Cluster, driver: &str, name: &str) -> i64 {
        cluster.attached_counts(driver).get(cluster.node_named(name).unwrap())
    }

    fn place(cluster: &mut Cluster, name: &str, claims: &[&str], node: &str) -> PodIx {
        let pod = claims.iter().fold(pod(name), |pod, claim| pod.claim(claim));
        cluster.place_pod(Arc::new(pod.build()), node)
    }

    fn limits(name: &str) -> StorageObject {
        csi_node(name, &[(DRIVER, Some(3)), ("other", None)])
    }

    fn disk(name: &str, handle: &str) -> StorageObject {
        volume(name, json!({ "csi": { "driver": DRIVER, "volumeHandle": handle } }))
    }

    fn unbound(name: &str) -> StorageObject {
        claim(name, json!({ "storageClassName": "fast" }))
    }

    fn with_nodes() -> Cluster {
        let mut cluster = Cluster::default();
        for name in ["n", "m"] {
            limits(name).put(&mut cluster);
            cluster.set_node(&node(name).build());
        }
        cluster
    }

    #[test]
    fn limits_do_not_depend_on_the_order_of_node_and_csi_node() {
        let mut cluster = Cluster::default();
        let limit = |cluster: &Cluster, name| {
            cluster.attach_limits(DRIVER)?.get(cluster.node_named(name).unwrap())
        };
        limits("n").put(&mut cluster);
        cluster.set_node(&node("m").build());
        cluster.set_node(&node("n").build());
        assert_eq!((limit(&cluster, "m"), limit(&cluster, "n")), (None, Some(3)));
        csi_node("n", &[(DRIVER, Some(4))]).put(&mut cluster);
        assert_eq!(limit(&cluster, "n"), Some(4));
        cluster.remove_node("n");
        cluster.set_node(&node("o").build());
        assert_eq!(limit(&cluster, "o"), None);
        cluster.set_node(&node("n").build());
        assert_eq!(limit(&cluster, "n"), Some(4));
        remove(&mut cluster, EventResource::CsiNode, &limits("n"));
        assert!(cluster.attach_limits(DRIVER).is_none());
    }

    #[test]
    fn migrated_plugins_do_not_depend_on_the_order_of_node_and_csi_node() {
        let plugin = "kubernetes.io/aws-ebs";
        let announcing = |list| csi_node("n", &[]).annotation(MIGRATED_PLUGINS, list);
        let migrated = |cluster: &Cluster, name| {
            let nodes = cluster.migrated_nodes(plugin)?;
            Some(nodes.get(cluster.node_named(name).unwrap()))
        };
        let mut cluster = Cluster::default();
        announcing("kubernetes.io/cinder,kubernetes.io/aws-ebs").put(&mut cluster);
        cluster.set_node(&node("m").build());
        cluster.set_node(&node("n").build());
        assert_eq!((migrated(&cluster, "m"), migrated(&cluster, "n")), (Some(false), Some(true)));
        announcing("kubernetes.io/cinder").put(&mut cluster);
        assert_eq!(migrated(&cluster, "n"), None);
        announcing(plugin).put(&mut cluster);
        assert_eq!(migrated(&cluster, "n"), Some(true));
        cluster.remove_node("n");
        assert_eq!(migrated(&cluster, "m"), None);
        cluster.set_node(&node("n").build());
        assert_eq!(migrated(&cluster, "n"), Some(true));
        remove(&mut cluster, EventResource::CsiNode, &announcing(plugin));
        assert_eq!(migrated(&cluster, "n"), None);
    }

    #[test]
    fn volume_counts_once_per_node_while_it_has_a_user() {
        let mut cluster = with_nodes();
        for object in [disk("pv", "a"), disk("alias", "a"), bound_claim("c", "pv")] {
            object.put(&mut cluster);
        }
        bound_claim("d", "alias").put(&mut cluster);
        let attachment = volume_attachment(DRIVER, "pv", "n");
        let pods = [("p", &["c", "d"][..], "n"), ("q", &["d"], "n"), ("r", &["c"], "m")];
        let pods = pods.map(|(name, claims, node)| place(&mut cluster, name, claims, node));
        attachment.clone().put(&mut cluster);
        assert_eq!((count(&cluster, DRIVER, "n"), count(&cluster, DRIVER, "m")), (1, 1));
        for pod in pods {
            cluster.remove_pod(pod);
        }
        assert_eq!((count(&cluster, DRIVER, "n"), count(&cluster, DRIVER, "m")), (1, 0));
        remove(&mut cluster, EventResource::VolumeAttachment, &attachment);
        assert_eq!(count(&cluster, DRIVER, "n"), 0);
        assert!(cluster.attached.uses.is_empty() && cluster.attached.of_driver.is_empty());
    }

    #[test]
    fn claim_counts_before_and_after_it_is_bound() {
        let mut cluster = with_nodes();
        place(&mut cluster, "p", &["c", "d"], "n");
        assert_eq!(count(&cluster, DRIVER, "n"), 0);
        unbound("c").put(&mut cluster);
        unbound("d").put(&mut cluster);
        storage_class("fast", DRIVER, "WaitForFirstConsumer").put(&mut cluster);
        assert_eq!(count(&cluster, DRIVER, "n"), 2);
        bound_claim("c", "pv").put(&mut cluster);
        assert_eq!(count(&cluster, DRIVER, "n"), 1, "the volume is not there yet");
        disk("pv", "a").put(&mut cluster);
        assert_eq!(count(&cluster, DRIVER, "n"), 2);
        storage_class("fast", EBS, "WaitForFirstConsumer").put(&mut cluster);
        assert_eq!((count(&cluster, DRIVER, "n"), count(&cluster, EBS, "n")), (1, 1));
        remove(&mut cluster, EventResource::PersistentVolume, &disk("pv", "a"));
        remove(&mut cluster, EventResource::PersistentVolumeClaim, &unbound("d"));
        assert_eq!((count(&cluster, DRIVER, "n"), count(&cluster, EBS, "n")), (0, 0));
    }

    #[test]
    fn claims_of_one_name_in_two_namespaces_count_separately() {
        let mut cluster = with_nodes();
        disk("pv", "a").put(&mut cluster);
        let user = pod("p").namespace("team").claim("c").build();
        cluster.place_pod(Arc::new(user), "n");
        bound_claim("c", "pv").put(&mut cluster);
        assert_eq!(count(&cluster, DRIVER, "n"), 0);
        let own = bound_claim("c", "pv").namespace("team");
        own.clone().put(&mut cluster);
        assert_eq!(count(&cluster, DRIVER, "n"), 1);
        remove(&mut cluster, EventResource::PersistentVolumeClaim, &own);
        assert_eq!(count(&cluster, DRIVER, "n"), 0);
    }

    #[test]
    fn node_without_csi_node_has_no_counts() {
        let mut cluster = Cluster::default();
        disk("pv", "a").put(&mut cluster);
        bound_claim("c", "pv").put(&mut cluster);
        volume_attachment(DRIVER, "pv", "n").put(&mut cluster);
        place(&mut cluster, "p", &["c"], "n");
        cluster.set_node(&node("n").build());
        assert!(cluster.attached.uses.is_empty());
        limits("n").put(&mut cluster);
        assert_eq!(count(&cluster, DRIVER, "n"), 1);
        remove(&mut cluster, EventResource::CsiNode, &limits("n"));
        assert!(cluster.attached.uses.is_empty());
    }

    #[test]
    fn removed_objects_leave_no_counts() {
        let mut cluster = Cluster::default();
        let seen = |cluster: &Cluster| format!("{:?} {:?}", cluster.storage, cluster.attached);
        let before = seen(&cluster);
        let reference = json!({ "namespace": "default", "name": "c" });
        let room = json!({ "storageClassName": "fast", "capacity": "1Gi" });
        let attachment = volume_attachment(DRIVER, "pv", "n");
        let elsewhere = json!({ "attacher": DRIVER, "nodeName": "m", "source": {} });
        let versions = [
            (EventResource::PersistentVolumeClaim, vec![bound_claim("c", "pv"), unbound("c")]),
            (
                EventResource::PersistentVolume,
                vec![disk("pv", "a"), disk("pv", "a").set("/spec/claimRef", reference)],
            ),
            (
                EventResource::CsiStorageCapacity,
                vec![StorageObject::new(EventResource::CsiStorageCapacity, "s", room)],
            ),
            (
                EventResource::VolumeAttachment,
                vec![attachment.clone(), attachment.set("/spec", elsewhere)],
            ),
            (EventResource::CsiNode, vec![limits("n"), csi_node("n", &[])]),
        ];
        cluster.set_node(&node("n").build());
        let pod = place(&mut cluster, "p", &["c"], "n");
        for (_, versions) in &versions {
            versions.iter().for_each(|object| object.clone().put(&mut cluster));
        }
        for (kind, versions) in versions {
            remove(&mut cluster, kind, &versions[0]);
        }
        cluster.remove_pod(pod);
        assert_eq!(seen(&cluster), before);
    }

    #[test]
    fn disk_is_indexed_while_a_pod_of_the_node_uses_it() {
        let mut cluster = Cluster::default();
        let disk = |name| json!({ "gcePersistentDisk": { "pdName": name } });
        let user = |name| Arc::new(pod(name).volume(disk("d")).build());
        let wanted = pod("w").volume(disk("d")).volume(disk("e")).build().spec.volumes.clone();
        let placed = ["p", "q"].map(|name| cluster.place_pod(user(name), "n"));
        let other = json!({ "awsElasticBlockStore": { "volumeID": "d" } });
        cluster.place_pod(Arc::new(pod("o").volume(other).build()), "n");
        for pod in placed {
            assert!(cluster.using_disk(&wanted[0]).is_some());
            assert!(cluster.using_disk(&wanted[1]).is_none());
            cluster.remove_pod(pod);
        }
        assert!(cluster.using_disk(&wanted[0]).is_none());
    }
}
