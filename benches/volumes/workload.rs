//! Clusters with persistent volumes, and pods that claim them.

use std::sync::Arc;

use engine::{Change, Engine, EngineConfig};
use framework::{EventResource, Pod, PodSpec, PodVolume, PodVolumeSource};
use serde_json::{Value, json};

use crate::object::object;
use crate::storage::{CLASS, DRIVER, NAMESPACE, claim, csi, csi_node, volume};
use crate::{support, templates};

/// The claims of the pods to be scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claims {
    /// Bound to volumes that are usable in one zone each.
    Bound,
    /// Waiting for a pod, with existing volumes that are usable in one zone each.
    Static,
    /// Waiting for a pod; volumes are provisioned in its rack, if there is capacity.
    Provisioned,
    /// Waiting for a pod, with existing volumes on its node.
    Local,
}

/// The shape of pods and cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    claims: Option<Claims>,
    /// Number of claims per pod.
    per_pod: usize,
    access_mode: &'static str,
    /// Whether nodes are near their limits: only every eleventh node can attach another volume.
    near_limits: bool,
}

const BOUND: Shape = Shape {
    name: "bound",
    claims: Some(Claims::Bound),
    per_pod: 1,
    access_mode: "ReadWriteOnce",
    near_limits: false,
};

impl Shape {
    /// Pods without volumes, and no storage objects.
    pub(crate) const NOTHING: Self = Self { name: "nothing", claims: None, per_pod: 0, ..BOUND };

    pub(crate) const ALL: [Self; 12] = [
        Self { name: "no-volumes", per_pod: 0, ..BOUND },
        BOUND,
        Self { name: "bound-5", per_pod: MOST_PER_POD, ..BOUND },
        Self { name: "static", claims: Some(Claims::Static), ..BOUND },
        Self { name: "static-5", claims: Some(Claims::Static), per_pod: MOST_PER_POD, ..BOUND },
        Self { name: "provisioned", claims: Some(Claims::Provisioned), ..BOUND },
        Self {
            name: "provisioned-5",
            claims: Some(Claims::Provisioned),
            per_pod: MOST_PER_POD,
            ..BOUND
        },
        Self { name: "local", claims: Some(Claims::Local), ..BOUND },
        Self { name: "local-3", claims: Some(Claims::Local), per_pod: 3, ..BOUND },
        Self { name: "one-pod", access_mode: "ReadWriteOncePod", ..BOUND },
        Self { name: "near-limits", near_limits: true, ..BOUND },
        Self { name: "near-limits-5", near_limits: true, per_pod: MOST_PER_POD, ..BOUND },
    ];
}

/// Number of volumes of the shape.
const VOLUMES: usize = 20_000;
/// Number of volumes of placed pods on each node near its limit.
const ATTACHED: usize = 20;
/// Number of waiting claims; the pods use them in turn.
const WAITING: usize = 1_000;
/// Number of claims of a pod with several claims.
const MOST_PER_POD: usize = 5;

/// A cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) shape: Shape,
    pub(crate) nodes: usize,
}

impl Workload {
    /// Creates an engine with the cluster.
    pub(crate) fn engine(&self, config: EngineConfig) -> Engine {
        let (mut engine, _) = templates::engine(config, self.nodes);
        if let Some(claims) = self.shape.claims {
            let objects = claims.objects(self.nodes, self.shape.access_mode);
            objects.for_each(|object| support::apply(&mut engine, object));
            (0..self.nodes).for_each(|node| self.equip(node, &mut engine));
        }
        engine
    }

    /// Adds the driver to a node, and, if nodes are near their limits, pods with volumes.
    fn equip(&self, node: usize, engine: &mut Engine) {
        let attached = if self.shape.near_limits { ATTACHED } else { 0 };
        let room =
            if self.shape.near_limits && !node.is_multiple_of(11) { 0 } else { self.shape.per_pod };
        support::apply(engine, csi_node(node, attached + room));
        for slot in 0..attached {
            let number = node * attached + slot;
            let name = format!("attached-{number}");
            let volume = volume(&name, json!({ "csi": csi(&name) }));
            let claim = claim(&name, json!({ "volumeName": name }));
            [volume, claim].into_iter().for_each(|object| support::apply(engine, object));
            let pod = with_claims(templates::pod(small(number)), "placed", [name]);
            let pod = Pod { node_name: Some(support::node_name(node).into()), ..pod };
            support::apply(engine, Change::Pod(Box::new(pod)));
        }
    }

    /// Returns a pending pod.
    pub(crate) fn pod(&self, number: usize) -> Pod {
        let places = number * self.shape.per_pod..(number + 1) * self.shape.per_pod;
        let claims = places.map(|place| claim_name(place % WAITING));
        with_claims(templates::pod(number), "new", claims)
    }
}

impl Claims {
    /// Adds the class, its volumes, and the claims of the pods to be scheduled.
    fn objects(self, nodes: usize, access_mode: &'static str) -> impl Iterator<Item = Change> {
        let volumes = (0..VOLUMES).map(move |number| self.volume(number, nodes));
        let claims = (0..WAITING).map(move |number| self.claim(number, access_mode));
        self.class(nodes).into_iter().chain(volumes).chain(claims)
    }

    fn class(self, nodes: usize) -> Vec<Change> {
        let provisioned = self == Self::Provisioned;
        let provisioner = if provisioned { DRIVER } else { "kubernetes.io/no-provisioner" };
        let class =
            json!({ "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer" });
        let mut objects = vec![object(EventResource::StorageClass, "", CLASS, class)];
        if provisioned {
            let driver = json!({ "spec": { "storageCapacity": true } });
            objects.push(object(EventResource::CsiDriver, "", DRIVER, driver));
            objects.extend((0..nodes.div_ceil(support::NODES_PER_RACK)).map(capacity));
        }
        objects
    }

    fn volume(self, number: usize, nodes: usize) -> Change {
        let name = format!("volume-{number}");
        // The claims of one pod are in one zone.
        let zone = || only_at("topology.kubernetes.io/zone", &support::zone(number / MOST_PER_POD));
        let spec = match self {
            Self::Bound | Self::Provisioned => json!({
                "csi": csi(&name),
                "nodeAffinity": zone(),
                "claimRef": { "namespace": NAMESPACE, "name": claim_name(number) },
            }),
            Self::Static => json!({ "csi": csi(&name), "nodeAffinity": zone() }),
            Self::Local => {
                let node = support::node_name(number % nodes);
                let hostname = only_at("kubernetes.io/hostname", &node);
                json!({ "local": { "path": "/disk" }, "nodeAffinity": hostname })
            }
        };
        volume(&name, spec)
    }

    fn claim(self, number: usize, access_mode: &str) -> Change {
        let size = format!("{}Gi", 1 + number % 20);
        let mut spec = json!({
            "storageClassName": CLASS,
            "accessModes": [access_mode],
            "resources": { "requests": { "storage": size } },
        });
        if self == Self::Bound {
            spec["volumeName"] = json!(format!("volume-{number}"));
        }
        claim(&claim_name(number), spec)
    }
}

/// Returns the number of a pod of the last template, which requests least.
const fn small(number: usize) -> usize {
    number * 8 + 7
}

fn claim_name(number: usize) -> String {
    format!("claim-{number}")
}

fn with_claims(pod: Pod, prefix: &str, claims: impl IntoIterator<Item = String>) -> Pod {
    let volumes = claims.into_iter().map(|claim| PodVolume {
        name: claim.as_str().into(),
        source: PodVolumeSource::Claim(claim.into()),
    });
    let mut key = pod.key.clone();
    (key.namespace, key.name) = (NAMESPACE.into(), format!("{prefix}-{}", key.name).into());
    let spec = PodSpec { volumes: volumes.collect(), ..PodSpec::clone(&pod.spec) };
    let uid = format!("{prefix}-{}", pod.uid).as_str().into();
    Pod { key, uid, spec: Arc::new(spec), ..pod }
}

/// Returns the affinity of a volume that is usable where the label `key` has this value.
fn only_at(key: &str, value: &str) -> Value {
    let expression = json!({ "key": key, "operator": "In", "values": [value] });
    json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [expression] }] } })
}

/// Returns the capacity of a rack: every third one is almost full.
fn capacity(rack: usize) -> Change {
    let room = if rack.is_multiple_of(3) { "1Gi" } else { "1Ti" };
    let topology = json!({ "matchLabels": { "example.com/rack": format!("rack-{rack}") } });
    let capacity = json!({ "storageClassName": CLASS, "capacity": room, "nodeTopology": topology });
    object(EventResource::CsiStorageCapacity, NAMESPACE, &format!("rack-{rack}"), capacity)
}
