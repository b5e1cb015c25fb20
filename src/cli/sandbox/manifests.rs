//! Loads manifests, or the dump of a cluster, into the sandbox.
//!
//! Objects are created as by POST, owners before their dependents. Additional data of a dump is
//! kept where possible: status and priority of pods are written, references to owners and claims
//! get the new uids, and missing namespaces and priority classes are created.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use framework::Time;
use sandbox::resources::{
    self, NAMESPACES, NODES, PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, PODS, PRIORITYCLASSES,
    Resource,
};
use sandbox::status::Status;
use sandbox::store::Store;
use serde_json::{Map, Value, json};

use crate::wire::Object;

/// Result of loading.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// Number of created objects by resource.
    counts: BTreeMap<&'static str, usize>,
    /// Warnings about data that was left out.
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

/// Creates the objects.
///
/// # Errors
/// All rejected objects, one per line.
pub(super) fn load(store: &mut Store, objects: Vec<Object>, now: Time) -> anyhow::Result<Loaded> {
    let mut loader = Loader::new(store, now);
    let (mut known, mut faults) = (Vec::new(), Vec::new());
    for object in objects {
        match resource_of(&object) {
            Ok(resource) => known.push((resource, object)),
            Err(fault) => faults.push(fault.to_string()),
        }
    }
    known.sort_by_key(|(resource, object)| turn(resource, &object.value));
    for (resource, object) in known {
        if let Err(fault) = loader.create(resource, object) {
            faults.push(fault.to_string());
        }
    }
    if !faults.is_empty() {
        bail!(faults.join("\n"));
    }
    Ok(loader.finish())
}

fn resource_of(object: &Object) -> anyhow::Result<&'static Resource> {
    let Object { at, api_version, kind, .. } = object;
    let resource = resources::of_kind(api_version, kind);
    let stored = resource.filter(|resource| resource.stored);
    stored.ok_or_else(|| anyhow!("{at}: {kind}: the sandbox has no such kind in {api_version}"))
}

/// Returns the position of an object in the order of creation: namespaces, objects without owner,
/// owners, dependents, pods, claims (which pods may own), and the volumes of claims.
fn turn(resource: &Resource, object: &Value) -> u8 {
    if resource == NAMESPACES {
        0
    } else if resource == PERSISTENTVOLUMES {
        6
    } else if resource == PERSISTENTVOLUMECLAIMS {
        5
    } else if !resource.namespaced {
        1
    } else if resource == PODS {
        4
    } else if object["metadata"]["ownerReferences"].is_array() {
        3
    } else {
        2
    }
}

struct Loader<'a> {
    store: &'a mut Store,
    now: Time,
    /// The resource version before loading; older objects belong to the sandbox itself.
    started: u64,
    /// The new uid of each old uid.
    uids: HashMap<String, Value>,
    /// Number of owner references that were left out.
    orphaned: usize,
    loaded: Loaded,
}

impl<'a> Loader<'a> {
    fn new(store: &'a mut Store, now: Time) -> Self {
        let started = store.resource_version();
        Self { store, now, started, uids: HashMap::new(), orphaned: 0, loaded: Loaded::default() }
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
        self.ensure_namespace(&namespace).map_err(|status| refused(status.to_string()))?;
        let created = self.create_with_state(resource, value);
        let created = created.map_err(|status| refused(status.to_string()))?;
        if let Some(Value::String(uid)) = uid {
            self.uids.insert(uid, created["metadata"]["uid"].clone());
        }
        *self.loaded.counts.entry(resource.plural).or_default() += 1;
        Ok(())
    }

    /// Creates an object with data that a POST does not accept from a client: its status, and the
    /// priority that admission computed for a pod, whose class may be missing here.
    fn create_with_state(
        &mut self,
        resource: &'static Resource,
        mut value: Value,
    ) -> Result<Arc<Value>, Status> {
        let status = value.get("status").cloned().filter(|_| resource != NODES);
        let priority = (resource == PODS).then(|| take_priority(&mut value)).flatten();
        if let Some(priority) = &priority {
            self.ensure_priority_class(&value, priority)?;
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

    /// Whether the sandbox itself created this object, such as `kube-system`; a dump contains it,
    /// too.
    fn is_of_sandbox(&self, resource: &'static Resource, namespace: &str, name: &str) -> bool {
        let version = |object: &Value| object["metadata"]["resourceVersion"].as_str()?.parse().ok();
        let existing = self.store.get(resource, namespace, name);
        existing.and_then(|object| version(object)).is_some_and(|at: u64| at <= self.started)
    }

    /// Writes the new uids of owners. The garbage collector would delete an object with a missing
    /// owner, so that reference is left out.
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

    /// Writes the new uid of the claim of a volume. Otherwise the volume would count as released.
    fn name_claim(&self, volume: &mut Value) {
        let Some(uid) = volume.pointer_mut("/spec/claimRef/uid") else { return };
        if let Some(new) = uid.as_str().and_then(|uid| self.uids.get(uid)) {
            *uid = new.clone();
        }
    }

    fn ensure_namespace(&mut self, namespace: &str) -> Result<(), Status> {
        self.ensure(NAMESPACES, namespace, json!({"metadata": {"name": namespace}}))
    }

    fn ensure_priority_class(&mut self, pod: &Value, priority: &Value) -> Result<(), Status> {
        let name = pod["spec"]["priorityClassName"].as_str().unwrap_or_default();
        self.ensure(PRIORITYCLASSES, name, json!({"metadata": {"name": name}, "value": priority}))
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

/// Removes fields of a pod that admission computes again.
fn take_priority(pod: &mut Value) -> Option<Value> {
    let spec = pod.get_mut("spec")?.as_object_mut()?;
    spec.remove("preemptionPolicy");
    spec.remove("priority")
}

/// Returns namespace (`default` if absent) and name of an object.
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
    fn a_dump_keeps_its_status_and_owners_get_their_new_uids() {
        let (store, loaded) = loaded(json!([pod("a", "of-web"), replica_set()])).unwrap();
        let owner = store.get(resources::REPLICASETS, "shop", "web").unwrap();
        let pod = store.get(PODS, "shop", "a").unwrap();
        assert_eq!(pod["status"]["phase"], "Succeeded");
        assert_ne!(owner["metadata"]["uid"], "of-web");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], owner["metadata"]["uid"]);
        assert_eq!(loaded.to_string(), "1 pods, 1 replicasets");
    }

    #[test]
    fn volumes_stay_bound_to_their_claims_and_those_to_their_pods() {
        let mut pod = pod("a", "nobody");
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
    fn references_to_owners_that_are_missing_are_left_out() {
        let (store, loaded) = loaded(json!([pod("a", "of-nobody")])).unwrap();
        let pod = store.get(PODS, "shop", "a").unwrap();
        assert!(pod["metadata"].get("ownerReferences").is_none());
        let expected = "references to owners that are not in the input are left out: 1";
        assert_eq!(loaded.warnings, [expected]);
    }

    #[test]
    fn a_priority_stays_even_if_its_class_is_not_in_the_dump() {
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
    fn what_the_sandbox_has_of_itself_may_be_in_the_dump() {
        let system = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "kube-system", "uid": "x", "resourceVersion": "3"}});
        let (_, loaded) = loaded(json!([system])).unwrap();
        assert_eq!(loaded.to_string(), "no objects");
    }

    #[test]
    fn everything_that_is_refused_is_named() {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        let unknown = json!({"apiVersion": "example.com/v1", "kind": "Price"});
        let error = loaded(json!([node, node, unknown])).unwrap_err().to_string();
        assert_eq!(
            error,
            "-: items[2]: Price: the sandbox has no such kind in example.com/v1\n\
             -: items[1]: Node n: nodes \"n\" already exists"
        );
    }
}
