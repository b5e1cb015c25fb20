//! Loading of manifests, or of the dump of a cluster, into the sandbox.
//!
//! Objects are created as by a POST: CustomResourceDefinitions first, owners before their
//! dependents. From a dump the loader also keeps the status of objects and the priority of pods,
//! writes the new UIDs of owners and of claims, and creates namespaces and priority classes that
//! the dump leaves out.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use framework::Time;
use sandbox::resources::{
    CUSTOMRESOURCEDEFINITIONS, LIMITRANGES, NAMESPACES, NODES, PERSISTENTVOLUMECLAIMS,
    PERSISTENTVOLUMES, PODS, PRIORITYCLASSES, RESOURCECLAIMS, RESOURCESLICES, RUNTIMECLASSES,
    Resource,
};
use sandbox::status::Status;
use sandbox::store::Store;
use serde_json::{Map, Value, json};

use crate::wire::Object;

/// The objects that the loader created.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// Number of objects of each resource.
    counts: BTreeMap<&'static str, usize>,
    /// The objects that the loader left out.
    pub(super) warnings: Vec<String>,
}

impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.counts.is_empty() {
            return f.write_str("no objects");
        }
        for (index, (resource, count)) in self.counts.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{count} {resource}")?;
        }
        Ok(())
    }
}

/// Creates the objects, whatever their order in the input.
///
/// # Errors
/// All rejected objects, one per line.
pub(super) fn load(store: &mut Store, objects: Vec<Object>, now: Time) -> anyhow::Result<Loaded> {
    let mut loader = Loader::new(store, now);
    let mut faults = Vec::new();
    let (definitions, mut others): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|object| object.kind == CUSTOMRESOURCEDEFINITIONS.kind);
    for definition in definitions {
        faults.extend(loader.create_of_kind(definition).err());
    }
    loader.serve_kinds_without_effect(&others);
    others.sort_by_key(|object| loader.turn(object));
    for object in others {
        faults.extend(loader.create_of_kind(object).err());
    }
    if !faults.is_empty() {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        bail!(faults.join("\n"));
    }
    Ok(loader.finish())
}

struct Loader<'a> {
    store: &'a mut Store,
    now: Time,
    /// The version of the store before the load. Older objects are the sandbox's own.
    started: u64,
    /// The new UIDs by those in the input.
    uids: HashMap<String, Value>,
    /// Number of references to owners that were left out.
    orphaned: usize,
    loaded: Loaded,
}

impl<'a> Loader<'a> {
    fn new(store: &'a mut Store, now: Time) -> Self {
        let started = store.resource_version();
        Self { store, now, started, uids: HashMap::new(), orphaned: 0, loaded: Loaded::default() }
    }

    /// Serves the kinds of Kubernetes that the objects have and that the sandbox does not know.
    fn serve_kinds_without_effect(&mut self, objects: &[Object]) {
        let mut unknown = BTreeMap::<(&str, &str), usize>::new();
        for object in objects.iter().filter(|object| self.resource_of(object).is_none()) {
            *unknown.entry((&object.api_version, &object.kind)).or_default() += 1;
        }
        for ((api_version, kind), count) in unknown {
            if self.store.serve_without_effect(api_version, kind).is_some() {
                self.loaded.warnings.push(format!(
                    "{kind} of {api_version} ({count}): stored without effect: the sandbox neither reads nor calls what \
                     it says"
                ));
            }
        }
    }

    /// Returns the rank of an object in the order of creation: namespaces, cluster-scoped objects,
    /// owners, dependents, pods of a dump, LimitRanges, new pods, to which these apply, claims,
    /// which pods may own or reserve, and the volumes of claims. Nodes own their slices.
    fn turn(&self, object: &Object) -> u8 {
        let Some(resource) = self.resource_of(object) else { return 0 };
        if resource == NAMESPACES {
            0
        } else if resource == PERSISTENTVOLUMES {
            8
        } else if resource == PERSISTENTVOLUMECLAIMS || resource == RESOURCECLAIMS {
            7
        } else if resource == LIMITRANGES {
            5
        } else if resource == RESOURCESLICES {
            2
        } else if !resource.namespaced {
            1
        } else if resource == PODS {
            if object.value["metadata"]["uid"].is_string() { 4 } else { 6 }
        } else if object.value["metadata"]["ownerReferences"].is_array() {
            3
        } else {
            2
        }
    }

    fn resource_of(&self, object: &Object) -> Option<&'static Resource> {
        let resource = self.store.resource_of_kind(&object.api_version, &object.kind);
        resource.filter(|resource| resource.stored)
    }

    fn create_of_kind(&mut self, object: Object) -> anyhow::Result<()> {
        let Some(resource) = self.resource_of(&object) else {
            let Object { at, api_version, kind, .. } = object;
            bail!(
                "{at}: {kind}: the sandbox does not know this kind in {api_version}; add its \
                 CustomResourceDefinition to the input"
            );
        };
        self.create(resource, object)
    }

    fn create(&mut self, resource: &'static Resource, object: Object) -> anyhow::Result<()> {
        let Object { at, kind, mut value, .. } = object;
        let (namespace, name) = key(resource, &value);
        if self.is_of_sandbox(resource, &namespace, &name) {
            return Ok(());
        }
        let refused = |why: String| anyhow!("{at}: {kind} {name}: {why}");
        let Some(metadata) = value["metadata"].as_object_mut() else {
            return Err(refused("metadata is missing".to_owned()));
        };
        let uid = metadata.remove("uid");
        metadata.remove("resourceVersion");
        self.name_owners(metadata);
        if resource == PERSISTENTVOLUMES {
            self.name_claim(&mut value);
        }
        if resource == RESOURCECLAIMS {
            self.name_users(&mut value);
        }
        self.ensure_namespace(&namespace).map_err(|status| refused(status.to_string()))?;
        let created = self.create_with_state(resource, value);
        let created = created.map_err(|status| refused(status.to_string()))?;
        if let Some(Value::String(uid)) = uid {
            self.uids.insert(uid, created["metadata"]["uid"].clone());
        }
        *self.loaded.counts.entry(resource.plural).or_default() += 1;
        Ok(())
    }

    /// Creates an object with what a POST ignores: its status, and the priority of a pod, whose
    /// class may be missing in the input. Nodes and definitions get their status from the sandbox.
    fn create_with_state(
        &mut self,
        resource: &'static Resource,
        mut value: Value,
    ) -> Result<Arc<Value>, Status> {
        let own_status = resource == NODES || resource == CUSTOMRESOURCEDEFINITIONS;
        let status = value.get("status").cloned().filter(|_| !own_status);
        let priority = (resource == PODS).then(|| take_priority(&mut value)).flatten();
        if let Some(priority) = &priority {
            self.ensure_priority_class(&value, priority)?;
        }
        if resource == PODS {
            self.ensure_runtime_class(&value)?;
        }
        let created = self.store.create(resource, value, self.now)?;
        let (namespace, name) = key(resource, &created);
        self.store.modify(resource, &namespace, &name, self.now, |object| {
            if let Some(status) = status {
                object["status"] = status;
            }
            if let Some(priority) = priority {
                object["spec"]["priority"] = priority;
            }
            Ok(())
        })
    }

    /// Whether the object is one of the sandbox's own, such as `kube-system`, which a dump has,
    /// too.
    fn is_of_sandbox(&self, resource: &'static Resource, namespace: &str, name: &str) -> bool {
        let version = |object: &Value| object["metadata"]["resourceVersion"].as_str()?.parse().ok();
        let existing = self.store.get(resource, namespace, name);
        existing.and_then(|object| version(object)).is_some_and(|at: u64| at <= self.started)
    }

    /// Writes the new UIDs of owners. References to owners that are not in the input are left out:
    /// the garbage collector would delete the object.
    fn name_owners(&mut self, metadata: &mut Map<String, Value>) {
        let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") else { return };
        let before = owners.len();
        owners.retain_mut(|owner| {
            let uid = owner["uid"].as_str().and_then(|uid| self.uids.get(uid));
            uid.is_some_and(|uid| {
                owner["uid"] = uid.clone();
                true
            })
        });
        self.orphaned += before - owners.len();
        if owners.is_empty() {
            metadata.remove("ownerReferences");
        }
    }

    /// Writes the new UID of the claim of a volume. With the old one the volume would count as
    /// released.
    fn name_claim(&self, volume: &mut Value) {
        let Some(uid) = volume.pointer_mut("/spec/claimRef/uid") else { return };
        if let Some(new) = uid.as_str().and_then(|uid| self.uids.get(uid)) {
            *uid = new.clone();
        }
    }

    /// Writes the new UIDs of the pods that a claim is reserved for. With the old ones they would
    /// count as gone.
    fn name_users(&self, claim: &mut Value) {
        let users = claim.pointer_mut("/status/reservedFor").and_then(Value::as_array_mut);
        for user in users.into_iter().flatten() {
            let new = user["uid"].as_str().and_then(|uid| self.uids.get(uid));
            if let Some(new) = new.cloned() {
                user["uid"] = new;
            }
        }
    }

    fn ensure_namespace(&mut self, namespace: &str) -> Result<(), Status> {
        self.ensure(NAMESPACES, namespace, json!({"metadata": {"name": namespace}}))
    }

    fn ensure_priority_class(&mut self, pod: &Value, priority: &Value) -> Result<(), Status> {
        let name = pod["spec"]["priorityClassName"].as_str().unwrap_or_default();
        self.ensure(PRIORITYCLASSES, name, json!({"metadata": {"name": name}, "value": priority}))
    }

    /// Creates the RuntimeClass of a pod from a dump that leaves it out. The pod has what the class
    /// said.
    fn ensure_runtime_class(&mut self, pod: &Value) -> Result<(), Status> {
        let spec = &pod["spec"];
        let name = spec["runtimeClassName"].as_str().unwrap_or_default();
        if !pod["status"].is_object() {
            return Ok(());
        }
        let mut class = json!({"metadata": {"name": name}, "handler": name});
        if spec["overhead"].is_object() {
            class["overhead"] = json!({"podFixed": spec["overhead"]});
        }
        self.ensure(RUNTIMECLASSES, name, class)
    }

    fn ensure(
        &mut self,
        resource: &'static Resource,
        name: &str,
        object: Value,
    ) -> Result<(), Status> {
        if name.is_empty() || self.store.get(resource, "", name).is_some() {
            return Ok(());
        }
        self.store.create(resource, object, self.now).map(drop)
    }

    fn finish(mut self) -> Loaded {
        if self.orphaned > 0 {
            let count = self.orphaned;
            self.loaded.warnings.push(format!(
                "references to owners that are not in the input are left out: {count}"
            ));
        }
        self.loaded
    }
}

/// Removes from a pod what admission computes, and returns the priority.
fn take_priority(pod: &mut Value) -> Option<Value> {
    let spec = pod.get_mut("spec")?.as_object_mut()?;
    spec.remove("preemptionPolicy");
    spec.remove("priority")
}

/// Returns the namespace (`default` if none is given) and the name of an object.
fn key(resource: &Resource, object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let namespace = match (resource.namespaced, text("namespace")) {
        (false, _) => String::new(),
        (true, given) if given.is_empty() => "default".to_owned(),
        (true, given) => given,
    };
    let name = if text("name").is_empty() { text("generateName") } else { text("name") };
    (namespace, name)
}

#[cfg(test)]
mod tests {
    use sandbox::resources;

    use super::*;
    use crate::wire::unrolled;

    const NOW: Time = Time::from_secs(1_000);

    fn loaded(objects: Value) -> anyhow::Result<(Store, Loaded)> {
        let mut store = Store::new(0, NOW);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let objects = unrolled(list).into_iter().map(Result::unwrap).collect();
        let loaded = load(&mut store, objects, NOW)?;
        Ok((store, loaded))
    }

    fn pod(name: &str, owner: &str) -> Value {
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
            "uid": owner, "controller": true}]);
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "7",
                "ownerReferences": owner},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "web"}]},
            "status": {"phase": "Succeeded"},
        })
    }

    fn replica_set() -> Value {
        let labels = json!({"app": "web"});
        let template = json!({"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "web"}]}});
        json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "web", "namespace": "shop", "uid": "of-web"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
        })
    }

    #[test]
    fn dump_keeps_statuses_and_owner_references_get_the_new_uids() {
        let (store, loaded) = loaded(json!([pod("a", "of-web"), replica_set()])).unwrap();
        let owner = store.get(resources::REPLICASETS, "shop", "web").unwrap();
        let pod = store.get(PODS, "shop", "a").unwrap();
        assert_eq!(pod["status"]["phase"], "Succeeded");
        assert_ne!(owner["metadata"]["uid"], "of-web");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], owner["metadata"]["uid"]);
        assert_eq!(loaded.to_string(), "1 pods, 1 replicasets");
    }

    #[test]
    fn devices_stay_allocated_and_reserved() {
        let user = json!({"resource": "pods", "name": "a", "uid": "a"});
        let result = json!({"request": "r", "driver": "d.io", "pool": "n", "device": "gpu-0"});
        let status =
            json!({"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]});
        let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
        let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "shop", "uid": "c"},
            "spec": {"devices": {"requests": [request]}}, "status": status});
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n"}]);
        let pool = json!({"name": "n", "generation": 1, "resourceSliceCount": 1});
        let slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": {"name": "s", "uid": "s", "ownerReferences": owner},
            "spec": {"driver": "d.io", "nodeName": "n", "pool": pool}});
        let node =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "n"}});
        let (store, loaded) = loaded(json!([slice, claim, pod("a", "missing"), node])).unwrap();
        let claim = store.get(RESOURCECLAIMS, "shop", "c").unwrap();
        let pod = store.get(PODS, "shop", "a").unwrap();
        assert_eq!(claim["status"]["reservedFor"][0]["uid"], pod["metadata"]["uid"]);
        assert_eq!(claim["status"]["allocation"]["devices"]["results"][0]["device"], "gpu-0");
        let slice = store.get(RESOURCESLICES, "", "s").unwrap();
        let node = store.get(NODES, "", "n").unwrap();
        assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
        assert_eq!(loaded.warnings.len(), 1, "the owner of the pod is missing");
    }

    #[test]
    fn volumes_stay_bound_to_claims_and_claims_to_pods() {
        let mut pod = pod("a", "missing");
        pod["spec"]["volumes"] = json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]);
        let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "a",
            "controller": true}]);
        let spec = json!({"accessModes": ["ReadWriteOnce"], "volumeName": "disk",
            "resources": {"requests": {"storage": "1Gi"}}});
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec,
            "metadata": {"name": "a-v", "namespace": "shop", "uid": "claim",
                "ownerReferences": owner}});
        let spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/disk"},
            "claimRef": {"namespace": "shop", "name": "a-v", "uid": "claim"}});
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "spec": spec,
            "metadata": {"name": "disk", "uid": "volume"}, "status": {"phase": "Bound"}});
        let (store, _) = loaded(json!([volume, claim, pod])).unwrap();
        let pod = store.get(PODS, "shop", "a").unwrap();
        let claim = store.get(PERSISTENTVOLUMECLAIMS, "shop", "a-v").unwrap();
        let volume = store.get(PERSISTENTVOLUMES, "", "disk").unwrap();
        assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], pod["metadata"]["uid"]);
        assert_eq!(volume["spec"]["claimRef"]["uid"], claim["metadata"]["uid"]);
    }

    #[test]
    fn references_to_missing_owners_are_left_out() {
        let (store, loaded) = loaded(json!([pod("a", "missing")])).unwrap();
        let pod = store.get(PODS, "shop", "a").unwrap();
        assert!(pod["metadata"].get("ownerReferences").is_none());
        let expected = "references to owners that are not in the input are left out: 1";
        assert_eq!(loaded.warnings, [expected]);
    }

    #[test]
    fn pods_keep_their_priority_without_its_class() {
        let mut pods = [pod("a", ""), pod("b", "")];
        pods[0]["spec"]["priority"] = json!(1_000);
        pods[0]["spec"]["priorityClassName"] = json!("high");
        pods[1]["spec"]["priority"] = json!(7);
        let (store, _) = loaded(json!(pods)).unwrap();
        let priority = |name| &store.get(PODS, "shop", name).unwrap()["spec"]["priority"];
        assert_eq!((priority("a"), priority("b")), (&json!(1_000), &json!(7)));
        assert_eq!(store.get(PRIORITYCLASSES, "", "high").unwrap()["value"], 1_000);
    }

    #[test]
    fn objects_of_the_sandbox_itself_are_skipped() {
        let system = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "kube-system", "uid": "x", "resourceVersion": "3"}});
        let (_, loaded) = loaded(json!([system])).unwrap();
        assert_eq!(loaded.to_string(), "no objects");
    }

    #[test]
    fn every_refused_object_is_named() {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        let unknown = json!({"apiVersion": "example.com/v1", "kind": "Price"});
        let error = loaded(json!([node, node, unknown])).unwrap_err().to_string();
        assert_eq!(
            error,
            "-: items[2]: Price: the sandbox does not know this kind in example.com/v1; add its \
             CustomResourceDefinition to the input\n\
             -: items[1]: Node n: nodes \"n\" already exists"
        );
    }

    #[test]
    fn custom_objects_may_come_before_their_definition() {
        let price = json!({"apiVersion": "example.com/v1", "kind": "Price",
            "metadata": {"name": "p", "uid": "old"}, "spec": {"cents": 5}, "status": {"known": true}});
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "prices.example.com"},
            "spec": {
                "group": "example.com", "scope": "Cluster",
                "names": {"plural": "prices", "kind": "Price"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}],
            },
            "status": {"conditions": [], "storedVersions": []},
        });
        let (store, loaded) = loaded(json!([price, definition])).unwrap();
        assert_eq!(loaded.to_string(), "1 customresourcedefinitions, 1 prices");
        let resource = store.resource_of_kind("example.com/v1", "Price").unwrap();
        let price = store.get(resource, "", "p").unwrap();
        assert_eq!((&price["spec"]["cents"], &price["status"]["known"]), (&json!(5), &json!(true)));
    }

    #[test]
    fn kinds_that_the_sandbox_does_not_know_are_stored_with_a_warning() {
        let hook = json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "hook"},
            "webhooks": [{"name": "a.example.com"}]});
        let old = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web"}, "spec": {"maxReplicas": 3}});
        let (store, loaded) = loaded(json!([hook, old])).unwrap();
        let kinds = [
            ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "hook"),
            ("autoscaling/v1", "HorizontalPodAutoscaler", "default", "web"),
        ];
        for (version, kind, namespace, name) in kinds {
            let resource = store.resource_of_kind(version, kind).unwrap();
            assert!(store.get(resource, namespace, name).is_some(), "{kind}");
        }
        assert_eq!(
            loaded.warnings,
            [
                "ValidatingWebhookConfiguration of admissionregistration.k8s.io/v1 (1): stored without effect: the \
                 sandbox neither reads nor calls what it says",
                "HorizontalPodAutoscaler of autoscaling/v1 (1): stored without effect: the sandbox neither reads nor \
                 calls what it says",
            ]
        );
    }

    #[test]
    fn new_pods_get_the_defaults_of_limit_ranges_and_dumped_ones_keep_theirs() {
        let item = json!({"type": "Container", "defaultRequest": {"cpu": "1"}});
        let range = json!({"apiVersion": "v1", "kind": "LimitRange",
            "metadata": {"name": "r", "namespace": "shop"}, "spec": {"limits": [item]}});
        let mut new = pod("new", "");
        new["metadata"] = json!({"name": "new", "namespace": "shop"});
        let (store, _) = loaded(json!([pod("old", ""), new, range])).unwrap();
        let requests = |name| {
            let pod = store.get(PODS, "shop", name).unwrap();
            pod["spec"]["containers"][0]["resources"]["requests"].clone()
        };
        assert_eq!((requests("old"), requests("new")), (json!(null), json!({"cpu": "1"})));
    }

    #[test]
    fn dumped_pods_keep_the_overhead_of_a_missing_runtime_class() {
        let mut pod = pod("vm", "");
        pod["spec"]["runtimeClassName"] = json!("kata");
        pod["spec"]["overhead"] = json!({"cpu": "250m"});
        let (store, _) = loaded(json!([pod])).unwrap();
        let class = store.get(RUNTIMECLASSES, "", "kata").unwrap();
        assert_eq!(class["overhead"]["podFixed"], json!({"cpu": "250m"}));
    }
}
