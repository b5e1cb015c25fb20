//! The memory of a node, a pod and a volume: `cargo bench --bench memory`.
//!
//! Compares the resident set of this process before and after adding them to the engine; nodes and
//! pods also to the reflectors that the daemon has for them. Nodes have 8 labels and 20 images with
//! two names each; pods are of 8 templates with unique UIDs and names; volumes have claims and are
//! like those of a CSI provisioner.

mod support;
#[path = "support/templates.rs"]
mod templates;

use std::sync::Arc;

use control::reflector::{
    CallId, Input, ListWatch, NamespacedName, ObjectMeta, Options, Output, Reflector, WatchEvent,
};
use engine::{Change, Engine};
use framework::{EventResource, ObjectKey, Pod, Time};
use serde_json::{Value, json};

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES: usize = 100_000;
const PODS: usize = 1_000_000;
const VOLUMES: usize = 100_000;

fn main() {
    let config = support::config(&support::default_plugins(), &plugins::registry());
    let (mut engine, _) = templates::engine(config, 0);
    let before = resident_bytes();
    let mut nodes = Watch::new();
    for number in 0..NODES {
        let node = support::node(number);
        let meta = meta("".into(), node.name.clone(), number);
        nodes.take_in(meta, Change::Node(node), &mut engine);
    }
    let with_nodes = resident_bytes();
    let mut pods = Watch::new();
    for number in 0..PODS {
        let name = support::node_name(number % NODES);
        let pod = Pod { node_name: Some(name.into()), ..templates::pod(number) };
        let meta = meta(pod.key.namespace.clone(), pod.key.name.clone(), number);
        pods.take_in(meta, Change::Pod(Box::new(pod)), &mut engine);
    }
    let with_pods = resident_bytes();
    for number in 0..VOLUMES {
        support::apply(&mut engine, claim(number));
        support::apply(&mut engine, volume(number));
    }
    let with_volumes = resident_bytes();
    println!("{NODES} nodes: {} bytes a node", (with_nodes - before) / NODES);
    println!("{PODS} pods:  {} bytes a pod", (with_pods - with_nodes) / PODS);
    println!(
        "{VOLUMES} volumes: {} bytes a claim and volume",
        (with_volumes - with_pods) / VOLUMES
    );
}

/// The reflector of a kind, during its first list.
struct Watch {
    reflector: Reflector<Change>,
    call: CallId,
}

impl Watch {
    fn new() -> Self {
        let list_watch = ListWatch { path: "/api".to_owned(), field_selector: None };
        let mut reflector = Reflector::new(list_watch, Options::default(), 1);
        reflector.start(Time::ZERO);
        let call = reflector.take_outputs().find_map(|output| match output {
            Output::Open(call) => Some(call.id),
            _ => None,
        });
        let call = call.expect("a reflector starts with a call");
        reflector.step(Input::Opened(call), Time::ZERO);
        Self { reflector, call }
    }

    fn take_in(&mut self, meta: ObjectMeta, change: Change, engine: &mut Engine) {
        let event = WatchEvent::Updated(meta, change);
        self.reflector.step(Input::Event(self.call, event), Time::ZERO);
        for output in self.reflector.take_outputs() {
            if let Output::Updated(_, change) = output {
                support::apply(engine, change);
            }
        }
    }
}

fn meta(namespace: Arc<str>, name: Arc<str>, number: usize) -> ObjectMeta {
    ObjectMeta {
        key: NamespacedName { namespace, name },
        uid: uid(number).as_str().into(),
        resource_version: (100_000_000 + number).to_string().into(),
    }
}

fn uid(number: usize) -> String {
    format!("9b1deb4d-3b7d-4bad-9bdd-{number:012}")
}

fn claim(number: usize) -> Change {
    let (name, volume) = (format!("data-db-{number}"), format!("pvc-{}", uid(number)));
    let provisioner = "ebs.csi.aws.com";
    let object = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name, "namespace": "shop", "uid": uid(number),
            "resourceVersion": "182736451", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app.kubernetes.io/name": "db", "app.kubernetes.io/instance": "orders"},
            "annotations": {
                "pv.kubernetes.io/bind-completed": "yes",
                "pv.kubernetes.io/bound-by-controller": "yes",
                "volume.beta.kubernetes.io/storage-provisioner": provisioner,
                "volume.kubernetes.io/selected-node": support::node_name(number % NODES),
                "volume.kubernetes.io/storage-provisioner": provisioner,
            },
            "finalizers": ["kubernetes.io/pvc-protection"],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}},
            "storageClassName": "gp3", "volumeMode": "Filesystem", "volumeName": volume,
        },
        "status": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "20Gi"}, "phase": "Bound",
        },
    });
    change(EventResource::PersistentVolumeClaim, "shop", &name, object)
}

fn volume(number: usize) -> Change {
    let name = format!("pvc-{}", uid(number));
    let provisioner = "ebs.csi.aws.com";
    let zone = json!({
        "key": "topology.kubernetes.io/zone", "operator": "In",
        "values": [format!("us-east-1{}", ["a", "b", "c"][number % 3])],
    });
    let object = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {
            "name": name, "uid": uid(number), "resourceVersion": "182736449",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {
                "pv.kubernetes.io/provisioned-by": provisioner,
                "volume.kubernetes.io/provisioner-deletion-secret-name": "",
                "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
            },
            "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer",
                "kubernetes.io/pv-protection", "external-attacher/ebs-csi-aws-com"],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "20Gi"},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "shop",
                "name": format!("data-db-{number}"), "uid": uid(number),
                "resourceVersion": "182736440",
            },
            "csi": {
                "driver": provisioner, "fsType": "ext4",
                "volumeHandle": format!("vol-{number:017x}"),
                "volumeAttributes": {
                    "storage.kubernetes.io/csiProvisionerIdentity": "1700000000000-1234-ebs",
                },
            },
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]},
            },
            "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "gp3",
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Bound", "lastPhaseTransitionTime": "2026-01-01T00:00:01Z"},
    });
    change(EventResource::PersistentVolume, "", &name, object)
}

fn change(kind: EventResource, namespace: &str, name: &str, object: Value) -> Change {
    let key = ObjectKey::namespaced(kind, namespace.into(), name.into());
    Change::decode(key, Some(object)).expect("the object decodes")
}

/// Returns the resident set as reported by Linux.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS is listed");
    let kib: usize = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    kib * 1024
}
