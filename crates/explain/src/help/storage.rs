//! Help for pods whose volumes keep them from every node: claims, classes and volumes that do not
//! exist, and limits.

use engine::Change;
use framework::storage::PersistentVolumeClaim;
use framework::{EventResource, NodeIx, ObjectKey, Pod};
use serde_json::{Value, json};

use super::{Proposal, are_siblings, size};
use crate::lab::Lab;
use crate::now::Findings;

const BINDING: &str = "VolumeBinding";
const RESTRICTIONS: &str = "VolumeRestrictions";
const LIMITS: &str = "NodeVolumeLimits";
/// The annotation of claims whose binding is complete.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

pub(super) fn proposals(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let pod = &findings.pod;
    let names = pod.spec.volumes.iter().filter_map(|volume| volume.claim_name(&pod.key.name));
    // More storage is the more natural remedy than a volume that somebody makes.
    let mut proposals = free_storage(lab, findings);
    proposals.extend(topologies(lab, findings));
    for name in names {
        match lab.cluster().claim(&pod.key.namespace, &name) {
            None => proposals.push(missing_claim(lab, pod, &name)),
            Some(claim) if claim.terminating || claim.lost => {
                proposals.push(lost_claim(lab, pod, claim));
            }
            Some(claim) if claim.volume_name.is_none() || !claim.bind_completed => {
                proposals.extend(unbound(lab, claim));
            }
            Some(claim) => proposals.extend(lost(lab, claim)),
        }
    }
    proposals.extend(exclusive(lab, findings));
    proposals.extend(limits(lab, findings));
    proposals
}

/// A claim that the pod names and that does not exist.
fn missing_claim(lab: &Lab<'_>, pod: &Pod, name: &str) -> Proposal {
    let class = delayed_class(lab);
    let of_class =
        class.as_ref().map(|class| format!(", for example of class {class}")).unwrap_or_default();
    let text = format!("create the PersistentVolumeClaim {}/{name}{of_class}", pod.key.namespace);
    new_claim(pod, name, class, text)
}

/// A claim that no pod can use any more.
fn lost_claim(lab: &Lab<'_>, pod: &Pod, claim: &PersistentVolumeClaim) -> Proposal {
    let (namespace, name) = (&claim.namespace, &claim.name);
    let reason = if claim.terminating { "it is being deleted" } else { "its volume is lost" };
    let text = format!("create the PersistentVolumeClaim {namespace}/{name} again: {reason}");
    let class = is_delayed(lab, &claim.class).then(|| claim.class.to_string());
    new_claim(pod, name, class, text)
}

/// Makes a claim with a class that provisions a volume where the pod runs. Without a class the
/// claim has a volume.
fn new_claim(pod: &Pod, name: &str, class: Option<String>, text: String) -> Proposal {
    let namespace = &pod.key.namespace;
    let (claim, mut changes) = match &class {
        Some(class) => (claim_object(namespace, name, Some(class), None), Vec::new()),
        None => {
            let volume = format!("volume-for-{name}");
            let object = volume_object(
                &volume,
                "",
                "1Gi",
                &json!(["ReadWriteOnce"]),
                claim_ref(namespace, name),
            );
            let change = object_change(EventResource::PersistentVolume, "", &volume, object);
            (claim_object(namespace, name, Some(""), Some(&volume)), change.into_iter().collect())
        }
    };
    changes.extend(object_change(EventResource::PersistentVolumeClaim, namespace, name, claim));
    Proposal::new("claim", size::MISSING, text, changes)
}

/// Returns the first class by name that binds claims when a pod has a node, and provisions volumes.
fn delayed_class(lab: &Lab<'_>) -> Option<String> {
    let objects = lab.cluster().stored_objects_after(None);
    let mut classes = objects.filter(|object| *object.kind() == EventResource::StorageClass);
    let class = classes.find(|object| is_delayed(lab, object.name()));
    class.map(|object| object.name().to_string())
}

fn is_delayed(lab: &Lab<'_>, class: &str) -> bool {
    let class = lab.cluster().storage_class(class);
    class.is_some_and(|class| class.waits_for_first_consumer() && class.provisions())
}

/// A claim without a volume: its class does not exist, or a volume is missing.
fn unbound(lab: &Lab<'_>, claim: &PersistentVolumeClaim) -> Vec<Proposal> {
    let PersistentVolumeClaim { namespace, name, class, .. } = claim;
    let mut proposals = Vec::new();
    if !class.is_empty() && lab.cluster().storage_class(class).is_none() {
        let object = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": &**class},
            "provisioner": "example.com/provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        });
        let text = format!(
            "create the StorageClass {class}, which claim {namespace}/{name} names, with a provisioner of the \
             cluster and WaitForFirstConsumer"
        );
        let key = ObjectKey::cluster_scoped(EventResource::StorageClass, class.clone());
        proposals.push(Proposal::object("class", size::MISSING, text, key, object));
    }
    proposals.push(volume_for(lab, claim));
    proposals
}

/// A volume for a claim, bound to it.
fn volume_for(lab: &Lab<'_>, claim: &PersistentVolumeClaim) -> Proposal {
    let PersistentVolumeClaim { namespace, name, class, .. } = claim;
    let kind = EventResource::PersistentVolumeClaim;
    let key = ObjectKey::namespaced(kind, namespace.clone(), name.clone());
    let stored = lab.cluster().stored_object(&key);
    let mut object = stored.map(|stored| Value::clone(&stored.json())).unwrap_or_default();
    let size = size_of(lab, claim);
    let mut modes = object["spec"]["accessModes"].clone();
    if modes.is_null() {
        modes = json!(["ReadWriteOnce"]);
    }
    let volume = format!("volume-for-{name}");
    let made = volume_object(&volume, class, &size, &modes, claim_ref(namespace, name));
    object["spec"]["volumeName"] = json!(volume);
    object["metadata"]["annotations"][BIND_COMPLETED] = json!("yes");
    object["status"]["phase"] = json!("Bound");
    let of_class = if class.is_empty() { String::new() } else { format!(" of class {class}") };
    let text = format!(
        "create a PersistentVolume of {size}{of_class} for claim {namespace}/{name}, which is bound to no volume"
    );
    let changes = [
        object_change(EventResource::PersistentVolume, "", &volume, made),
        object_change(EventResource::PersistentVolumeClaim, namespace, name, object),
    ];
    Proposal::new("volume", size::NODE, text, changes.into_iter().flatten().collect())
}

/// Free storage for a claim whose volume the driver would make where the pod runs.
fn free_storage(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let cluster = lab.cluster();
    let Some(node) = findings.rejected_only_by(&[BINDING], cluster).iter().next() else {
        return Vec::new();
    };
    let node = cluster.to_node(node);
    let mut proposals = Vec::new();
    for claim in unbound_claims(lab, findings) {
        let (class, size) = (&claim.class, size_of(lab, claim));
        let labels: serde_json::Map<String, Value> =
            node.labels.iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
        let object = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"namespace": "default", "name": "capacity-for-the-claim"},
            "storageClassName": &**class,
            "nodeTopology": {"matchLabels": labels},
            "capacity": size,
        });
        let text = format!("{size} of free storage of class {class} on node {}", node.name);
        let key = ObjectKey::namespaced(
            EventResource::CsiStorageCapacity,
            "default".into(),
            "capacity-for-the-claim".into(),
        );
        proposals.push(Proposal::object("storageCapacity", size::NODE, text, key, object));
    }
    proposals
}

/// A StorageClass that makes volumes where an open node is, too.
fn topologies(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let cluster = lab.cluster();
    let Some(node) = findings.rejected_only_by(&[BINDING], cluster).iter().next() else {
        return Vec::new();
    };
    let view = cluster.node(node);
    let proposal = |claim: &PersistentVolumeClaim| {
        let class = &claim.class;
        let key = ObjectKey::cluster_scoped(EventResource::StorageClass, class.clone());
        let mut object = Value::clone(&cluster.stored_object(&key)?.json());
        let terms = object["allowedTopologies"].as_array_mut()?;
        let allowed = terms.first()?["matchLabelExpressions"].as_array()?.clone();
        let key = |own: &Value| own["key"].as_str().map(str::to_owned);
        let here = allowed.iter().map(|own| {
            let key = key(own)?;
            let value = view.label(&key)?.to_owned();
            Some((key, value))
        });
        let here: Vec<(String, String)> = here.collect::<Option<_>>()?;
        let expressions = here.iter().map(|(key, value)| json!({"key": key, "values": [value]}));
        terms.push(json!({"matchLabelExpressions": expressions.collect::<Vec<_>>()}));
        let place: Vec<String> = here.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let text = format!(
            "let the StorageClass {class} make volumes where {}, too: its allowedTopologies leave that out",
            place.join(", ")
        );
        let key = ObjectKey::cluster_scoped(EventResource::StorageClass, class.clone());
        Some(Proposal::object("topology", size::NODE - 0.1, text, key, object))
    };
    unbound_claims(lab, findings).filter_map(proposal).collect()
}

/// Returns the claims of the pod that get a volume where the pod runs.
pub(super) fn unbound_claims<'a>(
    lab: &'a Lab<'_>,
    findings: &'a Findings,
) -> impl Iterator<Item = &'a PersistentVolumeClaim> {
    let pod = &findings.pod;
    let claims = pod.spec.volumes.iter().filter_map(move |volume| {
        let name = volume.claim_name(&pod.key.name)?;
        Some(&**lab.cluster().claim(&pod.key.namespace, &name)?)
    });
    claims.filter(|claim| claim.volume_name.is_none() && is_delayed(lab, &claim.class))
}

/// Returns the size that a claim requests.
fn size_of(lab: &Lab<'_>, claim: &PersistentVolumeClaim) -> String {
    let kind = EventResource::PersistentVolumeClaim;
    let key = ObjectKey::namespaced(kind, claim.namespace.clone(), claim.name.clone());
    let stored = lab.cluster().stored_object(&key).map(|stored| stored.json());
    let size = stored.as_ref().map(|stored| &stored["spec"]["resources"]["requests"]["storage"]);
    size.and_then(Value::as_str).unwrap_or("1Gi").to_owned()
}

/// A volume that a claim is bound to and that does not exist.
fn lost(lab: &Lab<'_>, claim: &PersistentVolumeClaim) -> Option<Proposal> {
    let volume = claim.volume_name.as_ref()?;
    if lab.cluster().volume(volume).is_some() {
        return None;
    }
    let PersistentVolumeClaim { namespace, name, class, .. } = claim;
    let object =
        volume_object(volume, class, "1Gi", &json!(["ReadWriteOnce"]), claim_ref(namespace, name));
    let text = format!(
        "restore the PersistentVolume {volume}, which claim {namespace}/{name} is bound to"
    );
    let key = ObjectKey::cluster_scoped(EventResource::PersistentVolume, volume.clone());
    Some(Proposal::object("volume", size::NODE, text, key, object))
}

fn claim_ref(namespace: &str, name: &str) -> Value {
    json!({"namespace": namespace, "name": name})
}

fn volume_object(name: &str, class: &str, size: &str, modes: &Value, claim: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": class,
            "capacity": {"storage": size},
            "accessModes": modes,
            "claimRef": claim,
        },
        "status": {"phase": "Bound"},
    })
}

fn claim_object(namespace: &str, name: &str, class: Option<&str>, volume: Option<&str>) -> Value {
    let mut claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": namespace, "name": name, "uid": format!("claim-{name}")},
        "spec": {
            "storageClassName": class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    });
    if let Some(volume) = volume {
        claim["metadata"]["annotations"] = json!({BIND_COMPLETED: "yes"});
        claim["spec"]["volumeName"] = json!(volume);
        claim["status"]["phase"] = json!("Bound");
    }
    claim
}

fn object_change(
    kind: EventResource,
    namespace: &str,
    name: &str,
    object: Value,
) -> Option<Change> {
    let key = ObjectKey::namespaced(kind, namespace.into(), name.into());
    Change::decode(key, Some(object)).ok()
}

/// The pod that uses a claim which only one pod may use, or the same disk on a node.
fn exclusive(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let (cluster, pod) = (lab.cluster(), &findings.pod);
    let mut proposals = Vec::new();
    for volume in &pod.spec.volumes {
        let Some(name) = volume.claim_name(&pod.key.name) else { continue };
        let claim = cluster.claim(&pod.key.namespace, &name);
        if claim.is_some_and(|claim| claim.is_for_one_pod()) {
            let users = cluster.pods_with_claim(&pod.key.namespace, &name);
            proposals.extend(users.filter(|user| user.uid != pod.uid).map(|user| {
                let text = format!(
                    "one pod fewer: {} uses claim {name}, which only one pod may use",
                    user.key
                );
                Proposal::without("exclusive", text, user)
            }));
        }
    }
    let disks: Vec<_> = pod.spec.volumes.iter().filter_map(framework::PodVolume::disk).collect();
    for node in findings.rejected_only_by(&[RESTRICTIONS], cluster).iter().take(16) {
        let uses = |other: &Pod| {
            let mut own = other.spec.volumes.iter().filter_map(framework::PodVolume::disk);
            own.any(|disk| disks.contains(&disk))
        };
        let mut users = cluster.node(node).pods().filter(|other| uses(other));
        if let (Some(user), None) = (users.next(), users.next()) {
            let text = format!(
                "one pod fewer: {} uses the same disk on node {}",
                user.key,
                cluster.node_name(node)
            );
            proposals.push(Proposal::without("exclusive", text, user));
        }
    }
    proposals
}

/// A node that has as many volumes attached as its driver allows.
fn limits(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let cluster = lab.cluster();
    let mut proposals = Vec::new();
    for node in findings.rejected_only_by(&[LIMITS], cluster).iter().take(16) {
        let with_claims = |pod: &&std::sync::Arc<Pod>| {
            pod.spec.volumes.iter().any(|volume| volume.claim_name(&pod.key.name).is_some())
        };
        let is_foreign = |pod: &&std::sync::Arc<Pod>| !are_siblings(&findings.pod, pod);
        let pods = cluster.node(node).pods().filter(with_claims).filter(is_foreign);
        let least = pods.min_by_key(|pod| (pod.priority(), pod.key.clone()));
        let name = cluster.node_name(node);
        proposals.extend(least.map(|pod| {
            let text =
                format!("one pod with a volume fewer on node {name}, for example {}", pod.key);
            Proposal::without("limit", text, pod)
        }));
        proposals.extend(higher_limit(lab, node));
    }
    proposals
}

/// A CSINode whose drivers allow one volume more.
fn higher_limit(lab: &Lab<'_>, node: NodeIx) -> Option<Proposal> {
    let name = lab.cluster().node_name(node);
    let key = ObjectKey::cluster_scoped(EventResource::CsiNode, name.clone());
    let mut object = Value::clone(&lab.cluster().stored_object(&key)?.json());
    for driver in object["spec"]["drivers"].as_array_mut()? {
        if let Some(count) = driver["allocatable"]["count"].as_i64() {
            driver["allocatable"]["count"] = json!(count + 1);
        }
    }
    let text = format!("one more volume allowed on node {name} by its CSI driver");
    Some(Proposal::object("limitOfDriver", size::OTHER_POD + 0.5, text, key, object))
}
