//! The claims, classes and volumes of the simulation, and the volumes of pods.
//!
//! The properties of a claim, volume or class follow from its name, so a recreated one is the same.

use std::collections::BTreeSet;

use fastrand::Rng;
use serde_json::{Value, json};

use super::NAMESPACES;
use super::chance::{once_in, one_of};
use super::nodes::{MACHINE, ZONE};

/// The driver with an attach limit.
pub(crate) const LIMITED_DRIVER: &str = "disk.example.com";
/// The class of its volumes, which is never deleted.
pub(crate) const LIMITED_CLASS: &str = "limited";
/// The driver that reports storage capacity.
pub(super) const ROOMY_DRIVER: &str = "roomy.example.com";
/// Nodes with smaller numbers have a CSINode from the start, and its limits only grow.
pub(super) const STEADY_CSI_NODES: usize = 6;
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Name, class, size and access mode.
pub(super) type Claim = (&'static str, &'static str, &'static str, &'static str);

/// Claims; the first [`WAITING`] of them wait for a pod.
pub(super) const CLAIMS: [Claim; 11] = [
    ("local", "local", "1Gi", "ReadWriteOnce"),
    ("larger", "local", "2Gi", "ReadWriteOnce"),
    ("picky", "local", "1Gi", "ReadWriteOnce"),
    (ONE_POD[0], "local", "2Gi", "ReadWriteOncePod"),
    ("limited", LIMITED_CLASS, "1Gi", "ReadWriteOnce"),
    (ONE_POD[1], LIMITED_CLASS, "1Gi", "ReadWriteOncePod"),
    ("slow", "slow", "1Gi", "ReadWriteOnce"),
    ("flaky", "flaky", "2Gi", "ReadWriteOnce"),
    ("instant", "instant", "1Gi", "ReadWriteOnce"),
    ("by-hand", "", "1Gi", "ReadOnlyMany"),
    ("dangling", "nowhere", "1Gi", "ReadWriteOnce"),
];
/// Number of claims that wait for a pod.
const WAITING: usize = 8;
/// The ReadWriteOncePod claims.
const ONE_POD: [&str; 2] = ["local-one-pod", "limited-one-pod"];
/// Name, provisioner, binding mode, seconds of provisioning, and number of initial failures.
pub(super) type Class = (&'static str, &'static str, &'static str, u32, u32);

/// Classes that are created and deleted, except the limited one.
pub(super) const CLASSES: [Class; 5] = [
    (LIMITED_CLASS, LIMITED_DRIVER, "WaitForFirstConsumer", 0, 0),
    ("local", NO_PROVISIONER, "WaitForFirstConsumer", 0, 0),
    // Slower than the timeout of the scheduler.
    ("slow", "slow.example.com", "WaitForFirstConsumer", 25, 0),
    ("flaky", ROOMY_DRIVER, "WaitForFirstConsumer", 1, 2),
    ("instant", "instant.example.com", "Immediate", 3, 0),
];
/// Number of volumes that are not provisioned.
pub(super) const VOLUMES: u32 = 8;

/// Whether only pods of one name use the claim of this name.
pub(crate) fn is_for_one_pod(claim: &str) -> bool {
    ONE_POD.contains(&claim)
}

/// Whether the attach limits of a node are always known and never shrink.
pub(crate) fn is_steady(node: &str) -> bool {
    (0..STEADY_CSI_NODES).any(|number| node == format!("n{number}"))
}

/// Returns volumes of a pod: claims, an ephemeral volume, or an inline disk.
pub(super) fn pod_volumes(rng: &mut Rng) -> Value {
    let mut names = BTreeSet::new();
    for _ in 0..one_of(rng, [1, 1, 1, 2]) {
        names.insert(any_claim(rng).0);
    }
    let mut volumes: Vec<Value> = names.into_iter().map(claim_volume).collect();
    match rng.u32(..16) {
        0 => volumes = vec![claim_volume("missing")],
        1 | 2 => {
            let (_, class, size, mode) = one_of(rng, [CLAIMS[0], CLAIMS[4], CLAIMS[7]]);
            let template = json!({"spec": claim_spec(class, size, mode)});
            volumes.push(json!({"name": "own", "ephemeral": {"volumeClaimTemplate": template}}));
        }
        3..6 => {
            let disk = json!({"pdName": "shared", "readOnly": rng.bool()});
            volumes = vec![json!({"name": "disk", "gcePersistentDisk": disk})];
        }
        _ => {}
    }
    volumes.into()
}

/// Returns a random claim, mostly one that waits for a pod.
pub(super) fn any_claim(rng: &mut Rng) -> Claim {
    CLAIMS[if once_in(rng, 6) { rng.usize(..CLAIMS.len()) } else { rng.usize(..WAITING) }]
}

fn claim_volume(name: &str) -> Value {
    json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
}

pub(super) fn claim_spec(class: &str, size: &str, mode: &str) -> Value {
    json!({"accessModes": [mode], "storageClassName": class,
        "resources": {"requests": {"storage": size}}})
}

/// Returns the volume of this number. Reserved ones fit their claim.
pub(super) fn volume(number: u32) -> Value {
    let (class, size) = match number {
        4 | 7 => ("", "2Gi"),
        5 => (LIMITED_CLASS, "8Gi"),
        2 | 3 => ("local", "4Gi"),
        1 => ("local", "2Gi"),
        _ => ("local", "1Gi"),
    };
    let name = format!("v{number}");
    let machines = |machines: &[&str]| affinity(MACHINE, machines);
    let mut spec = json!({"capacity": {"storage": size}, "storageClassName": class,
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "mountOptions": ["noatime"]});
    match number {
        2 | 5 => spec["csi"] = json!({"driver": LIMITED_DRIVER, "volumeHandle": name}),
        _ => spec["hostPath"] = json!({"path": "/data"}),
    }
    let mut labels = json!({});
    match number {
        0 => spec["nodeAffinity"] = machines(&["n0", "n1", "n2"]),
        1 => {
            spec["nodeAffinity"] = machines(&["n3", "n4", "n7"]);
            labels["ssd"] = json!("yes");
        }
        2 => {
            spec["nodeAffinity"] = affinity(ZONE, &["a"]);
            spec["accessModes"] = json!(["ReadWriteOncePod"]);
        }
        3 => {
            spec["accessModes"] = json!(["ReadWriteOnce"]);
            labels[ZONE] = json!("b__c");
        }
        5 => spec["nodeAffinity"] = machines(&["n5", "n6"]),
        6 => {
            spec["nodeAffinity"] = machines(&["n0", "n7"]);
            spec["claimRef"] = json!({"namespace": NAMESPACES[0], "name": CLAIMS[0].0});
        }
        _ => {}
    }
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "spec": spec,
        "metadata": {"name": name, "labels": labels, "annotations": {"example.com/kept": "yes"}}})
}

fn affinity(key: &str, values: &[&str]) -> Value {
    let here = json!({"key": key, "operator": "In", "values": values});
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}})
}
