//! The volume controller and the provisioners of a simulated cluster. Both act at once. They carry
//! out the writes of plugins for the volumes of a pod. They also give claims without a class the
//! default class, and bind or provision claims that do not wait for a pod.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use framework::storage::{
    BIND_COMPLETED, PersistentVolume, PersistentVolumeClaim, SELECTED_NODE, StorageClass,
    default_class,
};
use framework::{Cluster, EventResource, NodeView, ObjectKey, Write, merge_patch};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::Object;

const ZONE: &str = "topology.kubernetes.io/zone";

/// The storage objects, as the API server would have them.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    /// Objects by key, as text, which takes a fraction of the memory; looked up, never iterated.
    objects: HashMap<ObjectKey, Box<RawValue>>,
    classes: BTreeMap<Arc<str>, Arc<Value>>,
    /// Namespaces and names of claims that the controller has not synced.
    new_claims: BTreeSet<(Arc<str>, Arc<str>)>,
}

impl Volumes {
    /// Stores the object if it is of a storage kind.
    pub(super) fn keep(&mut self, object: &Object) {
        use EventResource as R;
        let Object { kind, namespace, name, object } = object;
        match kind {
            R::StorageClass => {
                self.classes.insert(name.clone(), object.clone());
            }
            R::PersistentVolume | R::PersistentVolumeClaim | R::CsiNode => {
                if *kind == R::PersistentVolumeClaim {
                    self.new_claims.insert((namespace.clone(), name.clone()));
                }
                let key = ObjectKey::namespaced(kind.clone(), namespace.clone(), name.clone());
                self.objects.extend(to_raw_value(object).ok().map(|raw| (key, raw)));
            }
            _ => {}
        }
    }

    /// Syncs one new claim without regard to pods. Returns the objects that change; `None` if there
    /// is not a new claim.
    pub(super) fn sync_claim(&mut self, cluster: &Cluster) -> Option<Vec<Object>> {
        let (namespace, name) = self.new_claims.pop_first()?;
        let claim = cluster.claim(&namespace, &name);
        let claim = claim.filter(|claim| !claim.is_fully_bound() && !claim.terminating);
        Some(claim.map_or_else(Vec::new, |claim| self.sync(claim, cluster)))
    }

    fn sync(&mut self, claim: &PersistentVolumeClaim, cluster: &Cluster) -> Vec<Object> {
        if let Some(given) = self.set_default_class(claim) {
            return vec![given];
        }
        if let Some(volume) = volume_for(claim, cluster) {
            return self.reserve(volume, claim);
        }
        let is_due = |class: &&Arc<StorageClass>| {
            class.provisions() && !class.waits_for_first_consumer() && claim.volume_name.is_none()
        };
        match cluster.storage_class(&claim.class).filter(is_due) {
            Some(class) => {
                let terms = self.allowed_topologies(class);
                self.make(claim, class, terms)
            }
            None => Vec::new(),
        }
    }

    /// Sets the default class of the claim, if it has none. The claim is then synced again.
    fn set_default_class(&mut self, claim: &PersistentVolumeClaim) -> Option<Object> {
        let key = key_of(claim);
        let classes = self.classes.values().map(|class| &**class);
        let class = default_class::class_for(classes, &self.object(&key)?)?.to_owned();
        self.new_claims.insert((claim.namespace.clone(), claim.name.clone()));
        self.patch(key, &json!({"spec": {"storageClassName": class}}))
    }

    fn reserve(&mut self, volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Vec<Object> {
        let patch = json!({"spec": {"claimRef": reference(claim)}});
        let reserved = self.patch(volume_key(&volume.name), &patch);
        reserved.map_or_else(Vec::new, |volume| self.bind(volume))
    }

    /// Applies a write of a plugin. Returns the changed objects, the written one first; empty for
    /// objects of other kinds.
    pub(super) fn write(&mut self, write: &Write, cluster: &Cluster) -> Vec<Object> {
        let Write { namespace, name, .. } = write;
        let patch = write.body();
        match &*write.resource {
            "persistentvolumes" => {
                let written = self.patch(volume_key(name), patch);
                written.map_or_else(Vec::new, |volume| self.bind(volume))
            }
            "persistentvolumeclaims" => {
                let written = self.patch(claim_key(namespace, name), patch);
                written.map_or_else(Vec::new, |claim| self.provision(claim, cluster))
            }
            _ => Vec::new(),
        }
    }

    /// Completes the binding of a volume to the claim in its `claimRef`.
    fn bind(&mut self, volume: Object) -> Vec<Object> {
        let claim = &volume.object["spec"]["claimRef"];
        let [namespace, name] = ["namespace", "name"].map(|field| text(&claim[field]));
        let bound = json!({
            "metadata": {"annotations": {BIND_COMPLETED: "yes"}},
            "spec": {"volumeName": &*volume.name},
            "status": {"phase": "Bound"},
        });
        let claim = self.patch(claim_key(&namespace, &name), &bound);
        let phase = json!({"status": {"phase": "Bound"}});
        let bound = self.patch(volume_key(&volume.name), &phase);
        [Some(volume), bound, claim].into_iter().flatten().collect()
    }

    /// Provisions the volume of a claim with a selected node.
    fn provision(&mut self, written: Object, cluster: &Cluster) -> Vec<Object> {
        let node = text(&written.object["metadata"]["annotations"][SELECTED_NODE]);
        let made = cluster.claim(&written.namespace, &written.name).and_then(|claim| {
            let class = cluster.storage_class(&claim.class)?;
            let node = cluster.node(cluster.node_named(&node)?);
            let terms = self.topology_of(&class.provisioner, &node);
            Some(self.make(claim, class, terms))
        });
        [vec![written], made.unwrap_or_default()].concat()
    }

    /// Creates a volume for the claim. The nodes of these terms can use it, or all nodes without
    /// terms.
    fn make(
        &mut self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        terms: Vec<Value>,
    ) -> Vec<Object> {
        let wanted = self.object(&key_of(claim)).unwrap_or_default();
        let wanted = &wanted["spec"];
        let name: Arc<str> = format!("pvc-{}", claim.uid).into();
        let mut spec = json!({
            "capacity": wanted["resources"]["requests"],
            "accessModes": wanted["accessModes"],
            "volumeMode": wanted["volumeMode"],
            "storageClassName": &*class.name,
            "csi": {"driver": &*class.provisioner, "volumeHandle": &*name},
            "claimRef": reference(claim),
        });
        if !terms.is_empty() {
            spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
        }
        let object = json!({"metadata": {"name": &*name, "uid": &*name}, "spec": spec});
        let kind = EventResource::PersistentVolume;
        let volume = Object { kind, namespace: "".into(), name, object: object.into() };
        self.keep(&volume);
        self.bind(volume)
    }

    /// Returns the term for the nodes in the topology of `node`, as the driver defines it.
    fn topology_of(&self, driver: &str, node: &NodeView<'_>) -> Vec<Value> {
        let places = self.topology_keys(driver, node).into_iter().filter_map(|key| {
            let value = node.label(&key)?;
            Some(json!({"key": key, "operator": "In", "values": [value]}))
        });
        let places: Vec<Value> = places.collect();
        let term = (!places.is_empty()).then(|| json!({"matchExpressions": places}));
        term.into_iter().collect()
    }

    /// Returns the terms for the topologies that the class allows.
    fn allowed_topologies(&self, class: &StorageClass) -> Vec<Value> {
        let requirement =
            |own: &Value| json!({"key": own["key"], "operator": "In", "values": own["values"]});
        let terms = self.classes.get(&class.name).map(|class| list(&class["allowedTopologies"]));
        let terms = terms.unwrap_or_default().iter().map(|term| {
            let places = list(&term["matchLabelExpressions"]).iter().map(requirement);
            json!({"matchExpressions": places.collect::<Vec<_>>()})
        });
        terms.collect()
    }

    /// Returns the topology labels of a driver. A driver without topology labels is assumed to
    /// provision per zone.
    fn topology_keys(&self, driver: &str, node: &NodeView<'_>) -> Vec<String> {
        let csi_node = ObjectKey::cluster_scoped(EventResource::CsiNode, node.name().clone());
        let csi_node = self.object(&csi_node).unwrap_or_default();
        let own = list(&csi_node["spec"]["drivers"]).iter().find(|own| own["name"] == driver);
        match own.and_then(|own| own["topologyKeys"].as_array()) {
            Some(keys) => keys.iter().map(text).collect(),
            None => vec![ZONE.to_owned()],
        }
    }

    /// Patches an object, if it exists, and increments its version.
    fn patch(&mut self, key: ObjectKey, patch: &Value) -> Option<Object> {
        let mut changed = self.object(&key)?;
        merge_patch(&mut changed, patch);
        let version = text(&changed["metadata"]["resourceVersion"]).parse::<u64>();
        let version = version.unwrap_or_default().saturating_add(1);
        changed["metadata"]["resourceVersion"] = version.to_string().into();
        self.objects.insert(key.clone(), to_raw_value(&changed).ok()?);
        let ObjectKey { kind, namespace, name } = key;
        Some(Object { kind, namespace, name, object: changed.into() })
    }

    fn object(&self, key: &ObjectKey) -> Option<Value> {
        serde_json::from_str(self.objects.get(key)?.get()).ok()
    }
}

/// Returns the existing volume for a claim: the volume it names, or one reserved for it. For a
/// claim that does not wait for a pod it also returns the smallest volume that fits.
fn volume_for<'a>(
    claim: &PersistentVolumeClaim,
    cluster: &'a Cluster,
) -> Option<&'a Arc<PersistentVolume>> {
    if let Some(name) = &claim.volume_name {
        let is_usable = |own: &&Arc<PersistentVolume>| {
            own.is_for(claim)
                || own.claim_ref.is_none() && own.class == claim.class && own.suits(claim)
        };
        return cluster.volume(name).filter(is_usable);
    }
    let mut reserved = cluster.volumes_reserved_for(&claim.namespace, &claim.name);
    let is_for =
        |own: &&Arc<PersistentVolume>| own.is_for(claim) && own.suits(claim) && !own.terminating;
    reserved.find(is_for).or_else(|| {
        let class = cluster.storage_class(&claim.class);
        let waits = class.is_some_and(|class| class.waits_for_first_consumer());
        cluster.free_volumes(&claim.class).filter(|_| !waits)?.smallest_for(claim)
    })
}

fn volume_key(name: &str) -> ObjectKey {
    ObjectKey::cluster_scoped(EventResource::PersistentVolume, name.into())
}

fn claim_key(namespace: &str, name: &str) -> ObjectKey {
    let kind = EventResource::PersistentVolumeClaim;
    ObjectKey::namespaced(kind, namespace.into(), name.into())
}

fn key_of(claim: &PersistentVolumeClaim) -> ObjectKey {
    claim_key(&claim.namespace, &claim.name)
}

/// Returns the `claimRef` of a volume for this claim.
fn reference(claim: &PersistentVolumeClaim) -> Value {
    let PersistentVolumeClaim { namespace, name, uid, .. } = claim;
    json!({"namespace": &**namespace, "name": &**name, "uid": uid.to_string()})
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
