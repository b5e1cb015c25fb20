//! Random volumes of pods, and the storage objects they refer to.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::storage::BIND_COMPLETED;
use framework::{Cluster, EventResource, api};
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::node_name;
use testkit::SetJson;

/// CSI drivers. The first one replaces an in-tree plugin.
pub(crate) const DRIVERS: [&str; 3] = ["ebs.csi.aws.com", "one.example.com", "two.example.com"];
const CLAIMS: [&str; 6] = ["c0", "c1", "c2", "c3", "pod-v0", "pod-v1"];
const VOLUMES: [&str; 4] = ["pv0", "pv1", "pv2", "pv3"];
const CLASSES: [&str; 5] = ["in-tree", "one", "two", "static", "modeless"];
/// Topology labels of volumes and nodes.
pub(super) const ZONE_LABELS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// Storage objects by name. Claims are in namespace `default`.
#[derive(Debug, Clone, Default)]
pub(crate) struct StorageObjects {
    pub(crate) claims: BTreeMap<String, api::PersistentVolumeClaim>,
    pub(crate) volumes: BTreeMap<String, api::PersistentVolume>,
    pub(crate) classes: BTreeMap<String, api::StorageClass>,
    pub(crate) csi_nodes: BTreeMap<String, api::CsiNode>,
    pub(crate) attachments: BTreeMap<String, api::VolumeAttachment>,
}

impl StorageObjects {
    /// Adds the objects to a cluster.
    pub(crate) fn put_into(&self, cluster: &mut Cluster) {
        self.additions().iter().for_each(|change| change.make_in(cluster));
    }

    /// Applies a change to these objects and to a cluster.
    pub(crate) fn change(&mut self, change: &StorageChange, cluster: &mut Cluster) {
        let StorageChange { kind, name, object } = change;
        change.make_in(cluster);
        match kind {
            EventResource::PersistentVolumeClaim => keep(&mut self.claims, name, object),
            EventResource::PersistentVolume => keep(&mut self.volumes, name, object),
            EventResource::StorageClass => keep(&mut self.classes, name, object),
            EventResource::CsiNode => keep(&mut self.csi_nodes, name, object),
            _ => keep(&mut self.attachments, name, object),
        }
    }

    /// Returns the changes that create these objects.
    fn additions(&self) -> Vec<StorageChange> {
        [
            additions(EventResource::PersistentVolumeClaim, &self.claims),
            additions(EventResource::PersistentVolume, &self.volumes),
            additions(EventResource::StorageClass, &self.classes),
            additions(EventResource::CsiNode, &self.csi_nodes),
            additions(EventResource::VolumeAttachment, &self.attachments),
        ]
        .concat()
    }
}

fn additions<T: Serialize>(
    kind: EventResource,
    objects: &BTreeMap<String, T>,
) -> Vec<StorageChange> {
    let change = |(name, object): (&String, &T)| {
        let mut object = serde_json::to_value(object).expect("objects become JSON");
        object["metadata"]["name"] = json!(name);
        StorageChange { kind: kind.clone(), name: name.clone(), object: Some(object) }
    };
    objects.iter().map(change).collect()
}

fn keep<T: DeserializeOwned>(
    objects: &mut BTreeMap<String, T>,
    name: &str,
    object: &Option<Value>,
) {
    objects.remove(name);
    let object = object.as_ref().map(|object| T::deserialize(object).expect("an object"));
    objects.extend(object.map(|object| (name.to_owned(), object)));
}

/// A new version of a storage object; `None` deletes it.
#[derive(Debug, Clone)]
pub(crate) struct StorageChange {
    kind: EventResource,
    name: String,
    object: Option<Value>,
}

impl StorageChange {
    fn make_in(&self, cluster: &mut Cluster) {
        let namespace = match self.kind {
            EventResource::PersistentVolumeClaim => "default",
            _ => "",
        };
        let object = self.object.clone().map(Arc::new);
        cluster.set_json(&self.kind, namespace, &self.name, object);
    }
}

/// Generates changes to the objects that [`pod_volumes`] and up to `nodes` nodes refer to: objects
/// are added, replaced and deleted.
pub(crate) fn storage_changes(nodes: usize) -> impl Strategy<Value = Vec<StorageChange>> {
    let removed = prop::collection::vec(any::<Index>(), 0..8);
    (storage_objects(nodes), storage_objects(nodes), removed).prop_map(|(old, new, removed)| {
        let additions = [old.additions(), new.additions()].concat();
        let removal = |place: &Index| {
            let addition = &additions[place.index(additions.len())];
            StorageChange { object: None, ..addition.clone() }
        };
        let places = removed.iter().filter(|_| !additions.is_empty());
        let removals = places.map(removal).collect::<Vec<_>>();
        [additions, removals].concat()
    })
}

/// Generates the volumes of a pod. Some of them are invalid.
pub(crate) fn pod_volumes() -> impl Strategy<Value = Vec<api::Volume>> {
    let source = || prop_oneof![3 => claim_source(), 3 => disk_source(), 1 => other_source()];
    prop_oneof![1 => Just(Vec::new()), 2 => prop::collection::vec(source(), 1..4)].prop_map(
        |sources| {
            let named = |(number, mut source): (usize, Value)| {
                source["name"] = json!(format!("v{number}"));
                serde_json::from_value(source).unwrap()
            };
            sources.into_iter().enumerate().map(named).collect()
        },
    )
}

fn claim_source() -> impl Strategy<Value = Value> {
    let claim = select(vec!["c0", "c0", "c1", "c1", "c2", "c2", "c3", "c3", "missing", ""]);
    claim.prop_map(|claim| json!({ "persistentVolumeClaim": { "claimName": claim } }))
}

fn disk_source() -> impl Strategy<Value = Value> {
    let kind = select(vec!["gce", "aws", "cinder", "iscsi", "rbd", "rbd"]);
    let monitors = subsequence(vec!["m1", "m2", "m3"], 0..3);
    (kind, select(vec!["a", "b"]), any::<bool>(), monitors, select(vec!["p", "q"])).prop_map(
        |(kind, name, read_only, monitors, pool)| match kind {
            "gce" => json!({ "gcePersistentDisk": { "pdName": name, "readOnly": read_only } }),
            "aws" => json!({ "awsElasticBlockStore": { "volumeID": name } }),
            "cinder" => json!({ "cinder": { "volumeID": name } }),
            "iscsi" => json!({ "iscsi": { "iqn": name, "readOnly": read_only } }),
            _ => json!({ "rbd": {
                "monitors": monitors, "image": name, "pool": pool, "readOnly": read_only,
            } }),
        },
    )
}

fn other_source() -> impl Strategy<Value = Value> {
    select(vec![
        json!({ "ephemeral": {} }),
        json!({ "csi": { "driver": DRIVERS[1] } }),
        json!({ "emptyDir": {} }),
        json!({ "awsElasticBlockStore": { "volumeID": "aws://nowhere" } }),
    ])
}

/// Generates the objects that [`pod_volumes`] and up to `nodes` nodes refer to. Some are missing.
pub(crate) fn storage_objects(nodes: usize) -> impl Strategy<Value = StorageObjects> {
    let claims = some_of(&CLAIMS, claim());
    let volumes = some_of(&VOLUMES, volume());
    let csi_nodes =
        prop::collection::btree_map((0..nodes).prop_map(node_name), csi_node(), 0..nodes);
    let attachments = prop::collection::vec(attachment(nodes), 0..8);
    let classes = subsequence(CLASSES.to_vec(), 3..=CLASSES.len());
    (claims, volumes, classes, csi_nodes, attachments).prop_map(
        |(claims, volumes, classes, csi_nodes, attachments)| StorageObjects {
            claims,
            volumes,
            classes: classes.into_iter().map(|name| (name.to_owned(), class(name))).collect(),
            csi_nodes,
            attachments: (0..).map(|n: usize| format!("a{n}")).zip(attachments).collect(),
        },
    )
}

fn some_of<T: std::fmt::Debug>(
    names: &'static [&'static str],
    object: impl Strategy<Value = T>,
) -> impl Strategy<Value = BTreeMap<String, T>> {
    let some = prop::collection::vec(prop::option::weighted(0.9, object), names.len());
    some.prop_map(|objects| {
        let named = names.iter().zip(objects);
        named.filter_map(|(name, object)| Some(((*name).to_owned(), object?))).collect()
    })
}

fn object<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn claim() -> impl Strategy<Value = api::PersistentVolumeClaim> {
    let volume = select(vec!["", "pv0", "pv1", "pv2", "pv3", "pv-gone"]);
    let class = select(vec!["", "in-tree", "one", "two", "static", "modeless", "gone"]);
    let mode = select(vec!["ReadWriteOnce", "ReadWriteOncePod"]);
    (volume, class, mode, any::<bool>()).prop_map(|(volume, class, mode, owned)| {
        let owner = json!([{ "uid": "uid-pod", "controller": true }]);
        object(json!({
            "metadata": {
                "namespace": "default",
                "annotations": { BIND_COMPLETED: "yes" },
                "ownerReferences": if owned { owner } else { json!([]) },
            },
            "spec": { "volumeName": volume, "storageClassName": class, "accessModes": [mode] },
        }))
    })
}

fn volume() -> impl Strategy<Value = api::PersistentVolume> {
    let values = select(vec!["a", "b", "a__b", " a __c", "a__", ""]);
    let labels = prop::collection::btree_map(select(ZONE_LABELS.to_vec()), values, 0..3);
    let handle = select(vec!["a", "b", ""]);
    let source =
        (0..=DRIVERS.len() + 1, handle).prop_map(|(kind, handle)| match DRIVERS.get(kind) {
            Some(driver) => json!({ "csi": { "driver": driver, "volumeHandle": handle } }),
            None if kind == DRIVERS.len() => {
                json!({ "awsElasticBlockStore": { "volumeID": handle } })
            }
            None => json!({ "nfs": {} }),
        });
    (labels, source).prop_map(|(labels, spec)| {
        object(json!({ "metadata": { "labels": labels }, "spec": spec }))
    })
}

fn class(name: &str) -> api::StorageClass {
    let (provisioner, mode) = match name {
        "in-tree" => ("kubernetes.io/aws-ebs", Some("WaitForFirstConsumer")),
        "one" => (DRIVERS[1], Some("WaitForFirstConsumer")),
        "two" => (DRIVERS[2], Some("Immediate")),
        "static" => ("", Some("WaitForFirstConsumer")),
        _ => (DRIVERS[2], None),
    };
    object(json!({ "provisioner": provisioner, "volumeBindingMode": mode }))
}

fn csi_node() -> impl Strategy<Value = api::CsiNode> {
    let limit = prop::option::weighted(0.8, 0..4_i32);
    prop::collection::vec(limit, DRIVERS.len()).prop_map(|limits| {
        let driver = |(name, count): (&&str, Option<i32>)| match count {
            Some(count) => json!({ "name": name, "allocatable": { "count": count } }),
            None => json!({ "name": name }),
        };
        let drivers: Vec<_> = DRIVERS.iter().zip(limits).map(driver).collect();
        object(json!({ "spec": { "drivers": drivers } }))
    })
}

fn attachment(nodes: usize) -> impl Strategy<Value = api::VolumeAttachment> {
    let driver = select(vec!["", DRIVERS[0], DRIVERS[1], DRIVERS[2]]);
    (driver, any::<Index>(), 0..nodes).prop_map(|(driver, volume, node)| {
        let source = json!({ "persistentVolumeName": VOLUMES[volume.index(VOLUMES.len())] });
        let node = node_name(node);
        object(json!({ "spec": { "attacher": driver, "nodeName": node, "source": source } }))
    })
}
