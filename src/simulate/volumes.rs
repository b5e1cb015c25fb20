//! The volume controller and the provisioners of a simulated cluster: what is asked of them for the
//! volumes of a pod is done at once.
//!
//! Nothing is made ahead of the scheduler: a claim that was not bound when the cluster was recorded,
//! and does not wait for a pod, stays as it is.

use std::collections::HashMap;
use std::sync::Arc;

use framework::storage::{BIND_COMPLETED, SELECTED_NODE};
use framework::{Cluster, EventResource, NodeView, ObjectKey, Write, merge_patch};
use serde_json::{Value, json};

use crate::wire::WatchedObject;

const ZONE: &str = "topology.kubernetes.io/zone";

/// The objects that volumes are made of, as the API server would have them.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    /// Looked up by name, never iterated.
    objects: HashMap<ObjectKey, Arc<Value>>,
}

impl Volumes {
    /// Keeps the object if volumes have to do with it.
    pub(super) fn keep(&mut self, object: &WatchedObject) {
        use EventResource as R;
        if matches!(object.kind, R::PersistentVolume | R::PersistentVolumeClaim | R::CsiNode) {
            let WatchedObject { kind, namespace, name, .. } = object;
            let key = ObjectKey::namespaced(kind.clone(), namespace.clone(), name.clone());
            self.objects.insert(key, object.object.clone());
        }
    }

    /// Carries out what a plugin wants written. Returns the objects that change with it, the written
    /// one first; none for what has nothing to do with volumes.
    pub(super) fn write(&mut self, write: &Write, cluster: &Cluster) -> Vec<WatchedObject> {
        let Write { namespace, name, patch, .. } = write;
        match &*write.resource {
            "persistentvolumes" => {
                let written = self.patch(EventResource::PersistentVolume, namespace, name, patch);
                written.map_or_else(Vec::new, |volume| self.bind(volume))
            }
            "persistentvolumeclaims" => {
                let written =
                    self.patch(EventResource::PersistentVolumeClaim, namespace, name, patch);
                written.map_or_else(Vec::new, |claim| self.provision(claim, cluster))
            }
            _ => Vec::new(),
        }
    }

    /// Completes the binding of a volume to the claim that it names.
    fn bind(&mut self, volume: WatchedObject) -> Vec<WatchedObject> {
        let claim = &volume.object["spec"]["claimRef"];
        let [namespace, name] = ["namespace", "name"].map(|field| text(&claim[field]));
        let bound = json!({
            "metadata": {"annotations": {BIND_COMPLETED: "yes"}},
            "spec": {"volumeName": &*volume.name},
            "status": {"phase": "Bound"},
        });
        let claim = self.patch(EventResource::PersistentVolumeClaim, &namespace, &name, &bound);
        let phase = json!({"status": {"phase": "Bound"}});
        let bound = self.patch(EventResource::PersistentVolume, "", &volume.name, &phase);
        [Some(volume), bound, claim].into_iter().flatten().collect()
    }

    /// Makes the volume of a claim that has been given a node.
    fn provision(&mut self, claim: WatchedObject, cluster: &Cluster) -> Vec<WatchedObject> {
        let node = text(&claim.object["metadata"]["annotations"][SELECTED_NODE]);
        let Some(node) = cluster.node_named(&node) else { return vec![claim] };
        let volume = self.volume_for(&claim, &cluster.node(node));
        self.keep(&volume);
        let mut changed = vec![claim];
        changed.extend(self.bind(volume));
        changed
    }

    /// A volume as the claim wants it, which can be used wherever the driver sees no difference to
    /// the node.
    fn volume_for(&self, claim: &WatchedObject, node: &NodeView<'_>) -> WatchedObject {
        let cluster = node.cluster();
        let class = cluster.claim(&claim.namespace, &claim.name).map_or("", |claim| &claim.class);
        let driver = cluster.storage_class(class).map_or("", |class| &class.provisioner);
        let places = self.topology_keys(driver, node).into_iter().filter_map(|key| {
            let value = node.label(&key)?;
            Some(json!({"key": key, "operator": "In", "values": [value]}))
        });
        let places: Vec<Value> = places.collect();
        let uid = text(&claim.object["metadata"]["uid"]);
        let name: Arc<str> = format!("pvc-{uid}").into();
        let wanted = &claim.object["spec"];
        let mut spec = json!({
            "capacity": wanted["resources"]["requests"],
            "accessModes": wanted["accessModes"],
            "volumeMode": wanted["volumeMode"],
            "storageClassName": class,
            "csi": {"driver": driver, "volumeHandle": &*name},
            "claimRef": {"namespace": &*claim.namespace, "name": &*claim.name, "uid": uid},
        });
        if !places.is_empty() {
            let terms = json!([{"matchExpressions": places}]);
            spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
        }
        let metadata = json!({"name": &*name, "uid": &*name});
        let object = json!({"metadata": metadata, "spec": spec});
        let kind = EventResource::PersistentVolume;
        WatchedObject { kind, namespace: "".into(), name, object: object.into() }
    }

    /// The labels by which a driver tells nodes apart. One that says nothing is taken to make
    /// volumes for a zone.
    fn topology_keys(&self, driver: &str, node: &NodeView<'_>) -> Vec<String> {
        let csi_node = ObjectKey::cluster_scoped(EventResource::CsiNode, node.name().clone());
        let drivers = self.objects.get(&csi_node).and_then(|own| own["spec"]["drivers"].as_array());
        let own = drivers.into_iter().flatten().find(|own| own["name"] == driver);
        match own.and_then(|own| own["topologyKeys"].as_array()) {
            Some(keys) => keys.iter().map(text).collect(),
            None => vec![ZONE.to_owned()],
        }
    }

    /// Changes an object, if it is there, and gives it a new version.
    fn patch(
        &mut self,
        kind: EventResource,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Option<WatchedObject> {
        let key = ObjectKey::namespaced(kind, namespace.into(), name.into());
        let object = self.objects.get_mut(&key)?;
        let mut changed = Value::clone(object);
        merge_patch(&mut changed, patch);
        let version = text(&changed["metadata"]["resourceVersion"]).parse::<u64>();
        let version = version.unwrap_or_default().saturating_add(1);
        changed["metadata"]["resourceVersion"] = version.to_string().into();
        *object = changed.into();
        let ObjectKey { kind, namespace, name } = key;
        Some(WatchedObject { kind, namespace, name, object: object.clone() })
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
