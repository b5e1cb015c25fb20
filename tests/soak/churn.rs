//! Objects that come and go. No name and no label is used twice.

use sandbox::resources::{
    NAMESPACES, NODES, PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, PODDISRUPTIONBUDGETS, PODS,
    PRIORITYCLASSES, REPLICASETS, Resource, SERVICES, STORAGECLASSES,
};
use serde_json::{Value, json};

use super::world::{LOST, REFUSED, World};

/// Nodes of a batch.
const NODES_PER_BATCH: u32 = 3;
/// Number of batches that exist at the same time.
const LIVING: usize = 2;
const HOSTNAME: &str = "kubernetes.io/hostname";

/// A source of objects.
#[derive(Default)]
pub(crate) struct Churn {
    batches: u32,
    pods: usize,
    /// The objects of the living batches, oldest first.
    living: Vec<Vec<(&'static Resource, String, String)>>,
}

impl Churn {
    /// Number of pods so far, without those of ReplicaSets.
    pub(crate) const fn pods(&self) -> usize {
        self.pods
    }

    /// Creates a batch and deletes the oldest one.
    pub(crate) fn batch(&mut self, world: &mut World) {
        let n = self.batches;
        self.batches += 1;
        self.living.push(Vec::new());
        for node in 0..NODES_PER_BATCH {
            let name = format!("node-{n}-{node}");
            let labels = json!({ (HOSTNAME): name, (format!("example.com/key-{n}")): name });
            let zone = json!({ "topology.kubernetes.io/zone": format!("zone-{n}") });
            let labels = merged(labels, zone);
            let room = json!({ "cpu": "16", "memory": "32Gi", "pods": "110",
                (format!("example.com/device-{n}")): "4" });
            let image = json!({ "names": [format!("image-{n}")], "sizeBytes": 1_000_000_000 });
            let status = json!({ "allocatable": room, "capacity": room, "images": [image] });
            let meta = json!({ "name": name, "labels": labels });
            self.create(world, NODES, json!({ "metadata": meta, "status": status }));
        }
        let namespace = format!("ns-{n}");
        let meta = json!({ "name": namespace, "labels": { "team": format!("team-{n}") } });
        self.create(world, NAMESPACES, json!({ "metadata": meta }));
        self.workload(world, &namespace);
        self.volumes(world, &namespace);
        self.pods_of(world, &namespace, n);
        if self.living.len() > LIVING {
            self.delete_oldest(world);
        }
    }

    /// Deletes all batches.
    pub(crate) fn end(&mut self, world: &mut World) {
        while !self.living.is_empty() {
            self.delete_oldest(world);
        }
    }

    /// Creates a ReplicaSet with its Service and its budget.
    fn workload(&mut self, world: &mut World, namespace: &str) {
        let name = format!("app-of-{namespace}");
        let labels = json!({ "app": name });
        let selector = json!({ "matchLabels": labels });
        let meta = json!({ "name": name, "namespace": namespace });
        let template = json!({ "metadata": { "labels": labels }, "spec": spec("100m") });
        let spec = json!({ "replicas": 3, "selector": selector, "template": template });
        self.create(world, REPLICASETS, json!({ "metadata": meta, "spec": spec }));
        let spec = json!({ "selector": labels, "ports": [{ "port": 80 }] });
        self.create(world, SERVICES, json!({ "metadata": meta, "spec": spec }));
        let spec = json!({ "selector": selector, "minAvailable": 1 });
        self.create(world, PODDISRUPTIONBUDGETS, json!({ "metadata": meta, "spec": spec }));
    }

    /// Creates a class with a volume and a claim, which the scheduler binds.
    fn volumes(&mut self, world: &mut World, namespace: &str) {
        let class = format!("class-of-{namespace}");
        let provisioner = "kubernetes.io/no-provisioner";
        let mode = "WaitForFirstConsumer";
        let object = json!({ "metadata": { "name": class }, "provisioner": provisioner,
            "volumeBindingMode": mode });
        self.create(world, STORAGECLASSES, object);
        let name = format!("volume-of-{namespace}");
        let spec = json!({ "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
            "storageClassName": class, "persistentVolumeReclaimPolicy": "Retain",
            "csi": { "driver": format!("driver-of-{namespace}"), "volumeHandle": name } });
        self.create(
            world,
            PERSISTENTVOLUMES,
            json!({ "metadata": { "name": name }, "spec": spec }),
        );
        let meta = json!({ "name": "claim", "namespace": namespace });
        let spec = json!({ "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": { "requests": { "storage": "1Gi" } } });
        self.create(world, PERSISTENTVOLUMECLAIMS, json!({ "metadata": meta, "spec": spec }));
    }

    /// Creates pods of each kind.
    fn pods_of(&mut self, world: &mut World, namespace: &str, n: u32) {
        let label = |kind: &str| json!({ "app": format!("{kind}-{n}") });
        let chosen = |kind: &str| {
            json!({ "labelSelector": { "matchLabels": label(kind) },
            "topologyKey": HOSTNAME })
        };
        let with = |more: Value| merged(spec("100m"), more);
        let class = format!("priority-{n}");
        let object = json!({ "metadata": { "name": class }, "value": 1000 + n });
        self.create(world, PRIORITYCLASSES, object);
        let apart = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [chosen("apart")] });
        let spread =
            merged(chosen("spread"), json!({ "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule" }));
        let volume = json!({ "name": "data", "persistentVolumeClaim": { "claimName": "claim" } });
        let device = json!({ (format!("example.com/device-{n}")): "1" });
        let specs = [
            ("plain", spec("100m")),
            (LOST, spec("100m")),
            (REFUSED, spec("100m")),
            ("large", spec("1000")),
            (
                "gated",
                with(json!({ "schedulingGates": [{ "name": format!("example.com/gate-{n}") }] })),
            ),
            ("apart", with(json!({ "affinity": { "podAntiAffinity": apart } }))),
            ("spread", with(json!({ "topologySpreadConstraints": [spread] }))),
            ("stored", with(json!({ "volumes": [volume] }))),
            (
                "unbound",
                with(json!({ "volumes": [{ "name": "data",
                "persistentVolumeClaim": { "claimName": "nowhere" } }] })),
            ),
            ("selective", with(json!({ "nodeSelector": { "example.com/none": format!("{n}") } }))),
            (
                "port",
                json!({ "containers": [{ "name": "main", "image": format!("image-{n}"),
                "ports": [{ "hostPort": 1000 + n % 60_000, "containerPort": 80 }] }] }),
            ),
            (
                "device",
                json!({ "containers": [{ "name": "main", "image": "app",
                "resources": { "requests": device, "limits": device } }] }),
            ),
            ("filler", spec("15")),
            ("filler-too", spec("15")),
            ("filler-three", spec("15")),
        ];
        for (kind, spec) in specs {
            self.pod(world, namespace, kind, label(kind), spec);
        }
        let preemptor = merged(spec("14"), json!({ "priorityClassName": class }));
        self.pod(world, namespace, "preemptor", label("preemptor"), preemptor);
    }

    fn pod(&mut self, world: &mut World, namespace: &str, kind: &str, labels: Value, spec: Value) {
        self.pods += 1;
        let name = format!("{kind}-{}", self.pods);
        let meta = json!({ "name": name, "namespace": namespace, "labels": labels });
        self.create(world, PODS, json!({ "metadata": meta, "spec": spec }));
    }

    fn create(&mut self, world: &mut World, resource: &'static Resource, mut object: Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let created = (resource, text("namespace"), text("name"));
        object["apiVersion"] = json!(resource.api_version());
        object["kind"] = json!(resource.kind);
        world.create(resource, object);
        self.living.last_mut().unwrap().push(created);
    }

    /// Deletes the objects of the oldest batch, the last first.
    fn delete_oldest(&mut self, world: &mut World) {
        for (resource, namespace, name) in self.living.remove(0).into_iter().rev() {
            world.delete(resource, &namespace, &name);
        }
    }
}

fn spec(cpu: &str) -> Value {
    let resources = json!({ "requests": { "cpu": cpu, "memory": "128Mi" } });
    json!({ "containers": [{ "name": "main", "image": "app", "resources": resources }] })
}

/// Returns an object with the fields of another one.
fn merged(mut object: Value, more: Value) -> Value {
    let (Some(fields), Value::Object(more)) = (object.as_object_mut(), more) else {
        unreachable!("both are objects")
    };
    fields.extend(more);
    object
}
