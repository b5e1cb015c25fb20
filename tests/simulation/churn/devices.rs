//! Random actions on claims, templates, classes and slices of devices.

use fastrand::Rng;
use framework::Time;
use sandbox::resources::{DEVICECLASSES, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES, RESOURCESLICES};
use serde_json::{Value, json};

use super::super::coverage::Fault;
use super::super::driver::{BROKEN, READY};
use super::super::extender;
use super::super::patience;
use super::super::server::{DEFAULT, Server};
use super::chance::{once_in, one_of};
use super::{Churn, NAMESPACES, related};

/// The driver of all devices.
const DRIVER: &str = "gpu.example.com";
/// The class of all devices, which is sometimes absent.
pub(crate) const CLASS: &str = "gpu";
/// The extended resource that the class provides.
pub(crate) const EXTENDED_RESOURCE: &str = "example.com/gpu";
/// Nodes with smaller numbers have devices.
const NODES: usize = 6;
/// The nodes from this number on share a pool, whose devices consume its counters. It is always
/// published as a whole.
const SHARING: std::ops::Range<usize> = 4..NODES;
/// The pool that these nodes share.
pub(crate) const SHARED_POOL: &str = "fabric";
/// The scarce counter of this pool, and its amount.
pub(crate) const LINKS: (&str, usize) = ("links", 3);
/// Number of devices of each of these nodes.
const SHARING_DEVICES: usize = 2;
/// Maximum number of devices of a node.
const MOST: usize = 3;
/// Names of the templates.
const TEMPLATES: [&str; 8] =
    ["one-gpu", "one-gpu", "two-gpus", "model-a", "same-numa", "preferred", "all", "tolerant"];
/// Selects the devices of one model.
pub(crate) const MODEL_A: &str = "device.attributes['gpu.example.com'].model == 'a'";
/// The attribute of the memory that a device is near to.
pub(crate) const NUMA: &str = "gpu.example.com/numa";
/// A taint that devices sometimes have.
pub(crate) const FAULTY: &str = "example.com/faulty";
/// A claim that pods share.
const SHARED: &str = "shared-gpu";

impl Churn {
    /// Creates the initial objects.
    pub(super) fn begin_devices(&mut self, server: &mut Server, now: Time) {
        self.restore_devices(server, now);
        for number in 0..NODES {
            self.publish(server, number, now);
        }
    }

    /// Publishes the pool that nodes share, one slice after the other.
    pub(super) fn publish_shared(&mut self, server: &mut Server, now: Time) -> String {
        self.generation += 1;
        let counters = json!({LINKS.0: {"value": LINKS.1.to_string()}, "power": {"value": "100"}});
        let shared =
            json!({"allNodes": true, "sharedCounters": [{"name": "set", "counters": counters}]});
        let own = SHARING.map(|node| {
            let devices: Vec<Value> =
                (0..SHARING_DEVICES).map(|number| sharing_device(node, number)).collect();
            json!({"nodeName": format!("n{node}"), "devices": devices})
        });
        let slices: Vec<Value> = [shared].into_iter().chain(own).collect();
        let pool = json!({"name": SHARED_POOL, "generation": self.generation,
            "resourceSliceCount": slices.len()});
        let published = slices.into_iter().enumerate().map(|(number, mut spec)| {
            spec["driver"] = json!(DRIVER);
            spec["pool"] = pool.clone();
            let name = format!("{SHARED_POOL}-{number}");
            put(
                server,
                &json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
                "metadata": {"name": name}, "spec": spec}),
                now,
            )
        });
        published.collect::<Vec<_>>().join(", ")
    }

    /// Creates the class, and the templates and claims that are absent.
    pub(super) fn restore_devices(&mut self, server: &mut Server, now: Time) {
        create(server, &class(), now);
        for namespace in NAMESPACES {
            create_claims(server, namespace, now);
        }
    }

    /// Carries out an action on devices, and describes it.
    pub(super) fn change_devices(&mut self, server: &mut Server, now: Time) -> String {
        match self.rng.u32(..14) {
            0..4 => {
                let number = self.rng.usize(..NODES);
                self.publish(server, number, now)
            }
            4 => {
                server.fired.push(Fault::SlicesReplaced);
                self.delete(server, RESOURCESLICES, now)
            }
            5 => self.delete(server, DEVICECLASSES, now),
            6 | 7 => {
                server.fired.push(Fault::ClaimDeleted);
                self.delete(server, RESOURCECLAIMS, now)
            }
            8 => self.delete(server, RESOURCECLAIMTEMPLATES, now),
            9..12 => create(server, &class(), now),
            _ => {
                let namespace = one_of(&mut self.rng, NAMESPACES);
                create_claims(server, namespace, now)
            }
        }
    }

    /// Returns a device of a node. Its attributes never change. Some devices have binding
    /// conditions or a taint.
    fn device(&mut self, node: usize, number: usize) -> Value {
        let attributes = attributes(node, number);
        let mut device = json!({"name": format!("gpu-{number}"), "attributes": attributes});
        if once_in(&mut self.rng, 6) {
            device["taints"] = json!([{"key": FAULTY, "effect": "NoSchedule"}]);
        }
        if once_in(&mut self.rng, 3) {
            device["bindingConditions"] = json!([READY]);
            device["bindingFailureConditions"] = json!([BROKEN]);
        }
        device
    }

    /// Publishes the devices of a node, in place of those before, as a driver does after it started
    /// or a device has failed.
    fn publish(&mut self, server: &mut Server, number: usize, now: Time) -> String {
        server.fired.push(Fault::SlicesReplaced);
        if SHARING.contains(&number) {
            return self.publish_shared(server, now);
        }
        let node = format!("n{number}");
        let count = one_of(&mut self.rng, [0, 1, 2, 2, MOST, MOST]);
        let devices: Vec<Value> = (0..count).map(|device| self.device(number, device)).collect();
        self.generation += 1;
        let pool = json!({"name": node, "generation": self.generation, "resourceSliceCount": 1});
        let slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": {"name": format!("{node}-gpus")},
            "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}});
        put(server, &slice, now)
    }
}

/// Returns a device of a pool that nodes share. It never changes, so that allocations never exceed
/// the counters.
fn sharing_device(node: usize, number: usize) -> Value {
    let name = format!("n{node}-gpu-{number}");
    let counters = json!({LINKS.0: {"value": links(number).to_string()}, "power": {"value": "1"}});
    json!({"name": name, "attributes": attributes(node, number),
        "consumesCounters": [{"counterSet": "set", "counters": counters}]})
}

fn attributes(node: usize, number: usize) -> Value {
    json!({"model": {"string": model(node, number)}, "numa": {"int": numa(node, number)}})
}

/// Creates a slice, or replaces its specification.
fn put(server: &mut Server, slice: &Value, now: Time) -> String {
    match create(server, slice, now) {
        conflict if conflict.ends_with("409") => {
            let collection = related::collection(RESOURCESLICES, "");
            let name = slice["metadata"]["name"].as_str().unwrap_or_default();
            let status = server.request("PATCH", &format!("{collection}/{name}"), slice, now);
            format!("patch {slice}: {status}")
        }
        created => created,
    }
}

/// Returns a small pod, which devices decide about more than anything else.
pub(super) fn template(rng: &mut Rng) -> Value {
    let container = json!({"name": "c", "image": "example.com/app:1",
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}});
    let mut labels = json!({});
    if once_in(rng, 4) {
        labels[patience::LABEL] = json!(one_of(rng, patience::VALUES));
    }
    let mut spec = json!({"schedulerName": DEFAULT, "containers": [container],
        "terminationGracePeriodSeconds": rng.u32(..10)});
    if once_in(rng, 4) {
        spec["priorityClassName"] = json!(one_of(rng, ["low", "high"]));
    }
    json!({"metadata": {"labels": labels}, "spec": spec})
}

/// Lets a pod request devices: by a claim of its own, a shared claim, or an extended resource.
pub(super) fn request_devices(rng: &mut Rng, pod: &mut Value) {
    let container = &mut pod["spec"]["containers"][0];
    let requests = &container["resources"]["requests"];
    // As in kube-scheduler, a resource that NodeResourcesFit ignores fits nowhere beside one of
    // devices.
    if requests[extender::RESOURCE].is_null() && once_in(rng, 4) {
        for amounts in ["requests", "limits"] {
            container["resources"][amounts][EXTENDED_RESOURCE] = json!("1");
        }
        return;
    }
    container["resources"]["claims"] = json!([{"name": "devices"}]);
    let template = one_of(rng, TEMPLATES);
    let claim = match once_in(rng, 3) {
        true => json!({"name": "devices", "resourceClaimName": SHARED}),
        false => json!({"name": "devices", "resourceClaimTemplateName": template}),
    };
    pod["spec"]["resourceClaims"] = json!([claim]);
}

fn class() -> Value {
    let selector = json!({"cel": {"expression": format!("device.driver == '{DRIVER}'")}});
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": CLASS},
        "spec": {"selectors": [selector], "extendedResourceName": EXTENDED_RESOURCE}})
}

fn create_claims(server: &mut Server, namespace: &str, now: Time) -> String {
    let object = |kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": kind, "spec": spec,
            "metadata": {"name": name, "namespace": namespace}})
    };
    let templates = TEMPLATES
        .map(|name| object("ResourceClaimTemplate", name, json!({"spec": claim_spec(name)})));
    let claims = [object("ResourceClaim", SHARED, claim_spec(TEMPLATES[0]))];
    let created = templates.iter().chain(&claims).map(|own| create(server, own, now));
    created.collect::<Vec<_>>().join(", ")
}

/// Returns the specification of the claims from a template.
fn claim_spec(template: &str) -> Value {
    let devices = |count: u32| {
        let mode = "ExactCount";
        json!({"deviceClassName": CLASS, "allocationMode": mode, "count": count})
    };
    let model_a = |mut request: Value| {
        request["selectors"] = json!([{"cel": {"expression": MODEL_A}}]);
        request
    };
    let named = |name: &str, mut request: Value| {
        request["name"] = json!(name);
        request
    };
    let one = |exactly: Value| json!([{"name": "gpus", "exactly": exactly}]);
    let requests = match template {
        "two-gpus" => one(devices(2)),
        "model-a" => one(model_a(devices(1))),
        "same-numa" => json!([{"name": "left", "exactly": devices(1)},
            {"name": "right", "exactly": devices(1)}]),
        "preferred" => json!([{"name": "gpus", "firstAvailable":
            [named("big", model_a(devices(2))), named("small", devices(1))]}]),
        "all" => one(json!({"deviceClassName": CLASS, "allocationMode": "All"})),
        "tolerant" => {
            let mut tolerant = devices(1);
            tolerant["tolerations"] = json!([{"key": FAULTY, "operator": "Exists"}]);
            one(tolerant)
        }
        _ => one(devices(1)),
    };
    let mut spec = json!({"devices": {"requests": requests}});
    if template == "same-numa" {
        spec["devices"]["constraints"] = json!([{"matchAttribute": NUMA}]);
    }
    spec
}

/// Returns the model of a device.
pub(crate) const fn model(node: usize, device: usize) -> &'static str {
    if (node + device).is_multiple_of(2) { "a" } else { "b" }
}

/// Returns the links that a device of a pool that nodes share consumes.
pub(crate) const fn links(device: usize) -> usize {
    SHARING_DEVICES - device
}

/// Returns the number of the memory that a device is near to.
pub(crate) const fn numa(node: usize, device: usize) -> usize {
    (node * 2 + device) / 2 % 2
}

fn create(server: &mut Server, object: &Value, now: Time) -> String {
    let kind = match object["kind"].as_str() {
        Some("DeviceClass") => DEVICECLASSES,
        Some("ResourceSlice") => RESOURCESLICES,
        Some("ResourceClaimTemplate") => RESOURCECLAIMTEMPLATES,
        _ => RESOURCECLAIMS,
    };
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    let status = server.request("POST", &related::collection(kind, namespace), object, now);
    format!("create {} {metadata}: {status}", kind.kind)
}
