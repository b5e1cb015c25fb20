//! Random actions on claims, volumes, classes, and CSI objects of nodes.

use framework::Time;
use framework::storage::SELECTED_NODE;
use sandbox::resources::{
    CSIDRIVERS, CSINODES, CSISTORAGECAPACITIES, PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES,
    Resource, STORAGECLASSES, VOLUMEATTACHMENTS,
};
use serde_json::{Value, json};

use super::super::server::Server;
use super::catalogue::{
    CLAIMS, CLASSES, Claim, LIMITED_CLASS, LIMITED_DRIVER, ROOMY_DRIVER, STEADY_CSI_NODES, VOLUMES,
    any_claim, claim_spec, volume,
};
use super::chance::{once_in, one_of};
use super::nodes::{NODE_NAMES, ZONE, ZONES};
use super::{Churn, NAMESPACES, related};

/// A finalizer of claims that users remove from time to time.
const KEEP: &str = "example.com/keep";

impl Churn {
    /// Creates the initial storage objects.
    pub(super) fn begin_storage(&mut self, server: &mut Server, now: Time) {
        set_driver(server, true, now);
        self.restore_storage(server, now);
        for number in 0..STEADY_CSI_NODES {
            self.set_csi_node(server, number, now);
        }
        for _ in 0..self.rng.u32(..20) {
            self.create_claim(server, now);
        }
    }

    /// Creates all classes and volumes.
    pub(super) fn restore_storage(&mut self, server: &mut Server, now: Time) {
        for (class, ..) in CLASSES {
            create_class(server, class, now);
        }
        for number in 0..VOLUMES {
            create(server, PERSISTENTVOLUMES, volume(number), now);
        }
        for zone in ZONES {
            self.set_room(server, zone, now);
        }
    }

    /// Carries out an action on storage, and describes it.
    pub(super) fn change_storage(&mut self, server: &mut Server, now: Time) -> String {
        match self.rng.u32(..34) {
            0..8 => self.create_claim(server, now),
            8..11 => self.delete(server, PERSISTENTVOLUMECLAIMS, now),
            11..15 => {
                let number = self.rng.u32(..VOLUMES);
                create(server, PERSISTENTVOLUMES, volume(number), now)
            }
            15 => self.delete(server, PERSISTENTVOLUMES, now),
            16..20 => self.recycle_volume(server, now),
            20 => self.annotate(server, now),
            21 => self.change_driver(server, now),
            22 => self.select_node(server, now),
            23 => drop_protection(server, now),
            24..27 => self.change_class(server, now),
            27..30 => self.change_csi_node(server, now),
            30 | 31 => self.change_attachment(server, now),
            _ => {
                let zone = one_of(&mut self.rng, ZONES);
                self.set_room(server, zone, now)
            }
        }
    }

    /// Creates the claims of a pod, mostly before the pod.
    pub(super) fn create_claims_of(&mut self, pod: &Value, server: &mut Server, now: Time) {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
            let name = &volume["persistentVolumeClaim"]["claimName"];
            let known = CLAIMS.iter().find(|(known, ..)| name == known);
            if let Some(claim) = known.filter(|_| !once_in(&mut self.rng, 6)) {
                self.create_this_claim(server, *claim, namespace, now);
            }
        }
    }

    pub(super) fn create_all_claims(&mut self, server: &mut Server, namespace: &str, now: Time) {
        for claim in CLAIMS {
            self.create_this_claim(server, claim, namespace, now);
        }
    }

    fn create_claim(&mut self, server: &mut Server, now: Time) -> String {
        let (claim, namespace) = (any_claim(&mut self.rng), one_of(&mut self.rng, NAMESPACES));
        self.create_this_claim(server, claim, namespace, now)
    }

    fn create_this_claim(
        &mut self,
        server: &mut Server,
        claim: Claim,
        namespace: &str,
        now: Time,
    ) -> String {
        let (name, class, size, mode) = claim;
        let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": claim_spec(class, size, mode)});
        match name {
            "picky" => claim["spec"]["selector"] = json!({"matchLabels": {"ssd": "yes"}}),
            "dangling" if self.rng.bool() => claim["spec"]["volumeName"] = json!("nothing"),
            _ => {}
        }
        if self.rng.bool() {
            claim["metadata"]["annotations"] = json!({"example.com/kept": "yes"});
        }
        if once_in(&mut self.rng, 10) {
            claim["metadata"]["finalizers"] = json!([KEEP]);
        }
        create(server, PERSISTENTVOLUMECLAIMS, claim, now)
    }

    pub(super) fn delete(
        &mut self,
        server: &mut Server,
        kind: &'static Resource,
        now: Time,
    ) -> String {
        let Some(object) = self.any(server, kind) else { return "nothing to delete".to_owned() };
        let status = server.request("DELETE", &object, &Value::Null, now);
        format!("delete {object}: {status}")
    }

    /// Makes a volume available again, whether or not it is bound.
    fn recycle_volume(&mut self, server: &mut Server, now: Time) -> String {
        let is_released = |volume: &Value| volume["status"]["phase"] == "Released";
        let released: Vec<_> =
            server.store.objects(PERSISTENTVOLUMES).filter(|own| is_released(own)).collect();
        let volume = self.rng.choice(released).map(|volume| volume["metadata"]["name"].clone());
        let Some(Value::String(volume)) = volume else { return "no volume is left".to_owned() };
        let volume = path(PERSISTENTVOLUMES, "", &volume);
        patch(server, &volume, &json!({"spec": {"claimRef": null}}), now)
    }

    /// Writes a new version of a volume or claim.
    fn annotate(&mut self, server: &mut Server, now: Time) -> String {
        let kind = one_of(&mut self.rng, [PERSISTENTVOLUMES, PERSISTENTVOLUMECLAIMS]);
        let Some(object) = self.any(server, kind) else { return "nothing to mark".to_owned() };
        let stamp = now.as_nanos().to_string();
        let stamp = json!({"metadata": {"annotations": {"example.com/stamp": stamp}}});
        patch(server, &object, &stamp, now)
    }

    /// Sets or clears the selected node of a claim, as another client.
    fn select_node(&mut self, server: &mut Server, now: Time) -> String {
        let Some(claim) = self.any(server, PERSISTENTVOLUMECLAIMS) else {
            return "no claim to select a node for".to_owned();
        };
        let node = self.rng.bool().then(|| format!("n{}", self.rng.usize(..NODE_NAMES)));
        patch(server, &claim, &json!({"metadata": {"annotations": {SELECTED_NODE: node}}}), now)
    }

    fn change_class(&mut self, server: &mut Server, now: Time) -> String {
        let (class, ..) = one_of(&mut self.rng, CLASSES);
        if class == "slow" && self.rng.bool() {
            let zones = one_of(&mut self.rng, [&["a", "b"][..], &["b"], &["a", "c"], &[]]);
            let topologies = json!({"allowedTopologies": topologies(zones)});
            return patch(server, &path(STORAGECLASSES, "", class), &topologies, now);
        }
        if class == LIMITED_CLASS || self.rng.bool() {
            return create_class(server, class, now);
        }
        let class = path(STORAGECLASSES, "", class);
        let status = server.request("DELETE", &class, &Value::Null, now);
        format!("delete {class}: {status}")
    }

    /// Deletes or restores the driver that reports its capacity, or lets it stop or begin to do so.
    fn change_driver(&mut self, server: &mut Server, now: Time) -> String {
        if once_in(&mut self.rng, 3) {
            let driver = path(CSIDRIVERS, "", ROOMY_DRIVER);
            let status = server.request("DELETE", &driver, &Value::Null, now);
            return format!("delete {driver}: {status}");
        }
        set_driver(server, self.rng.bool(), now)
    }

    fn change_csi_node(&mut self, server: &mut Server, now: Time) -> String {
        let number = self.rng.usize(..NODE_NAMES);
        if number >= STEADY_CSI_NODES && self.rng.bool() {
            let node = path(CSINODES, "", &format!("n{number}"));
            let status = server.request("DELETE", &node, &Value::Null, now);
            return format!("delete {node}: {status}");
        }
        self.attachable[number] += i64::from(once_in(&mut self.rng, 3));
        self.set_csi_node(server, number, now)
    }

    /// Creates the CSINode of a node.
    fn set_csi_node(&mut self, server: &mut Server, number: usize, now: Time) -> String {
        let name = format!("n{number}");
        let drivers = json!([{"name": LIMITED_DRIVER, "nodeID": name,
            "allocatable": {"count": self.attachable[number]}}]);
        let node = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {"name": name}, "spec": {"drivers": drivers}});
        set(server, CSINODES, node, now)
    }

    /// Attaches a volume to a node, or detaches it.
    fn change_attachment(&mut self, server: &mut Server, now: Time) -> String {
        let volume = self.any(server, PERSISTENTVOLUMES).unwrap_or_default();
        let volume = volume.rsplit('/').next().unwrap_or_default();
        let name = one_of(&mut self.rng, ["first", "second"]);
        if self.rng.bool() {
            let attachment = path(VOLUMEATTACHMENTS, "", name);
            let status = server.request("DELETE", &attachment, &Value::Null, now);
            return format!("delete {attachment}: {status}");
        }
        let node = format!("n{}", self.rng.usize(..NODE_NAMES));
        let attachment = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {"name": name}, "spec": {"attacher": LIMITED_DRIVER, "nodeName": node,
                "source": {"persistentVolumeName": volume}}});
        create(server, VOLUMEATTACHMENTS, attachment, now)
    }

    /// Changes the storage capacity of the driver in a zone.
    fn set_room(&mut self, server: &mut Server, zone: &str, now: Time) -> String {
        if once_in(&mut self.rng, 8) {
            let capacity = path(CSISTORAGECAPACITIES, NAMESPACES[0], zone);
            let status = server.request("DELETE", &capacity, &Value::Null, now);
            return format!("delete {capacity}: {status}");
        }
        let room = one_of(&mut self.rng, ["0", "1Gi", "2Gi", "9Gi"]);
        let largest = one_of(&mut self.rng, [None, None, None, Some("1Gi"), Some("3Gi")]);
        let mut capacity = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"name": zone, "namespace": NAMESPACES[0]}, "storageClassName": "flaky",
            "nodeTopology": {"matchLabels": {ZONE: zone}}, "capacity": room});
        if let Some(largest) = largest {
            capacity["maximumVolumeSize"] = json!(largest);
        }
        set(server, CSISTORAGECAPACITIES, capacity, now)
    }
}

/// Removes all finalizers of deleted claims and volumes.
fn drop_protection(server: &mut Server, now: Time) -> String {
    let is_ending = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
    let ending = [PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES].into_iter().flat_map(|kind| {
        let ending = server.store.objects(kind).filter(|own| is_ending(own));
        ending.map(|object| place(kind, object))
    });
    let ending: Vec<_> = ending.collect();
    for (collection, name) in &ending {
        let object = format!("{collection}/{name}");
        patch(server, &object, &json!({"metadata": {"finalizers": null}}), now);
    }
    format!("{} claims and volumes are not protected any more", ending.len())
}

fn create_class(server: &mut Server, name: &str, now: Time) -> String {
    let known = CLASSES.iter().find(|(class, ..)| *class == name);
    let (_, provisioner, mode, seconds, failures) =
        known.expect("only classes of the table are made");
    let mut class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode,
        "parameters": {"sandbox/provisioning-seconds": seconds.to_string(),
            "sandbox/provisioning-failures": failures.to_string()}});
    if name == "slow" {
        class["allowedTopologies"] = topologies(&["a", "b"]);
    }
    create(server, STORAGECLASSES, class, now)
}

/// Returns the allowed topologies of a class: these zones, or all nodes.
fn topologies(zones: &[&str]) -> Value {
    match zones {
        [] => Value::Null,
        zones => json!([{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]),
    }
}

/// Creates or updates the driver that can report its capacity.
fn set_driver(server: &mut Server, reports: bool, now: Time) -> String {
    let driver = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
        "metadata": {"name": ROOMY_DRIVER}, "spec": {"storageCapacity": reports}});
    set(server, CSIDRIVERS, driver, now)
}

fn create(server: &mut Server, kind: &'static Resource, object: Value, now: Time) -> String {
    let (collection, name) = place(kind, &object);
    let status = server.request("POST", &collection, &object, now);
    format!("create {collection}/{name}: {status}")
}

/// Creates an object, or updates the existing one.
fn set(server: &mut Server, kind: &'static Resource, object: Value, now: Time) -> String {
    let (collection, name) = place(kind, &object);
    let mut status = server.request("POST", &collection, &object, now);
    if status == 409 {
        status = server.request("PATCH", &format!("{collection}/{name}"), &object, now);
    }
    format!("{object}: {status}")
}

fn place(kind: &Resource, object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (related::collection(kind, &text("namespace")), text("name"))
}

fn path(kind: &Resource, namespace: &str, name: &str) -> String {
    format!("{}/{name}", related::collection(kind, namespace))
}

fn patch(server: &mut Server, target: &str, patch: &Value, now: Time) -> String {
    let status = server.request("PATCH", target, patch, now);
    format!("patch {target} with {patch}: {status}")
}
