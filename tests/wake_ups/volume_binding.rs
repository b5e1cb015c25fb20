//! VolumeBinding.

use framework::ActionType as A;
use framework::EventResource as R;
use framework::storage::MIGRATED_PLUGINS;
use serde_json::{Value, json};

use super::objects::{Object, Step, create, delete, label, node, object, patch, pod, taint};
use super::scenario::{Expected, Scenario, event};
use super::storage::{
    DRIVER, NOBODY, binding_to, bound_claim, claim, claiming, csi_node, only_on, storage_class,
    volume, with_volume,
};
use Expected::{Bound, Left, Retried};

const ZONE: &str = "topology.kubernetes.io/zone";
const DATA: &str = "persistentvolumeclaims/data";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        without_a_free_volume(),
        with_a_volume_reserved_elsewhere(),
        without_the_claim_to_be_made_for_it(),
        with_an_immediate_claim(),
        without_the_class_of_its_claim(),
        outside_the_topologies_of_its_class(),
        without_room_for_its_volume(),
        with_a_migrated_volume(),
    ]
}

/// The available volume is usable in zone `a` only, and the other volume is bound.
fn without_a_free_volume() -> Scenario {
    let given = [
        node("n"),
        storage_class("local", NOBODY),
        claim("data", "local"),
        volume("far", "local").spec(only_on(ZONE, "a")),
        volume("used", "local").status(json!({"phase": "Released"})),
        claim("of-other", "local"),
        claiming("other", "of-other").on("n"),
        pod("plain").on("n"),
        csi_node("m", DRIVER, 1),
    ];
    Scenario::new("VolumeBinding", claiming("p", "data"), given)
        .on(event(R::Node, A::ADD), "a node comes", create(node("m").label(ZONE, "a")), Bound)
        .on(
            event(R::Node, A::UPDATE_NODE_LABEL),
            "the node moves",
            label("nodes/n", ZONE, "a"),
            Bound,
        )
        .on(
            event(R::Node, A::UPDATE_NODE_TAINT),
            "a node is tainted",
            taint("nodes/n", "k"),
            Retried,
        )
        .on(
            event(R::PersistentVolume, A::ADD),
            "a volume comes",
            create(volume("near", "local")),
            Bound,
        )
        .on(
            event(R::PersistentVolume, A::UPDATE),
            "a volume is free again",
            patch("persistentvolumes/used/status", json!({"status": {"phase": "Available"}})),
            Bound,
        )
        .on(
            event(R::PersistentVolumeClaim, A::UPDATE),
            "its claim changes",
            label(DATA, "k", "v"),
            Retried,
        )
        .on(
            event(R::PersistentVolumeClaim, A::UPDATE),
            "another claim changes",
            label("persistentvolumeclaims/of-other", "k", "v"),
            Left,
        )
        .on(
            event(R::AssignedPod, A::DELETE),
            "a pod with a claim that is not bound goes",
            delete("pods/other"),
            Retried,
        )
        .on(
            event(R::AssignedPod, A::DELETE),
            "a pod without claims goes",
            delete("pods/plain"),
            Left,
        )
        .on(
            event(R::CsiNode, A::ADD),
            "drivers are heard of",
            create(csi_node("n", DRIVER, 1)),
            Retried,
        )
        .on(
            event(R::CsiNode, A::DELETE),
            "a CSINode without plugins goes",
            delete("csinodes/m"),
            Left,
        )
        .on(
            event(R::PersistentVolume, A::DELETE),
            "a volume goes",
            delete("persistentvolumes/used"),
            Left,
        )
}

/// The volume that is reserved for the claim, which may use no other, is usable in zone `a` only.
fn with_a_volume_reserved_elsewhere() -> Scenario {
    let reference = json!({"claimRef": {"namespace": "default", "name": "data"}});
    let given = [
        node("n"),
        storage_class("local", NOBODY),
        claim("data", "local"),
        volume("own", "local").spec(only_on(ZONE, "a")).spec(reference),
        volume("free", "local"),
    ];
    Scenario::new("VolumeBinding", claiming("p", "data"), given).on(
        event(R::PersistentVolume, A::DELETE),
        "it goes",
        delete("persistentvolumes/own"),
        Bound,
    )
}

fn without_the_claim_to_be_made_for_it() -> Scenario {
    let template = json!({"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    let waiting = with_volume("p", json!({"ephemeral": {"volumeClaimTemplate": template}}));
    let added = event(R::PersistentVolumeClaim, A::ADD);
    Scenario::new("VolumeBinding", waiting, [node("n")])
        .on(added.clone(), "somebody makes a claim of the name", create(claim("p-v", "")), Retried)
        .on(added, "another claim comes", create(claim("p", "")), Left)
}

fn with_an_immediate_claim() -> Scenario {
    let given = [node("n"), volume("pv", ""), claim("data", "")];
    Scenario::new("VolumeBinding", claiming("p", "data"), given).on(
        event(R::PersistentVolumeClaim, A::UPDATE),
        "it is bound",
        patch(DATA, binding_to("pv")),
        Bound,
    )
}

fn without_the_class_of_its_claim() -> Scenario {
    Scenario::new("VolumeBinding", claiming("p", "data"), [node("n"), claim("data", "made")])
        .on(
            event(R::StorageClass, A::ADD),
            "it comes",
            create(storage_class("made", DRIVER)),
            Bound,
        )
        .on(
            event(R::StorageClass, A::ADD),
            "another comes",
            create(storage_class("x", DRIVER)),
            Retried,
        )
}

fn outside_the_topologies_of_its_class() -> Scenario {
    let zone = json!({"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]});
    let class = storage_class("made", DRIVER).fields(json!({"allowedTopologies": [zone]}));
    let given = [node("n"), class, claim("data", "made")];
    Scenario::new("VolumeBinding", claiming("p", "data"), given)
        .on(
            event(R::StorageClass, A::UPDATE),
            "it allows all of them",
            patch("storageclasses/made", json!({"allowedTopologies": null})),
            Bound,
        )
        .on(
            event(R::StorageClass, A::UPDATE),
            "it is labelled",
            label("storageclasses/made", "k", "v"),
            Left,
        )
}

/// A driver that reports storage capacity.
fn csi_driver(name: &str) -> Object {
    object("storage.k8s.io/v1", "CSIDriver", name).spec(json!({"storageCapacity": true}))
}

/// A storage capacity on the node.
fn capacity(name: &str, capacity: &str) -> Object {
    let topology = json!({"matchLabels": {"kubernetes.io/hostname": "n"}});
    object("storage.k8s.io/v1", "CSIStorageCapacity", name).fields(json!({
        "storageClassName": "made", "capacity": capacity, "nodeTopology": topology,
    }))
}

fn without_room_for_its_volume() -> Scenario {
    let tells_no_more = |driver| patch(driver, json!({"spec": {"storageCapacity": false}}));
    let resize = |capacity: &str| -> Step {
        patch("csistoragecapacities/room", json!({"capacity": capacity}))
    };
    let given = [
        node("n"),
        storage_class("made", DRIVER),
        claim("data", "made"),
        csi_driver(DRIVER),
        csi_driver("other"),
        capacity("room", "100Mi"),
    ];
    let more = create(capacity("more", "2Gi"));
    Scenario::new("VolumeBinding", claiming("p", "data"), given)
        .on(event(R::CsiStorageCapacity, A::ADD), "more room is told of", more, Bound)
        .on(event(R::CsiStorageCapacity, A::UPDATE), "there is more room", resize("1Gi"), Bound)
        .on(event(R::CsiStorageCapacity, A::UPDATE), "there is less room", resize("50Mi"), Left)
        .on(
            event(R::CsiDriver, A::UPDATE),
            "the driver does not tell any more",
            tells_no_more("csidrivers/csi.example.com"),
            Bound,
        )
        .on(
            event(R::CsiDriver, A::UPDATE),
            "another driver does not tell any more",
            tells_no_more("csidrivers/other"),
            Left,
        )
        .on(
            event(R::CsiDriver, A::DELETE),
            "the driver goes",
            delete("csidrivers/csi.example.com"),
            Bound,
        )
        .on(event(R::CsiDriver, A::DELETE), "another driver goes", delete("csidrivers/other"), Left)
        .passes_over("the report goes", delete("csistoragecapacities/room"))
}

/// On the node, a CSI driver has replaced the plugin of the volume, and has not set its label.
fn with_a_migrated_volume() -> Scenario {
    let migrated = |plugins: Value| json!({"annotations": {MIGRATED_PLUGINS: plugins}});
    let csi_node = csi_node("n", DRIVER, 1).metadata(migrated(json!("kubernetes.io/aws-ebs")));
    let disk = json!({"csi": null, "awsElasticBlockStore": {"volumeID": "vol-1"}});
    let given = [
        node("n").label(ZONE, "a"),
        csi_node,
        volume("pv", "").spec(disk).spec(only_on(ZONE, "a")),
        bound_claim("data", "pv"),
    ];
    let change = |metadata: Value| patch("csinodes/n", json!({ "metadata": metadata }));
    Scenario::new("VolumeBinding", claiming("p", "data"), given)
        .on(
            event(R::CsiNode, A::UPDATE),
            "the plugin is back",
            change(migrated(json!(null))),
            Bound,
        )
        .on(event(R::CsiNode, A::UPDATE), "it is labelled", label("csinodes/n", "k", "v"), Left)
        .on(
            event(R::CsiNode, A::DELETE),
            "nothing is known of drivers",
            delete("csinodes/n"),
            Bound,
        )
}

#[test]
fn volume_binding_rejects_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
