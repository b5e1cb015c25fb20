//! Help for pods whose ResourceClaims cannot be allocated.

use std::collections::{BTreeMap, BTreeSet};

use framework::{EventResource, ObjectKey, Pod, PodClaimSource, PodResourceClaim};
use serde_json::{Value, json};

use super::{Proposal, TRIES, size};
use crate::lab::Lab;
use crate::now::Findings;

const PLUGIN: &str = "DynamicResources";
/// Number of slices to which a device is added for a trial.
const SLICES: usize = 4;

pub(super) fn proposals(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let pod = &findings.pod;
    if pod.spec.resource_claims.is_empty() {
        return Vec::new();
    }
    let mut proposals = Vec::new();
    let mut easier = Vec::new();
    let mut classes = BTreeSet::new();
    for entry in &pod.spec.resource_claims {
        let Some(name) = claim_of(pod, entry) else { continue };
        match stored_claim(lab, pod, name) {
            None => proposals.extend(missing_claim(lab, pod, name)),
            Some(object) => {
                proposals.extend(missing_classes(lab, &object));
                classes.extend(classes_of(&object).map(str::to_owned));
                let is_allocated = !object["status"]["allocation"].is_null();
                easier.extend((!is_allocated).then(|| easier_claims(&object)));
            }
        }
    }
    let rejects = findings.evaluation.rejectors.iter().any(|name| **name == *PLUGIN);
    if rejects && proposals.is_empty() {
        proposals.extend(easier.into_iter().flatten());
        proposals.extend(more_devices(lab, findings, &classes));
    }
    proposals
}

/// Returns the name of the ResourceClaim of an entry, if it has one.
fn claim_of<'a>(pod: &'a Pod, entry: &'a PodResourceClaim) -> Option<&'a str> {
    match &entry.source {
        PodClaimSource::Claim(name) => Some(name),
        PodClaimSource::Template => pod.generated_claims()?.claim(&entry.name)?.map(|name| &**name),
        PodClaimSource::Unknown => None,
    }
}

/// Returns the classes that the requests of a claim name.
fn classes_of(claim: &Value) -> impl Iterator<Item = &str> {
    let requests = claim["spec"]["devices"]["requests"].as_array().into_iter().flatten();
    let bodies = requests.flat_map(|request| {
        let any = request["firstAvailable"].as_array().into_iter().flatten();
        std::iter::once(&request["exactly"]).chain(any)
    });
    bodies.filter_map(|body| body["deviceClassName"].as_str())
}

fn stored_claim(lab: &Lab<'_>, pod: &Pod, name: &str) -> Option<Value> {
    let kind = EventResource::ResourceClaim;
    let key = ObjectKey::namespaced(kind, pod.key.namespace.clone(), name.into());
    lab.cluster().stored_object(&key).map(|object| Value::clone(&object.json()))
}

/// A claim that the pod names and that does not exist, for one device of each class in turn.
fn missing_claim(lab: &Lab<'_>, pod: &Pod, name: &str) -> Vec<Proposal> {
    let namespace = &pod.key.namespace;
    let objects = lab.cluster().stored_objects_after(None);
    let classes = objects.filter(|object| *object.kind() == EventResource::DeviceClass);
    let proposal = |class: framework::Object| {
        let class = class.name();
        let object = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"namespace": &**namespace, "name": name, "uid": format!("claim-{name}")},
            "spec": {"devices": {"requests": [{"name": "device", "exactly": {"deviceClassName": &**class, "allocationMode": "ExactCount", "count": 1}}]}},
        });
        let text = format!(
            "create the ResourceClaim {namespace}/{name}, for example for a device of class {class}"
        );
        let key =
            ObjectKey::namespaced(EventResource::ResourceClaim, namespace.clone(), name.into());
        Proposal::object("deviceClaim", size::MISSING, text, key, object)
    };
    classes.take(SLICES).map(proposal).collect()
}

/// Classes that a claim names and that do not exist.
fn missing_classes(lab: &Lab<'_>, claim: &Value) -> Vec<Proposal> {
    let missing = classes_of(claim).filter(|class| lab.cluster().device_class(class).is_none());
    let proposal = |class: &str| {
        let object = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": class},
            "spec": {},
        });
        let text = format!("create the DeviceClass {class}, which the claim of the pod names");
        let key = ObjectKey::cluster_scoped(EventResource::DeviceClass, class.into());
        Proposal::object("deviceClass", size::MISSING, text, key, object)
    };
    missing.map(proposal).collect()
}

/// A claim that asks for less: fewer devices, without a selector, or without a constraint. A claim
/// cannot be changed, so that another one has to be made.
fn easier_claims(claim: &Value) -> Vec<Proposal> {
    let name = |field: &str| claim["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (name("namespace"), name("name"));
    let easier = |kind, extent: f64, text: String, change: &dyn Fn(&mut Value)| {
        let mut object = claim.clone();
        change(&mut object["spec"]["devices"]);
        let key = ObjectKey::namespaced(
            EventResource::ResourceClaim,
            namespace.as_str().into(),
            name.as_str().into(),
        );
        Proposal::object(kind, size::POD + extent, text, key, object)
    };
    let mut proposals = Vec::new();
    let requests = claim["spec"]["devices"]["requests"].as_array();
    for (place, request) in requests.into_iter().flatten().enumerate() {
        let (own, exactly) = (&request["name"].as_str().unwrap_or_default(), &request["exactly"]);
        let selectors = exactly["selectors"].as_array().map_or(0, Vec::len);
        for number in 0..selectors {
            let selector = exactly["selectors"][number]["cel"]["expression"].as_str();
            let text = format!(
                "a claim {namespace}/{name} without selector #{number} of its request {own}: {}",
                selector.unwrap_or_default()
            );
            proposals.push(easier("deviceSelector", 0.4, text, &|devices| {
                let selectors = devices["requests"][place]["exactly"]["selectors"].as_array_mut();
                selectors.map(|selectors| selectors.remove(number));
            }));
        }
        let count = exactly["count"].as_i64().unwrap_or(1);
        for fewer in ((count + 1) / 2..count).rev().take(TRIES) {
            let text = format!(
                "a claim {namespace}/{name} whose request {own} is for {fewer} instead of {count} devices"
            );
            proposals.push(easier("deviceCount", 0.3, text, &|devices| {
                devices["requests"][place]["exactly"]["count"] = json!(fewer);
            }));
        }
    }
    let constraints = claim["spec"]["devices"]["constraints"].as_array().map_or(0, Vec::len);
    for number in 0..constraints {
        let text = format!("a claim {namespace}/{name} without constraint #{number}");
        proposals.push(easier("deviceConstraint", 0.5, text, &|devices| {
            let constraints = devices["constraints"].as_array_mut();
            constraints.map(|constraints| constraints.remove(number));
        }));
    }
    proposals
}

/// One more device: like the first of a slice, or the first one of a driver.
fn more_devices(lab: &Lab<'_>, findings: &Findings, classes: &BTreeSet<String>) -> Vec<Proposal> {
    let cluster = lab.cluster();
    let open = findings.rejected_only_by(&[PLUGIN], cluster);
    let is_open = |node: Option<&str>| {
        node.is_none_or(|node| cluster.node_named(node).is_some_and(|node| open.contains(node)))
    };
    let objects = cluster.stored_objects_after(None);
    let slices = objects.filter(|object| *object.kind() == EventResource::ResourceSlice);
    // Slices of open nodes and the first device of each driver.
    let mut drivers: BTreeMap<String, usize> = BTreeMap::new();
    let mut examples: BTreeMap<String, Value> = BTreeMap::new();
    let mut proposals = Vec::new();
    for slice in slices {
        let object = slice.json();
        let spec = &object["spec"];
        let driver = spec["driver"].as_str().unwrap_or_default();
        let tries = drivers.entry(driver.to_owned()).or_default();
        if !examples.contains_key(driver) {
            examples.insert(driver.to_owned(), spec["devices"][0].clone());
        }
        if *tries < SLICES && is_open(spec["nodeName"].as_str()) {
            *tries += 1;
            proposals.extend(one_more_device(slice.name(), Value::clone(&object)));
        }
    }
    // One that a class asks for by its driver comes first.
    let wanted: BTreeSet<String> =
        classes.iter().filter_map(|class| driver_of(lab, class)).collect();
    proposals.sort_by_key(|(driver, _)| !wanted.contains(driver));
    let mut proposals: Vec<Proposal> = proposals.into_iter().map(|(_, own)| own).collect();
    let Some(node) = open.iter().next().map(|node| cluster.node_name(node)) else {
        return proposals;
    };
    let is_elsewhere = |driver: &&String| drivers.get(*driver).is_none_or(|tries| *tries == 0);
    for driver in wanted.iter().filter(is_elsewhere) {
        proposals.push(first_device(node, driver, examples.get(driver)));
    }
    if drivers.is_empty() {
        let nameless = classes.iter().filter(|class| driver_of(lab, class).is_none());
        proposals.extend(nameless.map(|class| first_device(node, class, None)));
    }
    proposals
}

/// Returns the driver that the selectors of a class ask for, if they name one.
fn driver_of(lab: &Lab<'_>, class: &str) -> Option<String> {
    let key = ObjectKey::cluster_scoped(EventResource::DeviceClass, class.into());
    let class = lab.cluster().stored_object(&key)?.json();
    let selectors = class["spec"]["selectors"].as_array()?;
    let driver = |selector: &Value| {
        let (_, rest) = selector["cel"]["expression"].as_str()?.split_once("device.driver == ")?;
        let quote = rest.chars().next().filter(|own| matches!(own, '"' | '\''))?;
        rest[1..].split_once(quote).map(|(driver, _)| driver.to_owned())
    };
    selectors.iter().find_map(driver)
}

/// Returns the driver of a slice, and the slice with one more device like its first.
fn one_more_device(name: &str, mut object: Value) -> Option<(String, Proposal)> {
    let driver = object["spec"]["driver"].as_str()?.to_owned();
    let node = object["spec"]["nodeName"].as_str().map(str::to_owned);
    let devices = object["spec"]["devices"].as_array_mut()?;
    let mut device = devices.first()?.clone();
    let like = device["name"].as_str()?.to_owned();
    device["name"] = json!(format!("{like}-more"));
    devices.push(device);
    let place = node.map(|node| format!(" on node {node}")).unwrap_or_default();
    let text = format!(
        "one more device like {like} of {driver}{place}, or the end of a pod that uses one"
    );
    let key = ObjectKey::cluster_scoped(EventResource::ResourceSlice, name.into());
    Some((driver, Proposal::object("device", size::NODE, text, key, object)))
}

/// The slice of a driver that has none on the node, with a device like those elsewhere.
fn first_device(node: &str, driver: &str, like: Option<&Value>) -> Proposal {
    let name = format!("{node}-{driver}");
    let mut device = like.filter(|own| own.is_object()).cloned().unwrap_or_else(|| json!({}));
    device["name"] = json!("device-0");
    let object = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [device],
        },
    });
    let reason = match like {
        Some(_) => "no node with room has one",
        None => "no ResourceSlice of that driver exists, so that it may not run",
    };
    let text = format!("a device of {driver}, for example on node {node}: {reason}");
    let key = ObjectKey::cluster_scoped(EventResource::ResourceSlice, name.as_str().into());
    Proposal::object("device", size::NODE, text, key, object)
}
