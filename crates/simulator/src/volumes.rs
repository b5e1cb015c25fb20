//! The volume controller and the provisioners of a simulated cluster. They act at once: they bind and
//! make the volumes of a pod, give the default class to a claim without a class, and bind a claim that
//! does not wait for a pod.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use framework::storage::{
    BIND_COMPLETED, PersistentVolume, PersistentVolumeClaim, SELECTED_NODE, StorageClass,
    default_class,
};
use framework::{Cluster, EventResource, NodeView, ObjectKey, Write, merge_patch};
use serde_json::{Value, json};

use crate::Object;

const ZONE: &str = "topology.kubernetes.io/zone";

/// The objects that volumes are made of, as the API server would have them.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    /// Looked up by name, never iterated.
    objects: HashMap<ObjectKey, Arc<Value>>,
    classes: BTreeMap<Arc<str>, Arc<Value>>,
    /// Namespaces and names of the claims that wait for the controller.
    new_claims: BTreeSet<(Arc<str>, Arc<str>)>,
}

impl Volumes {
    /// Keeps the object if volumes have to do with it.
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
                self.objects.insert(key, object.clone());
            }
            _ => {}
        }
    }

    /// Does what is due without any pod for one of the claims that are new. Returns the objects
    /// that change with it; `None` if there is no such claim.
    pub(super) fn sync_claim(&mut self, cluster: &Cluster) -> Option<Vec<Object>> {
        let (namespace, name) = self.new_claims.pop_first()?;
        let claim = cluster.claim(&namespace, &name);
        let claim = claim.filter(|claim| !claim.is_fully_bound() && !claim.terminating);
        Some(claim.map_or_else(Vec::new, |claim| self.sync(claim, cluster)))
    }

    fn sync(&mut self, claim: &PersistentVolumeClaim, cluster: &Cluster) -> Vec<Object> {
        if let Some(given) = self.give_class(claim) {
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

    /// Gives the claim the default class, if it is one for it. It is then looked at once more.
    fn give_class(&mut self, claim: &PersistentVolumeClaim) -> Option<Object> {
        let key = key_of(claim);
        let classes = self.classes.values().map(|class| &**class);
        let class = default_class::class_for(classes, self.objects.get(&key)?)?.to_owned();
        self.new_claims.insert((claim.namespace.clone(), claim.name.clone()));
        self.patch(key, &json!({"spec": {"storageClassName": class}}))
    }

    fn reserve(&mut self, volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Vec<Object> {
        let patch = json!({"spec": {"claimRef": reference(claim)}});
        let reserved = self.patch(volume_key(&volume.name), &patch);
        reserved.map_or_else(Vec::new, |volume| self.bind(volume))
    }

    /// Carries out what a plugin wants written. Returns the objects that change with it, the written
    /// one first; none for what has nothing to do with volumes.
    pub(super) fn write(&mut self, write: &Write, cluster: &Cluster) -> Vec<Object> {
        let Write { namespace, name, patch, .. } = write;
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

    /// Completes the binding of a volume to the claim that it names.
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

    /// Makes the volume of a claim that has been given a node.
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

    /// Makes a volume for the claim that the nodes of these terms can use, or all without any.
    fn make(
        &mut self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        terms: Vec<Value>,
    ) -> Vec<Object> {
        let wanted = self.objects.get(&key_of(claim)).map_or(&Value::Null, |own| &own["spec"]);
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

    /// The term for the nodes that are where `node` is, as far as the driver tells them apart.
    fn topology_of(&self, driver: &str, node: &NodeView<'_>) -> Vec<Value> {
        let places = self.topology_keys(driver, node).into_iter().filter_map(|key| {
            let value = node.label(&key)?;
            Some(json!({"key": key, "operator": "In", "values": [value]}))
        });
        let places: Vec<Value> = places.collect();
        let term = (!places.is_empty()).then(|| json!({"matchExpressions": places}));
        term.into_iter().collect()
    }

    /// The terms for the nodes that are where the class allows volumes.
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

    /// The labels by which a driver tells nodes apart. One that says nothing is taken to make
    /// volumes for a zone.
    fn topology_keys(&self, driver: &str, node: &NodeView<'_>) -> Vec<String> {
        let csi_node = ObjectKey::cluster_scoped(EventResource::CsiNode, node.name().clone());
        let drivers = self.objects.get(&csi_node).map(|own| list(&own["spec"]["drivers"]));
        let own = drivers.unwrap_or_default().iter().find(|own| own["name"] == driver);
        match own.and_then(|own| own["topologyKeys"].as_array()) {
            Some(keys) => keys.iter().map(text).collect(),
            None => vec![ZONE.to_owned()],
        }
    }

    /// Changes an object, if it is there, and gives it a new version.
    fn patch(&mut self, key: ObjectKey, patch: &Value) -> Option<Object> {
        let object = self.objects.get_mut(&key)?;
        let mut changed = Value::clone(object);
        merge_patch(&mut changed, patch);
        let version = text(&changed["metadata"]["resourceVersion"]).parse::<u64>();
        let version = version.unwrap_or_default().saturating_add(1);
        changed["metadata"]["resourceVersion"] = version.to_string().into();
        *object = changed.into();
        let ObjectKey { kind, namespace, name } = key;
        Some(Object { kind, namespace, name, object: object.clone() })
    }
}

/// The volume that is there for a claim: the one it names, one that is reserved for it, or, if it
/// does not wait for a pod, the smallest that will do.
fn volume_for<'a>(
    claim: &PersistentVolumeClaim,
    cluster: &'a Cluster,
) -> Option<&'a Arc<PersistentVolume>> {
    if let Some(name) = &claim.volume_name {
        let is_to_be_had = |own: &&Arc<PersistentVolume>| {
            own.is_for(claim)
                || own.claim_ref.is_none() && own.class == claim.class && own.suits(claim)
        };
        return cluster.volume(name).filter(is_to_be_had);
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

/// The reference from a volume to its claim.
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
