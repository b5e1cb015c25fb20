//! VolumeZone.

use framework::ActionType as A;
use framework::EventResource as R;
use serde_json::json;

use super::objects::{create, delete, label, node, taint};
use super::scenario::{Expected, Scenario, event};
use super::storage::{NOBODY, bound_claim, claim, claiming, storage_class, volume};
use Expected::{Bound, Left, Retried};

const ZONE: &str = "topology.kubernetes.io/zone";
const DATA: &str = "persistentvolumeclaims/data";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![with_a_volume_elsewhere(), whose_claim_comes_back()]
}

/// The volume of the pod is in zone `a`, the only node in zone `b`.
fn elsewhere() -> Scenario {
    let given = [
        node("n").label(ZONE, "b"),
        volume("pv", "").label(ZONE, "a"),
        bound_claim("data", "pv"),
        claim("other", ""),
    ];
    Scenario::new("VolumeZone", claiming("p", "data"), given)
}

fn with_a_volume_elsewhere() -> Scenario {
    let immediate = storage_class("now", NOBODY).fields(json!({"volumeBindingMode": "Immediate"}));
    elsewhere()
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
            event(R::PersistentVolume, A::UPDATE),
            "the volume moves",
            label("persistentvolumes/pv", ZONE, "b"),
            Bound,
        )
        .on(
            event(R::PersistentVolume, A::UPDATE),
            "the volume is labelled",
            label("persistentvolumes/pv", "k", "v"),
            Left,
        )
        .on(
            event(R::PersistentVolume, A::ADD),
            "a volume comes",
            create(volume("more", "")),
            Retried,
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
            label("persistentvolumeclaims/other", "k", "v"),
            Left,
        )
        .on(
            event(R::StorageClass, A::ADD),
            "a class comes whose claims wait for pods",
            create(storage_class("wait", NOBODY)),
            Retried,
        )
        .on(
            event(R::StorageClass, A::ADD),
            "a class comes whose claims do not wait",
            create(immediate),
            Left,
        )
        .passes_over("the volume goes", delete("persistentvolumes/pv"))
}

fn whose_claim_comes_back() -> Scenario {
    elsewhere()
        .after(delete(DATA))
        .on(
            event(R::PersistentVolumeClaim, A::ADD),
            "its claim comes back",
            create(bound_claim("data", "pv")),
            Retried,
        )
        .on(
            event(R::PersistentVolumeClaim, A::ADD),
            "another claim comes",
            create(claim("more", "")),
            Left,
        )
}

#[test]
fn volume_zone_rejects_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
